use serde_json::json;

use super::*;
use crate::testing::{Stage, server};

/// Adds one to a label of every ConfigMap that it hears of.
struct Restless;

impl StandIn for Restless {
    fn name(&self) -> &'static str {
        "restless"
    }

    fn heed(&mut self, change: &Change, server: &ApiServer) {
        if let Some(object) = change.after.as_ref().filter(|_| change.kind == Kind::ConfigMap) {
            let count: u64 = fields::labels(object)["count"].as_str().unwrap_or("0").parse().unwrap();
            let patch = json!({"metadata": {"labels": {"count": (count + 1).to_string()}}});
            server.patch(Kind::ConfigMap, &change.at, &patch).unwrap();
        }
    }

    fn next(&self) -> Option<Timestamp> {
        None
    }

    fn wake(&mut self, _now: Timestamp, _server: &ApiServer) {}
}

/// Writes down when it was woken.
#[derive(Default)]
struct Sleeper {
    at: Option<Timestamp>,
}

impl StandIn for Sleeper {
    fn name(&self) -> &'static str {
        "sleeper"
    }

    fn heed(&mut self, change: &Change, server: &ApiServer) {
        if change.kind == Kind::ConfigMap && change.before.is_none() && &*change.at.name == "begin" {
            self.at = Some(fields::after_seconds(server.now(), 60));
        }
    }

    fn next(&self) -> Option<Timestamp> {
        self.at
    }

    fn wake(&mut self, now: Timestamp, server: &ApiServer) {
        self.at = None;
        server.create(config_map(&format!("woken-{}", now.as_second() % 3600))).unwrap();
    }
}

fn config_map(name: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}})
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "restless: ")]
async fn a_part_that_never_rests_is_named() {
    let server = server();
    let mut stage = Stage::of(server, vec![Box::new(Sleeper::default()), Box::new(Restless)]);
    stage.create(config_map("endless"));
    stage.settle();
}

#[tokio::test(start_paused = true)]
async fn a_part_sleeps_until_its_time_and_hears_of_what_was_there_before() {
    let server = server();
    server.create(config_map("begin")).unwrap();
    let mut stage = Stage::of(server, vec![Box::new(Sleeper::default())]);
    stage.pass(59).await;
    assert!(stage.find(Kind::ConfigMap, "woken-60").is_none());
    stage.pass(2).await;
    assert!(stage.find(Kind::ConfigMap, "woken-60").is_some());
}

#[tokio::test(start_paused = true)]
async fn one_seed_gives_one_cluster() {
    let mut states = Vec::new();
    for _ in 0..2 {
        let mut stage = Stage::new();
        stage.nodes(&["n1", "n2", "n3"]);
        stage.create(crate::testing::workload(Kind::Deployment, "web", json!({"replicas": 7})));
        stage.create(crate::testing::workload(Kind::DaemonSet, "agent", json!({})));
        stage.pass(30).await;
        stage.patch(Kind::Deployment, "web", json!({"spec": {"replicas": 3}}));
        stage.pass(30).await;
        let objects = Kind::ALL.iter().flat_map(|kind| stage.server.list(*kind));
        states.push(objects.map(|object| object.to_string()).collect::<Vec<_>>());
    }
    assert_eq!(states[0].len(), states[1].len());
    assert_eq!(states[0], states[1]);
}
