//! The order in which pods are seated.
//!
//! Most important first, then those who found no place before, then those who need a host of their own (others fill it up).
//! Among equals large pods come before small ones, which fill the gaps. Where the machines that are worth buying are of one
//! shape, pods that ask for much cpu take turns with pods that ask for much memory: one kind after the other would leave the
//! memory of the first machines and the cpu of the last ones empty. Where they are of several, each kind finds its own.

use std::cell::OnceCell;
use std::cmp::Reverse;

use model::pod::Pod;
use model::resources::Resource;

use super::greedy::Greedy;
use super::pack::worth;

/// What a pod asks for, as shares of everything that is asked for, in parts of a large number.
#[derive(Clone, Copy, Debug, Default)]
struct Shares {
    cpu: u64,
    memory: u64,
    all: u64,
}

/// A whole, in parts. Sums of a million pods' shares stay far from the end of the numbers.
const WHOLE: u128 = 1 << 40;

impl Shares {
    /// Whether it is more of the memory than of the cpu.
    fn is_rich(self) -> bool {
        self.memory > self.cpu
    }
}

impl Greedy<'_, '_> {
    /// Pods in the order in which they are seated.
    pub(super) fn queue(&self) -> Vec<usize> {
        let shares = self.shares();
        let of = |pod: usize| shares[self.class_of[pod]];
        // Where all ids begin alike, what comes after that tells them apart.
        let skipped = letters_in_common(self.world.pods.iter().map(|pod| pod.uid.as_str()));
        let place = |(number, pod): (usize, &&Pod)| {
            let alone = self.classes[self.class_of[number]].is_alone;
            let rank = (pod.priority, self.habits.boosts[number], alone);
            // Most ids differ in their first letters, which are at hand here.
            (
                Reverse(rank),
                Reverse(of(number).all),
                pod.created,
                first_letters(&pod.uid.as_str().as_bytes()[skipped..]),
                number,
            )
        };
        let mut queue: Vec<_> = self.world.pods.iter().enumerate().map(place).collect();
        let name = |number: usize| (&self.world.pods[number].uid, &self.world.pods[number].name);
        queue.sort_unstable_by(|a, b| {
            (a.0, a.1, a.2, a.3).cmp(&(b.0, b.1, b.2, b.3)).then_with(|| name(a.4).cmp(&name(b.4)))
        });
        let is_of_one_shape = OnceCell::new();
        let equals = queue.chunk_by(|a, b| a.0 == b.0);
        let turns = |equals: &[(_, _, _, _, usize)]| {
            let pods: Vec<usize> = equals.iter().map(|(.., number)| *number).collect();
            let has_both = pods.iter().any(|pod| of(*pod).is_rich()) && !pods.iter().all(|pod| of(*pod).is_rich());
            match has_both && *is_of_one_shape.get_or_init(|| self.buys_one_shape()) {
                true => taking_turns(&pods, of),
                false => pods,
            }
        };
        equals.flat_map(turns).collect()
    }

    /// Everything that is asked for.
    fn totals(&self) -> Vec<i64> {
        let total = |axis: usize| self.demand.iter().fold(0_i64, |sum, row| sum.saturating_add(row[axis]));
        (0..self.world.machines.axes().len()).map(total).collect()
    }

    /// Whether either cpu or memory decides what everything costs: then there is one best shape of machine, and what it has of
    /// the other comes with it. Where both have a price, machines of several shapes are bought, to have neither left over.
    fn buys_one_shape(&self) -> bool {
        let totals = self.totals();
        let worth = worth(self, &totals);
        let priced = |wanted: &Resource| {
            let axes = self.world.machines.axes().iter().zip(&totals);
            worth.of(axes.map(|(axis, total)| if axis == wanted { *total } else { 0 })) > 0.0
        };
        !(priced(&Resource::Cpu) && priced(&Resource::Memory))
    }

    fn shares(&self) -> Vec<Shares> {
        let axes = self.world.machines.axes();
        let totals = self.totals();
        let shares = |requests: &Vec<i64>| {
            let mut shares = Shares::default();
            for (axis, (wanted, total)) in requests.iter().zip(&totals).enumerate().filter(|(_, (w, _))| **w > 0) {
                let part = (*wanted as u128 * WHOLE / (*total).max(*wanted) as u128) as u64;
                shares.all += part;
                match axes[axis] {
                    Resource::Cpu => shares.cpu = part,
                    Resource::Memory => shares.memory = part,
                    _ => {}
                }
            }
            shares
        };
        self.classes.iter().map(|class| shares(&class.requests)).collect()
    }
}

