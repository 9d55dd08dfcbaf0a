package main

import (
	"context"
	"fmt"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/utils/daemonset"
	nodepoolutils "sigs.k8s.io/karpenter/pkg/utils/nodepool"
)

// world is what the reference knows of a cluster before it starts to plan.
type world struct {
	file    *workload
	options *options.Options
	clock   clock.Clock
	reader  *reader
	cluster *state.Cluster
	catalog map[string][]*cloudprovider.InstanceType
	pods    []*corev1.Pod
}

func newWorld(w *workload) (*world, error) {
	registerLabels(w)
	catalog, err := catalogFor(w)
	if err != nil {
		return nil, err
	}
	if err := checkPools(w, catalog); err != nil {
		return nil, err
	}
	bound := w.expandAll(w.BoundPods)
	built := &world{
		file:    w,
		options: optionsFor(w.Policy),
		clock:   clock.RealClock{},
		reader:  newReader(w, bound),
		catalog: catalog,
		pods:    w.expandAll(w.Pods),
	}
	// The cluster asks its provider only whether it is complete, which nobody asks here.
	built.cluster = state.NewCluster(built.clock, built.reader, nil)
	if err := built.fill(bound); err != nil {
		return nil, err
	}
	return built, nil
}

// optionsFor are the reference's defaults as far as scheduling reads them.
func optionsFor(chosen policy) *options.Options {
	return &options.Options{
		PreferencePolicy:  options.PreferencePolicy(chosen.Preferences),
		MinValuesPolicy:   options.MinValuesPolicy(chosen.MinValues),
		IgnoreDRARequests: true,
		FeatureGates:      options.FeatureGates{ReservedCapacity: true},
	}
}

func (w *world) context() context.Context {
	return options.ToContext(injection.WithControllerName(context.Background(), "provisioner"), w.options)
}

// checkPools refuses pools that the reference would leave out before it plans: a file that has one means something else
// than it says.
func checkPools(w *workload, catalog map[string][]*cloudprovider.InstanceType) error {
	known := map[string]bool{}
	for _, pool := range w.Pools {
		switch {
		case pool.Name == "" || known[pool.Name]:
			return fmt.Errorf("pool %q has no name of its own", pool.Name)
		case pool.Spec.Template.Spec.NodeClassRef == nil:
			return fmt.Errorf("pool %q has no nodeClassRef", pool.Name)
		case nodepoolutils.IsStatic(pool) || !pool.DeletionTimestamp.IsZero():
			return fmt.Errorf("pool %q is static or going away", pool.Name)
		case !pool.StatusConditions().IsTrue(status.ConditionReady):
			return fmt.Errorf("pool %q is not ready", pool.Name)
		case len(catalog[pool.Name]) == 0:
			return fmt.Errorf("pool %q has no types", pool.Name)
		}
		known[pool.Name] = true
	}
	for name := range w.PoolTypes {
		if !known[name] {
			return fmt.Errorf("poolTypes has %q, which is no pool", name)
		}
	}
	return nil
}

// fill tells the cluster state what watches would have told it.
func (w *world) fill(bound []*corev1.Pod) error {
	ctx := w.context()
	for _, claim := range w.file.NodeClaims {
		if claim.Status.ProviderID == "" {
			return fmt.Errorf("nodeClaim %q has no provider id, so the reference would wait and not plan", claim.Name)
		}
		w.cluster.UpdateNodeClaim(claim)
	}
	for _, node := range w.file.Nodes {
		if err := w.cluster.UpdateNode(ctx, node); err != nil {
			return fmt.Errorf("node %q: %w", node.Name, err)
		}
	}
	taken := map[string]bool{}
	for node := range w.cluster.Nodes() {
		if node.Node != nil {
			taken[node.Node.Name] = true
		}
	}
	for _, node := range w.file.Nodes {
		if !taken[node.Name] {
			return fmt.Errorf("node %q is not taken: the reference waits for its provider id or instance type", node.Name)
		}
	}
	for _, pod := range bound {
		if err := w.cluster.UpdatePod(ctx, pod); err != nil {
			return fmt.Errorf("bound pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	return nil
}

// daemonPods are made anew for each run: while the scheduler asks where they fit, it strikes out what they want.
func (w *world) daemonPods() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, set := range w.file.DaemonSets {
		pods = append(pods, daemonset.PodForDaemonSet(set.DeepCopy()))
	}
	return pods
}

// waitingPods are copies for the same reason, in a slice whose end the scheduler's queue cannot write behind.
func (w *world) waitingPods() []*corev1.Pod {
	pods := make([]*corev1.Pod, len(w.pods))
	for index, pod := range w.pods {
		pods[index] = pod.DeepCopy()
	}
	return pods
}

func (w *world) orderedPools() []*v1.NodePool {
	pools := make([]*v1.NodePool, len(w.file.Pools))
	for index, pool := range w.file.Pools {
		pools[index] = pool.DeepCopy()
	}
	nodepoolutils.OrderByWeight(pools)
	return pools
}
