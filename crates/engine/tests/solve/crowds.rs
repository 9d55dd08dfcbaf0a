//! Spreads and company among pods that are there already.

use model::pod::Life;
use model::taints::Effect;
use model::topology::Policy;

use crate::fixture::*;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const CAPACITY: &str = "karpenter.sh/capacity-type";
const APP: [(&str, &str); 1] = [("app", "x")];

fn app(sketch: PodSketch) -> PodSketch {
    sketch.asks("cpu", 10).label("app", "x")
}

fn spread_pods(count: usize, key: &str, max_skew: i32) -> Vec<PodSketch> {
    pods("a", count, |sketch| app(sketch).spread(spread_over(key, max_skew, &APP)))
}

/// A full node in a zone with so many pods of the app.
fn crowded(world: World, name: &str, zone: &str, count: usize) -> World {
    let there = pods(name, count, |sketch| sketch.label("app", "x"));
    world.node(name, &[(ZONE, zone)], 0).running(name, there)
}

// 01/TSC-05
#[test]
fn a_wide_skew_lets_the_only_zone_run_ahead() {
    let world = world(vec![pool("p").requires(ZONE, "In test-zone-3")]);
    let world = crowded(crowded(world, "one", "test-zone-1", 1), "two", "test-zone-2", 1);
    assert_eq!(world.solve(spread_pods(10, ZONE, 5)).skew("a", ZONE), [6]);
}

// 01/TSC-08
#[test]
fn only_pods_that_the_scheduler_counts_are_counted() {
    let other_namespace = |pod: &mut model::pod::Pod| pod.name = model::ids::PodName::new("other", "there");
    let mut there = vec![
        pod("matching").label("app", "x"),
        pod("unlabelled"),
        pod("ending").label("app", "x").change(|pod| pod.life = Life::Terminating),
        pod("elsewhere").label("app", "x").change(other_namespace),
    ];
    let ended = there.remove(2);
    let mut world = world(vec![pool("p")]).node("n", &[(ZONE, "test-zone-1")], 0).running("n", there);
    let mut ending = ended.0;
    ending.node = Some("n".into());
    world.snapshot.pods.insert(ending.name.clone(), std::sync::Arc::new(ending));
    let world = world.node("keyless", &[], 0).running("keyless", vec![pod("no-zone").label("app", "x")]);
    // One counts in zone 1, so two of five go there and the others share zones 2 and 3 as evenly as they can.
    assert_eq!(world.solve(spread_pods(5, ZONE, 1)).skew("a", ZONE), [1, 2, 2]);
}

// 01/TSC-14
#[test]
fn nodes_that_the_pod_rules_out_do_not_count() {
    let base = || {
        world(vec![pool("p").requires(ZONE, "In test-zone-2")])
            .node("old", &[(ZONE, "test-zone-1"), (CAPACITY, "on-demand")], 0)
            .running("old", vec![pod("there").label("app", "x")])
    };
    let spot = pods("a", 5, |sketch| app(sketch).selects(CAPACITY, "In spot").spread(spread_over(CAPACITY, 1, &APP)));
    assert_eq!(base().solve(spot).placed(), 5, "only spot is a domain for them");
    let free = pods("a", 5, |sketch| app(sketch).spread(spread_over(ZONE, 1, &APP)));
    assert_eq!(base().solve(free).placed(), 2, "zone 1 holds one and cannot grow");
}

// 01/TSC-18
#[test]
fn three_spreads_at_once_hold_and_leave_nobody_out() {
    let all = |count: usize| {
        pods("a", count, |sketch| {
            let spreads = [spread_over(CAPACITY, 1, &APP), spread_over(ZONE, 2, &APP), spread_over(HOST, 3, &APP)];
            spreads.into_iter().fold(app(sketch), PodSketch::spread)
        })
    };
    for count in 1..12 {
        let answer = world(vec![pool("p")]).solve(all(count));
        assert_eq!(answer.placed(), count, "{:#?}", answer.plan.unplaced);
        let distance = |skew: Vec<usize>, domains: usize| {
            let least = if skew.len() < domains { 0 } else { skew[0] };
            skew[skew.len() - 1] - least
        };
        assert!(distance(answer.skew("a", CAPACITY), 2) <= 1);
        assert!(distance(answer.skew("a", ZONE), 3) <= 2);
        assert!(answer.skew("a", HOST).iter().all(|pods| *pods <= 3));
    }
}

