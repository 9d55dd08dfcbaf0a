//! All ways to fill a small machine with whole pods.

use super::problem::{Class, Filling, Machine};

/// A machine with more ways than this counts as large, and is filled with fractions: there a fraction of a pod matters little.
const FILLINGS_MAX: usize = 1_000;
const STEPS_MAX: usize = 20_000;

/// The fillings to which no pod can be added; `None` when there are too many.
pub(super) fn all(machine: &Machine, classes: &[Class]) -> Option<Vec<Filling>> {
    let mut order: Vec<usize> = machine.suits.iter().copied().collect();
    // Large pods first, so that what is left soon holds nothing.
    order.sort_by(|a, b| classes[*b].asks.cmp(&classes[*a].asks));
    let mut search =
        Search { classes, order: &order, left: machine.has.clone(), chosen: Vec::new(), found: Vec::new(), steps: 0 };
    search.go(0).then_some(search.found)
}

struct Search<'a> {
    classes: &'a [Class],
    order: &'a [usize],
    left: Vec<i64>,
    chosen: Filling,
    found: Vec<Filling>,
    steps: usize,
}

impl Search<'_> {
    /// Whether all ways were seen.
    fn go(&mut self, depth: usize) -> bool {
        self.steps += 1;
        if self.steps > STEPS_MAX || self.found.len() > FILLINGS_MAX {
            return false;
        }
        let Some(class) = self.order.get(depth).copied() else {
            if self.is_full() {
                self.found.push(self.chosen.clone());
            }
            return true;
        };
        let most = self.room_for(class).min(self.classes[class].pods);
        for count in (0..=most).rev() {
            self.take(class, count);
            let is_whole = self.go(depth + 1);
            self.take(class, -count);
            if !is_whole {
                return false;
            }
        }
        true
    }

    /// Puts so many pods in, or takes them out again.
    fn take(&mut self, class: usize, count: i64) {
        if count > 0 {
            self.chosen.push((class, count));
        } else if count < 0 {
            self.chosen.pop();
        }
        let asks = &self.classes[class].asks;
        self.left.iter_mut().zip(asks).for_each(|(left, ask)| *left -= count * ask);
    }

    fn room_for(&self, class: usize) -> i64 {
        let asks = self.left.iter().zip(&self.classes[class].asks).filter(|(_, ask)| **ask > 0);
        asks.map(|(left, ask)| left / ask).min().unwrap_or(0)
    }

    /// Whether no pod can be added that there is.
    fn is_full(&self) -> bool {
        let used = |class: usize| self.chosen.iter().find(|(known, _)| *known == class).map_or(0, |(_, count)| *count);
        self.order.iter().all(|class| self.room_for(*class) == 0 || used(*class) >= self.classes[*class].pods)
    }
}
