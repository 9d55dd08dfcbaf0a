use model::ids::NodeName;
use provider::ProviderError;
use serde_json::{Value, json};

use super::*;
use crate::error::Reaction;
use crate::testing::{EPOCH, Scripted, World, merged, node_class, node_pool, pod_on};

const FIVE_MINUTES: Duration = Duration::from_secs(300);

/// A pool of one machine, all of it as it should be.
fn stage(pool_change: Value) -> (World, Scripted, Disruptable) {
    let (world, cloud) = World::scripted();
    world.put(node_class("default"));
    world.put(merged(node_pool("a"), pool_change));
    world.put_machine("m", "a", json!({}), json!({}));
    (world, cloud, Disruptable::default())
}

async fn tick(world: &World, duty: &Disruptable, name: &str) -> Result<Next, ControllerError> {
    world.sync();
    duty.tick(&world.ctx, &NodeName::from(name), &world.id()).await
}

fn consolidate_after(text: &str) -> Value {
    json!({"spec": {"disruption": {"consolidateAfter": text}}})
}

fn says(world: &World, type_: &str) -> Option<[String; 3]> {
    world.condition("NodeClaim", "m", type_)
}

fn change_claim(world: &World, change: Value) {
    world.put(merged(world.server.get("NodeClaim", "m").unwrap(), change));
}

fn drifted(reason: &str) -> Option<[String; 3]> {
    Some(["True", reason, reason].map(ToOwned::to_owned))
}

fn allowed() -> Option<[String; 3]> {
    Some(["True", "Consolidatable", ""].map(ToOwned::to_owned))
}

async fn pass(seconds: u64) {
    tokio::time::advance(Duration::from_secs(seconds)).await;
}

// 02/NC13 02/NC14 02/NC15
#[tokio::test(start_paused = true)]
async fn the_mark_for_consolidation_comes_with_quiet_and_goes_with_the_next_pod() {
    let (world, _, duty) = stage(consolidate_after("30s"));
    assert_eq!(tick(&world, &duty, "m").await.unwrap(), Next::After(Duration::from_secs(30)));
    assert_eq!(says(&world, "Consolidatable"), None);
    pass(30).await;
    tick(&world, &duty, "m").await.unwrap();
    assert_eq!(says(&world, "Consolidatable"), allowed());
    change_claim(&world, json!({"status": {"lastPodEventTime": "2026-01-01T00:00:25Z"}}));
    assert_eq!(tick(&world, &duty, "m").await.unwrap(), Next::After(Duration::from_secs(25)), "a pod came or left");
    assert_eq!(says(&world, "Consolidatable"), None);
    pass(25).await;
    tick(&world, &duty, "m").await.unwrap();
    assert_eq!(says(&world, "Consolidatable"), allowed());
    world.put(merged(node_pool("a"), consolidate_after("Never")));
    tick(&world, &duty, "m").await.unwrap();
    assert_eq!(says(&world, "Consolidatable"), None);
}

// 02/NC16
#[tokio::test(start_paused = true)]
async fn claims_of_static_pools_and_of_others_are_not_marked() {
    let (world, _, duty) = stage(json!({"spec": {"replicas": 1}}));
    let class = json!({"spec": {"nodeClassRef": {"group": "example.com", "kind": "Other"}}});
    world.put_machine("foreign", "a", class, json!({}));
    tick(&world, &duty, "m").await.unwrap();
    assert_eq!(says(&world, "Consolidatable"), None);
    assert_eq!(tick(&world, &duty, "foreign").await.unwrap(), Next::OnChange);
    assert_eq!(world.condition("NodeClaim", "foreign", "Consolidatable"), None);
}

