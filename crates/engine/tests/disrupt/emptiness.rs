//! Nodes without pods.

use model::budget::{Budget, BudgetText};
use model::disruption::{Disruption, Method, Stay, Verb};
use model::node::Progress;
use model::pod::{DoNotDisrupt, Life, Owner};
use model::pool::ConsolidationPolicy;

use crate::cluster::{Cluster, NOW, at, cluster};
use crate::fixture::*;

const TYPE: &str = "default-instance-type";

fn empties(count: usize) -> Cluster {
    (0..count).fold(cluster(vec![pool("p")]), |cluster, i| cluster.machine(&format!("n{i}"), TYPE, Vec::new()))
}

// 02/EM1 02/EM6 02/BU10
#[test]
fn all_empty_nodes_that_the_budget_allows_leave_in_one_command() {
    let leaving = |cluster: Cluster| cluster.decide().commands;
    let all = leaving(empties(10));
    assert_eq!(
        (all.len(), all[0].leaving.len(), all[0].method, all[0].verb()),
        (1, 10, Method::Emptiness, Verb::Delete)
    );
    let count = |nodes: &str| empties(10).budget("p", &[nodes]).all_leaving().len();
    assert_eq!(["3", "100%", "0", "25%"].map(count), [3, 10, 0, 3]);
}

// 02/BU10
#[test]
fn each_pool_has_a_budget_of_its_own() {
    let two = cluster(vec![pool("p"), pool("q").types(vec![shape("other").build()])]);
    let two = (0..4).fold(two, |cluster, i| {
        let cluster = cluster.machine(&format!("p{i}"), TYPE, Vec::new());
        cluster.machine(&format!("q{i}"), "other", Vec::new())
    });
    assert_eq!(two.budget("p", &["2"]).budget("q", &["1"]).all_leaving(), ["p0", "p1", "q0"]);
}

// 02/EM2
#[test]
fn an_empty_node_that_drifted_leaves_as_an_empty_one() {
    let command = empties(1).drifted("n0", NOW - 100).command();
    assert_eq!(command.method, Method::Emptiness);
}

// 02/EM3 02/EM4 02/EM12
#[test]
fn an_empty_node_stays_while_something_keeps_it() {
    let one = || empties(1);
    let waiting = one().consolidate_after("p", Some(60)).tenure("n0", |tenure| {
        (tenure.consolidatable, tenure.last_pod_event) = (None, Some(at(NOW - 10)));
    });
    assert_eq!(waiting.stay("n0"), Stay::NotConsolidatable { until: Some(at(NOW + 50)) });
    assert_eq!(waiting.decide().look_again, Some(at(NOW + 50)));
    assert_eq!(
        one().tenure("n0", |tenure| tenure.do_not_disrupt = DoNotDisrupt::Always).stay("n0"),
        Stay::DoNotDisrupt { until: None }
    );
    assert_eq!(one().consolidate_after("p", None).stay("n0"), Stay::ConsolidationDisabled("p".into()));
    assert_eq!(one().replicas("p", 1, Default::default()).stay("n0"), Stay::Wanted);
    assert_eq!(one().policy("p", ConsolidationPolicy::WhenEmpty).all_leaving(), ["n0"]);
}

// 02/EM5 02/EM7 02/EM8 02/EM9
#[test]
fn a_node_is_empty_when_nobody_on_it_would_want_another_place() {
    let check = |owner: Owner, life: Life, is_empty: bool| {
        let pod = pod("a").asks("cpu", 3000).change(|pod| (pod.owner, pod.life) = (owner, life));
        let commands =
            cluster(vec![pool("p").types(vec![shape(TYPE).build()])]).machine("n", TYPE, vec![pod]).decide().commands;
        assert_eq!(commands.iter().any(|command| command.method == Method::Emptiness), is_empty, "{owner:?} {life:?}");
    };
    check(Owner::Other, Life::Active, false);
    check(Owner::DaemonSet, Life::Active, true);
    check(Owner::Node, Life::Active, true);
    check(Owner::Other, Life::Terminating, true);
    check(Owner::StatefulSet, Life::Terminating, false);
    check(Owner::Other, Life::Terminal, true);
}

