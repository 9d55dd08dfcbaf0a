//! Whether a claim may be made, and whether every machine that it may become would do.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::ids::PodName;
use model::instance::InstanceType;
use model::labels::{INSTANCE_TYPE, Labels};
use model::plan::PlannedClaim;
use model::pod::Pod;
use model::pool::{Pool, PoolKind, PoolState};
use model::requirements::Requirements;
use model::snapshot::{Daemon, MinValuesPolicy, Snapshot};

use crate::machine::Machine;
use crate::rules::node_affinity::first_mismatch;
use crate::rules::node_refusal;
use crate::shelf::Shelf;
use crate::violation::{ClaimFault, MachineFault, MachineName};
use crate::world::{Node, Site};

/// Everything that is wrong with a planned claim on which these pods are placed, in this order.
pub(crate) fn faults(
    shelf: &Shelf<'_>,
    claim: &PlannedClaim,
    site: Option<&Site>,
    pods: &[Arc<Pod>],
) -> Vec<ClaimFault> {
    let snapshot = shelf.snapshot;
    let (Some(pool), Some(site)) = (snapshot.pools.get(&claim.pool), site) else {
        return vec![ClaimFault::UnknownPool];
    };
    let types = shelf.types(claim);
    let mut found = Vec::new();
    found.extend(pool_fault(pool));
    found.extend(listing_faults(shelf, claim, &types));
    found.extend(pods_fault(claim, pods));
    found.extend(min_values_faults(snapshot, pool, claim, &types));
    let daemons: Vec<Arc<Daemon>> = snapshot.daemons.values().cloned().collect();
    let machines = shelf.machines(claim);
    found.extend(machine_faults(&machines, site, Some(&pool.template.requirements), pods, &daemons));
    found
}

/// What is wrong with the machines that may come: nothing to have, or some that do not suit. A type is named once.
pub(crate) fn machine_faults(
    machines: &[Arc<Machine>],
    site: &Site,
    pool: Option<&Requirements>,
    pods: &[Arc<Pod>],
    daemons: &[Arc<Daemon>],
) -> Vec<ClaimFault> {
    if machines.is_empty() {
        return vec![ClaimFault::NoMachine];
    }
    let asked = asked_keys(pool, pods, daemons);
    let mut named = BTreeSet::new();
    let mut found = Vec::new();
    let mut passed: Vec<(Vec<Option<Arc<str>>>, &Machine)> = Vec::new();
    for machine in machines {
        if named.contains(&machine.type_name) {
            continue;
        }
        for values in machine.value_sets(&asked) {
            // Nothing is asked of a node but values under these keys and amounts, and more of an amount never hurts: what is
            // good on one machine is good on another that has the same values and is no smaller.
            if passed.iter().any(|(known, other)| *known == values && is_no_smaller(machine, other)) {
                continue;
            }
            match machine_fault(machine, machine.labels_with(&asked, &values), site, pool, pods, daemons) {
                None => passed.push((values, machine)),
                Some(fault) => {
                    named.insert(machine.type_name.clone());
                    found.push(ClaimFault::Machine(Box::new(fault)));
                    break;
                }
            }
        }
    }
    found
}

/// Every label key that anybody says a word about who has a part in whether the pods can run here.
fn asked_keys(pool: Option<&Requirements>, pods: &[Arc<Pod>], daemons: &[Arc<Daemon>]) -> BTreeSet<Arc<str>> {
    let of_pods = pods.iter().flat_map(|pod| {
        let wants = &pod.wants;
        std::iter::once(&wants.selector).chain(&wants.terms).chain(&wants.volumes.alternatives)
    });
    let of_daemons = daemons.iter().flat_map(|daemon| std::iter::once(&daemon.selector).chain(&daemon.terms));
    let all = pool.into_iter().chain(of_pods).chain(of_daemons);
    all.flat_map(|requirements| requirements.iter().map(|(key, _)| key.clone())).collect()
}

fn is_no_smaller(machine: &Machine, other: &Machine) -> bool {
    other.attach_limits == machine.attach_limits && other.allocatable.max(&machine.allocatable) == machine.allocatable
}

