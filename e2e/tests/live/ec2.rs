//! Manifests for AWS on the simulated cloud that sells what EC2 sells.

use e2e::{Cluster, Dovetail, Replica};
use serde_json::{Value, json};

use crate::stage::{Stage, deployment, merged};

fn stage() -> Stage {
    let cluster = Cluster::start().unwrap();
    Dovetail::apply_crds(&cluster, "aws").unwrap();
    let stage = Stage { cluster };
    stage.apply(
        &json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"}, "spec": {
            "role": "node-role",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
            "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
        }}),
    );
    stage
}

fn pool(name: &str, spec: Value) -> Value {
    let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {"disruption": {"consolidateAfter": "Never"}, "template": {"spec": merged(json!({"nodeClassRef": class}), spec)}},
    })
}

fn node_of(stage: &Stage, app: &str) -> Value {
    let pods = stage.items(&["pods", &format!("--selector=app={app}")]);
    stage.get(&["node", pods[0]["spec"]["nodeName"].as_str().unwrap()])
}

#[test]
fn a_pod_gets_its_gpu_and_another_a_machine_within_the_pools_requirements() {
    let stage = stage();
    stage.apply(&pool(
        "gpu",
        json!({
            "requirements": [{"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "Gt", "values": ["0"]}],
            "taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
        }),
    ));
    stage.apply(&pool(
        "general",
        json!({"requirements": [
            {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
            {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["5"]},
            {"key": "topology.kubernetes.io/zone", "operator": "NotIn", "values": ["us-east-1a", "us-east-1b"]},
            {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
        ]}),
    ));
    let live = Replica::start(&stage.cluster, &["--catalog", "ec2:us-east-1"]).unwrap();
    let gpu = deployment("train", 1, json!({"cpu": "2", "nvidia.com/gpu": "1"}));
    stage.apply(&merged(
        gpu,
        json!({"spec": {"template": {"spec": {
            "nodeSelector": {"node.kubernetes.io/instance-type": "g5.2xlarge"},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "containers": [{"name": "main", "image": "none", "resources": {
                "requests": {"cpu": "2", "nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"},
            }}],
        }}}}),
    ));
    stage.apply(&deployment("web", 3, json!({"cpu": "500m"})));
    stage.rolled_out("train", &live);
    stage.rolled_out("web", &live);
    stage.agrees(&live);
    let node = node_of(&stage, "train");
    assert_eq!(node["metadata"]["labels"]["node.kubernetes.io/instance-type"], "g5.2xlarge");
    assert_eq!(node["metadata"]["labels"]["karpenter.sh/nodepool"], "gpu");
    let labels = node_of(&stage, "web")["metadata"]["labels"].clone();
    let label = |key: &str| labels[key].as_str().unwrap_or_default().to_owned();
    assert!(["c", "m", "r"].contains(&label("karpenter.k8s.aws/instance-category").as_str()), "{labels}");
    assert!(label("karpenter.k8s.aws/instance-generation").parse::<u32>().unwrap() > 5, "{labels}");
    assert!(!["us-east-1a", "us-east-1b", ""].contains(&label("topology.kubernetes.io/zone").as_str()), "{labels}");
    assert_eq!(
        (label("kubernetes.io/arch"), label("karpenter.sh/capacity-type")),
        ("arm64".to_owned(), "spot".to_owned())
    );
}
