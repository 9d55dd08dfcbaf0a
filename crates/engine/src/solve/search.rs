//! Second thoughts. When pods are left without a place, the plan is made again, otherwise: first with them before their
//! equals, then with some pods passing over the places that they would have taken. The order of attempts is fixed, so equal
//! questions still get equal answers.

use std::sync::atomic::AtomicBool;

use super::greedy::{Greedy, Habits};

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
        if !kept.has_hope() || steps >= most {
            break;
        }
        habits = next_habits(habits, &left, attempt);
        let mut next = kept.again(most - steps, habits.clone());
        next.run(cancel);
        steps += next.steps;
        left = next.seats.iter().map(Option::is_none).collect();
        if next.seated() > best {
            best = next.seated();
            kept = next;
        }
    }
    kept.steps = steps;
    kept
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

/// Mostly nothing; now and then a few. The same for the same attempt and pod.
fn drawn(attempt: u64, pod: usize, draw: Draw) -> u32 {
    let mixed = (attempt << 33 | (pod as u64) << 1 | draw as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40;
    (mixed % 8).saturating_sub(3) as u32
}
