//! What time it is. Waiting is tokio's business; this is for timestamps that others will read.

use jiff::Timestamp;
use tokio::time::Instant;

/// The only reader of the wall clock. The simulator gives out one that moves with tokio's time, so that a paused clock
/// stands still here as well and a simulated day has the same timestamps on every run.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    Wall,
    Virtual { epoch: Timestamp, started: Instant },
}

impl Clock {
    pub fn wall() -> Self {
        Self(Source::Wall)
    }

    /// A clock that shows `epoch` now and runs with tokio's time from here on. Call it inside the runtime whose time it
    /// is to follow.
    pub fn virtual_from(epoch: Timestamp) -> Self {
        Self(Source::Virtual { epoch, started: Instant::now() })
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock that everybody else is told to ask")]
    pub fn now(&self) -> Timestamp {
        match self.0 {
            Source::Wall => Timestamp::now(),
            // Beyond the year 9999 time stands still, which no simulation will notice.
            Source::Virtual { epoch, started } => {
                epoch.checked_add(Instant::now().duration_since(started)).unwrap_or(Timestamp::MAX)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn virtual_time_moves_only_with_tokios() {
        let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let clock = Clock::virtual_from(epoch);
        let copy = clock.clone();
        assert_eq!(clock.now(), epoch);
        tokio::time::sleep(Duration::from_secs(86_400)).await;
        assert_eq!(clock.now(), "2026-01-02T00:00:00Z".parse().unwrap());
        assert_eq!(copy.now(), clock.now());
    }

    #[tokio::test(start_paused = true)]
    async fn virtual_time_ends_without_a_panic() {
        let clock = Clock::virtual_from(Timestamp::MAX);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(clock.now(), Timestamp::MAX);
    }

    #[test]
    fn the_wall_clock_shows_a_plausible_year() {
        assert!(Clock::wall().now() > "2025-01-01T00:00:00Z".parse().unwrap());
    }
}
