//! A plan, carried out step by step under the eyes of the rules.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use model::ids::{NodeName, PodName};
use model::plan::{Plan, Target};
use model::pod::{Life, Pod};
use model::snapshot::Snapshot;

use crate::claims;
use crate::limits;
use crate::machine::{Order, machines};
use crate::rules::filter;
use crate::shelf::Shelf;
use crate::violation::{ClaimFault, NotWaiting, Violation};
use crate::world::{Site, World, bind};

#[cfg(test)]
mod tests;

/// What the referee found.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Everything that is wrong, in the order in which it came up; a plan without any is accepted.
    pub violations: Vec<Violation>,
    /// The cluster with every pod where the plan puts it.
    pub world: World,
}

impl Verdict {
    pub fn is_accepted(&self) -> bool {
        self.violations.is_empty()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_accepted() {
            return f.write_str("accepted");
        }
        self.violations.iter().try_for_each(|violation| writeln!(f, "{violation}"))
    }
}

/// Judges a plan: each binding in its turn, then each claim with every machine that it may become, then what pools and
/// reservations have left.
///
/// A pod that may not be where the plan puts it stands there all the same for those after it: the plan is judged as it is.
pub fn replay(snapshot: &Snapshot, plan: &Plan) -> Verdict {
    let mut found = pod_violations(snapshot, plan);
    let shelf = Shelf::new(snapshot);
    let mut world = World::from_shelf(&shelf, snapshot, plan);
    let sites: Vec<Option<Site>> =
        plan.claims.iter().enumerate().map(|(index, _)| site(&world, snapshot, plan, index)).collect();
    let mut on_claims: Vec<Vec<Arc<Pod>>> = vec![Vec::new(); plan.claims.len()];
    let mut on_unlaunched: Vec<(NodeName, Vec<Arc<Pod>>)> = Vec::new();
    let mut placed = BTreeSet::new();
    for (name, target) in &plan.placements {
        let Some(pod) = snapshot.pods.get(name) else { continue };
        if !placed.insert(name) {
            continue;
        }
        note(snapshot, pod, target, &mut on_claims, &mut on_unlaunched);
        found.extend(place(&mut world, snapshot, pod, target));
    }
    for (index, claim) in plan.claims.iter().enumerate() {
        let faults = claims::faults(&shelf, claim, sites[index].as_ref(), &on_claims[index]);
        found.extend(faults.into_iter().map(|fault| Violation::Claim {
            claim: index,
            pool: claim.pool.clone(),
            fault,
        }));
    }
    for (node, pods) in &on_unlaunched {
        found.extend(unlaunched_violations(&world, snapshot, node, pods));
    }
    found.extend(limits::overused(snapshot, plan));
    found.extend(limits::broken(&shelf, plan));
    Verdict { violations: found, world }
}

/// The site of a claim under the name that its node really got.
fn site(world: &World, snapshot: &Snapshot, plan: &Plan, index: usize) -> Option<Site> {
    let site = world.site_of(snapshot, index, &plan.claims[index])?;
    Some(match world.claim_node(index) {
        Some(name) => Site { name: name.clone(), ..site },
        None => site,
    })
}

/// Remembers which pods share a machine that is not known yet.
fn note(
    snapshot: &Snapshot,
    pod: &Arc<Pod>,
    target: &Target,
    on_claims: &mut [Vec<Arc<Pod>>],
    on_unlaunched: &mut Vec<(NodeName, Vec<Arc<Pod>>)>,
) {
    match target {
        Target::Claim(index) => on_claims.get_mut(*index).into_iter().for_each(|pods| pods.push(pod.clone())),
        Target::Node(name) => {
            let Some(node) = snapshot.nodes.get(name) else { return };
            if Order::of_unlaunched(snapshot, node).is_none() {
                return;
            }
            match on_unlaunched.iter_mut().find(|(known, _)| known == name) {
                Some((_, pods)) => pods.push(pod.clone()),
                None => on_unlaunched.push((name.clone(), vec![pod.clone()])),
            }
        }
    }
}

/// Binds one pod, and says what speaks against it.
fn place(world: &mut World, snapshot: &Snapshot, pod: &Arc<Pod>, target: &Target) -> Option<Violation> {
    let node = match target {
        Target::Node(name) => name.clone(),
        Target::Claim(index) => match world.claim_node(*index) {
            Some(name) => name.clone(),
            // A claim without a machine is reported once, as a fault of the claim.
            None if *index < world.claim_count() => return None,
            None => return Some(Violation::UnknownClaim { pod: pod.name.clone(), claim: *index }),
        },
    };
    if world.node(&node).is_none() && snapshot.nodes.contains_key(&node) {
        // The same holds for a claim that was made before.
        return None;
    }
    let refused = filter(world, pod, &node).err();
    refused.or(bind(world, pod, &node).err())
}

fn unlaunched_violations(world: &World, snapshot: &Snapshot, name: &NodeName, pods: &[Arc<Pod>]) -> Vec<Violation> {
    let Some(node) = snapshot.nodes.get(name) else { return Vec::new() };
    let Some(order) = Order::of_unlaunched(snapshot, node) else { return Vec::new() };
    let faults: Vec<ClaimFault> =
        claims::machine_faults(&machines(&order), &Site::of_unlaunched(node), None, pods, world.daemons());
    faults.into_iter().map(|fault| Violation::Unlaunched { node: name.clone(), fault }).collect()
}

/// Whether the plan speaks of pods that are there, wait for a place, and are spoken of once.
fn pod_violations(snapshot: &Snapshot, plan: &Plan) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut placed: BTreeSet<&PodName> = BTreeSet::new();
    for (name, _) in &plan.placements {
        match snapshot.pods.get(name) {
            None => found.push(Violation::UnknownPod { pod: name.clone() }),
            Some(_) if placed.contains(name) => found.push(Violation::PlacedTwice { pod: name.clone() }),
            Some(pod) => {
                let state = not_waiting(snapshot, pod);
                found.extend(state.map(|state| Violation::NotWaiting { pod: name.clone(), state }));
            }
        }
        placed.insert(name);
    }
    for out in &plan.unplaced {
        if !snapshot.pods.contains_key(&out.pod) {
            found.push(Violation::UnknownPod { pod: out.pod.clone() });
        }
        if placed.contains(&out.pod) {
            found.push(Violation::PlacedAndUnplaced { pod: out.pod.clone() });
        }
    }
    found
}

/// Why a pod has no use for a place: only pods without a node, or on one that leaves, wait for one.
fn not_waiting(snapshot: &Snapshot, pod: &Pod) -> Option<NotWaiting> {
    if pod.life != Life::Active {
        return Some(NotWaiting::Ending);
    }
    if let Some(problem) = pod.problems.first() {
        return Some(NotWaiting::Problem(problem.clone()));
    }
    let node = snapshot.nodes.get(pod.node.as_ref()?)?;
    (!node.is_leaving).then(|| NotWaiting::Running(node.name.clone()))
}
