//! Fewer and cheaper nodes for the same pods.

use std::sync::Arc;

use model::disruption::{Disruption, Method, Stay, Verb};
use model::ids::{PodName, TypeName};
use model::instance::InstanceType;
use model::labels::{CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, ZONE};
use model::node::Progress;
use model::pod::{DoNotDisrupt, Weighted};
use model::pool::PoolState;
use model::price::Price;
use model::snapshot::{MinValuesPolicy, PreferencePolicy};
use model::taints::{Match, Toleration};

use crate::cluster::{Cluster, NOW, at, cluster, unready};
use crate::fixture::*;

pub(crate) fn cpu(name: &str, milli: i64) -> PodSketch {
    pod(name).label("app", name).asks("cpu", milli)
}

/// Types of one to thirty-two cpus, priced by size.
pub(crate) fn sized() -> Cluster {
    cluster(vec![pool("p").types(series(32))])
}

fn types_of(command: &Disruption) -> Vec<&str> {
    command.replacements[0].types.iter().map(TypeName::as_str).collect()
}

fn spot(cluster: Cluster, name: &str) -> Cluster {
    cluster.label(name, CAPACITY_TYPE, "spot")
}

// 02/CO23
/// Spot nodes that may not be replaced by spot do not take the turns of others, however many they are.
#[test]
fn what_is_refused_keeps_nobody_from_its_turn() {
    let spots = (0..120).fold(sized(), |cluster, i| {
        let name = format!("a{i:03}");
        spot(cluster.machine(&name, "fake-it-30", vec![cpu(&name, 16_000)]), &name)
    });
    let cluster = spots.machine("z", "fake-it-30", vec![cpu("z", 16_000)]).budget("p", &["100%"]);
    assert_eq!(cluster.all_leaving(), ["z"]);
    assert_eq!(cluster.stay("a000"), Stay::SpotToSpotDisabled);
}

/// The least saving is that of the machines that may come, not of those that were too dear in some zone.
#[test]
fn what_is_left_after_the_dear_ones_must_pay_for_itself_as_well() {
    let types = series(3);
    let uneven = priced(&types[0], |_, zone| Some(if zone == "test-zone-1" { 0.05 } else { 5.0 }));
    let hardly = priced(&types[1], |_, _| Some(0.999));
    let own = priced(&types[2], |_, _| Some(1.0));
    let one = cluster(vec![pool("p").types(vec![uneven, hardly, own])]).machine("n", "fake-it-2", vec![cpu("x", 500)]);
    assert!(matches!(one.stay("n"), Stay::PaysBackLate { .. }), "{:?}", one.stay("n"));
}

// 02/CO1 02/CO25
#[test]
fn a_node_whose_pods_fit_elsewhere_is_deleted() {
    let two = sized().machine("a", "fake-it-3", vec![cpu("x", 500)]).machine("b", "fake-it-3", vec![cpu("y", 3000)]);
    let command = two.command();
    assert_eq!((command.method, command.verb()), (Method::SingleConsolidation, Verb::Delete));
    assert_eq!(command.nodes().next().unwrap().as_str(), "a");
    let own = two.snapshot.pools[&"p".into()].instance_types[3].offerings[0].price;
    assert_eq!((command.worth.before, command.worth.after, command.worth.saved_pico()), (own, Price::ZERO, own.pico()));
    let foreign = sized()
        .machine("a", "fake-it-3", vec![cpu("x", 3500)])
        .machine("b", "fake-it-3", vec![cpu("y", 3500)])
        .node("b", |node| (node.tenure, node.pool) = (None, None))
        .node("b", |node| node.allocatable.cpu_milli = 64_000);
    assert_eq!(foreign.all_leaving(), ["a"], "nodes of others take pods as well");
}

