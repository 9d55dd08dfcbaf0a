//! Nodes that no longer are what they should be.

use std::time::Duration;

use engine::disrupt::StaticCount;
use model::disruption::{Method, Stay, StayEvent, Verb};
use model::node::Progress;
use model::pod::DoNotDisrupt;

use crate::cluster::{Cluster, NOW, at, cluster, unready};
use crate::consolidation::priced;
use crate::fixture::*;

const TYPE: &str = "default-instance-type";

fn full(name: &str) -> Vec<PodSketch> {
    vec![pod(&format!("on-{name}")).label("app", name).asks("cpu", 3500)]
}

fn only_type() -> Cluster {
    cluster(vec![pool("p").types(vec![shape(TYPE).build()])])
}

// 02/DR1
#[test]
fn a_drifted_node_is_replaced_or_deleted_where_its_pods_fit() {
    let replaced = only_type().machine("n", TYPE, full("n")).drifted("n", NOW - 5).command();
    assert_eq!((replaced.method, replaced.verb(), replaced.replacements.len()), (Method::Drift, Verb::Replace, 1));
    let fits = only_type()
        .machine("n", TYPE, vec![pod("a").asks("cpu", 500)])
        .machine("other", TYPE, vec![pod("b").asks("cpu", 3000)])
        .consolidate_after("p", None)
        .drifted("n", NOW - 5)
        .command();
    assert_eq!((fits.method, fits.verb()), (Method::Drift, Verb::Delete));
    let empty = only_type().machine("n", TYPE, vec![]).consolidate_after("p", None).drifted("n", NOW - 5).command();
    assert_eq!((empty.method, empty.verb()), (Method::Drift, Verb::Delete));
    let many = cluster(vec![
        pool("p").types(vec![shape(TYPE).build(), shape("big").with("cpu", 8000).with("pods", 20).build()]),
    ])
    .machine("n", "big", vec![pod("a").asks("cpu", 3500), pod("b").asks("cpu", 3500)])
    .pool("p", |pool| pool.instance_types.retain(|offered| offered.name.as_str() == TYPE))
    .drifted("n", NOW - 5)
    .command();
    assert_eq!(many.replacements.len(), 2, "price does not matter");
}

/// Who goes to a node that is to leave as well would move twice. Where nothing can be bought, that is better than nothing.
#[test]
fn nobody_moves_from_one_drifted_node_to_another() {
    let small = |name: &str| vec![pod(&format!("on-{name}")).asks("cpu", 500)];
    let two = || {
        let two =
            only_type().consolidate_after("p", None).machine("a", TYPE, small("a")).machine("b", TYPE, small("b"));
        two.drifted("a", NOW - 9).drifted("b", NOW - 5).budget("p", &["1"])
    };
    let command = two().command();
    assert_eq!((command.verb(), command.replacements.len()), (Verb::Replace, 1));
    let sold_out = |pool: &mut model::pool::Pool| {
        pool.instance_types.iter_mut().for_each(|offered| *offered = priced(offered, |_, _| None));
    };
    let stuck = two().pool("p", sold_out).command();
    assert_eq!((stuck.verb(), stuck.destinations().count()), (Verb::Delete, 1));
}

/// A node that only a person will let go is there to stay, and others' pods may as well go there. Decision 0079.
#[test]
fn a_drifted_node_that_never_leaves_takes_pods_of_another() {
    let small = |name: &str| vec![pod(&format!("on-{name}")).asks("cpu", 500)];
    let two = || {
        let cluster =
            only_type().pool("p", |pool| pool.consolidation.after = None).machine("kept", TYPE, small("kept"));
        cluster.machine("n", TYPE, small("n")).drifted("kept", NOW - 9).drifted("n", NOW - 5).budget("p", &["1"])
    };
    let verb = |cluster: Cluster| cluster.command().verb();
    let protected = |until| two().tenure("kept", move |tenure| tenure.do_not_disrupt = until);
    assert_eq!(verb(protected(DoNotDisrupt::Always)), Verb::Delete);
    assert_eq!(verb(protected(DoNotDisrupt::Until(at(NOW + 60)))), Verb::Replace, "it will leave in a minute");
}

/// Two plans for each of many that find no place would hold up all other decisions.
#[test]
fn many_that_find_no_place_are_not_all_asked_twice() {
    let sold_out = |pool: &mut model::pool::Pool| {
        pool.instance_types.iter_mut().for_each(|offered| *offered = priced(offered, |_, _| None));
    };
    let names: Vec<String> = (0..20).map(|number| format!("n{number:02}")).collect();
    let stuck =
        names.iter().fold(only_type(), |cluster, name| cluster.machine(name, TYPE, full(name)).drifted(name, NOW - 5));
    let decision = stuck.pool("p", sold_out).budget("p", &["100%"]).decide();
    assert_eq!((decision.commands.len(), decision.effort.plans), (0, 20 + 8));
}

