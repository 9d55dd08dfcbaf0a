package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

func TestAFileThatBothSidesCouldReadDifferentlyIsRefused(t *testing.T) {
	good, err := os.ReadFile(sampleFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []struct{ old, new, complaint string }{
		{`"format": 1`, `"format": 2`, "format 2"},
		{`"preferences": "Respect"`, `"preferences": "Maybe"`, "policy.preferences"},
		{`"tolerations"`, `"tolerationz"`, "unknown field"},
		{`"template": 2, "name": "web-1"`, `"template": 9, "name": "web-1"`, "template 9"},
		{`"name": "web-2"`, `"name": "web-1"`, "shares its name"},
		{`"node": "node-1"`, `"node": "node-2"`, "no node"},
		{`"price": "0.097"`, `"price": "9.7e-2"`, "price"},
		{`"price": "0.097"`, `"price": "0.0970000000001"`, "price"},
		{`"weight": 10`, `"weight": 10, "replicas": 3`, "static"},
		{`"type": "Ready", "status": "True", "reason"`, `"type": "Ready", "status": "False", "reason"`, "not ready"},
		{`"batch": ["compact-2"`, `"batch": ["compact-3"`, "not there"},
		{`"providerID": "bench:///zone-a/1"}`, `"providerID": ""}`, "not taken"},
	} {
		text := strings.Replace(string(good), change.old, change.new, 1)
		if text == string(good) {
			t.Fatalf("the sample has no %s", change.old)
		}
		path := filepath.Join(t.TempDir(), "changed.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		w, _, err := readWorkload(path)
		if err == nil {
			_, err = newWorld(w)
		}
		if err == nil || !strings.Contains(err.Error(), change.complaint) {
			t.Errorf("%s: the complaint is %v", change.new, err)
		}
	}
}

func TestAnEntryReplacesWhatItNames(t *testing.T) {
	w := sample(t)
	plain := w.expand(podEntry{Template: 5, Name: "a", Namespace: "b", UID: "c"})
	if plain.Name != "a" || plain.Namespace != "b" || plain.UID != "c" || plain.Labels["app"] != "job" || plain.Spec.NodeName != "" {
		t.Errorf("it is %v", plain)
	}
	labelled := w.expand(podEntry{Template: 5, Labels: map[string]string{"index": "1"}, Node: "n"})
	if len(labelled.Labels) != 1 || labelled.Labels["index"] != "1" || labelled.Spec.NodeName != "n" {
		t.Errorf("it is %v", labelled)
	}
	labelled.Spec.Containers[0].Name = "changed"
	if w.PodTemplates[5].Spec.Containers[0].Name == "changed" {
		t.Error("a pod shares its containers with its template")
	}
}

func TestTheReaderAnswersFromIndexes(t *testing.T) {
	w := sample(t)
	r := newReader(w, w.expandAll(w.BoundPods))
	list := func(options ...client.ListOption) []string {
		var pods corev1.PodList
		if err := r.List(context.Background(), &pods, options...); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, pod := range pods.Items {
			names = append(names, podName(&pod))
		}
		return names
	}
	check := func(got []string, wanted ...string) {
		t.Helper()
		if !slices.Equal(got, wanted) {
			t.Errorf("got %v, not %v", got, wanted)
		}
	}
	check(list(), "system/agent-1", "shop/web-0", "shop/web-00")
	check(list(client.InNamespace("shop")), "shop/web-0", "shop/web-00")
	check(list(client.MatchingFields{"spec.nodeName": "node-1"}, client.InNamespace("system")), "system/agent-1")
	check(list(client.MatchingFields{"spec.nodeName": "node-2"}))
	check(list(client.MatchingLabels{"app": "web"}, client.InNamespace("shop")), "shop/web-0", "shop/web-00")
	check(list(client.MatchingLabels{"app": "web"}, client.InNamespace("system")))
	check(list(client.HasLabels{"app"}, client.InNamespace("system")), "system/agent-1")

	var pods corev1.PodList
	if err := r.List(context.Background(), &pods, client.MatchingFields{"status.phase": "Running"}); err == nil {
		t.Error("it answers without an index")
	}
	var claims v1.NodeClaimList
	err := r.List(context.Background(), &claims, client.MatchingFields{"status.providerID": "bench:///zone-a/1"})
	if err != nil || len(claims.Items) != 1 {
		t.Errorf("claims by provider id are %v, %v", claims.Items, err)
	}
	var node corev1.Node
	err = r.Get(context.Background(), types.NamespacedName{Name: "node-1"}, &node)
	if err != nil || node.Spec.ProviderID != "bench:///zone-a/1" {
		t.Errorf("the node is %v, %v", node.Name, err)
	}
	if err := r.Get(context.Background(), types.NamespacedName{Name: "node-1"}, &storagev1.CSINode{}); !apierrors.IsNotFound(err) {
		t.Errorf("a kind that is not there gives %v", err)
	}
	var namespaces corev1.NamespaceList
	selector := client.MatchingLabels{corev1.LabelMetadataName: "shop"}
	if err := r.List(context.Background(), &namespaces, selector); err != nil || len(namespaces.Items) != 1 {
		t.Errorf("namespaces are %v, %v", namespaces.Items, err)
	}
}

func TestTheQueueTellsWhoWasSeatedWhen(t *testing.T) {
	pod := func(name string) *corev1.Pod {
		p := &corev1.Pod{}
		p.Name = name
		return p
	}
	queue := []*corev1.Pod{pod("a"), pod("b"), pod("c")}
	for _, row := range []struct {
		depths []int
		wanted string
	}{
		{[]int{3, 2, 1, 0}, "abc"},
		{[]int{3, 3, 2, 1, 0}, "bca"},
		{[]int{3, 2, 2, 1, 1}, "ac"},
		{[]int{3, 3, 3, 3}, ""},
		{[]int{3, 2}, "a"},
		{[]int{3}, ""},
		{nil, ""},
		{[]int{3, 1}, "error"},
		{[]int{2, 1}, "error"},
	} {
		seated, err := seatingOrder(queue, row.depths)
		names := ""
		for _, one := range seated {
			names += one.Name
		}
		if err != nil {
			names = "error"
		}
		if names != row.wanted {
			t.Errorf("%v gives %q, not %q", row.depths, names, row.wanted)
		}
	}
}

func TestTheFastestDegreeOfParallelismIsReported(t *testing.T) {
	first, second, third := &plan{}, &plan{}, &plan{}
	r := &report{}
	r.take(run{Parallelism: 1, Seconds: 4, PeakMB: 9}, first)
	r.take(run{Parallelism: 2, Seconds: 3, PeakMB: 5}, second)
	r.take(run{Parallelism: 5, Seconds: 600, IsCapped: true, PeakMB: 99}, third)
	r.take(run{Parallelism: 2, Seconds: 5, PeakMB: 6}, third)
	if r.Parallelism != 2 || !slices.Equal(r.Seconds, []float64{3, 5}) || r.PeakMB != 6 || r.IsCapped || len(r.Runs) != 4 {
		t.Errorf("the report is %+v", r)
	}
	if r.Plan != third {
		t.Error("the plan is not of the last run")
	}
}

func TestARunIsRepeatedByHowLongItTook(t *testing.T) {
	for seconds, wanted := range map[float64]int{0.1: 5, 9.9: 5, 10: 3, 59: 3, 60: 1, 600: 1} {
		if got := runsFor(settings{}, seconds); got != wanted {
			t.Errorf("%v seconds are run %d times", seconds, got)
		}
	}
	if got := runsFor(settings{runs: 2}, 100); got != 2 {
		t.Errorf("two runs are %d", got)
	}
}

func TestSettingsAreRead(t *testing.T) {
	chosen, err := settingsFrom("1,2,5", "auto", time.Minute, time.Minute)
	if err != nil || !slices.Equal(chosen.parallelism, []int{1, 2, 5}) || chosen.runs != 0 {
		t.Errorf("%v %v", chosen, err)
	}
	for _, row := range []struct {
		parallelism, runs string
		limit, tries      time.Duration
	}{{"0", "auto", 1, 1}, {"", "auto", 1, 1}, {"1", "few", 1, 1}, {"1", "0", 1, 1}, {"1", "1", 0, 1}, {"1", "1", 1, 0}} {
		if _, err := settingsFrom(row.parallelism, row.runs, row.limit, row.tries); err == nil {
			t.Errorf("%v is accepted", row)
		}
	}
}