/// Whether the machine, if it comes with these labels, suits the pool and holds all pods beside its daemons.
fn machine_fault(
    machine: &Machine,
    labels: Labels,
    site: &Site,
    pool: Option<&Requirements>,
    pods: &[Arc<Pod>],
    daemons: &[Arc<Daemon>],
) -> Option<MachineFault> {
    let name = || MachineName {
        type_name: machine.type_name.clone(),
        zone: machine.zone.clone(),
        capacity_type: machine.capacity_type.clone(),
    };
    let mut node = Node::raised(site, machine, labels, daemons);
    if let Some(key) = pool.and_then(|requirements| first_mismatch(requirements, &node.labels)) {
        let value = node.labels.get(key).cloned();
        return Some(MachineFault::OutsidePool { machine: name(), key: key.clone(), value });
    }
    // No pod is there yet, so everything that daemons ask for is still reserved.
    let short = node.reserved().amounts().find(|(resource, wanted)| *wanted > node.allocatable.get(resource));
    if let Some((resource, wanted)) = short {
        let allocatable = node.allocatable.get(&resource);
        return Some(MachineFault::Daemons { machine: name(), resource, wanted, allocatable });
    }
    for pod in pods {
        if let Some(refusal) = node_refusal(pod, &node) {
            return Some(MachineFault::Refuses { machine: name(), pod: pod.name.clone(), refusal });
        }
        node.add(pod.clone(), daemons);
    }
    None
}

fn pool_fault(pool: &Pool) -> Option<ClaimFault> {
    match (pool.kind, pool.state) {
        (PoolKind::Static { .. }, _) => Some(ClaimFault::StaticPool),
        (PoolKind::Dynamic, PoolState::Ready) => None,
        (PoolKind::Dynamic, state) => Some(ClaimFault::PoolState(state)),
    }
}

/// Types and reservations that the claim lists and nobody sells.
fn listing_faults(shelf: &Shelf<'_>, claim: &PlannedClaim, types: &[&InstanceType]) -> Vec<ClaimFault> {
    let unknown = claim.types.iter().filter(|name| !shelf.has(&claim.pool, name));
    let offerings = || types.iter().flat_map(|instance| &instance.offerings);
    let missing = claim.reservations.iter().filter(|id| {
        !offerings().any(|offering| offering.reservation.as_ref().is_some_and(|reservation| reservation.id == **id))
    });
    let unknown = unknown.cloned().map(ClaimFault::UnknownType);
    unknown.chain(missing.cloned().map(ClaimFault::UnknownReservation)).collect()
}

fn pods_fault(claim: &PlannedClaim, pods: &[Arc<Pod>]) -> Option<ClaimFault> {
    let listed: BTreeSet<&PodName> = claim.pods.iter().collect();
    let placed: BTreeSet<&PodName> = pods.iter().map(|pod| &pod.name).collect();
    let owned = |names: &BTreeSet<&PodName>| names.iter().map(|name| (*name).clone()).collect();
    (listed != placed).then(|| ClaimFault::PodsDiffer { listed: owned(&listed), placed: owned(&placed) })
}

/// Values are counted over the types' own, not over what the claim still allows of them. Lowered numbers are good only
/// where the operator lets them be lowered.
fn min_values_faults(
    snapshot: &Snapshot,
    pool: &Pool,
    claim: &PlannedClaim,
    types: &[&InstanceType],
) -> Vec<ClaimFault> {
    if claim.is_min_values_relaxed && snapshot.policy.min_values == MinValuesPolicy::BestEffort {
        return Vec::new();
    }
    let demands = pool.template.requirements.iter().filter_map(|(key, wanted)| Some((key, wanted.min_values?)));
    let counted = demands.map(|(key, wanted)| (key, wanted, values(key, types).len()));
    counted
        .filter(|(_, wanted, found)| *found < *wanted as usize)
        .map(|(key, wanted, found)| ClaimFault::MinValues { key: key.clone(), wanted, found })
        .collect()
}

fn values<'a>(key: &str, types: &[&'a InstanceType]) -> BTreeSet<&'a str> {
    let listed = types.iter().filter_map(|instance| instance.requirements.get(key)?.listed());
    let mut found: BTreeSet<&str> = listed.flatten().map(|value| &**value).collect();
    if key == INSTANCE_TYPE {
        found.extend(types.iter().map(|instance| instance.name.as_str()));
    }
    found
}
