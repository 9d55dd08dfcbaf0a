//! Taking over a cluster that runs the reference: its objects stay as they are.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use e2e::reference::{self, Module};
use e2e::{Cluster, Dovetail};
use serde_json::{Value, json};

const CORE: (Module, &str) = (Module::Karpenter, "pkg/apis/crds");
const CORE_FOR_KWOK: (Module, &str) = (Module::Karpenter, "kwok/charts/crds");
const KWOK: (Module, &str) = (Module::Karpenter, "kwok/apis/crds");
const AWS: (Module, &str) = (Module::KarpenterAws, "pkg/apis/crds");

#[test]
fn our_aws_definitions_replace_the_references_and_its_objects_do_not_change() {
    // The reference's AWS release carries an older core, which v1.15's replaces here before anything exists.
    let cluster = reference_cluster(&[AWS, CORE]);
    apply(&cluster, &pool("karpenter.k8s.aws", "EC2NodeClass"));
    apply(&cluster, &claim("karpenter.k8s.aws", "EC2NodeClass"));
    apply(
        &cluster,
        &json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"}, "spec": {
            "role": "node-role",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"team": "a"}}],
            "securityGroupSelectorTerms": [{"id": "sg-1"}],
            "kubelet": {"maxPods": 42, "evictionHard": {"memory.available": "5%"}},
            "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "100Gi", "volumeType": "gp3"}}],
        }}),
    );
    let kinds = ["nodepools", "nodeclaims", "nodeoverlays", "capacitybuffers", "ec2nodeclasses"];
    takes_over(&cluster, &kinds, || Dovetail::apply_crds(&cluster, "aws").unwrap());
}

#[test]
fn our_kwok_definitions_replace_the_references_with_plain_kubectl_too() {
    let cluster = reference_cluster(&[CORE_FOR_KWOK, KWOK]);
    apply(&cluster, &pool("karpenter.kwok.sh", "KWOKNodeClass"));
    apply(&cluster, &claim("karpenter.kwok.sh", "KWOKNodeClass"));
    apply(
        &cluster,
        &json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}}),
    );
    let kinds = ["nodepools", "nodeclaims", "nodeoverlays", "capacitybuffers", "kwoknodeclasses"];
    takes_over(&cluster, &kinds, || {
        let yaml = Dovetail::run(&["crds", "--provider", "kwok"]).unwrap();
        cluster.apply(&yaml).unwrap();
        yaml
    });
}

#[test]
fn a_definition_that_still_stores_v1beta1_is_left_alone_with_advice() {
    let cluster = reference_cluster(&[CORE]);
    apply(&cluster, &pool("karpenter.k8s.aws", "EC2NodeClass"));
    // As an upgrade from 0.37 leaves it: v1beta1 is still known, and some objects may be stored as such.
    let beta = json!([{"op": "add", "path": "/spec/versions/-", "value": {
        "name": "v1beta1", "served": true, "storage": false,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
    }}]);
    cluster.succeed(&["patch", "crd", "nodepools.karpenter.sh", "--type=json", "--patch", &beta.to_string()]).unwrap();
    let stored = json!({"status": {"storedVersions": ["v1beta1", "v1"]}}).to_string();
    let status = ["patch", "crd", "nodepools.karpenter.sh", "--subresource=status", "--type=merge", "--patch"];
    cluster.succeed(&[&status[..], &[&stored]].concat()).unwrap();

    let before = state(&cluster, &["crds", "nodepools"]);
    let message = Dovetail::apply_crds(&cluster, "aws").unwrap_err().to_string();
    for words in ["nodepools.karpenter.sh", "v1beta1", "nothing was changed"] {
        assert!(message.contains(words), "{message} should contain {words}");
    }
    assert_eq!(state(&cluster, &["crds", "nodepools"]), before);

    // The commands of the advice, as they stand in it.
    let commands: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    assert_eq!(commands.len(), 2, "{message}");
    for command in commands {
        cluster.shell(command).unwrap();
    }
    Dovetail::apply_crds(&cluster, "aws").unwrap();
    let versions = cluster
        .succeed(&["get", "crd", "nodepools.karpenter.sh", "--output=jsonpath={.spec.versions[*].name}"])
        .unwrap();
    assert_eq!(versions, "v1");
}

#[test]
fn a_definition_whose_storage_is_v1beta1_asks_for_the_upgrade_first() {
    let cluster = Cluster::start().unwrap();
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    apply(
        &cluster,
        &json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "nodepools.karpenter.sh"},
        "spec": {
            "group": "karpenter.sh", "scope": "Cluster",
            "names": {"kind": "NodePool", "listKind": "NodePoolList", "plural": "nodepools", "singular": "nodepool"},
            "versions": [{"name": "v1beta1", "served": true, "storage": true, "schema": schema}],
        }}),
    );
    let message = Dovetail::apply_crds(&cluster, "aws").unwrap_err().to_string();
    for words in ["nodepools.karpenter.sh", "stores its objects as v1beta1", "upgrade Karpenter", "nothing was changed"]
    {
        assert!(message.contains(words), "{message} should contain {words}");
    }
    assert_eq!(state(&cluster, &["crds"]).len(), 1);
}