/// The scheduler goes where most is left: it puts the largest pod where the two others would have to stand.
#[test]
fn what_only_just_fits_stays_unless_it_saves_more_than_it_costs_to_be_wrong() {
    let around = |price: f64, room: i64| {
        let own = priced(&shape("own").with("cpu", 10_000).build(), |_, _| Some(1.0));
        let types = series(10).iter().map(|one| priced(one, |_, _| Some(price))).chain([own]).collect();
        let foreign = |cluster: Cluster, name: &str, room: i64| {
            let cluster = cluster.machine(name, "own", Vec::new());
            cluster.node(name, |node| (node.tenure, node.pool, node.allocatable.cpu_milli) = (None, None, room))
        };
        let pods = vec![cpu("four", 4000), cpu("three", 3000), cpu("two", 2000)];
        let own = cluster(vec![pool("p").types(types)]).machine("n", "own", pods);
        foreign(foreign(own, "w", room), "x", 5000)
    };
    let tight = around(1.0, 4000);
    let roomy = tight.machine("roomy", "fake-it-0", vec![cpu("small", 500)]);
    assert_eq!(
        roomy.node("x", |node| node.allocatable.cpu_milli = 5500).all_leaving(),
        ["roomy"],
        "who is free to go goes"
    );
    assert_eq!(around(1.0, 4000).stay("n"), Stay::TooTight { pod: PodName::new("default", "two") });
    assert_eq!(around(1.0, 6000).all_leaving(), ["n"], "there is room enough, wherever they go");
    assert_eq!(around(0.5, 4000).all_leaving(), ["n"], "a machine for who is left over costs half of what is saved");
}

// 02/CO2 02/CO25
#[test]
fn a_node_that_is_too_large_is_replaced_by_a_cheaper_one() {
    for kind in ["spot", "on-demand"] {
        let mut large = sized().machine("n", "fake-it-30", vec![cpu("x", 1500)]).label("n", CAPACITY_TYPE, kind);
        large.rules.spot_to_spot = true;
        let command = large.command();
        assert_eq!((command.verb(), command.replacements.len()), (Verb::Replace, 1), "{kind}");
        assert_eq!(types_of(&command)[0], "fake-it-1", "{kind}");
        let worth = &command.worth;
        assert!(worth.after < worth.before && worth.after_at_most < worth.before && worth.evicted == 1);
        assert!(!types_of(&command).contains(&"fake-it-30"), "nothing is replaced by its own kind");
        assert!(worth.pays_back_after.is_some() && command.why().contains("evicts 1 pods"));
    }
}

// 02/CO3
#[test]
fn spot_is_replaced_by_spot_only_where_enough_cheaper_types_are_open() {
    let on = |type_name: &str, gate: bool| {
        let cluster = sized().machine("n", type_name, vec![cpu("x", 500)]);
        let mut cluster = spot(cluster, "n").pool("p", |pool| {
            pool.template.requirements.add(CAPACITY_TYPE, req("In spot"));
        });
        cluster.rules.spot_to_spot = gate;
        cluster
    };
    assert_eq!(on("fake-it-30", false).stay("n"), Stay::SpotToSpotDisabled);
    assert_eq!(on("fake-it-14", true).stay("n"), Stay::SpotToSpotTooFew { found: 14 });
    let command = on("fake-it-30", true).command();
    let expected: Vec<String> = (0..15).map(|i| format!("fake-it-{i}")).collect();
    assert_eq!(types_of(&command), expected.iter().map(String::as_str).collect::<Vec<_>>(), "the fifteen cheapest");
    assert_eq!(command.replacements[0].requirements.get(CAPACITY_TYPE).unwrap().listed().unwrap().len(), 1);
    let with_minimum = |least: u32| {
        on("fake-it-30", true)
            .pool("p", |pool| {
                pool.template.requirements.add(INSTANCE_TYPE, req("Exists").with_min_values(Some(least)));
            })
            .command()
    };
    assert_eq!([10, 20].map(|least| types_of(&with_minimum(least)).len()), [15, 20]);
}

// 02/CO4
#[test]
fn a_minimum_of_values_is_not_lowered_to_save_money() {
    for policy in [MinValuesPolicy::Strict, MinValuesPolicy::BestEffort] {
        let mut cluster = sized().machine("n", "fake-it-5", vec![cpu("x", 500)]).pool("p", |pool| {
            pool.template.requirements.add(INSTANCE_TYPE, req("Exists").with_min_values(Some(20)));
        });
        cluster.snapshot.policy.min_values = policy;
        let stay = cluster.stay("n");
        assert!(matches!(stay, Stay::MinValues { .. }), "{stay}");
        assert!(stay.to_string().starts_with("Filtering by price: ") && stay.to_string().contains(INSTANCE_TYPE));
    }
}

