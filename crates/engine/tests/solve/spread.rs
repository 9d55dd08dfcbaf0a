use model::topology::{Policy, Selector, SpreadMode};

use crate::fixture::*;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const APP: [(&str, &str); 1] = [("app", "x")];

fn spread_pods(count: usize, key: &str, max_skew: i32) -> Vec<PodSketch> {
    pods("a", count, |sketch| sketch.asks("cpu", 10).label("app", "x").spread(spread_over(key, max_skew, &APP)))
}

// 01/TSC-01
#[test]
fn an_unknown_key_keeps_only_its_own_pod_pending() {
    let world = world(vec![pool("p")]);
    let answer = world.solve(vec![pod("a").label("app", "x").spread(spread_over("unknown", 1, &APP)), pod("b")]);
    assert!(!answer.is_placed("a") && answer.is_placed("b"));
    let nothing = |sketch: PodSketch| {
        let mut spread = spread_over(ZONE, 1, &APP);
        spread.selector = Selector::Nothing;
        sketch.spread(spread)
    };
    let answer = world.solve(pods("n", 2, nothing));
    assert_eq!(answer.skew("n", ZONE), [2]);
}

// 01/TSC-02
#[test]
fn four_pods_spread_over_three_zones() {
    assert_eq!(world(vec![pool("p")]).solve(spread_pods(4, ZONE, 1)).skew("a", ZONE), [1, 1, 2]);
}

// 01/TSC-03
#[test]
fn only_zones_that_pools_offer_count() {
    let two = world(vec![pool("p").requires(ZONE, "In test-zone-1 test-zone-2")]);
    assert_eq!(two.solve(spread_pods(4, ZONE, 1)).skew("a", ZONE), [2, 2]);
    let one = world(vec![pool("p").label(ZONE, "test-zone-1")]);
    assert_eq!(one.solve(spread_pods(4, ZONE, 1)).skew("a", ZONE), [4]);
    let each = world(vec![pool("p").requires(ZONE, "In test-zone-1"), pool("q").requires(ZONE, "In test-zone-2")]);
    assert_eq!(each.solve(spread_pods(4, ZONE, 1)).skew("a", ZONE), [2, 2]);
}

// 01/TSC-04
#[test]
fn a_pod_in_a_zone_that_is_no_longer_offered_still_counts() {
    let world = world(vec![pool("p").requires(ZONE, "In test-zone-1 test-zone-2")])
        .node("old", &[(ZONE, "test-zone-3")], 0)
        .running("old", vec![pod("there").label("app", "x")]);
    let answer = world.solve(spread_pods(6, ZONE, 1));
    assert_eq!(answer.skew("a", ZONE), [2, 2]);
}

// 01/TSC-06
#[test]
fn a_skew_that_is_broken_already_is_mended_and_not_made_worse() {
    let world = world(vec![pool("p")])
        .node("full", &[(ZONE, "test-zone-1")], 0)
        .running("full", pods("there", 3, |sketch| sketch.label("app", "x")));
    let answer = world.solve(spread_pods(3, ZONE, 1));
    assert_eq!(answer.skew("a", ZONE), [1, 2]);
}

// 01/TSC-09
#[test]
fn a_pod_that_does_not_match_its_own_spread_adds_no_skew() {
    let foreign = |sketch: PodSketch| sketch.label("app", "y").spread(spread_over(HOST, 1, &APP));
    let answer = world(vec![pool("p")]).solve(pods("a", 5, foreign));
    assert_eq!((answer.placed(), answer.claims()), (5, 1));
}

// 01/TSC-10
#[test]
fn too_few_domains_hold_the_least_count_at_zero() {
    let with_minimum = |count: usize, least: i32| {
        pods("a", count, move |sketch| {
            let mut spread = spread_over(ZONE, 1, &APP);
            spread.min_domains = Some(least);
            sketch.label("app", "x").spread(spread)
        })
    };
    let two = world(vec![pool("p").requires(ZONE, "In test-zone-1 test-zone-2")]);
    assert_eq!(two.solve(with_minimum(3, 3)).skew("a", ZONE), [1, 1]);
    for least in [2, 3] {
        assert_eq!(world(vec![pool("p")]).solve(with_minimum(11, least)).skew("a", ZONE), [3, 4, 4]);
    }
}

// 01/TSC-11
#[test]
fn hosts_take_as_many_as_the_skew_allows() {
    let world = world(vec![pool("p")]);
    assert_eq!(world.solve(spread_pods(4, HOST, 1)).skew("a", HOST), [1, 1, 1, 1]);
    assert_eq!(world.solve(spread_pods(4, HOST, 4)).skew("a", HOST), [4]);
}

// 01/TSC-12
#[test]
fn two_workloads_spread_over_hosts_share_them() {
    let world = world(vec![pool("p")]);
    let of = |app: &'static str, arch: &'static str| {
        pods(app, 2, move |sketch| {
            sketch.label("app", app).selects("kubernetes.io/arch", arch).spread(spread_over(HOST, 1, &[("app", app)]))
        })
    };
    let both = |second: &'static str| of("one", "In amd64").into_iter().chain(of("two", second)).collect();
    assert_eq!(world.solve(both("In amd64")).claims(), 2);
    assert_eq!(world.solve(both("In arm64")).claims(), 4);
}

