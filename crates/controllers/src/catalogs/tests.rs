use serde_json::json;

use super::*;
use crate::settings::{Gates, Settings};
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

// What overlays make of a catalogue is worked out when one of the two changes, and not at every look.
#[tokio::test(start_paused = true)]
async fn overlays_are_laid_anew_only_when_something_has_changed() {
    let gates = Gates { node_overlay: true, ..Gates::default() };
    let world = World::with(Settings { gates, ..Settings::default() });
    world.put(node_class("default"));
    world.put(node_pool("a"));
    let overlay = |price: &str| {
        json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "dear", "generation": 1},
            "spec": {"requirements": [], "price": price}})
    };
    world.put(overlay("9.5"));
    let laid = async || {
        world.sync();
        world.ctx.catalogs.refresh(&world.ctx, &world.ctx.cloud).await;
        let laid = world.ctx.catalogs.laid.lock().unwrap();
        let types = laid.as_ref().unwrap().types.clone();
        assert!(!types[&"a".into()].is_empty());
        types
    };
    let first = laid().await;
    assert!(Arc::ptr_eq(&first, &laid().await), "nothing has changed");
    world.put(merged(overlay("7.5"), json!({"metadata": {"generation": 2}})));
    let second = laid().await;
    assert!(!Arc::ptr_eq(&first, &second) && Arc::ptr_eq(&second, &laid().await));
    let labelled =
        json!({"metadata": {"generation": 2}, "spec": {"template": {"metadata": {"labels": {"team": "x"}}}}});
    world.put(merged(node_pool("a"), labelled));
    assert!(!Arc::ptr_eq(&second, &laid().await), "an overlay may ask for a label");
    let price = world.ctx.store().pools()[&"a".into()].instance_types[0].offerings[0].price;
    assert_eq!(price, model::price::Price::from_pico(7_500_000_000_000));
}
