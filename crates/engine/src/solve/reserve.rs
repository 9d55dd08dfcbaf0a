//! Reserved capacity: machines that are paid for already, and only so many of them.
//!
//! A claim holds one machine of every reservation that it could still use, because nobody knows yet which one the cloud
//! will take. What it can no longer use it gives back. While reserved machines are all spoken for, a pod that could use
//! them waits for the next pass instead of buying elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use model::ids::ReservationId;

use super::bits::Bits;
use super::machines::Machines;
use super::world::World;

/// How many machines of each reservation nobody holds yet.
pub(crate) struct Reservations {
    left: BTreeMap<ReservationId, u32>,
}

/// Reserved machines suit, but all of them are spoken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AllHeld;

impl Reservations {
    /// A reservation that several types or pools offer is one; the least that any of them says is left counts.
    pub(crate) fn new(world: &World<'_>) -> Self {
        let mut left: BTreeMap<ReservationId, u32> = BTreeMap::new();
        let sales = world.machines.all.iter().flat_map(|machine| &machine.sales);
        for reservation in sales.filter_map(|sale| sale.offering.reservation.as_ref()) {
            let least = left.entry(reservation.id.clone()).or_insert(reservation.left);
            *least = (*least).min(reservation.left);
        }
        Self { left }
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
    suited.filter_map(|sale| Some(sale.offering.reservation.as_ref()?.id.clone())).collect()
}
