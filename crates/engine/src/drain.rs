//! Which pods leave a node now, and what a node that is leaving needs next.
//!
//! ```text
//! Drain, tier by tier ─▶ Linger ─▶ AwaitVolumes ─▶ Terminate
//! ```
//!
//! Pods leave in four tiers, in the order in which a kubelet ends them at a shutdown. With a deadline, each pod is deleted
//! outright early enough to have its own grace before it, whatever its tier: the deadline is absolute.

mod attempt;
mod blocker;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::drain::{Attached, Guest};
use model::ids::{PodName, Uid};
use model::pod::{Life, Owner};
use model::time::Instant;

pub use attempt::{Attempt, next_attempt, overdue_at};
pub use blocker::{Blocker, Cause, blocker};

/// A pod that has not ended this long after it should have is given up: its kubelet is gone, or a finalizer holds it.
const STUCK_AFTER: Duration = Duration::from_secs(60);
/// Pods that were bound just before the scheduler saw the taint are caught in this time.
const LINGER: Duration = Duration::from_secs(5);

/// A node that is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    pub guests: Vec<Guest>,
    /// Pods of which nobody knows more than that they are there.
    pub unread: Vec<PodName>,
    pub attached: Vec<Attached>,
    /// Pods that were to be evicted and that the API server did not let go when it was last asked.
    pub refused: BTreeMap<Order, Refusal>,
    /// When the drain must be over.
    pub deadline: Option<Instant>,
    /// Since when its claim says that it is being drained; `None` without a claim.
    pub draining_since: Option<Instant>,
}

/// The next thing for a node that is leaving.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeStep {
    Drain(Drain),
    /// Nobody is left. Stay a moment for pods that were already on their way.
    Linger {
        until: Instant,
    },
    /// These VolumeAttachments are still there.
    AwaitVolumes {
        attachments: Vec<Arc<str>>,
        until: Option<Instant>,
    },
    Terminate {
        volumes: Volumes,
    },
}

/// How the wait for volumes ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Volumes {
    Detached,
    /// The deadline passed first.
    GivenUp,
}

/// What a drain does now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drain {
    /// Pods to evict or to delete, those past their time first.
    pub orders: Vec<Order>,
    /// Everybody who is waited for, and why they are still there.
    pub waiting: Vec<(PodName, Holdup)>,
    /// When time alone will have changed something.
    pub until: Option<Instant>,
}

/// One pod that is to go; a new pod of the same name is not meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Order {
    pub pod: PodName,
    pub uid: Uid,
}

/// Why the API server does not let a pod go now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Budget,
    SeveralBudgets,
}

/// Why a pod is still on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holdup {
    /// Told to end.
    Ending,
    /// Told to end, and still there when its time was over: a finalizer holds it, or its kubelet is gone.
    Stuck,
    /// To be deleted, whatever protects it.
    Overdue,
    /// To be evicted.
    Queued,
    /// To be evicted, and the API server did not allow it.
    Refused(Refusal),
    /// It does not want to be disturbed, until then or for good.
    Protected(Option<Instant>),
    /// Others go first.
    LaterTier,
    /// Nobody can read it, so nobody knows whether it may go.
    Unread,
}

/// The pods that are to leave now.
pub fn next_evictions(guests: &[Guest], deadline: Option<Instant>, now: Instant) -> Drain {
    let waiting: Vec<&Guest> = guests.iter().filter(|guest| is_waited_for(guest, now)).collect();
    let is_overdue = |guest: &&Guest| attempt::is_overdue(guest, deadline, now);
    let tier = waiting.iter().filter(|guest| !is_overdue(guest)).map(|guest| tier(guest)).min();
    let mut drain = Drain::default();
    let mut in_tier = Vec::new();
    for guest in &waiting {
        let holdup = if is_overdue(guest) {
            drain.orders.push(order(guest));
            Holdup::Overdue
        } else if Some(self::tier(guest)) == tier {
            in_tier.push(order(guest));
            holdup(guest, now)
        } else {
            Holdup::LaterTier
        };
        drain.waiting.push((guest.pod.name.clone(), holdup));
    }
    drain.orders.extend(in_tier);
    drain.until = waiting.iter().filter_map(|guest| next_change(guest, deadline, now)).min();
    drain
}

