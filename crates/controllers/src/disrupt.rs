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
use engine::disrupt::{begins_at, decide_with};
use provider::metered::Metered;
use runtime::{Next, Note, Queue};
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
const AT_THE_SOONEST: Duration = Duration::from_secs(1);
/// How long the first change waits for those that come with it: a machine that becomes ready changes five objects at once.
const GATHERED_FOR: Duration = Duration::from_secs(1);
/// So long without a look is worth a line in the log: somebody keeps us from looking.
const ABNORMAL: Duration = Duration::from_secs(15 * 60);
/// How long a command to save money waits for its second look.
const SECOND_LOOK_AFTER: Duration = Duration::from_secs(15);
/// So long before nodes have been quiet for long enough they may be chosen: as long as commands wait for their second look, and a
/// little more, so that nodes which settle one after the other are chosen together.
const FORESIGHT: Duration = Duration::from_secs(20);
/// So much later than a node has settled its claim says so, at the latest, unless something is slow.
const SAYS_SO_AFTER: Duration = Duration::from_millis(500);

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
    /// Since when something is known to have changed that nobody has looked at.
    stirred: Option<Instant>,
    /// What was seen when nothing was found to do, and until when that holds by itself.
    settled: Option<(Mark, Option<model::time::Instant>)>,
    /// What nodes should hear of it, and could not because they heard something else a moment before.
    untold: Vec<Note>,
    /// What the operator wrote when everything was stopped.
    stopped: Option<Arc<str>>,
}

impl Disruption {
    pub(crate) fn new(ctx: &Ctx, commands: Arc<Commands>, queue: Queue<Number>) -> Self {
        Self { commands, queue, cloud: ctx.cloud.for_controller(Self::NAME), last: Mutex::default() }
    }

    async fn pass(&self, ctx: &Ctx, id: &TickId) -> Result<Next, ControllerError> {
        self.note_stop(ctx.store().disruption_stopped().cloned());
        leftovers::repair(ctx, &self.commands).await;
        // Prices and stocks that change by themselves are asked for every minute, and what is new is in the mark.
        if let Some(next) = self.is_settled(ctx, &Mark::take(ctx, &self.commands)) {
            self.tell_again(ctx);
            return Ok(next);
        }
        if let Some(rest) = self.gathers() {
            return Ok(Next::After(rest));
        }
        ctx.catalogs.refresh(ctx, &self.cloud).await;
        let mut turn = Turn::wait(&self.commands).await;
        let (mark, look) = (Mark::take(ctx, &self.commands), Look::take(ctx, &turn, None));
        let (began, question) = (Instant::now(), recorded::question(ctx, &look));
        let decided = think(ctx, &mut turn, look, |memory, scene, rules| {
            let decision = decide_with(memory, scene, rules);
            let begin: Vec<_> = decision.commands.iter().map(|command| begins_at(scene, command)).collect();
            (decision, begin)
        });
        let (decision, begin) = decided.await?;
        // Before the turn ends: a recording ties a decision to the last look.
        recorded::note_decision(ctx, id, question, &decision);
        drop(turn);
        let took = began.elapsed();
        self.last().took = took;
        let untold = report::decided(ctx, &decision, took);
        self.last().untold = untold;
        if decision.commands.is_empty() {
            let next = next_look(ctx, decision.look_again);
            self.last().settled = Some((mark, decision.look_again));
            return Ok(next);
        }
        self.last().settled = None;
        decision.commands.into_iter().zip(begin).for_each(|(command, begins)| self.propose(ctx, command, begins));
        Ok(Next::After(AT_THE_SOONEST))
    }

    /// Whoever stopped everything, or forgot that he did, finds a line about it.
    fn note_stop(&self, stopped: Option<Arc<str>>) {
        let mut last = self.last();
        match &stopped {
            _ if last.stopped == stopped => return,
            Some(note) => tracing::warn!(note = &**note, "voluntary disruption is stopped in the whole cluster"),
            None => tracing::info!("voluntary disruption goes on"),
        }
        last.stopped = stopped;
    }

    /// A command that does not begin before then.
    fn propose(&self, ctx: &Ctx, command: model::disruption::Disruption, begins: Option<model::time::Instant>) {
        let now = ctx.now();
        let wait = match (command.method.is_validated(), begins) {
            (false, _) => Duration::ZERO,
            (true, None) => SECOND_LOOK_AFTER,
            (true, Some(begins)) => SECOND_LOOK_AFTER.max(begins.plus(SAYS_SO_AFTER).since(now)),
        };
        let id = ctx.tick_id();
        tracing::debug!(command = %id, nodes = ?command.nodes().collect::<Vec<_>>(), why = command.why(), "found a command");
        let number = self.commands.add(id, command, Stage::Proposed { ripe: now.plus(wait) });
        self.queue.push_after(number, wait);
    }

    /// Nothing has changed that matters since nothing was found to do.
    fn is_settled(&self, ctx: &Ctx, seen: &Mark) -> Option<Next> {
        let last = self.last();
        let (mark, until) = last.settled.as_ref()?;
        // Nodes that settle after what was foreseen are chosen from as soon as they are foreseen, whatever has disturbed them since.
        let foreseen = ctx.store().next_to_settle(mark.foresaw).map(|settles_at| settles_at.minus(FORESIGHT));
        let until = until.iter().copied().chain(foreseen).min();
        let holds = mark.still_says(seen) && until.is_none_or(|until| ctx.now() < until);
        holds.then(|| next_look(ctx, until))
    }

    /// What was decided last is still so: whoever has not heard of it hears it as soon as he may. No decision would come to
    /// tell him, because nothing changes.
    fn tell_again(&self, ctx: &Ctx) {
        let mut last = self.last();
        let untold = std::mem::take(&mut last.untold);
        last.untold = untold.into_iter().filter_map(|note| ctx.recorder.try_publish(note)).collect();
    }

    /// How long to wait for what comes with the change that was noticed first.
    fn gathers(&self) -> Option<Duration> {
        let mut last = self.last();
        let since = *last.stirred.get_or_insert_with(Instant::now);
        let left = GATHERED_FOR.saturating_sub(since.elapsed());
        if left.is_zero() {
            last.stirred = None;
        }
        (!left.is_zero()).then_some(left)
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
        let mut last = self.last();
        if last.stirred.is_none() {
            last.ended = Some(Instant::now());
        }
        end
    }
}
