//! The scheduler: kube-scheduler v1.36 with its default profile.
//!
//! It hears of objects in `heed`, keeps them as dense numbers on a board, and binds whom it can in `settle`, when a batch of changes
//! has been heard. Filters and scores are those of the judge, which a test holds them against; besides those it has
//! the spreading that kube-scheduler adds to pods of a service or a controller, preemption, and the hand-shake with volumes that wait
//! for a node. It knows no images, no devices, and no volumes that only one pod may use; static volumes are not matched to claims. Like
//! the original with a small cluster it looks at every node; unlike the original also with a large one.

mod attempt;
mod board;
mod claims;
mod class;
mod counters;
mod ground;
mod heed;
mod keys;
mod look;
mod lower;
mod numbered;
mod points;
mod preempt;
mod queue;
mod reasons;
mod tell;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use model::ids::{Namespace, NodeName, PodName};
use runtime::Rng;
use serde_json::Value;

use crate::apiserver::{ApiServer, At, Change};
use crate::standin::StandIn;
use board::{Board, Slot};
use class::ClassId;
use lower::{Around, Seen};
use queue::Queue;

/// The taint that says the same as `spec.unschedulable`.
const CORDON: &str = "node.kubernetes.io/unschedulable";

/// How the scheduler works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Pods that name another scheduler are left alone.
    pub scheduler_name: String,
    /// How long one attempt takes. A real one takes some milliseconds.
    pub per_pod: Duration,
    pub back_off: Duration,
    pub back_off_most: Duration,
    /// Whether a pod that a change may help is tried at once when nobody else waits, as v1.33 and later do; otherwise it
    /// waits until its back-off is over.
    pub pops_early: bool,
    /// When a pod that nothing has helped is tried again.
    pub flush_after: Duration,
    /// How long volumes may take after a node was chosen for them.
    pub volume_patience: Duration,
    /// Whether a message is written again when nothing but its numbers has changed. The original does; thousands of waiting pods
    /// would be rewritten with every node that comes.
    pub tells_every_number: bool,
    /// Whether `Scheduled` and `FailedScheduling` are told as events. They cost memory.
    pub writes_events: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            scheduler_name: "default-scheduler".to_owned(),
            per_pod: Duration::ZERO,
            back_off: Duration::from_secs(1),
            back_off_most: Duration::from_secs(10),
            pops_early: true,
            flush_after: Duration::from_secs(300),
            volume_patience: Duration::from_secs(600),
            tells_every_number: false,
            writes_events: false,
        }
    }
}

/// The scheduler.
pub struct Binder {
    settings: Settings,
    rng: Rng,
    board: Board,
    around: Around,
    queue: Queue,
    pods: BTreeMap<PodName, Known>,
    /// Pods by the claims that they use.
    by_claim: BTreeMap<(Namespace, Arc<str>), BTreeSet<PodName>>,
    budgets: BTreeMap<At, Arc<Value>>,
    /// For whom others were asked to leave, and from which node.
    nominees: BTreeMap<PodName, NodeName>,
    /// Who waits for volumes on a chosen node, and since when.
    volume_waits: BTreeMap<PodName, (NodeName, Timestamp)>,
    /// Slots where there may be more room than before.
    relieved: BTreeSet<Slot>,
    /// The same, of the present run.
    recent: BTreeSet<Slot>,
    /// Pods that are made for one node and wait for it.
    pinned_waits: BTreeMap<NodeName, BTreeSet<PodName>>,
    /// Up to which of the board's changes it is known whom they may help.
    considered: u64,
    busy_until: Timestamp,
}

/// A pod that matters to the scheduler.
struct Known {
    uid: String,
    seen: Seen,
    class: ClassId,
    /// What its condition says, as a hash of the kinds of reasons.
    told: Option<u64>,
}

impl Binder {
    pub fn new(settings: Settings, rng: &Rng) -> Self {
        Self {
            settings,
            rng: rng.fork("binder"),
            board: Board::default(),
            around: Around::new(),
            queue: Queue::default(),
            pods: BTreeMap::new(),
            by_claim: BTreeMap::new(),
            budgets: BTreeMap::new(),
            nominees: BTreeMap::new(),
            volume_waits: BTreeMap::new(),
            relieved: BTreeSet::new(),
            recent: BTreeSet::new(),
            pinned_waits: BTreeMap::new(),
            considered: 0,
            busy_until: Timestamp::UNIX_EPOCH,
        }
    }

