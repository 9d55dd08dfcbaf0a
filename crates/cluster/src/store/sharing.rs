//! Many pods say the same. What they say alike is kept once.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use model::labels::Labels;
use model::pod::{Pod, Wants};

/// Below this, looking for what nobody uses any more is not worth it.
const LEAST_PURGE: usize = 1024;
/// Kinds of pods, so to say. Beyond that something is odd, and sharing starts over.
const MOST_SHAPES: usize = 4096;

/// Values that many hold, each once.
#[derive(Debug)]
pub(super) struct Shared<T: ?Sized + Ord> {
    known: BTreeSet<Arc<T>>,
    purge_at: usize,
}

impl<T: ?Sized + Ord> Default for Shared<T> {
    fn default() -> Self {
        Self { known: BTreeSet::new(), purge_at: LEAST_PURGE }
    }
}

impl<T: ?Sized + Ord> Shared<T> {
    /// The same value as others have it.
    pub(super) fn share(&mut self, value: Arc<T>) -> Arc<T> {
        if let Some(known) = self.known.get(&value) {
            return known.clone();
        }
        if self.known.len() >= self.purge_at {
            self.known.retain(|value| Arc::strong_count(value) > 1);
            self.purge_at = LEAST_PURGE.max(self.known.len() * 2);
        }
        self.known.insert(value.clone());
        value
    }
}

/// What pods have alike: the words of their labels, and all that they want.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    words: Shared<str>,
    /// By a hash with a fixed seed; of two shapes with one hash the last is kept.
    shapes: BTreeMap<u64, Wants>,
}

impl Sharing {
    pub(super) fn pod(&mut self, pod: &mut Pod) {
        pod.labels = self.labels(std::mem::take(&mut pod.labels));
        // Volumes have names of their own, which no other pod uses.
        if pod.wants.volumes.attached.is_empty() {
            pod.wants = self.wants(std::mem::take(&mut pod.wants));
        }
    }

    fn labels(&mut self, labels: Labels) -> Labels {
        labels.into_iter().map(|(key, value)| (self.words.share(key), self.words.share(value))).collect()
    }

    /// A copy of an equal value shares all its words.
    fn wants(&mut self, wants: Wants) -> Wants {
        let mut hasher = DefaultHasher::new();
        wants.hash(&mut hasher);
        let hash = hasher.finish();
        if let Some(known) = self.shapes.get(&hash).filter(|known| **known == wants) {
            return known.clone();
        }
        if self.shapes.len() >= MOST_SHAPES {
            self.shapes.clear();
        }
        self.shapes.insert(hash, wants.clone());
        wants
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_words_are_one_and_unused_ones_are_dropped() {
        let mut shared = Shared::<str>::default();
        let kept = shared.share("app".into());
        assert!(Arc::ptr_eq(&kept, &shared.share("app".into())));
        for number in 0..3 * LEAST_PURGE {
            shared.share(number.to_string().into());
        }
        assert!(shared.known.len() <= LEAST_PURGE + 1, "{}", shared.known.len());
        assert!(Arc::ptr_eq(&kept, &shared.share("app".into())));
    }
}
