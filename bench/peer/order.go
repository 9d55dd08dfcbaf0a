package main

import (
	"fmt"

	"github.com/awslabs/operatorpkg/metrics"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
)

// queueWatch learns the order in which pods were seated. The scheduler says which pods share a node, but not in which
// order pods of different nodes came, and a spread or an affinity can only be judged in that order. It does publish the
// length of its queue before each attempt: a pod that was seated leaves the queue shorter, one that was not goes back to
// its end.
type queueWatch struct {
	metrics.GaugeMetric
	depths []int
}

// watchQueue takes the place of the gauge until it is told to leave.
func watchQueue(pods int) *queueWatch {
	watch := &queueWatch{GaugeMetric: scheduling.QueueDepth, depths: make([]int, 0, 2*pods+2)}
	scheduling.QueueDepth = watch
	return watch
}

func (w *queueWatch) leave() {
	scheduling.QueueDepth = w.GaugeMetric
}

func (w *queueWatch) Set(value float64, labels map[string]string) {
	w.depths = append(w.depths, int(value))
	w.GaugeMetric.Set(value, labels)
}

// seatingOrder replays the queue. The scheduler sorts the slice that it is given, so after solving it is the queue as it
// was at the start.
func seatingOrder(queue []*corev1.Pod, depths []int) ([]*corev1.Pod, error) {
	queue = append([]*corev1.Pod{}, queue...)
	seated := make([]*corev1.Pod, 0, len(queue))
	for attempt := 0; attempt+1 < len(depths); attempt++ {
		if depths[attempt] != len(queue) || len(queue) == 0 {
			return nil, fmt.Errorf("attempt %d: the queue is said to hold %d pods, not %d", attempt, depths[attempt], len(queue))
		}
		tried := queue[0]
		queue = queue[1:]
		switch depths[attempt+1] {
		case len(queue):
			seated = append(seated, tried)
		case len(queue) + 1:
			queue = append(queue, tried)
		default:
			return nil, fmt.Errorf("attempt %d: the queue went from %d to %d pods", attempt, depths[attempt], depths[attempt+1])
		}
	}
	return seated, nil
}