    /// Tries whoever may find a place now.
    fn run(&mut self, now: Timestamp, server: &ApiServer) {
        self.give_up_volumes(now, server);
        self.queue.catch_up(now);
        loop {
            self.wake_by_changes(now);
            if !self.queue.has_turn() {
                self.recent.clear();
                return;
            }
            if self.busy_until > now {
                return;
            }
            while let Some((pod, woken)) = self.queue.pop() {
                if woken.is_some_and(|class| !self.may_succeed(class)) {
                    continue;
                }
                self.queue.take_out(&pod);
                self.attempt(&pod, now, server);
                if !self.settings.per_pod.is_zero() {
                    self.busy_until = later(now, self.settings.per_pod);
                    return;
                }
            }
        }
    }

    /// Whether one of the nodes that a class was woken for still has room; others may have been quicker. A class for which none has
    /// sleeps on, untried.
    fn may_succeed(&mut self, class: ClassId) -> bool {
        self.queue.minds_others(class) || self.recent.iter().any(|slot| self.board.is_open(class, *slot))
    }

    /// Wakes the classes that a change may have helped. For most, only nodes with more room than before can matter; whoever minds
    /// other pods may be helped by any change.
    fn wake_by_changes(&mut self, now: Timestamp) {
        let has_changed = self.board.changes != self.considered;
        self.considered = self.board.changes;
        let relieved = std::mem::take(&mut self.relieved);
        self.recent.extend(relieved.iter().copied());
        if !has_changed {
            return;
        }
        // Who minds nobody is helped by room alone. Whoever came to be shunned since then is woken by room too, and learns it then.
        let asleep = if relieved.is_empty() { self.queue.asleep_minding() } else { self.queue.asleep() };
        for class in asleep {
            let may_help =
                self.queue.minds_others(class) || relieved.iter().any(|slot| self.board.is_open(class, *slot));
            if may_help {
                self.wake_class(class, now);
            }
        }
        let is_relieved = |node: &NodeName| self.board.slot_of(node).is_none_or(|slot| relieved.contains(&slot));
        let mut hurried: Vec<PodName> =
            self.nominees.iter().filter(|(_, node)| is_relieved(node)).map(|(pod, _)| pod.clone()).collect();
        for seat in relieved.iter().filter_map(|slot| self.board.seat_at(*slot)) {
            hurried.extend(self.pinned_waits.remove(&seat.name).into_iter().flatten());
        }
        hurried.iter().for_each(|pod| self.queue.hurry(pod));
    }

    fn wake_class(&mut self, class: ClassId, now: Timestamp) {
        if self.settings.pops_early {
            self.queue.wake(class);
        } else {
            let (first, most) = (self.settings.back_off, self.settings.back_off_most);
            self.queue.wake_backing_off(class, now, |attempts| back_off(first, most, attempts));
        }
    }
}

impl StandIn for Binder {
    fn name(&self) -> &'static str {
        "scheduler"
    }

    fn heed(&mut self, change: &Change, server: &ApiServer) {
        self.heed_change(change, server);
    }

    fn settle(&mut self, server: &ApiServer) {
        self.run(server.now(), server);
    }

    fn next(&self) -> Option<Timestamp> {
        let patience = self.settings.volume_patience;
        let volumes = self.volume_waits.values().map(|(_, since)| later(*since, patience)).min();
        let turn = self.queue.has_turn().then_some(self.busy_until);
        self.queue.next().into_iter().chain(volumes).chain(turn).min()
    }

    fn wake(&mut self, now: Timestamp, server: &ApiServer) {
        self.run(now, server);
    }
}

/// Doubles with each attempt.
fn back_off(first: Duration, most: Duration, attempts: u32) -> Duration {
    first.saturating_mul(1_u32.checked_shl(attempts.saturating_sub(1)).unwrap_or(u32::MAX)).min(most)
}

fn later(time: Timestamp, duration: Duration) -> Timestamp {
    time.checked_add(duration).unwrap_or(Timestamp::MAX)
}

/// The part of an object at a path such as `/spec/nodeName`. Unlike a JSON pointer it knows no escapes, and costs nothing for them.
fn part<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('/').skip(1).try_fold(object, |inside, key| inside.get(key))
}

/// The text at a path; empty where there is none.
fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    part(object, path).and_then(Value::as_str).unwrap_or_default()
}

fn at(pod: &PodName) -> At {
    At { namespace: pod.namespace.shared(), name: pod.name.clone() }
}