// 02/DR2
#[test]
fn one_that_cannot_move_does_not_hold_up_the_next() {
    let cluster = only_type()
        .machine("a", TYPE, vec![pod("stuck").asks("cpu", 3500).selects("zone-of-nowhere", "Exists")])
        .machine("b", TYPE, full("b"))
        .drifted("a", NOW - 50)
        .drifted("b", NOW - 5);
    assert_eq!(cluster.all_leaving(), ["b"]);
    let stay = cluster.stay("a");
    assert!(matches!(stay, Stay::CannotMove(_)), "{stay}");
    assert!(stay.event_text().unwrap().starts_with("Not all pods would schedule, default/stuck => "));
}

// 02/DR2
#[test]
fn one_whose_pods_would_go_to_a_node_that_is_not_ready_is_told_that_it_waits() {
    let starting = only_type()
        .machine("n", TYPE, vec![pod("a").asks("cpu", 500)])
        .drifted("n", NOW - 5)
        .machine("young", TYPE, vec![])
        .node("young", |node| (node.progress, node.created) = (Progress::Starting { has_node: true }, at(NOW - 60)));
    let stay = starting.stay("n");
    assert_eq!(stay, Stay::CannotMoveYet(unready("a", "young")));
    assert_eq!(stay.event(), Some(StayEvent::DisruptionBlocked));
}

// 02/DR3 02/DR7
#[test]
fn what_did_not_drift_or_is_static_is_not_replaced_by_drift() {
    assert_eq!(only_type().machine("n", TYPE, full("n")).all_leaving(), [""; 0]);
    let fixed = only_type().machine("n", TYPE, full("n")).drifted("n", NOW).replicas("p", 1, count(1, 0, None));
    assert_eq!(fixed.command().method, Method::StaticDrift);
}

// 02/DR4
#[test]
fn those_without_pods_go_first_and_then_those_that_drifted_first() {
    let cluster = only_type()
        .machine("young", TYPE, full("young"))
        .machine("old", TYPE, full("old"))
        .machine("empty", TYPE, vec![])
        .consolidate_after("p", None)
        .drifted("young", NOW - 5)
        .drifted("old", NOW - 50)
        .drifted("empty", NOW - 1);
    assert_eq!(cluster.leaving(), [["empty"], ["old"], ["young"]]);
    assert_eq!(cluster.budget("p", &["2"]).leaving(), [["empty"], ["old"]]);
}

// 02/DR5
#[test]
fn with_a_deadline_a_node_drains_but_nothing_is_bought_for_pods_that_cannot_move() {
    let protected = || vec![pod("a").asks("cpu", 3500).change(|pod| pod.do_not_disrupt = DoNotDisrupt::Always)];
    let without = only_type().machine("n", TYPE, protected()).drifted("n", NOW - 5);
    assert!(matches!(without.stay("n"), Stay::PodDoNotDisrupt { .. }));
    let with = without.tenure("n", |tenure| tenure.grace = Some(std::time::Duration::from_secs(9)));
    let command = with.command();
    assert_eq!((command.verb(), command.moves.len()), (Verb::Delete, 0));
    // A budget that lets nobody go ever is the same; one that lets nobody go now will let its pod come to the new machine.
    for (is_for_good, verb, moves) in [(true, Verb::Delete, 0), (false, Verb::Replace, 1)] {
        let without = only_type().machine("n", TYPE, full("n")).drifted("n", NOW - 5);
        let without = without.pdb("n", 0, |budget| budget.blocks_always = is_for_good);
        assert!(matches!(without.stay("n"), Stay::PodBudget { .. }), "{}", without.stay("n"));
        let command = without.tenure("n", |tenure| tenure.grace = Some(Duration::from_secs(9))).command();
        assert_eq!((command.verb(), command.moves.len()), (verb, moves), "{is_for_good}");
    }
}

// 02/BU12
#[test]
fn drift_goes_as_far_as_the_budget_and_counts_what_is_under_way() {
    let ten = (0..10).fold(only_type().budget("p", &["30%"]), |cluster, i| {
        cluster.machine(&format!("n{i}"), TYPE, full(&format!("n{i}")))
    });
    let mut drifted = (0..5).fold(ten, |cluster, i| cluster.drifted(&format!("n{i}"), NOW - 5));
    let commands = drifted.decide().commands;
    assert_eq!(commands.len(), 3);
    drifted.under_way = commands[..2].to_vec();
    assert_eq!(drifted.decide().commands.len(), 1);
}

fn count(active: i64, replacing: i64, room: Option<i64>) -> StaticCount {
    StaticCount { active, replacing, room }
}

