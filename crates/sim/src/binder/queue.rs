//! Who is tried next.
//!
//! ```text
//! arrives ──► active ──tried──► bound
//!               ▲  ▲      └───► parked with its class ──a place may have opened──► tried again, one by one, until one fails
//!               │  └─────────── later: waits for its own moment (after an error, for victims, for volumes)
//! ```
//!
//! kube-scheduler moves every pod by itself. Pods of one class find the same answer, so here the first of a class is tried for all
//! of them, and whoever was tried goes to the end of its class. What differs: a pod that was not tried itself keeps the words of its
//! last attempt.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use model::ids::{Namespace, PodName};

use super::class::ClassId;

/// Most important first, then who came first.
type Turn = (Reverse<i32>, u64);

#[derive(Default)]
pub(super) struct Queue {
    waiting: BTreeMap<PodName, Waiting>,
    active: BTreeMap<Turn, PodName>,
    parked: BTreeMap<ClassId, Parked>,
    /// The first pod of each class that is awake.
    heads: BTreeMap<Turn, ClassId>,
    later: BTreeSet<(Timestamp, PodName)>,
    /// Parked classes to which it matters where other pods are.
    minding: BTreeSet<ClassId>,
    /// When each parked class is tried again although nothing has happened.
    flushes: BTreeSet<(Timestamp, ClassId)>,
    turns: u64,
}

struct Waiting {
    turn: Turn,
    attempts: u32,
    tried: Timestamp,
    place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Active,
    Parked(ClassId),
    Later(Timestamp),
    /// It is being tried.
    Out,
}

#[derive(Default)]
struct Parked {
    pods: BTreeMap<Turn, PodName>,
    flush: Option<Timestamp>,
}

impl Queue {
    /// A pod that has not been tried yet, or is to be tried as if it had not.
    pub(super) fn enter(&mut self, pod: &PodName, priority: i32) {
        self.remove(pod);
        let turn = self.next_turn(priority);
        let waiting = Waiting { turn, attempts: 0, tried: Timestamp::UNIX_EPOCH, place: Place::Active };
        self.waiting.insert(pod.clone(), waiting);
        self.active.insert(turn, pod.clone());
    }

    /// Everybody of a namespace who has no place yet.
    pub(super) fn waiting_in(&self, namespace: &Namespace) -> Vec<PodName> {
        let first = PodName { namespace: namespace.clone(), name: "".into() };
        let after = self.waiting.range(first..).map(|(name, _)| name);
        after.take_while(|name| name.namespace == *namespace).cloned().collect()
    }

    pub(super) fn remove(&mut self, pod: &PodName) {
        self.take_out(pod);
        self.waiting.remove(pod);
    }

    /// Whose turn it is, and the class that was woken for it, if it is the first of one.
    pub(super) fn pop(&mut self) -> Option<(PodName, Option<ClassId>)> {
        let is_head_first = match (self.active.first_key_value(), self.heads.first_key_value()) {
            (Some((active, _)), Some((head, _))) => head < active,
            (active, _) => active.is_none(),
        };
        if is_head_first {
            let (turn, class) = self.heads.pop_first()?;
            let pod = self.parked.get(&class)?.pods.get(&turn)?.clone();
            return Some((pod, Some(class)));
        }
        let pod = self.active.first_key_value()?.1.clone();
        self.take_out(&pod);
        Some((pod, None))
    }

    /// It was tried and found no place.
    pub(super) fn park(
        &mut self,
        pod: &PodName,
        class: ClassId,
        minds_others: bool,
        (now, flush): (Timestamp, Timestamp),
    ) {
        let Some(turn) = self.tried(pod, now, Place::Parked(class)) else { return };
        if minds_others {
            self.minding.insert(class);
        } else {
            self.minding.remove(&class);
        }
        let parked = self.parked.entry(class).or_default();
        parked.pods.insert(turn, pod.clone());
        if let Some(before) = parked.flush.replace(flush) {
            self.flushes.remove(&(before, class));
        }
        self.flushes.insert((flush, class));
    }

    /// It was tried and waits for a moment of its own.
    pub(super) fn postpone(&mut self, pod: &PodName, now: Timestamp, until: Timestamp) {
        self.take_out(pod);
        if self.tried(pod, now, Place::Later(until)).is_some() {
            self.later.insert((until, pod.clone()));
        }
    }

    /// Its moment has come early.
    pub(super) fn hurry(&mut self, pod: &PodName) {
        let is_late = matches!(self.waiting.get(pod), Some(Waiting { place: Place::Later(_), .. }));
        if is_late {
            self.activate(pod);
        }
    }

    /// A pod of the class may find a place now.
    pub(super) fn wake(&mut self, class: ClassId) {
        let head = self.parked.get(&class).and_then(|parked| parked.pods.first_key_value());
        if let Some((turn, _)) = head {
            self.heads.insert(*turn, class);
        }
    }

    /// The first of the class is tried whatever may have helped it.
    pub(super) fn urge(&mut self, class: ClassId) {
        let head = self.parked.get(&class).and_then(|parked| parked.pods.first_key_value());
        if let Some(pod) = head.map(|(_, pod)| pod.clone()) {
            self.activate(&pod);
        }
    }

