//! Looking for a place: which nodes a class of pods may be on now.

use model::pod::HostPort;
use model::resources::Resources;

use super::board::{Board, Facts, Seat, Slot};
use super::class::{Asks, Class, ClassId, Heard};
use super::ground::Spot;
use super::keys::{KeyId, Keys, NOWHERE};
use super::points::node_points;
use super::reasons::Refusal;

/// Most classes that keep a table. A table costs 16 bytes for each node, and classes of one pod would fill the memory.
const MOST_TABLES: usize = 512;

/// What each node is to a class, as far as its own pods decide it.
#[derive(Default)]
pub(super) struct Table {
    position: u64,
    pub(super) cells: Vec<Cell>,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Cell {
    pub(super) refusal: Option<Refusal>,
    /// Points for room and balance.
    pub(super) points: i64,
}

/// The answer.
pub(super) struct Look {
    /// Slots in order.
    pub(super) feasible: Vec<Slot>,
    others: Others,
}

/// What standing pods mean for a class, by domain.
#[derive(Default)]
struct Others {
    /// The key, and of each domain whether one more is one too many.
    spreads: Vec<(KeyId, Vec<bool>)>,
    /// The key, and of each domain whether a partner is there.
    together: Vec<(KeyId, Vec<bool>)>,
    apart: Vec<(KeyId, Vec<bool>)>,
    shunning: Vec<(KeyId, Vec<bool>)>,
}

impl Board {
    /// Where a pod of the class may be.
    pub(super) fn look(&mut self, class: ClassId) -> Look {
        self.refresh_table(class);
        let others = self.others(class);
        let cells = self.class(class).table.as_ref().map_or(&[][..], |table| &table.cells);
        let open = cells.iter().enumerate().filter(|(_, cell)| cell.refusal.is_none()).map(|(slot, _)| slot);
        let feasible = open.filter(|slot| others.refusal(&self.keys, *slot).is_none()).collect();
        Look { feasible, others }
    }

    /// Whether a pod of the class may be on one node, if nobody elsewhere matters to it.
    pub(super) fn is_open(&mut self, class: ClassId, slot: Slot) -> bool {
        let ground = self.refresh_ground(class);
        let spot = self.grounds.spots(ground).get(slot).copied().unwrap_or_default();
        let Some(seat) = self.seat_at(slot) else { return false };
        seat.facts.as_ref().is_some_and(|facts| refusal(self.class(class), &spot, seat, facts).is_none())
    }

    /// Whether other pods decide where pods of the class may be, by what it asks or by what they do.
    pub(super) fn minds_others(&mut self, class: ClassId) -> bool {
        self.asks(class).is_about_others() || !self.heard(class).shunning.is_empty()
    }

    /// The first rule that keeps the class off a node, as of the look.
    pub(super) fn refusal(&self, class: ClassId, look: &Look, slot: Slot) -> Option<Refusal> {
        let cell = self.class(class).table.as_ref()?.cells.get(slot)?;
        cell.refusal.or_else(|| look.others.refusal(&self.keys, slot))
    }

    fn refresh_table(&mut self, class: ClassId) {
        let ground = self.refresh_ground(class);
        self.remember_table(class);
        let mut table = self.classes.get_mut(class).table.take().unwrap_or_default();
        table.cells.resize(self.seats.len(), Cell { refusal: Some(Refusal::Absent), points: 0 });
        let (spots, looking) = (self.grounds.spots(ground), self.class(class));
        let mut look = |slot: Slot| table.cells[slot] = cell(looking, &spots[slot], self.seats[slot].as_ref());
        match self.log.since(table.position).filter(|_| table.position > 0) {
            Some(changed) => changed.for_each(&mut look),
            None => (0..self.seats.len()).for_each(&mut look),
        }
        table.position = self.log.end();
        self.classes.get_mut(class).table = Some(table);
    }

