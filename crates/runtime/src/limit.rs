//! How often something may happen.

use tokio::time::Instant;

/// So many at once, and so many per second in the long run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    pub per_second: f64,
    pub burst: u32,
}

/// A bucket of tokens that starts full and is refilled at a steady rate.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    rate: Rate,
    tokens: f64,
    counted_at: Instant,
}

impl TokenBucket {
    pub fn new(rate: Rate) -> Self {
        Self { rate, tokens: f64::from(rate.burst), counted_at: Instant::now() }
    }

    /// Takes a token if there is one.
    pub fn try_take(&mut self) -> bool {
        let now = Instant::now();
        let refill = now.duration_since(self.counted_at).as_secs_f64() * self.rate.per_second;
        self.tokens = (self.tokens + refill).min(f64::from(self.rate.burst));
        self.counted_at = now;
        // Refills are added up as fractions; without the margin ten tenths would fall short of one.
        let has_token = self.tokens > 1.0 - 1e-9;
        if has_token {
            self.tokens -= 1.0;
        }
        has_token
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_followed_by_the_steady_rate() {
        let mut bucket = TokenBucket::new(Rate { per_second: 5.0, burst: 10 });
        let mut take = |tries: usize| (0..tries).filter(|_| bucket.try_take()).count();
        assert_eq!(take(20), 10);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(take(20), 5);
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(take(20), 10);
    }
}
