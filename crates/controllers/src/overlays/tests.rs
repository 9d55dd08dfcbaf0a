use std::time::Duration;

use runtime::Next;
use serde_json::{Value, json};

use super::*;
use crate::error::Reaction;
use crate::settings::{Gates, Settings};
use crate::testing::{Scripted, World, merged, node_class, node_pool};

fn stage() -> (World, Scripted) {
    let gates = Gates { node_overlay: true, ..Gates::default() };
    let (world, cloud) = World::scripted_with(Settings { gates, ..Settings::default() });
    world.put(node_class("default"));
    world.put(node_pool("a"));
    (world, cloud)
}

fn overlay(name: &str, spec: Value) -> Value {
    let base = json!({"requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}]});
    json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": name, "generation": 2},
        "spec": merged(base, spec),
    })
}

async fn try_tick(world: &World) -> Result<Next, ControllerError> {
    world.sync();
    Overlays.tick(&world.ctx, &(), &world.id()).await
}

async fn tick(world: &World) {
    assert_eq!(try_tick(world).await.unwrap(), Next::After(Duration::from_secs(6 * 3600)));
}

fn says(world: &World, name: &str) -> [String; 3] {
    world.condition("NodeOverlay", name, "ValidationSucceeded").unwrap()
}

fn is_valid(world: &World, name: &str) -> bool {
    let ready = world.condition("NodeOverlay", name, "Ready").unwrap();
    assert_eq!(ready[0], says(world, name)[0], "the root follows");
    says(world, name) == ["True", "ValidationSucceeded", ""]
}

/// What the spot offerings of a type cost in a pool, in thousandths of a dollar, each price once.
fn spot_prices(world: &World, pool: &str) -> Vec<i64> {
    let store = world.ctx.store();
    let Some(pool) = store.pools().get(&model::ids::PoolName::from(pool)) else { return Vec::new() };
    let types = pool.instance_types.iter().filter(|found| found.name.as_str() == "c-1x-amd64-linux");
    let offerings = types.flat_map(|found| found.offerings.clone());
    let spot = offerings.filter(|offering| offering.capacity_type() == Some(model::instance::CapacityType::Spot));
    let mut prices: Vec<i64> = spot.map(|offering| offering.price.pico() / 1_000_000_000).collect();
    prices.dedup();
    prices
}

// 02/NP8
#[tokio::test(start_paused = true)]
async fn an_overlay_is_laid_over_what_pools_can_buy_and_told_so() {
    let (world, _) = stage();
    tick(&world).await;
    assert_eq!(spot_prices(&world, "a"), [19], "as the cloud says");
    world.put(overlay("dear", json!({"price": "7"})));
    tick(&world).await;
    assert_eq!(spot_prices(&world, "a"), [7000]);
    assert!(is_valid(&world, "dear"));
    world.server.remove("NodeOverlay", "dear");
    tick(&world).await;
    assert_eq!(spot_prices(&world, "a"), [19]);
}

// 02/NP8
#[tokio::test(start_paused = true)]
async fn of_two_overlays_that_meet_at_one_weight_the_later_name_stays() {
    let (world, _) = stage();
    world.put(overlay("x", json!({"price": "7", "weight": 5})));
    world.put(overlay("y", json!({"price": "8", "weight": 5})));
    tick(&world).await;
    assert!(is_valid(&world, "y"));
    assert_eq!(says(&world, "x"), ["False", "Conflict", "conflict with another overlay"]);
    assert!(!is_valid(&world, "x"));
    assert_eq!(spot_prices(&world, "a"), [8000]);
    world.put(overlay("x", json!({"price": "7", "weight": 6})));
    tick(&world).await;
    assert!(is_valid(&world, "x") && is_valid(&world, "y"), "a heavier one does not conflict");
    assert_eq!(spot_prices(&world, "a"), [7000]);
}

// 02/NP8 01/OVL-03
#[tokio::test(start_paused = true)]
async fn an_overlay_that_makes_no_sense_is_applied_nowhere_and_told_why() {
    let (world, _) = stage();
    let odd = json!({"price": "7", "requirements": [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
        {"key": "topology.kubernetes.io/zone", "operator": "NotIn", "values": []},
    ]});
    world.put(overlay("odd", odd));
    world.put(overlay("unread", json!({"price": "seven"})));
    world.put(overlay("z", json!({"priceAdjustment": "+100%"})));
    tick(&world).await;
    assert!(is_valid(&world, "z"), "what makes no sense conflicts with nobody");
    let [status, reason, message] = says(&world, "odd");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "RuntimeValidation"));
    assert!(message.contains("spec.requirements[1]"), "{message}");
    assert!(says(&world, "unread")[2].contains("spec.price"), "{:?}", says(&world, "unread"));
    assert_eq!(spot_prices(&world, "a"), [38]);
}

// 01/OVL-05 02/NP8
#[tokio::test(start_paused = true)]
async fn a_pool_that_the_cloud_cannot_answer_for_holds_up_no_other_and_is_tried_again() {
    let (world, cloud) = stage();
    world.put(node_class("second"));
    let second = json!({"spec": {"template": {"spec": {"nodeClassRef": {"name": "second"}}}}});
    world.put(merged(node_pool("b"), second));
    world.put(overlay("dear", json!({"price": "7"})));
    cloud.script().silent.push("second".to_owned());
    assert_eq!(try_tick(&world).await.unwrap_err().reaction(), Reaction::BackOff);
    assert!(is_valid(&world, "dear"));
    assert_eq!((spot_prices(&world, "a"), spot_prices(&world, "b")), (vec![7000], vec![]), "nothing is bought for b");
    cloud.script().silent.clear();
    tick(&world).await;
    assert_eq!((spot_prices(&world, "a"), spot_prices(&world, "b")), (vec![7000], vec![7000]));
}

#[tokio::test(start_paused = true)]
async fn the_whole_process_follows_overlays_as_they_change() {
    let (world, _) = stage();
    let story = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        world.put(overlay("x", json!({"price": "7"})));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(is_valid(&world, "x") && spot_prices(&world, "a") == [7000]);
        world.put(overlay("y", json!({"price": "8"})));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(says(&world, "x")[1], "Conflict");
        world.server.remove("NodeOverlay", "y");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(is_valid(&world, "x") && spot_prices(&world, "a") == [7000]);
    };
    futures::join!(world.run(Duration::from_secs(8)), story);
}