// 01/TSC-13
#[test]
fn capacity_types_are_domains_too() {
    let key = "karpenter.sh/capacity-type";
    assert_eq!(world(vec![pool("p")]).solve(spread_pods(4, key, 1)).skew("a", key), [2, 2]);
    let on_demand = || {
        world(vec![pool("p").requires(key, "In on-demand")])
            .node("old", &[(key, "spot")], 0)
            .running("old", vec![pod("there").label("app", "x")])
    };
    assert_eq!(on_demand().solve(spread_pods(5, key, 1)).skew("a", key), [2]);
    let soft = pods("a", 5, |sketch| {
        let mut spread = spread_over(key, 1, &APP);
        spread.mode = SpreadMode::ScheduleAnyway;
        sketch.asks("cpu", 10).label("app", "x").spread(spread)
    });
    assert_eq!(on_demand().solve(soft).skew("a", key), [5]);
}

// 01/TSC-15
#[test]
fn zone_and_host_spreads_hold_together() {
    let both = |count: usize| {
        pods("a", count, |sketch| {
            sketch.label("app", "x").spread(spread_over(ZONE, 1, &APP)).spread(spread_over(HOST, 3, &APP))
        })
    };
    for (count, zones) in [(2, vec![1, 1]), (5, vec![1, 2, 2]), (10, vec![3, 3, 4]), (21, vec![7, 7, 7])] {
        let answer = world(vec![pool("p")]).solve(both(count));
        assert_eq!(answer.skew("a", ZONE), zones);
        assert!(answer.skew("a", HOST).iter().all(|pods| *pods <= 3));
    }
}

// 01/TSC-16
#[test]
fn a_custom_key_spreads_over_pools() {
    let spot = pool("spot").requires("karpenter.sh/capacity-type", "In spot").requires("part", "In 2 3 4 5");
    let on_demand = pool("on-demand").requires("karpenter.sh/capacity-type", "In on-demand").requires("part", "In 1");
    let answer = world(vec![spot, on_demand]).solve(spread_pods(20, "part", 1));
    assert_eq!(answer.skew("a", "part"), [4, 4, 4, 4, 4]);
    assert_eq!(answer.skew("a", "karpenter.sh/capacity-type"), [4, 16]);
}

// 01/TSC-22
#[test]
fn nodes_that_the_pod_cannot_choose_count_only_if_the_policy_says_so() {
    let under = |policy: Policy| {
        let world = world(vec![pool("p").label("team", "a")]).node("other", &[("team", "b"), ("part", "2")], 0);
        let answer = world.solve(pods("a", 5, |sketch| {
            let mut spread = spread_over("part", 1, &APP);
            spread.node_affinity = policy;
            sketch.label("app", "x").selects("team", "In a").spread(spread)
        }));
        answer.placed()
    };
    let pinned = |policy: Policy| {
        let world = world(vec![pool("p").label("team", "a").label("part", "1")]).node(
            "other",
            &[("team", "b"), ("part", "2")],
            0,
        );
        let answer = world.solve(pods("a", 5, |sketch| {
            let mut spread = spread_over("part", 1, &APP);
            spread.node_affinity = policy;
            sketch.label("app", "x").selects("team", "In a").spread(spread)
        }));
        answer.placed()
    };
    assert_eq!((under(Policy::Honor), under(Policy::Ignore)), (0, 0), "no pool offers the key");
    assert_eq!((pinned(Policy::Honor), pinned(Policy::Ignore)), (5, 1));
}

// 01/TSC-23
#[test]
fn a_selector_limits_the_domains_and_a_preference_does_not() {
    let world = world(vec![pool("p")]);
    let selecting = pods("a", 10, |s| {
        s.label("app", "x").selects(ZONE, "In test-zone-1 test-zone-2").spread(spread_over(ZONE, 1, &APP))
    });
    assert_eq!(world.solve(selecting).skew("a", ZONE), [5, 5]);
    let preferring = pods("a", 6, |s| {
        let preferred = model::pod::Weighted { weight: 1, item: reqs(&[(ZONE, "In test-zone-1 test-zone-2")]) };
        s.label("app", "x").spread(spread_over(ZONE, 1, &APP)).change(|pod| pod.wants.preferred_nodes.push(preferred))
    });
    assert_eq!(world.solve(preferring).skew("a", ZONE), [2, 2, 2]);
}

#[test]
fn a_zone_is_a_domain_as_long_as_some_claim_may_come_to_it() {
    // Pods that reach two zones, beside a claim of another architecture that may come to stand in the third.
    let skew = |later: &str| {
        let arm = |name: &str| pod(name).selects("kubernetes.io/arch", "In arm64");
        let mut all = vec![arm("open").priority(2), arm("later").selects(ZONE, later).priority(1)];
        all.extend(spread_pods(4, ZONE, 1).into_iter().map(|sketch| {
            sketch
                .selects("kubernetes.io/arch", "In amd64")
                .selects(ZONE, "In test-zone-1 test-zone-2")
                .change(|pod| pod.wants.spread[0].node_affinity = Policy::Ignore)
        }));
        world(vec![pool("p")]).judged(all).skew("a", ZONE)
    };
    assert_eq!(skew("Exists"), [1, 1], "nobody is in the third zone, so none of the others may get ahead");
    assert_eq!(skew("In test-zone-1"), [2, 2], "what has joined it keeps it out of the third");
}
