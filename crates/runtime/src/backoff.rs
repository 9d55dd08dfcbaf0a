//! How long to leave something alone that has just failed.

use std::time::Duration;

use crate::rng::Rng;

/// Twice as long after every failure, up to a cap. Chance only ever shortens the wait, so the cap is a promise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// The wait after the first failure.
    pub first: Duration,
    pub cap: Duration,
    /// The share of a wait that chance may take away, from 0 (always the whole wait) to 1 (anything down to none).
    pub jitter: f64,
}

impl Backoff {
    /// Without jitter.
    pub const fn new(first: Duration, cap: Duration) -> Self {
        Self { first, cap, jitter: 0.0 }
    }

    pub const fn with_jitter(self, jitter: f64) -> Self {
        Self { jitter, ..self }
    }

    /// The wait after so many failures in a row.
    pub fn delay(&self, failures: u32, rng: &Rng) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
        let factor = 2_u32.checked_pow(doublings).unwrap_or(u32::MAX);
        let whole = self.first.saturating_mul(factor).min(self.cap);
        if self.jitter > 0.0 { whole.mul_f64(1.0 - self.jitter.min(1.0) * rng.unit()) } else { whole }
    }
}

/// A back-off that counts the failures of one thing.
#[derive(Clone, Debug)]
pub struct Retry {
    backoff: Backoff,
    rng: Rng,
    failures: u32,
}

impl Retry {
    pub fn new(backoff: Backoff, rng: Rng) -> Self {
        Self { backoff, rng, failures: 0 }
    }

    /// How often it has failed since it last worked.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Counts one more failure and says how long to wait.
    pub fn failed(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.backoff.delay(self.failures, &self.rng)
    }

    pub fn succeeded(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));

    #[test]
    fn waits_double_up_to_the_cap_and_start_again_after_a_success() {
        let mut retry = Retry::new(BACKOFF, Rng::new(1));
        let mut waits = || (0..6).map(|_| retry.failed().as_millis()).collect::<Vec<_>>();
        assert_eq!(waits(), [100, 200, 400, 800, 1000, 1000]);
        assert_eq!(waits(), [1000; 6]);
        retry.succeeded();
        assert_eq!((retry.failures(), retry.failed().as_millis()), (0, 100));
    }

    #[test]
    fn extreme_numbers_are_no_problem() {
        assert_eq!(BACKOFF.delay(0, &Rng::new(1)), Duration::ZERO);
        assert_eq!(BACKOFF.delay(u32::MAX, &Rng::new(1)), BACKOFF.cap);
        let endless = Backoff::new(Duration::MAX, Duration::MAX);
        assert_eq!(endless.delay(9, &Rng::new(1)), Duration::MAX);
    }

    #[test]
    fn jitter_shortens_and_follows_the_seed() {
        let backoff = BACKOFF.with_jitter(0.5);
        let waits = |seed| {
            let rng = Rng::new(seed);
            (1..20).map(|failures| backoff.delay(failures, &rng)).collect::<Vec<_>>()
        };
        assert_eq!(waits(7), waits(7));
        assert_ne!(waits(7), waits(8));
        for (failures, wait) in (1..20).zip(waits(7)) {
            let whole = BACKOFF.delay(failures, &Rng::new(1));
            assert!(wait <= whole && wait >= whole / 2, "{wait:?} of {whole:?}");
        }
    }
}