// 02/CO5
#[test]
fn a_pool_that_offers_nothing_keeps_only_its_own_nodes() {
    let two = cluster(vec![pool("p").types(series(8)), pool("q").types(vec![])]).machine(
        "n",
        "fake-it-7",
        vec![cpu("x", 500)],
    );
    assert_eq!(two.all_leaving(), ["n"]);
    for state in [PoolState::NotReady, PoolState::Deleting] {
        let unfit = cluster(vec![pool("p").types(series(8)), pool("q").types(series(8)).weight(9).state(state)]);
        assert_eq!(unfit.machine("n", "fake-it-7", vec![cpu("x", 500)]).all_leaving(), ["n"], "{state:?}");
    }
}

/// Changes the price of offerings.
pub(crate) fn priced(offered: &Arc<InstanceType>, price: impl Fn(&str, &str) -> Option<f64>) -> Arc<InstanceType> {
    let mut changed = InstanceType::clone(offered);
    for one in &mut changed.offerings {
        let [kind, zone] = [CAPACITY_TYPE, ZONE].map(|key| one.label(key).unwrap().to_string());
        match price(&kind, &zone) {
            Some(price) => one.price = Price::from_dollars(price).unwrap(),
            None => one.is_available = false,
        }
    }
    Arc::new(changed)
}

// 02/CO6
#[test]
fn what_a_launch_may_cost_at_worst_decides() {
    let types = series(3);
    let dear_somewhere = priced(&types[0], |_, zone| Some(if zone == "test-zone-2" { 9.0 } else { 0.1 }));
    let one_price = priced(&types[2], |_, _| Some(1.0));
    let with = |types: Vec<Arc<InstanceType>>| {
        cluster(vec![pool("p").types(types).requires(CAPACITY_TYPE, "In on-demand")]).machine(
            "n",
            "fake-it-2",
            vec![cpu("x", 500)],
        )
    };
    assert_eq!(with(vec![dear_somewhere.clone(), one_price.clone()]).stay("n"), Stay::NotCheaper);
    let held = with(vec![dear_somewhere, one_price.clone()]);
    let held = held.running("n", vec![pod("here").asks("cpu", 10).selects(ZONE, "In test-zone-1")]);
    assert_eq!(held.all_leaving(), ["n"], "in the zone that the pods need it is cheap");
    // Spot is cheap, but the pool may not buy it.
    let cheap_spot = priced(&types[0], |kind, _| Some(if kind == "spot" { 0.1 } else { 2.0 }));
    assert_eq!(with(vec![cheap_spot.clone(), one_price.clone()]).stay("n"), Stay::NotCheaper);
    let both =
        cluster(vec![pool("p").types(vec![cheap_spot, one_price])]).machine("n", "fake-it-2", vec![cpu("x", 500)]);
    let command = both.command();
    let kinds = command.replacements[0].requirements.get(CAPACITY_TYPE).unwrap().listed().unwrap();
    assert_eq!(kinds.iter().map(|kind| &**kind).collect::<Vec<_>>(), ["spot"], "rather no machine than a dear one");
}

// 02/CO7
#[test]
fn who_may_not_be_disturbed_is_not_moved_to_save_money() {
    let with = |change: fn(Cluster) -> Cluster| {
        let two = sized().machine("a", "fake-it-9", vec![cpu("x", 500)]).tenure("a", |tenure| {
            tenure.grace = Some(std::time::Duration::from_secs(1));
        });
        change(two).all_leaving()
    };
    assert_eq!(with(|it| it), ["a"]);
    assert!(with(|it| it.pdb("x", 0, |_| {})).is_empty());
    assert!(with(|it| it.tenure("a", |tenure| tenure.do_not_disrupt = DoNotDisrupt::Always)).is_empty());
    let protected = cpu("z", 100).change(|pod| pod.do_not_disrupt = DoNotDisrupt::Always);
    let two = sized().machine("a", "fake-it-9", vec![cpu("x", 500), protected]);
    assert!(two.all_leaving().is_empty());
}

