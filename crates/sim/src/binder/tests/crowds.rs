//! Many pods on many nodes. How long it takes is not asserted: machines differ. Sizes are those that an unoptimised build bears;
//! an optimised one takes 20,000 pods on 1,500 nodes in about a second on the board and in a few through the server.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::ids::{NodeName, PodName};
use model::labels::{HOSTNAME, Labels, ZONE};
use model::pod::Pod;
use model::requirements::{Operator, Requirement, Requirements};
use model::resources::Resources;
use model::topology::{Policy, Selector, Spread, SpreadMode};
use runtime::Rng;

use serde_json::{Value, json};

use super::town::{self, Town};
use crate::binder::board::{Board, Facts};
use crate::kinds::Kind;

fn node(number: usize) -> (NodeName, Facts) {
    let name = format!("node-{number}");
    let labels = Labels::from([
        (HOSTNAME.into(), name.as_str().into()),
        (ZONE.into(), ["a", "b", "c"][number % 3].into()),
        ("karpenter.sh/nodepool".into(), "p".into()),
        ("node.kubernetes.io/instance-type".into(), "c-8x-amd64-linux".into()),
    ]);
    let cpu = [8_000, 16_000, 32_000][number % 3];
    let allocatable = Resources::default().with("cpu", cpu).with("memory", cpu << 22).with("pods", 110);
    (name.into(), Facts { labels, allocatable, ..Facts::default() })
}

/// A pod of one of 80 workloads, spread softly as kube-scheduler does by itself.
fn pod(number: usize) -> Arc<Pod> {
    let workload = number % 80;
    let (cpu, memory) = ([100, 250, 500, 1000, 2000][workload % 5], [128, 256, 512, 1024][workload % 4] << 20);
    let mut pod = Pod::pending(
        "default",
        &format!("w{workload}-{number}"),
        Resources::default().with("cpu", cpu).with("memory", memory),
    );
    let app: Arc<str> = format!("w{workload}").into();
    pod.labels.insert("app".into(), app.clone());
    let selector = Selector::Matching(Requirements::default().with("app", Requirement::new(Operator::In, [&*app])));
    let soft = |key: &str, max_skew: i32| Spread {
        key: key.into(),
        max_skew,
        min_domains: None,
        mode: SpreadMode::ScheduleAnyway,
        selector: selector.clone(),
        node_affinity: Policy::Honor,
        node_taints: Policy::Ignore,
    };
    pod.wants.spread = vec![soft(HOSTNAME, 3), soft(ZONE, 5)];
    Arc::new(pod)
}

#[test]
fn thousands_of_pods_are_spread_over_hundreds_of_nodes() {
    let mut board = Board::default();
    for number in 0..450 {
        let (name, facts) = node(number);
        board.put_node(&name, facts);
    }
    let rng = Rng::new(1);
    let mut by_zone: BTreeMap<(usize, Arc<str>), i64> = BTreeMap::new();
    for number in 0..4000 {
        let pod = pod(number);
        let class = board.join_class(&pod, false);
        let look = board.look(class);
        let scores = board.scores(class, &look.feasible);
        let most = scores.iter().max().copied().unwrap();
        let best: Vec<usize> =
            look.feasible.iter().zip(&scores).filter(|(_, score)| **score == most).map(|(slot, _)| *slot).collect();
        let slot = best[rng.below(best.len() as u64) as usize];
        let (name, zone) = {
            let seat = board.seat_at(slot).unwrap();
            (seat.name.clone(), seat.facts.as_ref().unwrap().labels[ZONE].clone())
        };
        board.seat(&pod, class, &name);
        *by_zone.entry((number % 80, zone)).or_default() += 1;
    }
    // Fifty pods of each workload: no zone is without any.
    assert_eq!(by_zone.len(), 240);
    assert!(by_zone.values().all(|count| (8..=25).contains(count)), "{by_zone:?}");
    let gone = board.lift(&PodName::new("default", "w0-0")).unwrap();
    assert_eq!(gone.1.pod.name, PodName::new("default", "w0-0"));
}

fn owner(town: &mut Town, name: &str) -> Value {
    let labels = json!({"app": name});
    let set = town.create(json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    }));
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": set["metadata"]["uid"], "controller": true})
}

/// Pods come first, and nodes one after the other, as an autoscaler would bring them. Everybody is bound in the end.
fn bound_as_nodes_come(mut town: Town, pods: impl Iterator<Item = Value>) {
    let count = pods.map(|pod| drop(town.create_quietly(pod))).count();
    town.pump();
    for number in 0..count / 12 {
        let zone = ["a", "b", "c"][number % 3];
        let labels = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": zone}}});
        town.create(town::node(&format!("n{number}"), "4", labels));
    }
    let pods = town.server.list(Kind::Pod);
    assert_eq!((pods.len(), pods.iter().filter(|pod| pod["spec"]["nodeName"].is_string()).count()), (count, count));
}

fn owned(number: usize, owner: &Value, spec: Value) -> Value {
    let mut pod = town::pod(&format!("p{number}"), json!({"cpu": "200m", "memory": "128Mi"}), spec);
    pod["metadata"]["labels"] = json!({"app": owner["name"]});
    pod["metadata"]["ownerReferences"] = json!([owner]);
    pod
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_few_workloads_are_bound_as_nodes_come() {
    let mut town = Town::new();
    let owners: Vec<Value> = (0..10).map(|number| owner(&mut town, &format!("owner-{number}"))).collect();
    bound_as_nodes_come(town, (0..900).map(|number| owned(number, &owners[number % owners.len()], json!({}))));
}

#[tokio::test(start_paused = true)]
async fn pods_that_must_spread_are_bound_as_nodes_come() {
    let mut town = Town::new();
    let owners: Vec<Value> = (0..10).map(|number| owner(&mut town, &format!("owner-{number}"))).collect();
    let pods = (0..900).map(|number| {
        let owner = &owners[number % owners.len()];
        let selector = json!({"matchLabels": {"app": owner["name"]}});
        let spread = json!([{
            "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector,
        }]);
        owned(number, owner, json!({"topologySpreadConstraints": spread}))
    });
    bound_as_nodes_come(town, pods);
}

#[tokio::test(start_paused = true)]
async fn pods_that_are_all_different_are_bound_as_nodes_come() {
    let pods = (0..900).map(|number| {
        let requests = json!({"cpu": format!("{}m", 150 + number % 100), "memory": format!("{}Ki", 100_000 + number)});
        town::pod(&format!("p{number}"), requests, json!({}))
    });
    bound_as_nodes_come(Town::new(), pods);
}
