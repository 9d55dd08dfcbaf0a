package main

import (
	"context"
	"fmt"

	"github.com/awslabs/operatorpkg/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
)

// provider is the cloud as the disruption loop sees it: what is on sale, and which classes of nodes are its own. Deciding
// must not touch machines, so a call to anything else may end the process.
//
// It counts how often it is asked what is on sale: once for each pool whenever candidates are gathered, and once for each
// pool in every scheduling simulation. That is how simulations are counted, see disrupt.go.
type provider struct {
	cloudprovider.CloudProvider
	catalog map[string][]*cloudprovider.InstanceType
	classes []status.Object
	asked   int
}

func newProvider(w *workload, catalog map[string][]*cloudprovider.InstanceType) *provider {
	built := &provider{catalog: catalog}
	known := map[schema.GroupKind]bool{}
	for _, pool := range w.Pools {
		kind := pool.Spec.Template.Spec.NodeClassRef.GroupKind()
		if !known[kind] {
			known[kind] = true
			built.classes = append(built.classes, newNodeClass(kind))
		}
	}
	return built
}

func (p *provider) Name() string { return "bench" }

func (p *provider) GetSupportedNodeClasses() []status.Object { return p.classes }

func (p *provider) GetInstanceTypes(_ context.Context, pool *v1.NodePool) ([]*cloudprovider.InstanceType, error) {
	p.asked++
	types, isKnown := p.catalog[pool.Name]
	if !isKnown {
		return nil, fmt.Errorf("pool %q has no types", pool.Name)
	}
	return types, nil
}

// nodeClass is a class of which only the kind is ever asked for.
type nodeClass struct {
	*unstructured.Unstructured
}

func newNodeClass(kind schema.GroupKind) nodeClass {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind.WithVersion("v1"))
	return nodeClass{object}
}

func (nodeClass) GetConditions() []status.Condition { return nil }

func (nodeClass) SetConditions([]status.Condition) {}

func (c nodeClass) StatusConditions(...status.ForOption) status.ConditionSet {
	return status.NewReadyConditions().For(c)
}