// 02/NC18 02/NC23 02/NC17
#[tokio::test(start_paused = true)]
async fn what_the_cloud_says_of_a_machine_is_asked_every_five_minutes() {
    let (world, cloud, duty) = stage(consolidate_after("60s"));
    cloud.script().drifted.insert("m".to_owned(), "AMIDrift".to_owned());
    assert_eq!(tick(&world, &duty, "m").await.unwrap(), Next::After(Duration::from_secs(60)));
    assert_eq!(says(&world, "Drifted"), drifted("AMIDrift"));
    cloud.script().drifted.clear();
    pass(299).await;
    assert_eq!(tick(&world, &duty, "m").await.unwrap(), Next::After(Duration::from_secs(1)));
    assert_eq!((says(&world, "Drifted"), says(&world, "Consolidatable")), (drifted("AMIDrift"), allowed()));
    pass(1).await;
    assert_eq!(tick(&world, &duty, "m").await.unwrap(), Next::After(FIVE_MINUTES));
    assert_eq!(says(&world, "Drifted"), None);
    assert_eq!(cloud.calls("drift"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_class_that_was_written_to_is_asked_about_at_once() {
    let (world, cloud, duty) = stage(json!({}));
    tick(&world, &duty, "m").await.unwrap();
    tick(&world, &duty, "m").await.unwrap();
    assert_eq!(cloud.calls("drift"), 1);
    cloud.script().drifted.insert("m".to_owned(), "AMIDrift".to_owned());
    world.put(merged(node_class("default"), json!({"status": {"note": "a new image"}})));
    tick(&world, &duty, "m").await.unwrap();
    assert_eq!((cloud.calls("drift"), says(&world, "Drifted")), (2, drifted("AMIDrift")));
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_for_the_cloud_are_asked_about_in_one_call() {
    let (world, cloud, duty) = stage(json!({}));
    let names = ["m", "n", "o", "p"];
    names.iter().skip(1).for_each(|name| world.put_machine(name, "a", json!({}), json!({})));
    world.sync();
    cloud.script().drift_takes = Duration::from_secs(1);
    cloud.script().drifted.insert("o".to_owned(), "AMIDrift".to_owned());
    let ids = names.map(NodeName::from);
    let tick_id = world.id();
    let ticks = ids.iter().map(|name| duty.tick(&world.ctx, name, &tick_id));
    for end in futures::future::join_all(ticks).await {
        end.unwrap();
    }
    assert_eq!(cloud.script().drift_asked, [1, 3]);
    assert_eq!(world.condition("NodeClaim", "o", "Drifted"), drifted("AMIDrift"));
    assert_eq!(world.condition("NodeClaim", "p", "Drifted"), None);
}

#[tokio::test(start_paused = true)]
async fn a_cloud_without_an_answer_holds_up_nothing_but_its_own_mark() {
    let (world, cloud, duty) = stage(json!({}));
    let silence = ProviderError::Unavailable { doing: "looking".to_owned(), source: None };
    cloud.script().drift_fails.push_back(silence);
    change_claim(&world, json!({"status": {"conditions": conditions_with("Drifted", "AMIDrift")}}));
    let error = tick(&world, &duty, "m").await.unwrap_err();
    assert_eq!(error.reaction(), Reaction::BackOff);
    assert_eq!(says(&world, "Consolidatable"), allowed());
    assert_eq!(says(&world, "Drifted"), drifted("AMIDrift"), "nobody has said that it is not");
    tick(&world, &duty, "m").await.unwrap();
    assert_eq!(says(&world, "Drifted"), None);
}

fn conditions_with(type_: &str, reason: &str) -> Vec<Value> {
    let all = ["Launched", "Registered", "Initialized", "Ready"].map(|type_| (type_, type_));
    let all = all.into_iter().chain([(type_, reason)]);
    all.map(|(type_, reason)| {
        let message = if type_ == reason { "" } else { reason };
        json!({
            "type": type_, "status": "True", "reason": reason, "message": message, "observedGeneration": 1,
            "lastTransitionTime": EPOCH,
        })
    })
    .collect()
}

// 02/NC24 02/NC25 02/NC20
#[tokio::test(start_paused = true)]
async fn pools_that_ask_for_something_else_name_their_reason_first() {
    let stamp = |hash: &str| {
        json!({"metadata": {"annotations":
            {"karpenter.sh/nodepool-hash": hash, "karpenter.sh/nodepool-hash-version": "v"}}})
    };
    let (world, cloud, duty) = stage(stamp("1"));
    cloud.script().drifted.insert("m".to_owned(), "AMIDrift".to_owned());
    change_claim(&world, stamp("1"));
    let elsewhere = json!({"spec": {"template": {"spec": {"requirements": [
        {"key": "topology.kubernetes.io/zone", "operator": "NotIn", "values": ["test-zone-a"]},
    ]}}}});
    world.put(merged(node_pool("a"), merged(stamp("1"), elsewhere.clone())));
    assert_eq!(tick(&world, &duty, "m").await.unwrap(), Next::After(FIVE_MINUTES));
    assert_eq!((says(&world, "Drifted"), cloud.calls("drift")), (drifted("RequirementsDrifted"), 0));
    world.put(merged(node_pool("a"), merged(stamp("2"), elsewhere)));
    tick(&world, &duty, "m").await.unwrap();
    assert_eq!(says(&world, "Drifted"), drifted("NodePoolDrifted"));
    world.put(merged(node_pool("a"), stamp("1")));
    tick(&world, &duty, "m").await.unwrap();
    assert_eq!(says(&world, "Drifted"), drifted("AMIDrift"));
}

// 02/NC19
#[tokio::test(start_paused = true)]
async fn a_type_that_is_not_on_sale_is_noticed_after_an_hour() {
    let (world, _, duty) = stage(json!({}));
    let gone = json!({"metadata": {"labels": {"node.kubernetes.io/instance-type": "withdrawn"}}});
    change_claim(&world, gone);
    world.sync();
    world.ctx.catalogs.refresh(&world.ctx, &world.ctx.cloud).await;
    tick(&world, &duty, "m").await.unwrap();
    assert_eq!(says(&world, "Drifted"), None);
    pass(3600).await;
    tick(&world, &duty, "m").await.unwrap();
    assert_eq!(says(&world, "Drifted"), drifted("InstanceTypeNotFound"));
}

// 02/NC21 02/NC22
#[tokio::test(start_paused = true)]
async fn nothing_is_said_without_a_pool_and_no_drift_before_a_launch() {
    let (world, cloud, duty) = stage(json!({}));
    cloud.script().drifted.insert("m".to_owned(), "AMIDrift".to_owned());
    world.server.remove("NodePool", "a");
    assert_eq!(tick(&world, &duty, "m").await.unwrap(), Next::OnChange);
    assert_eq!((says(&world, "Drifted"), says(&world, "Consolidatable")), (None, None));
    world.put(node_pool("a"));
    let unlaunched = conditions_with("Drifted", "AMIDrift").into_iter().filter(|held| held["type"] != "Launched");
    change_claim(&world, json!({"status": {"conditions": unlaunched.collect::<Vec<_>>()}}));
    tick(&world, &duty, "m").await.unwrap();
    assert_eq!(says(&world, "Drifted"), None);
}

// Spec 02, flaw 28: a condition that somebody else has just written is not lost.
#[tokio::test(start_paused = true)]
async fn a_mark_is_never_written_over_what_somebody_else_has_just_said() {
    let (world, _, duty) = stage(json!({}));
    world.sync();
    change_claim(&world, json!({"status": {"conditions": conditions_with("DisruptionReason", "Empty")}}));
    let stale = duty.tick(&world.ctx, &NodeName::from("m"), &world.id()).await;
    assert_eq!(stale.unwrap_err().reaction(), Reaction::AgainNow);
    duty.tick(&world.ctx, &NodeName::from("m"), &world.id()).await.unwrap();
    assert_eq!(says(&world, "Consolidatable"), allowed());
    assert!(says(&world, "DisruptionReason").is_some());
}

fn last_event(world: &World) -> Value {
    world.server.get("NodeClaim", "m").unwrap()["status"]["lastPodEventTime"].clone()
}

// 02/NC9 02/NC10 02/NC11 02/NC12
#[tokio::test(start_paused = true)]
async fn pods_that_come_and_go_are_noted_with_the_time_but_not_more_than_every_ten_seconds() {
    let (world, ..) = stage(json!({}));
    let event = async |node: &str| {
        world.sync();
        PodEvents.tick(&world.ctx, &NodeName::from(node), &world.id()).await.unwrap();
        last_event(&world)
    };
    assert_eq!(event("nowhere").await, Value::Null);
    world.put_machine("orphan", "a", json!({"status": {"providerID": "kwok://other"}}), json!({}));
    assert_eq!(event("orphan").await, Value::Null, "a node without a claim");
    let settled = world.server.get("NodeClaim", "m").unwrap();
    world.put(merged(settled.clone(), json!({"status": {"conditions": []}})));
    assert_eq!(event("m").await, Value::Null, "its quiet begins later in any case");
    world.put(settled);
    pass(1).await;
    assert_eq!(event("m").await, "2026-01-01T00:00:01Z");
    pass(9).await;
    assert_eq!(event("m").await, "2026-01-01T00:00:01Z");
    pass(1).await;
    assert_eq!(event("m").await, "2026-01-01T00:00:11Z");
}

// Spec 02, flaw 8: the first list after a restart is no news.
#[tokio::test(start_paused = true)]
async fn pods_that_were_there_before_us_are_no_events() {
    let (world, ..) = stage(json!({}));
    world.put(pod_on("m", "old", "1"));
    let later = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(last_event(&world), Value::Null);
        let daemon = json!({"metadata": {"ownerReferences":
            [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": true}]}});
        world.put(merged(pod_on("m", "daemon", "1"), daemon));
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(last_event(&world), Value::Null, "daemons come with the node");
        world.put(pod_on("m", "new", "1"));
    };
    futures::join!(world.run(Duration::from_secs(12)), later);
    assert_eq!(last_event(&world), "2026-01-01T00:00:10Z");
    let reborn = world.reborn();
    tokio::time::sleep(Duration::from_secs(60)).await;
    reborn.run(Duration::from_secs(5)).await;
    assert_eq!(last_event(&world), "2026-01-01T00:00:10Z");
}
