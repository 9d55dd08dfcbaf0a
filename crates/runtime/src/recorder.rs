//! Events: what we tell people about an object, where `kubectl describe` shows it.
//!
//! Whoever publishes never waits. Repeats are held back three times: what was said a moment ago is not said again
//! (`dedupe`), some reasons have a rate, and what gets through is merged by `correlate` before it is written.

mod correlate;
mod recent;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, ObjectReference};
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::Status;
use kube::{Api, Client, Error};
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::error::with_causes;
use crate::limit::{Rate, TokenBucket};
use crate::rng::Rng;
use crate::tasks::Stop;
use correlate::{Correlated, Correlator};

const DEDUPE_FOR: Duration = Duration::from_secs(120);
/// More events than this wait only if the API server has been away for long; the oldest are the least useful then.
const QUEUED_MAX: usize = 1000;
const DEDUPED_MAX: usize = 16_384;
/// An event is not worth more than this, as in client-go.
const TRIES_MAX: u32 = 12;
const RETRY_AFTER: Duration = Duration::from_secs(10);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoteKind {
    Normal,
    Warning,
}

impl NoteKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// One thing to tell about one object.
#[derive(Clone, Debug)]
pub struct Note {
    pub regarding: ObjectReference,
    pub kind: NoteKind,
    /// One word in CamelCase, for machines.
    pub reason: Cow<'static, str>,
    /// A sentence, for people.
    pub message: String,
    /// Notes of one reason with equal values are one note. Without values every note counts.
    pub dedupe: Vec<String>,
    pub dedupe_for: Duration,
    /// How often notes of this reason may be published, whatever they are about.
    pub rate: Option<Rate>,
}

impl Note {
    pub fn normal(regarding: ObjectReference, reason: impl Into<Cow<'static, str>>, message: String) -> Self {
        let reason = reason.into();
        Self { regarding, kind: NoteKind::Normal, reason, message, dedupe: vec![], dedupe_for: DEDUPE_FOR, rate: None }
    }

    pub fn warning(regarding: ObjectReference, reason: impl Into<Cow<'static, str>>, message: String) -> Self {
        Self { kind: NoteKind::Warning, ..Self::normal(regarding, reason, message) }
    }

    #[must_use]
    pub fn dedupe(mut self, values: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.dedupe = values.into_iter().map(Into::into).collect();
        self
    }

    #[must_use]
    pub fn dedupe_for(mut self, time: Duration) -> Self {
        self.dedupe_for = time;
        self
    }

    #[must_use]
    pub fn rate(mut self, rate: Rate) -> Self {
        self.rate = Some(rate);
        self
    }

    fn dedupe_key(&self) -> String {
        format!("{}-{}", self.reason.to_lowercase(), self.dedupe.join("-"))
    }
}

/// Publishes notes. Copies are one and the same recorder; one task must `run` it.
#[derive(Clone)]
pub struct Recorder {
    shared: Arc<Shared>,
}

struct Shared {
    component: String,
    clock: Clock,
    rng: Rng,
    state: Mutex<State>,
    published: Notify,
}

#[derive(Default)]
struct State {
    queued: VecDeque<(Note, Timestamp)>,
    dropped: u64,
    silenced: Silenced,
    buckets: BTreeMap<Cow<'static, str>, TokenBucket>,
}

/// What was said a moment ago, until when nothing is said again under the same values.
#[derive(Default)]
struct Silenced {
    said: BTreeMap<String, String>,
    by_end: BTreeSet<(Instant, String)>,
}

/// Whether something may be said now.
enum Admission {
    New,
    Repeats,
    /// It says something else than what was said a moment ago.
    TooSoon,
}

impl Recorder {
    /// The component is who says it, in every event.
    pub fn new(component: impl Into<String>, clock: Clock, rng: Rng) -> Self {
        let state = Mutex::default();
        let shared = Shared { component: component.into(), clock, rng, state, published: Notify::new() };
        Self { shared: Arc::new(shared) }
    }

    pub fn publish(&self, note: Note) {
        drop(self.try_publish(note));
    }

    /// Publishes a note, or gives it back if something else was said under its values a moment ago. As long as it is true it
    /// may be tried again; otherwise people would go on reading what is true no longer.
    pub fn try_publish(&self, note: Note) -> Option<Note> {
        let mut state = self.lock();
        if !note.dedupe.is_empty() {
            match state.silenced.admit(note.dedupe_key(), &note.message, note.dedupe_for) {
                Admission::New => {}
                Admission::Repeats => return None,
                Admission::TooSoon => return Some(note),
            }
        }
        if let Some(rate) = note.rate {
            let bucket = state.buckets.entry(note.reason.clone()).or_insert_with(|| TokenBucket::new(rate));
            if !bucket.try_take() {
                return None;
            }
        }
        if state.queued.len() == QUEUED_MAX {
            state.queued.pop_front();
            state.dropped += 1;
        }
        state.queued.push_back((note, self.shared.clock.now()));
        drop(state);
        self.shared.published.notify_one();
        None
    }

