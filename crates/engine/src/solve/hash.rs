//! A hash that is the same on every machine and in every run, and what was found out about things that are equal.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

/// What is known about things, found by their hash and then compared for real. Nobody can see in which order they are kept.
#[derive(Clone)]
pub(crate) struct Known<K, V> {
    slots: BTreeMap<u64, Vec<(K, V)>>,
    count: usize,
}

impl<K, V> Default for Known<K, V> {
    fn default() -> Self {
        Self { slots: BTreeMap::new(), count: 0 }
    }
}

impl<K: Hash + Eq, V> Known<K, V> {
    pub(crate) fn get(&self, thing: &K) -> Option<&V> {
        let slot = self.slots.get(&hash(thing))?;
        slot.iter().find(|(known, _)| known == thing).map(|(_, value)| value)
    }

    /// Adds what was not known yet.
    pub(crate) fn add(&mut self, thing: K, value: V) {
        self.count += 1;
        self.slots.entry(hash(&thing)).or_default().push((thing, value));
    }
}

impl<K: Hash + Eq> Known<K, usize> {
    /// The number of a thing: the one that it was given before, or the next.
    pub(crate) fn number(&mut self, thing: K) -> usize {
        let slot = self.slots.entry(hash(&thing)).or_default();
        if let Some((_, number)) = slot.iter().find(|(known, _)| *known == thing) {
            return *number;
        }
        let number = self.count;
        self.count += 1;
        slot.push((thing, number));
        number
    }
}

/// Finds things of a list by their hashes. The list itself stays with whoever has it.
#[derive(Debug, Default)]
pub(crate) struct Finder(Vec<(u64, usize)>);

impl Finder {
    pub(crate) fn new<'t, T: Hash + ?Sized + 't>(things: impl IntoIterator<Item = &'t T>) -> Self {
        let mut places: Vec<(u64, usize)> = things.into_iter().map(hash).zip(0..).collect();
        places.sort_unstable();
        Self(places)
    }

    /// The place of a thing in the list that this was made from; who has the list says whether it is there for real.
    pub(crate) fn find(&self, wanted: &(impl Hash + ?Sized), is_it: impl Fn(usize) -> bool) -> Option<usize> {
        let wanted = hash(wanted);
        let from = self.0.partition_point(|(hash, _)| *hash < wanted);
        let candidates = self.0[from..].iter().take_while(|(hash, _)| *hash == wanted);
        candidates.map(|(_, place)| *place).find(|place| is_it(*place))
    }
}

pub(crate) fn hash(thing: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = Fnv::default();
    thing.hash(&mut hasher);
    hasher.finish()
}

/// In the manner of FNV-1a, eight bytes at a time. Used to find equals quickly; whoever uses it compares for real as well.
pub(crate) struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn mix(&mut self, word: u64) {
        // The turn brings the upper bits, which a product mixes best, down to where the next word meets them.
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x0100_0000_01b3);
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.mix(u64::from_le_bytes(*word)));
        if !rest.is_empty() {
            let mut word = [0; 8];
            word.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            self.mix(u64::from_le_bytes(word));
        }
    }

    // Most of what is hashed are lengths and small numbers.
    fn write_u8(&mut self, number: u8) {
        self.mix(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.mix(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.mix(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.mix(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Things that all have the same hash.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Alike(u32);

    impl Hash for Alike {
        fn hash<H: Hasher>(&self, state: &mut H) {
            state.write_u64(7);
        }
    }

    #[test]
    fn things_of_one_hash_are_told_apart() {
        let mut known = Known::default();
        assert_eq!(known.get(&Alike(1)), None);
        (1..=3).for_each(|number| known.add(Alike(number), 10 * number));
        let found: Vec<Option<&u32>> = (0..=3).map(|number| known.get(&Alike(number))).collect();
        assert_eq!(found, [None, Some(&10), Some(&20), Some(&30)]);
    }

    #[test]
    fn places_are_found_although_hashes_are_alike() {
        let list = [5, 7, 9].map(Alike);
        let finder = Finder::new(&list);
        let find = |number| finder.find(&Alike(number), |place| list[place] == Alike(number));
        assert_eq!([5, 7, 9, 6].map(find), [Some(0), Some(1), Some(2), None]);
        assert_eq!(Finder::new(["a", "b"]).find("b", |place| place == 1), Some(1));
    }

    #[test]
    fn numbers_are_given_once_and_in_order() {
        let mut known = Known::default();
        let numbers: Vec<usize> = [5, 7, 5, 9, 7].map(Alike).map(|thing| known.number(thing)).into();
        assert_eq!(numbers, [0, 1, 0, 2, 1]);
    }

    #[test]
    fn every_byte_and_its_place_count() {
        let texts =
            ["", "a", "b", "ab", "ba", "abcdefgh", "abcdefgi", "abcdefghi", "abcdefghj", "abcdefgh\0", "iabcdefgh"];
        let hashes: std::collections::BTreeSet<u64> = texts.iter().map(hash).collect();
        assert_eq!(hashes.len(), texts.len());
        let words: std::collections::BTreeSet<u64> =
            (0..1000_u64).flat_map(|a| [hash(&(a, 0_u64)), hash(&(0_u64, a))]).collect();
        assert_eq!(words.len(), 1999);
        let alone = |bytes: &[u8]| {
            let mut hasher = Fnv::default();
            hasher.write(bytes);
            hasher.finish()
        };
        assert_ne!(alone(b"abc"), alone(b""), "what is left after whole words counts");
        assert_ne!(alone(b"12345678abc"), alone(b"12345678abd"));
    }
}
