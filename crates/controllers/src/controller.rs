//! The shape that every duty has, and what runs it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cluster::{Duty, Store};
use runtime::error::with_causes;
use runtime::{Backoff, Next, Queue, Rng, RuntimeError, Stop, Tasks, queue};
use tracing::Instrument;

use crate::ctx::Ctx;
use crate::error::{ControllerError, Reaction};
use crate::metrics::TickResult;
use crate::settings::Settings;

/// How soon a conflict is looked at again. By then the watch has mostly shown what we did not know, and its wake-up call,
/// which may come sooner, is not waited for in vain. A watch that has stopped shows nothing, so the wait grows.
const AFTER_CONFLICT: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(10));
/// How often something is tried again that somebody else must change first. Well within the time that a claim has for its
/// launch, or one refusal would cost it its life.
const NOW_AND_THEN: Duration = Duration::from_secs(60);

/// How often it is looked whether everything was listed.
const UNLISTED: Duration = Duration::from_millis(200);

/// A duty: one thing to look at, again and again.
pub trait Controller: Send + Sync + 'static {
    /// What it is about: a claim, a node, a pool; `()` for a duty about everything.
    type Key: Clone + fmt::Debug + Ord + Send + Sync + 'static;

    /// The reference's name for it, in logs and metrics.
    const NAME: &'static str;

    /// What its keys are, if they are objects; lines in the log say so, as the reference's do.
    const ABOUT: Option<About> = None;

    /// Whether a wake-up call of the store concerns it, and what about.
    fn wakes_for(call: &Duty) -> Option<Self::Key>;

    /// Whether nothing can be decided on half a picture: a claim whose Node has not been listed yet would look as if it had
    /// none. Such a duty begins when everything was listed once.
    const NEEDS_ALL_LISTED: bool = false;

    /// What to look at when the work begins: all that is known by then. A duty that works by the clock starts here.
    fn first_keys(&self, _store: &Store) -> Vec<Self::Key> {
        Vec::new()
    }

    /// When to look again after the API server has said that something is not there. Whoever follows one object is woken by
    /// its end; a duty that works by the clock must come back by itself.
    fn after_gone() -> Next {
        Next::OnChange
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

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    pub group: &'static str,
    pub kind: &'static str,
}

/// Tells one look at one key from all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TickId(String);

impl TickId {
    pub(crate) fn draw(rng: &Rng) -> Self {
        Self(rng.uuid())
    }

