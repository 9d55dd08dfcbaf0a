//! Carries commands out, each by itself: its second look when it is ripe, and then step by step.

use std::sync::Arc;
use std::time::Duration;

use cluster::Duty;
use engine::disrupt::{Validity, still_holds_with};
use runtime::{Backoff, Next};

use super::commands::{Command, Commands, Number, Stage, buying_pools};
use super::look::{Look, Turn, think};
use super::{finish, recorded, report, start};
use crate::controller::{Controller, TickId};
use crate::ctx::Ctx;
use crate::error::ControllerError;
use crate::settings::Settings;

/// Commands that are worked on at a time; they share one task.
const AT_ONCE: usize = 100;
/// After the API server has said that something is not there.
const SOON: Duration = Duration::from_secs(1);

pub(crate) struct CommandQueue {
    commands: Arc<Commands>,
}

impl CommandQueue {
    pub(crate) fn new(commands: Arc<Commands>) -> Self {
        Self { commands }
    }

    /// A command that is ripe: it begins if it still holds.
    async fn begin(&self, ctx: &Ctx, number: Number, mut command: Command) -> Result<(), ControllerError> {
        if command.what.method.is_validated() {
            let mut turn = Turn::wait(&self.commands).await;
            let look = Look::take(ctx, &turn, Some(number));
            let what = command.what.clone();
            let question = recorded::question(ctx, &look);
            let validity =
                think(ctx, &mut turn, look, move |memory, scene, rules| still_holds_with(memory, scene, rules, &what));
            let validity = validity.await?;
            recorded::note_second_look(ctx, &command, question, &validity);
            drop(turn);
            match validity {
                Validity::Holds { command: what, dropped } => {
                    report::dropped(ctx, &command.what, &dropped);
                    command.what = Arc::new(what);
                }
                Validity::Fails { why, stays } => {
                    report::rejected(ctx, &command, why, &stays);
                    self.commands.forget(number);
                    return Ok(());
                }
            }
        }
        // Who is not looked at a second time may have been decided a moment before everything was stopped.
        if ctx.store().disruption_stopped().is_some() {
            self.commands.forget(number);
            return Ok(());
        }
        report::begins(&command);
        match start::start(ctx, &command).await {
            Ok((what, begun)) => {
                report::begun(ctx, &what);
                self.commands.replace(number, what);
                self.commands.set_stage(number, Stage::Begun(begun));
            }
            Err(not_begun) => {
                report::failed(ctx, &command, &not_begun.why, command.what.replacements.len().max(1));
                if not_begun.is_for_want_of_replacements {
                    self.commands.failed(buying_pools(&command.what), ctx.now());
                }
                self.commands.set_stage(number, Stage::TakenBack { unused: not_begun.made });
            }
        }
        Ok(())
    }
}

impl Controller for CommandQueue {
    type Key = Number;
    const NAME: &'static str = "disruption.queue";
    const NEEDS_ALL_LISTED: bool = true;

    /// Which command a call is about is known to those who share the commands; see `add`.
    fn wakes_for(_call: &Duty) -> Option<Number> {
        None
    }

    fn after_gone() -> Next {
        Next::After(SOON)
    }

    fn workers(_settings: &Settings) -> usize {
        AT_ONCE
    }

    fn backoff() -> Backoff {
        Backoff::new(SOON, Duration::from_secs(10))
    }

    async fn tick(&self, ctx: &Ctx, number: &Number, _id: &TickId) -> Result<Next, ControllerError> {
        let (commands, number) = (&self.commands, *number);
        loop {
            let Some(command) = commands.get(number) else { return Ok(Next::OnChange) };
            match command.stage.clone() {
                Stage::Proposed { ripe } => {
                    let now = ctx.now();
                    if now < ripe {
                        return Ok(Next::After(ripe.since(now)));
                    }
                    self.begin(ctx, number, command).await?;
                }
                Stage::Begun(begun) => {
                    if let Some(next) = finish::wait(ctx, commands, number, &command, begun).await? {
                        return Ok(next);
                    }
                }
                Stage::Ending { deleted } => finish::end(ctx, commands, number, &command, deleted).await?,
                Stage::TakenBack { unused } => {
                    finish::take_back(ctx, commands, number, &command, &unused).await?;
                }
            }
        }
    }
}
