//! Pods that are to leave their nodes. Each is tried again, later and later, until it is gone or its time is up.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cluster::Duty;
use engine::drain::{Attempt, Order, Refusal, next_attempt, overdue_at};
use model::drain::Guest;
use model::ids::NodeName;
use model::pod::DoNotDisrupt;
use model::time::Instant;
use runtime::{Backoff, Next};

use super::evict;
use crate::controller::{About, Controller, TickId};
use crate::ctx::{Ctx, timestamp};
use crate::error::ControllerError;
use crate::events;
use crate::settings::{Settings, Workers};

const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(10));

/// What is known of each pod that is to go. Shared by those who order and the one who carries out.
#[derive(Debug, Default)]
pub(crate) struct Evictions(Mutex<BTreeMap<Order, Entry>>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) node: NodeName,
    /// When the node's drain must be over.
    pub(super) deadline: Option<Instant>,
    refusals: u32,
    /// What the API server said when it was last asked.
    refusal: Option<Refusal>,
}

impl Evictions {
    /// Orders a pod to go. A deadline that is known already only ever gets tighter. Says whether the order is news.
    pub(crate) fn add(&self, order: &Order, node: &NodeName, deadline: Option<Instant>) -> bool {
        let mut entries = self.lock();
        let Some(entry) = entries.get_mut(order) else {
            entries.insert(order.clone(), Entry { node: node.clone(), deadline, refusals: 0, refusal: None });
            return true;
        };
        let before = entry.deadline;
        entry.deadline = before.into_iter().chain(deadline).min();
        entry.deadline != before
    }

    pub(super) fn get(&self, order: &Order) -> Option<Entry> {
        self.lock().get(order).cloned()
    }

    fn forget(&self, order: &Order) {
        self.lock().remove(order);
    }

    /// Counts one more refusal, and says which it is.
    fn refused(&self, order: &Order, refusal: Refusal) -> u32 {
        let mut entries = self.lock();
        let Some(entry) = entries.get_mut(order) else { return 1 };
        entry.refusals = entry.refusals.saturating_add(1);
        entry.refusal = Some(refusal);
        entry.refusals
    }

    /// Those of these pods that the API server did not let go when it was last asked.
    pub(super) fn refusals(&self, guests: &[Guest]) -> BTreeMap<Order, Refusal> {
        let entries = self.lock();
        let order = |guest: &Guest| Order { pod: guest.pod.name.clone(), uid: guest.pod.uid.clone() };
        let refused = guests.iter().map(order).filter_map(|order| Some((entries.get(&order)?.refusal?, order)));
        refused.map(|(refusal, order)| (order, refusal)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Order, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }
}

pub(crate) struct EvictionQueue {
    evictions: Arc<Evictions>,
}

impl EvictionQueue {
    pub(crate) fn new(evictions: Arc<Evictions>) -> Self {
        Self { evictions }
    }

    async fn evict(&self, ctx: &Ctx, order: &Order, guest: &Guest, entry: &Entry) -> Result<Next, ControllerError> {
        if let DoNotDisrupt::Until(_) = guest.pod.do_not_disrupt {
            ctx.recorder.publish(events::do_not_disrupt_elapsed(&guest.pod));
        }
        match evict::evict(ctx, guest, entry).await? {
            Ok(()) => {
                self.evictions.forget(order);
                Ok(Next::OnChange)
            }
            Err(refusal) => {
                evict::tell(ctx, guest, entry, refusal);
                let delay = BACKOFF.delay(self.evictions.refused(order, refusal), &ctx.rng);
                // At the deadline nobody is asked any more, and then it is not put off.
                let left = overdue_at(guest, entry.deadline).map(|moment| moment.since(ctx.now()));
                Ok(Next::After(left.map_or(delay, |left| left.min(delay))))
            }
        }
    }

    /// The pod that is meant, if it is still there and still on its way out.
    fn guest(ctx: &Ctx, order: &Order, entry: &Entry) -> Option<Guest> {
        let store = ctx.store();
        let is_leaving = store.node(&entry.node).is_some_and(|node| node.metadata.deletion_timestamp.is_some());
        let guest = store.guest_named(&order.pod).filter(|guest| guest.pod.uid == order.uid)?;
        (is_leaving && guest.pod.node.as_ref() == Some(&entry.node)).then_some(guest)
    }
}

impl Controller for EvictionQueue {
    type Key = Order;
    const NAME: &'static str = "eviction-queue";
    const ABOUT: Option<About> = Some(About { group: "", kind: "Pod" });

    fn wakes_for(_call: &Duty) -> Option<Order> {
        None
    }

    fn workers(settings: &Settings) -> usize {
        Workers::EVICTION.at(settings.cpu_requests)
    }

    fn backoff() -> Backoff {
        BACKOFF
    }

    async fn tick(&self, ctx: &Ctx, order: &Order, _id: &TickId) -> Result<Next, ControllerError> {
        let end = self.attempt(ctx, order).await;
        if end.as_ref().is_err_and(ControllerError::is_gone) {
            // Nobody comes back to it, so it must not look as if it were on its way.
            self.evictions.forget(order);
        }
        end
    }
}

impl EvictionQueue {
    async fn attempt(&self, ctx: &Ctx, order: &Order) -> Result<Next, ControllerError> {
        let Some(entry) = self.evictions.get(order) else { return Ok(Next::OnChange) };
        let Some(guest) = Self::guest(ctx, order, &entry) else {
            self.evictions.forget(order);
            return Ok(Next::OnChange);
        };
        let now = ctx.now();
        match next_attempt(&guest, entry.deadline, now) {
            Attempt::Forget => self.evictions.forget(order),
            Attempt::Hold { until } => {
                if let DoNotDisrupt::Until(end) = guest.pod.do_not_disrupt {
                    ctx.recorder.publish(events::do_not_disrupt_until(&guest.pod, timestamp(end)));
                }
                let wait = until.map_or(BACKOFF.cap, |until| until.since(now).min(BACKOFF.cap));
                return Ok(Next::After(wait.max(BACKOFF.first)));
            }
            Attempt::Delete { grace } => {
                evict::delete(ctx, &guest, &entry, grace).await?;
                self.evictions.forget(order);
            }
            Attempt::Evict => return self.evict(ctx, order, &guest, &entry).await,
        }
        Ok(Next::OnChange)
    }
}
