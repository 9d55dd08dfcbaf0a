//! How machines come, stay and go.

use std::time::Duration;

use model::instance::CapacityType;
use provider::{CloudProvider, Instance, ProviderError, ProviderId, Termination};
use serde_json::json;

use crate::apiserver::Trouble;
use crate::{World, claim, class, duty, offering, run};

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[tokio::test(start_paused = true)]
async fn a_slow_machine_exists_before_its_node_does() {
    let world = World::new();
    let cloud = world.start();
    let wanted = claim("a", &class("slow"), &[]);
    let machine = cloud.launch(&wanted).await.unwrap();
    let registration = duty(&cloud, "kwok.registration");
    run(&registration, seconds(29)).await;
    assert!(world.server.all("Node").is_empty());
    assert_eq!(cloud.get(&machine.id).await.unwrap(), machine);
    assert_eq!(cloud.launch(&wanted).await.unwrap(), machine);
    run(&registration, seconds(2)).await;
    assert_eq!(world.server.all("Node").len(), 1);
    assert!(world.server.all("ConfigMap").is_empty());
    assert_eq!(ids(&cloud.list().await.unwrap()), std::slice::from_ref(&machine.id));
    assert_eq!(cloud.launch(&wanted).await.unwrap(), machine);
}

/// A list tells which machines there are, not all about each.
fn ids(machines: &[Instance]) -> Vec<ProviderId> {
    machines.iter().map(|machine| machine.id.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_slow_machine_survives_the_process_that_launched_it() {
    let world = World::new();
    let mut ids = Vec::new();
    for name in ["a", "b", "c", "d", "e"] {
        ids.push(world.start().launch(&claim(name, &class("slow"), &[])).await.unwrap().id);
        tokio::time::sleep(seconds(1)).await;
    }
    let cloud = world.start();
    let listed: Vec<ProviderId> = cloud.list().await.unwrap().into_iter().map(|machine| machine.id).collect();
    ids.sort();
    assert_eq!(listed, ids);
    let registration = duty(&cloud, "kwok.registration");
    run(&registration, Duration::from_millis(26_500)).await;
    assert_eq!(world.server.all("Node").len(), 2, "one each second");
    run(&registration, seconds(4)).await;
    assert_eq!(world.server.all("Node").len(), 5);
    assert!(world.server.all("ConfigMap").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_ended_before_its_node_came_never_registers() {
    let world = World::new();
    let cloud = world.start();
    let registration = duty(&cloud, "kwok.registration");
    let machine = cloud.launch(&claim("a", &class("slow"), &[])).await.unwrap();
    run(&registration, seconds(10)).await;
    assert_eq!(cloud.terminate(&machine.id).await.unwrap(), Termination::Gone);
    run(&registration, seconds(60)).await;
    assert!(world.server.all("Node").is_empty() && world.server.all("ConfigMap").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_be_registered_now_is_tried_again() {
    let world = World::new();
    let cloud = world.start();
    let registration = duty(&cloud, "kwok.registration");
    for name in ["a", "b"] {
        cloud.launch(&claim(name, &class("slow"), &[])).await.unwrap();
    }
    world.server.trouble("POST /api/v1/nodes", Trouble::Refuses(503));
    tokio::time::sleep(seconds(31)).await;
    assert!(matches!(registration.round().await, Err(ProviderError::Unavailable { .. })));
    assert_eq!(world.server.all("Node").len(), 1, "the other one is not held up");
    run(&registration, seconds(1)).await;
    assert_eq!(world.server.all("Node").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_of_the_api_server_makes_no_second_node() {
    let world = World::new();
    for slow in ["default", "slow"] {
        let wanted = claim(slow, &class(slow), &[]);
        let path = if slow == "slow" { "POST /api/v1/namespaces/machines/configmaps" } else { "POST /api/v1/nodes" };
        world.server.trouble(path, Trouble::LosesReply);
        world.start().launch(&wanted).await.unwrap_err();
        let cloud = world.start();
        let found = cloud.find(&wanted).await.unwrap().unwrap();
        let again = cloud.launch(&wanted).await.unwrap();
        assert_eq!(again.id, found.id);
    }
    assert_eq!(world.start().list().await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_claim_keeps_its_machine_although_nothing_is_left_to_buy() {
    let world = World::new();
    let cloud = world.start();
    let zone = ("topology.kubernetes.io/zone", "In", &["test-zone-a"][..]);
    let wanted =
        claim("a", &class("default"), &[("node.kubernetes.io/instance-type", "In", &["c-1x-amd64-linux"]), zone]);
    let machine = cloud.launch(&wanted).await.unwrap();
    for way in [CapacityType::Spot, CapacityType::OnDemand] {
        cloud.facts().sell_out(offering("c-1x-amd64-linux", "test-zone-a", way));
    }
    assert_eq!(cloud.launch(&wanted).await.unwrap(), machine);
}

#[tokio::test(start_paused = true)]
async fn an_end_is_final_although_a_finalizer_keeps_the_node() {
    let world = World::new();
    let cloud = world.start();
    let machine = cloud.launch(&claim("a", &class("default"), &[])).await.unwrap();
    let mut node = world.server.all("Node").remove(0);
    node["metadata"]["finalizers"] = json!(["karpenter.sh/termination"]);
    node["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    world.server.put(node);
    // A node that is on its way out is drained first; until then its machine runs.
    assert!(cloud.get(&machine.id).await.is_ok());
    assert_eq!(cloud.terminate(&machine.id).await.unwrap(), Termination::Gone);
    assert!(matches!(cloud.get(&machine.id).await, Err(ProviderError::NotFound { .. })));
    assert!(cloud.list().await.unwrap().is_empty());
    assert_eq!(world.server.all("Node").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn machines_of_others_are_neither_seen_nor_touched() {
    let world = World::new();
    let node = |name: &str, id: &str| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"providerID": id}});
    world.server.put(node("theirs", "aws:///us-east-1a/i-0123"));
    world.server.put(node("nobodys", ""));
    let cloud = world.start();
    assert!(cloud.list().await.unwrap().is_empty());
    let theirs = ProviderId::from("aws:///us-east-1a/i-0123");
    assert!(matches!(cloud.get(&theirs).await, Err(ProviderError::NotFound { .. })));
    assert!(matches!(cloud.terminate(&theirs).await, Err(ProviderError::Invalid { .. })));
    assert_eq!(world.server.all("Node").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn machines_whose_claim_is_gone_are_collected() {
    let world = World::new();
    let cloud = world.start();
    for (name, class_name) in
        [("kept", "default"), ("orphan", "default"), ("slow-kept", "slow"), ("slow-orphan", "slow")]
    {
        let wanted = claim(name, &class(class_name), &[]);
        cloud.launch(&wanted).await.unwrap();
        if name.ends_with("kept") {
            world.server.put(serde_json::to_value(&wanted).unwrap());
        }
    }
    // The reference's nodes do not say whose they are.
    world.server.put(json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "kwok-old"}, "spec": {"providerID": "kwok://kwok-old"},
    }));
    run(&duty(&cloud, "kwok.collection"), seconds(121)).await;
    let names: Vec<String> = cloud
        .list()
        .await
        .unwrap()
        .iter()
        .map(|machine| machine.claim.as_ref().map_or_else(|| machine.id.to_string(), |claim| claim.name.clone()))
        .collect();
    assert_eq!(names, ["kept", "kwok://kwok-old", "slow-kept"]);
}

#[tokio::test(start_paused = true)]
async fn a_name_of_any_length_becomes_a_node() {
    let world = World::new();
    let cloud = world.start();
    let name = format!("{}-{}", "a".repeat(62), "b".repeat(190));
    let wanted = claim(&name, &class("default"), &[]);
    let machine = cloud.launch(&wanted).await.unwrap();
    assert!(machine.id.as_str().len() <= "kwok://".len() + 253);
    assert_eq!(machine.labels["kubernetes.io/hostname"], "a".repeat(62));
    assert_eq!(machine.claim.as_ref().unwrap().name, name);
    assert_eq!(cloud.find(&wanted).await.unwrap(), Some(machine));
}

/// Says how often all Nodes were listed while something was done.
async fn lists_during(world: &World, work: impl Future<Output = ()>) -> usize {
    let before = world.server.count("GET /api/v1/nodes");
    work.await;
    world.server.count("GET /api/v1/nodes") - before
}

#[tokio::test(start_paused = true)]
async fn nodes_are_followed_and_not_listed_again_and_again() {
    let world = World::new();
    let cloud = world.start();
    let first = cloud.launch(&claim("a", &class("default"), &[])).await.unwrap();
    let follow = duty(&cloud, "kwok.machines");
    let story = async {
        tokio::time::sleep(seconds(1)).await;
        let listed = || async { cloud.list().await.unwrap() };
        let lists = lists_during(&world, async {
            assert_eq!(ids(&listed().await), std::slice::from_ref(&first.id));
            let second = cloud.launch(&claim("b", &class("default"), &[])).await.unwrap();
            assert_eq!(listed().await.len(), 2, "our own work is known at once");
            tokio::time::sleep(seconds(1)).await;
            assert_eq!(cloud.terminate(&first.id).await.unwrap(), Termination::Gone);
            assert_eq!(ids(&listed().await), [second.id], "and so is its end");
            tokio::time::sleep(seconds(1)).await;
            assert_eq!(listed().await.len(), 1);
        });
        assert_eq!(lists.await, 0);
    };
    tokio::select! {
        biased;
        _ = follow.round() => panic!("the watch ended"),
        () = story => {}
    }
    let lists = lists_during(&world, async { assert_eq!(cloud.list().await.unwrap().len(), 1) }).await;
    assert_eq!(lists, 1, "without the watch they are listed");
}
