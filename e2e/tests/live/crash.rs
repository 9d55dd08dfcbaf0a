//! A process that ends at the worst moment, again and again. Needs a binary with the feature `failpoints`, as `make e2e`
//! builds it.

use std::time::Duration;

use e2e::Replica;
use serde_json::json;

use crate::stage::{Stage, deployment, merged, pool};

/// The steps from a pending pod to a ready node. `controllers::failpoint` ends the process right after each.
const STEPS: [&str; 10] = [
    "pod-seen",
    "batch-closed",
    "snapshot-taken",
    "plan-made",
    "claim-created",
    "launch-decided",
    "machine-launched",
    "node-joined",
    "node-registered",
    "node-initialized",
];

/// Every pod on a node of its own, so that each new one takes all the steps.
fn apart(name: &str, replicas: u32) -> serde_json::Value {
    let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": name}}});
    let spec = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}});
    merged(deployment(name, replicas, json!({"cpu": "800m"})), json!({"spec": {"template": {"spec": spec}}}))
}

fn survives(steps: &[&str]) {
    let stage = Stage::kwok();
    let small = json!([{"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["1"]}]);
    stage.apply(&pool("general", small));
    // Whoever was killed leaves its Lease behind; waiting for that each time is tested elsewhere.
    let alone = ["--disable-leader-election"];
    let mut pods = 0;
    for step in steps {
        for _ in 0..2 {
            pods += 2;
            stage.apply(&apart("web", pods));
            let mut live = Replica::spawn(&stage.cluster, &alone, &[("DOVETAIL_FAILPOINT", step)]).unwrap();
            let status = live.wait_for_end(Duration::from_secs(60)).unwrap();
            assert_eq!(status.code(), None, "after {step} it ended by itself: {}", live.log());
        }
        let live = Replica::start(&stage.cluster, &alone).unwrap();
        stage.rolled_out("web", &live);
        stage.agrees(&live);
        let claims = stage.items(&["nodeclaims"]).len();
        assert_eq!(claims, pods as usize, "one machine for each pod after two ends at {step}: {}", live.log());
    }
}

#[test]
fn an_end_while_planning_leaves_nothing_behind() {
    survives(&STEPS[..5]);
}

#[test]
fn an_end_while_a_node_comes_up_leaves_nothing_behind() {
    survives(&STEPS[5..]);
}
