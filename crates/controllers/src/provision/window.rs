//! When to stop gathering pods and decide.
//!
//! The reference waits until nothing has arrived for the idle time, however long the gaps between arrivals were. Most of that
//! time is spent on waiting for nobody. Here the silence that ends a window is measured by the window's own arrivals: several
//! times their usual gap, and never more than the operator's idle time. A stream is let run to its silence: planned in pieces, a
//! Deployment gets more machines than it needs. While it lasts there is a pass now and then for machines that are full already
//! and for pods that have waited for the operator's greatest length. A silence means nothing while there are new pods that the
//! scheduler has not judged yet: it is the scheduler that is slow. Decisions 0034 and 0036.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::ids::Uid;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::failpoint;

/// Silence after a few arrivals.
const LEAST_QUIET: Duration = Duration::from_millis(50);
/// Silence after a stream. Whoever makes many pods makes them in bursts, with pauses far longer than the gaps within.
const STREAM_QUIET: Duration = Duration::from_millis(200);
/// A silence was none if somebody calls within so much of the operator's idle time after it; then the next must be longer.
const DOUBTFUL: u32 = 2;
/// So many arrivals are a stream.
const STREAM: usize = 8;
/// So many make it a large one, twice as many twice as large.
const LARGE: usize = 500;
/// So many usual gaps of silence mean that it is over.
const GAPS: u32 = 6;

/// Who has come so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gathered {
    /// Those who will, as far as anybody can tell.
    All(usize),
    /// Many, and more are on their way.
    Some(usize),
}

impl Gathered {
    pub(crate) fn expects_more(self) -> bool {
        matches!(self, Self::Some(_))
    }
}

/// What the operator allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) idle: Duration,
    pub(crate) max: Duration,
}

/// Calls to plan, gathered until it is time. Copies are one and the same.
#[derive(Clone, Default)]
pub(crate) struct Calls(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    arrived: Notify,
}

#[derive(Default)]
struct State {
    /// Who has called in this window; calling twice is calling once.
    seen: BTreeSet<Uid>,
    first: Option<Instant>,
    last: Option<Instant>,
    /// How many had called at the last look at a stream, and when that was.
    looked: Option<(usize, Instant)>,
    /// When to plan in any case.
    again: Option<Instant>,
    /// When the last stream was thought to have ended, and after which silence.
    ended: Option<(Instant, Duration)>,
}

impl Calls {
    pub(crate) fn push(&self, caller: Uid) {
        let mut state = self.lock();
        if state.seen.insert(caller) {
            let now = Instant::now();
            let is_first = state.first.is_none();
            state.first.get_or_insert(now);
            state.last = Some(now);
            drop(state);
            failpoint::reach("pod-seen");
            if is_first {
                self.0.arrived.notify_one();
            }
        }
    }

    /// Wants a plan after this time, if nobody calls before.
    pub(crate) fn again_after(&self, delay: Duration) {
        let due = Instant::now() + delay;
        let mut state = self.lock();
        state.again = Some(state.again.map_or(due, |earlier| earlier.min(due)));
        drop(state);
        self.0.arrived.notify_one();
    }

