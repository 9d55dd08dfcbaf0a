//! The shape that every duty has, and what runs it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cluster::Duty;
use runtime::error::with_causes;
use runtime::{Backoff, Next, Queue, Rng, RuntimeError, Stop, Tasks, queue};
use tracing::Instrument;

use crate::ctx::Ctx;
use crate::error::{ControllerError, Reaction};
use crate::metrics::TickResult;
use crate::settings::Settings;

/// How soon a conflict is looked at again. By then the watch has mostly shown what we did not know, and its wake-up call,
/// which may come sooner, is not waited for in vain.
const AFTER_CONFLICT: Duration = Duration::from_millis(50);
/// How often something is tried again that somebody else must change first.
const NOW_AND_THEN: Duration = Duration::from_secs(300);

/// A duty: one thing to look at, again and again.
pub trait Controller: Send + Sync + 'static {
    /// What it is about: a claim, a node, a pool; `()` for a duty about everything.
    type Key: Clone + fmt::Debug + Ord + Send + Sync + 'static;

    /// The reference's name for it, in logs and metrics.
    const NAME: &'static str;

    /// Whether a wake-up call of the store concerns it, and what about.
    fn wakes_for(call: &Duty) -> Option<Self::Key>;

    /// What to look at first, before anything has happened. A duty that works by the clock starts here.
    fn first_keys(&self) -> Vec<Self::Key> {
        Vec::new()
    }

    /// How many keys are worked on at a time. They share one task.
    fn workers(_settings: &Settings) -> usize {
        1
    }

    /// For keys whose tick failed.
    fn backoff() -> Backoff {
        Backoff::new(Duration::from_millis(100), Duration::from_secs(60))
    }

    /// One look at one key. The id is the same in logs, events and annotations.
    fn tick(
        &self,
        ctx: &Ctx,
        key: &Self::Key,
        id: &TickId,
    ) -> impl Future<Output = Result<Next, ControllerError>> + Send;
}

/// Tells one look at one key from all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TickId(String);

impl TickId {
    pub(crate) fn draw(rng: &Rng) -> Self {
        Self(rng.uuid())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TickId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

type Starter = Box<dyn FnOnce(&mut Tasks) + Send>;

/// The list of duties, ready to be started.
pub(crate) struct Duties {
    ctx: Arc<Ctx>,
    starters: Vec<Starter>,
}

impl Duties {
    pub(crate) fn new(ctx: Arc<Ctx>) -> Self {
        Self { ctx, starters: Vec::new() }
    }

    /// Adds a duty and signs it up for its wake-up calls. The queue is for whoever wakes it otherwise.
    pub(crate) fn add<C: Controller>(&mut self, controller: C) -> Queue<C::Key> {
        let queue = Queue::new(C::NAME, C::backoff(), self.ctx.rng.fork(C::NAME));
        let woken = queue.clone();
        self.ctx.wakers.add(move |call| {
            if let Some(key) = C::wakes_for(call) {
                woken.push(key);
            }
        });
        let (ctx, started) = (self.ctx.clone(), queue.clone());
        self.starters.push(Box::new(move |tasks| {
            let stop = tasks.stop();
            tasks.spawn(C::NAME, async move {
                run(&ctx, &controller, &started, &stop).await;
                Ok::<(), RuntimeError>(())
            });
        }));
        queue
    }

    pub(crate) fn spawn(self, tasks: &mut Tasks) {
        self.starters.into_iter().for_each(|start| start(tasks));
    }
}

async fn run<C: Controller>(ctx: &Ctx, controller: &C, queue: &Queue<C::Key>, stop: &Stop) {
    controller.first_keys().into_iter().for_each(|key| queue.push(key));
    let workers = C::workers(&ctx.settings);
    ctx.metrics.set_workers(C::NAME, workers);
    queue::run(queue, workers, stop, |key| async move {
        let id = ctx.tick_id();
        let span = tracing::info_span!("reconcile", controller = C::NAME, object = ?key, "reconcileID" = %id);
        let underway = ctx.metrics.begin_tick(C::NAME);
        let end = controller.tick(ctx, &key, &id).instrument(span.clone()).await;
        underway.end(tick_result(&end));
        answer(end, &span)
    })
    .await;
}

/// What the controller framework of the reference would call it.
fn tick_result(end: &Result<Next, ControllerError>) -> TickResult {
    match end.as_ref().map_err(ControllerError::reaction) {
        Ok(Next::OnChange) | Err(Reaction::Gone) => TickResult::Success,
        Ok(Next::After(_)) => TickResult::RequeueAfter,
        Err(Reaction::AgainNow) => TickResult::Requeue,
        Err(Reaction::BackOff | Reaction::WaitForChange) => TickResult::Error,
    }
}

/// Turns the end of a tick into what the queue does next. Whoever handles an error logs it: what comes back with `Err` is
/// logged by the queue, the rest here.
fn answer(end: Result<Next, ControllerError>, span: &tracing::Span) -> Result<Next, ControllerError> {
    let error = match end {
        Ok(next) => return Ok(next),
        Err(error) => error,
    };
    let _entered = span.enter();
    match error.reaction() {
        Reaction::BackOff => Err(error),
        Reaction::AgainNow => {
            tracing::debug!(error = with_causes(&error), "somebody else was faster, looking again");
            Ok(Next::After(AFTER_CONFLICT))
        }
        Reaction::Gone => {
            tracing::debug!(error = with_causes(&error), "it is gone");
            Ok(Next::OnChange)
        }
        Reaction::WaitForChange => {
            tracing::error!(error = with_causes(&error), "somebody must change something before this can work");
            Ok(Next::After(NOW_AND_THEN))
        }
    }
}

/// Runs a loop of the provider's own: round after round, and after a failure later and later.
pub(crate) async fn run_provider_duty(ctx: &Ctx, duty: &provider::Duty, stop: &Stop) -> Result<(), RuntimeError> {
    let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
    let mut retry = runtime::backoff::Retry::new(backoff, ctx.rng.fork(duty.name));
    loop {
        let round = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            round = duty.round() => round,
        };
        let Err(error) = round else {
            retry.succeeded();
            continue;
        };
        tracing::warn!(duty = duty.name, error = with_causes(&error), "will try again");
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(retry.failed()) => {}
        }
    }
}
