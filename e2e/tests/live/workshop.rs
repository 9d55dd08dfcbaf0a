//! The first lesson of every workshop, to its end: pods come and go, the surplus is removed, one small node remains, and when it
//! is old a new one takes its place. The manifests are those of the scenario, with shorter times.

use e2e::replica::wait_for;
use e2e::{Cluster, Dovetail, Replica};
use serde_json::{Value, json};

use crate::stage::{LIMIT, Stage, merged};

/// Manifests of the scenario.
fn manifests() -> Vec<Value> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/eks-workshop.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    let documents: Vec<Value> = text.split("\n---\n").map(|text| serde_saphyr::from_str(text).unwrap()).collect();
    documents.into_iter().filter(|document| document["kind"] != "Scenario").collect()
}

fn scale(stage: &Stage, replicas: usize) {
    let replicas = format!("--replicas={replicas}");
    stage.cluster.succeed(&["scale", "deployment", "inflate", "--namespace=other", &replicas]).unwrap();
}

/// Types of the nodes of the pool, in order, when exactly so many pods run.
fn types(stage: &Stage, pods: usize) -> Option<Vec<String>> {
    let running = stage.items(&["pods", "--namespace=other", "--field-selector=status.phase=Running"]);
    let label =
        |node: &Value| node["metadata"]["labels"]["node.kubernetes.io/instance-type"].as_str().map(str::to_owned);
    let mut types: Vec<String> =
        stage.items(&["nodes", "--selector=karpenter.sh/nodepool=default"]).iter().filter_map(label).collect();
    types.sort();
    (running.len() == pods).then_some(types)
}

fn reaches(stage: &Stage, live: &Replica, pods: usize, holds: impl Fn(&[String]) -> bool) -> Vec<String> {
    let what = format!("{pods} pods on the right nodes");
    let found = wait_for(&what, LIMIT, || Ok(types(stage, pods).filter(|types| holds(types))));
    found.unwrap_or_else(|error| {
        let all = stage.cluster.succeed(&["get", "pods,nodes,nodeclaims", "--all-namespaces", "--output=wide"]);
        panic!("{error}\n{}\n{}", all.unwrap_or_default(), live.log())
    })
}

/// Whether a claim has gone for this reason.
fn has_disrupted(live: &Replica, reason: &str) -> bool {
    let (metric, label) = ("karpenter_nodeclaims_disrupted_total{", format!("reason=\"{reason}\""));
    live.metrics().unwrap().lines().any(|line| line.starts_with(metric) && line.contains(&label))
}

#[test]
fn the_workshop_ends_with_one_small_node_that_is_renewed() {
    let cluster = Cluster::start().unwrap();
    Dovetail::apply_crds(&cluster, "aws").unwrap();
    let stage = Stage { cluster };
    for mut manifest in manifests() {
        if manifest["kind"] == "NodePool" {
            let short = json!({"spec": {
                "disruption": {"consolidateAfter": "5s"}, "template": {"spec": {"expireAfter": "Never"}},
            }});
            manifest = merged(manifest, short);
        }
        stage.apply(&manifest);
    }
    let live = Replica::start(&stage.cluster, &["--catalog", "ec2:us-west-2", "--pod-move-cooldown=5s"]).unwrap();
    scale(&stage, 5);
    reaches(&stage, &live, 5, |_| true);
    scale(&stage, 12);
    let many = reaches(&stage, &live, 12, |_| true);
    scale(&stage, 5);
    reaches(&stage, &live, 5, |types| types.len() < many.len());
    scale(&stage, 1);
    reaches(&stage, &live, 1, |types| types == ["t3.small"]);
    let claim = |other: &str| {
        let found = wait_for(&format!("one claim other than {other:?}"), LIMIT, || {
            let claims = stage.items(&["nodeclaims"]);
            let name = claims.first().and_then(|claim| claim["metadata"]["name"].as_str()).unwrap_or_default();
            Ok((claims.len() == 1 && !name.is_empty() && name != other).then(|| name.to_owned()))
        });
        found.unwrap_or_else(|error| panic!("{error}\n{}", live.log()))
    };
    // Nothing is ever too old so far, so consolidation alone has come to this.
    let surplus = claim("");
    assert!(!has_disrupted(&live, "expired") && has_disrupted(&live, "underutilized"), "{}", live.log());
    // The new template makes a machine drift, and age ends the one that comes for it.
    let short = json!({"spec": {"template": {"spec": {"expireAfter": "60s"}}}}).to_string();
    stage.cluster.succeed(&["patch", "nodepool", "default", "--type=merge", "--patch", &short]).unwrap();
    let drifted = claim(&surplus);
    // 02/E6
    claim(&drifted);
    assert!(has_disrupted(&live, "drifted") && has_disrupted(&live, "expired"), "{}", live.log());
    reaches(&stage, &live, 1, |types| types == ["t3.small"]);
}
