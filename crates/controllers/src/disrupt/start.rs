//! Beginning a command: close its nodes, make its replacements, and only then count its nodes as leaving. Whoever did it
//! the other way round would have the provisioner buy the same room a second time.

use std::time::Duration;

use api::NodeClaim;
use kube::Api;
use model::disruption::{Disruption, Method};
use model::ids::{NodeName, PoolName};
use model::plan::{PlannedClaim, Target};
use model::time::Instant;
use runtime::error::with_causes;

use super::commands::{Begun, Command, Expected};
use super::doors::{self, Closed};
use super::resume;
use crate::claims::{self, Planned};
use crate::ctx::Ctx;
use crate::error::{ControllerError, Doing};
use crate::events::{self, Destination};
use crate::metrics::CreateReason;

/// For so long nodes count as leaving without anybody saying so again.
const MARKED: Duration = Duration::from_secs(60);

/// Why a command could not be begun.
#[derive(Debug)]
pub(super) struct NotBegun {
    pub(super) why: String,
    /// Whether its replacements are to blame, so that its pools had better rest.
    pub(super) is_for_want_of_replacements: bool,
    /// Replacements that were made, or may have been.
    pub(super) made: Vec<NodeName>,
}

/// Begins a command. Gives back what of it was begun: of nodes that go without replacement, those that could be closed.
pub(super) async fn start(ctx: &Ctx, command: &Command) -> Result<(Disruption, Begun), NotBegun> {
    let what = close_all(ctx, &command.what).await?;
    for leaver in what.leaving.iter().filter(|_| what.method == Method::StaticDrift) {
        ctx.store().begin_replacing(&leaver.claim, ctx.now().plus(MARKED));
    }
    let replacements = make_replacements(ctx, command, &what).await?;
    promise(ctx, &what, &replacements);
    mark(ctx, &what);
    nominate(ctx, &what);
    let replacements = replacements.into_iter().map(|claim| Expected { claim, has_come: false }).collect();
    Ok((what, Begun { since: ctx.now(), replacements }))
}

async fn close_all(ctx: &Ctx, what: &Disruption) -> Result<Disruption, NotBegun> {
    let reason = what.reason();
    let mut attempts = Vec::new();
    for leaver in &what.leaving {
        attempts.push(doors::close(ctx, leaver, reason));
    }
    let ends = doors::side_by_side(attempts).await;
    let mut closed = what.clone();
    let mut refusals = Vec::new();
    let mut is_closed = ends.iter().zip(&what.leaving).map(|(end, leaver)| match end {
        Ok(Closed::Yes) => true,
        Ok(Closed::Gone) => {
            refusals.push(format!("node {} is going already", leaver.node));
            false
        }
        Err(error) => {
            refusals.push(with_causes(error));
            false
        }
    });
    closed.leaving.retain(|_| is_closed.next().unwrap_or(false));
    drop(is_closed);
    let is_complete = closed.leaving.len() == what.leaving.len();
    if closed.leaving.is_empty() || (!what.replacements.is_empty() && !is_complete) {
        let why = refusals.join("; ");
        return Err(NotBegun { why, is_for_want_of_replacements: false, made: Vec::new() });
    }
    Ok(closed)
}

/// Makes all replacements side by side. When one cannot be made, none is wanted.
async fn make_replacements(ctx: &Ctx, command: &Command, what: &Disruption) -> Result<Vec<NodeName>, NotBegun> {
    let granted = reserve(ctx, what);
    let rng = ctx.rng.fork(command.id.as_str());
    let mut attempts = Vec::new();
    for planned in &what.replacements {
        let name = rng.name(&format!("{}-", planned.pool));
        attempts.push(async move {
            let end = match granted {
                true => make(ctx, command, what, planned, name.clone()).await,
                false => Err(no_place(&planned.pool)),
            };
            (NodeName::from(name), end)
        });
    }
    let ends = doors::side_by_side(attempts).await;
    if granted {
        release(ctx, what);
    }
    let failures: Vec<String> = ends.iter().filter_map(|(_, end)| Some(with_causes(end.as_ref().err()?))).collect();
    let made: Vec<NodeName> = ends.into_iter().map(|(name, _)| name).collect();
    if failures.is_empty() {
        return Ok(made);
    }
    Err(NotBegun {
        why: failures.join("; "),
        // A pool that has no place for one more is not to blame; it has one as soon as a node of its is gone.
        is_for_want_of_replacements: granted,
        made: if granted { made } else { Vec::new() },
    })
}

