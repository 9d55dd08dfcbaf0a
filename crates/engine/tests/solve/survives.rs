//! What becomes of a plan when the scheduler thinks for itself: it binds in its own order, and it likes to spread.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::ids::PodName;
use model::plan::Plan;
use model::pod::Pod;
use model::snapshot::Snapshot;

use crate::judged::{answer, machine_for};
use crate::random::{any_open_world, draws};

/// Plans, lets the scheduler bind on the machines that were planned, and plans again for those that it left, so many times
/// at most. Returns how many passes it took, or who is left.
fn passes(mut snapshot: Snapshot, pods: &[Pod], most: usize) -> Result<usize, Box<(BTreeSet<PodName>, Snapshot)>> {
    let mut promised: Option<BTreeSet<PodName>> = None;
    for pass in 1..=most {
        let waiting: Vec<Arc<Pod>> =
            pods.iter().map(|pod| snapshot.pods[&pod.name].clone()).filter(|pod| pod.node.is_none()).collect();
        let bare: Vec<Pod> = waiting.iter().map(|pod| Pod::clone(pod)).collect();
        let plan = answer(&snapshot, &bare, u64::MAX);
        let promised = promised.get_or_insert_with(|| plan.placements.iter().map(|(name, _)| name.clone()).collect());
        let mut world = judge::World::with_plan(&snapshot, &plan);
        let left: BTreeSet<PodName> = judge::schedule(&mut world, &waiting).into_iter().collect();
        snapshot = world.settled(&snapshot);
        if left.is_disjoint(promised) {
            return Ok(pass);
        }
        if pass == most {
            return Err(Box::new((left.intersection(promised).cloned().collect(), snapshot)));
        }
    }
    Ok(0)
}

/// How many of a hundred random worlds need another pass, and how many worlds the scheduler drives into a corner.
#[test]
fn pods_that_the_scheduler_leaves_are_placed_by_two_more_passes() {
    let worlds = draws(any_open_world(), 1000);
    let (mut again, mut cornered) = (0, 0);
    for (number, (snapshot, pods)) in worlds.iter().enumerate() {
        match passes(snapshot.clone(), pods, 3) {
            Ok(passes) => again += usize::from(passes > 1),
            Err(stuck) => {
                let (left, end) = *stuck;
                // The scheduler may bind others so that no machine in the world would do: company that nobody can join,
                // distance that nobody can keep. It takes no autoscaler's plan into account.
                let saved =
                    left.iter().find_map(|name| Some((name, machine_for(&end, &Plan::default(), &end.pods[name])?)));
                assert_eq!(saved, None, "world {number}");
                cornered += 1;
            }
        }
    }
    assert!(again + cornered <= worlds.len() * 3 / 10, "{again} and {cornered} of {}", worlds.len());
}
