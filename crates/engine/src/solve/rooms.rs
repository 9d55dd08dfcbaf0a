//! What is left in many numbered places, arranged so that the next one with enough room is found without asking all of them.
//!
//! Pods ask for the same amounts again and again. For each amount (where there are very many, for some of them) a set says which
//! places have so much; who has enough of everything is then found sixty-four places at a time.

use std::rc::Rc;

use super::bits::Bits;

/// Most amounts of one resource that have a set of their own.
const MOST_MARKS: usize = 16;

/// Most resources that are looked up in sets; what is found there is measured in any case.
const MOST_SETS: usize = 4;

/// By axis, the amounts that have a set of their own, ascending.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks(Rc<Vec<Vec<i64>>>);

impl Marks {
    /// The amounts that are asked for; of very many only some, evenly drawn.
    pub(crate) fn of<'r>(axes: usize, requests: impl Iterator<Item = &'r [i64]>) -> Self {
        let mut marks: Vec<Vec<i64>> = vec![Vec::new(); axes];
        for request in requests {
            let wanted = marks.iter_mut().zip(request).filter(|(_, wanted)| **wanted > 0);
            wanted.for_each(|(marks, wanted)| marks.push(*wanted));
        }
        for marks in &mut marks {
            marks.sort_unstable();
            marks.dedup();
            if marks.len() > MOST_MARKS {
                *marks = (0..MOST_MARKS).map(|number| marks[number * marks.len() / MOST_MARKS]).collect();
            }
        }
        Self(Rc::new(marks))
    }
}

/// Rows of amounts, one for each place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rooms {
    marks: Marks,
    count: usize,
    rows: Vec<i64>,
    /// By axis and mark, the places that have so much.
    having: Vec<Vec<Places>>,
    everybody: Places,
}

/// A set of places that knows which of its words are empty.
#[derive(Clone, Debug, Default)]
struct Places {
    words: Vec<u64>,
    /// A bit for each word that has members.
    inhabited: Vec<u64>,
}

impl Places {
    fn grow(&mut self, count: usize) {
        self.words.resize(count.div_ceil(64), 0);
        self.inhabited.resize(self.words.len().div_ceil(64), 0);
    }

    fn clear(&mut self) {
        self.words.clear();
        self.inhabited.clear();
    }

    fn insert(&mut self, number: usize) {
        let word = number / 64;
        self.words[word] |= 1 << (number % 64);
        self.inhabited[word / 64] |= 1 << (word % 64);
    }

    fn remove(&mut self, number: usize) {
        let word = number / 64;
        self.words[word] &= !(1 << (number % 64));
        if self.words[word] == 0 {
            self.inhabited[word / 64] &= !(1 << (word % 64));
        }
    }
}

impl Rooms {
    pub(crate) fn new(marks: &Marks) -> Self {
        let having = marks.0.iter().map(|marks| vec![Places::default(); marks.len()]).collect();
        Self { marks: marks.clone(), having, ..Self::default() }
    }

    /// Rooms for the same amounts, without a place.
    pub(crate) fn without_places(&self) -> Self {
        Self::new(&self.marks)
    }

    /// Forgets all places, and keeps the memory that they took.
    pub(crate) fn clear(&mut self) {
        self.count = 0;
        self.rows.clear();
        self.having.iter_mut().flatten().chain([&mut self.everybody]).for_each(Places::clear);
    }

    fn axes(&self) -> usize {
        self.having.len()
    }

    pub(crate) fn push(&mut self, row: &[i64]) {
        let number = self.count;
        self.count += 1;
        // Until it is told otherwise a place has less than anybody asks for.
        self.rows.resize(self.count * self.axes(), i64::MIN);
        for places in self.having.iter_mut().flatten().chain([&mut self.everybody]) {
            places.grow(number + 1);
        }
        self.everybody.insert(number);
        self.set(number, row.iter().copied());
    }

    pub(crate) fn row(&self, number: usize) -> &[i64] {
        &self.rows[number * self.axes()..(number + 1) * self.axes()]
    }

    pub(crate) fn set(&mut self, number: usize, row: impl Iterator<Item = i64>) {
        self.change(number, row, |_, new| new);
    }

    /// Takes so much from a row.
    pub(crate) fn take(&mut self, number: usize, amounts: &[i64]) {
        self.change(number, amounts.iter().copied(), i64::saturating_sub);
    }

    fn change(&mut self, number: usize, row: impl Iterator<Item = i64>, change: impl Fn(i64, i64) -> i64) {
        let start = number * self.axes();
        for (axis, amount) in row.enumerate() {
            let old = self.rows[start + axis];
            let new = change(old, amount);
            self.rows[start + axis] = new;
            let marked = self.marks.0[axis].iter().zip(&mut self.having[axis]);
            if new > old {
                let gained = marked.filter(|(mark, _)| (old + 1..=new).contains(*mark));
                gained.for_each(|(_, places)| places.insert(number));
            } else if new < old {
                let lost = marked.filter(|(mark, _)| (new + 1..=old).contains(*mark));
                lost.for_each(|(_, places)| places.remove(number));
            }
        }
    }

