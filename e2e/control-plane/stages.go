package main

import (
	"bytes"
	"fmt"
	"os"

	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	nodeheartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	"sigs.k8s.io/kwok/pkg/apis/v1alpha1"
	"sigs.k8s.io/yaml"
)

// Annotations on a pod that make kwok as slow as a real container would be. Both take a Go duration such as "1m30s".
//
// The clock of either starts again whenever the pod changes while it waits, because kwok then chooses its stage anew.
const (
	readyDelayAnnotation       = "dovetail.dev/ready-delay"
	terminationDelayAnnotation = "dovetail.dev/termination-delay"
)

// readyDelay is a jq expression; kwok reads its result as a Go duration, and nothing as no delay.
const readyDelay = `.metadata.annotations["` + readyDelayAnnotation + `"]`

// terminationDelay ends the wait at the deletion timestamp at the latest, as a kubelet kills containers when the grace
// period is over, and an autoscaler that shortens the grace period must see the pod go. kwok itself would wait on. The
// minimum needs a number, so the duration is taken apart here.
const terminationDelay = `
([.metadata.annotations["` + terminationDelayAnnotation + `"] // "" | scan("([0-9.]+)(ms|s|m|h)")
  | (.[0] | tonumber) * {"ms": 1, "s": 1000, "m": 60000, "h": 3600000}[.[1]]] | add // 0) as $asked
| ((.metadata.deletionTimestamp | fromdate) - now) * 1000 as $grace
| [$asked, $grace] | min | floor | tostring + "ms"`

// kwokOptions makes kwok the kubelet of every node. The lease is a kubelet's. A node with this annotation keeps the status that
// somebody wrote, so that it can be ill; without it kwok would make it ready again at once.
const kwokOptions = `apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  manageAllNodes: true
  disregardStatusWithAnnotationSelector: dovetail.dev/status=custom
  nodeLeaseDurationSeconds: 40
  nodePlayStageParallelism: 16
  podPlayStageParallelism: 16
  nodeLeaseParallelism: 16
`

func (h home) kwokConfig() string { return h.in("kwok.yaml") }

func writeKwokConfig(home home) error {
	config, err := kwokConfig()
	if err != nil {
		return err
	}
	if err := os.WriteFile(home.kwokConfig(), config, 0o600); err != nil {
		return fmt.Errorf("writing kwok's configuration: %w", err)
	}
	return nil
}

// kwokConfig takes kwok's own stages and only adds the delays, so that a newer kwok brings its newer stages.
func kwokConfig() ([]byte, error) {
	ready, err := delayed(podfast.DefaultPodReady, readyDelay)
	if err != nil {
		return nil, err
	}
	remove, err := delayed(podfast.DefaultPodDelete, terminationDelay)
	if err != nil {
		return nil, err
	}
	return bytes.Join([][]byte{
		[]byte(kwokOptions),
		[]byte(nodefast.DefaultNodeInit),
		[]byte(nodeheartbeat.DefaultNodeHeartbeatWithLease),
		ready,
		[]byte(podfast.DefaultPodComplete),
		remove,
	}, []byte("\n---\n")), nil
}

// delayed gives a stage the delay that a jq expression computes from the object.
func delayed(text, expression string) ([]byte, error) {
	var stage v1alpha1.Stage
	if err := yaml.UnmarshalStrict([]byte(text), &stage); err != nil {
		return nil, fmt.Errorf("reading a stage of kwok: %w", err)
	}
	stage.Spec.Delay = &v1alpha1.StageDelay{
		DurationFrom: &v1alpha1.ExpressionFrom{JQ: &v1alpha1.ExpressionJQ{Expression: expression}},
	}
	out, err := yaml.Marshal(stage)
	if err != nil {
		return nil, fmt.Errorf("writing the stage %s: %w", stage.Name, err)
	}
	return out, nil
}
