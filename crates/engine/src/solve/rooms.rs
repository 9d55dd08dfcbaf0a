//! What is left in many numbered places, arranged so that the next one with enough room is found without asking all of them.
//!
//! Over the rows lie levels of blocks; a block knows the most that any of its rows has of each resource. A block in which
//! some resource is too scarce everywhere is passed over as a whole.

use super::bits::Bits;

/// How many rows, or blocks of the level below, make a block.
const WIDTH: usize = 16;

/// Rows of amounts, one for each place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rooms {
    axes: usize,
    count: usize,
    rows: Vec<i64>,
    /// By level, the most of each resource in each block.
    levels: Vec<Vec<i64>>,
}

impl Rooms {
    pub(crate) fn new(axes: usize) -> Self {
        Self { axes, ..Self::default() }
    }

    pub(crate) fn push(&mut self, row: &[i64]) {
        self.rows.extend_from_slice(row);
        self.count += 1;
        let (mut blocks, mut level) = (self.count, 0);
        while blocks > 1 || level == 0 {
            blocks = blocks.div_ceil(WIDTH);
            if self.levels.len() == level {
                self.levels.push(Vec::new());
            }
            self.levels[level].resize(blocks * self.axes, i64::MIN);
            level += 1;
        }
        self.settle(self.count - 1);
    }

    pub(crate) fn row(&self, number: usize) -> &[i64] {
        &self.rows[number * self.axes..(number + 1) * self.axes]
    }

    pub(crate) fn set(&mut self, number: usize, row: impl Iterator<Item = i64>) {
        let place = &mut self.rows[number * self.axes..(number + 1) * self.axes];
        place.iter_mut().zip(row).for_each(|(old, new)| *old = new);
        self.settle(number);
    }

    /// Takes so much from a row.
    pub(crate) fn take(&mut self, number: usize, amounts: &[i64]) {
        let place = &mut self.rows[number * self.axes..(number + 1) * self.axes];
        place.iter_mut().zip(amounts).for_each(|(left, taken)| *left = left.saturating_sub(*taken));
        self.settle(number);
    }

    /// Brings the blocks over a row up to date, as far up as something changes.
    fn settle(&mut self, number: usize) {
        let (axes, mut index) = (self.axes, number);
        for level in 0..self.levels.len() {
            index /= WIDTH;
            let (lower, upper) = self.levels.split_at_mut(level);
            let lower = lower.last().map_or(&*self.rows, |lower| &**lower);
            let rows = &lower[index * WIDTH * axes..((index + 1) * WIDTH * axes).min(lower.len())];
            let mut has_changed = false;
            for (axis, most) in upper[0][index * axes..(index + 1) * axes].iter_mut().enumerate() {
                let found = rows.iter().skip(axis).step_by(axes).copied().max().unwrap_or(i64::MIN);
                has_changed |= found != *most;
                *most = found;
            }
            if !has_changed {
                break;
            }
        }
    }

    /// The first place from a number on that has so much left and is in none of the closed sets. Who asks for nothing of a resource fits even
    /// where less than nothing is left.
    pub(crate) fn next<const N: usize>(&self, from: usize, wanted: &[i64], closed: [&Bits; N]) -> Option<usize> {
        let mut number = from;
        while number < self.count {
            match self.hopeless(number, wanted, closed) {
                0 => return Some(number),
                places => number += places,
            }
        }
        None
    }

    /// How many places from a number on are seen at one look to be closed or too small; none when the first is neither.
    fn hopeless<const N: usize>(&self, number: usize, wanted: &[i64], closed: [&Bits; N]) -> usize {
        match self.too_small(number, wanted) {
            Some(size) => size,
            None if number.is_multiple_of(64) && closed.iter().any(|closed| closed.is_word_full(number)) => 64,
            None => {
                let is_closed = closed.iter().any(|closed| closed.contains(number));
                usize::from(is_closed || !has_room(self.row(number), wanted))
            }
        }
    }

    /// How many rows the largest block has that begins at a number and has too little of something, if there is one.
    fn too_small(&self, number: usize, wanted: &[i64]) -> Option<usize> {
        let mut size = 1;
        let mut found = None;
        for level in &self.levels {
            size *= WIDTH;
            if !number.is_multiple_of(size) {
                break;
            }
            let block = number / size * self.axes;
            if !has_room(&level[block..block + self.axes], wanted) {
                found = Some(size);
            }
        }
        found
    }
}