// 02/DR8
#[test]
fn static_pools_replace_within_budgets_limits_and_their_number() {
    let three = |count: StaticCount, replicas: i64| {
        (0..3).fold(only_type().replicas("p", replicas, count), |cluster, i| {
            let name = format!("n{i}");
            cluster.machine(&name, TYPE, full(&name)).drifted(&name, NOW - i)
        })
    };
    let leaving = |cluster: Cluster| cluster.all_leaving().len();
    assert_eq!(leaving(three(count(3, 0, None), 3)), 3);
    assert_eq!(leaving(three(count(3, 0, None), 3).budget("p", &["1"])), 1);
    assert_eq!(leaving(three(count(3, 0, None), 3).budget("p", &["50%"])), 2);
    assert_eq!(leaving(three(count(3, 0, Some(2)), 3)), 2);
    assert_eq!(leaving(three(count(3, 0, Some(0)), 3)), 0);
    assert_eq!(leaving(three(count(3, 0, None), 2)), 0, "scaling down comes first");
    assert_eq!(leaving(three(count(2, 1, None), 2)), 0, "what is being replaced counts");
    let command = three(count(3, 0, Some(1)), 3).command();
    assert_eq!((command.method, command.replacements.len(), command.moves.len()), (Method::StaticDrift, 1, 0));
    assert_eq!(command.nodes().next().unwrap().as_str(), "n2", "what drifted first");
    let kept = three(count(3, 0, None), 3).tenure("n0", |tenure| tenure.do_not_disrupt = DoNotDisrupt::Always);
    assert_eq!(kept.all_leaving(), ["n1", "n2"]);
    assert_eq!(three(count(3, 0, None), 3).stay_of_static(), 0);
    assert_eq!(three(count(3, 0, None), 0).stay_of_static(), 3, "a pool that is to have no nodes replaces none");
    // Each pool has its own.
    let two = cluster(vec![pool("p").types(vec![shape(TYPE).build()]), pool("q").types(vec![shape("other").build()])]);
    let two = ["a", "b"].iter().fold(two, |cluster, name| cluster.machine(name, TYPE, full(name)).drifted(name, NOW));
    let two =
        ["c", "d"].iter().fold(two, |cluster, name| cluster.machine(name, "other", full(name)).drifted(name, NOW));
    let two = two.replicas("p", 2, count(2, 0, None)).replicas("q", 2, count(2, 0, Some(1))).budget("p", &["100%"]);
    assert_eq!(two.all_leaving(), ["a", "b", "c"]);
    assert_eq!(two.replicas("q", 1, count(2, 0, None)).budget("p", &["1"]).all_leaving(), ["a"]);
}

/// Flaw 13, for static pools.
#[test]
fn static_pools_do_not_queue_for_one_pod_budget() {
    let three = |grace: Option<Duration>| {
        let cluster = (0..3).fold(only_type().replicas("p", 3, count(3, 0, None)), |cluster, i| {
            let name = format!("n{i}");
            let pods = vec![pod(&name).label("app", "web").asks("cpu", 3000)];
            let cluster = cluster.machine(&name, TYPE, pods).drifted(&name, NOW - i);
            cluster.tenure(&name, |tenure| tenure.grace = grace)
        });
        cluster.pdb("web", 1, |_| {})
    };
    assert_eq!(three(None).all_leaving(), ["n2"]);
    assert!(matches!(three(None).stay("n0"), Stay::PodBudgetInUse { .. }));
    assert_eq!(three(Some(Duration::from_secs(60))).all_leaving().len(), 3, "a deadline waits for nobody");
}

impl Cluster {
    /// How many nodes of the static pool are told that they must wait for it.
    fn stay_of_static(&self) -> usize {
        let staying = self.decide().staying;
        staying.iter().filter(|staying| staying.first == Stay::StaticPool("p".into())).count()
    }
}

/// Spec 02, flaw 15: the reference tries a failing pool again on every pass, and others starve.
#[test]
fn a_pool_whose_replacements_failed_rests_while_others_go_on() {
    let two = cluster(vec![pool("p").types(vec![shape(TYPE).build()]), pool("q").types(vec![shape("other").build()])]);
    let mut two = two
        .machine("a", TYPE, full("a"))
        .machine("b", "other", full("b"))
        .drifted("a", NOW - 500)
        .drifted("b", NOW - 5);
    two.paused.insert("p".into(), at(NOW + 60));
    two.paused.insert("q".into(), at(NOW));
    let taint = |pool: &mut model::pool::Pool| {
        pool.template.taints.push(model::taints::Taint::new("p", "", model::taints::Effect::NoSchedule))
    };
    let two = two.pool("p", taint);
    assert_eq!(two.all_leaving(), ["b"]);
    assert_eq!(two.stay("a"), Stay::PoolPaused { pool: "p".into(), until: at(NOW + 60) });
}
