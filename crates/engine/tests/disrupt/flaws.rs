//! What the reference is known to do wrong (spec 02, section 8), and what is done here instead.

use std::sync::Arc;

use model::disruption::{Stay, Verb};
use model::instance::CapacityType;
use model::node::Progress;
use model::pod::Readiness;

use crate::cluster::{Cluster, NOW, at, cluster};
use crate::fixture::*;

fn cpu(name: &str, milli: i64) -> PodSketch {
    pod(name).label("app", name).asks("cpu", milli)
}

fn sized() -> Cluster {
    cluster(vec![pool("p").types(series(16))])
}

/// Flaw 12: there an unrelated pod that waits turns a deletion into a priced replacement, or stops it.
#[test]
fn a_pod_that_waits_for_a_node_of_its_own_does_not_stop_a_deletion() {
    let two = || sized().machine("a", "fake-it-3", vec![cpu("x", 500)]).machine("b", "fake-it-3", vec![cpu("y", 3000)]);
    let waiting = two().waiting(pods("big", 3, |sketch| sketch.asks("cpu", 12_000)));
    assert_eq!(waiting.all_leaving(), ["a"]);
    assert_eq!(waiting.command().verb(), Verb::Delete);
}

/// Flaw 13: there several pods of one budget pass, although only one may go at a time, and their nodes wait tainted.
#[test]
fn of_several_nodes_with_pods_of_one_budget_only_as_many_leave_as_it_lets_go() {
    let many = |allowed: i32| {
        let nodes = (0..6).fold(sized(), |cluster, i| {
            let name = format!("n{i}");
            cluster.machine(&name, "fake-it-1", vec![pod(&name).label("app", "web").asks("cpu", 500)])
        });
        nodes.machine("room", "fake-it-15", vec![cpu("y", 12_000)]).pdb("web", allowed, |_| {})
    };
    assert_eq!([1, 2].map(|allowed| many(allowed).all_leaving().len()), [1, 2]);
    // Pods that are not ready may be free to go; those that are ready are not.
    let lenient = |readiness: Readiness| {
        let mut cluster = many(1);
        for pod in cluster.snapshot.pods.values_mut() {
            Arc::make_mut(pod).is_ready = readiness;
        }
        let budget = Arc::make_mut(&mut cluster.snapshot.disruption_budgets[0]);
        budget.lets_unhealthy_go = true;
        cluster.all_leaving().len()
    };
    assert_eq!([Readiness::Ready, Readiness::NotReady].map(lenient), [1, 6]);
    assert!(matches!(many(0).stay("n0"), Stay::PodBudget { .. }));
}

/// Flaw 21: there a node that never becomes ready blocks consolidation until it expires.
#[test]
fn a_node_that_never_became_ready_is_not_waited_for() {
    let with = |age: i64| {
        sized()
            .machine("a", "fake-it-9", vec![cpu("x", 500)])
            .machine("b", "fake-it-9", vec![])
            .node("b", |node| (node.progress, node.created) = (Progress::Starting { has_node: true }, at(NOW - age)))
    };
    assert_eq!(with(899).stay("a"), Stay::Unready { node: "b".into() });
    assert_eq!(with(901).all_leaving(), ["a"]);
    assert_eq!(with(899).decide().look_again, Some(at(NOW + 2)), "time alone changes that");
}

/// Section 3.5: there nothing is consolidated while no pool is ready, although deleting needs no new machine.
#[test]
fn nodes_can_be_deleted_while_no_pool_is_ready() {
    let two = sized()
        .machine("a", "fake-it-3", vec![cpu("x", 500)])
        .machine("b", "fake-it-3", vec![cpu("y", 3000)])
        .pool("p", |pool| pool.state = model::pool::PoolState::NotReady);
    assert_eq!(two.all_leaving(), ["a"]);
}

/// Flaw 9: there only beginnings of one list are tried. Here the two that fit together are not neighbours in it.
#[test]
fn nodes_are_combined_wherever_they_stand_in_the_list() {
    let zone = |cluster: Cluster, name: &str, zone: &str| cluster.label(name, model::labels::ZONE, zone);
    let held = |name: &str, at: &str| pod(name).asks("cpu", 1200).selects(model::labels::ZONE, &format!("In {at}"));
    let mut cluster = cluster(vec![pool("p").types(vec![series(2)[1].clone(), series(3)[2].clone()])]);
    for (name, at) in [("a", "test-zone-1"), ("b", "test-zone-2"), ("c", "test-zone-3"), ("d", "test-zone-1")] {
        cluster = zone(cluster.machine(name, "fake-it-1", vec![held(name, at)]), name, at);
    }
    // Two nodes of two cpus in one zone become one of three.
    let command = cluster.command();
    let names: Vec<&str> = command.nodes().map(|name| name.as_str()).collect();
    assert_eq!((names, command.replacements.len()), (vec!["a", "d"], 1));
}

/// Flaw 22: there a command is driven by its first node and never ends when that one vanishes. Here a command names all of
/// its nodes, and each can be found by its claim.
#[test]
fn a_command_names_every_claim_that_it_takes() {
    let three = (0..3).fold(sized(), |cluster, i| cluster.machine(&format!("n{i}"), "fake-it-1", vec![]));
    let claims: Vec<String> = three.command().claims().map(ToString::to_string).collect();
    assert_eq!(claims, ["claim-n0", "claim-n1", "claim-n2"]);
}