    /// How many notes were thrown away because too many were waiting.
    pub fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    /// Writes what is published, one after the other, until the stop is given; what waits by then is tried once.
    pub async fn run(&self, client: Client, stop: &Stop) {
        let mut correlator = Correlator::default();
        while let Some((note, time)) = self.next(stop).await {
            if let Some(correlated) = correlator.correlate(self.event(&note, time)) {
                self.deliver(&client, correlated, stop).await;
            }
        }
    }

    async fn next(&self, stop: &Stop) -> Option<(Note, Timestamp)> {
        loop {
            if let Some(next) = self.lock().queued.pop_front() {
                return Some(next);
            }
            tokio::select! {
                biased;
                // What was published in the same moment is still told.
                () = stop.cancelled() => return self.lock().queued.pop_front(),
                () = self.shared.published.notified() => {}
            }
        }
    }

    fn event(&self, note: &Note, time: Timestamp) -> Event {
        let mut event = Event {
            involved_object: note.regarding.clone(),
            type_: Some(note.kind.as_str().to_owned()),
            reason: Some(note.reason.clone().into_owned()),
            message: Some(note.message.clone()),
            count: Some(1),
            first_timestamp: Some(time.into()),
            last_timestamp: Some(time.into()),
            reporting_component: Some(self.shared.component.clone()),
            reporting_instance: Some(String::new()),
            ..Event::default()
        };
        event.source.get_or_insert_default().component = Some(self.shared.component.clone());
        let name = note.regarding.name.as_deref().unwrap_or_default();
        event.metadata.name = Some(event_name(name, self.shared.rng.next_u64()));
        // Events of objects without a namespace live in the default one, where kubectl looks for them.
        let namespace = note.regarding.namespace.clone().filter(|namespace| !namespace.is_empty());
        event.metadata.namespace = Some(namespace.unwrap_or_else(|| "default".to_owned()));
        event
    }

    /// Tries until the server has said yes or no. Events are a courtesy: after a no, or too many tries, it is forgotten.
    async fn deliver(&self, client: &Client, correlated: Correlated, stop: &Stop) {
        let Correlated { event, is_repeat } = correlated;
        for tries in 1..=TRIES_MAX {
            let error = match tokio::time::timeout(REQUEST_TIMEOUT, write(client, &event, is_repeat)).await {
                Ok(Ok(())) => return,
                Ok(Err(Error::Api(status))) => {
                    if !is_expected(&status) {
                        tracing::warn!(reason = event.reason, error = %status, "the server refused an event");
                    }
                    return;
                }
                // The server has understood us, even if we do not understand its answer.
                Ok(Err(Error::SerdeError(_))) => return,
                Ok(Err(error)) => with_causes(&error),
                Err(_) => "no answer from the server".to_owned(),
            };
            if tries == TRIES_MAX || stop.is_cancelled() {
                tracing::warn!(reason = event.reason, error, "an event could not be written");
                return;
            }
            // Spread the first retry, because others lost the same server at the same moment.
            let delay = if tries == 1 { RETRY_AFTER.mul_f64(self.shared.rng.unit()) } else { RETRY_AFTER };
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = tokio::time::sleep(delay) => {}
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock, so a poisoned one is as good as new.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Silenced {
    /// Whether it may be said now. If so, it and all else under its key may not for a while.
    fn admit(&mut self, key: String, message: &str, time: Duration) -> Admission {
        let now = Instant::now();
        while self.by_end.first().is_some_and(|(end, _)| *end <= now) || self.said.len() >= DEDUPED_MAX {
            let Some((_, old)) = self.by_end.pop_first() else { break };
            self.said.remove(&old);
        }
        if let Some(said) = self.said.get(&key) {
            return if said == message { Admission::Repeats } else { Admission::TooSoon };
        }
        let Some(end) = now.checked_add(time) else { return Admission::Repeats };
        self.by_end.insert((end, key.clone()));
        self.said.insert(key, message.to_owned());
        Admission::New
    }
}

/// Whether the refusal only says that the event, or the namespace around it, is about to vanish or was already written.
fn is_expected(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    matches!(status.code, 404 | 409) || causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}

/// The object's name and a random part, cut so that it stays a name.
fn event_name(object: &str, random: u64) -> String {
    const OBJECT_LENGTH_MAX: usize = 253 - 17;
    let end = object
        .char_indices()
        .map(|(start, letter)| start + letter.len_utf8())
        .take_while(|end| *end <= OBJECT_LENGTH_MAX);
    let object = object[..end.last().unwrap_or(0)].trim_end_matches(['-', '.']);
    format!("{object}.{random:016x}")
}

async fn write(client: &Client, event: &Event, is_repeat: bool) -> Result<(), Error> {
    let api: Api<Event> = Api::namespaced(client.clone(), event.metadata.namespace.as_deref().unwrap_or_default());
    if is_repeat {
        let name = event.metadata.name.as_deref().unwrap_or_default();
        let patch = json!({"count": event.count, "lastTimestamp": event.last_timestamp, "message": event.message});
        match api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => return Ok(()),
            // Events live for an hour. One that is gone begins a new life.
            Err(Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error),
        }
    }
    api.create(&PostParams::default(), event).await.map(drop)
}

#[cfg(test)]
mod tests;
