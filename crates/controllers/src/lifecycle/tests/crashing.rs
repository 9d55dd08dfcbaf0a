//! A whole life, from a claim that somebody wrote to its end with a pod on its node, and a power cut at every single write.

use serde_json::json;

use super::*;
use crate::testing::pod_on;

const ROUND: Duration = Duration::from_secs(8);
const ROUNDS_MAX: usize = 12;

/// How the power goes.
#[derive(Clone, Copy, Debug)]
struct Cut {
    after_writes: usize,
    last_one_counts: bool,
}

/// What everybody else in a cluster does: kubelets report, the scheduler brings a pod, and then somebody wants the claim gone.
fn others_act(world: &World) {
    for node in world.server.all("Node") {
        if node["status"]["conditions"].is_null() {
            let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
            world.put(merged(node, ready));
        }
    }
    let Some(claim) = world.server.get("NodeClaim", "a") else { return };
    let conditions = claim["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let is_ready = conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    if is_ready && claim["metadata"]["deletionTimestamp"].is_null() {
        world.put(pod_on(claim["status"]["nodeName"].as_str().unwrap(), "guest", "100m"));
        let now = jiff::Timestamp::from_second(world.ctx.timestamp().as_second()).unwrap().to_string();
        world.put(merged(claim, json!({"metadata": {"deletionTimestamp": now, "generation": 2}})));
    }
}

fn left(world: &World) -> Vec<String> {
    let all = ["NodeClaim", "Node", "Pod", "ConfigMap"].into_iter().flat_map(|kind| world.server.all(kind));
    all.map(|object| format!("{} {}", object["kind"], object["metadata"]["name"])).collect()
}

/// Says whether the life was long enough for the cut.
async fn live(class: &Value, cut: Option<Cut>) -> bool {
    let mut world = World::new();
    world.put(class.clone());
    world.put(claim("a", json!({})));
    if let Some(cut) = cut {
        world.server.cut_power_after(cut.after_writes, cut.last_one_counts);
    }
    let mut was_cut = false;
    for _ in 0..ROUNDS_MAX {
        world.run_and_die(ROUND).await;
        if world.server.restore_power() {
            was_cut = true;
        } else if let Some(cut) = cut.filter(|_| !was_cut) {
            // The count goes on from where it is, near enough: every write is hit by some cut.
            let written = world.server.asked("P").len() + world.server.asked("DELETE").len();
            world.server.cut_power_after(cut.after_writes.saturating_sub(written), cut.last_one_counts);
        }
        others_act(&world);
        if left(&world).is_empty() {
            break;
        }
        world = world.reborn();
    }
    assert_eq!(left(&world), [] as [String; 0], "{cut:?}");
    was_cut
}

async fn live_with_every_cut(class: Value, last_one_counts: bool) {
    let mut cuts = 0;
    while live(&class, Some(Cut { after_writes: cuts, last_one_counts })).await {
        cuts += 1;
    }
    assert!(cuts > 10, "only {cuts} writes were hit");
}

#[tokio::test(start_paused = true)]
async fn a_life_without_a_cut_leaves_nothing_behind() {
    live(&node_class("default"), None).await;
}

#[tokio::test(start_paused = true)]
async fn a_power_cut_before_any_write_leaves_nothing_behind() {
    live_with_every_cut(node_class("default"), false).await;
}

#[tokio::test(start_paused = true)]
async fn a_power_cut_after_any_write_leaves_nothing_behind_while_machines_take_their_time() {
    let slow = json!({"spec": {"nodeRegistrationDelay": "2s"}});
    live_with_every_cut(merged(node_class("default"), slow), true).await;
}
