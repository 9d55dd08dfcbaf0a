use serde_json::{Value, json};

use super::*;
use crate::testing::{World, merged, node_pool};

fn condition(type_: &str, status: &str, second: u32) -> Value {
    json!({
        "type": type_, "status": status, "reason": "Because", "message": "", "observedGeneration": 1,
        "lastTransitionTime": format!("2026-01-01T00:00:{second:02}Z"),
    })
}

fn claim(conditions: Value) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "x", "uid": "x-1", "finalizers": ["karpenter.sh/termination"], "labels": {
            "karpenter.sh/nodepool": "a", "karpenter.kwok.sh/kwoknodeclass": "default",
        }},
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [],
        },
        "status": {"conditions": conditions},
    })
}

async fn look_at(world: &World, watch: &Conditions, key: &Watched) {
    world.sync();
    assert_eq!(watch.tick(&world.ctx, key, &world.id()).await.unwrap(), Next::OnChange);
}

/// Everything told so far, once the recorder has run.
async fn told(world: &World) -> Vec<(String, String)> {
    let stop = runtime::Stop::new();
    stop.cancel();
    world.ctx.recorder.run(world.ctx.client.clone(), &stop).await;
    world.events()
}

#[tokio::test(start_paused = true)]
async fn a_change_is_told_and_measured_and_a_first_look_only_counted() {
    let (world, watch, key) = (World::new(), Conditions::default(), Watched::Claim("x".into()));
    world.put(claim(json!([condition("Launched", "Unknown", 10)])));
    look_at(&world, &watch, &key).await;
    world.put(claim(json!([condition("Launched", "True", 15), condition("ConsistentStateFound", "True", 15)])));
    look_at(&world, &watch, &key).await;
    look_at(&world, &watch, &key).await;
    let expected = "Status condition transitioned, Type: Launched, Status: Unknown -> True, Reason: Because";
    assert_eq!(told(&world).await, [("Launched".to_owned(), expected.to_owned())]);
    let text = world.ctx.metrics.encode();
    let class = r#"karpenter_kwok_sh_kwoknodeclass="default",karpenter_sh_nodepool="a""#;
    for line in [
        format!(r#"operator_nodeclaim_status_condition_transition_seconds_sum{{type="Launched",status="Unknown",to_status="True",{class}}} 5.0"#),
        format!(r#"operator_nodeclaim_status_condition_transitions_total{{type="Launched",status="True",reason="Because",{class}}} 1"#),
        format!(r#"operator_nodeclaim_status_condition_transitions_total{{type="Launched",status="Unknown",reason="Because",{class}}} 1"#),
        format!(r#"operator_nodeclaim_status_condition_transitions_total{{type="ConsistentStateFound",status="True",reason="Because",{class}}} 1"#),
        r#"operator_status_condition_transitions_total{type="Launched",status="True",reason="Because",group="karpenter.sh",kind="NodeClaim"} 1"#.to_owned(),
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_an_object_is_told_and_measured() {
    let (world, watch, key) = (World::new(), Conditions::default(), Watched::Claim("x".into()));
    let ending = json!({"metadata": {"deletionTimestamp": crate::testing::EPOCH}});
    world.put(merged(claim(json!([])), ending));
    look_at(&world, &watch, &key).await;
    tokio::time::sleep(std::time::Duration::from_secs(7)).await;
    world.server.remove("NodeClaim", "x");
    look_at(&world, &watch, &key).await;
    let expected = ("Finalized".to_owned(), "Finalized karpenter.sh/termination".to_owned());
    assert_eq!(told(&world).await, [expected]);
    let text = world.ctx.metrics.encode();
    assert!(
        text.contains(r#"operator_termination_duration_seconds_sum{group="karpenter.sh",kind="NodeClaim"} 7"#),
        "{text}"
    );
    assert!(watch.last().kept.is_empty(), "nothing is remembered of what is gone");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_vanished_without_being_told_to_and_came_back_is_new() {
    let (world, watch, key) = (World::new(), Conditions::default(), Watched::Pool("a".into()));
    world.put(node_pool("a"));
    look_at(&world, &watch, &key).await;
    world.server.remove("NodePool", "a");
    world.put(merged(node_pool("a"), json!({"metadata": {"uid": "another"}, "status": null})));
    look_at(&world, &watch, &key).await;
    assert_eq!(told(&world).await, []);
}
