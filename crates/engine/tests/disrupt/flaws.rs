//! What the reference is known to do wrong (spec 02, section 8), and what is done here instead.

use std::sync::Arc;
use std::time::Duration;

use engine::disrupt::{Dropped, Validity};
use model::budget::{Budget, BudgetText, Reason};
use model::disruption::{Disruption, Share, Stay, Verb};
use model::ids::PodName;
use model::instance::CapacityType;
use model::node::Progress;
use model::pod::{DoNotDisrupt, Readiness};

use crate::cluster::{Cluster, NOW, at, cluster, unready};
use crate::consolidation::priced;
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
    assert_eq!(with(899).stay("a"), Stay::Unready(unready("x", "b")));
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
    let held = |name: &str, at: &str, milli: i64| {
        pod(name).asks("cpu", milli).selects(model::labels::ZONE, &format!("In {at}"))
    };
    let mut cluster = cluster(vec![pool("p").types(vec![series(2)[1].clone(), series(3)[2].clone()])]);
    // All waste the same, so they are tried by name. Whoever stands between fits together with nobody.
    let between = (0..10).map(|i| (format!("m{i}"), ["test-zone-2", "test-zone-3"][i % 2], 1600));
    let ends = [("a", 1200), ("z", 1600)].map(|(name, milli)| (name.to_owned(), "test-zone-1", milli));
    for (name, at, milli) in ends.into_iter().chain(between) {
        cluster = zone(cluster.machine(&name, "fake-it-1", vec![held(&name, at, milli)]), &name, at);
    }
    // Two nodes of two cpus in one zone become one of three.
    let command = cluster.command();
    let names: Vec<&str> = command.nodes().map(|name| name.as_str()).collect();
    assert_eq!((names, command.replacements.len()), (vec!["a", "z"], 1));
    let beginning = cluster.node("z", |node| node.tenure.as_mut().unwrap().do_not_disrupt = DoNotDisrupt::Always);
    assert_eq!(beginning.all_leaving(), [""; 0], "no other two do");
}

/// Flaw 22: there a command is driven by its first node and never ends when that one vanishes. Here it hangs on none of them.
#[test]
fn a_command_outlives_its_first_node() {
    let mut three = (0..3).fold(sized(), |cluster, i| cluster.machine(&format!("n{i}"), "fake-it-1", vec![]));
    let command = three.command();
    let claims = |command: &Disruption| command.claims().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(claims(&command), ["claim-n0", "claim-n1", "claim-n2"]);
    three.snapshot.nodes.remove(&"n0".into());
    let Validity::Holds { command, dropped } = three.holds(&command) else { panic!("the others may go") };
    assert_eq!(
        (claims(&command).join(" "), dropped),
        ("claim-n1 claim-n2".into(), vec![("n0".into(), Dropped::Churn)])
    );
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
            .tenure("kept", |tenure| tenure.do_not_disrupt = DoNotDisrupt::Always);
        let decision = two.decide();
        assert!(!decision.scores.is_empty());
        decision.scores.iter().map(|score| score.disruption.map(Share::fraction)).collect::<Vec<_>>()
    };
    let plain = scores(false, false);
    assert_eq!([scores(true, false), scores(false, true), scores(true, true)], [(); 3].map(|()| plain.clone()));
    assert!(plain.iter().all(|share| *share == Some(0.5)), "{plain:?}");
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

/// Flaw 35: of two things that keep a node the first is told, and the one that passes soonest.
#[test]
fn a_node_that_two_things_keep_is_told_the_first_and_the_easiest() {
    let night = |reason: &str| {
        let text = BudgetText {
            nodes: "0",
            reasons: Some(vec![reason]),
            schedule: Some("0 13 * * *"),
            duration: Some(Duration::from_secs(17 * 3600)),
        };
        Budget::parse(&text)
    };
    let told = |reason: &str, pod: PodSketch| {
        let one = cluster(vec![pool("p").types(vec![series(4)[3].clone()])]).machine("n", "fake-it-3", vec![pod]);
        let one = one.drifted("n", NOW - 9).pool("p", |pool| pool.budgets = std::iter::once(night(reason)).collect());
        let mut staying = one.decide().staying;
        assert_eq!(staying.len(), 1, "it stays");
        staying.remove(0)
    };
    // The clock shows 13:46 UTC.
    let closed = |reason: Reason| Stay::Budget {
        pool: "p".into(),
        reason,
        allowed: 0,
        unready: 0,
        until: Some(at(NOW + 58_400)),
    };
    // Its drift waits for the morning, and nothing would be saved by taking it.
    let waits = told("Drifted", cpu("x", 3000));
    assert_eq!((waits.first, waits.easiest), (closed(Reason::Drifted), closed(Reason::Drifted)));
    // Its pod can go nowhere, and nobody would be moved to save money before the morning.
    let stuck = told("Underutilized", cpu("x", 3000).selects("no-such-label", "Exists"));
    assert!(matches!(&stuck.first, Stay::CannotMove(pods) if pods.len() == 1), "{:?}", stuck.first);
    assert_eq!(stuck.easiest, closed(Reason::Underutilized));
    assert_eq!(
        stuck.easiest.to_string(),
        "pool p lets 0 nodes go at once for Underutilized, and none more now; until 1970-01-13T06:00:00Z"
    );
}

