package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// formatVersion is the only version of the file that this harness reads.
const formatVersion = 1

// workload is the file as it is written. Everything that exists in a cluster is a plain object of the Kubernetes API, so
// that each side reads it with the code that it reads a cluster with.
type workload struct {
	Format             int                 `json:"format"`
	Name               string              `json:"name"`
	Policy             policy              `json:"policy"`
	WellKnownLabels    []string            `json:"wellKnownLabels,omitempty"`
	ReservationIDLabel string              `json:"reservationIdLabel,omitempty"`
	Types              []typeEntry         `json:"types"`
	Pools              []*v1.NodePool      `json:"pools"`
	PoolTypes          map[string][]string `json:"poolTypes,omitempty"`
	Namespaces         []*corev1.Namespace `json:"namespaces,omitempty"`
	NodeClaims         []*v1.NodeClaim     `json:"nodeClaims,omitempty"`
	Nodes              []*corev1.Node      `json:"nodes,omitempty"`
	DaemonSets         []*appsv1.DaemonSet `json:"daemonSets,omitempty"`
	PodTemplates       []*corev1.Pod       `json:"podTemplates"`
	BoundPods          []podEntry          `json:"boundPods,omitempty"`
	Pods               []podEntry          `json:"pods"`
}

type policy struct {
	Preferences string `json:"preferences"`
	MinValues   string `json:"minValues"`
}

type typeEntry struct {
	Name         string              `json:"name"`
	Requirements []requirementEntry  `json:"requirements"`
	Capacity     corev1.ResourceList `json:"capacity"`
	Overhead     corev1.ResourceList `json:"overhead"`
	Offerings    []offeringEntry     `json:"offerings"`
}

type requirementEntry struct {
	Key       string   `json:"key"`
	Operator  string   `json:"operator"`
	Values    []string `json:"values,omitempty"`
	MinValues *int     `json:"minValues,omitempty"`
}

type offeringEntry struct {
	Zone                string `json:"zone"`
	CapacityType        string `json:"capacityType"`
	Price               string `json:"price"`
	Available           bool   `json:"available"`
	ReservationID       string `json:"reservationId,omitempty"`
	ReservationCapacity int    `json:"reservationCapacity,omitempty"`
}

// podEntry is a pod by its template: 100,000 of them differ in little more than their names.
type podEntry struct {
	Template  int       `json:"template"`
	Name      string    `json:"name"`
	Namespace string    `json:"namespace"`
	UID       types.UID `json:"uid"`
	// Nil leaves the template's labels alone; anything else replaces all of them.
	Labels map[string]string `json:"labels,omitempty"`
	Node   string            `json:"node,omitempty"`
}

// readWorkload reads a file and says which bytes it has read, so that two sides can show that they solved the same.
func readWorkload(path string) (*workload, string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, "", err
	}
	sum := sha256.Sum256(text)
	decoder := json.NewDecoder(bytes.NewReader(text))
	// A field that one side drops in silence would make the two sides solve different problems.
	decoder.DisallowUnknownFields()
	parsed := &workload{}
	if err := decoder.Decode(parsed); err != nil {
		return nil, "", fmt.Errorf("reading %s: %w", path, err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, "", fmt.Errorf("reading %s: something follows the document", path)
	}
	if err := parsed.check(); err != nil {
		return nil, "", fmt.Errorf("reading %s: %w", path, err)
	}
	return parsed, hex.EncodeToString(sum[:]), nil
}

func (w *workload) check() error {
	if w.Format != formatVersion {
		return fmt.Errorf("format %d is not %d", w.Format, formatVersion)
	}
	if w.Name == "" {
		return fmt.Errorf("it has no name")
	}
	if w.Policy.Preferences != "Respect" && w.Policy.Preferences != "Ignore" {
		return fmt.Errorf("policy.preferences %q is neither Respect nor Ignore", w.Policy.Preferences)
	}
	if w.Policy.MinValues != "Strict" && w.Policy.MinValues != "BestEffort" {
		return fmt.Errorf("policy.minValues %q is neither Strict nor BestEffort", w.Policy.MinValues)
	}
	for index, template := range w.PodTemplates {
		if template == nil || template.Name != "" || template.UID != "" || template.Spec.NodeName != "" {
			return fmt.Errorf("podTemplates[%d] is absent, or has a name, uid or node that only its pods can have", index)
		}
	}
	return w.checkPods()
}

func (w *workload) checkPods() error {
	nodes := map[string]bool{}
	for _, node := range w.Nodes {
		nodes[node.Name] = true
	}
	names, uids := map[string]bool{}, map[types.UID]bool{}
	check := func(entry podEntry) error {
		name := entry.Namespace + "/" + entry.Name
		switch {
		case entry.Name == "" || entry.Namespace == "" || entry.UID == "":
			return fmt.Errorf("pod %q lacks a name, namespace or uid", name)
		case entry.Template < 0 || entry.Template >= len(w.PodTemplates):
			return fmt.Errorf("pod %s has template %d of %d", name, entry.Template, len(w.PodTemplates))
		case names[name] || uids[entry.UID]:
			return fmt.Errorf("pod %s shares its name or uid with another one", name)
		}
		names[name], uids[entry.UID] = true, true
		return nil
	}
	for _, entry := range w.BoundPods {
		if err := check(entry); err != nil {
			return err
		}
		if !nodes[entry.Node] {
			return fmt.Errorf("pod %s/%s is bound to %q, which is no node", entry.Namespace, entry.Name, entry.Node)
		}
	}
	for _, entry := range w.Pods {
		if err := check(entry); err != nil {
			return err
		}
		if entry.Node != "" {
			return fmt.Errorf("pod %s/%s waits and is bound to %q", entry.Namespace, entry.Name, entry.Node)
		}
	}
	return nil
}

// expand makes a pod of its own: the scheduler writes into selectors of pods, so no two may share one.
func (w *workload) expand(entry podEntry) *corev1.Pod {
	pod := w.PodTemplates[entry.Template].DeepCopy()
	pod.Name, pod.Namespace, pod.UID = entry.Name, entry.Namespace, entry.UID
	if entry.Labels != nil {
		pod.Labels = make(map[string]string, len(entry.Labels))
		for key, value := range entry.Labels {
			pod.Labels[key] = value
		}
	}
	if entry.Node != "" {
		pod.Spec.NodeName = entry.Node
	}
	return pod
}

func (w *workload) expandAll(entries []podEntry) []*corev1.Pod {
	// The scheduler's queue grows at the end of the slice that it is given; an exact capacity keeps what is in front.
	pods := make([]*corev1.Pod, len(entries))
	for index, entry := range entries {
		pods[index] = w.expand(entry)
	}
	return pods
}