// 02/CO8
#[test]
fn pods_are_not_moved_to_nodes_that_are_not_ready() {
    let with = |age: i64| {
        sized()
            .machine("a", "fake-it-0", vec![cpu("x", 500)])
            .machine("b", "fake-it-9", vec![])
            .node("b", |node| (node.progress, node.created) = (Progress::Starting { has_node: true }, at(NOW - age)))
    };
    assert_eq!(with(60).stay("a"), Stay::Unready(unready("x", "b")));
    let ready = with(60).machine("c", "fake-it-9", vec![cpu("y", 6000)]).stay("b");
    assert_eq!(ready, Stay::NotInitialized);
    assert!(
        with(60).machine("c", "fake-it-9", vec![cpu("y", 8000)]).all_leaving().contains(&"a".to_owned()),
        "ready ones come first"
    );
}

// 02/CO9
#[test]
fn pods_that_can_never_run_do_not_stand_in_the_way() {
    let two = sized()
        .machine("a", "fake-it-3", vec![cpu("x", 500)])
        .machine("b", "fake-it-3", vec![cpu("y", 3000)])
        .waiting(vec![pod("never").asks("cpu", 1000).selects("no-such-label", "Exists")]);
    assert_eq!(two.all_leaving(), ["a"]);
}

// 02/CO10 02/CO11
#[test]
fn where_pods_came_or_went_lately_nobody_is_taken_or_brought() {
    let with = |event: i64| {
        sized()
            .consolidate_after("p", Some(60))
            .machine("a", "fake-it-0", vec![cpu("x", 500)])
            .machine("b", "fake-it-3", vec![cpu("y", 3000)])
            .tenure("b", |tenure| (tenure.last_pod_event, tenure.consolidatable) = (Some(at(event)), None))
    };
    assert!(with(NOW - 10).all_leaving().is_empty());
    assert_eq!(with(NOW - 60).all_leaving(), ["a"]);
    assert_eq!(with(NOW - 10).stay("b"), Stay::NotConsolidatable { until: Some(at(NOW + 50)) });
    let oversized = with(NOW - 10).machine("c", "fake-it-20", vec![cpu("z", 900)]);
    assert_eq!(oversized.command().verb(), Verb::Replace, "a new node is nobody's destination");
    // The node with the room is of a pool that never consolidates: it is never a source and always a destination.
    let beside = |after: Option<u64>| {
        cluster(vec![pool("p").types(vec![series(1)[0].clone()]), pool("q").types(vec![series(4)[3].clone()])])
            .consolidate_after("p", Some(60))
            .consolidate_after("q", after)
            .machine("a", "fake-it-0", vec![cpu("x", 500)])
            .machine("b", "fake-it-3", vec![cpu("y", 3000)])
            .tenure("b", |tenure| (tenure.last_pod_event, tenure.consolidatable) = (Some(at(NOW - 10)), None))
    };
    let never = [None, Some(0), Some(60)].map(|after| beside(after).all_leaving());
    assert_eq!(never, [vec!["a".to_owned()], vec!["a".to_owned()], vec![]]);
    assert_eq!(beside(None).stay("b"), Stay::ConsolidationDisabled("q".into()));
}

#[test]
fn a_machine_that_is_only_planned_is_for_nobody_else_whatever_he_tolerates() {
    let all = Toleration { key: None, matches: Match::Any, effect: None };
    for tolerations in [Vec::new(), vec![all]] {
        let tolerant = || cpu("x", 300).change(|pod| pod.wants.tolerations = tolerations.clone());
        let first = sized().machine("old", "fake-it-9", vec![cpu("y", 500)]);
        let command = first.command();
        assert_eq!(command.verb(), Verb::Replace);
        // There is room on what comes for the old one; but who knows whether it comes, and when.
        let mut both = first.machine("n", "fake-it-9", vec![tolerant()]);
        both.under_way = vec![command];
        let own = both.command();
        assert_eq!((own.nodes().map(|name| name.as_str()).collect::<Vec<_>>(), own.replacements.len()), (vec!["n"], 1));
        // Drifted nodes are no exception.
        let drifted = both.drifted("n", NOW - 10).consolidate_after("p", None);
        assert_eq!(drifted.command().replacements.len(), 1);
    }
}

