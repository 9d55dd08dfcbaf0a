use serde_json::json;

use super::*;
use crate::testing::{World, merged, node_class, node_pool};

#[tokio::test(start_paused = true)]
async fn the_cloud_is_asked_when_a_pool_or_its_class_changes_and_by_the_clock_but_not_for_every_machine() {
    let (world, cloud) = World::scripted();
    world.put(node_class("default"));
    world.put(node_pool("a"));
    let keeper = CatalogKeeper::default();
    let look = async || {
        world.sync();
        keeper.tick(&world.ctx, &(), &world.id()).await.unwrap();
        cloud.calls("catalog")
    };
    assert_eq!(look().await, 1);
    // Counts are written whenever a machine comes or goes.
    world.put(merged(node_pool("a"), json!({"status": {"nodes": 7}})));
    assert_eq!(look().await, 1);
    world.put(merged(node_pool("a"), json!({"metadata": {"generation": 2}})));
    assert_eq!(look().await, 2);
    world.put(merged(node_class("default"), json!({"metadata": {"generation": 2}})));
    assert_eq!(look().await, 3);
    tokio::time::advance(ROUND).await;
    assert_eq!(look().await, 4);
}

// 02/NP10
#[tokio::test(start_paused = true)]
async fn a_machine_whose_price_nobody_knows_is_counted_once() {
    let (world, _) = World::scripted();
    world.put(node_class("default"));
    world.put(node_pool("a"));
    let withdrawn = json!({"metadata": {"labels": {"node.kubernetes.io/instance-type": "withdrawn"}}});
    world.put_machine("known", "a", json!({}), json!({}));
    world.put_machine("odd", "a", withdrawn.clone(), withdrawn);
    let keeper = CatalogKeeper::default();
    for _ in 0..2 {
        world.sync();
        keeper.tick(&world.ctx, &(), &world.id()).await.unwrap();
        tokio::time::advance(ROUND).await;
    }
    assert!(world.counted("karpenter_nodepools_cost_tracker_errors_total{nodepool=\"a\"} 1"));
}