/// Whether so much fits into what is left. Who asks for nothing fits even where less than nothing is left.
pub(crate) fn has_room(left: &[i64], wanted: &[i64]) -> bool {
    left.iter().zip(wanted).all(|(left, wanted)| *wanted <= 0 || wanted <= left)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// So many places with one unit each.
    fn alike(count: usize) -> Rooms {
        let mut rooms = Rooms::new(1);
        (0..count).for_each(|_| rooms.push(&[1]));
        rooms
    }

    #[test]
    fn many_places_that_are_closed_or_too_small_are_passed_over_at_one_look() {
        let rooms = alike(5000);
        let none = Bits::default();
        let at = |number: usize, wanted: i64, closed: &Bits| rooms.hopeless(number, &[wanted], [closed]);
        assert_eq!([0, 16, 17, 256, 4096].map(|number| at(number, 2, &none)), [65_536, 16, 1, 256, 4096]);
        assert_eq!([0, 17].map(|number| at(number, 1, &none)), [0, 0]);
        let closed: Bits = (64..200).collect();
        assert_eq!(
            [0, 63, 64, 65, 128, 192, 199, 200].map(|number| at(number, 1, &closed)),
            [0, 0, 64, 1, 64, 1, 1, 0]
        );
    }

    #[test]
    fn what_is_taken_shows_at_every_level() {
        let mut rooms = alike(600);
        (0..512).for_each(|number| rooms.take(number, &[1]));
        assert_eq!([0, 256, 512, 528].map(|number| rooms.hopeless(number, &[1], [&Bits::default()])), [256, 256, 0, 0]);
        rooms.set(300, [1].into_iter());
        assert_eq!([0, 256, 288].map(|number| rooms.hopeless(number, &[1], [&Bits::default()])), [256, 16, 1]);
        assert_eq!(rooms.next(0, &[1], [&Bits::default()]), Some(300));
    }

    #[test]
    fn a_block_knows_its_own_rows_and_no_others() {
        let mut rooms = Rooms::new(2);
        (0..16).for_each(|_| rooms.push(&[9, 9]));
        (0..16).for_each(|_| rooms.push(&[1, 9]));
        assert_eq!([0, 16].map(|number| rooms.hopeless(number, &[5, 5], [&Bits::default()])), [0, 16]);
    }

    proptest! {
        #[test]
        fn the_next_place_is_the_one_that_a_walk_would_find(
            rows in proptest::collection::vec((-2..9_i64, -2..9_i64), 0..700),
            changes in proptest::collection::vec((0..700_usize, -2..9_i64, -2..9_i64), 0..40),
            closed in proptest::collection::vec((0..700_usize, proptest::sample::select(&[1_usize, 1, 1, 70, 200][..])), 0..60),
            wanted in (0..10_i64, 0..10_i64),
        ) {
            let mut rooms = Rooms::new(2);
            rows.iter().for_each(|(a, b)| rooms.push(&[*a, *b]));
            let mut plain: Vec<[i64; 2]> = rows.iter().map(|(a, b)| [*a, *b]).collect();
            for (number, a, b) in changes.into_iter().filter(|(number, ..)| *number < rows.len()) {
                rooms.set(number, [a, b].into_iter());
                rooms.take(number, &[1, 0]);
                plain[number] = [a - 1, b];
            }
            let closed: Vec<usize> = closed.into_iter().flat_map(|(first, count)| first..first + count).collect();
            let (even, odd): (Vec<usize>, Vec<usize>) = closed.iter().partition(|number| **number % 128 < 64);
            let [closed, even, odd] = [closed, even, odd].map(|numbers| numbers.into_iter().collect::<Bits>());
            let wanted = [wanted.0, wanted.1];
            let fits = |number: &usize| has_room(&plain[*number], &wanted) && !closed.contains(*number);
            let mut found = Vec::new();
            while let Some(number) = rooms.next(found.last().map_or(0, |last| last + 1), &wanted, [&even, &odd]) {
                found.push(number);
            }
            prop_assert_eq!(found, (0..plain.len()).filter(fits).collect::<Vec<_>>());
        }
    }
}
