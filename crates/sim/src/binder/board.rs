//! The cluster as dense numbers: nodes in slots, pods that are alike in classes, and counts that follow every pod.
//!
//! The judge restates kube-scheduler's rules as plainly as can be and looks at everything for every pod. Here the same rules are
//! asked about thousands of pods on thousands of nodes, so what cannot have changed is not looked at again:
//!
//! ```text
//! Ground   per kind of demands on labels and taints    a node is looked at when its labels or taints change
//! Table    per class of equal pods                     a node is looked at when a pod came to it or left it
//! Counter  per selector or wish                        one number per node, changed with each pod
//! ```
//!
//! A test holds every answer against the judge's.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use model::ids::{NodeName, PodName};
use model::labels::Labels;
use model::pod::Pod;
use model::resources::Resources;
use model::taints::Taint;
use model::volume::AttachLimits;

use super::class::{Class, ClassId, Classes};
use super::counters::Counters;
use super::ground::Grounds;
use super::keys::Keys;
use super::points::counted;

pub(super) type Slot = usize;

/// What the scheduler knows of a node itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) labels: Labels,
    /// Taints that keep pods off, the one of a cordon included.
    pub(super) hard: Vec<Taint>,
    /// Taints that only cost points.
    pub(super) soft: Vec<Taint>,
    pub(super) is_cordoned: bool,
    pub(super) allocatable: Resources,
    pub(super) attach_limits: AttachLimits,
}

/// A place for a node and its pods. Pods may be told to be on a node before the node itself is heard of, or after it has gone.
pub(super) struct Seat {
    pub(super) name: NodeName,
    pub(super) facts: Option<Facts>,
    /// When the facts changed last.
    pub(super) version: u64,
    pub(super) pods: BTreeMap<PodName, Standing>,
    pub(super) used: Resources,
    /// Cpu and memory of its pods, where a pod that asks for nothing counts for something.
    pub(super) counted: [i64; 2],
}

#[derive(Clone)]
pub(super) struct Standing {
    pub(super) pod: Arc<Pod>,
    pub(super) class: ClassId,
}

#[derive(Default)]
pub(super) struct Board {
    pub(super) seats: Vec<Option<Seat>>,
    unused: Vec<Slot>,
    slots: BTreeMap<NodeName, Slot>,
    places: BTreeMap<PodName, Slot>,
    node_count: usize,
    pub(super) keys: Keys,
    pub(super) counters: Counters,
    pub(super) classes: Classes,
    pub(super) grounds: Grounds,
    pub(super) log: Log,
    /// How many standing pods have each priority: whether anybody could be preempted is asked often.
    priorities: BTreeMap<i32, usize>,
    versions: u64,
    /// Grows with every change.
    pub(super) changes: u64,
}

/// Which slots have changed, in order. Whoever read up to some position goes on from there.
#[derive(Default)]
pub(super) struct Log {
    start: u64,
    slots: VecDeque<u32>,
}

impl Log {
    const MOST: usize = 8192;

    pub(super) fn end(&self) -> u64 {
        self.start + self.slots.len() as u64
    }

    fn push(&mut self, slot: Slot) {
        self.slots.push_back(u32::try_from(slot).unwrap_or(u32::MAX));
        if self.slots.len() > Self::MOST {
            self.slots.pop_front();
            self.start += 1;
        }
    }

    /// What has changed since, with repetitions; `None` when it is not known any more and everything must be looked at.
    pub(super) fn since(&self, position: u64) -> Option<impl Iterator<Item = Slot> + '_> {
        let skipped = usize::try_from(position.checked_sub(self.start)?).ok()?;
        Some(self.slots.iter().skip(skipped).map(|slot| *slot as usize))
    }
}

impl Board {
    pub(super) fn node_count(&self) -> usize {
        self.node_count
    }

    pub(super) fn slot_of(&self, node: &NodeName) -> Option<Slot> {
        self.slots.get(node).copied()
    }

    pub(super) fn seat_at(&self, slot: Slot) -> Option<&Seat> {
        self.seats.get(slot)?.as_ref()
    }

