use serde_json::{Value, json};

use super::town::{Town, pod};
use crate::kinds::Kind;

fn important(name: &str, cpu: &str) -> Value {
    pod(name, json!({"cpu": cpu}), json!({"priority": 100}))
}

fn standing(town: &mut Town, name: &str, node: &str, cpu: &str, priority: i32) {
    town.create(pod(name, json!({"cpu": cpu}), json!({"nodeName": node, "priority": priority})));
}

fn is_leaving(town: &Town, name: &str) -> bool {
    !town.get(Kind::Pod, name)["metadata"]["deletionTimestamp"].is_null()
}

#[tokio::test(start_paused = true)]
async fn the_least_important_pods_leave_for_a_more_important_one() {
    let mut town = Town::new();
    town.node("m", json!({}));
    town.node("n", json!({}));
    standing(&mut town, "a", "m", "3", 10);
    standing(&mut town, "b", "n", "1", 5);
    standing(&mut town, "c", "n", "2", 6);
    town.create(important("p", "3"));
    assert_eq!(town.get(Kind::Pod, "p")["status"]["nominatedNodeName"], "n");
    assert_eq!(town.message("p"), "0/2 nodes are available: 2 Insufficient cpu.");
    assert_eq!(["a", "b", "c"].map(|name| is_leaving(&town, name)), [false, false, true], "only who must");
    let victim = town.get(Kind::Pod, "c");
    let conditions = victim["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().any(|condition| condition["reason"] == "PreemptionByScheduler"), "{conditions:?}");
    assert_eq!(town.place("p"), "");

    // Room that is promised is not taken by who matters less or as much.
    town.create(pod("late", json!({"cpu": "1"}), json!({"priority": 100, "preemptionPolicy": "Never"})));
    assert_eq!(town.place("late"), "m");
    town.end("c");
    assert_eq!(town.place("p"), "n");
    assert_eq!(town.place("late"), "m");
}

#[tokio::test(start_paused = true)]
async fn room_that_is_promised_is_kept_for_who_it_was_promised_to() {
    let mut town = Town::new();
    town.node("m", json!({}));
    standing(&mut town, "a", "m", "4", 0);
    town.create(important("p", "3"));
    assert!(is_leaving(&town, "a"));
    town.create(pod("late", json!({"cpu": "2"}), json!({"priority": 50})));
    town.end("a");
    assert_eq!((town.place("p").as_str(), town.place("late").as_str()), ("m", ""));
}

#[tokio::test(start_paused = true)]
async fn a_budget_sends_the_scheduler_to_another_node() {
    let mut town = Town::new();
    town.node("m", json!({}));
    town.node("n", json!({}));
    standing(&mut town, "a", "m", "3", 0);
    standing(&mut town, "b", "n", "3", 9);
    town.patch(Kind::Pod, "a", json!({"metadata": {"labels": {"app": "guarded"}}}));
    town.create(json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "g", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1},
    }));
    town.create(important("p", "2"));
    assert_eq!(["a", "b"].map(|name| is_leaving(&town, name)), [false, true], "although b matters more");
    // Where nothing else helps, a budget is no hindrance.
    town.create(important("q", "3"));
    assert!(is_leaving(&town, "a"));
}

#[tokio::test(start_paused = true)]
async fn who_may_not_preempt_waits() {
    let mut town = Town::new();
    town.node("m", json!({}));
    standing(&mut town, "a", "m", "3", 0);
    town.create(pod("p", json!({"cpu": "2"}), json!({"priority": 100, "preemptionPolicy": "Never"})));
    let told = "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never.";
    assert_eq!((town.message("p").as_str(), is_leaving(&town, "a")), (told, false));
}

#[tokio::test(start_paused = true)]
async fn nobody_leaves_where_it_would_not_help() {
    let mut town = Town::new();
    town.node("m", json!({}));
    standing(&mut town, "a", "m", "1", 0);
    standing(&mut town, "b", "m", "2", 200);
    town.create(important("p", "3"));
    let told = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 Insufficient cpu.";
    assert_eq!((town.message("p").as_str(), is_leaving(&town, "a")), (told, false));
    town.create(important("q", "9"));
    assert!(town.message("q").ends_with("1 Preemption is not helpful for scheduling."), "{}", town.message("q"));
}

#[tokio::test(start_paused = true)]
async fn each_of_several_important_pods_gets_its_own_room() {
    let mut town = Town::new();
    for node in ["m", "n", "o"] {
        town.node(node, json!({}));
        standing(&mut town, &format!("old-{node}"), node, "3", 0);
    }
    for name in ["p", "q", "r"] {
        town.create_quietly(important(name, "3"));
    }
    town.pump();
    let mut promised: Vec<String> = ["p", "q", "r"]
        .map(|name| town.get(Kind::Pod, name)["status"]["nominatedNodeName"].as_str().unwrap_or_default().to_owned())
        .to_vec();
    promised.sort();
    assert_eq!(promised, ["m", "n", "o"]);
    for node in ["m", "n", "o"] {
        town.end(&format!("old-{node}"));
    }
    assert!(["p", "q", "r"].iter().all(|name| !town.place(name).is_empty()));
}
