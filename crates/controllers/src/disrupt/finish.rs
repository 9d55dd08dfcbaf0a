//! The second half of a command: wait for replacements, then delete, or take everything back.

use std::collections::BTreeSet;
use std::time::Duration;

use api::NodeClaim;
use engine::disrupt::{Advance, Failure, Flight, Replacement, advance};
use kube::Api;
use model::disruption::{Disruption, Leaver};
use model::ids::NodeName;
use runtime::Next;
use runtime::error::with_causes;

use super::commands::{Begun, Command, Commands, Number, Stage, buying_pools};
use super::{doors, report, resume, start};
use crate::ctx::Ctx;
use crate::disrupted::is_initialized;
use crate::error::{ControllerError, Doing};
use crate::events::disruption as events;
use crate::write;

/// Replacements wake their command when they change; this is for changes that nobody tells us of, and it keeps nodes marked.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// A command that is ready waits in such steps until those that were decided with it have closed their nodes, and at most so long.
const SOON: Duration = Duration::from_millis(100);
const AT_MOST_FOR_OTHERS: Duration = Duration::from_secs(10);

/// One look at a command that waits for its replacements. `None` when it has come to its next stage.
pub(super) async fn wait(
    ctx: &Ctx,
    commands: &Commands,
    number: Number,
    command: &Command,
    mut begun: Begun,
) -> Result<Option<Next>, ControllerError> {
    let replacements = look(ctx, command, &mut begun).await?;
    let is_stopped = ctx.store().disruption_stopped().is_some();
    let nodes_in_flight = commands.nodes_in_flight();
    let flight = Flight { started: begun.since, replacements, nodes_in_flight, is_stopped };
    match advance(&flight, ctx.now()) {
        Advance::Wait { until } => {
            start::mark(ctx, &command.what);
            commands.set_stage(number, Stage::Begun(begun));
            let left = until.since(ctx.now()) + Duration::from_millis(1);
            Ok(Some(Next::After(left.min(LOOK_AGAIN))))
        }
        Advance::Go if waits_for_others(ctx, commands, &begun) => {
            start::mark(ctx, &command.what);
            commands.set_stage(number, Stage::Begun(begun));
            Ok(Some(Next::After(SOON)))
        }
        Advance::Go => {
            commands.set_stage(number, Stage::Ending { deleted: BTreeSet::new() });
            Ok(None)
        }
        Advance::RollBack { failure, unused } => {
            let why = match failure {
                Failure::ReplacementGone => "replacement was deleted",
                Failure::TimedOut => "its replacements did not come in time",
                Failure::Stopped => "disruption was stopped in the whole cluster",
            };
            report::failed(ctx, command, why, unused.len().max(1));
            // Pools are not to blame when somebody has stopped everything.
            if failure != Failure::Stopped {
                commands.failed(buying_pools(&command.what), ctx.now());
            }
            commands.set_stage(number, Stage::TakenBack { unused });
            Ok(None)
        }
    }
}

/// Whether other commands of the same decision are about to close their nodes. Pods that were let go before that would be put onto
/// these nodes, which would then have to stay, or the pods to move a second time.
fn waits_for_others(ctx: &Ctx, commands: &Commands, begun: &Begun) -> bool {
    let now = ctx.now();
    now < begun.since.plus(AT_MOST_FOR_OTHERS) && commands.is_any_beginning(now)
}

/// How far each replacement has come.
async fn look(
    ctx: &Ctx,
    command: &Command,
    begun: &mut Begun,
) -> Result<Vec<(NodeName, Replacement)>, ControllerError> {
    let mut found = Vec::new();
    for expected in &mut begun.replacements {
        let state =
            if expected.has_come { Replacement::Initialized } else { state(ctx, command, &expected.claim).await? };
        expected.has_come = state == Replacement::Initialized;
        found.push((expected.claim.clone(), state));
    }
    Ok(found)
}

async fn state(ctx: &Ctx, command: &Command, name: &NodeName) -> Result<Replacement, ControllerError> {
    let known = ctx.store().claim(name);
    let Some(claim) = known else {
        // A list may have been wrong, or a watch slow; the API server itself has the last word.
        let api: Api<NodeClaim> = Api::all(ctx.client.clone());
        return match api.get_opt(name.as_str()).await.doing(format!("looking for nodeclaim {name}"))? {
            Some(claim) => {
                ctx.tell(|store, now| store.apply(claim, now));
                Ok(Replacement::Unseen)
            }
            None => Ok(Replacement::Gone),
        };
    };
    if claim.metadata.deletion_timestamp.is_some() {
        return Ok(Replacement::Gone);
    }
    ctx.recorder.publish(events::launching(&claim, command.what.reason()));
    if is_initialized(&claim) {
        return Ok(Replacement::Initialized);
    }
    ctx.recorder.publish(events::waiting_readiness(&claim));
    Ok(Replacement::Coming)
}