// 02/CO13
#[test]
fn several_nodes_become_one_cheaper_one() {
    for kinds in [["spot"; 3], ["on-demand"; 3], ["spot", "on-demand", "spot"]] {
        let three = (0..3).fold(sized(), |cluster, i| {
            let name = format!("n{i}");
            cluster.machine(&name, "fake-it-5", vec![cpu(&name, 5000)]).label(&name, CAPACITY_TYPE, kinds[i])
        });
        // Three of six cpus, and one of sixteen that costs less than they do together.
        let mut three = three.pool("p", |pool| {
            let cheap = priced(&pool.instance_types[15], |_, _| Some(1.0));
            pool.instance_types.retain(|offered| offered.name.as_str() == "fake-it-5");
            pool.instance_types.push(cheap);
        });
        three.rules.spot_to_spot = true;
        let command = three.command();
        assert_eq!(
            (command.method, command.leaving.len(), command.replacements.len()),
            (Method::MultiConsolidation, 3, 1)
        );
        assert_eq!(types_of(&command), ["fake-it-15"]);
    }
}

// 02/CO13
#[test]
fn two_of_a_kind_do_not_become_one_of_it_where_one_of_them_can_stay() {
    let two = cluster(vec![pool("p").types(vec![series(4)[3].clone()])])
        .machine("a", "fake-it-3", vec![cpu("x", 500), cpu("z", 500)])
        .machine("b", "fake-it-3", vec![cpu("y", 500)]);
    let command = two.command();
    assert_eq!(
        (command.verb(), command.nodes().next().unwrap().as_str()),
        (Verb::Delete, "b"),
        "the one with fewer pods"
    );
}

// 02/CO15 02/BU11
#[test]
fn the_most_money_for_the_least_trouble_goes_first() {
    let cluster = sized()
        .machine("cheap", "fake-it-1", vec![cpu("x", 100)])
        .machine("dear", "fake-it-3", vec![cpu("y", 100)])
        .machine("crowded", "fake-it-3", (0..10).map(|i| cpu(&format!("c{i}"), 10)).collect())
        .machine("room", "fake-it-3", vec![cpu("z", 3000)])
        .budget("p", &["1"]);
    assert_eq!(cluster.all_leaving(), ["dear"]);
    assert!(matches!(cluster.budget("p", &["0"]).stay("dear"), Stay::Budget { allowed: 0, .. }));
}

// 02/CO16
#[test]
fn spreads_and_distance_hold_after_the_move() {
    let spread =
        |name: &str| pod(name).label("app", "s").asks("cpu", 500).spread(spread_over(ZONE, 1, &[("app", "s")]));
    let three = (1..=3).fold(sized(), |cluster, i| {
        let name = format!("n{i}");
        cluster.machine(&name, "fake-it-9", vec![spread(&name)]).label(&name, ZONE, &format!("test-zone-{i}"))
    });
    let decision = three.decide();
    assert_eq!(decision.commands.len(), 3, "each is replaced in its own zone");
    for command in &decision.commands {
        assert_eq!(command.replacements[0].requirements.get(ZONE).unwrap().listed().unwrap().len(), 1);
    }
    let shy = |name: &str| pod(name).label("app", "shy").asks("cpu", 500).apart(near(HOSTNAME, &[("app", "shy")]));
    let apart = sized().machine("a", "fake-it-0", vec![shy("a")]).machine("b", "fake-it-0", vec![shy("b")]);
    assert!(apart.all_leaving().is_empty());
}

// 02/CO17
#[test]
fn a_node_that_pods_of_a_leaving_node_will_need_stays() {
    let cluster = sized()
        .machine("leaving", "fake-it-3", vec![cpu("x", 3000)])
        .node("leaving", |node| node.is_leaving = true)
        .machine("waiting", "fake-it-3", vec![]);
    assert!(matches!(cluster.stay("waiting"), Stay::Awaited { .. }));
}