    /// The first place from a number on that has so much left and is not closed. Who asks for nothing of a resource fits even where
    /// less than nothing is left.
    pub(crate) fn next(&self, from: usize, wanted: &[i64], closed: &Bits) -> Option<usize> {
        let sets = self.sets(wanted);
        let mut word = from / 64;
        let mut within = u64::MAX << (from % 64);
        while word < self.everybody.words.len() {
            let inhabited = sets.iter().fold(u64::MAX, |all, set| all & set.inhabited[word / 64]) >> (word % 64);
            if inhabited == 0 {
                (word, within) = ((word / 64 + 1) * 64, u64::MAX);
                continue;
            }
            if inhabited & 1 != 0 {
                let open = sets.iter().fold(within & !closed.word(word), |all, set| all & set.words[word]);
                let fits = |number: &usize| has_room(self.row(*number), wanted);
                if let Some(number) = members(open).map(|bit| word * 64 + bit).find(fits) {
                    return Some(number);
                }
                (word, within) = (word + 1, u64::MAX);
            } else {
                (word, within) = (word + inhabited.trailing_zeros() as usize, u64::MAX);
            }
        }
        None
    }

    /// Sets that together have everybody with so much left, and perhaps a few others.
    fn sets(&self, wanted: &[i64]) -> [&Places; MOST_SETS] {
        let mut sets = [&self.everybody; MOST_SETS];
        let axes = wanted.iter().zip(self.marks.0.iter()).zip(&self.having);
        let sized = axes.filter_map(|((wanted, marks), having)| {
            let reached = marks.iter().take_while(|mark| *mark <= wanted).count();
            Some(&having[reached.checked_sub(1)?])
        });
        sets.iter_mut().zip(sized).for_each(|(set, sized)| *set = sized);
        sets
    }
}

/// The bits that are set in a word.
fn members(word: u64) -> impl Iterator<Item = usize> {
    std::iter::successors((word != 0).then_some(word), |word| {
        let rest = word & (word - 1);
        (rest != 0).then_some(rest)
    })
    .map(|word| word.trailing_zeros() as usize)
}

/// Whether so much fits into what is left. Who asks for nothing fits even where less than nothing is left.
pub(crate) fn has_room(left: &[i64], wanted: &[i64]) -> bool {
    left.iter().zip(wanted).all(|(left, wanted)| *wanted <= 0 || wanted <= left)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn marks(amounts: &[&[i64]]) -> Marks {
        Marks::of(amounts[0].len(), amounts.iter().copied())
    }

    #[test]
    fn of_few_amounts_all_are_marked_and_of_many_some_the_least_included() {
        assert_eq!(*marks(&[&[5, 0], &[3, -1], &[5, 7]]).0, [vec![3, 5], vec![7]]);
        let many: Vec<[i64; 1]> = (1..=100).map(|amount| [amount]).collect();
        let marks = Marks::of(1, many.iter().map(|amounts| &amounts[..]));
        assert_eq!((marks.0[0].len(), marks.0[0][0], marks.0[0][8]), (MOST_MARKS, 1, 51));
    }

    #[test]
    fn what_is_taken_and_given_shows_at_once() {
        let mut rooms = Rooms::new(&marks(&[&[1]]));
        (0..5000).for_each(|_| rooms.push(&[1]));
        let none = Bits::default();
        assert_eq!(
            [0, 63, 64, 4999, 5000].map(|from| rooms.next(from, &[1], &none)),
            [Some(0), Some(63), Some(64), Some(4999), None]
        );
        (0..4998).for_each(|number| rooms.take(number, &[1]));
        assert_eq!(rooms.having[0][0].inhabited, [0, 1 << (4998 / 64 - 64)], "words without members are told apart");
        assert_eq!(rooms.next(0, &[1], &none), Some(4998));
        rooms.set(300, [1].into_iter());
        assert_eq!([0, 301].map(|from| rooms.next(from, &[1], &none)), [Some(300), Some(4998)]);
        assert_eq!(rooms.next(0, &[], &none), Some(0), "who asks for nothing fits anywhere");
    }

    proptest! {
        #[test]
        fn the_next_place_is_the_one_that_a_walk_would_find(
            rows in proptest::collection::vec((-2..9_i64, -2..9_i64), 0..700),
            changes in proptest::collection::vec((0..700_usize, -2..9_i64, -2..9_i64), 0..40),
            closed in proptest::collection::vec((0..700_usize, proptest::sample::select(&[1_usize, 1, 1, 70, 200][..])), 0..60),
            marked in proptest::collection::vec((0..10_i64, 0..10_i64), 0..20),
            wanted in (0..10_i64, 0..10_i64),
        ) {
            let marked: Vec<[i64; 2]> = marked.into_iter().map(|(a, b)| [a, b]).collect();
            let mut rooms = Rooms::new(&Marks::of(2, marked.iter().map(|amounts| &amounts[..])));
            rows.iter().for_each(|(a, b)| rooms.push(&[*a, *b]));
            let mut plain: Vec<[i64; 2]> = rows.iter().map(|(a, b)| [*a, *b]).collect();
            for (number, a, b) in changes.into_iter().filter(|(number, ..)| *number < rows.len()) {
                rooms.set(number, [a, b].into_iter());
                rooms.take(number, &[1, 0]);
                plain[number] = [a - 1, b];
            }
            let closed: Bits = closed.into_iter().flat_map(|(first, count)| first..first + count).collect();
            let wanted = [wanted.0, wanted.1];
            let fits = |number: &usize| has_room(&plain[*number], &wanted) && !closed.contains(*number);
            let mut found = Vec::new();
            while let Some(number) = rooms.next(found.last().map_or(0, |last| last + 1), &wanted, &closed) {
                found.push(number);
            }
            prop_assert_eq!(found, (0..plain.len()).filter(fits).collect::<Vec<_>>());
        }
    }
}