/// Pods in turns: the next is of the kind that has had less of what it asks for so far.
fn taking_turns(pods: &[usize], of: impl Fn(usize) -> Shares) -> Vec<usize> {
    let (lean, rich): (Vec<usize>, Vec<usize>) = pods.iter().partition(|pod| !of(**pod).is_rich());
    let (mut lean, mut rich) = (lean.into_iter().peekable(), rich.into_iter().peekable());
    let mut had = Shares::default();
    let mut queue = Vec::with_capacity(pods.len());
    loop {
        let is_richs_turn =
            had.memory < had.cpu || (had.memory == had.cpu && of_peeked(&mut rich, &of) > of_peeked(&mut lean, &of));
        let next =
            if is_richs_turn { rich.next().or_else(|| lean.next()) } else { lean.next().or_else(|| rich.next()) };
        let Some(pod) = next else { return queue };
        had.cpu += of(pod).cpu;
        had.memory += of(pod).memory;
        queue.push(pod);
    }
}

fn of_peeked(pods: &mut std::iter::Peekable<std::vec::IntoIter<usize>>, of: &impl Fn(usize) -> Shares) -> u64 {
    pods.peek().map_or(0, |pod| of(*pod).all)
}

/// The first letters of a text as a number that is in the order of the texts.
fn first_letters(text: &[u8]) -> u64 {
    let mut letters = [0; 8];
    letters.iter_mut().zip(text).for_each(|(letter, byte)| *letter = *byte);
    u64::from_be_bytes(letters)
}

/// How many letters all texts begin with.
fn letters_in_common<'t>(mut texts: impl Iterator<Item = &'t str>) -> usize {
    let first = texts.next().unwrap_or_default().as_bytes();
    texts.fold(first.len(), |common, text| {
        if text.as_bytes().starts_with(&first[..common]) {
            return common;
        }
        first[..common].iter().zip(text.as_bytes()).take_while(|(a, b)| a == b).count()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(shares: &[(u64, u64)]) -> Vec<usize> {
        let all: Vec<usize> = (0..shares.len()).collect();
        let of = |pod: usize| Shares { cpu: shares[pod].0, memory: shares[pod].1, all: shares[pod].0 + shares[pod].1 };
        taking_turns(&all, of)
    }

    #[test]
    fn the_kind_that_had_less_comes_next_and_nobody_is_lost() {
        assert_eq!(turns(&[(9, 1), (8, 1), (1, 9), (1, 8)]), [0, 2, 1, 3]);
        assert_eq!(turns(&[(1, 9), (9, 1), (2, 6), (6, 2)]), [1, 0, 3, 2], "of equals the one with more cpu");
        assert_eq!(turns(&[(1, 9), (1, 8), (5, 1)]), [0, 2, 1], "the larger begins");
        assert_eq!(turns(&[(5, 5), (1, 9), (9, 1)]), [0, 2, 1], "as much of both is not rich");
        assert_eq!(turns(&[(3, 1), (2, 1)]), [0, 1]);
        assert_eq!(turns(&[]), [0_usize; 0]);
    }

    #[test]
    fn first_letters_are_in_the_order_of_texts() {
        let texts = ["", "a", "aa", "ab", "abcdefgh", "b", "ba"];
        assert!(texts.windows(2).all(|pair| first_letters(pair[0].as_bytes()) < first_letters(pair[1].as_bytes())));
        assert_eq!(first_letters(b"abcdefghi"), first_letters(b"abcdefgh"));
    }

    #[test]
    fn letters_that_all_texts_begin_with_are_counted() {
        let common = |texts: &[&str]| letters_in_common(texts.iter().copied());
        assert_eq!(common(&["pod-1", "pod-22", "pod-3"]), 4);
        assert_eq!(common(&["pod-1", "pod", "pot"]), 2);
        assert_eq!((common(&["same", "same"]), common(&["a", "b"]), common(&[])), (4, 0, 0));
    }
}
