//! What the controllers saw and decided can be had again from a recording alone.

use std::sync::{Arc, Mutex};

use cluster::record::{Choice, Decided, Journal, Origin, Replay};
use model::snapshot::Snapshot;

use super::*;
use crate::replay::decide_again;

/// A recording, and the snapshots that decisions were made on while it was made.
struct Recorded {
    text: String,
    live: Vec<Snapshot>,
}

/// A day that has some of everything: pods of several shapes come and go, a claim is deleted under them, volumes, budgets and
/// daemons count, a pool changes, and something asks for what nobody sells.
async fn story(beginning: Beginning) -> Recorded {
    let seed = beginning.seed;
    let (text, live) = (Arc::new(Mutex::new(String::new())), Arc::new(Mutex::new(Vec::new())));
    let mut world = World::new(beginning).unwrap();
    let (lines, looks) = (text.clone(), live.clone());
    let journal = Journal::new(move |line| lines.lock().unwrap().push_str(line))
        .shown_to(move |snapshot| looks.lock().unwrap().push(Snapshot::clone(snapshot)));
    world.record(journal, Origin { build: "test".to_owned(), scenario: None, seed: Some(seed) });
    populate(&world, 12);
    for object in furniture() {
        world.server.create(object).unwrap();
    }
    world.pass(Duration::from_secs(45)).await.unwrap();
    scale(&world, 40);
    world.pass(Duration::from_millis(1500)).await.unwrap();
    scale(&world, 70);
    world.pass(Duration::from_secs(60)).await.unwrap();
    let pool = json!({"spec": {"limits": {"cpu": "200"}, "weight": 10}});
    world.server.patch(Kind::NodePool, &At::new("", "general"), &pool).unwrap();
    let first = world.server.list(Kind::NodeClaim)[0].clone();
    world.server.delete(Kind::NodeClaim, &At::of(&first), &crate::Deletion::default()).unwrap();
    world.pass(Duration::from_secs(90)).await.unwrap();
    scale(&world, 3);
    world.pass(Duration::from_secs(400)).await.unwrap();
    scale(&world, 30);
    world.pass(Duration::from_secs(60)).await.unwrap();
    drop(world);
    let text = std::mem::take(&mut *text.lock().unwrap());
    let live = std::mem::take(&mut *live.lock().unwrap());
    Recorded { text, live }
}

fn scale(world: &World, replicas: u32) {
    let patch = json!({"spec": {"replicas": replicas}});
    world.server.patch(Kind::Deployment, &At::new("default", "web"), &patch).unwrap();
}

fn furniture() -> Vec<Value> {
    let containers = |cpu: &str| json!([{"name": "c", "image": "pause", "resources": {"requests": {"cpu": cpu}}}]);
    let meta = |name: &str| json!({"name": name, "namespace": "default"});
    vec![
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta("agent"), "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": containers("100m")}},
        }}),
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta("web"), "spec": {
            "maxUnavailable": 2, "selector": {"matchLabels": {"app": "web"}},
        }}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta("zonal"), "spec": {
            "replicas": 7,
            "selector": {"matchLabels": {"app": "zonal"}},
            "template": {"metadata": {"labels": {"app": "zonal"}}, "spec": {
                "containers": containers("500m"),
                "topologySpreadConstraints": [{
                    "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"app": "zonal"}},
                }],
            }},
        }}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta("hopeless"), "spec": {
            "containers": containers("4000"), "nodeSelector": {"kubernetes.io/arch": "amd64"},
        }}),
    ]
}

fn follow(text: &str, mut see: impl FnMut(Decided)) {
    let mut lines = text.lines();
    let mut replay = Replay::begin(lines.next().unwrap()).unwrap();
    for line in lines {
        if let Some(decided) = replay.take(line).unwrap_or_else(|error| panic!("{error}: {:?}", error.problem)) {
            see(decided);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_decision_of_a_recording_can_be_made_again_on_the_same_snapshot() {
    let Recorded { text, live } = story(beginning(3)).await;
    let (mut decisions, mut placed, mut refused, mut claims) = (0, 0, 0, 0);
    let (mut commands, mut stay, mut under_way, mut held, mut rejected) = (0, 0, 0, 0, 0);
    follow(&text, |decided| {
        assert!(live.contains(&*decided.batch.snapshot), "it was seen so at {}", decided.at);
        let again = decide_again(&decided);
        assert_eq!(
            serde_json::to_string(&again).unwrap(),
            serde_json::to_string(&decided.decision.choice).unwrap(),
            "at {}",
            decided.at
        );
        match again {
            Choice::Provisioning(choice) => {
                decisions += 1;
                placed += choice.plan.placements.len();
                refused += choice.plan.unplaced.len();
                claims += choice.plan.claims.len();
            }
            Choice::Disruption(choice) => {
                commands += choice.commands.len();
                stay += choice.staying.len();
                under_way += choice.question.under_way.len();
            }
            Choice::SecondLook(choice) if choice.outcome.rejection.is_none() => held += 1,
            Choice::SecondLook(_) => rejected += 1,
        }
    });
    assert!(
        commands >= 2 && stay >= 20 && under_way >= 2 && held >= 1,
        "{commands} {stay} {under_way} {held} {rejected}"
    );
    assert!(decisions >= 8 && placed >= 60 && refused >= 3 && claims >= 3, "{decisions} {placed} {refused} {claims}");
}

#[tokio::test(start_paused = true)]
async fn two_recordings_of_one_seed_are_equal_and_those_of_others_are_not() {
    let (first, again) = (story(beginning(5)).await, story(beginning(5)).await);
    let other = story(beginning(6)).await;
    assert_eq!(first.text, again.text);
    assert_ne!(first.text, other.text);
}