#[test]
fn a_node_whose_pods_nobody_would_miss_is_empty() {
    let cheap = |cost: i64| pod("a").asks("cpu", 3000).change(|pod| pod.deletion_cost = cost);
    let method = |cost: i64| {
        let cluster = cluster(vec![pool("p").types(vec![shape(TYPE).build()])]).machine("n", TYPE, vec![cheap(cost)]);
        cluster.decide().commands.first().map(|command| command.method)
    };
    assert_eq!([-(1 << 27), -(1 << 27) + 1].map(method), [Some(Method::Emptiness), None]);
}

// 02/EM10
#[test]
fn an_empty_node_that_a_waiting_pod_needs_stays() {
    let waiting = |cpu: i64| empties(1).waiting(vec![pod("w").asks("cpu", cpu)]);
    assert!(matches!(waiting(3500).stay("n0"), Stay::Awaited { .. }));
    let beside = waiting(1000).machine("full", TYPE, vec![pod("x").asks("cpu", 2500)]);
    assert_eq!(beside.all_leaving().len(), 1, "the pod has a place without the empty node, or the other's pod has");
}

// 02/EM10
#[test]
fn of_two_empty_nodes_one_stays_for_a_pod_that_fills_it() {
    let two = empties(2).waiting(vec![pod("w").asks("cpu", 3500)]);
    assert_eq!(two.all_leaving(), ["n0"]);
    assert!(matches!(two.stay("n1"), Stay::Awaited { .. }));
    let to: Vec<String> = two.command().destinations().map(ToString::to_string).collect();
    assert_eq!(to, ["n1"]);
    // Who is sent on twice ends where nobody leaves.
    let four = empties(4).waiting(vec![pod("w").asks("cpu", 3500)]);
    assert_eq!(four.all_leaving().len(), 3);
    assert_eq!(four.command().moves.len(), 1);
    assert!(four.command().destinations().all(|node| four.command().nodes().all(|leaving| leaving != node)));
}

// 02/EM10
#[test]
fn an_empty_node_does_not_leave_its_pod_to_one_that_is_not_ready() {
    let starting = |node: &mut model::node::Node| {
        (node.progress, node.created) = (Progress::Starting { has_node: true }, at(NOW - 60));
    };
    let two = empties(2).node("n1", starting).waiting(vec![pod("w").asks("cpu", 3500)]);
    assert!(two.all_leaving().is_empty(), "{:?}", two.all_leaving());
}

// 02/EM13 02/EM14
#[test]
fn room_that_a_buffer_keeps_is_kept() {
    let buffer = || vec![pod("b").asks("cpu", 3500).change(|pod| pod.is_virtual = true)];
    assert_eq!(empties(1).waiting(buffer()).stay("n0"), Stay::BufferPods("n0".into()));
    assert_eq!(empties(3).waiting(buffer()).all_leaving().len(), 2, "only the node that has the room");
    assert_eq!(empties(3).waiting(Vec::new()).all_leaving().len(), 3, "a buffer of nothing keeps nothing");
    let mut cleared = empties(3).waiting(buffer());
    cleared.pending.clear();
    assert_eq!(cleared.all_leaving().len(), 3, "nor does one that is gone");
    // The room is beside a pod, or without it.
    let beside = |pods: Vec<PodSketch>| {
        let room = vec![pod("b").asks("cpu", 2500).change(|pod| pod.is_virtual = true)];
        cluster(vec![pool("p").types(vec![shape(TYPE).build()])]).machine("n", TYPE, pods).waiting(room).stay("n")
    };
    assert_eq!(beside(Vec::new()), Stay::BufferPods("n".into()));
    assert_eq!(beside(vec![pod("real").asks("cpu", 1000)]), Stay::NotCheaper, "it is not empty");
}

// 02/BU1 02/BU4 02/BU5 02/BU6
#[test]
fn budgets_with_reasons_windows_and_mistakes_count_as_they_are_written() {
    let with = |texts: Vec<BudgetText<'_>>| {
        let budgets: Vec<_> = texts.iter().map(Budget::parse).collect();
        empties(4).pool("p", |pool| pool.budgets = budgets.into_iter().collect()).all_leaving().len()
    };
    let plain = |nodes| BudgetText { nodes, reasons: None, schedule: None, duration: None };
    let hour = Some(std::time::Duration::from_secs(3600));
    assert_eq!(with(vec![]), 4);
    assert_eq!(with(vec![plain("3"), plain("2")]), 2);
    assert_eq!(with(vec![BudgetText { reasons: Some(vec!["Drifted"]), ..plain("0") }]), 4);
    assert_eq!(with(vec![BudgetText { reasons: Some(vec!["Empty"]), ..plain("1") }, plain("3")]), 1);
    // The clock shows 13:46:40 UTC.
    assert_eq!(with(vec![BudgetText { schedule: Some("0 13 * * *"), duration: hour, ..plain("0") }]), 0);
    assert_eq!(with(vec![BudgetText { schedule: Some("0 12 * * *"), duration: hour, ..plain("0") }]), 4);
    assert_eq!(with(vec![plain("many"), plain("3")]), 0, "what cannot be understood stops everything");
}

