//! Many pods say the same. What they say alike is kept once.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use model::alike::Common;
use model::labels::Labels;
use model::pod::{Pod, Wants};

/// Below this, looking for what nobody uses any more is not worth it.
const LEAST_PURGE: usize = 1024;

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

/// Values that have no order, each once.
#[derive(Debug)]
pub(super) struct Alike<T> {
    /// By a hash with a fixed seed; of two values with one hash the last is kept.
    known: BTreeMap<u64, Common<T>>,
    purge_at: usize,
}

impl<T> Default for Alike<T> {
    fn default() -> Self {
        Self { known: BTreeMap::new(), purge_at: LEAST_PURGE }
    }
}

impl<T: Clone + Hash + PartialEq> Alike<T> {
    pub(super) fn share(&mut self, value: Common<T>) -> Common<T> {
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        let hash = hasher.finish();
        if let Some(known) = self.known.get(&hash).filter(|known| **known == value) {
            return known.clone();
        }
        if self.known.len() >= self.purge_at {
            self.known.retain(|_, value| Arc::strong_count(value.as_arc()) > 1);
            self.purge_at = LEAST_PURGE.max(self.known.len() * 2);
        }
        self.known.insert(hash, value.clone());
        value
    }
}

/// What pods have alike: the words of their labels, and all that they want.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    words: Shared<str>,
    labels: Shared<Labels>,
    shapes: Alike<Wants>,
}

impl Sharing {
    pub(super) fn pod(&mut self, pod: &mut Pod) {
        pod.labels = self.labels(std::mem::take(&mut pod.labels));
        // Volumes have names of their own, which no other pod uses.
        if pod.wants.volumes.attached.is_empty() {
            pod.wants = self.shapes.share(std::mem::take(&mut pod.wants));
        }
    }

    fn labels(&mut self, labels: Common<Labels>) -> Common<Labels> {
        if let Some(known) = self.labels.known.get(labels.as_arc()) {
            return known.clone().into();
        }
        let words = labels.iter().map(|(key, value)| (self.words.share(key.clone()), self.words.share(value.clone())));
        let labels: Labels = words.collect();
        self.labels.share(Arc::new(labels)).into()
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

    #[test]
    fn equal_values_without_an_order_are_one_and_unused_ones_are_dropped() {
        let mut alike = Alike::<Vec<usize>>::default();
        let kept = alike.share(vec![7].into());
        assert!(alike.share(vec![7].into()).is(kept.as_arc()));
        for number in 0..3 * LEAST_PURGE {
            alike.share(vec![1, number].into());
        }
        assert!(alike.known.len() <= LEAST_PURGE + 1, "{}", alike.known.len());
        assert!(alike.share(vec![7].into()).is(kept.as_arc()));
    }
}
