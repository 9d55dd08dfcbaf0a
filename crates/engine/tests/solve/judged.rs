//! Plans for random worlds, before the judge.

use std::sync::atomic::AtomicBool;

use engine::solve::{Question, solve};
use judge::{Verdict, Violation};
use model::ids::PoolName;
use model::labels::INSTANCE_TYPE;
use model::plan::{Plan, PlannedClaim};
use model::pod::Pod;
use model::pool::Pool;
use model::requirements::Requirement;
use model::snapshot::Snapshot;
use model::topology::SpreadMode;
use proptest::prelude::*;

use crate::fixture::*;
use crate::random::{any_world, seeded};

pub(crate) fn answer(snapshot: &Snapshot, pods: &[Pod], effort: u64) -> Plan {
    let question = Question { effort, ..Question::about(pods.iter().collect()) };
    solve(snapshot, &question, &AtomicBool::new(false))
}

/// A machine that a pool could still launch beside what the plan asks for, and that the pod could be bound to.
pub(crate) fn machine_for(snapshot: &Snapshot, plan: &Plan, pod: &Pod) -> Option<String> {
    snapshot.pools.keys().find_map(|pool| machine_in(snapshot, plan, pod, pool))
}

/// The same for one pool.
pub(crate) fn machine_in(snapshot: &Snapshot, plan: &Plan, pod: &Pod, pool: &PoolName) -> Option<String> {
    single_machines(snapshot, &new_claim(&snapshot.pools[pool])).into_iter().find_map(|claim| {
        let mut longer = plan.clone();
        longer.claims.push(claim);
        takes(snapshot, &longer, plan.claims.len(), pod)
    })
}

/// A claim for anything that a pool can launch.
pub(crate) fn new_claim(pool: &Pool) -> PlannedClaim {
    PlannedClaim {
        requirements: pool.template.requirements.clone(),
        types: pool.instance_types.iter().map(|offered| offered.name.clone()).collect(),
        ..PlannedClaim::bare(pool.name.clone())
    }
}

/// A machine that a claim of the plan may become, and that has room for one more.
fn claim_for(snapshot: &Snapshot, plan: &Plan, pod: &Pod) -> Option<String> {
    let claims = plan.claims.iter().enumerate();
    let ways =
        claims.flat_map(|(number, claim)| single_machines(snapshot, claim).into_iter().map(move |c| (number, c)));
    ways.into_iter().find_map(|(number, claim)| {
        let mut narrower = plan.clone();
        narrower.claims[number] = claim;
        takes(snapshot, &narrower, number, pod)
    })
}

/// A claim, narrowed to each of the machines that it may become.
pub(crate) fn single_machines(snapshot: &Snapshot, claim: &PlannedClaim) -> Vec<PlannedClaim> {
    let offered = &snapshot.pools[&claim.pool].instance_types;
    let listed = offered.iter().filter(|offered| claim.types.contains(&offered.name));
    let ways = listed.flat_map(|listed| listed.offerings.iter().map(move |way| (&listed.name, way)));
    let single = ways.filter(|(_, way)| way.is_available).map(|(name, way)| {
        let mut requirements = claim.requirements.clone();
        requirements.add_all(&way.requirements);
        requirements.add(INSTANCE_TYPE, Requirement::value(name.as_str().into()));
        PlannedClaim { requirements, types: [name.clone()].into(), ..claim.clone() }
    });
    single.collect()
}

/// Whether the plan is sound, and the pod could be bound to one of its machines.
fn takes(snapshot: &Snapshot, plan: &Plan, claim: usize, pod: &Pod) -> Option<String> {
    let Verdict { world, violations } = judge::replay(snapshot, plan);
    let node = world.claim_node(claim)?.clone();
    let is_limit = |violation: &Violation| matches!(violation, Violation::Limit { .. });
    let is_sound = !violations.iter().any(is_limit);
    (is_sound && judge::filter(&world, pod, &node).is_ok()).then(|| format!("{:?}", plan.claims[claim]))
}

