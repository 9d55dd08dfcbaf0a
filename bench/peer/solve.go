package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/options"
)

// run is one timed run, as it is reported.
type run struct {
	Parallelism int     `json:"parallelism"`
	Seconds     float64 `json:"seconds"`
	// Whether time ran out; then the plan holds what had been placed by then.
	IsCapped    bool    `json:"capped"`
	CopySeconds float64 `json:"copySeconds"`
	PeakMB      float64 `json:"peakMB"`
}

// silence takes the events that the scheduler publishes.
type silence struct{}

func (silence) Publish(...events.Event) {}

// solve plans once. Nothing that an earlier run has touched is used again. What is overdue is told so: the scheduler looks
// at the clock between pods, and not at all while it counts topologies.
func (w *world) solve(parallelism int, limit time.Duration, overdue func()) (run, *plan, error) {
	started := time.Now()
	nodes := w.cluster.DeepCopyNodes().Active()
	pools, daemons, pods := w.orderedPools(), w.daemonPods(), w.waitingPods()
	watch := watchQueue(len(pods))
	defer watch.leave()
	done := run{Parallelism: parallelism, CopySeconds: time.Since(started).Seconds()}

	debug.FreeOSMemory()
	memory, err := startPeak()
	if err != nil {
		return run{}, nil, err
	}
	ctx, cancel := context.WithTimeout(w.context(), limit)
	defer cancel()
	watchdog := time.AfterFunc(limit+grace(limit), overdue)
	defer watchdog.Stop()

	started = time.Now()
	chosen := w.schedulerOptions(parallelism)
	topology, err := scheduling.NewTopology(ctx, w.reader, w.cluster, nodes, pools, w.catalog, pods, chosen...)
	if err != nil {
		return run{}, nil, fmt.Errorf("counting topologies: %w", err)
	}
	scheduler := scheduling.NewScheduler(
		ctx, w.reader, pools, w.cluster, nodes, topology, w.catalog, daemons, silence{}, w.clock, nil, nil, chosen...)
	results, err := scheduler.Solve(ctx, pods)
	done.Seconds = time.Since(started).Seconds()
	watchdog.Stop()

	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return run{}, nil, fmt.Errorf("solving: %w", err)
	}
	done.IsCapped = err != nil
	if done.PeakMB, err = memory.grownMB(); err != nil {
		return run{}, nil, err
	}
	answer, err := w.planOf(results, pods, watch.depths)
	return done, answer, err
}

// grace is how long a run may be over its time before nobody waits for it any more.
func grace(limit time.Duration) time.Duration {
	return max(limit/10, 5*time.Second)
}

// schedulerOptions are those of the reference's provisioning loop.
func (w *world) schedulerOptions(parallelism int) []scheduling.Options {
	chosen := []scheduling.Options{
		scheduling.DisableReservedCapacityFallback,
		scheduling.NumConcurrentReconciles(parallelism),
		scheduling.MinValuesPolicy(w.options.MinValuesPolicy),
	}
	if w.options.PreferencePolicy == options.PreferencePolicyIgnore {
		chosen = append(chosen, scheduling.IgnorePreferences)
	}
	return chosen
}

func podName(pod *corev1.Pod) string {
	return pod.Namespace + "/" + pod.Name
}
