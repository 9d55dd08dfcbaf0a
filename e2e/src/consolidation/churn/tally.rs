//! What a stretch of time came to: a price by how long it held, and the worst moment.

use std::time::Instant;

use super::super::seen::Seen;

/// How a cluster is at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Level {
    pub(super) dollars_per_hour: f64,
    pub(super) ready: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Tally {
    begun: Instant,
    /// Since then the cluster is as it is now.
    since: Instant,
    level: Level,
    /// Of the time until then: dollars per hour, times seconds.
    paid: f64,
    fewest_ready: usize,
}

impl Level {
    pub(super) fn of(seen: &Seen) -> Self {
        Self { dollars_per_hour: seen.dollars_per_hour(), ready: seen.ready() }
    }
}

impl Tally {
    pub(super) fn begin(now: Instant, level: Level) -> Self {
        Self { begun: now, since: now, level, paid: 0.0, fewest_ready: level.ready }
    }

    /// From now on the cluster is like this.
    pub(super) fn see(&mut self, now: Instant, level: Level) {
        self.paid = self.paid_until(now);
        self.fewest_ready = self.fewest_ready.min(level.ready);
        (self.since, self.level) = (now, level);
    }

    pub(super) fn fewest_ready(&self) -> usize {
        self.fewest_ready
    }

    /// What an hour cost on average.
    pub(super) fn average_dollars_per_hour(&self, now: Instant) -> f64 {
        let seconds = now.saturating_duration_since(self.begun).as_secs_f64();
        if seconds > 0.0 { self.paid_until(now) / seconds } else { self.level.dollars_per_hour }
    }

    fn paid_until(&self, now: Instant) -> f64 {
        self.paid + self.level.dollars_per_hour * now.saturating_duration_since(self.since).as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn level(dollars_per_hour: f64, ready: usize) -> Level {
        Level { dollars_per_hour, ready }
    }

    #[test]
    fn a_price_weighs_as_much_as_the_time_that_it_held() {
        let begun = Instant::now();
        let after = |seconds: u64| begun + Duration::from_secs(seconds);
        let mut tally = Tally::begin(begun, level(2.0, 60));
        tally.see(after(10), level(5.0, 58));
        // The same price once more changes nothing.
        tally.see(after(12), level(5.0, 59));
        tally.see(after(20), level(1.0, 60));
        // 20 for the first ten seconds, 50 for the next ten, 20 for the last twenty.
        assert!((tally.average_dollars_per_hour(after(40)) - 2.25).abs() < 1e-9, "{tally:?}");
        assert_eq!(tally.fewest_ready(), 58);
    }

    #[test]
    fn no_time_costs_what_the_cluster_costs() {
        let begun = Instant::now();
        let tally = Tally::begin(begun, level(2.0, 60));
        assert!((tally.average_dollars_per_hour(begun) - 2.0).abs() < 1e-9, "{tally:?}");
        assert_eq!(tally.fewest_ready(), 60);
    }
}
