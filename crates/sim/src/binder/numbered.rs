//! Numbered things that several share: found by what they are, gone with their last user, their numbers used again.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

pub(super) struct Numbered<T> {
    all: Vec<Option<Entry<T>>>,
    unused: Vec<usize>,
    by_hash: BTreeMap<u64, Vec<usize>>,
}

struct Entry<T> {
    item: T,
    hash: u64,
    users: usize,
}

/// The same for equal values in every run and on every machine.
pub(super) fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { all: Vec::new(), unused: Vec::new(), by_hash: BTreeMap::new() }
    }
}

impl<T> Numbered<T> {
    /// One that is there already, with one user more. Things that are alike must have one hash.
    pub(super) fn join(&mut self, hash: u64, is_it: impl Fn(&T) -> bool) -> Option<usize> {
        let id = *self.by_hash.get(&hash)?.iter().find(|id| self.get(**id).is_some_and(&is_it))?;
        if let Some(entry) = &mut self.all[id] {
            entry.users += 1;
        }
        Some(id)
    }

    /// A new one, with its first user.
    pub(super) fn add(&mut self, hash: u64, item: T) -> usize {
        let entry = Some(Entry { item, hash, users: 1 });
        let id = self.unused.pop().unwrap_or(self.all.len());
        if id == self.all.len() {
            self.all.push(entry);
        } else {
            self.all[id] = entry;
        }
        self.by_hash.entry(hash).or_default().push(id);
        id
    }

    /// One user less. Gives back what the last user leaves.
    pub(super) fn leave(&mut self, id: usize) -> Option<T> {
        let entry = self.all.get_mut(id)?.as_mut()?;
        entry.users -= 1;
        if entry.users > 0 {
            return None;
        }
        let Entry { item, hash, .. } = self.all[id].take()?;
        self.unused.push(id);
        if let Some(ids) = self.by_hash.get_mut(&hash) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_hash.remove(&hash);
            }
        }
        Some(item)
    }

    pub(super) fn get(&self, id: usize) -> Option<&T> {
        self.all.get(id)?.as_ref().map(|entry| &entry.item)
    }

    pub(super) fn get_mut(&mut self, id: usize) -> Option<&mut T> {
        self.all.get_mut(id)?.as_mut().map(|entry| &mut entry.item)
    }

    /// By number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.all.iter().enumerate().filter_map(|(id, entry)| Some((id, &entry.as_ref()?.item)))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.all.iter_mut().flatten().map(|entry| &mut entry.item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_shared_by_what_they_are_and_go_with_their_last_user() {
        let mut words: Numbered<&str> = Numbered::default();
        let take = |words: &mut Numbered<&'static str>, word: &'static str| {
            // One hash for all: what counts is what they are.
            words.join(7, |known| *known == word).unwrap_or_else(|| words.add(7, word))
        };
        let (a, b) = (take(&mut words, "a"), take(&mut words, "b"));
        assert_eq!((a, b, take(&mut words, "a")), (0, 1, 0));
        assert_eq!(words.leave(a), None, "somebody else has it");
        assert_eq!(words.leave(a), Some("a"));
        assert_eq!((words.leave(a), words.get(a), words.get(b), words.get(9)), (None, None, Some(&"b"), None));
        assert_eq!(take(&mut words, "c"), a, "the number is used again");
        assert_eq!(words.iter().collect::<Vec<_>>(), [(0, &"c"), (1, &"b")]);
    }
}