// 01/TSC-20 differs: 0013
#[test]
fn tainted_nodes_count_unless_the_policy_says_otherwise_and_tainted_pools_never_do() {
    let under = |policy: Policy| {
        let mut world = world(vec![pool("p").label("part", "1")]).node("tainted", &[("part", "2")], 8000);
        let mut node = model::node::Node::clone(&world.snapshot.nodes[&"tainted".into()]);
        node.taints = vec![model::taints::Taint::new("keep", "", Effect::NoSchedule)];
        world.snapshot.nodes.insert("tainted".into(), std::sync::Arc::new(node));
        let answer = world.solve(pods("a", 5, |sketch| {
            let mut spread = spread_over("part", 1, &APP);
            spread.node_taints = policy;
            app(sketch).spread(spread)
        }));
        answer.placed()
    };
    assert_eq!((under(Policy::Ignore), under(Policy::Honor)), (1, 5));
    let tainted_pool =
        world(vec![pool("p").label("part", "1"), pool("q").label("part", "2").taint("keep", Effect::NoSchedule)]);
    assert_eq!(
        tainted_pool.solve(spread_pods(5, "part", 1)).placed(),
        5,
        "its domain does not exist and cannot be reached"
    );
}

// 01/TSC-17 differs: 0013
#[test]
fn a_pool_without_room_left_does_not_hold_the_others_back() {
    let full = pool("full").requires(ZONE, "In test-zone-3").limit("nodes", 0);
    let open = pool("open").requires(ZONE, "In test-zone-1 test-zone-2");
    let answer = world(vec![full, open]).solve(spread_pods(6, ZONE, 1));
    assert_eq!(answer.placed(), 6);
}

// 01/TSC-24
#[test]
fn a_pod_that_reaches_only_some_zones_is_judged_by_those() {
    let world = crowded(crowded(world(vec![pool("p")]), "one", "test-zone-1", 3), "two", "test-zone-2", 3);
    let bound = app(pod("a-bound")).selects(ZONE, "In test-zone-2 test-zone-3").spread(spread_over(ZONE, 1, &APP));
    assert_eq!(world.solve(vec![bound]).value("a-bound", ZONE), "test-zone-3");
}

// 01/AFF-03
#[test]
fn company_by_architecture_may_live_on_different_hosts() {
    let arch = "kubernetes.io/arch";
    let friend = |sketch: PodSketch| app(sketch).together(near(arch, &APP)).spread(spread_over(HOST, 1, &APP));
    let mut all = pods("a", 2, friend);
    all[0].0.wants.selector.add(arch, req("In arm64"));
    let answer = world(vec![pool("p")]).solve(all);
    assert_eq!((answer.placed(), answer.claims()), (2, 2));
    assert_eq!(answer.value("a-001", arch), "arm64");
}

// 01/AFF-05
#[test]
fn company_on_a_host_in_another_zone_is_out_of_reach() {
    let world = world(vec![pool("p")])
        .node("home", &[(ZONE, "test-zone-1")], 4000)
        .running("home", vec![pod("there").label("app", "x")]);
    let stuck = app(pod("a")).together(near(HOST, &APP)).selects(ZONE, "In test-zone-2");
    assert!(!world.solve(vec![stuck]).is_placed("a"));
}

// 01/AFF-06 differs: 0013
#[test]
fn pods_that_want_each_other_start_in_one_zone() {
    let friends = |sketch: PodSketch| app(sketch).together(near(ZONE, &APP));
    assert_eq!(world(vec![pool("p")]).solve(pods("a", 4, friends)).skew("a", ZONE), [4]);
    let bound = |sketch: PodSketch| friends(sketch).selects(ZONE, "In test-zone-2");
    assert_eq!(world(vec![pool("p")]).solve(pods("a", 4, bound)).value("a-000", ZONE), "test-zone-2");
    let split =
        vec![friends(pod("a")).selects(ZONE, "In test-zone-1"), friends(pod("b")).selects(ZONE, "In test-zone-2")];
    assert_eq!(world(vec![pool("p")]).solve(split).placed(), 1, "the scheduler would never bind the second");
}

// 01/AFF-11 differs: 0013
#[test]
fn a_target_and_the_pod_that_avoids_it_find_different_zones_in_one_pass() {
    let answer =
        world(vec![pool("p")]).solve(vec![pod("shy").asks("cpu", 2000).apart(near(ZONE, &APP)), app(pod("target"))]);
    assert_eq!(answer.placed(), 2);
    assert_ne!(answer.value("shy", ZONE), answer.value("target", ZONE));
}

// 01/AFF-15 differs: 0013
#[test]
fn company_with_a_target_whose_zone_was_open_is_found_in_one_pass() {
    let mut all = vec![pod("target").asks("cpu", 2000).label("app", "x")];
    all.extend(pods("friend", 10, |sketch| sketch.together(near(ZONE, &APP))));
    let answer = world(vec![pool("p")]).solve(all);
    assert_eq!(answer.placed(), 11);
    assert_eq!(answer.skew("", ZONE), [11]);
}
