//! Second thoughts. When pods are left without a place, the plan is made again, otherwise: first with them before their
//! equals, then with some pods passing over the places that they would have taken. The order of attempts is fixed, so equal
//! questions still get equal answers.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use super::claims::Claim;
use super::greedy::{Greedy, Habits, has_room};
use super::lift::{Constraint, Lift};
use super::outlook::Stock;

/// Most attempts; each is a whole plan.
const MOST_ATTEMPTS: u64 = 400;

/// Steps that may be spent on top of what the first plan took.
const SPARE_STEPS: u64 = 10_000;

/// So many attempts only move the pods without a place up; after that others move too, and places are passed over.
const PLAIN_ATTEMPTS: u64 = 4;

/// The plan that seats the most, important pods first; of equals the first that was found.
pub(crate) fn improved<'w, 'a>(first: Greedy<'w, 'a>, effort: u64, cancel: &AtomicBool) -> Greedy<'w, 'a> {
    let mut steps = first.steps;
    let most = first.steps.saturating_mul(2).saturating_add(SPARE_STEPS).min(effort);
    let mut best = first.seated();
    let mut habits = first.habits.clone();
    let mut left: Vec<bool> = first.seats.iter().map(Option::is_none).collect();
    let mut kept = first;
    for attempt in 0..MOST_ATTEMPTS {
        if steps >= most || cancel.load(Ordering::Relaxed) || !kept.has_hope() {
            break;
        }
        habits = next_habits(habits, &left, attempt);
        let mut next = kept.again(most - steps, habits.clone());
        let is_complete = next.run(cancel).is_ok();
        steps += next.steps;
        left = next.seats.iter().map(Option::is_none).collect();
        // Half a plan may seat more important pods and none of the others.
        if is_complete && next.seated() > best {
            best = next.seated();
            kept = next;
        }
    }
    kept.steps = steps;
    kept
}

impl Greedy<'_, '_> {
    /// The same world once more, with so much effort and other habits.
    fn again(&self, effort: u64, habits: Habits) -> Self {
        let mut again = Self::new(self.world, effort);
        again.habits = habits;
        again
    }

    /// Whether some pod without a seat has none because of other pods of the plan, not because of what it asks.
    /// Pods that wait for reserved machines get them in the next pass; nobody makes room for them by going elsewhere.
    fn has_hope(&self) -> bool {
        if self.deferred.contains(&true) {
            return false;
        }
        let mut looked: Vec<bool> = vec![false; self.classes.len()];
        (0..self.seats.len()).filter(|pod| self.seats[*pod].is_none()).any(|pod| {
            let class = self.class_of[pod];
            !std::mem::replace(&mut looked[class], true) && self.would_fit_alone(class)
        })
    }

    /// Whether a pod of this class would fit on some machine if it were the only one, whatever it wants of others.
    fn would_fit_alone(&self, number: usize) -> bool {
        let class = &self.classes[number];
        let last = class.least_demanding();
        let mut aside = vec![Constraint::Domains];
        aside.extend(class.unwanted.iter().map(|rule| Constraint::Unwanted(rule.group())));
        aside.extend((0..class.rungs[last].rules.len()).map(Constraint::Rule));
        let lift = Lift::of(&aside);
        let (view, candidate) = (self.view(&lift), self.candidate(number, last, self.claims.len()));
        let fits = |template: usize| {
            let claim = Claim::new(self.world, &self.outlooks, template, Stock::OnSale);
            claim.is_some_and(|claim| view.narrow(&claim, candidate).is_ok())
        };
        (0..self.world.templates.len()).any(fits)
            || self.world.sites.iter().any(|site| site.takes_pods && has_room(&site.free, &class.requests))
    }

    /// How many pods are seated, by priority, most important first.
    fn seated(&self) -> Vec<usize> {
        let mut levels: BTreeMap<Reverse<i32>, usize> = BTreeMap::new();
        for (pod, seat) in self.world.pods.iter().zip(&self.seats) {
            *levels.entry(Reverse(pod.priority)).or_default() += usize::from(seat.is_some());
        }
        levels.into_values().collect()
    }
}

/// What to do otherwise this time.
fn next_habits(before: Habits, left: &[bool], attempt: u64) -> Habits {
    let boosts = before.boosts.iter().zip(left).map(|(boost, left)| boost + u32::from(*left));
    if attempt < PLAIN_ATTEMPTS {
        return Habits { boosts: boosts.collect(), skips: vec![0; left.len()] };
    }
    let boosts = boosts.enumerate().map(|(pod, boost)| boost + drawn(attempt, pod, Draw::Boost));
    let skips = (0..left.len()).map(|pod| drawn(attempt, pod, Draw::Skip) as usize);
    Habits { boosts: boosts.collect(), skips: skips.collect() }
}

#[derive(Clone, Copy)]
enum Draw {
    Boost = 0,
    Skip = 1,
}

/// Half the time nothing, else a few. The same for the same attempt and pod.
fn drawn(attempt: u64, pod: usize, draw: Draw) -> u32 {
    let mixed = (attempt << 33 | (pod as u64) << 1 | draw as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40;
    (mixed % 8).saturating_sub(3) as u32
}
