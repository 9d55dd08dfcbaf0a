//! A claim's life: the engine says which step is next, the files beside this one take it.
//!
//! Steps change working copies, which are written when there is nothing more to do for now: one patch of the Node, one of the
//! claim's metadata, one of its status. A launch alone is written at once. Every step may be taken
//! again after a crash: the cloud gives the same machine to the same claim, and patches say what shall be, not what shall
//! change.

mod consistency;
mod desk;
mod expire;
mod finalize;
mod hydrate;
mod initialize;
mod launch;
mod liveness;
mod memory;
mod register;
mod setbacks;
#[cfg(test)]
mod tests;

use std::time::Duration;

use cluster::{Duty, Store};
use engine::lifecycle::{Overdue, Patience, Step, Waiting, expiry, limit, next_step};
use model::claim::Machine;
use model::ids::NodeName;
use model::time::Instant;
use provider::CloudProvider;
use runtime::error::with_causes;
use runtime::{Backoff, Next};

use crate::controller::{About, Controller, TickId};
use crate::ctx::Ctx;
use crate::error::{ControllerError, Reaction};
use crate::settings::{Settings, Workers};
use desk::Desk;
pub(crate) use finalize::{ASK_AGAIN, INSTANCE_TERMINATING};
use memory::Memory;
use setbacks::PoolSetbacks;

/// More steps than a claim ever takes at once.
const STEPS_MAX: usize = 16;
/// A Node that has just joined is written by half a dozen others within a second, and its pods wait for us.
const CONFLICTS_MAX: usize = 4;

#[derive(Debug, Default)]
pub(crate) struct Lifecycle {
    memory: Memory,
    setbacks: PoolSetbacks,
}

/// How a step ended.
enum Done {
    /// The next step can be taken at once.
    Onward,
    /// Nothing more for now.
    Wait(Next),
}

impl Controller for Lifecycle {
    type Key = NodeName;
    const NAME: &'static str = "nodeclaim.lifecycle";
    const ABOUT: Option<About> = Some(About { group: "karpenter.sh", kind: "NodeClaim" });
    const NEEDS_ALL_LISTED: bool = true;

    fn wakes_for(call: &Duty) -> Option<NodeName> {
        call.claim()
    }

    fn first_keys(&self, store: &Store) -> Vec<NodeName> {
        store.claims().names().cloned().collect()
    }

    fn workers(settings: &Settings) -> usize {
        Workers::LIFECYCLE.at(settings.cpu_requests)
    }

    fn backoff() -> Backoff {
        Backoff::new(Duration::from_secs(1), Duration::from_secs(60))
    }

    async fn tick(&self, ctx: &Ctx, name: &NodeName, _id: &TickId) -> Result<Next, ControllerError> {
        for _ in 0..CONFLICTS_MAX {
            match self.look(ctx, name).await {
                // Whoever has lost against another writer has learned what that one wrote.
                Err(error) if error.reaction() == Reaction::AgainNow => {
                    tracing::debug!(error = with_causes(&error), "somebody else was faster, looking again");
                }
                end => return end,
            }
        }
        self.look(ctx, name).await
    }
}

impl Lifecycle {
    async fn look(&self, ctx: &Ctx, name: &NodeName) -> Result<Next, ControllerError> {
        // Most looks are at settled claims to which nothing has happened since.
        let revision = ctx.store().revision_of_claim(name);
        let rest = revision.and_then(|revision| self.memory.rests(name, &revision, ctx.now()));
        if let Some(next) = rest {
            return Ok(next);
        }
        let Some(mut desk) = Desk::open(ctx, name) else {
            self.memory.forget(name);
            return Ok(Next::OnChange);
        };
        let end = self.work(ctx, &mut desk).await;
        // What was learned before a failure is true all the same, and people should see it.
        let written = desk.write(ctx).await;
        judge(ctx, &mut desk, end.and_then(|next| written.map(|()| next))).await
    }

    async fn work(&self, ctx: &Ctx, desk: &mut Desk) -> Result<Next, ControllerError> {
        desk.follow_generation(ctx);
        hydrate::hydrate(desk);
        for _ in 0..STEPS_MAX {
            let now = ctx.now();
            let life = self.memory.view(desk);
            let patience =
                Patience { initialization: self.setbacks.time_for(ctx, &desk.claim, &life), ..patience(ctx) };
            let step = next_step(&life, patience, now);
            if matches!(step, Step::Settled { .. }) {
                self.memory.note_settled(desk, expiry(&life));
            }
            tracing::trace!(claim = %desk.name(), ?step, "next step");
            match self.take(ctx, desk, step, now).await? {
                Done::Onward => {}
                Done::Wait(next) => return Ok(next),
            }
        }
        Err(ControllerError::Invariant {
            doing: format!("looking after nodeclaim {}", desk.name()),
            fault: format!("it took {STEPS_MAX} steps at once"),
        })
    }