/// What the node needs next.
pub fn next_step(node: &Leaving, now: Instant) -> NodeStep {
    let is_over = node.deadline.is_some_and(|deadline| now >= deadline);
    let mut drain = next_evictions(&node.guests, node.deadline, now);
    drain.note_refusals(&node.refused);
    drain.waiting.extend(node.unread.iter().filter(|_| !is_over).map(|pod| (pod.clone(), Holdup::Unread)));
    if !drain.waiting.is_empty() {
        return NodeStep::Drain(drain);
    }
    if let Some(until) = node.draining_since.map(|since| since.plus(LINGER)).filter(|until| now < *until) {
        return NodeStep::Linger { until };
    }
    let attachments = undetached(node, now);
    match (attachments.is_empty(), is_over) {
        (true, _) => NodeStep::Terminate { volumes: Volumes::Detached },
        (false, true) => NodeStep::Terminate { volumes: Volumes::GivenUp },
        (false, false) => NodeStep::AwaitVolumes { attachments, until: node.deadline },
    }
}

impl Drain {
    /// Who is to be evicted was perhaps refused already.
    fn note_refusals(&mut self, refused: &BTreeMap<Order, Refusal>) {
        for (order, refusal) in refused.iter().filter(|(order, _)| self.orders.contains(order)) {
            let queued = |(pod, holdup): &&mut (PodName, Holdup)| *pod == order.pod && *holdup == Holdup::Queued;
            if let Some((_, holdup)) = self.waiting.iter_mut().find(queued) {
                *holdup = Holdup::Refused(*refusal);
            }
        }
    }
}

/// Whether the pod leaves with its node at all. Those that do not are the node's own, put up with it, or will never end.
fn is_drainable(guest: &Guest, now: Instant) -> bool {
    let is_stuck =
        guest.pod.life == Life::Terminating && guest.ends_by.is_some_and(|end| now.since(end) >= STUCK_AFTER);
    !guest.pod.tolerates_disruption() && guest.pod.owner != Owner::Node && !is_stuck
}

fn is_waited_for(guest: &Guest, now: Instant) -> bool {
    guest.pod.life != Life::Terminal && is_drainable(guest, now)
}

/// The order in which pods leave: ordinary ones before critical ones, and daemons after those that they serve.
fn tier(guest: &Guest) -> (bool, bool) {
    (guest.is_critical, guest.pod.owner == Owner::DaemonSet)
}

fn order(guest: &Guest) -> Order {
    Order { pod: guest.pod.name.clone(), uid: guest.pod.uid.clone() }
}

fn holdup(guest: &Guest, now: Instant) -> Holdup {
    match guest.pod.life {
        Life::Terminating if guest.ends_by.is_some_and(|end| now > end) => Holdup::Stuck,
        Life::Terminating | Life::Terminal => Holdup::Ending,
        Life::Active if guest.pod.is_protected(now) => Holdup::Protected(attempt::protected_until(guest)),
        Life::Active => Holdup::Queued,
    }
}

/// When the pod's standing changes without anybody touching it.
fn next_change(guest: &Guest, deadline: Option<Instant>, now: Instant) -> Option<Instant> {
    let given_up = guest.ends_by.filter(|_| guest.pod.life == Life::Terminating).map(|end| end.plus(STUCK_AFTER));
    let moments = [given_up, attempt::overdue_at(guest, deadline), attempt::protected_until(guest)];
    moments.into_iter().flatten().filter(|moment| *moment > now).min()
}

/// Attachments that somebody will still take off: not those of pods that stay, and not those without a volume of their own.
fn undetached(node: &Leaving, now: Instant) -> Vec<Arc<str>> {
    let stays =
        |volume: &Arc<str>| node.guests.iter().any(|guest| guest.volumes.contains(volume) && !is_drainable(guest, now));
    let counts = |attached: &&Attached| attached.volume.as_ref().is_some_and(|volume| !stays(volume));
    node.attached.iter().filter(counts).map(|attached| attached.name.clone()).collect()
}
