//! Keys that wait for work. A key is worked on by one worker at a time, in the order in which keys became ready.
//!
//! ```text
//!                push                     a worker takes it
//!   (unknown) ─────────▶ ready ────────────────────────────▶ running ──▶ OnChange: forgotten
//!                          ▲                                    │
//!                          │ time has come, or push             │ After(d), Again, an error, or a push meanwhile
//!                          └───────────── waiting ◀─────────────┘
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::error::Error;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::error::with_causes;
use crate::rng::Rng;
use crate::tasks::Stop;

/// When a worker wants to see its key again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    /// After this time, or sooner if somebody pushes the key.
    After(Duration),
    /// Once more, later and later while this is the answer, or sooner if somebody pushes the key. Nothing is broken, so there
    /// is no line in the log.
    Again(Backoff),
    /// Only when somebody pushes the key.
    OnChange,
}

/// How many keys are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    pub ready: usize,
    pub waiting: usize,
    pub running: usize,
}

/// A queue of keys. Copies are one and the same queue.
#[derive(Debug)]
pub struct Queue<K> {
    shared: Arc<Shared<K>>,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

#[derive(Debug)]
struct Shared<K> {
    name: String,
    backoff: Backoff,
    rng: Rng,
    state: Mutex<State<K>>,
    changed: Notify,
}

/// Invariant: a key is in `ready` or in `waiting` exactly if its entry says so, and never twice.
#[derive(Debug)]
struct State<K> {
    entries: BTreeMap<K, Entry>,
    /// First come, first served: a key that keeps coming back cannot keep the others waiting.
    ready: VecDeque<K>,
    waiting: BTreeSet<(Instant, K)>,
}

#[derive(Debug)]
struct Entry {
    place: Place,
    failures: u32,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Ready,
    Waiting(Instant),
    /// With the earliest time at which somebody, meanwhile, wanted the key to be looked at again.
    Running {
        again: Option<Instant>,
    },
}

impl<K: Ord + Clone> Queue<K> {
    /// The name appears in logs. The back-off is for keys whose worker failed.
    pub fn new(name: impl Into<String>, backoff: Backoff, rng: Rng) -> Self {
        let state = State { entries: BTreeMap::new(), ready: VecDeque::new(), waiting: BTreeSet::new() };
        let shared = Shared { name: name.into(), backoff, rng, state: Mutex::new(state), changed: Notify::new() };
        Self { shared: Arc::new(shared) }
    }

    /// Wants the key to be looked at now. A key that is being worked on is looked at once more afterwards, because the
    /// worker may have read the world before it changed; if the worker fails, that is when its back-off is over.
    pub fn push(&self, key: K) {
        self.lock().want(key, Instant::now());
        self.shared.changed.notify_one();
    }

    /// Wants the key to be looked at after `delay`; whoever wants it sooner wins.
    pub fn push_after(&self, key: K, delay: Duration) {
        if let Some(time) = Instant::now().checked_add(delay) {
            self.lock().want(key, time);
            self.shared.changed.notify_one();
        }
    }

    pub fn depth(&self) -> Depth {
        let state = self.lock();
        let (ready, waiting) = (state.ready.len(), state.waiting.len());
        Depth { ready, waiting, running: state.entries.len() - ready - waiting }
    }

    /// The next key that is ready, from now on being worked on; `None` once the stop was given.
    async fn take(&self, stop: &Stop) -> Option<K> {
        loop {
            let next_due = {
                let mut state = self.lock();
                if stop.is_cancelled() {
                    return None;
                }
                state.ripen(Instant::now());
                if let Some(key) = state.start() {
                    return Some(key);
                }
                state.waiting.first().map(|(due, _)| *due)
            };
            let ripe = async {
                match next_due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            // A push between the look above and this wait is not lost: `notify_one` leaves a permit behind.
            tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                () = self.shared.changed.notified() => {}
                () = ripe => {}
            }
        }
    }