async fn make(
    ctx: &Ctx,
    command: &Command,
    what: &Disruption,
    planned: &PlannedClaim,
    name: String,
) -> Result<(), ControllerError> {
    let (wire, types) = {
        let store = ctx.store();
        let types = store.pools().get(&planned.pool).map(|pool| pool.instance_types.clone());
        (store.node_pool(&planned.pool).cloned(), types.unwrap_or_default())
    };
    let Some(wire) = wire else {
        let fault = format!("the plan names the pool {}, which is not there", planned.pool);
        return Err(ControllerError::Invariant { doing: "creating a replacement".to_owned(), fault });
    };
    let mut claim = match what.method {
        Method::StaticDrift => claims::of_pool(&wire, name.clone(), &command.id),
        _ => claims::of_plan(&wire, Planned { claim: planned, types: &types }, name.clone(), &command.id),
    };
    claim.metadata.annotations.get_or_insert_default().extend(resume::notes(what));
    let reason = match what.method {
        Method::StaticDrift | Method::Drift => CreateReason::Drifted,
        _ => CreateReason::Underutilized,
    };
    let error = match claims::create(ctx, claim, reason).await {
        Ok(_) => return Ok(()),
        Err(error) => error,
    };
    // The answer may have been lost after the work was done.
    let api: Api<NodeClaim> = Api::all(ctx.client.clone());
    match api.get_opt(&name).await.doing(format!("looking for nodeclaim {name}")) {
        Ok(Some(made)) => {
            ctx.tell(|store, now| store.assume_claim(made, now));
            Ok(())
        }
        _ => Err(error),
    }
}

/// A static pool may have only so many nodes, and others make them too. Says whether there is room for the replacements.
fn reserve(ctx: &Ctx, what: &Disruption) -> bool {
    if what.method != Method::StaticDrift {
        return true;
    }
    let mut store = ctx.store();
    for (number, planned) in what.replacements.iter().enumerate() {
        let limit = store.pools().get(&planned.pool).and_then(|pool| pool.limits.nodes);
        if store.reserve_nodes(&planned.pool, limit, 1) == 0 {
            what.replacements[..number].iter().for_each(|planned| store.release_nodes(&planned.pool, 1));
            return false;
        }
    }
    true
}

/// Whether they were made or not: those that were are counted as themselves from now on.
fn release(ctx: &Ctx, what: &Disruption) {
    if what.method == Method::StaticDrift {
        let mut store = ctx.store();
        what.replacements.iter().for_each(|planned| store.release_nodes(&planned.pool, 1));
    }
}

fn no_place(pool: &PoolName) -> ControllerError {
    let fault = format!("the limit of pool {pool} has no room for one more node");
    ControllerError::Invariant { doing: "creating a replacement".to_owned(), fault }
}

/// Counts the nodes of a command as leaving, for a while. Whoever carries it out says so again.
pub(super) fn mark(ctx: &Ctx, what: &Disruption) {
    let until: Instant = ctx.now().plus(MARKED);
    ctx.tell(|store, now| {
        if what.method == Method::StaticDrift {
            what.claims().for_each(|claim| store.begin_replacing(claim, until));
        }
        store.mark_for_deletion(what.claims(), until, now)
    });
}

/// The provisioner places the pods of nodes that leave before they go. It counts on the replacements that were planned for them, or
/// it would buy a machine for whoever finds his place taken.
fn promise(ctx: &Ctx, what: &Disruption, replacements: &[NodeName]) {
    let mut store = ctx.store();
    for (pod, target) in &what.moves {
        if let Target::Claim(number) = target {
            replacements.get(*number).into_iter().for_each(|place| store.promise(pod, place));
        }
    }
}

/// Nodes that are there and will take pods are left alone, and the pods hear of it.
fn nominate(ctx: &Ctx, what: &Disruption) {
    for (name, target) in &what.moves {
        let Target::Node(place) = target else { continue };
        let (pod, claim) = {
            let mut store = ctx.store();
            store.nominate(name, place, ctx.now());
            let claim = store.machines().get(place).and_then(|machine| machine.claim.clone());
            (store.pod(name).map(|(pod, _)| pod.clone()), claim)
        };
        let Some(pod) = pod else { continue };
        let destination = match &claim {
            Some(claim) => Destination::Both { claim: claim.as_str(), node: place },
            None => Destination::Node(place),
        };
        ctx.recorder.publish(events::nominated(&pod, destination));
    }
}
