//! Keeps one object from filling the API server with events, by client-go's rules and numbers:
//! an object may have 25 events of a kind and then one every five minutes; ten different messages for one reason within
//! ten minutes become one event that says so; and what is exactly repeated is counted instead of written again.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::time::Instant;

use super::recent::Recent;
use crate::limit::{Rate, TokenBucket};

const REMEMBERED: usize = 4096;
const SPAM: Rate = Rate { per_second: 1.0 / 300.0, burst: 25 };
const SIMILAR_MAX: usize = 10;
const SIMILAR_WITHIN: Duration = Duration::from_secs(600);

/// An event to write.
pub(super) struct Correlated {
    pub(super) event: Event,
    /// The event exists already; its count, time and message are new.
    pub(super) is_repeat: bool,
}

pub(super) struct Correlator {
    spam: Recent<TokenBucket>,
    similar: Recent<Similar>,
    written: Recent<Option<Written>>,
}

/// The messages that an object got for one reason.
struct Similar {
    messages: BTreeSet<String>,
    last: Instant,
}

struct Written {
    name: Option<String>,
    count: i32,
    first: Option<Time>,
}

impl Default for Correlator {
    fn default() -> Self {
        Self { spam: Recent::new(REMEMBERED), similar: Recent::new(REMEMBERED), written: Recent::new(REMEMBERED) }
    }
}

impl Correlator {
    /// What to write for this event, if anything.
    pub(super) fn correlate(&mut self, mut event: Event) -> Option<Correlated> {
        let object = object_key(&event);
        let reason_key = format!("{object}\0{}", event.reason.as_deref().unwrap_or_default());
        let message = event.message.clone().unwrap_or_default();
        let key = if self.is_one_of_many(&reason_key, &message) {
            event.message = Some(format!("(combined from similar events): {message}"));
            reason_key
        } else {
            format!("{reason_key}\0{message}")
        };
        let written = self.written.entry(&key, || None);
        let is_repeat = written.is_some();
        if let Some(written) = written {
            written.count = written.count.saturating_add(1);
            event.metadata.name.clone_from(&written.name);
            event.first_timestamp.clone_from(&written.first);
            event.count = Some(written.count);
        } else {
            let (name, first) = (event.metadata.name.clone(), event.first_timestamp.clone());
            *written = Some(Written { name, count: 1, first });
        }
        // What is held back was counted all the same, so the next event that gets through tells the truth.
        self.spam.entry(&object, || TokenBucket::new(SPAM)).try_take().then_some(Correlated { event, is_repeat })
    }

    fn is_one_of_many(&mut self, reason_key: &str, message: &str) -> bool {
        let now = Instant::now();
        let similar = self.similar.entry(reason_key, || Similar { messages: BTreeSet::new(), last: now });
        if now.duration_since(similar.last) > SIMILAR_WITHIN {
            similar.messages.clear();
        }
        similar.last = now;
        similar.messages.insert(message.to_owned());
        let is_one_of_many = similar.messages.len() >= SIMILAR_MAX;
        if is_one_of_many {
            similar.messages.pop_first();
        }
        is_one_of_many
    }
}

fn object_key(event: &Event) -> String {
    let object = &event.involved_object;
    let parts = [&object.kind, &object.namespace, &object.name, &object.uid, &object.api_version, &event.type_];
    parts.map(|part| part.as_deref().unwrap_or_default()).join("\0")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(object: &str, message: &str) -> Event {
        let mut event = Event { reason: Some("Odd".into()), message: Some(message.into()), ..Event::default() };
        event.involved_object.name = Some(object.into());
        event.metadata.name = Some(format!("{object}.{message}"));
        event
    }

    /// The name, count and message of what is to be written.
    fn correlate(correlator: &mut Correlator, object: &str, message: &str) -> Option<(String, i32, String)> {
        let written = correlator.correlate(event(object, message))?;
        let count = if written.is_repeat { written.event.count.unwrap() } else { 1 };
        Some((written.event.metadata.name.unwrap(), count, written.event.message.unwrap()))
    }

    #[tokio::test(start_paused = true)]
    async fn exact_repeats_are_counted_by_object_and_message() {
        let mut correlator = Correlator::default();
        let expected = |name: &str, count, message: &str| Some((name.to_owned(), count, message.to_owned()));
        assert_eq!(correlate(&mut correlator, "a", "x"), expected("a.x", 1, "x"));
        assert_eq!(correlate(&mut correlator, "a", "x"), expected("a.x", 2, "x"));
        assert_eq!(correlate(&mut correlator, "a", "y"), expected("a.y", 1, "y"));
        assert_eq!(correlate(&mut correlator, "b", "x"), expected("b.x", 1, "x"));
        assert_eq!(correlate(&mut correlator, "a", "x"), expected("a.x", 3, "x"));
    }

    #[tokio::test(start_paused = true)]
    async fn ten_messages_for_one_reason_become_one_event() {
        let mut correlator = Correlator::default();
        for number in 0..9 {
            assert_eq!(correlate(&mut correlator, "a", &format!("{number}")).unwrap().1, 1);
        }
        let tenth = correlate(&mut correlator, "a", "9").unwrap();
        assert_eq!(tenth, ("a.9".into(), 1, "(combined from similar events): 9".into()));
        let next = correlate(&mut correlator, "a", "10").unwrap();
        assert_eq!(next, ("a.9".into(), 2, "(combined from similar events): 10".into()));

        tokio::time::sleep(SIMILAR_WITHIN + Duration::from_secs(1)).await;
        assert_eq!(correlate(&mut correlator, "a", "11").unwrap(), ("a.11".into(), 1, "11".into()));
    }

    #[tokio::test(start_paused = true)]
    async fn one_object_cannot_flood_and_does_not_silence_others() {
        let mut correlator = Correlator::default();
        let written = (0..40).filter(|_| correlate(&mut correlator, "a", "x").is_some()).count();
        assert_eq!(written, 25);
        assert!(correlate(&mut correlator, "b", "x").is_some());
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert_eq!(correlate(&mut correlator, "a", "x").unwrap().1, 41);
        assert!(correlate(&mut correlator, "a", "x").is_none());
    }
}
