//! Removes the nodes that a static pool has too many of, those first that hurt least.

use std::sync::Arc;
use std::time::Duration;

use api::NodeClaim;
use cluster::Store;
use engine::statics::{Candidate, leavers, surplus};
use futures::{StreamExt, stream};
use model::ids::{NodeName, PoolName};
use model::pod::Life;
use runtime::Next;

use super::{Keeper, look};
use crate::controller::TickId;
use crate::ctx::Ctx;
use crate::error::ControllerError;
use crate::write;

const AGAIN: Duration = Duration::from_secs(60);
const AT_ONCE: usize = 20;

pub(crate) struct StaticDown;

impl Keeper for StaticDown {
    const NAME: &'static str = "static.deprovisioning";

    async fn keep(ctx: &Ctx, name: &PoolName, _id: &TickId) -> Result<Next, ControllerError> {
        let now = ctx.now();
        let (leavers, census) = {
            let store = ctx.store();
            let Some(look) = look(&store, name) else { return Ok(Next::OnChange) };
            let count = surplus(look.census);
            let candidates = look.claims.active.iter().filter(|_| count > 0);
            let candidates: Vec<Candidate> = candidates.filter_map(|claim| candidate(&store, claim)).collect();
            let leavers = leavers(&candidates, count, now);
            let claims: Vec<Arc<NodeClaim>> = leavers.iter().filter_map(|name| store.claim(name)).collect();
            (claims, look.census)
        };
        if leavers.is_empty() {
            return Ok(Next::After(AGAIN));
        }
        tracing::info!(
            NodePool.name = name.as_str(),
            current = census.active,
            desired = census.replicas,
            "deprovision-count" = leavers.len(),
            "deprovisioning nodeclaims to satisfy replica count"
        );
        // One that cannot be deleted now takes no other with it; the next look finds out who is left.
        let ends = stream::iter(leavers).map(|claim| async move { write::delete(ctx, &*claim).await });
        let ends: Vec<Result<(), ControllerError>> = ends.buffered(AT_ONCE).collect().await;
        ends.into_iter().collect::<Result<(), ControllerError>>()?;
        Ok(Next::After(AGAIN))
    }
}

fn candidate(store: &Store, name: &NodeName) -> Option<Candidate> {
    let life = store.claim_life(name)?.value;
    let machine = store.machine_of_claim(name);
    let pods = machine.into_iter().flat_map(|machine| store.pods_on(&machine.node.name));
    let staying = pods.map(|(pod, _)| pod).filter(|pod| pod.life == Life::Active);
    Some(Candidate {
        claim: name.clone(),
        is_launched: life.machine == model::claim::Machine::Named,
        pods: staying.cloned().collect(),
        created: life.created,
        expire_after: life.expire_after,
    })
}