/// Spreads reckon with domains that could still be opened, where the scheduler sees only those that are there; a pod that
/// we leave out for the sake of such a domain may fit now.
fn spreads(pod: &Pod) -> bool {
    pod.wants.spread.iter().any(|spread| spread.mode == SpreadMode::DoNotSchedule)
}

proptest! {
    #![proptest_config(seeded(400))]

    #[test]
    fn the_judge_accepts_every_plan((snapshot, pods) in any_world()) {
        let plan = answer(&snapshot, &pods, u64::MAX);
        let verdict = judge::replay(&snapshot, &plan);
        prop_assert!(verdict.is_accepted(), "{}\n{plan:#?}", verdict);
        prop_assert_eq!(plan.placements.len() + plan.unplaced.len(), pods.len());
    }

    #[test]
    fn the_order_of_the_question_changes_nothing((snapshot, pods) in any_world()) {
        let mut reversed = pods.clone();
        reversed.reverse();
        prop_assert_eq!(answer(&snapshot, &pods, u64::MAX), answer(&snapshot, &reversed, u64::MAX));
    }

    #[test]
    fn the_steps_that_a_plan_took_give_the_same_plan_again((snapshot, pods) in any_world()) {
        let plan = answer(&snapshot, &pods, u64::MAX);
        prop_assert_eq!(answer(&snapshot, &pods, plan.steps), plan);
    }

    #[test]
    fn nobody_is_left_out_who_would_fit_on_a_node_that_is_there((snapshot, pods) in any_world()) {
        let plan = answer(&snapshot, &pods, u64::MAX);
        let world = judge::replay(&snapshot, &plan).world;
        for unplaced in &plan.unplaced {
            let pod = &snapshot.pods[&unplaced.pod];
            for node in snapshot.nodes.keys() {
                prop_assert!(judge::filter(&world, pod, node).is_err(), "{} would fit on {node}", unplaced.pod);
            }
        }
    }

    #[test]
    fn nobody_is_left_out_who_would_fit_on_a_machine_that_could_come((snapshot, pods) in any_world()) {
        let plan = answer(&snapshot, &pods, u64::MAX);
        for unplaced in &plan.unplaced {
            let pod = &snapshot.pods[&unplaced.pod];
            let machine = machine_for(&snapshot, &plan, pod).or_else(|| claim_for(&snapshot, &plan, pod));
            prop_assert!(machine.is_none(), "{} would fit on {machine:?}: {unplaced:#?}", unplaced.pod);
        }
    }

    #[test]
    fn nobody_has_a_place_that_a_more_important_pod_is_left_out_for((snapshot, pods) in any_world()) {
        let plan = answer(&snapshot, &pods, u64::MAX);
        for unplaced in &plan.unplaced {
            let pod = &snapshot.pods[&unplaced.pod];
            // Who waits for company may have it only because of lesser pods, so taking those away proves nothing.
            let mut without = plan.clone();
            without.placements.retain(|(placed, _)| snapshot.pods[placed].priority >= pod.priority);
            let world = judge::replay(&snapshot, &without).world;
            for node in snapshot.nodes.keys().filter(|_| !spreads(pod) && pod.wants.together.is_empty()) {
                prop_assert!(judge::filter(&world, pod, node).is_err(), "{} would fit on {node} without lesser pods", unplaced.pod);
            }
        }
    }

    #[test]
    fn the_judge_accepts_a_second_pass_over_machines_that_have_not_come((snapshot, pods) in any_world()) {
        let first = Answer { plan: answer(&snapshot, &pods, u64::MAX) };
        let placed: Vec<Pod> = pods.iter().filter(|pod| first.is_placed(&pod.name.name)).cloned().collect();
        let world = World { snapshot }.asked_for(&first);
        let second = answer(&world.snapshot, &placed, u64::MAX);
        let verdict = judge::replay(&world.snapshot, &second);
        prop_assert!(verdict.is_accepted(), "{}", verdict);
    }
}
