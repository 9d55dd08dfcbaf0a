//! Whether a claim may be made, and whether every machine that it may become would do.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::ids::PodName;
use model::instance::InstanceType;
use model::labels::INSTANCE_TYPE;
use model::plan::PlannedClaim;
use model::pod::Pod;
use model::pool::{Pool, PoolKind, PoolState};
use model::requirements::Requirements;
use model::snapshot::{Daemon, MinValuesPolicy, Snapshot};

use crate::machine::{Machine, Order, machines};
use crate::rules::node_affinity::first_mismatch;
use crate::rules::node_refusal;
use crate::violation::{ClaimFault, MachineFault, MachineName};
use crate::world::{Node, Site};

/// Everything that is wrong with a planned claim on which these pods are placed, in this order.
pub(crate) fn faults(
    snapshot: &Snapshot,
    claim: &PlannedClaim,
    site: Option<&Site>,
    pods: &[Arc<Pod>],
) -> Vec<ClaimFault> {
    let pool = snapshot.pools.get(&claim.pool);
    let (Some(pool), Some(site), Some(order)) = (pool, site, Order::of_claim(snapshot, claim)) else {
        return vec![ClaimFault::UnknownPool];
    };
    let mut found = Vec::new();
    found.extend(pool_fault(pool));
    found.extend(listing_faults(pool, claim, &order));
    found.extend(pods_fault(claim, pods));
    found.extend(min_values_faults(snapshot, pool, claim, &order));
    let daemons: Vec<Arc<Daemon>> = snapshot.daemons.values().cloned().collect();
    found.extend(machine_faults(&order, site, Some(&pool.template.requirements), pods, &daemons));
    found
}

/// What is wrong with the machines that an order may bring: nothing to have, or some that do not suit. A type is named once.
pub(crate) fn machine_faults(
    order: &Order<'_>,
    site: &Site,
    pool: Option<&Requirements>,
    pods: &[Arc<Pod>],
    daemons: &[Arc<Daemon>],
) -> Vec<ClaimFault> {
    let machines = machines(order);
    if machines.is_empty() {
        return vec![ClaimFault::NoMachine];
    }
    let mut named = BTreeSet::new();
    let mut found = Vec::new();
    for machine in &machines {
        if named.contains(&machine.type_name) {
            continue;
        }
        if let Some(fault) = machine_fault(machine, site, pool, pods, daemons) {
            named.insert(machine.type_name.clone());
            found.push(ClaimFault::Machine(Box::new(fault)));
        }
    }
    found
}

/// Whether the machine, with any labels that it may come with, suits the pool and holds all pods beside its daemons.
fn machine_fault(
    machine: &Machine,
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
    for labels in machine.label_sets() {
        let mut node = Node::raised(site, machine, labels, daemons);
        if let Some(key) = pool.and_then(|requirements| first_mismatch(requirements, &node.labels)) {
            let value = node.labels.get(key).cloned();
            return Some(MachineFault::OutsidePool { machine: name(), key: key.clone(), value });
        }
        for pod in pods {
            if let Some(refusal) = node_refusal(pod, &node) {
                return Some(MachineFault::Refuses { machine: name(), pod: pod.name.clone(), refusal });
            }
            node.add(pod.clone(), daemons);
        }
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
fn listing_faults(pool: &Pool, claim: &PlannedClaim, order: &Order<'_>) -> Vec<ClaimFault> {
    let unknown = claim.types.iter().filter(|name| !pool.instance_types.iter().any(|known| known.name == **name));
    let offerings = || order.types.iter().flat_map(|instance| &instance.offerings);
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
fn min_values_faults(snapshot: &Snapshot, pool: &Pool, claim: &PlannedClaim, order: &Order<'_>) -> Vec<ClaimFault> {
    if claim.is_min_values_relaxed && snapshot.policy.min_values == MinValuesPolicy::BestEffort {
        return Vec::new();
    }
    let demands = pool.template.requirements.iter().filter_map(|(key, wanted)| Some((key, wanted.min_values?)));
    let counted = demands.map(|(key, wanted)| (key, wanted, values(key, &order.types).len()));
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