/// Deletes the claims of a command, as often as it takes: from here on it is not taken back.
pub(super) async fn end(
    ctx: &Ctx,
    commands: &Commands,
    number: Number,
    command: &Command,
    mut deleted: BTreeSet<NodeName>,
) -> Result<(), ControllerError> {
    start::mark(ctx, &command.what);
    let left: Vec<_> = command.what.leaving.iter().filter(|leaver| !deleted.contains(&leaver.claim)).collect();
    let mut attempts = Vec::new();
    for leaver in &left {
        attempts.push(delete(ctx, &command.what, leaver));
    }
    let ends = doors::side_by_side(attempts).await;
    let mut failure = None;
    for (leaver, end) in left.iter().zip(ends) {
        match end {
            Ok(()) => drop(deleted.insert(leaver.claim.clone())),
            Err(error) => failure = Some(error),
        }
    }
    if let Some(error) = failure {
        commands.set_stage(number, Stage::Ending { deleted });
        return Err(error);
    }
    end_replacing(ctx, &command.what);
    commands.forget(number);
    commands.succeeded(&buying_pools(&command.what));
    report::succeeded(command);
    Ok(())
}

async fn delete(ctx: &Ctx, what: &Disruption, leaver: &Leaver) -> Result<(), ControllerError> {
    let claim = ctx.store().claim(&leaver.claim);
    let Some(claim) = claim.filter(|claim| claim.metadata.deletion_timestamp.is_none()) else {
        // Somebody else was faster.
        return Ok(());
    };
    let pair = report::pair(ctx, &leaver.node, &leaver.claim);
    doors::tried(ctx, || write::delete(ctx, &*claim)).await?;
    events::terminating(pair, what.reason()).into_iter().for_each(|note| ctx.recorder.publish(note));
    report::deleted(ctx, what, leaver, &claim);
    Ok(())
}

/// Takes a command back: replacements that nobody needs are given up first, so that whoever finds the rest of it after a
/// restart knows that it was not complete. Those that are kept are no replacements any more, and say so before its nodes are
/// opened again: from then on another command may be about the same nodes.
pub(super) async fn take_back(
    ctx: &Ctx,
    commands: &Commands,
    number: Number,
    command: &Command,
    unused: &[NodeName],
) -> Result<(), ControllerError> {
    for name in unused {
        give_up(ctx, name).await?;
    }
    let kept = resume::replacements(&ctx.store(), &command.id);
    for name in kept {
        doors::tried(ctx, || keep(ctx, &name)).await?;
    }
    ctx.tell(|store, now| store.unmark(command.what.claims(), now));
    end_replacing(ctx, &command.what);
    let mut attempts = Vec::new();
    for leaver in &command.what.leaving {
        attempts.push(doors::open(ctx, &leaver.node, &leaver.claim));
    }
    let ends = doors::side_by_side(attempts).await;
    for error in ends.into_iter().filter_map(Result::err) {
        // Nobody stands behind these taints any more, so the next look finds and removes them.
        tracing::warn!(error = with_causes(&error), "cannot open a node again, will try later");
    }
    commands.forget(number);
    Ok(())
}

/// Deletes a replacement that has not come yet, unless a pod that waits is to go there.
pub(super) async fn give_up(ctx: &Ctx, name: &NodeName) -> Result<(), ControllerError> {
    let (known, is_awaited) = {
        let store = ctx.store();
        let is_for = |place: Option<&NodeName>| place == Some(name);
        let mut places = store.unbound_pods().filter_map(|(pod, _)| store.pod_times(&pod.name));
        (store.claim(name), places.any(|times| is_for(times.place.as_ref())))
    };
    if is_awaited {
        return Ok(());
    }
    let claim = match known {
        Some(claim) => Some(NodeClaim::clone(&claim)),
        None => {
            let api: Api<NodeClaim> = Api::all(ctx.client.clone());
            api.get_opt(name.as_str()).await.doing(format!("looking for nodeclaim {name}"))?
        }
    };
    let Some(claim) = claim.filter(|claim| claim.metadata.deletion_timestamp.is_none() && !is_initialized(claim))
    else {
        return Ok(());
    };
    write::delete(ctx, &claim).await?;
    tracing::info!(NodeClaim = %name, "gave up a replacement that is not needed any more");
    Ok(())
}

/// Makes a replacement a claim like any other.
async fn keep(ctx: &Ctx, name: &NodeName) -> Result<(), ControllerError> {
    let claim = ctx.store().claim(name);
    let Some(claim) = claim.filter(|claim| claim.metadata.deletion_timestamp.is_none()) else { return Ok(()) };
    doors::absent_is_fine(write::claim(ctx, &claim, &resume::without_notes(&claim)).await)
}

fn end_replacing(ctx: &Ctx, what: &Disruption) {
    let mut store = ctx.store();
    what.claims().for_each(|claim| store.end_replacing(claim));
}
