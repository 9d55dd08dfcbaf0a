package main

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"

	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/utils/lifecycle"
)

// delayOf asks kwok itself which stage a pod is in and how long it waits there.
func delayOf(t *testing.T, pod *corev1.Pod) (string, time.Duration) {
	t.Helper()
	ctx := context.Background()
	home := home(t.TempDir())
	if err := writeKwokConfig(home); err != nil {
		t.Fatal(err)
	}
	objects, err := kwokconfig.Load(ctx, home.kwokConfig())
	if err != nil {
		t.Fatal(err)
	}
	var stages []*internalversion.Stage
	for _, object := range objects {
		if stage, is := object.(*internalversion.Stage); is && stage.Spec.ResourceRef.Kind == "Pod" {
			stages = append(stages, stage)
		}
	}
	pods, err := lifecycle.NewLifecycle(stages)
	if err != nil {
		t.Fatal(err)
	}
	event := &lifecycle.Event{Labels: pod.Labels, Annotations: pod.Annotations, Data: pod}
	stage, err := pods.Match(ctx, event)
	if err != nil || stage == nil {
		t.Fatalf("the pod matches no stage: %v", err)
	}
	delay, _, err := stage.Delay(ctx, event, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return stage.Name(), delay
}

func TestPodsTakeAsLongAsTheirAnnotationsSay(t *testing.T) {
	starting := func(annotations map[string]string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: annotations},
			Status:     corev1.PodStatus{Phase: corev1.PodPending},
		}
	}
	leaving := func(grace time.Duration, annotations map[string]string) *corev1.Pod {
		pod := starting(annotations)
		pod.Status.Phase = corev1.PodRunning
		pod.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(grace)}
		return pod
	}
	annotated := func(key, value string) map[string]string { return map[string]string{key: value} }

	for _, test := range []struct {
		promise  string
		pod      *corev1.Pod
		stage    string
		from, to time.Duration
	}{
		{"ready at once", starting(nil), "pod-ready", 0, 0},
		{"ready later", starting(annotated(readyDelayAnnotation, "2s")), "pod-ready", 2 * time.Second, 2 * time.Second},
		{"gone at once", leaving(time.Minute, nil), "pod-delete", 0, 0},
		{"gone later", leaving(time.Minute, annotated(terminationDelayAnnotation, "1.5s")), "pod-delete", 1500 * time.Millisecond, 1500 * time.Millisecond},
		{"compound durations", leaving(time.Hour, annotated(terminationDelayAnnotation, "1m30s250ms")), "pod-delete", 90250 * time.Millisecond, 90250 * time.Millisecond},
		{"no later than the grace period", leaving(10*time.Second, annotated(terminationDelayAnnotation, "1h")), "pod-delete", 5 * time.Second, 10 * time.Second},
		{"overdue", leaving(-time.Minute, annotated(terminationDelayAnnotation, "1h")), "pod-delete", -2 * time.Minute, 0},
	} {
		t.Run(test.promise, func(t *testing.T) {
			stage, delay := delayOf(t, test.pod)
			if stage != test.stage || delay < test.from || delay > test.to {
				t.Errorf("%s after %s, want %s after %s to %s", stage, delay, test.stage, test.from, test.to)
			}
		})
	}
}