/// Flaw 35: the texts name what somebody would have to change.
#[test]
fn what_keeps_a_node_is_told_by_its_name_and_number() {
    let api = cpu("x", 500).label("app", "api").change(|pod| pod.name = PodName::new("web", "api-0"));
    let kept = sized().machine("a", "fake-it-9", vec![api]).pdb("api", 0, |budget| budget.namespace = "web".into());
    assert_eq!(kept.stay("a").to_string(), "pdb prevents pod evictions (PodDisruptionBudget=[web/api])");
    // Its own kind is sold out, and two of the other cost more than it.
    let types = series(16);
    let own = priced(&priced(&types[15], |_, _| Some(3.8)), |_, _| None);
    let dearer = cluster(vec![pool("p").types(vec![own, priced(&types[7], |_, _| Some(2.0))])]);
    let dearer = dearer.machine("n", "fake-it-15", vec![cpu("x", 7000), cpu("y", 7000)]);
    assert_eq!(dearer.stay("n").to_string(), "Can't remove without creating 2 candidates");
}

/// Flaw 32: there a duration protects pods alone, and on a Node it says nothing.
#[test]
fn a_node_is_protected_for_a_while_and_then_leaves() {
    let until = |second: i64| {
        let two = sized().machine("a", "fake-it-3", vec![]).machine("b", "fake-it-3", vec![cpu("y", 3000)]);
        two.tenure("a", |tenure| tenure.do_not_disrupt = DoNotDisrupt::Until(at(second)))
    };
    assert_eq!(until(NOW + 60).stay("a"), Stay::DoNotDisrupt { until: Some(at(NOW + 60)) });
    assert_eq!(until(NOW + 60).decide().look_again, Some(at(NOW + 60)), "time alone changes that");
    assert_eq!(until(NOW).all_leaving(), ["a"]);
}

/// Flaw 33: there nobody can stop disruption in the whole cluster but by changing every pool.
#[test]
fn nobody_leaves_while_disruption_is_stopped() {
    let empty_drifted_and_dear = |stopped: Option<&str>| {
        let mut cluster = sized()
            .machine("empty", "fake-it-3", vec![])
            .machine("drifted", "fake-it-3", vec![cpu("x", 100)])
            .machine("dear", "fake-it-15", vec![cpu("y", 100)])
            .budget("p", &["100%"])
            .tenure("drifted", |tenure| {
                tenure.drifted = Some(model::node::Drifted { since: at(NOW - 9), reason: "x".into() });
            });
        cluster.snapshot.stopped = stopped.map(Into::into);
        cluster
    };
    let going = empty_drifted_and_dear(None);
    assert!(going.all_leaving().len() >= 2, "{:?}", going.all_leaving());
    let stopped = empty_drifted_and_dear(Some("INC-42"));
    assert_eq!(stopped.all_leaving(), [""; 0]);
    for node in ["empty", "drifted", "dear"] {
        let text =
            "Disruption is stopped by the annotation \"dovetail.sh/stop-disruption: INC-42\" of namespace kube-system";
        assert_eq!(stopped.stay(node).event_text().as_deref(), Some(text), "{node}");
    }
    for command in going.decide().commands {
        let Validity::Fails { why, .. } = stopped.holds(&command) else { panic!("{command:?} holds") };
        assert_eq!(why.as_str(), "budget");
    }
}

/// Flaw 33: there nodes that are not ready use up a budget without anybody being told.
#[test]
fn a_budget_says_when_nodes_that_are_not_ready_use_it_up() {
    let with = |broken: &[&str]| {
        let nodes = ["a", "b", "c"].iter().fold(sized(), |cluster, name| cluster.machine(name, "fake-it-1", vec![]));
        let kept = nodes.tenure("b", |tenure| tenure.do_not_disrupt = DoNotDisrupt::Always);
        let kept = kept.tenure("c", |tenure| tenure.do_not_disrupt = DoNotDisrupt::Always);
        broken
            .iter()
            .fold(kept, |cluster, name| cluster.tenure(name, |tenure| tenure.is_ready = false))
            .budget("p", &["2"])
    };
    assert_eq!(with(&["b"]).all_leaving(), ["a"]);
    let both = with(&["b", "c"]);
    assert_eq!(
        both.stay("a").to_string(),
        "pool p lets 2 nodes go at once for Empty, and none more now; 2 nodes that are not ready count as going"
    );
    assert!(both.decide().allowances.iter().all(|one| (one.consuming, one.unready) == (2, 2)));
    let leaving = both.node("c", |node| node.is_leaving = true);
    assert!(leaving.decide().allowances.iter().all(|one| (one.consuming, one.unready) == (2, 1)), "leaving is a cause");
}
