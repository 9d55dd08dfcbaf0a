use model::ids::NodeName;
use serde_json::{Value, json};

use super::*;
use crate::settings::Gates;
use crate::testing::{World, merged, node_class, node_pool, pod_on};

const TEN_MINUTES: u64 = 600;

fn world() -> World {
    let world = World::new();
    world.put(node_class("default"));
    world.put(node_pool("a"));
    world
}

/// Conditions of a node that has been so since the beginning.
fn is(type_: &str, status: &str) -> Value {
    json!({"status": {"conditions": [{"type": type_, "status": status, "lastTransitionTime": crate::testing::EPOCH}]}})
}

async fn tick(world: &World, name: &str) -> Next {
    world.sync();
    Repair.tick(&world.ctx, &NodeName::from(name), &world.id()).await.unwrap()
}

async fn pass(seconds: u64) {
    tokio::time::advance(Duration::from_secs(seconds)).await;
}

fn is_going(world: &World, name: &str) -> bool {
    !world.server.get("NodeClaim", name).unwrap()["metadata"]["deletionTimestamp"].is_null()
}

fn deadline(world: &World, name: &str) -> Value {
    let claim = world.server.get("NodeClaim", name).unwrap();
    claim["metadata"]["annotations"]["karpenter.sh/nodeclaim-termination-timestamp"].clone()
}

fn due_at(time: &str) -> Value {
    json!({"metadata": {"annotations": {"karpenter.sh/nodeclaim-termination-timestamp": time}}})
}

// 02/NR1 02/NR4 02/NR5 02/NR9 02/NR14
#[tokio::test(start_paused = true)]
async fn a_node_that_stays_broken_is_given_up_once_that_is_tolerated_no_longer() {
    let world = world();
    world.put_machine("m", "a", json!({}), is("Ready", "False"));
    world.put(pod_on("m", "web", "1"));
    assert_eq!(tick(&world, "m").await, Next::After(Duration::from_secs(TEN_MINUTES)));
    pass(TEN_MINUTES - 1).await;
    assert_eq!(tick(&world, "m").await, Next::After(Duration::from_secs(1)));
    assert!(!is_going(&world, "m"));
    pass(1).await;
    tick(&world, "m").await;
    assert!(is_going(&world, "m"));
    assert_eq!(deadline(&world, "m"), "2026-01-01T00:10:00Z");
    let labels = "reason=\"unhealthy\",nodepool=\"a\",capacity_type=\"spot\",consolidation_policy=\"\",termination_mode=\"graceful\"";
    assert!(world.counted(&format!("karpenter_nodeclaims_disrupted_total{{{labels}}} 1")));
    assert!(world.counted(&format!("karpenter_pods_disruption_initiated_total{{{labels}}} 1")));
    let labels = "condition=\"ready\",nodepool=\"a\",capacity_type=\"spot\",image_id=\"image-1\"";
    assert!(world.counted(&format!("karpenter_nodeclaims_unhealthy_disrupted_total{{{labels}}} 1")));
    tick(&world, "m").await;
    assert!(world.counted(&format!("karpenter_nodeclaims_unhealthy_disrupted_total{{{labels}}} 1")), "once");
}

// 02/NR2 02/NR3
#[tokio::test(start_paused = true)]
async fn what_the_cloud_does_not_list_is_no_reason() {
    let world = world();
    world.put_machine("m", "a", json!({}), is("DiskPressure", "True"));
    world.put_machine("n", "a", json!({}), is("Ready", "True"));
    pass(TEN_MINUTES).await;
    for name in ["m", "n"] {
        assert_eq!(tick(&world, name).await, Next::OnChange);
        assert!(!is_going(&world, name));
    }
}

// 02/NR6 02/NR7 02/NR10
#[tokio::test(start_paused = true)]
async fn a_later_deadline_is_brought_forward_and_an_earlier_one_stays_whatever_protects_the_node() {
    let world = world();
    let protected = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    let broken = merged(is("Ready", "Unknown"), protected);
    // A budget of nothing, and four healthy nodes for each broken one.
    world.put(merged(node_pool("a"), json!({"spec": {"disruption": {"budgets": [{"nodes": "0"}]}}})));
    (0..8).for_each(|number| world.put_machine(&format!("well-{number}"), "a", json!({}), json!({})));
    world.put_machine("late", "a", due_at("2026-01-01T05:00:00Z"), broken.clone());
    world.put_machine("early", "a", due_at("2026-01-01T00:00:30Z"), broken);
    pass(TEN_MINUTES).await;
    for name in ["late", "early"] {
        tick(&world, name).await;
        assert!(is_going(&world, name));
    }
    assert_eq!(deadline(&world, "late"), "2026-01-01T00:10:00Z");
    assert_eq!(deadline(&world, "early"), "2026-01-01T00:00:30Z");
}

