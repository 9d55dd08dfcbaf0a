//! Machines that the cloud takes away: their claims are ended in good time, so that pods move while they can.
//!
//! The claim goes the way of every claim that is deleted: its pods count as waiting, machines are bought for them, and its
//! node is drained. Where the cloud says when the machine will be gone, the drain is over by then: what budgets would still
//! protect is gone a moment later in any case.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::NodeClaim;
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use kube::{Resource, ResourceExt};
use provider::metered::Metered;
use provider::{CloudProvider, Interruption};
use runtime::backoff::Retry;
use runtime::error::with_causes;
use runtime::{Backoff, RuntimeError, Stop};
use tokio::time::Instant;

use crate::controller::{self, rounds};
use crate::ctx::Ctx;
use crate::disrupted;
use crate::ending::{end_by, pods_to_move};
use crate::error::{ControllerError, Doing};
use crate::events;
use crate::metrics::DisruptedReason;

pub(crate) const NAME: &str = "interruption";
const AT_ONCE: usize = 10;
/// How often the cloud is asked while some notices wait to be tried again.
const AMONG_LATE_ONES: Duration = Duration::from_secs(1);

/// Listens until the stop is given. What is heard before everything is known would be about machines that nobody knows.
pub(crate) async fn run(ctx: &Ctx, stop: &Stop) -> Result<(), RuntimeError> {
    if !controller::all_listed(ctx, stop).await {
        return Ok(());
    }
    let (cloud, late) = (ctx.cloud.for_controller(NAME), Late::default());
    rounds(ctx, NAME, || round(ctx, &cloud, &late), stop).await
}

/// Notices that could not be dealt with when they came, by their ids, and when each is tried again.
type Late = Mutex<BTreeMap<Arc<str>, Trial>>;

struct Trial {
    retry: Retry,
    again: Instant,
}

/// One notice that cannot be dealt with now keeps no other: it is tried again later and later, and the rest are heard meanwhile.
/// Only who cannot listen at all, or not say that he has heard, waits as a whole.
async fn round(ctx: &Ctx, cloud: &Metered, late: &Late) -> Result<(), ControllerError> {
    let mut notices = cloud.interruptions().await.doing("hearing of machines that the cloud takes away")?;
    let heard = notices.len();
    {
        let mut late = late.lock().unwrap_or_else(PoisonError::into_inner);
        late.retain(|id, _| notices.iter().any(|notice| notice.id == *id));
        notices.retain(|notice| late.get(&notice.id).is_none_or(|trial| trial.again <= Instant::now()));
    }
    let ends = stream::iter(notices).map(|notice| async move {
        let end = hand_over(ctx, &notice).await;
        (notice, end)
    });
    let ends: Vec<(Interruption, Result<(), ControllerError>)> = ends.buffered(AT_ONCE).collect().await;
    let mut handled = Vec::new();
    for (notice, outcome) in ends {
        match outcome {
            Ok(()) => handled.push(notice),
            Err(error) => put_off(ctx, late, &notice, &error),
        }
    }
    if !handled.is_empty() {
        cloud.acknowledge(&handled).await.doing("acknowledging notices of the cloud")?;
    }
    if handled.len() < heard {
        // The cloud tells of what is left at once, so it is not asked at once.
        tokio::time::sleep(AMONG_LATE_ONES).await;
    }
    Ok(())
}

fn put_off(ctx: &Ctx, late: &Late, notice: &Interruption, error: &ControllerError) {
    let mut late = late.lock().unwrap_or_else(PoisonError::into_inner);
    let trial = late.entry(notice.id.clone()).or_insert_with(|| {
        let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
        Trial { retry: Retry::new(backoff, ctx.rng.fork(&notice.id)), again: Instant::now() }
    });
    let wait = trial.retry.failed();
    trial.again = Instant::now() + wait;
    let (machine, error) = (notice.machine.as_str(), with_causes(error));
    tracing::warn!(machine, kind = %notice.kind, error, ?wait, "cannot hand over a machine that the cloud takes away, will try again");
}

/// A machine that is no claim's is nobody's business here.
async fn hand_over(ctx: &Ctx, notice: &Interruption) -> Result<(), ControllerError> {
    let (claims, nodes) = {
        let store = ctx.store();
        let id = notice.machine.as_str();
        let claims: Vec<Arc<NodeClaim>> = store.claims_with_id(id).filter_map(|name| store.claim(name)).collect();
        let nodes: Vec<Arc<Node>> = store.nodes_with_id(id).filter_map(|name| store.node(name)).collect();
        (claims, nodes)
    };
    for claim in claims {
        let regarding = || std::iter::once(claim.object_ref(&())).chain(nodes.iter().map(|node| node.object_ref(&())));
        regarding().for_each(|object| ctx.recorder.publish(events::interrupted(object, notice.kind)));
        if !notice.kind.ends_machine() {
            continue;
        }
        let is_news = claim.metadata.deletion_timestamp.is_none();
        let pods = pods_to_move(ctx, &claim);
        end_by(ctx, &claim, notice.deadline).await?;
        if is_news {
            let reason = DisruptedReason::from(notice.kind);
            disrupted::count_claim(ctx, &claim, reason);
            disrupted::count_pods(ctx, &claim, reason, pods);
            regarding().for_each(|object| ctx.recorder.publish(events::terminating_on_interruption(object)));
            let name = claim.name_any();
            tracing::info!(NodeClaim.name = name, kind = %notice.kind, pods, "ending a claim whose machine the cloud takes away");
        }
    }
    Ok(())
}
