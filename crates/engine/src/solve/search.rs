//! Second thoughts. When pods are left without a place, the plan is made again, otherwise: first with them before their
//! equals, then with some pods passing over the places that they would have taken. The order of attempts is fixed, so equal
//! questions still get equal answers.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use super::bits::Bits;
use super::claims::{Claim, View};
use super::greedy::{Greedy, Habits};
use super::lift::{Constraint, Lift};
use super::outlook::Stock;
use super::topology::{Ground, Rule, Spot, Weighed};

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
    // Beginning anew clears counters and memories of all of these, which is work as well.
    let fresh = (first.world.pods.len() + first.world.sites.len() + first.topology.groups.len()) as u64;
    let mut has_hope = first.has_hope(most, &mut steps, cancel);
    let mut kept = first;
    for attempt in 0..MOST_ATTEMPTS {
        if steps.saturating_add(fresh) > most || cancel.load(Ordering::Relaxed) || !has_hope {
            break;
        }
        steps += fresh;
        habits = next_habits(habits, &left, attempt);
        let mut next = kept.again(most - steps, habits.clone());
        let is_complete = next.run(cancel).is_ok();
        steps += next.steps;
        left = next.seats.iter().map(Option::is_none).collect();
        // Half a plan may seat more important pods and none of the others.
        if is_complete && next.seated() > best {
            best = next.seated();
            has_hope = next.has_hope(most, &mut steps, cancel);
            kept = next;
        }
    }
    kept.steps = steps;
    kept
}

impl Greedy<'_, '_> {
    /// The same world once more, with so much effort and other habits.
    pub(super) fn again(&self, effort: u64, habits: Habits) -> Self {
        let (classes, class_of) = (self.classes.clone(), self.class_of.clone());
        let mut again = Self::begin(self.world, classes, class_of, self.start.clone(), effort);
        (again.habits, again.outlooks) = (habits, self.outlooks.clone());
        again
    }

    /// Whether some pod without a seat has none because of other pods of the plan, not because of what it asks. Each place
    /// that is looked at is a step.
    /// Pods that wait for reserved machines get them in the next pass; nobody makes room for them by going elsewhere.
    fn has_hope(&self, most: u64, steps: &mut u64, cancel: &AtomicBool) -> bool {
        if self.deferred.contains(&true) {
            return false;
        }
        let mut looked: Vec<bool> = vec![false; self.classes.len()];
        let mut left = (0..self.seats.len()).filter(|pod| self.seats[*pod].is_none()).peekable();
        if left.peek().is_none() {
            return false;
        }
        let coming: Bits = self.classes.iter().flat_map(|class| class.footprint.counted_in.iter().copied()).collect();
        let mut may_look = || {
            let is_allowed = *steps < most && !cancel.load(Ordering::Relaxed);
            *steps += u64::from(is_allowed);
            is_allowed
        };
        left.any(|pod| {
            let class = self.class_of[pod];
            !std::mem::replace(&mut looked[class], true) && self.would_fit_alone(class, &coming, &mut may_look)
        })
    }

    /// Whether a pod of this class would fit somewhere if nobody else of the plan were there and nothing of the limits were
    /// spent on it. Company that is asked for may come, and spreads may even out; but company that nobody asks for will not, and
    /// who must keep away from a pod that stands already will have to in every plan. `coming` are the groups that count pods of the
    /// question.
    fn would_fit_alone(&self, number: usize, coming: &Bits, may_look: &mut impl FnMut() -> bool) -> bool {
        let class = &self.classes[number];
        if class.pod.wants.has_resource_claims {
            return false;
        }
        let last = class.least_demanding();
        let rung = &class.rungs[last];
        let mut aside = vec![Constraint::Domains];
        let may_change = |rule: &Rule| match rule {
            Rule::Spread { .. } => true,
            Rule::Near { group, .. } => coming.contains(*group),
            Rule::Far { .. } | Rule::Unwanted { .. } => false,
        };
        let about_others = rung.rules.iter().enumerate().filter(|(_, rule)| may_change(rule));
        aside.extend(about_others.map(|(number, _)| Constraint::Rule(number)));
        let lift = Lift::of(&aside);
        let candidate = self.candidate(number, last, self.claims.len());
        let view = View { topology: &self.start.0, limits: &self.start.1, ..self.view(&lift) };
        let takes = |template: usize| {
            let claim = Claim::new(self.world, &self.outlooks, template, Stock::OnSale);
            claim.is_some_and(|claim| view.narrow(&claim, candidate).is_ok())
        };
        let lasting = rung.rules.iter().chain(&class.unwanted).filter(|rule| !may_change(rule));
        let lasting: Vec<Weighed<'_>> = lasting.map(|rule| self.start.0.weighed(rule)).collect();
        let holds = |site: usize| {
            let spot = Spot { place: site, ground: Ground::Site(site), states: &self.world.sites[site].states };
            lasting.iter().all(|rule| rule.holds(&self.start.0, &spot))
        };
        let suits = |site: usize| self.world.sites[site].suits(class, rung, &self.world.sites[site].start);
        (0..self.world.templates.len()).any(|template| may_look() && takes(template))
            || (0..self.world.sites.len()).any(|site| may_look() && suits(site) && holds(site))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_left_moves_up_and_only_later_others_move_too() {
        let before = || Habits { boosts: vec![2, 0, 5], skips: vec![1, 1, 1] };
        let left = [true, true, false];
        for attempt in [0, PLAIN_ATTEMPTS - 1] {
            let next = next_habits(before(), &left, attempt);
            assert_eq!((next.boosts, next.skips), (vec![3, 1, 5], vec![0, 0, 0]), "attempt {attempt}");
        }
        for attempt in PLAIN_ATTEMPTS..40 {
            let next = next_habits(before(), &left, attempt);
            let boosts = [3, 1, 5].iter().enumerate().map(|(pod, boost)| boost + drawn(attempt, pod, Draw::Boost));
            assert_eq!(next.boosts, boosts.collect::<Vec<_>>());
            let skips = (0..3).map(|pod| drawn(attempt, pod, Draw::Skip) as usize);
            assert_eq!(next.skips, skips.collect::<Vec<_>>());
        }
    }

    /// Whether half of these are zero and the others one to four, each about as often.
    fn is_fair(draws: &[u32]) -> bool {
        let share = |wanted: u32| draws.iter().filter(|draw| **draw == wanted).count() as f64 / draws.len() as f64;
        (share(0) - 0.5).abs() < 0.08 && (1..=4).all(|few| (share(few) - 0.125).abs() < 0.06)
    }

    #[test]
    fn draws_are_fair_among_pods_and_among_attempts() {
        for draw in [Draw::Boost, Draw::Skip] {
            for attempt in [4, 5, 77, 399] {
                assert!(is_fair(&(0..1000).map(|pod| drawn(attempt, pod, draw)).collect::<Vec<_>>()), "{attempt}");
            }
            for pod in [0, 1, 2, 500] {
                assert!(is_fair(&(4..400).map(|attempt| drawn(attempt, pod, draw)).collect::<Vec<_>>()), "{pod}");
            }
        }
        let differ = (0..1000).filter(|pod| drawn(9, *pod, Draw::Boost) != drawn(9, *pod, Draw::Skip)).count();
        assert!(differ > 500, "{differ}");
    }
}
