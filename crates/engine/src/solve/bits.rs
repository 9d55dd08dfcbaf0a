//! Sets of small integers as words of bits. Every inner loop of the solver is made of these.

/// A set of numbers below a fixed size.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    pub(crate) fn empty(size: usize) -> Self {
        Self(vec![0; size.div_ceil(64)])
    }

    pub(crate) fn full(size: usize) -> Self {
        let mut bits = Self(vec![u64::MAX; size.div_ceil(64)]);
        if !size.is_multiple_of(64)
            && let Some(last) = bits.0.last_mut()
        {
            *last = (1 << (size % 64)) - 1;
        }
        bits
    }

    pub(crate) fn insert(&mut self, number: usize) {
        self.0[number / 64] |= 1 << (number % 64);
    }

    pub(crate) fn remove(&mut self, number: usize) {
        self.0[number / 64] &= !(1 << (number % 64));
    }

    pub(crate) fn contains(&self, number: usize) -> bool {
        self.0.get(number / 64).is_some_and(|word| word & (1 << (number % 64)) != 0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(crate) fn intersects(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    pub(crate) fn is_subset(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(a, b)| a & !b == 0)
    }

    pub(crate) fn keep(&mut self, other: &Self) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a &= b;
        }
    }

    pub(crate) fn add_all(&mut self, other: &Self) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a |= b;
        }
    }

    /// The members, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(index, word)| {
            std::iter::successors((*word != 0).then_some(*word), |word| {
                let rest = word & (word - 1);
                (rest != 0).then_some(rest)
            })
            .map(move |word| index * 64 + word.trailing_zeros() as usize)
        })
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(usize) -> bool) {
        for index in 0..self.0.len() {
            let mut rest = self.0[index];
            while rest != 0 {
                let bit = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                if !keep(index * 64 + bit) {
                    self.0[index] &= !(1 << bit);
                }
            }
        }
    }
}

impl FromIterator<usize> for Bits {
    fn from_iter<I: IntoIterator<Item = usize>>(numbers: I) -> Self {
        let mut bits = Self::default();
        for number in numbers {
            if number / 64 >= bits.0.len() {
                bits.0.resize(number / 64 + 1, 0);
            }
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
            let mut even = x;
            even.retain(|number| number % 2 == 0);
            prop_assert!(even.iter().all(|number| number % 2 == 0));
            prop_assert_eq!(even.len(), a.iter().filter(|number| *number % 2 == 0).count());
        }
    }
}
