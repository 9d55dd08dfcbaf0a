//! What every run puts into its cluster.

/// A pool without consolidation: only growing is measured.
pub(super) const POOL: &str = "
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements:
        - {key: kubernetes.io/os, operator: In, values: [linux]}
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: karpenter.kwok.sh/instance-size, operator: Lt, values: [\"32\"]}
  disruption: {consolidateAfter: Never, budgets: [{nodes: 100%}]}
";

pub(super) const SELECTOR: &str = "app=web";

/// Pods of one cpu and 256Mi.
pub(super) fn deployment(pods: usize) -> String {
    format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, namespace: default}}
spec:
  replicas: {pods}
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      containers:
        - {{name: web, image: web, resources: {{requests: {{cpu: '1', memory: 256Mi}}}}}}
"
    )
}

/// Pods that go onto each node of the floor: what a kwok machine of 16 cpu has room for.
const PODS_PER_NODE: usize = 15;

/// Nodes with room for so many pods, as the reference would buy them.
pub(super) fn nodes(pods: usize) -> (usize, String) {
    let count = pods.div_ceil(PODS_PER_NODE);
    let node = |number: usize| {
        format!(
            "
apiVersion: v1
kind: Node
metadata:
  name: floor-{number}
  labels: {{kubernetes.io/hostname: floor-{number}, kubernetes.io/os: linux, kubernetes.io/arch: amd64}}
  annotations: {{kwok.x-k8s.io/node: fake}}
status:
  capacity: {{cpu: '16', memory: 32Gi, pods: '256'}}
  allocatable: {{cpu: 15900m, memory: 32Gi, pods: '256'}}
"
        )
    };
    (count, (0..count).map(node).collect::<Vec<_>>().join("---"))
}