    /// Seats with a node, in the order of slots.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (Slot, &Seat, &Facts)> {
        let seats = self.seats.iter().enumerate();
        seats.filter_map(|(slot, seat)| seat.as_ref().and_then(|seat| Some((slot, seat, seat.facts.as_ref()?))))
    }

    pub(super) fn slot_of_pod(&self, pod: &PodName) -> Option<Slot> {
        self.places.get(pod).copied()
    }

    /// Whether some standing pod matters less than this.
    pub(super) fn has_below(&self, priority: i32) -> bool {
        self.priorities.first_key_value().is_some_and(|(least, _)| *least < priority)
    }

    /// A node came or changed. Says where it is, unless nothing changed.
    pub(super) fn put_node(&mut self, name: &NodeName, facts: Facts) -> Option<Slot> {
        let slot = self.slot_for(name);
        self.versions += 1;
        let version = self.versions;
        let seat = self.seats[slot].as_mut()?;
        if seat.facts.as_ref() == Some(&facts) {
            return None;
        }
        self.node_count += usize::from(seat.facts.is_none());
        self.keys.put(slot, Some(&facts.labels));
        seat.facts = Some(facts);
        seat.version = version;
        self.changed(slot);
        Some(slot)
    }

    pub(super) fn remove_node(&mut self, name: &NodeName) {
        let Some(slot) = self.slot_of(name) else { return };
        self.versions += 1;
        let version = self.versions;
        if let Some(seat) = self.seats[slot].as_mut()
            && seat.facts.take().is_some()
        {
            seat.version = version;
            self.node_count -= 1;
            self.keys.put(slot, None);
            self.changed(slot);
        }
        self.free_if_empty(slot);
    }

    /// Puts a pod on a node, whether or not it may be there. It must stand nowhere.
    pub(super) fn seat(&mut self, pod: &Arc<Pod>, class: ClassId, node: &NodeName) -> Slot {
        let slot = self.slot_for(node);
        if let Some(seat) = self.seats[slot].as_mut() {
            seat.used = seat.used.plus(&with_place(&pod.requests));
            let [cpu, memory] = counted(&pod.requests);
            seat.counted = [seat.counted[0].saturating_add(cpu), seat.counted[1].saturating_add(memory)];
            seat.pods.insert(pod.name.clone(), Standing { pod: pod.clone(), class });
        }
        self.places.insert(pod.name.clone(), slot);
        *self.priorities.entry(pod.priority).or_default() += 1;
        self.count(class, slot, 1);
        self.changed(slot);
        slot
    }

    /// Takes a pod off its node; says where it stood.
    pub(super) fn lift(&mut self, pod: &PodName) -> Option<(Slot, Standing)> {
        let slot = self.places.remove(pod)?;
        let seat = self.seats[slot].as_mut()?;
        let gone = seat.pods.remove(pod)?;
        seat.used = seat.used.minus(&with_place(&gone.pod.requests));
        let [cpu, memory] = counted(&gone.pod.requests);
        seat.counted = [seat.counted[0].saturating_sub(cpu), seat.counted[1].saturating_sub(memory)];
        if let Some(others) = self.priorities.get_mut(&gone.pod.priority) {
            *others -= 1;
            if *others == 0 {
                self.priorities.remove(&gone.pod.priority);
            }
        }
        self.count(gone.class, slot, -1);
        self.changed(slot);
        self.free_if_empty(slot);
        Some((slot, gone))
    }

    pub(super) fn class(&self, class: ClassId) -> &Class {
        self.classes.get(class)
    }

    fn changed(&mut self, slot: Slot) {
        self.log.push(slot);
        self.changes += 1;
    }

    fn count(&mut self, class: ClassId, slot: Slot, change: i32) {
        for counter in &self.classes.get(class).adds {
            self.counters.add(*counter, slot, change);
        }
    }

    fn slot_for(&mut self, name: &NodeName) -> Slot {
        if let Some(slot) = self.slots.get(name) {
            return *slot;
        }
        self.versions += 1;
        let seat = Seat {
            name: name.clone(),
            facts: None,
            version: self.versions,
            pods: BTreeMap::new(),
            used: Resources::default(),
            counted: [0, 0],
        };
        let slot = self.unused.pop().unwrap_or(self.seats.len());
        if slot == self.seats.len() {
            self.seats.push(Some(seat));
        } else {
            self.seats[slot] = Some(seat);
        }
        self.slots.insert(name.clone(), slot);
        slot
    }

    fn free_if_empty(&mut self, slot: Slot) {
        let is_empty = self.seats[slot].as_ref().is_some_and(|seat| seat.facts.is_none() && seat.pods.is_empty());
        if is_empty && let Some(seat) = self.seats[slot].take() {
            self.slots.remove(&seat.name);
            self.unused.push(slot);
        }
    }
}

/// Requests with the pod's own place counted, whoever wrote them down.
fn with_place(requests: &Resources) -> Resources {
    let mut counted = requests.clone();
    counted.pods = counted.pods.max(1);
    counted
}
