//! A small cluster from end to end, and the targets.

use super::results::{Ours, Peer, Results, RowResult, findings};
use super::*;
use crate::bench::results::Measured;

const SMALL: DisruptRow = DisruptRow { name: "rest-30", nodes: 30, pods: 450 };

#[test]
fn a_small_cluster_comes_to_rest_and_our_side_finds_nothing_in_it() {
    let workload = generate::resting::generate(&SMALL).unwrap();
    assert_eq!((workload.nodes.len(), workload.bound_pods.len(), workload.pods.len()), (30, 450, 0));
    let text = workload.text().unwrap();
    assert_eq!(generate::resting::generate(&SMALL).unwrap().text().unwrap(), text);
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (folder.path().join("workload.json"), folder.path().join("answer.json"));
    std::fs::write(&file, &text).unwrap();
    let answer = decide_file(&file, &out, 2).unwrap();
    assert_eq!(answer.sha256, crate::bench::sha256::hex(text.as_bytes()));
    assert_eq!((answer.nodes, answer.pods, answer.eligible, answer.commands), (30, 450, 30, 0));
    assert!(answer.questions >= 30 && answer.seconds.len() == 2, "{answer:?}");
    let read: Ours = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    assert_eq!(read.sha256, answer.sha256);
}

/// Nodes hold their pods, and nothing is larger than the pool allows.
#[test]
fn a_resting_cluster_is_one_that_could_be() {
    let workload = generate::resting::generate(&SMALL).unwrap();
    let snapshot = lower::lower(&workload).unwrap().snapshot;
    let mut used: BTreeMap<_, model::resources::Resources> = BTreeMap::new();
    for pod in snapshot.pods.values() {
        let sum = used.entry(pod.node.clone().unwrap()).or_default();
        *sum = sum.plus(&pod.requests);
    }
    let types = &snapshot.pools.values().next().unwrap().instance_types;
    for node in snapshot.nodes.values() {
        let kind = types.iter().find(|kind| &*node.labels["node.kubernetes.io/instance-type"] == kind.name.as_str());
        let kind = kind.unwrap();
        assert_eq!((node.allocatable.cpu_milli, node.allocatable.memory_bytes), {
            let own = kind.allocatable();
            (own.cpu_milli, own.memory_bytes)
        });
        assert!(used[&node.name].cpu_milli <= node.allocatable.cpu_milli && node.capacity.cpu_milli <= 16_000);
        assert!(used[&node.name].memory_bytes <= node.allocatable.memory_bytes);
    }
}

/// Where pods are far from filling their machines they are brought together, and nobody is lost on the way.
#[test]
fn a_loose_cluster_comes_to_rest_for_less_and_keeps_all_its_pods() {
    for mix in [Mix::Sizes, Mix::Apps] {
        let row = LooseRow { name: "loose", nodes: 20, mix };
        let mut fleet = generate::loose::generate(&row).unwrap();
        let (pods, before) = (fleet.whole().bound_pods.len(), fleet.price().unwrap());
        assert!(pods > 60 && fleet.whole().nodes.len() == 20, "{mix:?}: {pods}");
        let mut decisions = 0;
        fleet.come_to_rest(|_, _| decisions += 1).unwrap();
        let rest = fleet.whole();
        assert_eq!(rest.bound_pods.len(), pods, "{mix:?}");
        assert!(decisions > 1 && rest.nodes.len() < 20 && fleet.price().unwrap() < before, "{mix:?}");
    }
}

fn row(nodes: usize, seconds: f64, change: impl FnOnce(&mut Ours)) -> RowResult {
    let mut ours = Ours {
        sha256: String::new(),
        nodes,
        pods: 10,
        types: 1,
        lower_seconds: 0.0,
        seconds: vec![seconds],
        peak_mb: 0.0,
        eligible: nodes,
        commands: 0,
        leaving: 0,
        questions: 0,
        refused_at_sight: 0,
        plans: 0,
    };
    change(&mut ours);
    RowResult::new("row", ours, Some(Peer { seconds: 60.0, ..Peer::default() }), Measured::default())
}

#[test]
fn targets_are_those_of_the_rows_size() {
    let missed = |row: RowResult| {
        let found = findings(&Results { rows: vec![row], ..Results::default() });
        found.into_iter().filter(|one| one.outcome == Outcome::Missed).map(|one| one.what).collect::<Vec<_>>()
    };
    assert!(missed(row(1_000, 0.5, |_| ())).is_empty());
    assert_eq!(missed(row(1_000, 0.7, |_| ())), ["times the reference's speed"]);
    assert_eq!(missed(row(1_000, 1.0, |_| ())), ["seconds", "times the reference's speed"]);
    assert!(missed(row(5_000, 9.9, |_| ())).is_empty());
    assert_eq!(missed(row(5_000, 10.0, |_| ())), ["seconds"]);
    assert_eq!(missed(row(5_000, 1.0, |ours| ours.commands = 1)), ["commands"]);
    assert_eq!(missed(row(5_000, 1.0, |ours| ours.eligible = 4_999)), ["nodes that no candidate was made of"]);
}

#[test]
fn the_file_has_the_agreed_names() {
    let text = serde_json::to_value(row(1_000, 0.5, |_| ())).unwrap();
    for key in ["nodes", "pods", "sha256", "ratio"] {
        assert!(text.get(key).is_some(), "{key}");
    }
    for key in ["seconds", "commands", "questions", "plans"] {
        assert!(text["ours"].get(key).is_some(), "ours.{key}");
    }
    for key in ["secondsRaw", "candidates", "evaluated", "seconds", "commands"] {
        assert!(text["peer"].get(key).is_some(), "peer.{key}");
    }
}