// 02/CO19
#[test]
fn preferences_keep_a_node_unless_they_are_ignored() {
    let picky = || {
        pod("x").asks("cpu", 500).change(|pod| {
            let wish = Weighted { weight: 5, item: near(HOSTNAME, &[("app", "y")]) };
            pod.wants.preferred_apart.push(wish);
        })
    };
    let mut two = cluster(vec![pool("p").types(vec![series(1)[0].clone(), series(4)[3].clone()])])
        .machine("a", "fake-it-0", vec![picky()])
        .machine("b", "fake-it-3", vec![pod("y").label("app", "y").asks("cpu", 3000)]);
    assert!(two.all_leaving().is_empty());
    two.snapshot.policy.preferences = PreferencePolicy::Ignore;
    assert_eq!(two.all_leaving(), ["a"]);
    let fond = cpu("x", 500).change(|pod| {
        let wish = Weighted { weight: 5, item: reqs(&[(INSTANCE_TYPE, "In fake-it-9")]) };
        pod.wants.preferred_nodes.push(wish);
    });
    let mut one = sized().machine("n", "fake-it-9", vec![fond]);
    assert_eq!(one.stay("n"), Stay::NotCheaper);
    one.snapshot.policy.preferences = PreferencePolicy::Ignore;
    assert_eq!(one.command().verb(), Verb::Replace);
}

// 02/CO21
#[test]
fn nodes_of_static_pools_are_never_consolidated() {
    let cluster = sized().replicas("p", 1, Default::default()).machine("n", "fake-it-30", vec![cpu("x", 100)]);
    assert_eq!(cluster.stay("n"), Stay::Wanted);
}

// 02/CO25
#[test]
fn one_node_may_become_two_that_cost_less_together() {
    let types = series(32);
    let menu = vec![priced(&types[15], |_, _| Some(10.0)), priced(&types[7], |_, _| Some(2.0))];
    let one = cluster(vec![pool("p").types(menu)]).machine("n", "fake-it-15", vec![cpu("x", 7000), cpu("y", 7000)]);
    let command = one.command();
    assert_eq!((command.replacements.len(), command.method), (2, Method::SingleConsolidation));
    let sums = [command.worth.before, command.worth.after, command.worth.after_at_most];
    assert_eq!(sums, [10.0, 4.0, 4.0].map(|dollars| Price::from_dollars(dollars).unwrap()));
}

#[test]
fn a_node_that_would_need_two_dearer_ones_says_so() {
    let types = series(32);
    // Its own kind is sold out, and what the pods need of the other costs less than it, if machines could be bought in parts.
    let own = priced(&priced(&types[15], |_, _| Some(3.8)), |_, _| None);
    let menu = vec![own, priced(&types[7], |_, _| Some(2.0))];
    let one = cluster(vec![pool("p").types(menu)]).machine("n", "fake-it-15", vec![cpu("x", 7000), cpu("y", 7000)]);
    assert_eq!(one.stay("n"), Stay::TooManyReplacements { count: 2, price: Price::from_dollars(4.0).unwrap() });
}

#[test]
fn eight_nodes_may_become_two() {
    let types = series(32);
    let menu = vec![priced(&types[3], |_, _| Some(2.0)), priced(&types[15], |_, _| Some(3.0))];
    let eight = (0..8).fold(cluster(vec![pool("p").types(menu)]), |cluster, i| {
        let name = format!("n{i}");
        cluster.machine(&name, "fake-it-3", vec![cpu(&name, 3800)])
    });
    let decision = eight.decide();
    let (before, after) = decision
        .commands
        .iter()
        .fold((0, 0), |(before, after), command| (before + command.leaving.len(), after + command.replacements.len()));
    assert_eq!((before, after), (8, 2));
}

/// The large pods of the one node must share machines with the small pods of the other: neither node gains by leaving alone.
#[test]
fn two_nodes_may_become_two_others_by_one_command() {
    let types = series(8);
    let sold_out = |place: usize, dollars: f64| priced(&priced(&types[place], |_, _| Some(dollars)), |_, _| None);
    let menu = vec![sold_out(7, 5.0), sold_out(3, 2.5), priced(&types[5], |_, _| Some(3.0))];
    let two = |kept: &str| {
        let two = cluster(vec![pool("p").types(menu.clone())])
            .machine("large", "fake-it-7", vec![cpu("a", 3900), cpu("b", 3900)])
            .machine("small", "fake-it-3", vec![cpu("c", 1800), cpu("d", 1800)]);
        if kept.is_empty() { two } else { two.tenure(kept, |tenure| tenure.do_not_disrupt = DoNotDisrupt::Always) }
    };
    let command = two("").command();
    assert_eq!((command.method, command.leaving.len(), command.replacements.len()), (Method::MultiConsolidation, 2, 2));
    let [before, after] = [7.5, 6.0].map(|dollars| Price::from_dollars(dollars).unwrap());
    assert_eq!((command.worth.before, command.worth.after), (before, after));
    assert_eq!(["large", "small"].map(|kept| two(kept).all_leaving()), [vec![""; 0], vec![]]);
}

