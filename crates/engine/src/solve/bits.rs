//! Sets of small integers as words of bits. Every inner loop of the solver is made of these.

/// A set of numbers below a fixed size. The first word lies in place, so small sets cost no memory of their own.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Bits {
    first: u64,
    rest: Vec<u64>,
}

impl Clone for Bits {
    fn clone(&self) -> Self {
        Self { first: self.first, rest: self.rest.clone() }
    }

    /// Uses the memory that is there.
    fn clone_from(&mut self, other: &Self) {
        self.first = other.first;
        self.rest.clone_from(&other.rest);
    }
}

impl Bits {
    pub(crate) fn empty(size: usize) -> Self {
        Self { first: 0, rest: vec![0; size.div_ceil(64).saturating_sub(1)] }
    }

    /// A set without members that has room for those of another.
    pub(crate) fn empty_like(other: &Self) -> Self {
        Self { first: 0, rest: vec![0; other.rest.len()] }
    }

    pub(crate) fn full(size: usize) -> Self {
        let mut bits = Self::empty(size);
        for (index, word) in bits.words_mut().enumerate() {
            let members = size.saturating_sub(index * 64).min(64);
            *word = if members == 64 { u64::MAX } else { (1 << members) - 1 };
        }
        bits
    }

    fn words(&self) -> impl Iterator<Item = &u64> + Clone {
        std::iter::once(&self.first).chain(&self.rest)
    }

    fn words_mut(&mut self) -> impl Iterator<Item = &mut u64> {
        std::iter::once(&mut self.first).chain(&mut self.rest)
    }

    fn word_mut(&mut self, index: usize) -> &mut u64 {
        if index == 0 { &mut self.first } else { &mut self.rest[index - 1] }
    }

    pub(crate) fn insert(&mut self, number: usize) {
        *self.word_mut(number / 64) |= 1 << (number % 64);
    }

    /// Inserts a number and says whether it was there.
    pub(crate) fn replace(&mut self, number: usize) -> bool {
        let was_there = self.contains(number);
        self.insert(number);
        was_there
    }

    pub(crate) fn remove(&mut self, number: usize) {
        *self.word_mut(number / 64) &= !(1 << (number % 64));
    }

    pub(crate) fn contains(&self, number: usize) -> bool {
        let word = if number < 64 { Some(&self.first) } else { self.rest.get(number / 64 - 1) };
        word.is_some_and(|word| word & (1 << (number % 64)) != 0)
    }

    /// The members from sixty-four times a number on, sixty-four of them, as a word.
    pub(crate) fn word(&self, index: usize) -> u64 {
        if index == 0 { self.first } else { self.rest.get(index - 1).copied().unwrap_or(0) }
    }

    /// Adds everybody who is in none of some sets, as far as there is room.
    pub(crate) fn add_all_but<'o>(&mut self, others: impl IntoIterator<Item = &'o Self>) {
        let mut all = Self::empty_like(self);
        others.into_iter().for_each(|other| all.add_all(other));
        self.first |= !all.first;
        self.rest.iter_mut().zip(&all.rest).for_each(|(a, b)| *a |= !b);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words().all(|word| *word == 0)
    }

    pub(crate) fn len(&self) -> usize {
        self.words().map(|word| word.count_ones() as usize).sum()
    }

    pub(crate) fn intersects(&self, other: &Self) -> bool {
        self.first & other.first != 0 || self.rest.iter().zip(&other.rest).any(|(a, b)| a & b != 0)
    }

    pub(crate) fn is_subset(&self, other: &Self) -> bool {
        self.first & !other.first == 0 && self.rest.iter().zip(&other.rest).all(|(a, b)| a & !b == 0)
    }

    pub(crate) fn keep(&mut self, other: &Self) {
        self.first &= other.first;
        self.rest.iter_mut().zip(&other.rest).for_each(|(a, b)| *a &= b);
    }

    pub(crate) fn add_all(&mut self, other: &Self) {
        self.first |= other.first;
        self.rest.iter_mut().zip(&other.rest).for_each(|(a, b)| *a |= b);
    }

    /// Keeps the numbers whose amount in a column is so much or more.
    pub(crate) fn keep_where_at_least(&mut self, least: i64, column: &[i64]) {
        for (word, amounts) in self.words_mut().zip(column.chunks(64)) {
            if *word != 0 {
                let bits = amounts.iter().enumerate().map(|(bit, amount)| u64::from(*amount >= least) << bit);
                *word &= bits.sum::<u64>();
            }
        }
    }

    /// Makes room for numbers below a size.
    pub(crate) fn grow(&mut self, size: usize) {
        let words = size.div_ceil(64).saturating_sub(1);
        self.rest.resize(words.max(self.rest.len()), 0);
    }

    /// The members, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + Clone + '_ {
        self.words().enumerate().flat_map(|(index, word)| {
            std::iter::successors((*word != 0).then_some(*word), |word| {
                let rest = word & (word - 1);
                (rest != 0).then_some(rest)
            })
            .map(move |word| index * 64 + word.trailing_zeros() as usize)
        })
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(usize) -> bool) {
        for (index, word) in self.words_mut().enumerate() {
            let mut rest = *word;
            while rest != 0 {
                let bit = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                if !keep(index * 64 + bit) {
                    *word &= !(1 << bit);
                }
            }
        }
    }
}