    async fn take(&self, ctx: &Ctx, desk: &mut Desk, step: Step, now: Instant) -> Result<Done, ControllerError> {
        match step {
            Step::Adopt => desk.adopt(ctx).await.map(|()| Done::Onward),
            Step::Launch => launch::launch(ctx, desk).await,
            Step::Register { node } => register::register(ctx, desk, &node, &self.memory).await,
            Step::Initialize { node } => {
                self.setbacks.forget(&desk.claim);
                Ok(initialize::initialize(desk, &node, ctx))
            }
            Step::Check { .. } => Ok(consistency::check(ctx, desk, &self.memory)),
            Step::Wait { why, until } => {
                if let Waiting::NodesGone(nodes) = &why {
                    tracing::debug!(claim = %desk.name(), ?nodes, "the claim outlives its nodes");
                }
                if let Some(said) = why.said() {
                    desk.say(ctx, &said);
                }
                Ok(Done::Wait(at(until, now)))
            }
            Step::Settled { until } => Ok(Done::Wait(at(until, now))),
            Step::GiveUp(Overdue::Initialization) => liveness::give_up_registered(ctx, desk, &self.setbacks, now).await,
            Step::GiveUp(overdue) => liveness::give_up(ctx, desk, overdue).await,
            Step::Expire => expire::expire(ctx, desk).await,
            Step::SetDeadline(deadline) => finalize::set_deadline(ctx, desk, deadline).await,
            Step::DeleteNodes(nodes) => finalize::delete_nodes(ctx, desk, &nodes).await,
            Step::Terminate => finalize::terminate(ctx, desk, &self.memory).await,
            Step::Release => finalize::release(ctx, desk, &self.memory).await,
            Step::Gone => Ok(Done::Wait(Next::OnChange)),
        }
    }
}

/// When a moment comes, or when somebody knocks.
fn at(until: Option<Instant>, now: Instant) -> Next {
    until.map_or(Next::OnChange, |until| Next::After(until.since(now)))
}

impl Memory {
    /// There is nothing to do until then. A shape that was found to be as promised is not compared again while nothing has changed; one
    /// that was not is told of again.
    fn note_settled(&self, desk: &Desk, until: Option<Instant>) {
        let is_fine = desk.is_as_stored() && desk.says(consistency::CONSISTENT);
        if let Some(revision) = desk.revision.clone().filter(|_| is_fine) {
            self.note_rest(&desk.claim, revision, until);
        }
    }

    /// What the engine decides on: the wire, and what only we remember.
    fn view(&self, desk: &Desk) -> model::claim::ClaimLife {
        let mut life = desk.life();
        life.checked = self.checked(&desk.claim);
        if self.is_gone(&desk.claim) {
            life.machine = Machine::Gone;
        }
        life
    }
}

/// What was tried and has not come to anything has its time, as what is waited for has: then the claim is given up.
async fn judge(ctx: &Ctx, desk: &mut Desk, end: Result<Next, ControllerError>) -> Result<Next, ControllerError> {
    // Whoever lost a race has not been refused anything, and looks again in a moment.
    let has_lost_a_race = end.as_ref().is_err_and(|error| error.reaction() == Reaction::AgainNow);
    let limit = desk.stored_life().and_then(|life| limit(&life, patience(ctx)));
    let Some(limit) = limit.filter(|_| !has_lost_a_race) else { return end };
    let now = ctx.now();
    if now < limit.due {
        return end.map(|next| sooner(next, limit.due.since(now)));
    }
    if let Err(error) = end {
        tracing::warn!(NodeClaim = %desk.name(), error = with_causes(&error), "this has gone on for too long");
    }
    liveness::give_up(ctx, desk, limit.overdue).await?;
    Ok(Next::OnChange)
}

fn patience(ctx: &Ctx) -> Patience {
    Patience { launch: ctx.cloud.launch_timeout(), ..Patience::default() }
}

fn sooner(next: Next, most: Duration) -> Next {
    match next {
        Next::After(delay) => Next::After(delay.min(most)),
        Next::OnChange => Next::After(most),
        again @ Next::Again(_) => again,
    }
}
