//! How often something may happen.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};
use tower::{Layer, Service};

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
        let has_token = self.until_token().is_none();
        if has_token {
            self.tokens -= 1.0;
        }
        has_token
    }

    /// How long it takes until there is a token; nothing when there is one.
    fn until_token(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let refill = now.duration_since(self.counted_at).as_secs_f64() * self.rate.per_second;
        self.tokens = (self.tokens + refill).min(f64::from(self.rate.burst));
        self.counted_at = now;
        // Refills are added up as fractions; without the margin ten tenths would fall short of one.
        let missing = (1.0 - self.tokens).max(0.0);
        (missing >= 1e-9).then(|| Duration::from_secs_f64(missing / self.rate.per_second))
    }
}

/// Holds calls of a service to a rate. After a full burst they go on one by one; tower's own layer would let nobody through
/// until the time of the whole burst is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PaceLayer(pub(crate) Rate);

impl<S> Layer<S> for PaceLayer {
    type Service = Pace<S>;

    fn layer(&self, inner: S) -> Pace<S> {
        // A rate of nothing would be a wait without an end.
        let rate = Rate { per_second: self.0.per_second.max(0.001), burst: self.0.burst.max(1) };
        Pace { inner, bucket: TokenBucket::new(rate), turn: None }
    }
}

#[derive(Debug)]
pub(crate) struct Pace<S> {
    inner: S,
    bucket: TokenBucket,
    /// When the next token comes, while somebody waits for it.
    turn: Option<Pin<Box<Sleep>>>,
}

impl<S: Service<R>, R> Service<R> for Pace<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        loop {
            if let Some(turn) = &mut self.turn {
                ready!(turn.as_mut().poll(cx));
                self.turn = None;
            }
            match self.bucket.until_token() {
                None => return self.inner.poll_ready(cx),
                Some(time) => self.turn = Some(Box::pin(tokio::time::sleep(time))),
            }
        }
    }

    fn call(&mut self, request: R) -> S::Future {
        self.bucket.try_take();
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use tower::{ServiceExt, service_fn};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn calls_beyond_a_burst_go_on_one_by_one() {
        let start = Instant::now();
        let answer = service_fn(|()| async move { Ok::<_, std::convert::Infallible>(start.elapsed().as_millis()) });
        let mut paced = PaceLayer(Rate { per_second: 100.0, burst: 3 }).layer(answer);
        let mut times = Vec::new();
        for _ in 0..6 {
            times.push(paced.ready().await.unwrap().call(()).await.unwrap());
        }
        assert_eq!(times, [0, 0, 0, 10, 20, 30]);
    }

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
