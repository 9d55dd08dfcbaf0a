//! Which nodes are broken, and whether so many are that repair would do more harm than good.
//!
//! A cloud says which conditions mean that a machine is broken, and how long that is put up with. When more than a fifth of
//! all is broken, the fault is hardly in the machines: nothing is replaced then.

#[cfg(test)]
mod tests;

use std::time::Duration;

use model::claim::{Status, Verdict};
use model::time::Instant;

/// The part of a pool, or of a cluster, that may be broken at once, in hundredths; rounded up to whole nodes.
const MOST_BROKEN: usize = 20;

/// A condition that means that a machine is broken, once it has lasted long enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy<'a> {
    pub condition: &'a str,
    pub status: Status,
    pub toleration: Duration,
}

/// What a node says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symptom<'a> {
    pub condition: &'a str,
    pub verdict: Verdict,
}

/// What is wrong with a node, and when that is put up with no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ailment<'a> {
    pub condition: &'a str,
    pub due: Instant,
}

/// How many nodes are broken, of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ward {
    pub broken: usize,
    pub all: usize,
}

/// What is wrong with a node; of several ailments the one whose time is up first.
pub fn ailment<'a>(symptoms: &[Symptom<'a>], policies: &[Policy<'_>]) -> Option<Ailment<'a>> {
    let ailments = symptoms.iter().flat_map(|symptom| {
        let meant = policies.iter().filter(|policy| policy.condition == symptom.condition);
        let broken = meant.filter(|policy| policy.status == symptom.verdict.status);
        broken
            .map(|policy| Ailment { condition: symptom.condition, due: symptom.verdict.since.plus(policy.toleration) })
    });
    ailments.min_by_key(|ailment| ailment.due)
}

/// Whether so many are broken that none is replaced.
pub fn is_epidemic(ward: Ward) -> bool {
    ward.broken > (ward.all * MOST_BROKEN).div_ceil(100)
}
