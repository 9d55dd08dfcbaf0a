//! A mark that changes whenever disruption should be thought about again, and from time to time in any case.

use std::time::Duration;

use model::time::Instant;

/// So long after the last disturbance what was thought to disturb nobody is looked at all the same.
const LONGEST_QUIET: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub(super) struct Quiet {
    mark: u64,
    since: Instant,
}

impl Quiet {
    pub(super) fn new(now: Instant) -> Self {
        Self { mark: 0, since: now }
    }

    /// Since the last disturbance, or since the beginning.
    pub(super) fn since(&self) -> Instant {
        self.since
    }

    pub(super) fn disturb(&mut self, now: Instant) {
        self.mark += 1;
        self.since = now;
    }

    pub(super) fn mark(&mut self, now: Instant) -> u64 {
        if now.since(self.since) >= LONGEST_QUIET {
            self.disturb(now);
        }
        self.mark
    }
}
