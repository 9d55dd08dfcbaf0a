//! A packing, seated pod by pod under all rules.

use super::super::greedy::{Bid, Greedy, Habits, Seat};
use super::super::lift::Lift;
use super::{Bin, seats_in};

impl Greedy<'_, '_> {
    /// The plan with each pod where a packing puts it; `None` when some rule does not let it, or a wish would be given up.
    pub(super) fn replayed(&self, bins: &[Bin]) -> Option<Self> {
        let seats = seats_in(self, bins);
        let habits = Habits { boosts: Vec::new(), skips: Vec::new() };
        let mut next = self.again(u64::MAX, habits);
        // Claims get their numbers as they are opened.
        let mut opened: Vec<Option<usize>> = vec![None; bins.len()];
        for pod in &self.order {
            match seats[*pod]? {
                Seat::Site(site) => next.seat_at(*pod, site, self.rungs[*pod] + 1).then_some(())?,
                Seat::Claim(bin) => next.seat_again_on_claim(self, *pod, &bins[bin], &mut opened[bin])?,
            }
        }
        next.reached.clone_from(&self.reached);
        next.deferred.clone_from(&self.deferred);
        next.habits = self.habits.clone();
        Some(next)
    }

    fn seat_again_on_claim(&mut self, first: &Self, pod: usize, bin: &Bin, opened: &mut Option<usize>) -> Option<()> {
        let class = self.class_of[pod];
        for rung in 0..=first.rungs[pod] {
            let bid = Bid { pod, class, rung, is_choosy: false };
            if let Some(number) = *opened {
                let lift = Lift::default();
                let narrowed = self.view(&lift).narrow(&self.claims[number], self.candidate(class, rung, number));
                if let Ok(narrowing) = narrowed {
                    self.join(bid, number, narrowing);
                    return Some(());
                }
            } else if let Ok(mut claim) = self.open_claim(bid, bin.template, 0) {
                claim.goal = self.cheapest(&claim)?.machine;
                *opened = Some(self.claims.len());
                self.open(bid, claim);
                return Some(());
            }
        }
        None
    }
}