// 02/NR11 02/NR13, and spec 02, flaw 29: everybody whom it concerns is told, each once.
#[tokio::test(start_paused = true)]
async fn when_a_pool_has_an_epidemic_nothing_is_repaired_and_all_concerned_are_told() {
    let world = world();
    world.put(node_pool("b"));
    for (name, pool, status) in [
        ("a1", "a", "False"),
        ("a2", "a", "Unknown"),
        ("a3", "a", "True"),
        ("b1", "b", "False"),
        ("b2", "b", "True"),
        ("b3", "b", "True"),
    ] {
        world.put_machine(name, pool, json!({}), is("Ready", status));
    }
    pass(TEN_MINUTES).await;
    assert_eq!(tick(&world, "a1").await, Next::After(Duration::from_secs(300)));
    assert!(!is_going(&world, "a1"));
    tick(&world, "b1").await;
    assert!(is_going(&world, "b1"), "one of three is a fifth, rounded up");
    let told = world.told().await;
    let blocked = ("NodeRepairBlocked".to_owned(), "more than 20% nodes are unhealthy in the nodepool".to_owned());
    assert_eq!(told.iter().filter(|event| **event == blocked).count(), 3, "{told:?}");
    let mut kinds: Vec<String> =
        world.server.all("Event").iter().map(|event| event["involvedObject"]["kind"].to_string()).collect();
    kinds.retain(|kind| kind != "null");
    assert!(["Node", "NodeClaim", "NodePool"].iter().all(|kind| kinds.contains(&format!("{kind:?}"))), "{kinds:?}");
}

// 02/NR12
#[tokio::test(start_paused = true)]
async fn for_a_claim_that_stands_alone_the_cluster_is_the_measure() {
    let world = world();
    let alone = json!({"metadata": {"labels": {"karpenter.sh/nodepool": null}}});
    let broken = merged(is("Ready", "False"), alone.clone());
    world.put_machine("m", "a", alone, broken);
    world.put_machine("n", "a", json!({}), is("Ready", "False"));
    pass(TEN_MINUTES).await;
    assert_eq!(tick(&world, "m").await, Next::After(AFTER_EPIDEMIC));
    let blocked = "more then 20% nodes are unhealthy in the cluster";
    assert!(world.told().await.iter().any(|(reason, message)| reason == "NodeRepairBlocked" && message == blocked));
    (0..8).for_each(|number| world.put_machine(&format!("well-{number}"), "a", json!({}), json!({})));
    tick(&world, "m").await;
    assert!(is_going(&world, "m"));
}

// A process that ends between the two writes leaves a claim that the next one ends.
#[tokio::test(start_paused = true)]
async fn a_repair_that_was_cut_short_is_finished() {
    let world = world();
    world.put_machine("m", "a", json!({}), is("Ready", "False"));
    pass(TEN_MINUTES).await;
    world.sync();
    world.server.trouble("DELETE /apis/karpenter.sh/v1/nodeclaims/m", crate::testing::Trouble::Refuses(500));
    assert!(Repair.tick(&world.ctx, &NodeName::from("m"), &world.id()).await.is_err());
    assert_eq!((deadline(&world, "m"), is_going(&world, "m")), (json!("2026-01-01T00:10:00Z"), false));
    pass(60).await;
    tick(&world.reborn(), "m").await;
    assert_eq!((deadline(&world, "m"), is_going(&world, "m")), (json!("2026-01-01T00:10:00Z"), true));
}

// 02/E10
#[tokio::test(start_paused = true)]
async fn the_gate_decides_whether_broken_nodes_are_repaired() {
    for node_repair in [false, true] {
        let gates = Gates { node_repair, ..Gates::default() };
        let world = World::with(Settings { gates, ..Settings::default() });
        world.put(node_class("default"));
        world.put(node_pool("a"));
        let [claim, _] = crate::testing::machine("m", "a");
        world.put(merged(claim, json!({"status": null})));
        let story = async {
            // The machine is launched and its Node comes; it works for a while, and then falls silent.
            tokio::time::sleep(Duration::from_secs(5)).await;
            let node = world.server.all("Node").remove(0);
            world.put(merged(node, is("Ready", "True")));
            tokio::time::sleep(Duration::from_secs(5)).await;
            let node = world.server.all("Node").remove(0);
            world.put(merged(node, is("Ready", "Unknown")));
            tokio::time::sleep(Duration::from_secs(TEN_MINUTES - 30)).await;
            assert!(!is_going(&world, "m"));
        };
        futures::join!(world.run(Duration::from_secs(TEN_MINUTES + 30)), story);
        assert_eq!(world.server.get("NodeClaim", "m").is_none(), node_repair);
    }
}

#[test]
fn conditions_are_written_as_metrics_write_words() {
    for (name, expected) in [
        ("Ready", "ready"),
        ("KernelDeadlock", "kernel_deadlock"),
        ("GPUReady", "gpu_ready"),
        ("DiskPressure", "disk_pressure"),
        ("already_so", "already_so"),
    ] {
        assert_eq!(snake_case(name), expected);
    }
}
