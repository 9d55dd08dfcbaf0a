//! Two replicas, of which one leads.

use std::time::Duration;

use e2e::Replica;
use e2e::replica::wait_for;
use serde_json::json;

use crate::stage::{LIMIT, Stage, deployment, pool};

fn holder(stage: &Stage) -> String {
    let lease = stage.get(&["lease", "karpenter-leader-election", "--namespace=kube-system"]);
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_stand_by_takes_over_from_a_leader_that_was_killed_and_a_leader_that_ends_lets_go() {
    let stage = Stage::kwok();
    stage.apply(&pool("general", json!([])));
    let first = Replica::start(&stage.cluster, &[]).unwrap();
    wait_for("a leader", LIMIT, || Ok(first.log().contains("\"message\":\"leading\"").then_some(()))).unwrap();
    let leader = holder(&stage);
    let mut second = Replica::start(&stage.cluster, &[]).unwrap();
    wait_for("the other to wait", LIMIT, || Ok(second.log().contains("waiting for the lease").then_some(()))).unwrap();
    assert_eq!(holder(&stage), leader);
    // Killed without a word, with pods on their way.
    stage.apply(&deployment("web", 5, json!({"cpu": "1"})));
    drop(first);
    stage.rolled_out("web", &second);
    stage.agrees(&second);
    let next = holder(&stage);
    assert!(!next.is_empty() && next != leader, "{next}");
    assert!(second.terminate().unwrap().success(), "{}", second.log());
    assert_eq!(holder(&stage), "", "whoever comes next need not wait");
}

#[test]
fn a_leader_that_lost_its_lease_ends() {
    let stage = Stage::kwok();
    let mut live = Replica::start(&stage.cluster, &[]).unwrap();
    wait_for("a leader", LIMIT, || Ok((!holder(&stage).is_empty()).then_some(()))).unwrap();
    let taken = json!({"spec": {"holderIdentity": "somebody-else", "leaseDurationSeconds": 3600}}).to_string();
    let lease = ["patch", "lease", "karpenter-leader-election", "--namespace=kube-system", "--type=merge", "--patch"];
    stage.cluster.succeed(&[&lease[..], &[&taken]].concat()).unwrap();
    let status = live.wait_for_end(Duration::from_secs(60)).unwrap();
    assert_eq!(status.code(), Some(1));
    assert!(live.log().contains("somebody-else has it"), "{}", live.log());
}