/// A pod follows its company; when that leaves as well, it does so once the company has a new place, not before.
#[test]
fn who_minds_others_does_not_move_to_where_they_are_not_yet() {
    let fond = pod("fond").asks("cpu", 100).together(near(HOSTNAME, &[("app", "y")]));
    let three = sized()
        .machine("first", "fake-it-9", vec![fond])
        .machine("second", "fake-it-5", vec![cpu("y", 1800)])
        .machine("room", "fake-it-7", vec![cpu("x", 1500)])
        .tenure("room", |tenure| tenure.do_not_disrupt = DoNotDisrupt::Always);
    // The judge looks at each command.
    let decision = three.decide();
    let after = Cluster { snapshot: three.carried_out(&decision), ..three };
    let left: Vec<&str> = after.snapshot.nodes.keys().map(|name| name.as_str()).collect();
    assert_eq!(left, ["room", "second"]);
    assert_eq!(after.all_leaving(), ["second"]);
}

#[test]
fn independent_moves_are_made_at_once_and_fit_beside_each_other() {
    let many = (0..6).fold(sized(), |cluster, i| {
        let name = format!("n{i}");
        cluster.machine(&name, "fake-it-3", vec![cpu(&name, 1300)])
    });
    // Two pods fit on each node, so three nodes can go; the judge sees them one after the other.
    let decision = many.decide();
    assert!(decision.commands.len() > 1, "{:#?}", decision.commands);
    let left = 6 - decision.commands.iter().map(|command| command.leaving.len()).sum::<usize>();
    let new: usize = decision.commands.iter().map(|command| command.replacements.len()).sum();
    assert!(left + new <= 3, "{:#?}", decision.commands);
}

// 02/CO18
#[test]
fn reserved_machines_are_moved_to_from_wherever() {
    use model::instance::{Offering, Reservation};
    let reserved = |offered: &Arc<InstanceType>, price: i64, id: &str| {
        let mut changed = InstanceType::clone(offered);
        changed.requirements.remove(CAPACITY_TYPE);
        changed.requirements.add(CAPACITY_TYPE, req("In spot on-demand reserved"));
        changed.offerings.push(Offering {
            requirements: reqs(&[(CAPACITY_TYPE, "In reserved"), (ZONE, "In test-zone-1")]),
            price: Price::from_pico(price),
            is_available: true,
            reservation: Some(Reservation { id: id.into(), left: 2 }),
            capacity_override: None,
            overhead_override: None,
            has_price_overlay: false,
        });
        Arc::new(changed)
    };
    for kind in ["on-demand", "spot", "reserved"] {
        let types = series(8);
        let menu = vec![reserved(&types[3], 1_000_000, "cheap"), reserved(&types[7], 9_000_000_000, "dear")];
        let cluster = cluster(vec![pool("p").types(menu)]).machine("n", "fake-it-7", vec![cpu("x", 500)]).label(
            "n",
            CAPACITY_TYPE,
            kind,
        );
        let command = cluster.command();
        let claim = &command.replacements[0];
        assert_eq!(claim.requirements.get(CAPACITY_TYPE), Some(&req("In reserved")), "{kind}");
        assert!(claim.types.iter().any(|name| name.as_str() == "fake-it-3"), "{kind}");
    }
}

// 02/CO20
#[test]
fn a_pod_with_a_disk_of_its_node_can_have_the_node_exchanged() {
    // The lowering drops the host from such a volume's place, because the host will be gone.
    let bound = cpu("x", 500).change(|pod| pod.wants.volumes.alternatives = vec![reqs(&[(ZONE, "In test-zone-1")])]);
    let command = sized().machine("n", "fake-it-30", vec![bound]).command();
    assert_eq!(command.verb(), Verb::Replace);
}
