use std::time::Duration;

use model::ids::PodName;
use runtime::Next;
use serde_json::{Value, json};

use super::*;
use crate::error::Reaction;
use crate::settings::Gates;
use crate::testing::{EPOCH, World, merged, node_class, node_pool, pod_on};

fn world() -> World {
    let gates = Gates { capacity_buffer: true, ..Gates::default() };
    let world = World::with(Settings { gates, ..Settings::default() });
    world.put(node_class("default"));
    world.put(node_pool("a"));
    world
}

fn buffer(spec: Value) -> Value {
    json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
        "metadata": {"namespace": "shop", "name": "spare", "generation": 4}, "spec": spec,
    })
}

fn pods_of(cpu: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]},
    })
}

fn pod_template(cpu: &str, generation: i64) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PodTemplate", "template": pods_of(cpu),
        "metadata": {"namespace": "shop", "name": "web", "generation": generation},
    })
}

fn workload(kind: &str, replicas: Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"namespace": "shop", "name": "web", "generation": 9},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": pods_of("1"),
            "serviceName": "web",
        },
    })
}

fn by_template(rest: Value) -> Value {
    merged(json!({"podTemplateRef": {"name": "web"}}), rest)
}

fn by_workload(kind: &str, rest: Value) -> Value {
    merged(json!({"scalableRef": {"kind": kind, "name": "web"}}), rest)
}

async fn try_tick(world: &World) -> Result<Next, ControllerError> {
    world.sync();
    Buffers.tick(&world.ctx, &PodName::new("shop", "spare"), &world.id()).await
}

async fn tick(world: &World) {
    assert_eq!(try_tick(world).await.unwrap(), Next::After(Duration::from_secs(30)));
}

fn status(world: &World) -> Value {
    world.server.get("CapacityBuffer", "spare").unwrap()["status"].clone()
}

/// Status and reason.
fn says(world: &World, type_: &str) -> Option<(String, String)> {
    let [status, reason, _] = world.condition("CapacityBuffer", "spare", type_)?;
    Some((status, reason))
}

fn said(status: &str, reason: &str) -> Option<(String, String)> {
    Some((status.to_owned(), reason.to_owned()))
}

fn virtual_pods(world: &World) -> usize {
    let now = world.ctx.now();
    world.ctx.store().batch(now).buffered.len()
}

// 02/NP9 01/BUF-06
#[tokio::test(start_paused = true)]
async fn a_buffer_finds_its_template_and_reads_it_again_when_it_changes() {
    let world = world();
    world.put(pod_template("1", 1));
    world.put(buffer(by_template(json!({"replicas": 3}))));
    tick(&world).await;
    assert_eq!(says(&world, "ReadyForProvisioning"), said("True", "Resolved"));
    let found = status(&world);
    assert_eq!((&found["replicas"], &found["podTemplateRef"]["name"]), (&json!(3), &json!("web")));
    assert_eq!((&found["podTemplateGeneration"], &found["provisioningStrategy"]), (&json!(1), &json!(ACTIVE_CAPACITY)));
    assert_eq!(virtual_pods(&world), 3);
    world.put(pod_template("2", 2));
    tick(&world).await;
    assert_eq!(status(&world)["podTemplateGeneration"], 2);
    let now = world.ctx.now();
    let asked = world.ctx.store().batch(now).buffered.iter().map(|pod| pod.requests.cpu_milli).collect::<Vec<_>>();
    assert_eq!(asked, [2000; 3]);
    world.server.remove("CapacityBuffer", "spare");
    assert_eq!(try_tick(&world).await.unwrap(), Next::OnChange);
    assert_eq!(virtual_pods(&world), 0, "a deleted buffer is forgotten");
}

// 02/NP9
#[tokio::test(start_paused = true)]
async fn the_size_of_a_buffer_follows_number_share_and_limits() {
    for (spec, replicas, expected) in [
        (by_template(json!({"replicas": 7})), json!(10), 7),
        (by_template(json!({"replicas": 10, "limits": {"cpu": "3"}})), json!(10), 3),
        (by_template(json!({"limits": {"cpu": "5"}})), json!(10), 5),
        (by_workload("Deployment", json!({"percentage": 20})), json!(10), 2),
        (by_workload("StatefulSet", json!({"replicas": 5, "percentage": 20})), json!(10), 5),
        (by_workload("ReplicaSet", json!({"replicas": 5, "percentage": 80})), json!(10), 8),
        (by_workload("Deployment", json!({"replicas": 5, "percentage": 80, "limits": {"cpu": "4"}})), json!(10), 4),
        (by_workload("Deployment", json!({"percentage": 10})), json!(1), 1),
        (by_workload("Deployment", json!({"percentage": 100})), Value::Null, 1),
    ] {
        let world = world();
        world.put(pod_template("1", 1));
        ["Deployment", "StatefulSet", "ReplicaSet"].iter().for_each(|kind| world.put(workload(kind, replicas.clone())));
        world.put(buffer(spec.clone()));
        tick(&world).await;
        assert_eq!(
            (status(&world)["replicas"].as_u64(), virtual_pods(&world)),
            (Some(expected), expected as usize),
            "{spec}"
        );
    }
}