    /// Pods of the class may find a place now, but each waits until its back-off is over.
    pub(super) fn wake_backing_off(&mut self, class: ClassId, now: Timestamp, back_off: impl Fn(u32) -> Duration) {
        let pods: Vec<PodName> =
            self.parked.get(&class).into_iter().flat_map(|parked| parked.pods.values().cloned()).collect();
        for pod in pods {
            let Some(waiting) = self.waiting.get(&pod) else { continue };
            let due = waiting.tried.checked_add(back_off(waiting.attempts)).unwrap_or(Timestamp::MAX);
            if due <= now {
                self.activate(&pod);
            } else {
                self.take_out(&pod);
                self.later.insert((due, pod.clone()));
                self.set_place(&pod, Place::Later(due));
            }
        }
    }

    /// Parked classes to which it matters where other pods are, and that nobody has woken.
    pub(super) fn asleep_minding(&self) -> Vec<ClassId> {
        let head = |class: &ClassId| self.parked.get(class).and_then(|parked| parked.pods.first_key_value());
        let is_asleep = |class: &&ClassId| head(class).is_some_and(|(turn, _)| !self.heads.contains_key(turn));
        self.minding.iter().filter(is_asleep).copied().collect()
    }

    pub(super) fn minds_others(&self, class: ClassId) -> bool {
        self.minding.contains(&class)
    }

    /// Parked classes that nobody has woken.
    pub(super) fn asleep(&self) -> Vec<ClassId> {
        let is_asleep =
            |parked: &Parked| parked.pods.first_key_value().is_some_and(|(turn, _)| !self.heads.contains_key(turn));
        self.parked.iter().filter(|(_, parked)| is_asleep(parked)).map(|(class, _)| *class).collect()
    }

    /// Everybody whose moment has come.
    pub(super) fn catch_up(&mut self, now: Timestamp) {
        while let Some((due, pod)) = self.later.first().cloned()
            && due <= now
        {
            self.activate(&pod);
        }
        while let Some((due, class)) = self.flushes.first().copied()
            && due <= now
        {
            self.flushes.remove(&(due, class));
            if let Some(parked) = self.parked.get_mut(&class) {
                parked.flush = None;
            }
            self.urge(class);
        }
    }

    pub(super) fn has_turn(&self) -> bool {
        !self.active.is_empty() || !self.heads.is_empty()
    }

    /// The next moment at which somebody is to be tried again.
    pub(super) fn next(&self) -> Option<Timestamp> {
        let later = self.later.first().map(|(due, _)| *due);
        let flush = self.flushes.first().map(|(due, _)| *due);
        later.into_iter().chain(flush).min()
    }

    pub(super) fn has(&self, pod: &PodName) -> bool {
        self.waiting.contains_key(pod)
    }

    pub(super) fn attempts(&self, pod: &PodName) -> u32 {
        self.waiting.get(pod).map_or(0, |waiting| waiting.attempts)
    }

    fn next_turn(&mut self, priority: i32) -> Turn {
        self.turns += 1;
        (Reverse(priority), self.turns)
    }

    /// Counts the attempt and gives the pod a new turn; it goes behind those that came meanwhile.
    fn tried(&mut self, pod: &PodName, now: Timestamp, place: Place) -> Option<Turn> {
        let priority = self.waiting.get(pod)?.turn.0.0;
        let turn = self.next_turn(priority);
        let waiting = self.waiting.get_mut(pod)?;
        *waiting = Waiting { turn, attempts: waiting.attempts + 1, tried: now, place };
        Some(turn)
    }

    fn activate(&mut self, pod: &PodName) {
        self.take_out(pod);
        if let Some(waiting) = self.waiting.get_mut(pod) {
            waiting.place = Place::Active;
            self.active.insert(waiting.turn, pod.clone());
        }
    }

    fn set_place(&mut self, pod: &PodName, place: Place) {
        if let Some(waiting) = self.waiting.get_mut(pod) {
            waiting.place = place;
        }
    }

    /// A pod that is tried stands nowhere.
    pub(super) fn take_out(&mut self, pod: &PodName) {
        let Some(waiting) = self.waiting.get_mut(pod) else { return };
        let turn = waiting.turn;
        match std::mem::replace(&mut waiting.place, Place::Out) {
            Place::Active => drop(self.active.remove(&turn)),
            Place::Later(due) => drop(self.later.remove(&(due, pod.clone()))),
            Place::Out => {}
            Place::Parked(class) => {
                let was_head = self.heads.remove(&turn).is_some();
                let Some(parked) = self.parked.get_mut(&class) else { return };
                parked.pods.remove(&turn);
                if parked.pods.is_empty() {
                    if let Some(flush) = parked.flush {
                        self.flushes.remove(&(flush, class));
                    }
                    self.parked.remove(&class);
                    self.minding.remove(&class);
                } else if was_head {
                    self.wake(class);
                }
            }
        }
    }
}
