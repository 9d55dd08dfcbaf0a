//! The definitions in a real cluster: they are established, print the columns that people know, and scale.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use e2e::{Cluster, Dovetail};
use serde_json::{Value, json};

#[test]
fn all_definitions_serve_a_fresh_cluster() {
    let cluster = Cluster::start().unwrap();
    for provider in ["aws", "kwok"] {
        Dovetail::apply_crds(&cluster, provider).unwrap();
        let again = Dovetail::apply_crds(&cluster, provider).unwrap();
        assert!(again.lines().all(|line| line.ends_with(" unchanged")), "{again}");
    }
    cluster.succeed(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"]).unwrap();
    create_one_of_each(&cluster);
    columns_are_the_references(&cluster);
    short_names_and_categories_work(&cluster);
    a_static_pool_scales_and_a_dynamic_one_does_not(&cluster);
}

fn create_one_of_each(cluster: &Cluster) {
    let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    let template = json!({"spec": {"nodeClassRef": class, "requirements": []}});
    let objects = [
        object("karpenter.sh/v1", "NodePool", "dynamic", json!({"template": template, "weight": 7})),
        object("karpenter.sh/v1", "NodePool", "static", json!({"template": template, "replicas": 1})),
        object("karpenter.sh/v1", "NodeClaim", "claim", json!({"nodeClassRef": class, "requirements": []})),
        object("karpenter.sh/v1alpha1", "NodeOverlay", "overlay", json!({"requirements": [], "weight": 3})),
        object("autoscaling.x-k8s.io/v1beta1", "CapacityBuffer", "buffer", json!({"replicas": 1})),
        object("karpenter.kwok.sh/v1alpha1", "KWOKNodeClass", "simulated", json!({})),
        object(
            "karpenter.k8s.aws/v1",
            "EC2NodeClass",
            "default",
            json!({
                "role": "node-role",
                "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "subnetSelectorTerms": [{"tags": {"team": "a"}}],
                "securityGroupSelectorTerms": [{"tags": {"team": "a"}}],
            }),
        ),
        object("karpenter.sh/v1alpha5", "Provisioner", "old", json!({})),
        object("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate", "old", json!({})),
    ];
    for object in objects {
        cluster.apply(&object.to_string()).unwrap();
    }
}

fn object(api_version: &str, kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

fn columns_are_the_references(cluster: &Cluster) {
    for (kind, usual, wide) in [
        ("nodepools", "NAME NODECLASS NODES READY AGE", "WEIGHT CPU MEMORY"),
        ("nodeclaims", "NAME TYPE CAPACITY ZONE NODE READY AGE", "IMAGEID ID NODEPOOL NODECLASS DRIFTED"),
        ("nodeoverlays", "NAME READY AGE", "WEIGHT"),
        ("ec2nodeclasses", "NAME READY AGE", "ROLE"),
        (
            "capacitybuffers",
            "NAME STRATEGY PODTEMPLATE REPLICAS CONDITIONSTYPE CONDITIONSSTATUS CONDITIONSREASON AGE",
            "",
        ),
        ("kwoknodeclasses", "NAME AGE", ""),
        ("provisioners", "NAME AGE", ""),
        ("awsnodetemplates", "NAME AGE", ""),
    ] {
        assert_eq!(header(&cluster.succeed(&["get", kind]).unwrap()), usual, "{kind}");
        let all = format!("{usual} {wide}");
        assert_eq!(header(&cluster.succeed(&["get", kind, "--output=wide"]).unwrap()), all.trim(), "{kind}");
    }
    let row = cluster.succeed(&["get", "nodepool", "dynamic", "--output=wide", "--no-headers"]).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!((cells[0], cells[1], cells.contains(&"7")), ("dynamic", "default", true), "{row}");
    let row = cluster.succeed(&["get", "ec2nodeclass", "default", "--output=wide", "--no-headers"]).unwrap();
    assert!(row.contains("node-role"), "{row}");
}

fn short_names_and_categories_work(cluster: &Cluster) {
    for (short, name) in [
        ("overlays", "nodeoverlay.karpenter.sh/overlay"),
        ("cb", "capacitybuffer.autoscaling.x-k8s.io/buffer"),
        ("ec2nc", "ec2nodeclass.karpenter.k8s.aws/default"),
        ("ec2ncs", "ec2nodeclass.karpenter.k8s.aws/default"),
        ("kwoknc", "kwoknodeclass.karpenter.kwok.sh/simulated"),
        ("kwokncs", "kwoknodeclass.karpenter.kwok.sh/simulated"),
        ("autoscaling", "capacitybuffer.autoscaling.x-k8s.io/buffer"),
    ] {
        assert_eq!(cluster.succeed(&["get", short, "--output=name"]).unwrap().trim(), name);
    }
    let category = cluster.succeed(&["get", "karpenter", "--output=name"]).unwrap();
    for name in [
        "nodepool.karpenter.sh/dynamic",
        "nodeclaim.karpenter.sh/claim",
        "nodeoverlay.karpenter.sh/overlay",
        "ec2nodeclass.karpenter.k8s.aws/default",
        "kwoknodeclass.karpenter.kwok.sh/simulated",
        "provisioner.karpenter.sh/old",
        "awsnodetemplate.karpenter.k8s.aws/old",
    ] {
        assert!(category.lines().any(|line| line == name), "{name} is not in the category:\n{category}");
    }
}

fn a_static_pool_scales_and_a_dynamic_one_does_not(cluster: &Cluster) {
    cluster.succeed(&["scale", "nodepool", "static", "--replicas=3"]).unwrap();
    let replicas = cluster.succeed(&["get", "nodepool", "static", "--output=jsonpath={.spec.replicas}"]).unwrap();
    assert_eq!(replicas, "3");
    let refused = cluster.kubectl(&["scale", "nodepool", "dynamic", "--replicas=3"]).unwrap();
    let reason = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && reason.contains("between static (replicas set) and dynamic"), "{reason}");
}

fn header(table: &str) -> String {
    table.lines().next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}
