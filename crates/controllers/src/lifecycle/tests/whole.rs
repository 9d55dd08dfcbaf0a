//! The whole process, from a claim that somebody wrote to its end.

use serde_json::json;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_claim_of_nobodys_pool_lives_and_ends() {
    let stage = Stage::with(claim("a", json!({})));
    stage.world.run(Duration::from_secs(5)).await;
    stage.says("a", "Registered", ["True", "Registered", ""]);
    stage.kubelet_reports("True");
    stage.world.run(Duration::from_secs(5)).await;
    stage.says("a", "Ready", ["True", "Ready", ""]);
    stage.somebody_deletes("a");
    stage.world.run(Duration::from_secs(30)).await;
    assert!(!stage.has_claim("a"));
    assert!(stage.world.server.all("Node").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_somebody_deletes_takes_its_claim_along() {
    let stage = Stage::initialized(json!({})).await;
    let now = stage.world.ctx.timestamp().to_string();
    stage.change_node(json!({"metadata": {"deletionTimestamp": now}}));
    stage.world.run(Duration::from_secs(30)).await;
    assert!(!stage.has_claim("a"));
    assert!(stage.world.server.all("Node").is_empty());
    assert!(stage.cloud.calls("terminate") >= 1);
}
