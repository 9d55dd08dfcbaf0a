package main

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
)

// errorLengthMax keeps the answer readable: an error names every type that did not do.
const errorLengthMax = 500

// plan is the reference's answer in words of our own, as a judge needs it.
type plan struct {
	// In the order in which pods were seated, across all nodes and claims.
	Placements []placement     `json:"placements"`
	Claims     []claimEntry    `json:"claims"`
	Unplaced   []unplacedEntry `json:"unplaced"`
}

// placement has either a node or a claim.
type placement struct {
	Pod   string `json:"pod"`
	Node  string `json:"node,omitempty"`
	Claim *int   `json:"claim,omitempty"`
}

type claimEntry struct {
	Pool string `json:"pool"`
	// Cheapest first.
	Types        []string            `json:"types"`
	Requirements []requirementEntry  `json:"requirements"`
	Labels       map[string]string   `json:"labels"`
	Pods         []string            `json:"pods"`
	Requests     corev1.ResourceList `json:"requests"`
}

type unplacedEntry struct {
	Pod   string `json:"pod"`
	Error string `json:"error"`
}

// planOf says where pods went. The queue is the slice that was solved, depths the lengths of the scheduler's queue.
func (w *world) planOf(results scheduling.Results, queue []*corev1.Pod, depths []int) (*plan, error) {
	seated, err := seatingOrder(queue, depths)
	if err != nil {
		return nil, fmt.Errorf("ordering placements: %w", err)
	}
	if err := checkOrder(results, seated); err != nil {
		return nil, fmt.Errorf("ordering placements: %w", err)
	}
	// The reference sorts types by price and cuts the list as its last step. A claim that loses its minimum numbers of
	// values by that is dropped, and its pods with it.
	results = results.TruncateInstanceTypes(w.context(), scheduling.MaxInstanceTypes)
	answer := &plan{Placements: []placement{}, Claims: []claimEntry{}, Unplaced: []unplacedEntry{}}
	places := map[types.UID]placement{}
	for _, node := range results.ExistingNodes {
		for _, pod := range node.Pods {
			places[pod.UID] = placement{Pod: podName(pod), Node: node.Name()}
		}
	}
	for index, claim := range results.NewNodeClaims {
		for _, pod := range claim.Pods {
			places[pod.UID] = placement{Pod: podName(pod), Claim: &index}
		}
		answer.Claims = append(answer.Claims, claimOf(claim))
	}
	for _, pod := range seated {
		if place, isPlaced := places[pod.UID]; isPlaced {
			answer.Placements = append(answer.Placements, place)
		}
	}
	answer.Unplaced = unplacedOf(results, places, queue)
	return answer, nil
}

// checkOrder holds the order that was learned from the queue against what each node and claim says of its own pods.
func checkOrder(results scheduling.Results, seated []*corev1.Pod) error {
	turns := map[types.UID]int{}
	for turn, pod := range seated {
		turns[pod.UID] = turn
	}
	count := 0
	check := func(pods []*corev1.Pod) error {
		last := -1
		for _, pod := range pods {
			turn, isSeated := turns[pod.UID]
			if !isSeated || turn <= last {
				return fmt.Errorf("pod %s is not where the queue says", podName(pod))
			}
			last = turn
		}
		count += len(pods)
		return nil
	}
	for _, node := range results.ExistingNodes {
		if err := check(node.Pods); err != nil {
			return err
		}
	}
	for _, claim := range results.NewNodeClaims {
		if err := check(claim.Pods); err != nil {
			return err
		}
	}
	if count != len(seated) {
		return fmt.Errorf("%d pods are placed and %d were seated", count, len(seated))
	}
	return nil
}

func claimOf(claim *scheduling.NodeClaim) claimEntry {
	entry := claimEntry{
		Pool: claim.NodePoolName,
		// Empty and absent must not look different.
		Types: make([]string, 0, len(claim.InstanceTypeOptions)),
		Pods:  make([]string, 0, len(claim.Pods)),
		// Requirements as scheduling left them; the list of types would be one of them when the claim is written.
		Requirements: requirementsOf(claim),
		Requests:     claim.Spec.Resources.Requests,
	}
	for _, instanceType := range claim.InstanceTypeOptions {
		entry.Types = append(entry.Types, instanceType.Name)
	}
	for _, pod := range claim.Pods {
		entry.Pods = append(entry.Pods, podName(pod))
	}
	// This is where the reference chooses values for labels of the user's own. Without types it does not sort them again.
	claim.InstanceTypeOptions = nil
	entry.Labels = claim.ToNodeClaim().Labels
	return entry
}

// requirementsOf leaves out the two that stand for the future of a node and are not part of what is asked for.
func requirementsOf(claim *scheduling.NodeClaim) []requirementEntry {
	entries := []requirementEntry{}
	for _, requirement := range claim.Requirements.NodeSelectorRequirements() {
		if requirement.Key == v1.NodeRegisteredLabelKey || requirement.Key == v1.NodeInitializedLabelKey {
			continue
		}
		values := slices.Clone(requirement.Values)
		slices.Sort(values)
		entries = append(entries, requirementEntry{
			Key: requirement.Key, Operator: string(requirement.Operator), Values: values, MinValues: requirement.MinValues,
		})
	}
	slices.SortFunc(entries, func(a, b requirementEntry) int {
		return strings.Compare(a.Key+" "+a.Operator, b.Key+" "+b.Operator)
	})
	return entries
}

// unplacedOf names every pod without a place in the order of the queue; when time ran out, not all of them have an error.
func unplacedOf(results scheduling.Results, places map[types.UID]placement, queue []*corev1.Pod) []unplacedEntry {
	reasons := map[types.UID]error{}
	for pod, reason := range results.PodErrors {
		reasons[pod.UID] = reason
	}
	entries := []unplacedEntry{}
	for _, pod := range queue {
		if _, isPlaced := places[pod.UID]; isPlaced {
			continue
		}
		text := "time ran out"
		if reason := reasons[pod.UID]; reason != nil {
			text = reason.Error()
		}
		if len(text) > errorLengthMax {
			text = strings.ToValidUTF8(text[:errorLengthMax], "") + " ..."
		}
		entries = append(entries, unplacedEntry{Pod: podName(pod), Error: text})
	}
	return entries
}