    /// Waits for calls and then for the end of their window, which begins a new one. Says how many called. While more are
    /// coming, as far as anybody knows, a silence ends a window only if it is as long as the idle time. A stream is told of
    /// each time that it is older by the idle time; its window stays open.
    pub(crate) async fn gathered(&self, limits: Limits, are_more_coming: impl Fn() -> bool) -> Gathered {
        loop {
            let (due, latest, early) = {
                let state = self.lock();
                match state.closing(limits) {
                    Some(Closing { due, latest }) => (Some(due), Some(latest), state.early(limits)),
                    None => (state.again, None, None),
                }
            };
            let now = Instant::now();
            let is_going_on = || latest.is_some_and(|latest| now < latest) || due.is_some_and(|due| now < due);
            if early.is_some_and(|early| early <= now) && is_going_on() {
                let mut state = self.lock();
                let count = state.seen.len();
                state.looked = Some((count, now));
                return Gathered::Some(count);
            }
            match due {
                Some(due) if due <= now => {
                    if let Some(latest) = latest.filter(|latest| now < *latest && are_more_coming()) {
                        tokio::time::sleep_until(latest.min(now + LEAST_QUIET)).await;
                        continue;
                    }
                    let mut state = self.lock();
                    let ended = state.ended_now(limits, now);
                    let calls = std::mem::replace(&mut *state, State { ended, ..State::default() });
                    return Gathered::All(calls.seen.len());
                }
                // Arrivals only move the end, so there is nothing to hear until it has come.
                Some(due) if latest.is_some() => {
                    tokio::time::sleep_until(early.map_or(due, |early| early.min(due))).await;
                }
                Some(due) => {
                    tokio::select! {
                        biased;
                        () = self.0.arrived.notified() => {}
                        () = tokio::time::sleep_until(due) => {}
                    }
                }
                None => self.0.arrived.notified().await,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When a window closes.
struct Closing {
    due: Instant,
    /// The same while more are coming.
    latest: Instant,
}

impl State {
    /// When to look at a stream that has not ended, if there is anything new to see.
    fn early(&self, limits: Limits) -> Option<Instant> {
        let (known, since) = self.looked.map_or((0, self.first?), |(known, at)| (known, at));
        (self.seen.len() >= known + STREAM).then(|| since + limits.idle.min(limits.max))
    }

    /// The shortest silence that counts. Whoever makes pods may be held up; if the last silence was such a pause, the next one
    /// must be twice as long.
    fn least_quiet(&self, limits: Limits) -> Duration {
        let least = match self.seen.len() {
            ..STREAM => LEAST_QUIET,
            // The longer the stream, the longer its pauses, and the less it matters when the last of it is planned for.
            many => STREAM_QUIET * u32::try_from(many / LARGE).unwrap_or(u32::MAX).max(1),
        };
        let resumed = self.ended.zip(self.first).filter(|((at, _), first)| *first < *at + limits.idle * DOUBTFUL);
        resumed.map_or(least, |((_, quiet), _)| least.max(quiet * 2))
    }

    /// What is remembered of a stream that seems to be over.
    fn ended_now(&self, limits: Limits, now: Instant) -> Option<(Instant, Duration)> {
        let is_stream = self.seen.len() >= STREAM;
        is_stream.then(|| (now, self.least_quiet(limits))).or(self.ended)
    }

    fn closing(&self, limits: Limits) -> Option<Closing> {
        let (first, last) = (self.first?, self.last?);
        let gaps = u32::try_from(self.seen.len().saturating_sub(1)).unwrap_or(u32::MAX).max(1);
        let usual_gap = last.duration_since(first) / gaps;
        let quiet = (usual_gap * GAPS).max(self.least_quiet(limits)).min(limits.idle);
        // Who has waited for long enough is looked after while a stream goes on, so only a look that does not come ends it.
        let end = self.looked.map_or(first, |(_, at)| at) + limits.max;
        Some(Closing { due: end.min(last + quiet), latest: end.min(last + limits.idle) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { idle: Duration::from_secs(1), max: Duration::from_secs(10) };

    fn caller(number: u64) -> Uid {
        Uid::from(number.to_string())
    }

    /// Calls at these milliseconds, and says after how many the window closed and whom it had.
    async fn window(limits: Limits, calls: &[(u64, u64)]) -> (u64, usize) {
        window_with(limits, calls, 0).await
    }

    /// The same while more are coming until some millisecond.
    async fn window_with(limits: Limits, calls: &[(u64, u64)], more_until: u64) -> (u64, usize) {
        let (gathered, start) = (Calls::default(), Instant::now());
        let calling = async {
            for (at, number) in calls {
                tokio::time::sleep_until(start + Duration::from_millis(*at)).await;
                gathered.push(caller(*number));
            }
        };
        let closing = async {
            let are_more_coming = || start.elapsed() < Duration::from_millis(more_until);
            loop {
                if let Gathered::All(count) = gathered.gathered(limits, are_more_coming).await {
                    return (u64::try_from(start.elapsed().as_millis()).unwrap(), count);
                }
            }
        };
        futures::join!(calling, closing).1
    }

    // 01/BAT-01
    #[tokio::test(start_paused = true)]
    async fn one_pod_alone_is_planned_for_at_once() {
        assert_eq!(window(LIMITS, &[(0, 1)]).await, (50, 1));
        let short = Limits { idle: Duration::from_millis(10), ..LIMITS };
        assert_eq!(window(short, &[(0, 1)]).await, (10, 1), "never later than the operator allows");
    }

    // 01/BAT-02
    #[tokio::test(start_paused = true)]
    async fn a_pod_that_calls_again_does_not_lengthen_the_window() {
        assert_eq!(window(LIMITS, &[(0, 1), (30, 1), (45, 1)]).await, (50, 1));
    }

    // 01/BAT-03
    #[tokio::test(start_paused = true)]
    async fn each_further_pod_moves_the_end_up_to_a_limit() {
        assert_eq!(window(LIMITS, &[(0, 1), (20, 2), (40, 3)]).await, (160, 3), "six times the usual gap of 20 ms");
        let steady: Vec<(u64, u64)> = (0..300).map(|number| (number * 10, number)).collect();
        assert_eq!(window(LIMITS, &steady).await, (3190, 300), "a stream is planned for as a whole");
        let endless: Vec<(u64, u64)> = (0..2000).map(|number| (number * 10, number)).collect();
        assert_eq!(window(LIMITS, &endless).await, (20_790, 2000), "large streams have longer pauses");
        let slow: Vec<(u64, u64)> = (0..30).map(|number| (number * 900, number)).collect();
        assert_eq!(window_with(LIMITS, &slow[..7], 60_000).await, (6400, 7));
        let few = Limits { max: Duration::from_secs(4), ..LIMITS };
        assert_eq!(window_with(few, &slow[..7], 60_000).await, (4000, 5), "the greatest length holds for every window");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_is_looked_at_while_it_lasts() {
        let (gathered, start) = (Calls::default(), Instant::now());
        let calling = async {
            for number in 0..250_u64 {
                tokio::time::sleep_until(start + Duration::from_millis(number * 10)).await;
                gathered.push(caller(number));
            }
        };
        let looking = async {
            let mut seen = Vec::new();
            loop {
                let found = gathered.gathered(LIMITS, || false).await;
                seen.push((start.elapsed().as_millis(), found));
                if let Gathered::All(_) = found {
                    return seen;
                }
            }
        };
        let seen = futures::join!(calling, looking).1;
        let expected = [(1000, Gathered::Some(101)), (2000, Gathered::Some(201)), (2690, Gathered::All(250))];
        assert_eq!(seen, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_within_a_stream_does_not_end_it() {
        let bursts: Vec<(u64, u64)> = (0..60).map(|number| ((number / 20) * 190 + number % 20, number)).collect();
        assert_eq!(window(LIMITS, &bursts).await, (599, 60));
        let few = &bursts[18..22];
        assert_eq!(window(LIMITS, few).await, (69, 2), "a few pods are not waited for as long as many");
        let short = Limits { idle: Duration::from_millis(100), ..LIMITS };
        assert_eq!(window(short, &bursts).await, (119, 20), "never longer than the operator allows");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silence_that_was_none_makes_the_next_one_longer() {
        let (gathered, start) = (Calls::default(), Instant::now());
        let calling = async {
            // Ten at a time, with pauses of 300 ms.
            for number in 0..40_u64 {
                tokio::time::sleep_until(start + Duration::from_millis((number / 10) * 300 + number % 10)).await;
                gathered.push(caller(number));
            }
            tokio::time::sleep_until(start + Duration::from_secs(60)).await;
            (40..50_u64).for_each(|number| gathered.push(caller(number)));
        };
        let looking = async {
            let mut seen = Vec::new();
            while seen.len() < 3 {
                if let Gathered::All(count) = gathered.gathered(LIMITS, || false).await {
                    seen.push((start.elapsed().as_millis(), count));
                }
            }
            seen
        };
        let seen = futures::join!(calling, looking).1;
        assert_eq!(seen, [(209, 10), (1309, 30), (60_200, 10)], "after a minute nobody remembers");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silence_means_little_while_more_are_coming() {
        assert_eq!(
            window_with(LIMITS, &[(0, 1), (400, 2)], 420).await,
            (1400, 2),
            "six gaps of 400 ms, at most a second"
        );
        assert_eq!(window_with(LIMITS, &[(0, 1)], 420).await, (450, 1), "all that came have come");
        assert_eq!(window_with(LIMITS, &[(0, 1)], 5000).await, (1000, 1), "nobody waits longer than the idle time");
        let hasty = Limits { max: Duration::from_millis(200), ..LIMITS };
        assert_eq!(window_with(hasty, &[(0, 1)], 5000).await, (200, 1), "nor longer than the greatest length");
    }

    #[tokio::test(start_paused = true)]
    async fn calls_during_a_pass_open_the_next_window() {
        let calls = Calls::default();
        calls.push(caller(1));
        assert_eq!(calls.gathered(LIMITS, || false).await, Gathered::All(1));
        calls.push(caller(1));
        calls.push(caller(2));
        assert_eq!(calls.gathered(LIMITS, || false).await, Gathered::All(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_plan_that_is_wanted_later_comes_later_or_with_the_next_call() {
        let (calls, start) = (Calls::default(), Instant::now());
        calls.again_after(Duration::from_secs(10));
        calls.again_after(Duration::from_secs(20));
        assert_eq!((calls.gathered(LIMITS, || false).await, start.elapsed().as_secs()), (Gathered::All(0), 10));
        calls.again_after(Duration::from_secs(10));
        calls.push(caller(1));
        assert_eq!((calls.gathered(LIMITS, || false).await, start.elapsed().as_secs()), (Gathered::All(1), 10));
    }
}