    /// Keeps the tables that were used last.
    fn remember_table(&mut self, class: ClassId) {
        if self.classes.with_table.last() == Some(&class) {
            return;
        }
        self.classes.with_table.retain(|other| *other != class);
        if self.classes.with_table.len() >= MOST_TABLES {
            let oldest = self.classes.with_table.remove(0);
            self.classes.get_mut(oldest).table = None;
        }
        self.classes.with_table.push(class);
    }

    fn others(&mut self, class: ClassId) -> Others {
        let (asks, heard) = (self.asks(class), self.heard(class));
        if !asks.is_about_others() && heard.shunning.is_empty() {
            return Others::default();
        }
        Others {
            spreads: self.crowded(class, &asks),
            together: self.partners(&asks),
            apart: asks.apart.iter().map(|(counter, key)| (*key, self.occupied(*counter, *key))).collect(),
            shunning: self.shunned(&heard),
        }
    }

    fn shunned(&self, heard: &Heard) -> Vec<(KeyId, Vec<bool>)> {
        heard.shunning.iter().map(|(counter, key)| (*key, self.occupied(*counter, *key))).collect()
    }

    /// Domains with at least one of the counted pods.
    fn occupied(&self, counter: usize, key: KeyId) -> Vec<bool> {
        let mut occupied = vec![false; self.keys.bound(key)];
        for (count, domain) in self.counters.by_slot(counter).iter().zip(self.keys.by_slot(key)) {
            if *count > 0 && *domain != NOWHERE {
                occupied[*domain as usize] = true;
            }
        }
        occupied
    }

    /// All terms must be met. A pod that matches its own terms may be the first of its kind, where no partner is anywhere.
    fn partners(&self, asks: &Asks) -> Vec<(KeyId, Vec<bool>)> {
        let Some(together) = &asks.together else { return Vec::new() };
        let mut partners: Vec<(KeyId, Vec<bool>)> =
            together.keys.iter().map(|key| (*key, self.occupied(together.counter, *key))).collect();
        let is_lonely = partners.iter().all(|(_, domains)| domains.iter().all(|occupied| !occupied));
        if is_lonely && together.matches_itself {
            partners.iter_mut().for_each(|(_, domains)| domains.fill(true));
        }
        partners
    }

    /// Of each hard spread the domains that one more pod would put too far ahead of the emptiest.
    fn crowded(&self, class: ClassId, asks: &Asks) -> Vec<(KeyId, Vec<bool>)> {
        let spots = self.class(class).ground.map_or(&[][..], |ground| self.grounds.spots(ground));
        let crowded = asks.hard.iter().map(|asked| {
            let counts = self.domain_counts(asked.counter, asked.key, asked.place, spots);
            let present = counts.iter().flatten();
            let wanted_domains = usize::try_from(asked.min_domains.unwrap_or(1)).unwrap_or(0);
            let has_enough = present.clone().count() >= wanted_domains;
            let least = if has_enough { present.min().copied().unwrap_or(0) } else { 0 };
            let most = least + i64::from(asked.max_skew) - asked.adds;
            (asked.key, counts.into_iter().map(|count| count.unwrap_or(0) > most).collect())
        });
        crowded.collect()
    }