    /// One that was drawn by a process before us.
    pub(crate) fn of(text: &str) -> Self {
        Self(text.to_owned())
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
type Memory = Box<dyn FnOnce() + Send>;

/// The list of duties, ready to be started.
pub(crate) struct Duties {
    ctx: Arc<Ctx>,
    starters: Vec<Starter>,
    memories: Arc<Mutex<Vec<Memory>>>,
}

impl Duties {
    pub(crate) fn new(ctx: Arc<Ctx>) -> Self {
        Self { ctx, starters: Vec::new(), memories: Arc::default() }
    }

    /// What a process before us has left under way is remembered once everything was listed, before any duty that needs the
    /// whole picture takes its first look: to such a duty, what is under way may look like a surplus.
    pub(crate) fn remember(&mut self, memory: impl FnOnce() + Send + 'static) {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(memory));
    }

    /// Adds a duty. The queue is for whoever wakes it beside the store.
    ///
    /// It hears wake-up calls from the moment on at which it starts, and begins with all that is known by then: a stand-by
    /// that watches for days does not pile up what the leader has done long ago.
    pub(crate) fn add<C: Controller>(&mut self, controller: C) -> Queue<C::Key> {
        let queue = Queue::new(C::NAME, C::backoff(), self.ctx.rng.fork(C::NAME));
        let (ctx, started, memories) = (self.ctx.clone(), queue.clone(), self.memories.clone());
        self.starters.push(Box::new(move |tasks| {
            let woken = started.clone();
            ctx.wakers.add(move |call| {
                if let Some(key) = C::wakes_for(call) {
                    woken.push(key);
                }
            });
            let known = controller.first_keys(&ctx.store());
            known.into_iter().for_each(|key| started.push(key));
            let stop = tasks.stop();
            tasks.spawn(C::NAME, async move {
                if C::NEEDS_ALL_LISTED {
                    if !all_listed(&ctx, &stop).await {
                        return Ok(());
                    }
                    // Whoever is first remembers for all, and nobody goes on before that is done.
                    let mut memories = memories.lock().unwrap_or_else(PoisonError::into_inner);
                    memories.drain(..).for_each(|remember| remember());
                }
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
    let workers = C::workers(&ctx.settings);
    ctx.metrics.set_workers(C::NAME, workers);
    let ticks = ctx.metrics.ticks(C::NAME);
    let ticks = &ticks;
    queue::run(queue, workers, stop, |key| async move {
        let id = ctx.tick_id();
        let (group, kind) = C::ABOUT.map(|about| (about.group, about.kind)).unzip();
        let span = tracing::info_span!(
            "reconcile", controller = C::NAME, "controllerGroup" = group, "controllerKind" = kind, object = ?key,
            "reconcileID" = %id
        );
        let underway = ticks.begin();
        let end = controller.tick(ctx, &key, &id).instrument(span.clone()).await;
        underway.end(tick_result(&end));
        answer(end, C::after_gone(), &span)
    })
    .await;
}

/// Waits until everything was listed once, which then holds for good. Says whether it came to that before the stop.
pub(crate) async fn all_listed(ctx: &Ctx, stop: &Stop) -> bool {
    while !ctx.store().is_synced() {
        tokio::select! {
            biased;
            () = stop.cancelled() => return false,
            () = tokio::time::sleep(UNLISTED) => {}
        }
    }
    true
}

/// What the controller framework of the reference would call it.
fn tick_result(end: &Result<Next, ControllerError>) -> TickResult {
    match end.as_ref().map_err(ControllerError::reaction) {
        Ok(Next::OnChange) | Err(Reaction::Gone) => TickResult::Success,
        Ok(Next::After(_)) => TickResult::RequeueAfter,
        Ok(Next::Again(_)) | Err(Reaction::AgainNow) => TickResult::Requeue,
        Err(Reaction::BackOff | Reaction::WaitForChange) => TickResult::Error,
    }
}

/// Turns the end of a tick into what the queue does next. Whoever handles an error logs it: what comes back with `Err` is
/// logged by the queue, the rest here.
fn answer(end: Result<Next, ControllerError>, after_gone: Next, span: &tracing::Span) -> Result<Next, ControllerError> {
    let error = match end {
        Ok(next) => return Ok(next),
        Err(error) => error,
    };
    let _entered = span.enter();
    match error.reaction() {
        Reaction::BackOff => Err(error),
        Reaction::AgainNow => {
            tracing::debug!(error = with_causes(&error), "somebody else was faster, looking again");
            Ok(Next::Again(AFTER_CONFLICT))
        }
        Reaction::Gone => {
            tracing::debug!(error = with_causes(&error), "it is gone");
            Ok(after_gone)
        }
        Reaction::WaitForChange => {
            tracing::error!(error = with_causes(&error), "somebody must change something before this can work");
            Ok(Next::After(NOW_AND_THEN))
        }
    }
}

/// Runs a loop of the provider's own.
pub(crate) async fn run_provider_duty(ctx: &Ctx, duty: &provider::Duty, stop: &Stop) -> Result<(), RuntimeError> {
    rounds(ctx, duty.name, || duty.round(), stop).await
}

/// Round after round, and after a failure later and later. A round waits by itself while there is nothing to do.
pub(crate) async fn rounds<E, F>(
    ctx: &Ctx,
    name: &'static str,
    round: impl Fn() -> F,
    stop: &Stop,
) -> Result<(), RuntimeError>
where
    E: std::error::Error + 'static,
    F: Future<Output = Result<(), E>>,
{
    let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
    let mut retry = runtime::backoff::Retry::new(backoff, ctx.rng.fork(name));
    loop {
        let round = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            round = round() => round,
        };
        let Err(error) = round else {
            retry.succeeded();
            continue;
        };
        tracing::warn!(duty = name, error = with_causes(&error), "will try again");
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(retry.failed()) => {}
        }
    }
}

#[cfg(test)]
mod tests;