    /// Hears a worker's answer about its key; `Err` carries nothing, it was logged.
    fn finish(&self, key: &K, answer: Result<Next, ()>) {
        let now = Instant::now();
        let mut state = self.lock();
        let Some(entry) = state.entries.get_mut(key) else { return };
        let Place::Running { again } = entry.place else { return };
        entry.failures = match answer {
            Ok(Next::Again(_)) | Err(()) => entry.failures.saturating_add(1),
            Ok(Next::After(_) | Next::OnChange) => 0,
        };
        let later = |backoff: Backoff| now.checked_add(backoff.delay(entry.failures, &self.shared.rng));
        let (wanted, again) = match answer {
            Ok(Next::After(delay)) => (now.checked_add(delay), again),
            Ok(Next::Again(backoff)) => (later(backoff), again),
            Ok(Next::OnChange) => (None, again),
            // A worker that writes down why it failed is pushed by its own words. If that cut the wait short, a failure that
            // reads differently each time would be repeated at full speed.
            Err(()) => (later(self.shared.backoff), None),
        };
        match (wanted, again) {
            (None, None) => drop(state.entries.remove(key)),
            (wanted, again) => {
                let time = wanted.into_iter().chain(again).min().unwrap_or(now);
                state.place(key.clone(), time, now);
            }
        }
    }

    fn failures(&self, key: &K) -> u32 {
        self.lock().entries.get(key).map_or(0, |entry| entry.failures)
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        // Nothing panics while it holds the lock, so a poisoned one is as good as new.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Ord + Clone> State<K> {
    fn want(&mut self, key: K, time: Instant) {
        match self.entries.get_mut(&key) {
            None => self.place(key, time, Instant::now()),
            Some(entry) => match &mut entry.place {
                Place::Ready => {}
                Place::Running { again } => *again = Some(again.map_or(time, |earlier| earlier.min(time))),
                Place::Waiting(due) => {
                    let due = *due;
                    if time < due {
                        self.waiting.remove(&(due, key.clone()));
                        self.place(key, time, Instant::now());
                    }
                }
            },
        }
    }

    /// Puts a key that is in neither list into the right one.
    fn place(&mut self, key: K, time: Instant, now: Instant) {
        let place = if time <= now { Place::Ready } else { Place::Waiting(time) };
        self.entries.entry(key.clone()).or_insert(Entry { place, failures: 0 }).place = place;
        match place {
            Place::Waiting(due) => drop(self.waiting.insert((due, key))),
            _ => self.ready.push_back(key),
        }
    }

    /// Moves the keys whose time has come, earliest first and equals in the order of keys.
    fn ripen(&mut self, now: Instant) {
        while self.waiting.first().is_some_and(|(due, _)| *due <= now) {
            let Some((_, key)) = self.waiting.pop_first() else { return };
            self.place(key, now, now);
        }
    }

    fn start(&mut self) -> Option<K> {
        let key = self.ready.pop_front()?;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.place = Place::Running { again: None };
        }
        Some(key)
    }
}

/// Works on the keys of a queue, at most `workers` at a time, until the stop is given; what has been started by then is
/// finished. A failure is logged here and its key comes back after the queue's back-off.
///
/// The workers share this one task. They wait for the network; whatever computes for long belongs into `Compute`.
pub async fn run<K, E, W>(queue: &Queue<K>, workers: usize, stop: &Stop, mut handle: impl FnMut(K) -> W)
where
    K: Ord + Clone + Debug,
    E: Error,
    W: Future<Output = Result<Next, E>>,
{
    let mut running = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            Some((key, answer)) = running.next() => {
                let answer: Result<Next, E> = answer;
                let answer = answer.map_err(|error| log_failure(queue, &key, &error));
                queue.finish(&key, answer);
            }
            Some(key) = queue.take(stop), if running.len() < workers.max(1) => {
                let work = handle(key.clone());
                running.push(async move { (key, work.await) });
            }
            else => return,
        }
        // Workers that never wait would keep this loop, and with it the thread, to themselves.
        tokio::task::consume_budget().await;
    }
}

fn log_failure<K: Ord + Clone + Debug>(queue: &Queue<K>, key: &K, error: &dyn Error) {
    let failures = queue.failures(key) + 1;
    tracing::warn!(queue = queue.shared.name, ?key, failures, error = with_causes(error), "will try again");
}

#[cfg(test)]
mod tests;
