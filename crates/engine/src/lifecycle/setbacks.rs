//! How long the nodes of a pool may take to initialize, when others of the pool did not.
//!
//! A node that is given up is often made anew, and if the pool is to blame and not the machine, the next one fails as well. So
//! each generation of nodes gets twice the time of the one before it. Whoever registered before the last node was given up is
//! of an older generation, and keeps its time: many that fail together fail once.

use std::time::Duration;

use model::time::Instant;

/// The longest wait is the first one doubled so often.
const MOST_DOUBLINGS: usize = 6;

/// When each generation of a pool's nodes was found wanting, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setbacks(Vec<Instant>);

impl Setbacks {
    /// How long a node may take that registered then, where the first ones had this long.
    pub fn time_for(&self, registered: Instant, first: Duration) -> Duration {
        first.saturating_mul(1 << self.generation(registered).min(MOST_DOUBLINGS))
    }

    /// A node that registered then was given up.
    pub fn note(&mut self, registered: Instant, now: Instant) {
        let is_of_the_newest = self.generation(registered) == self.0.len();
        if is_of_the_newest && self.0.len() < MOST_DOUBLINGS {
            self.0.push(now);
        }
    }

    /// How many generations were given up before a node registered.
    fn generation(&self, registered: Instant) -> usize {
        self.0.iter().filter(|given_up| **given_up < registered).count()
    }
}
