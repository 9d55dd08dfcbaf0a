//! Machines that the cloud takes back, as it does with spot machines: announced first, ended when the notice is over.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use model::time::Instant;
use runtime::Clock;
use tokio::sync::Notify;

use crate::{Interruption, InterruptionKind, ProviderId};

/// What has been announced and has not come yet.
#[derive(Debug, Default)]
pub(super) struct Interruptions {
    ends: Mutex<BTreeMap<ProviderId, Ending>>,
    wake: Notify,
    /// Calls whoever listens for notices.
    news: Notify,
}

#[derive(Clone, Copy, Debug)]
struct Ending {
    at: Timestamp,
    /// Whether somebody has dealt with it.
    is_heard: bool,
}

impl Interruptions {
    /// A machine that is announced twice ends at the earlier time.
    pub(super) fn announce(&self, id: ProviderId, now: Timestamp, notice: Duration) {
        let notice = SignedDuration::try_from(notice).unwrap_or(SignedDuration::MAX);
        let end = now.saturating_add(notice).unwrap_or(Timestamp::MAX);
        let mut ends = self.ends();
        let known = ends.entry(id).or_insert(Ending { at: end, is_heard: false });
        if end < known.at {
            *known = Ending { at: end, is_heard: false };
        }
        self.wake.notify_one();
        self.news.notify_one();
    }

    /// What nobody has dealt with yet. Waits while there is nothing.
    pub(super) async fn notices(&self) -> Vec<Interruption> {
        loop {
            let unheard: Vec<Interruption> =
                self.ends().iter().filter(|(_, end)| !end.is_heard).map(|(id, end)| notice(id, end.at)).collect();
            if !unheard.is_empty() {
                return unheard;
            }
            self.news.notified().await;
        }
    }

    /// A notice that was brought forward since is another one.
    pub(super) fn acknowledge(&self, handled: &[Interruption]) {
        for (id, end) in self.ends().iter_mut() {
            end.is_heard |= handled.contains(&notice(id, end.at));
        }
    }

    pub(super) fn announced(&self) -> Vec<(ProviderId, Timestamp)> {
        self.ends().iter().map(|(id, end)| (id.clone(), end.at)).collect()
    }

    /// The machines whose time is over, in the order of ids.
    pub(super) fn due(&self, now: Timestamp) -> Vec<ProviderId> {
        self.ends().iter().filter(|(_, end)| end.at <= now).map(|(id, _)| id.clone()).collect()
    }

    /// The machine is gone.
    pub(super) fn settle(&self, id: &ProviderId) {
        self.ends().remove(id);
    }

    /// Waits until the next machine's time is over, or another is announced.
    pub(super) async fn next(&self, clock: &Clock) {
        let next = self.ends().values().map(|end| end.at).min();
        until(next, &self.wake, clock).await;
    }

    fn ends(&self) -> MutexGuard<'_, BTreeMap<ProviderId, Ending>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn notice(machine: &ProviderId, end: Timestamp) -> Interruption {
    Interruption {
        id: format!("{machine} {end}").into(),
        machine: machine.clone(),
        kind: InterruptionKind::SpotInterrupted,
        deadline: Some(Instant::from_unix_nanos(end.as_nanosecond())),
    }
}

/// Waits for a time, if there is one, or until somebody calls.
pub(super) async fn until(time: Option<Timestamp>, wake: &Notify, clock: &Clock) {
    let Some(time) = time else { return wake.notified().await };
    let left = Duration::try_from(time.duration_since(clock.now())).unwrap_or_default();
    tokio::select! {
        biased;
        () = wake.notified() => {}
        () = tokio::time::sleep(left) => {}
    }
}