    /// How many counted pods stand in each domain, on nodes that the spread counts. Domains without such a node are `None`.
    pub(super) fn domain_counts(&self, counter: usize, key: KeyId, place: usize, spots: &[Spot]) -> Vec<Option<i64>> {
        let mut counts = vec![None; self.keys.bound(key)];
        let by_slot = self.counters.by_slot(counter);
        let bit = 1_u64 << place.min(63);
        for (slot, (spot, domain)) in spots.iter().zip(self.keys.by_slot(key)).enumerate() {
            if spot.partakes & bit != 0 && *domain != NOWHERE {
                let count = by_slot.get(slot).copied().unwrap_or(0);
                *counts[*domain as usize].get_or_insert(0) += i64::from(count);
            }
        }
        counts
    }
}

impl Others {
    fn refusal(&self, keys: &Keys, slot: Slot) -> Option<Refusal> {
        let holds = |(key, domains): &(KeyId, Vec<bool>)| {
            let domain = keys.domain(*key, slot);
            domains.get(domain as usize).copied().unwrap_or(false)
        };
        for spread in &self.spreads {
            if keys.domain(spread.0, slot) == NOWHERE {
                return Some(Refusal::SpreadLabel);
            }
            if holds(spread) {
                return Some(Refusal::Spread);
            }
        }
        if !self.together.iter().all(holds) {
            return Some(Refusal::Affinity);
        }
        // A node without the label is near nobody.
        if self.apart.iter().any(holds) {
            return Some(Refusal::AntiAffinity);
        }
        self.shunning.iter().any(holds).then_some(Refusal::ExistingAntiAffinity)
    }
}

fn cell(class: &Class, spot: &Spot, seat: Option<&Seat>) -> Cell {
    let Some((seat, facts)) = seat.and_then(|seat| Some((seat, seat.facts.as_ref()?))) else {
        return Cell { refusal: Some(Refusal::Absent), points: 0 };
    };
    match refusal(class, spot, seat, facts) {
        None => Cell { refusal: None, points: node_points(class, seat, facts) },
        refused => Cell { refusal: refused, points: 0 },
    }
}

/// The rules that only the node itself and its own pods matter to.
fn refusal(class: &Class, spot: &Spot, seat: &Seat, facts: &Facts) -> Option<Refusal> {
    if spot.refusal.is_some() {
        return spot.refusal;
    }
    let wants = &class.sample.wants;
    if !wants.ports.is_empty() && has_port_conflict(&wants.ports, seat) {
        return Some(Refusal::Ports);
    }
    if !fits(class, &facts.allocatable, &seat.used) {
        return Some(Refusal::Resources);
    }
    if !wants.volumes.attached.is_empty() && has_too_many_volumes(class, seat, facts) {
        return Some(Refusal::Attachments);
    }
    (!spot.is_reachable).then_some(Refusal::VolumePlace)
}

/// Only what the pod asks for is looked at, so that a pod that asks for nothing fits on a node whose books are overdrawn.
fn fits(class: &Class, allocatable: &Resources, used: &Resources) -> bool {
    let requests = &class.sample.requests;
    let has_room = |wanted: i64, allocatable: i64, used: i64| wanted <= 0 || wanted <= allocatable.saturating_sub(used);
    has_room(requests.cpu_milli, allocatable.cpu_milli, used.cpu_milli)
        && has_room(requests.memory_bytes, allocatable.memory_bytes, used.memory_bytes)
        && has_room(requests.disk_bytes, allocatable.disk_bytes, used.disk_bytes)
        && has_room(requests.pods.max(1), allocatable.pods, used.pods)
        && class.extended.iter().all(|(axis, wanted)| has_room(*wanted, allocatable.get(axis), used.get(axis)))
}

fn has_port_conflict(wanted: &[HostPort], seat: &Seat) -> bool {
    let mut held = seat.pods.values().flat_map(|standing| &standing.pod.wants.ports);
    held.any(|port| wanted.iter().any(|wanted| is_conflict(wanted, port)))
}

/// To kube-scheduler only an empty address and 0.0.0.0 mean every address; `::` is an address like any other.
fn is_conflict(a: &HostPort, b: &HostPort) -> bool {
    let is_every = |port: &HostPort| port.ip.is_empty() || *port.ip == *"0.0.0.0";
    a.port == b.port && a.protocol == b.protocol && (a.ip == b.ip || is_every(a) || is_every(b))
}

/// A volume that is attached already takes no further place, even where the node holds too many.
fn has_too_many_volumes(class: &Class, seat: &Seat, facts: &Facts) -> bool {
    class.sample.wants.volumes.attached.iter().any(|(driver, volumes)| {
        let Some(limit) = facts.attach_limits.get(driver) else { return false };
        let attached = seat.pods.values().filter_map(|standing| standing.pod.wants.volumes.attached.get(driver));
        let held: std::collections::BTreeSet<_> = attached.flatten().collect();
        let added = volumes.iter().filter(|volume| !held.contains(volume)).count();
        added > 0 && held.len() + added > *limit as usize
    })
}
