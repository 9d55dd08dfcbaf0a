package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// reader is the API server as the scheduler sees it. It answers from indexes and hands out what it holds without copying
// it deeply, so the reference pays less for reading than it would in a cluster.
//
// Only reading is implemented; solving must not write, so a call to anything else may end the process.
type reader struct {
	client.Client
	pods       *table[corev1.Pod, *corev1.Pod]
	nodes      *table[corev1.Node, *corev1.Node]
	namespaces *table[corev1.Namespace, *corev1.Namespace]
	daemonSets *table[appsv1.DaemonSet, *appsv1.DaemonSet]
	pools      *table[v1.NodePool, *v1.NodePool]
	claims     *table[v1.NodeClaim, *v1.NodeClaim]
}

// newReader knows bound pods only. Pods that wait would be in a real cache too, but all that the scheduler does with them
// is skip them, one by one.
func newReader(w *workload, bound []*corev1.Pod) *reader {
	return &reader{
		pods: newTable(bound, map[string]func(*corev1.Pod) string{
			"spec.nodeName": func(pod *corev1.Pod) string { return pod.Spec.NodeName },
		}),
		nodes: newTable(w.Nodes, map[string]func(*corev1.Node) string{
			"spec.providerID": func(node *corev1.Node) string { return node.Spec.ProviderID },
		}),
		namespaces: newTable(w.allNamespaces(), nil),
		daemonSets: newTable(w.DaemonSets, nil),
		pools:      newTable(w.Pools, nil),
		claims: newTable(w.NodeClaims, map[string]func(*v1.NodeClaim) string{
			"status.providerID": func(claim *v1.NodeClaim) string { return claim.Status.ProviderID },
		}),
	}
}

// allNamespaces adds those that the file only mentions, with the one label that every namespace has.
func (w *workload) allNamespaces() []*corev1.Namespace {
	all := append([]*corev1.Namespace{}, w.Namespaces...)
	known := map[string]bool{}
	for _, namespace := range all {
		known[namespace.Name] = true
	}
	mention := func(name string) {
		if known[name] {
			return
		}
		known[name] = true
		namespace := &corev1.Namespace{}
		namespace.Name = name
		namespace.Labels = map[string]string{corev1.LabelMetadataName: name}
		all = append(all, namespace)
	}
	for _, entries := range [][]podEntry{w.BoundPods, w.Pods} {
		for _, entry := range entries {
			mention(entry.Namespace)
		}
	}
	return all
}

func (r *reader) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	found := false
	switch object := object.(type) {
	case *corev1.Pod:
		found = r.pods.get(key, object)
	case *corev1.Node:
		found = r.nodes.get(key, object)
	case *corev1.Namespace:
		found = r.namespaces.get(key, object)
	case *appsv1.DaemonSet:
		found = r.daemonSets.get(key, object)
	case *v1.NodePool:
		found = r.pools.get(key, object)
	case *v1.NodeClaim:
		found = r.claims.get(key, object)
	}
	if !found {
		// Kinds that a workload cannot have, such as CSINodes, are not found either, as in a cluster without any.
		return apierrors.NewNotFound(schema.GroupResource{Resource: fmt.Sprintf("%T", object)}, key.Name)
	}
	return nil
}

func (r *reader) List(_ context.Context, list client.ObjectList, options ...client.ListOption) (err error) {
	asked := (&client.ListOptions{}).ApplyOptions(options)
	switch list := list.(type) {
	case *corev1.PodList:
		list.Items, err = r.pods.list(asked)
	case *corev1.NodeList:
		list.Items, err = r.nodes.list(asked)
	case *corev1.NamespaceList:
		list.Items, err = r.namespaces.list(asked)
	case *appsv1.DaemonSetList:
		list.Items, err = r.daemonSets.list(asked)
	case *v1.NodePoolList:
		list.Items, err = r.pools.list(asked)
	case *v1.NodeClaimList:
		list.Items, err = r.claims.list(asked)
	case *policyv1.PodDisruptionBudgetList:
		// A workload has none, and the disruption loop asks all the same.
		list.Items = nil
	default:
		err = fmt.Errorf("listing %T: a workload has none", list)
	}
	return err
}

