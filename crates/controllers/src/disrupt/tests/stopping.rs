//! The switch that stops all disruption (spec 02, flaw 33), and budgets that are used up without anybody leaving.

use super::looking::{all_at_once, consolidatable, run, run_while};
use super::*;

/// What somebody writes on the namespace that every cluster has.
fn switch(world: &World, value: Option<&str>) {
    let annotations = json!({"dovetail.sh/stop-disruption": value});
    world.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", "annotations": annotations}}));
    world.sync();
}

// Spec 02, flaw 33
#[tokio::test(start_paused = true)]
async fn while_everything_is_stopped_nodes_stay_and_are_told_why_and_then_they_go() {
    let stage = consolidatable(&["a"], all_at_once()).await;
    switch(&stage.world, Some("INC-42"));
    let gauge = |value: u8| format!("dovetail_disruption_stopped {value}");
    let shows = |line: &str| stage.world.ctx.metrics.scrape(&stage.world.ctx).lines().any(|found| found == line);
    run_while(&stage, Duration::from_secs(330), async {
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert!(stage.is_as_before("a") && shows(&gauge(1)));
        switch(&stage.world, Some("false"));
        assert!(shows(&gauge(0)));
    })
    .await;
    assert!(stage.is_deleted("a"), "it is noticed at once that it may go");
    let text =
        "Disruption is stopped by the annotation \"dovetail.sh/stop-disruption: INC-42\" of namespace kube-system";
    let told = stage.told("DisruptionBlocked").await;
    assert!(told.iter().filter(|message| *message == text).count() >= 2, "the Node and its claim: {told:?}");
}

// Spec 02, flaw 33
#[tokio::test(start_paused = true)]
async fn a_command_that_waits_for_its_second_look_is_dropped_when_everything_is_stopped() {
    let stage = consolidatable(&["a"], all_at_once()).await;
    run_while(&stage, Duration::from_secs(40), async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(stage.known_claims().len(), 1);
        switch(&stage.world, Some("true"));
    })
    .await;
    assert!(stage.is_as_before("a") && stage.known_claims().is_empty());
}

// Spec 02, flaw 33
#[tokio::test(start_paused = true)]
async fn a_command_that_was_begun_is_taken_back_when_everything_is_stopped() {
    let stage = Stage::with(&["a", "b"]).await;
    let number = stage.begun(&["a", "b"], 2).await;
    let made = stage.replacements();
    stage.initialize(&made[0]);
    switch(&stage.world, Some("true"));
    assert_eq!(stage.tick(number).await, Next::OnChange);
    assert!(stage.is_as_before("a") && stage.is_as_before("b"));
    assert_eq!(stage.claims(), ["a".to_owned(), "b".to_owned(), made[0].clone()], "what has come is kept");
    assert!(stage.commands.resting(stage.world.ctx.now()).is_empty(), "no pool is to blame");
    let drifted = stage.ripe(command(Method::Drift, &["a"], 1));
    assert_eq!(stage.tick(drifted).await, Next::OnChange);
    assert!(stage.is_as_before("a") && stage.replacements().is_empty(), "and none is begun");
}

// Spec 02, flaw 33
#[tokio::test(start_paused = true)]
async fn a_pool_hears_that_nodes_that_are_not_ready_use_up_its_budget() {
    let stage = consolidatable(&["a", "broken"], json!({"budgets": [{"nodes": "1"}]})).await;
    let broken = stage.world.server.get("Node", "broken").unwrap();
    stage.world.put(merged(broken, json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}})));
    stage.world.put(pod_on("broken", "web", "1"));
    stage.world.sync();
    run(&stage, Duration::from_secs(30)).await;
    assert!(stage.is_as_before("a"));
    let told = stage.told("DisruptionBlocked").await;
    let text = "The budget for disruption reason Empty is used up; 1 node(s) that are not ready count as going";
    assert_eq!(told.iter().filter(|message| *message == text).count(), 1, "{told:?}");
}
