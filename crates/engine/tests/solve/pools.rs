use model::pool::PoolState;
use model::taints::Effect;

use crate::fixture::*;

// 01/NPL-01
#[test]
fn the_heaviest_pool_wins_unless_the_pod_asks_for_another() {
    let world = world(vec![pool("heavy").weight(50), pool("light").weight(10), pool("light-2").weight(10)]);
    let answer = world.solve(vec![pod("a"), pod("b").selects("karpenter.sh/nodepool", "In light")]);
    assert_eq!(answer.claim("a").pool.as_str(), "heavy");
    assert_eq!(answer.claim("b").pool.as_str(), "light");
}

#[test]
fn pools_of_equal_weight_are_compared_by_price() {
    let cheap = pool("a-cheap").types(vec![shape("small").with("cpu", 2000).with("memory", 2 * GI).build()]);
    let dear = pool("z-dear").types(vec![shape("big").with("cpu", 16000).build()]);
    assert_eq!(world(vec![cheap, dear]).solve(vec![pod("a")]).claim("a").pool.as_str(), "a-cheap");
    assert_eq!(
        world(vec![pool("a"), pool("b")]).solve(vec![pod("x")]).claim("x").pool.as_str(),
        "b",
        "then by name, backwards"
    );
}

// 01/NPL-02
#[test]
fn a_machine_may_just_meet_the_limit() {
    let world = world(vec![pool("p").limit("cpu", 2000)]);
    assert!(world.solve(vec![pod("a").asks("cpu", 1750)]).is_placed("a"));
    assert!(!world.solve(vec![pod("a").asks("cpu", 2100)]).is_placed("a"));
}

// 01/NPL-03
#[test]
fn a_limit_lets_through_what_fits_and_no_more() {
    let world = world(vec![pool("p").limit("cpu", 3000)]);
    let avoid = |sketch: PodSketch| {
        sketch.asks("cpu", 1500).label("app", "x").apart(near("kubernetes.io/hostname", &[("app", "x")]))
    };
    let answer = world.solve(pods("a", 2, avoid));
    assert_eq!(answer.placed(), 1);
}

// 01/NPL-04
#[test]
fn the_number_of_nodes_is_limited_within_one_pass() {
    let world = world(vec![pool("p").limit("nodes", 2)]);
    let avoid = |sketch: PodSketch| sketch.label("app", "x").apart(near("kubernetes.io/hostname", &[("app", "x")]));
    let answer = world.solve(pods("a", 5, avoid));
    assert_eq!((answer.placed(), answer.claims()), (2, 2));
}

// 01/NPL-06
#[test]
fn static_pools_get_nothing_from_pods() {
    let both = world(vec![pool("fixed").fixed(3).weight(90), pool("p")]);
    assert_eq!(both.solve(vec![pod("a")]).claim("a").pool.as_str(), "p");
    assert!(!world(vec![pool("fixed").fixed(3)]).solve(vec![pod("a")]).is_placed("a"));
}

// 01/POD-08
#[test]
fn pools_that_are_not_ready_or_going_away_are_not_used() {
    for state in [PoolState::NotReady, PoolState::Deleting] {
        assert!(!world(vec![pool("p").state(state)]).solve(vec![pod("a")]).is_placed("a"), "{state:?}");
    }
}

// 01/NPL-08
#[test]
fn a_pool_without_types_does_not_disturb_the_others() {
    let world = world(vec![pool("empty").weight(90).types(Vec::new()), pool("p")]);
    assert_eq!(world.solve(vec![pod("a")]).claim("a").pool.as_str(), "p");
}

// 01/TNT-01
#[test]
fn a_tainted_pool_takes_only_pods_that_tolerate_it() {
    let world = world(vec![pool("p").taint("team", Effect::NoSchedule)]);
    let answer = world.solve(vec![pod("a"), pod("b").tolerates("team"), pod("c").tolerates("other")]);
    assert!(!answer.is_placed("a") && answer.is_placed("b") && !answer.is_placed("c"));
}

// 01/PRF-09
#[test]
fn a_pool_that_asks_pods_to_stay_away_loses_to_one_that_does_not() {
    let world = world(vec![pool("soft").weight(90).taint("x", Effect::PreferNoSchedule), pool("plain")]);
    assert_eq!(world.solve(vec![pod("a")]).claim("a").pool.as_str(), "plain");
}

// 01/MIN-01
#[test]
fn a_claim_keeps_as_many_types_as_the_pool_demands() {
    let types = vec![
        shape("one").with("cpu", 1000).build(),
        shape("two").with("cpu", 2000).build(),
        shape("three").with("cpu", 3000).build(),
    ];
    let world = world(vec![pool("p").types(types).min_values("node.kubernetes.io/instance-type", "Exists", 2)]);
    let answer = world.solve(pods("a", 2, |sketch| sketch.asks("cpu", 1200)));
    assert_eq!((answer.placed(), answer.claims()), (2, 2), "sharing would leave only the largest type");
    assert!(answer.plan.claims.iter().all(|claim| claim.types.len() >= 2));
}

#[test]
fn claims_share_what_a_limit_leaves_for_their_choice() {
    // Machines of one to eight cores; each of three pods needs one of its own.
    let alone = |sketch: PodSketch| sketch.label("app", "x").apart(near("kubernetes.io/hostname", &[("app", "x")]));
    let most = |limit: i64, count: usize| -> Vec<usize> {
        let world = world(vec![pool("p").types(series(8)).limit("cpu", limit)]);
        let answer = world.judged(pods("a", count, |sketch| alone(sketch.asks("cpu", 100))));
        assert_eq!(answer.placed(), count);
        answer.plan.claims.iter().map(|claim| claim.types.len()).collect()
    };
    assert_eq!(most(12_000, 3), [4, 4, 4]);
    assert_eq!(most(8_000, 3), [2, 3, 3], "what one does not take is there for the next");
    assert_eq!(most(3_000, 3), [1, 1, 1]);
}

#[test]
fn types_that_a_claim_does_not_name_cost_nothing_of_a_limit() {
    let mut world = world(vec![pool("p").types(series(8)).limit("cpu", 6_000)]);
    world.snapshot.policy.max_types_per_claim = 2;
    let apart = |sketch: PodSketch| sketch.label("app", "x").apart(near("kubernetes.io/hostname", &[("app", "x")]));
    let answer = world.judged(pods("a", 3, |sketch| apart(sketch.asks("cpu", 100))));
    assert_eq!(answer.plan.claims.iter().map(|claim| claim.types.len()).collect::<Vec<_>>(), [2, 2, 2]);
}
