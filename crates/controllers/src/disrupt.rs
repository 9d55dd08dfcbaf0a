//! The hands of disruption: looks again and again which nodes should leave, and has every command carried out by itself.
//!
//! One duty looks (`Disruption`): it opens nodes that nobody stands behind, asks the engine, tells why nodes stay, and
//! proposes commands. Another one (`CommandQueue`) lets each command wait for its second look without holding up anybody,
//! begins it, waits for its replacements and deletes its claims, or takes it back. What a process leaves behind in between
//! is either gone on with or undone by the next one (decision 0055).

mod commands;
mod doors;
mod finish;
mod leftovers;
mod look;
mod queue;
pub mod recorded;
mod report;
pub(crate) mod resume;
mod start;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cluster::{Duty, Store};
use engine::disrupt::{Decision, decide_with};
use provider::metered::Metered;
use runtime::{Next, Queue};
use tokio::time::Instant;

use crate::controller::{Controller, Duties, TickId};
use crate::ctx::Ctx;
use crate::error::ControllerError;
use commands::{Commands, Number, Stage};
use look::{Look, Mark, Turn, think};
use queue::CommandQueue;

/// The longest time between two looks.
const AT_THE_LATEST: Duration = Duration::from_secs(10);
/// The shortest time between two looks. Changes come in crowds, and one look sees all of them.
const AT_THE_SOONEST: Duration = Duration::from_millis(500);
/// So long without a look is worth a line in the log: somebody keeps us from looking.
const ABNORMAL: Duration = Duration::from_secs(15 * 60);
/// How long a command to save money waits for its second look.
const SECOND_LOOK_AFTER: Duration = Duration::from_secs(15);

/// Adds the duties of this file to the list of all.
pub(crate) fn add(duties: &mut Duties, ctx: &Arc<Ctx>) {
    add_about(duties, ctx, Arc::default());
}

fn add_about(duties: &mut Duties, ctx: &Arc<Ctx>, commands: Arc<Commands>) -> Queue<Number> {
    let queue = duties.add(CommandQueue::new(commands.clone()));
    let (waiting, woken) = (commands.clone(), queue.clone());
    ctx.wakers.add(move |call| {
        if let Duty::Claim(claim) = call
            && let Some(number) = waiting.waiting_for(claim)
        {
            woken.push(number);
        }
    });
    let (about, found, to_carry_out) = (ctx.clone(), commands.clone(), queue.clone());
    duties.remember(move || {
        resume::resume(&about, &found).into_iter().for_each(|number| to_carry_out.push(number));
    });
    duties.add(Disruption::new(ctx, commands, queue.clone()));
    queue
}

pub(crate) struct Disruption {
    commands: Arc<Commands>,
    queue: Queue<Number>,
    cloud: Metered,
    last: Mutex<Last>,
}

/// What is remembered of the last look.
#[derive(Default)]
struct Last {
    ended: Option<Instant>,
    took: Duration,
    /// What was seen when nothing was found to do, and until when that holds by itself.
    settled: Option<(Mark, Option<model::time::Instant>)>,
}

impl Disruption {
    pub(crate) fn new(ctx: &Ctx, commands: Arc<Commands>, queue: Queue<Number>) -> Self {
        Self { commands, queue, cloud: ctx.cloud.for_controller(Self::NAME), last: Mutex::default() }
    }

    async fn pass(&self, ctx: &Ctx, id: &TickId) -> Result<Next, ControllerError> {
        leftovers::repair(ctx, &self.commands).await;
        // Prices and stocks that change by themselves are asked for every minute, and what is new is in the mark.
        if let Some(next) = self.is_settled(ctx, &Mark::take(ctx, &self.commands)) {
            return Ok(next);
        }
        ctx.catalogs.refresh(ctx, &self.cloud).await;
        let mut turn = Turn::wait(&self.commands).await;
        let look = Look::take(ctx, &turn, None);
        let (mark, began, question) = (look.mark(), Instant::now(), recorded::question(ctx, &look));
        let decision: Decision = think(ctx, &mut turn, look, decide_with).await?;
        // Before the turn ends: a recording ties a decision to the last look.
        recorded::note_decision(ctx, id, question, &decision);
        drop(turn);
        let took = began.elapsed();
        self.last().took = took;
        report::decided(ctx, &decision, took);
        if decision.commands.is_empty() {
            let next = next_look(ctx, decision.look_again);
            self.last().settled = Some((mark, decision.look_again));
            return Ok(next);
        }
        self.last().settled = None;
        decision.commands.into_iter().for_each(|command| self.propose(ctx, command));
        Ok(Next::After(AT_THE_SOONEST))
    }

    fn propose(&self, ctx: &Ctx, command: model::disruption::Disruption) {
        let wait = if command.method.is_validated() { SECOND_LOOK_AFTER } else { Duration::ZERO };
        let id = ctx.tick_id();
        tracing::debug!(command = %id, nodes = ?command.nodes().collect::<Vec<_>>(), why = command.why(), "found a command");
        let number = self.commands.add(id, command, Stage::Proposed { ripe: ctx.now().plus(wait) });
        self.queue.push_after(number, wait);
    }

    /// Nothing has changed since nothing was found to do.
    fn is_settled(&self, ctx: &Ctx, seen: &Mark) -> Option<Next> {
        let last = self.last();
        let (mark, until) = last.settled.as_ref()?;
        let holds = mark == seen && until.is_none_or(|until| ctx.now() < until);
        holds.then(|| next_look(ctx, *until))
    }

    /// How long to wait so that looking does not take up all of a core.
    fn rest(&self) -> Option<Duration> {
        let last = self.last();
        let rest = (2 * last.took).max(AT_THE_SOONEST);
        let left = rest.checked_sub(last.ended?.elapsed())?;
        (left > Duration::ZERO).then_some(left)
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn next_look(ctx: &Ctx, until: Option<model::time::Instant>) -> Next {
    let left = until.map_or(AT_THE_LATEST, |until| until.since(ctx.now()));
    Next::After(left.clamp(AT_THE_SOONEST, AT_THE_LATEST))
}

impl Controller for Disruption {
    type Key = ();
    const NAME: &'static str = "disruption";
    const NEEDS_ALL_LISTED: bool = true;

    fn wakes_for(call: &Duty) -> Option<()> {
        (*call == Duty::Disrupt).then_some(())
    }

    fn first_keys(&self, _store: &Store) -> Vec<()> {
        vec![()]
    }

    fn after_gone() -> Next {
        Next::After(AT_THE_LATEST)
    }

    async fn tick(&self, ctx: &Ctx, _key: &(), id: &TickId) -> Result<Next, ControllerError> {
        if let Some(rest) = self.rest() {
            return Ok(Next::After(rest));
        }
        if let Some(away) = self.last().ended.map(|ended| ended.elapsed()).filter(|away| *away > ABNORMAL) {
            tracing::debug!("time-since" = format!("{} s", away.as_secs()), "abnormal time between runs");
        }
        let end = self.pass(ctx, id).await;
        self.last().ended = Some(Instant::now());
        end
    }
}