impl FromIterator<usize> for Bits {
    fn from_iter<I: IntoIterator<Item = usize>>(numbers: I) -> Self {
        let mut bits = Self::default();
        for number in numbers {
            bits.grow(number + 1);
            bits.insert(number);
        }
        bits
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn bits(numbers: &BTreeSet<usize>) -> Bits {
        let mut bits = Bits::empty(200);
        for number in numbers {
            bits.insert(*number);
        }
        bits
    }

    #[test]
    fn a_full_set_has_no_member_beyond_its_size() {
        for size in [0, 1, 63, 64, 65, 130] {
            assert_eq!(Bits::full(size).iter().collect::<Vec<_>>(), (0..size).collect::<Vec<_>>());
        }
    }

    #[test]
    fn words_are_told_one_by_one_and_are_empty_beyond_the_end() {
        let bits: Bits = [0, 63, 64, 130].into_iter().collect();
        assert_eq!([0, 1, 2, 3].map(|index| bits.word(index)), [1 | 1 << 63, 1, 4, 0]);
    }

    #[test]
    fn all_but_some_are_everybody_that_there_is_room_for() {
        let mut bits = Bits::empty(128);
        bits.insert(5);
        let [few, more]: [Bits; 2] = [[5, 6].into_iter().collect(), [70, 71, 300].into_iter().collect()];
        bits.add_all_but([&few, &more]);
        assert_eq!(bits.iter().collect::<Vec<_>>(), (0..128).filter(|n| ![6, 70, 71].contains(n)).collect::<Vec<_>>());
    }

    #[test]
    fn a_set_grows_and_never_shrinks() {
        for (from, to, room) in
            [(0, 64, 64), (0, 65, 128), (64, 65, 128), (10, 200, 256), (200, 10, 256), (130, 192, 192)]
        {
            let mut bits = Bits::empty(from);
            bits.grow(to);
            assert_eq!(bits, Bits::empty(room), "{from} to {to}");
            bits.insert(room - 1);
            assert_eq!(bits.iter().collect::<Vec<_>>(), [room - 1]);
        }
        let collected: Bits = [63, 64, 127, 128].into_iter().collect();
        assert_eq!(collected.rest.len(), 2, "no more room than needed");
    }

    proptest! {
        #[test]
        fn bits_are_sets(a in proptest::collection::btree_set(0..200_usize, 0..40), b in proptest::collection::btree_set(0..200_usize, 0..40)) {
            let (x, y) = (bits(&a), bits(&b));
            prop_assert_eq!(x.iter().collect::<BTreeSet<_>>(), a.clone());
            prop_assert_eq!(x.len(), a.len());
            prop_assert_eq!(x.intersects(&y), !a.is_disjoint(&b));
            prop_assert_eq!(x.is_subset(&y), a.is_subset(&b));
            let mut both = x.clone();
            both.keep(&y);
            prop_assert_eq!(both.iter().collect::<Vec<_>>(), a.intersection(&b).copied().collect::<Vec<_>>());
            let mut either = x.clone();
            either.add_all(&y);
            prop_assert_eq!(either.len(), a.union(&b).count());
            let column: Vec<i64> = (0..200).map(|number| number % 7).collect();
            let mut enough = x.clone();
            enough.keep_where_at_least(3, &column);
            prop_assert_eq!(enough.iter().collect::<Vec<_>>(), a.iter().copied().filter(|number| number % 7 >= 3).collect::<Vec<_>>());
            for number in 0..300 {
                prop_assert_eq!(x.contains(number), a.contains(&number));
            }
            prop_assert_eq!(x.is_empty(), a.is_empty());
            prop_assert_eq!(a.iter().copied().collect::<Bits>().iter().collect::<BTreeSet<_>>(), a.clone());
            let mut fewer = x.clone();
            b.iter().for_each(|number| fewer.remove(*number));
            prop_assert_eq!(fewer.iter().collect::<Vec<_>>(), a.difference(&b).copied().collect::<Vec<_>>());
            let mut more = x.clone();
            for number in &b {
                prop_assert_eq!(more.replace(*number), a.contains(number));
            }
            prop_assert_eq!(&more, &either);
            prop_assert_eq!(Bits::empty_like(&x), Bits::empty(200));
            let mut even = x;
            even.retain(|number| number % 2 == 0);
            prop_assert!(even.iter().all(|number| number % 2 == 0));
            prop_assert_eq!(even.len(), a.iter().filter(|number| *number % 2 == 0).count());
        }
    }
}
