//! Reserved capacity: machines that are paid for already, and only so many of them.
//!
//! A claim holds one machine of every reservation that it could still use, because nobody knows yet which one the cloud
//! will take. What it can no longer use it gives back. While reserved machines are all spoken for, a pod that could use
//! them waits for the next pass instead of buying elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use model::ids::{NodeName, ReservationId};
use model::instance::{CapacityType, Offering};
use model::labels::{CAPACITY_TYPE, WellKnown};
use model::node::{Node, Progress};
use model::requirements::{Requirement, Undefined};
use model::snapshot::Snapshot;

use super::bits::Bits;
use super::machines::Machines;
use super::world::present;

/// How many machines of each reservation nobody holds yet.
#[derive(Clone)]
pub(crate) struct Reservations {
    left: BTreeMap<ReservationId, u32>,
}

/// Reserved machines suit, but all of them are spoken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AllHeld;

impl Reservations {
    /// Of what offerings say is left, claims of earlier plans that can only be bought reserved hold theirs still. What has
    /// nothing left is as if it were not offered.
    pub(crate) fn new(snapshot: &Snapshot, reserved: &BTreeMap<ReservationId, u32>, gone: &BTreeSet<NodeName>) -> Self {
        let mut left = if snapshot.policy.uses_reservations { reserved.clone() } else { BTreeMap::new() };
        if left.is_empty() {
            return Self { left };
        }
        let waiting = present(snapshot, gone).filter(|node| !node.is_leaving);
        for id in waiting.flat_map(|node| awaited(node, &snapshot.well_known)) {
            left.entry(id).and_modify(|left| *left = left.saturating_sub(1));
        }
        left.retain(|_, left| *left > 0);
        Self { left }
    }

    /// Whether an offering can be bought at all: it is not reserved, or its reservation had something left.
    pub(crate) fn has_stock(&self, offering: &Offering) -> bool {
        offering.reservation.as_ref().is_none_or(|reservation| self.left.contains_key(&reservation.id))
    }

    /// The reservations that had something left.
    pub(crate) fn stocked(&self) -> BTreeSet<ReservationId> {
        self.left.keys().cloned().collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// What a claim that holds so much would hold with these machines and shapes of offerings.
    pub(crate) fn holdings(
        &self,
        machines: &Machines<'_>,
        before: &BTreeSet<ReservationId>,
        kept: &Bits,
        shapes: &Bits,
    ) -> Result<BTreeSet<ReservationId>, AllHeld> {
        let suited = usable(machines, kept, shapes);
        let can_hold = |id: &&ReservationId| before.contains(*id) || self.left.get(*id).is_some_and(|left| *left > 0);
        let held: BTreeSet<ReservationId> = suited.iter().filter(can_hold).cloned().collect();
        let loses_last = !before.is_empty() && held.is_empty();
        if (!suited.is_empty() && held.is_empty()) || loses_last { Err(AllHeld) } else { Ok(held) }
    }

    /// Takes what a claim holds now and gives back what it held before.
    pub(crate) fn exchange(&mut self, before: &BTreeSet<ReservationId>, after: &BTreeSet<ReservationId>) {
        if before == after {
            return;
        }
        for id in before.difference(after) {
            if let Some(left) = self.left.get_mut(id) {
                *left += 1;
            }
        }
        for id in after.difference(before) {
            if let Some(left) = self.left.get_mut(id) {
                *left = left.saturating_sub(1);
            }
        }
    }
}

/// Reservations that some of these machines are sold from in these shapes.
fn usable(machines: &Machines<'_>, kept: &Bits, shapes: &Bits) -> BTreeSet<ReservationId> {
    let sales = kept.iter().flat_map(|machine| &machines.all[machine].sales);
    let suited = sales.filter(|sale| shapes.contains(sale.shape));
    suited.filter_map(|sale| sale.reservation.clone()).collect()
}

/// Reservations that a machine which was asked for, and can only be bought reserved, may come from.
fn awaited(node: &Node, well_known: &WellKnown) -> BTreeSet<ReservationId> {
    let Progress::Unlaunched { types, requirements } = &node.progress else { return BTreeSet::new() };
    let reserved = CapacityType::Reserved.as_str();
    let kinds = requirements.get(CAPACITY_TYPE).and_then(Requirement::listed);
    if !kinds.is_some_and(|kinds| kinds.iter().all(|kind| **kind == *reserved)) {
        return BTreeSet::new();
    }
    let undefined = Undefined::OpenIfWellKnown(well_known);
    let suits = |way: &&Offering| requirements.clash(&way.requirements, undefined).is_none();
    let ways = types.iter().flat_map(|offered| &offered.offerings).filter(suits);
    ways.filter_map(|way| Some(way.reservation.as_ref()?.id.clone())).collect()
}