// 01/BUF-03 02/NP9
#[tokio::test(start_paused = true)]
async fn a_source_that_is_missing_frees_the_room_and_is_no_failure() {
    let world = world();
    world.put(pod_template("1", 1));
    world.put(buffer(by_template(json!({"replicas": 3}))));
    tick(&world).await;
    assert_eq!(virtual_pods(&world), 3);
    world.server.remove("PodTemplate", "web");
    tick(&world).await;
    assert_eq!(says(&world, "ReadyForProvisioning"), said("False", "PodTemplateNotFound"));
    assert_eq!(says(&world, "Provisioning"), said("False", "NotReadyForProvisioning"));
    assert_eq!((virtual_pods(&world), &status(&world)["replicas"]), (0, &json!(0)));
    world.put(buffer(by_workload("Deployment", json!({"replicas": 3}))));
    tick(&world).await;
    assert_eq!(says(&world, "ReadyForProvisioning"), said("False", "ScalableRefNotFound"));
    assert_eq!(
        world.condition("CapacityBuffer", "spare", "ReadyForProvisioning").unwrap()[2],
        "there is no Deployment web"
    );
}

// 01/BUF-03
#[tokio::test(start_paused = true)]
async fn what_nobody_can_resolve_is_an_error_that_says_what_would_help() {
    for (spec, remedy) in [
        (by_workload("DaemonSet", json!({"replicas": 1})), "use Deployment, StatefulSet or ReplicaSet"),
        (json!({"scalableRef": {"apiGroup": "batch", "kind": "Deployment", "name": "web"}}), "use apps"),
        (json!({"replicas": 1}), "set spec.podTemplateRef or spec.scalableRef"),
    ] {
        let world = world();
        world.put(buffer(spec));
        let error = try_tick(&world).await.unwrap_err();
        assert_eq!(error.reaction(), Reaction::WaitForChange);
        assert!(error.to_string().contains(remedy), "{error}");
        assert_eq!(says(&world, "ReadyForProvisioning"), said("False", "ResolutionFailed"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_server_without_an_answer_changes_nothing() {
    let world = world();
    world.put(pod_template("1", 1));
    world.put(buffer(by_template(json!({"replicas": 3}))));
    tick(&world).await;
    let path = "GET /api/v1/namespaces/shop/podtemplates/web";
    world.server.trouble(path, crate::testing::Trouble::Refuses(500));
    assert_eq!(try_tick(&world).await.unwrap_err().reaction(), Reaction::BackOff);
    assert_eq!((says(&world, "ReadyForProvisioning"), virtual_pods(&world)), (said("True", "Resolved"), 3));
}

#[tokio::test(start_paused = true)]
async fn buffers_of_another_strategy_are_left_to_others() {
    let world = world();
    world.put(pod_template("1", 1));
    world.put(buffer(by_template(json!({"replicas": 3, "provisioningStrategy": "example.com/standby"}))));
    assert_eq!(try_tick(&world).await.unwrap(), Next::OnChange);
    assert_eq!((status(&world), virtual_pods(&world)), (Value::Null, 0));
}

// 01/BUF-05 02/E9
#[tokio::test(start_paused = true)]
async fn the_whole_process_makes_the_room_tells_of_it_and_lets_it_go() {
    let world = world();
    world.put(pod_template("1", 1));
    world.put(buffer(by_template(json!({"replicas": 0}))));
    let story = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(says(&world, "Provisioning"), said("False", "BufferEmpty"));
        let spare = world.server.get("CapacityBuffer", "spare").unwrap();
        world.put(merged(spare, json!({"spec": {"replicas": 2}})));
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(says(&world, "Provisioning"), said("False", "RequiresNewCapacity"));
        assert_eq!(world.server.all("NodeClaim").len(), 1);
        // The next plan finds the room that the first one ordered.
        tokio::time::sleep(Duration::from_secs(12)).await;
        assert_eq!(says(&world, "Provisioning"), said("True", "FitsExistingCapacity"));
        assert_eq!(world.server.all("NodeClaim").len(), 1);
        world.server.remove("CapacityBuffer", "spare");
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(virtual_pods(&world), 0);
    };
    futures::join!(world.run(Duration::from_secs(25)), story);
}

#[tokio::test(start_paused = true)]
async fn a_template_that_changes_wakes_its_buffers_at_once() {
    let world = world();
    world.put(pod_template("1", 1));
    world.put(buffer(by_template(json!({"limits": {"cpu": "4"}}))));
    let story = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(status(&world)["replicas"], 4);
        world.put(pod_template("2", 2));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(status(&world)["replicas"], 2);
    };
    futures::join!(world.run(Duration::from_secs(6)), story);
}

#[tokio::test(start_paused = true)]
async fn a_condition_keeps_its_time_while_its_status_stays() {
    let world = world();
    world.put(pod_template("1", 1));
    world.put(buffer(by_template(json!({"replicas": 1}))));
    tick(&world).await;
    let since = |world: &World| status(world)["conditions"][0]["lastTransitionTime"].clone();
    tokio::time::advance(Duration::from_secs(90)).await;
    world.put(pod_template("2", 2));
    tick(&world).await;
    assert_eq!(since(&world), EPOCH);
    world.server.remove("PodTemplate", "web");
    tick(&world).await;
    assert_eq!(since(&world), "2026-01-01T00:01:30Z");
    world.put_machine("m", "a", json!({}), json!({}));
    world.put(pod_on("m", "web", "1"));
    let before = world.server.asked("PATCH").len();
    tick(&world).await;
    assert_eq!(world.server.asked("PATCH").len(), before, "nothing new, nothing written");
}
