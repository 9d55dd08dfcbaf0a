//! Pods that found no place at first: growth, second thoughts, and what those cost.

use model::labels::{INSTANCE_TYPE, NODE_POOL};

use crate::fixture::*;
use crate::paid::reserved;

const HOST: &str = "kubernetes.io/hostname";
const ARCH: &str = "kubernetes.io/arch";

/// A pool of one node, and pods for it: one that comes first by its size, and three that cannot be beside it.
fn rivals(name: &str) -> (PoolSketch, Vec<PodSketch>) {
    let types = vec![shape("amd").build(), shape("arm").arch("arm64").build()];
    let of_pool = |sketch: PodSketch| sketch.selects(NODE_POOL, &format!("In {name}"));
    let mut all = pods("small", 3, |sketch| of_pool(sketch).asks("cpu", 500).selects(ARCH, "In amd64"));
    all.push(of_pool(pod("large")).asks("cpu", 3000).selects(ARCH, "In arm64"));
    (pool(name).types(types).limit("nodes", 1), all)
}

#[test]
fn a_limit_that_the_plan_itself_spends_is_thought_about_again() {
    let (pool, pods) = rivals("p");
    let answer = world(vec![pool]).judged(pods);
    assert_eq!((answer.placed(), answer.is_placed("large")), (3, false));
}

#[test]
fn a_claim_grows_before_its_pods_wait_for_reserved_machines() {
    let small = reserved(shape("small").with("cpu", 2000), "r-small", 1, 1);
    let large = reserved(shape("large").with("cpu", 8000), "r-large", 1, 5_000_000_000_000);
    let world = world(vec![pool("p").types(vec![small, large])]);
    let answer = world.judged(vec![pod("a").asks("cpu", 1000).priority(5), pod("b").asks("cpu", 3000)]);
    assert_eq!((answer.placed(), answer.claims()), (2, 1));
    assert_eq!(answer.types("b"), ["large"]);
}

#[test]
fn who_waited_for_a_reserved_machine_and_got_it_keeps_nobody_from_second_thoughts() {
    let x = reserved(shape("x"), "r-x", 1, 1);
    let y = reserved(shape("y"), "r-y", 1, 2);
    let (limited, mut all) = rivals("q");
    let of =
        |name: &str, kind: &str| pod(name).asks("cpu", 100).selects(NODE_POOL, "In p").selects(INSTANCE_TYPE, kind);
    all.push(of("first", "Exists").label("app", "z").priority(9).apart(near(HOST, &[("app", "z")])));
    all.push(of("waits", "In x").label("app", "z").priority(8).apart(near(HOST, &[("app", "z")])));
    all.push(of("settles", "In y").priority(7));
    let answer = world(vec![pool("p").types(vec![x, y]), limited]).judged(all);
    assert!(answer.is_placed("waits"), "{:?}", answer.plan.unplaced);
    assert_eq!((answer.placed(), answer.is_placed("large")), (6, false));
}

#[test]
fn beginning_anew_is_work_that_counts() {
    let full = |world: World, number: usize| world.node(&format!("full-{number:03}"), &[], 0);
    let world = (0..500).fold(world(Vec::new()).node("free", &[], 4000), full);
    let shy = pods("a", 2, |sketch| sketch.asks("cpu", 100).label("app", "x").apart(near(HOST, &[("app", "x")])));
    let answer = world.judged(shy);
    assert_eq!(answer.placed(), 1);
    let most = 2 * 1000 + 10_000;
    assert!((5_000..most).contains(&answer.plan.steps), "{} steps", answer.plan.steps);
}
