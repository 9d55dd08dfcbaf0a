//! A map that forgets what was not used for longest.

use std::collections::BTreeMap;

#[derive(Debug)]
pub(super) struct Recent<V> {
    room: usize,
    uses: u64,
    values: BTreeMap<String, (u64, V)>,
    by_use: BTreeMap<u64, String>,
}

impl<V> Recent<V> {
    pub(super) fn new(room: usize) -> Self {
        Self { room, uses: 0, values: BTreeMap::new(), by_use: BTreeMap::new() }
    }

    /// The value of a key, made if need be; it is now the most recently used.
    pub(super) fn entry(&mut self, key: &str, make: impl FnOnce() -> V) -> &mut V {
        self.uses += 1;
        match self.values.get(key) {
            Some((used, _)) => drop(self.by_use.remove(used)),
            None if self.values.len() >= self.room => {
                if let Some((_, oldest)) = self.by_use.pop_first() {
                    self.values.remove(&oldest);
                }
            }
            None => {}
        }
        self.by_use.insert(self.uses, key.to_owned());
        let entry = self.values.entry(key.to_owned()).or_insert_with(|| (0, make()));
        entry.0 = self.uses;
        &mut entry.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_is_forgotten() {
        let mut recent = Recent::new(2);
        for key in ["a", "b", "a", "c"] {
            *recent.entry(key, || 0) += 1;
        }
        assert_eq!((*recent.entry("a", || 0), *recent.entry("b", || 0), *recent.entry("c", || 0)), (2, 0, 0));
        assert_eq!((recent.values.len(), recent.by_use.len()), (2, 2));
    }
}