type objectOf[T any] interface {
	*T
	client.Object
}

// property is a label or a field with its value. An empty namespace stands for all of them.
type property struct {
	namespace, key, value string
}

// table holds all objects of one kind in the order of the file, and lists of those that share a property.
type table[T any, P objectOf[T]] struct {
	byName      map[types.NamespacedName]P
	byNamespace map[string][]P
	byLabel     map[property][]P
	byField     map[property][]P
	fields      map[string]func(P) string
}

func newTable[T any, P objectOf[T]](objects []P, fields map[string]func(P) string) *table[T, P] {
	t := &table[T, P]{
		byName:      map[types.NamespacedName]P{},
		byNamespace: map[string][]P{},
		byLabel:     map[property][]P{},
		byField:     map[property][]P{},
		fields:      fields,
	}
	for _, object := range objects {
		t.byName[client.ObjectKeyFromObject(object)] = object
		t.insert("", object)
		if namespace := object.GetNamespace(); namespace != "" {
			t.insert(namespace, object)
		}
	}
	return t
}

func (t *table[T, P]) insert(namespace string, object P) {
	t.byNamespace[namespace] = append(t.byNamespace[namespace], object)
	for key, value := range object.GetLabels() {
		label := property{namespace, key, value}
		t.byLabel[label] = append(t.byLabel[label], object)
	}
	for key, valueOf := range t.fields {
		field := property{namespace, key, valueOf(object)}
		t.byField[field] = append(t.byField[field], object)
	}
}

func (t *table[T, P]) get(key types.NamespacedName, into P) bool {
	object, found := t.byName[key]
	if found {
		*into = *object
	}
	return found
}

func (t *table[T, P]) list(asked *client.ListOptions) ([]T, error) {
	candidates, err := t.candidates(asked)
	if err != nil {
		return nil, err
	}
	var items []T
	for _, object := range candidates {
		if t.matches(object, asked) {
			items = append(items, *object)
		}
	}
	return items, nil
}

// candidates is the shortest list that holds all that is asked for.
func (t *table[T, P]) candidates(asked *client.ListOptions) ([]P, error) {
	shortest := t.byNamespace[asked.Namespace]
	if asked.FieldSelector != nil {
		for _, wanted := range asked.FieldSelector.Requirements() {
			if t.fields[wanted.Field] == nil || wanted.Operator == selection.NotEquals {
				return nil, fmt.Errorf("listing by %s %s: there is no such index", wanted.Field, wanted.Operator)
			}
			sharing := t.byField[property{asked.Namespace, wanted.Field, wanted.Value}]
			if len(sharing) < len(shortest) {
				shortest = sharing
			}
		}
	}
	if asked.LabelSelector != nil {
		wanted, isSelectable := asked.LabelSelector.Requirements()
		if !isSelectable {
			return nil, nil
		}
		for _, label := range wanted {
			values := label.ValuesUnsorted()
			if len(values) != 1 || !isEquality(label.Operator()) {
				continue
			}
			sharing := t.byLabel[property{asked.Namespace, label.Key(), values[0]}]
			if len(sharing) < len(shortest) {
				shortest = sharing
			}
		}
	}
	return shortest, nil
}

func isEquality(operator selection.Operator) bool {
	return operator == selection.Equals || operator == selection.DoubleEquals || operator == selection.In
}

func (t *table[T, P]) matches(object P, asked *client.ListOptions) bool {
	if asked.FieldSelector != nil {
		for _, wanted := range asked.FieldSelector.Requirements() {
			if t.fields[wanted.Field](object) != wanted.Value {
				return false
			}
		}
	}
	return asked.LabelSelector == nil || asked.LabelSelector.Matches(labels.Set(object.GetLabels()))
}