// 02/BU2 02/BU13
#[test]
fn a_blocking_budget_says_when_its_window_ends() {
    let night = BudgetText {
        nodes: "0",
        reasons: None,
        schedule: Some("0 13 * * *"),
        duration: Some(std::time::Duration::from_secs(3600)),
    };
    let budget = Budget::parse(&night);
    let blocked = empties(1).pool("p", |pool| pool.budgets = std::iter::once(budget).collect());
    let Stay::Budget { allowed: 0, until: Some(until), .. } = blocked.stay("n0") else { panic!() };
    assert_eq!(until.to_string(), "1970-01-12T14:00:00Z");
    assert_eq!(blocked.decide().look_again, Some(until));
}

// 02/BU7 02/BU8 02/BU9
#[test]
fn leaving_and_unready_nodes_use_the_budget_up_and_others_do_not_count() {
    let count = |change: fn(Cluster) -> Cluster| change(empties(10).budget("p", &["30%"])).all_leaving().len();
    assert_eq!(count(|cluster| cluster), 3);
    assert_eq!(count(|cluster| cluster.node("n9", |node| node.is_leaving = true)), 2);
    assert_eq!(count(|cluster| cluster.tenure("n9", |tenure| tenure.is_ready = false)), 2);
    let three_unready = |cluster: Cluster| {
        ["n7", "n8", "n9"].iter().fold(cluster, |cluster, name| cluster.tenure(name, |tenure| tenure.is_ready = false))
    };
    assert_eq!(count(three_unready), 0);
    // 30 % of nine is three as well; of six it is two.
    let ending = |cluster: Cluster| {
        ["n6", "n7", "n8", "n9"].iter().fold(cluster, |cluster, name| {
            cluster.tenure(name, |tenure| tenure.is_ending = true).node(name, |node| node.is_leaving = true)
        })
    };
    assert_eq!(count(ending), 2);
    let unmanaged = |cluster: Cluster| {
        ["n6", "n7", "n8", "n9"].iter().fold(cluster, |cluster, name| cluster.node(name, |node| node.tenure = None))
    };
    assert_eq!(count(unmanaged), 2);
}

#[test]
fn commands_under_way_use_the_budget_up() {
    let mut cluster = empties(10).budget("p", &["3"]);
    let first: Disruption = cluster.command();
    let mut one = first.clone();
    one.leaving.truncate(2);
    cluster.under_way = vec![one];
    assert_eq!(cluster.all_leaving().len(), 1);
    cluster.under_way = vec![first];
    assert_eq!(cluster.all_leaving().len(), 0);
}

// 02/BU13
#[test]
fn a_window_that_opens_nothing_is_no_hope() {
    let plain = |nodes| BudgetText { nodes, reasons: None, schedule: None, duration: None };
    let hour = Some(std::time::Duration::from_secs(3600));
    let with = |texts: Vec<BudgetText<'_>>| {
        let budgets: Vec<_> = texts.iter().map(Budget::parse).collect();
        match empties(2).pool("p", |pool| pool.budgets = budgets.into_iter().collect()).stay("n0") {
            Stay::Budget { until, .. } => until.map(|until| until.to_string()),
            other => panic!("{other:?}"),
        }
    };
    let at_six = |nodes| BudgetText { schedule: Some("0 6 * * *"), duration: hour, ..plain(nodes) };
    let at_one = |nodes| BudgetText { schedule: Some("0 13 * * *"), duration: hour, ..plain(nodes) };
    assert_eq!(with(vec![plain("0"), at_six("5")]), None);
    let two_hours = BudgetText { duration: hour.map(|hour| hour * 2), ..at_one("0") };
    assert_eq!(with(vec![at_one("0"), two_hours]).as_deref(), Some("1970-01-12T15:00:00Z"));
}