#[test]
fn somebody_without_rights_learns_what_is_missing() {
    let cluster = Cluster::start().unwrap();
    cluster.succeed(&["create", "serviceaccount", "powerless"]).unwrap();
    let token = cluster.succeed(&["create", "token", "powerless"]).unwrap();
    let admin = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
    let token_line = admin.lines().find(|line| line.trim_start().starts_with("token:")).unwrap();
    let indent = &token_line[..token_line.find("token:").unwrap()];
    let kubeconfig = cluster.dir().join("powerless.kubeconfig");
    std::fs::write(&kubeconfig, admin.replace(token_line, &format!("{indent}token: {}", token.trim()))).unwrap();
    let arguments = ["crds", "--apply", "--kubeconfig", kubeconfig.to_str().unwrap()];
    let message = Dovetail::run(&arguments).unwrap_err().to_string();
    assert!(message.contains("is forbidden") && message.contains("that you may read it"), "{message}");
    assert!(message.lines().count() == 1 && !message.contains("Status {"), "{message}");
}

/// Does the take-over and checks that every object is, to the last byte, what it was; then that it can still be written.
fn takes_over(cluster: &Cluster, kinds: &[&str], take_over: impl FnOnce() -> String) {
    apply(
        cluster,
        &json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "cheap"}, "spec": {
            "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}], "priceAdjustment": "-10%",
        }}),
    );
    apply(
        cluster,
        &json!({"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "metadata": {"name": "room"}, "spec": {
            "podTemplateRef": {"name": "web"}, "replicas": 2, "limits": {"cpu": 4, "memory": "8Gi"},
        }}),
    );
    let before = state(cluster, kinds);
    assert!(kinds.len() <= before.len());
    take_over();
    wait_until_ours_are_served(cluster);
    assert_eq!(state(cluster, kinds), before);
    cluster.succeed(&["annotate", "nodepool", "default", "touched=true"]).unwrap();
}

/// The API server takes a changed definition up a moment after it has stored it, and in between it may not find the resource at all;
/// then its explanations are ours.
fn wait_until_ours_are_served(cluster: &Cluster) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        let explained = cluster.succeed(&["explain", "nodepools.spec.weight"]);
        if explained.as_ref().is_ok_and(|text| text.contains("Pools of higher weight are tried first")) {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "still explains itself as:\n{explained:?}");
    }
}

/// Every object of these kinds as the API server has it, managed fields and resource version included.
fn state(cluster: &Cluster, kinds: &[&str]) -> Vec<Value> {
    let text = cluster.succeed(&["get", &kinds.join(","), "--output=json", "--show-managed-fields"]).unwrap();
    let list: Value = serde_json::from_str(&text).unwrap();
    list["items"].as_array().unwrap().clone()
}

fn reference_cluster(folders: &[(Module, &str)]) -> Cluster {
    let cluster = Cluster::start().unwrap();
    for folder in reference::folders(folders).unwrap() {
        let folder = format!("--filename={}", folder.display());
        cluster.succeed(&["apply", "--server-side", "--force-conflicts", &folder]).unwrap();
    }
    cluster.succeed(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"]).unwrap();
    cluster
}

fn pool(group: &str, kind: &str) -> Value {
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}, "spec": {
        "limits": {"cpu": 1000, "memory": "1000Gi"},
        "weight": 10,
        "disruption": {"consolidateAfter": "1m", "budgets": [{"nodes": "20%", "schedule": "@daily", "duration": "8h"}]},
        "template": {
            "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
            "spec": {
                "nodeClassRef": {"group": group, "kind": kind, "name": "default"},
                "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64", "arm64"], "minValues": 2}],
                "taints": [{"key": "example.com/t", "value": "v", "effect": "NoSchedule"}],
                "expireAfter": "Never",
                "terminationGracePeriod": "1h",
            },
        },
    }})
}

fn claim(group: &str, kind: &str) -> Value {
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "default-x1"}, "spec": {
        "nodeClassRef": {"group": group, "kind": kind, "name": "default"},
        "requirements": [{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["default"]}],
        "resources": {"requests": {"cpu": "1500m", "memory": "2Gi"}},
    }})
}

fn apply(cluster: &Cluster, object: &Value) {
    cluster.apply(&object.to_string()).unwrap();
}
