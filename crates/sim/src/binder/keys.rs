//! Label keys that somebody counts by, and every node's domain under each of them, as numbers.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::labels::Labels;

/// The domain of a node that does not have the label.
pub(super) const NOWHERE: u32 = u32::MAX;

pub(super) type KeyId = usize;

#[derive(Default)]
pub(super) struct Keys {
    ids: BTreeMap<Arc<str>, KeyId>,
    keys: Vec<Key>,
}

#[derive(Default)]
struct Key {
    name: Arc<str>,
    values: BTreeMap<Arc<str>, u32>,
    /// By number: the value and how many nodes have it. Numbers of values that no node has are used again, or the names of all
    /// nodes that ever were would pile up.
    domains: Vec<(Arc<str>, u32)>,
    unused: Vec<u32>,
    by_slot: Vec<u32>,
}

impl Keys {
    /// The number of a key; `all` are the labels of the nodes that are there, by slot.
    pub(super) fn id<'a>(&mut self, name: &Arc<str>, all: impl Iterator<Item = (usize, &'a Labels)>) -> KeyId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let mut key = Key { name: name.clone(), ..Key::default() };
        for (slot, labels) in all {
            key.put(slot, Some(labels));
        }
        let id = self.keys.len();
        self.keys.push(key);
        self.ids.insert(name.clone(), id);
        id
    }

    /// A node has come or has other labels now; `None` when it is gone.
    pub(super) fn put(&mut self, slot: usize, labels: Option<&Labels>) {
        for key in &mut self.keys {
            key.put(slot, labels);
        }
    }

    /// Each node's domain, by slot. Slots past the end have none.
    pub(super) fn by_slot(&self, key: KeyId) -> &[u32] {
        &self.keys[key].by_slot
    }

    pub(super) fn domain(&self, key: KeyId, slot: usize) -> u32 {
        self.keys[key].by_slot.get(slot).copied().unwrap_or(NOWHERE)
    }

    /// Greater than every domain's number.
    pub(super) fn bound(&self, key: KeyId) -> usize {
        self.keys[key].domains.len()
    }
}

impl Key {
    fn put(&mut self, slot: usize, labels: Option<&Labels>) {
        if self.by_slot.len() <= slot {
            self.by_slot.resize(slot + 1, NOWHERE);
        }
        let value = labels.and_then(|labels| labels.get(&self.name));
        let before = self.by_slot[slot];
        if before != NOWHERE && value.is_some_and(|value| *value == self.domains[before as usize].0) {
            return;
        }
        self.by_slot[slot] = value.map_or(NOWHERE, |value| self.enter(value));
        if before != NOWHERE {
            self.leave(before);
        }
    }

    fn enter(&mut self, value: &Arc<str>) -> u32 {
        let id = match self.values.get(value) {
            Some(id) => *id,
            None => {
                let id = self.unused.pop().unwrap_or_else(|| u32::try_from(self.domains.len()).unwrap_or(NOWHERE));
                if id as usize == self.domains.len() {
                    self.domains.push((value.clone(), 0));
                } else {
                    self.domains[id as usize] = (value.clone(), 0);
                }
                self.values.insert(value.clone(), id);
                id
            }
        };
        self.domains[id as usize].1 += 1;
        id
    }

    fn leave(&mut self, id: u32) {
        let (value, nodes) = &mut self.domains[id as usize];
        *nodes -= 1;
        if *nodes == 0 {
            self.values.remove(value);
            self.unused.push(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_that_no_node_is_in_gives_its_number_back() {
        let labels = |value: &str| Labels::from([("zone".into(), value.into())]);
        let (a, b, c) = (labels("a"), labels("b"), labels("c"));
        let mut keys = Keys::default();
        let zone = keys.id(&"zone".into(), [(0, &a), (2, &b)].into_iter());
        assert_eq!([0, 1, 2, 9].map(|slot| keys.domain(zone, slot)), [0, NOWHERE, 1, NOWHERE]);
        keys.put(2, Some(&a));
        keys.put(1, Some(&c));
        assert_eq!([0, 1, 2].map(|slot| keys.domain(zone, slot)), [0, 1, 0]);
        keys.put(0, None);
        keys.put(2, None);
        keys.put(3, Some(&b));
        assert_eq!([0, 1, 2, 3].map(|slot| keys.domain(zone, slot)), [NOWHERE, 1, NOWHERE, 0]);
        assert_eq!((keys.bound(zone), keys.id(&"zone".into(), std::iter::empty())), (2, zone));
    }
}
