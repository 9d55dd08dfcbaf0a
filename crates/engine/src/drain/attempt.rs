//! What to do about one pod that is to leave.

use std::time::Duration;

use model::drain::Guest;
use model::pod::{Life, Owner};
use model::time::Instant;

/// A kubelet that gets no time at all cannot even tell the containers.
const LEAST_GRACE: Duration = Duration::from_secs(1);

/// What an attempt to make a pod leave comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// Through the eviction API, which asks the disruption budgets.
    Evict,
    /// Outright, with what is left of its grace. Neither budgets nor the pod's own wish are asked.
    Delete { grace: Duration },
    /// It does not want to be disturbed, until then or for good.
    Hold { until: Option<Instant> },
    /// Nothing to do: it is leaving, has ended, or stays with the node.
    Forget,
}

/// What to do about a pod whose node is leaving.
pub fn next_attempt(guest: &Guest, deadline: Option<Instant>, now: Instant) -> Attempt {
    if guest.pod.life == Life::Terminal || guest.pod.owner == Owner::Node || guest.pod.tolerates_disruption() {
        return Attempt::Forget;
    }
    if let Some(deadline) = deadline.filter(|_| is_overdue(guest, deadline, now)) {
        let left = Duration::from_secs(deadline.since(now).as_secs());
        return Attempt::Delete { grace: left.max(LEAST_GRACE) };
    }
    match guest.pod.life {
        Life::Active if guest.pod.is_protected(now) => {
            let wakes = [protected_until(guest), overdue_at(guest, deadline)];
            Attempt::Hold { until: wakes.into_iter().flatten().min() }
        }
        Life::Active => Attempt::Evict,
        Life::Terminating | Life::Terminal => Attempt::Forget,
    }
}

/// Whether the pod must be deleted now to be gone by the deadline.
pub(super) fn is_overdue(guest: &Guest, deadline: Option<Instant>, now: Instant) -> bool {
    let Some(deadline) = deadline else { return false };
    match (guest.pod.life, guest.ends_by) {
        // With a second or less to go there is nothing left to shorten.
        (Life::Terminating, Some(end)) => end > deadline && end > now.plus(LEAST_GRACE),
        _ => overdue_at(guest, Some(deadline)).is_some_and(|moment| now >= moment),
    }
}

/// The last moment at which the pod still has all of its grace before the deadline.
pub fn overdue_at(guest: &Guest, deadline: Option<Instant>) -> Option<Instant> {
    let is_running = guest.pod.life != Life::Terminating;
    Some(deadline?.minus(guest.grace.filter(|_| is_running)?))
}

pub(super) fn protected_until(guest: &Guest) -> Option<Instant> {
    guest.pod.do_not_disrupt.until()
}
