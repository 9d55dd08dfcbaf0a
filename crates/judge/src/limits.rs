//! What pools and reservations have left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::ids::{PoolName, ReservationId};
use model::instance::InstanceType;
use model::node::Node;
use model::plan::{Plan, PlannedClaim};
use model::pool::{BrokenLimit, Pool};
use model::resources::Resources;
use model::snapshot::Snapshot;

use crate::machine::{Machine, Order, machines};
use crate::shelf::Shelf;
use crate::violation::Violation;

/// Limits that a plan's claims break. A pool that gets no claim may be over its limit: that is not this plan's doing.
pub(crate) fn broken(shelf: &Shelf<'_>, plan: &Plan) -> Vec<Violation> {
    let snapshot = shelf.snapshot;
    let growing: BTreeSet<&PoolName> = plan.claims.iter().map(|claim| &claim.pool).collect();
    let pools = growing.into_iter().filter_map(|name| snapshot.pools.get(name));
    pools.flat_map(|pool| broken_of(shelf, plan, pool)).collect()
}

fn broken_of(shelf: &Shelf<'_>, plan: &Plan, pool: &Pool) -> Vec<Violation> {
    let standing =
        shelf.snapshot.nodes.values().filter(|node| node.pool.as_ref() == Some(&pool.name) && !node.is_leaving);
    let planned = plan.claims.iter().filter(|claim| claim.pool == pool.name);
    let sizes = standing.map(|node| size(shelf.snapshot, node)).chain(planned.map(|claim| largest(shelf, claim)));
    let (nodes, used) = sizes.fold((0_i64, Resources::default()), |(nodes, used), one| (nodes + 1, used.plus(&one)));
    let by_count = pool.limits.nodes.map(|limit| ("nodes".into(), limit, nodes));
    let by_resource = pool.limits.resources.iter().map(|(axis, limit)| (axis.name().into(), *limit, used.get(axis)));
    by_count
        .into_iter()
        .chain(by_resource)
        .filter(|(_, limit, would_be)| would_be > limit)
        .map(|(resource, limit, would_be)| Violation::Limit {
            pool: pool.name.clone(),
            limit: BrokenLimit { resource, limit, would_be },
        })
        .collect()
}

/// What a node counts for. One that has not launched may become any of its types, so it counts for all of them.
fn size(snapshot: &Snapshot, node: &Node) -> Resources {
    let Some(order) = Order::of_unlaunched(snapshot, node) else { return node.capacity.clone() };
    most(machines(&order)).unwrap_or_else(|| most_of_types(&order.types)).max(&node.capacity)
}

/// The most of each resource that a claim may bring, for the cloud may pick the largest of its types.
fn largest(shelf: &Shelf<'_>, claim: &PlannedClaim) -> Resources {
    most(shelf.machines(claim)).unwrap_or_else(|| most_of_types(&shelf.types(claim)))
}

/// The most that any of these brings; some ways to buy a type bring more than the type itself says, or less.
fn most(machines: Vec<Arc<Machine>>) -> Option<Resources> {
    machines.iter().map(|machine| machine.capacity.clone()).reduce(|most, capacity| most.max(&capacity))
}

/// What stands for it where nothing is on sale.
fn most_of_types(types: &[&InstanceType]) -> Resources {
    types.iter().fold(Resources::default(), |most, instance| most.max(&instance.capacity))
}

/// Reservations that more claims hold than machines are left. A claim holds one of each that it lists, for it may use any.
pub(crate) fn overused(snapshot: &Snapshot, plan: &Plan) -> Vec<Violation> {
    let mut holders: BTreeMap<&ReservationId, usize> = BTreeMap::new();
    for claim in &plan.claims {
        for id in claim.reservations.iter().collect::<BTreeSet<_>>() {
            *holders.entry(id).or_default() += 1;
        }
    }
    let mut found = Vec::new();
    for (id, claims) in holders {
        // A reservation that nobody sells is a fault of the claim that lists it.
        if let Some(left) = left(snapshot, id)
            && claims > left as usize
        {
            found.push(Violation::ReservationOverused { id: id.clone(), claims, left });
        }
    }
    found
}

/// Several offerings may speak of one reservation, and the least optimistic is believed.
fn left(snapshot: &Snapshot, id: &ReservationId) -> Option<u32> {
    let types = snapshot.pools.values().flat_map(|pool| &pool.instance_types);
    let reservations =
        types.flat_map(|instance| &instance.offerings).filter_map(|offering| offering.reservation.as_ref());
    reservations.filter(|reservation| reservation.id == *id).map(|reservation| reservation.left).min()
}
