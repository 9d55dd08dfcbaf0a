//! Closing nodes that are to leave, and opening them again: a taint on the Node, a condition on its claim.

use std::time::Duration;

use api::NodeClaim;
use api::conditions::{ConditionStatus, ConditionTypes, Conditions, DISRUPTION_REASON};
use futures::StreamExt;
use futures::stream;
use k8s_openapi::api::core::v1::Node;
use model::budget::Reason;
use model::disruption::Leaver;
use model::ids::NodeName;
use runtime::Backoff;

use crate::ctx::Ctx;
use crate::disrupted::{add_taint, disruption_reason, has_taint, log_tainted, remove_taint};
use crate::error::{ControllerError, Reaction};
use crate::write;

/// What failed is tried again so often, at once: somebody else writes to the same objects all the time.
const TRIES: u32 = 4;
/// Requests that are under way at the same time. The client's own limit of requests per second is what counts.
const AT_ONCE: usize = 100;
const BETWEEN: Backoff = Backoff::new(Duration::from_millis(10), Duration::from_secs(1));

/// What became of a node that was to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    Yes,
    /// Somebody else ends it, or has ended it already.
    Gone,
}

/// Closes a node to new pods, and says on its claim why it goes.
pub(super) async fn close(ctx: &Ctx, leaver: &Leaver, reason: Reason) -> Result<Closed, ControllerError> {
    tried(ctx, || close_once(ctx, leaver, reason)).await
}

async fn close_once(ctx: &Ctx, leaver: &Leaver, reason: Reason) -> Result<Closed, ControllerError> {
    let (node, claim) = {
        let store = ctx.store();
        (store.node(&leaver.node), store.claim(&leaver.claim))
    };
    let (Some(node), Some(claim)) = (node, claim) else { return Ok(Closed::Gone) };
    if claim.metadata.deletion_timestamp.is_some() || node.metadata.deletion_timestamp.is_some() {
        return Ok(Closed::Gone);
    }
    let mut closed = Node::clone(&node);
    if add_taint(&mut closed) {
        write::node(ctx, &node, &closed).await?;
        log_tainted(leaver.node.as_str(), Some(leaver.claim.as_str()));
    }
    let marked = with_conditions(ctx, &claim, |conditions| {
        conditions.set(DISRUPTION_REASON, ConditionStatus::True, reason.as_str(), reason.as_str());
    });
    write::claim(ctx, &claim, &marked).await?;
    Ok(Closed::Yes)
}

/// Takes both back. What is gone or going is left as it is.
pub(super) async fn open(ctx: &Ctx, node: &NodeName, claim: &NodeName) -> Result<(), ControllerError> {
    tried(ctx, || open_once(ctx, node, claim)).await
}

async fn open_once(ctx: &Ctx, node: &NodeName, claim: &NodeName) -> Result<(), ControllerError> {
    let (node, claim) = {
        let store = ctx.store();
        (store.node(node), store.claim(claim))
    };
    if let Some(closed) = node.filter(|node| node.metadata.deletion_timestamp.is_none() && has_taint(node)) {
        let mut open = Node::clone(&closed);
        remove_taint(&mut open);
        absent_is_fine(write::node(ctx, &closed, &open).await)?;
    }
    let is_marked =
        |claim: &NodeClaim| claim.metadata.deletion_timestamp.is_none() && disruption_reason(claim).is_some();
    if let Some(marked) = claim.filter(|claim| is_marked(claim)) {
        let cleared = with_conditions(ctx, &marked, |conditions| {
            // Readiness does not depend on it, so it can be cleared.
            let _ = conditions.clear(DISRUPTION_REASON);
        });
        absent_is_fine(write::claim(ctx, &marked, &cleared).await)?;
    }
    Ok(())
}

pub(super) fn absent_is_fine<T>(answer: Result<T, ControllerError>) -> Result<(), ControllerError> {
    match answer {
        Err(error) if !error.is_gone() => Err(error),
        _ => Ok(()),
    }
}

fn with_conditions(ctx: &Ctx, claim: &NodeClaim, change: impl FnOnce(&mut Conditions<'_>)) -> NodeClaim {
    let mut changed = claim.clone();
    let NodeClaim { metadata, status, .. } = &mut changed;
    let list = &mut status.get_or_insert_default().conditions;
    change(&mut Conditions::open(ConditionTypes::NODE_CLAIM, metadata, list, ctx.timestamp()));
    changed
}

/// Tries again what may work a moment later.
pub(super) async fn tried<T, F>(ctx: &Ctx, mut attempt: impl FnMut() -> F) -> Result<T, ControllerError>
where
    F: Future<Output = Result<T, ControllerError>>,
{
    for failures in 1..TRIES {
        match attempt().await {
            Err(error) if matches!(error.reaction(), Reaction::AgainNow | Reaction::BackOff) => {
                tokio::time::sleep(BETWEEN.delay(failures, &ctx.rng)).await;
            }
            answer => return answer,
        }
    }
    attempt().await
}

/// What comes of several things that do not wait for each other, in their order.
pub(super) async fn side_by_side<F: Future>(attempts: Vec<F>) -> Vec<F::Output> {
    stream::iter(attempts).buffered(AT_ONCE).collect().await
}
