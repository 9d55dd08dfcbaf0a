//! Whether the store knows enough to decide anything.
//!
//! It does when every kind that is expected has been listed once: then every object that was there is in the store. From
//! then on it stays so, also while a kind is listed again, because what was known still is. Claims that wait for their
//! machine hold up nothing; the snapshot shows them as what they may become.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::time::Instant;

use crate::object::{Key, Kind};

#[derive(Debug)]
pub(crate) struct Synced {
    expected: BTreeSet<Kind>,
    listed: BTreeSet<Kind>,
    /// What was known when the lists in progress began and has not been shown since. While the first list of a large cluster comes in,
    /// that is nothing.
    listing: BTreeMap<Kind, BTreeSet<Key>>,
    /// Since when something is missing; nothing once all was there.
    incomplete_since: Option<Instant>,
}

impl Synced {
    pub(crate) fn new(expected: BTreeSet<Kind>, now: Instant) -> Self {
        let mut synced =
            Self { expected, listed: BTreeSet::new(), listing: BTreeMap::new(), incomplete_since: Some(now) };
        synced.settle();
        synced
    }

    pub(crate) fn missing(&self) -> impl Iterator<Item = Kind> + '_ {
        let is_complete = self.incomplete_since.is_none();
        self.expected.difference(&self.listed).copied().filter(move |_| !is_complete)
    }

    pub(crate) fn incomplete_for(&self, now: Instant) -> Option<Duration> {
        self.incomplete_since.map(|since| now.since(since))
    }

    pub(crate) fn is_expected(&self, kind: Kind) -> bool {
        self.expected.contains(&kind)
    }

    pub(crate) fn has_listed(&self, kind: Kind) -> bool {
        self.listed.contains(&kind)
    }

    /// An API that the cluster does not have is not waited for.
    pub(crate) fn excuse(&mut self, kind: Kind) {
        self.expected.remove(&kind);
        self.settle();
    }

    /// A list begins, and what is known must be shown again.
    pub(crate) fn restart(&mut self, kind: Kind, known: BTreeSet<Key>) {
        self.listing.insert(kind, known);
    }

    /// Notes that an object is there, or that it is known to be gone.
    pub(crate) fn account_for(&mut self, key: &Key) {
        if let Some(unseen) = self.listing.get_mut(&key.kind) {
            unseen.remove(key);
        }
    }

    /// Ends a list and says what it did not show. An end without a beginning says nothing.
    pub(crate) fn finish(&mut self, kind: Kind) -> Option<BTreeSet<Key>> {
        let unseen = self.listing.remove(&kind);
        self.listed.insert(kind);
        self.settle();
        unseen
    }

    fn settle(&mut self) {
        if self.expected.is_subset(&self.listed) {
            self.incomplete_since = None;
        }
    }
}
