//! A catalogue that is kept from question to question.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use engine::solve::{Catalogue, Question, solve, solve_with};
use model::plan::Plan;
use model::pod::Pod;
use model::pool::Pool;
use model::requirements::Requirements;
use model::snapshot::Snapshot;
use proptest::prelude::*;

use crate::fixture::*;
use crate::random::{any_world, seeded};

fn plans(catalogue: &Catalogue, snapshot: &Snapshot, pods: &[Pod]) -> (Plan, Plan) {
    let question = Question::about(pods.iter().collect());
    let cancel = AtomicBool::new(false);
    (solve(snapshot, &question, &cancel), solve_with(catalogue, snapshot, &question, &cancel))
}

proptest! {
    #![proptest_config(seeded(300))]

    #[test]
    fn a_kept_catalogue_gives_the_same_plan_as_a_new_one((first, second) in (any_world(), any_world()), half in any::<bool>()) {
        let (mut snapshot, pods) = first;
        let kept = Catalogue::of(&snapshot);
        // What is not on sale may change in any way.
        snapshot.nodes.retain(|_, _| half);
        snapshot.pods.clear();
        snapshot.daemons = second.0.daemons.clone();
        let pods: Vec<Pod> = pods.into_iter().chain(second.1.clone()).enumerate().map(|(number, mut pod)| {
            pod.name = model::ids::PodName::new("default", &format!("pod-{number}"));
            pod
        }).collect();
        let (new, with_kept) = plans(&kept, &snapshot, &pods);
        prop_assert_eq!(new, with_kept);
    }

    #[test]
    fn a_catalogue_of_another_world_does_no_harm((first, second) in (any_world(), any_world())) {
        let (new, with_other) = plans(&Catalogue::of(&second.0), &first.0, &first.1);
        prop_assert_eq!(new, with_other);
    }
}

#[test]
fn what_pools_and_pods_name_later_is_understood() {
    let mut world = world(vec![pool("p")]);
    let kept = Catalogue::of(&world.snapshot);
    let change = |pool: &mut Pool| {
        let requirements: Requirements = reqs(&[("team", "In blue"), ("integer", "Gt 3")]);
        pool.template.requirements.add_all(&requirements);
    };
    let pools = world.snapshot.pools.values_mut();
    pools.for_each(|pool| change(Arc::make_mut(pool)));
    let wishes = [("team", "In blue"), ("integer", "Lt 17"), ("integer", "NotIn 4")];
    let asking = |pod: PodSketch| wishes.iter().fold(pod.asks("cpu", 500), |pod, (key, text)| pod.selects(key, text));
    let pods: Vec<Pod> = pods("a", 5, asking).into_iter().map(|sketch| sketch.0).collect();
    let (new, with_kept) = plans(&kept, &world.snapshot, &pods);
    assert_eq!(new, with_kept);
    assert_eq!(new.placements.len(), 5, "{:#?}", new.unplaced);
    assert!(new.claims.iter().all(|claim| claim.types.iter().all(|name| name.as_str() != "default-instance-type")));
}

#[test]
fn a_catalogue_is_kept_as_long_as_the_same_types_are_offered() {
    let types = series(3);
    let offering = |types: &[Arc<model::instance::InstanceType>]| world(vec![pool("p").types(types.to_vec())]).snapshot;
    let kept = Catalogue::of(&offering(&types));
    assert!(kept.is_of(&offering(&types)));
    assert!(!kept.is_of(&offering(&types[..2])), "one is no longer offered");
    assert!(!kept.is_of(&offering(&series(3))), "the same names, but who knows at what price");
    let two = world(vec![pool("p").types(types.clone()), pool("q").types(types.clone())]).snapshot;
    assert!(!kept.is_of(&two), "another pool has come");
}