/// Flaw 14: there a replacement that is pinned to spot still lists types that are not sold as spot, and the same move is chosen
/// again after it has failed. That pools rest after a failure is shown beside the commands.
#[test]
fn a_replacement_that_must_be_spot_lists_only_what_is_sold_as_spot() {
    let types: Vec<_> = series(6)
        .into_iter()
        .enumerate()
        .map(|(place, offered)| {
            let mut changed = model::instance::InstanceType::clone(&offered);
            for one in &mut changed.offerings {
                // Every second type is sold on demand only.
                if place % 2 == 0 && one.capacity_type() == Some(CapacityType::Spot) {
                    one.is_available = false;
                }
            }
            std::sync::Arc::new(changed)
        })
        .collect();
    let large = cluster(vec![pool("p").types(types)]).machine("n", "fake-it-5", vec![cpu("x", 500)]);
    let command = large.command();
    let claim = &command.replacements[0];
    let kinds = claim.requirements.get(model::labels::CAPACITY_TYPE).unwrap().listed().unwrap();
    assert_eq!(kinds.iter().map(|kind| &**kind).collect::<Vec<_>>(), ["spot"]);
    let listed: Vec<&str> = claim.types.iter().map(|name| name.as_str()).collect();
    assert_eq!(listed, ["fake-it-1", "fake-it-3"]);
    // And a pool whose replacements have failed is left alone for a while.
    let mut resting = large;
    resting.paused.insert("p".into(), at(NOW + 60));
    assert_eq!(resting.all_leaving(), [""; 0]);
}

/// Flaw 26: there mirror pods and pods that are ending count for nodes that may not leave and not for those that may, so that
/// scores hang on who may leave.
#[test]
fn pods_that_nobody_has_to_move_weigh_nothing_on_any_node() {
    use model::pod::{Life, Owner};
    use model::pool::ConsolidationPolicy::Balanced;
    let pods = |with_others: bool, host: &str| {
        let own = vec![cpu(&format!("own-{host}"), 5500)];
        let mirrors =
            pods(&format!("mirror-{host}"), 20, |sketch| sketch.asks("cpu", 1).change(|pod| pod.owner = Owner::Node));
        let ending = pods(&format!("ending-{host}"), 20, |sketch| {
            sketch.asks("cpu", 1).change(|pod| (pod.owner, pod.life) = (Owner::Other, Life::Terminating))
        });
        own.into_iter().chain(mirrors.into_iter().chain(ending).filter(move |_| with_others)).collect::<Vec<_>>()
    };
    let scores = |on_kept: bool, on_candidate: bool| {
        let two = cluster(vec![pool("p").types(series(16))])
            .policy("p", Balanced)
            .machine("n", "fake-it-8", pods(on_candidate, "n"))
            .machine("kept", "fake-it-8", pods(on_kept, "kept"))
            .tenure("kept", |tenure| tenure.do_not_disrupt = true);
        let decision = two.decide();
        assert!(!decision.scores.is_empty());
        decision.scores.iter().map(|score| score.disruption).collect::<Vec<_>>()
    };
    let plain = scores(false, false);
    assert_eq!([scores(true, false), scores(false, true), scores(true, true)], [(); 3].map(|()| plain.clone()));
    assert!(plain.iter().all(|share| *share == Some(500_000)), "{plain:?}");
}

// 02/QU14
#[test]
fn pods_of_leaving_nodes_may_be_planned_onto_nodes_that_are_still_starting() {
    let with = |is_leaving: bool| {
        sized()
            .machine("going", "fake-it-9", vec![cpu("x", 9000)])
            .node("going", |node| node.is_leaving = is_leaving)
            .machine("young", "fake-it-9", vec![])
            .node("young", |node| (node.progress, node.created) = (Progress::Starting { has_node: true }, at(NOW - 60)))
            .machine("a", "fake-it-3", vec![cpu("y", 500)])
            .machine("b", "fake-it-3", vec![cpu("z", 3000)])
    };
    // The pod of the node that leaves is to have the young one, so the others can be thought about.
    assert_eq!(with(true).all_leaving(), ["a"]);
    // A node that stays is not emptied onto one that may never start.
    assert!(!with(false).all_leaving().contains(&"going".to_owned()));
}

/// Flaw 35: there only events tell why a node stays.
#[test]
fn every_node_has_a_reason_and_the_one_that_is_easiest_to_lift() {
    let cluster = sized()
        .machine("a", "fake-it-9", vec![cpu("x", 9000)])
        .machine("b", "fake-it-9", vec![cpu("y", 2000)])
        .pdb("y", 0, |budget| budget.blocks_always = false)
        .machine("c", "fake-it-9", vec![cpu("z", 9000)]);
    let decision = cluster.decide();
    let names: Vec<&str> = decision.staying.iter().map(|staying| staying.node.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert!(decision.staying.iter().all(|staying| staying.easiest.hardness() <= staying.first.hardness()));
    assert_eq!(decision.staying[0].first, Stay::NotCheaper);
}
