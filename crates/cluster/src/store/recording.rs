//! The store writes down what it is told and asked.
//!
//! Each public method that changes something notes itself before it does so, and calls of one by another go past the notes. Without
//! a journal that costs a look at an empty field.

use std::sync::Arc;

use api::record::Event;
use model::snapshot::Snapshot;
use model::time::Instant;

use super::Store;
use crate::record::{Decision, DecisionKind, Journal, Origin};

impl Store {
    /// Writes everything down from now on. A recording makes a whole store only if this one knows nothing yet.
    pub fn record(&mut self, mut journal: Journal, origin: Origin) {
        journal.begin(origin, &self.settings, self.quiet.since());
        self.journal = Some(Box::new(journal));
    }

    pub fn is_recording(&self) -> bool {
        self.journal.is_some()
    }

    /// The world for a decision of a kind, which a recording ties to the decision.
    pub fn snapshot_to_decide(&mut self, decision: DecisionKind, now: Instant) -> Arc<Snapshot> {
        self.note_at(now, || Event::Looked { to: Some(decision) });
        let snapshot = self.look(now);
        if let Some(journal) = &mut self.journal {
            journal.show(&snapshot);
        }
        snapshot
    }

    /// Notes what was decided on the last look for such a decision.
    pub fn note_decision(&mut self, decision: Decision, now: Instant) {
        self.note_at(now, || Event::Decided(decision));
    }

    pub(super) fn note_at(&mut self, now: Instant, event: impl FnOnce() -> Event) {
        if let Some(journal) = &mut self.journal {
            journal.note(event(), Some(now));
        }
    }

    /// For what is told without a time.
    pub(super) fn note(&mut self, event: impl FnOnce() -> Event) {
        if let Some(journal) = &mut self.journal {
            journal.note(event(), None);
        }
    }
}
