//! Claims whose machine has vanished, and machines whose claim has: every two minutes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::NodeClaim;
use cluster::{Duty, Store};
use engine::lifecycle::{Owned, is_lost, orphans};
use futures::StreamExt;
use kube::Api;
use kube::api::ListParams;
use model::ids::{NodeName, Uid};
use provider::metered::Metered;
use provider::{CloudProvider, Instance, ProviderId, Termination};
use runtime::Next;

use crate::controller::{Controller, TickId};
use crate::ctx::Ctx;
use crate::error::{ControllerError, Doing};
use crate::metrics::DisruptedReason;
use crate::{disrupted, write};

const EVERY: Duration = Duration::from_secs(120);
const AT_ONCE: usize = 20;
const PAGE: u32 = 500;

pub(crate) struct Collection;

impl Controller for Collection {
    type Key = ();
    const NAME: &'static str = "nodeclaim.garbagecollection";
    const NEEDS_ALL_LISTED: bool = true;

    fn wakes_for(_call: &Duty) -> Option<()> {
        None
    }

    fn first_keys(&self, _store: &Store) -> Vec<()> {
        vec![()]
    }

    fn after_gone() -> Next {
        Next::After(EVERY)
    }

    async fn tick(&self, ctx: &Ctx, _key: &(), _id: &TickId) -> Result<Next, ControllerError> {
        let registered = registered(&ctx.store());
        let machines = ctx.cloud.for_controller(Self::NAME).list().await.doing("listing machines")?;
        let claims = collect_claims(ctx, &registered, &machines).await;
        let orphans = collect_machines(ctx, &machines).await;
        claims.and(orphans)?;
        Ok(Next::After(EVERY))
    }
}

/// The claims whose machines a list that begins now must show. One that registers while the list is made may have a machine
/// that is younger than the list.
fn registered(store: &Store) -> BTreeSet<Uid> {
    let is_registered = |claim: &NodeClaim| {
        let mut conditions = claim.status.iter().flat_map(|status| &status.conditions);
        conditions.any(|condition| condition.type_ == "Registered" && condition.is_true())
    };
    let claims = store.claims().values().filter(|claim| is_registered(claim));
    claims.filter_map(|claim| claim.metadata.uid.as_deref().map(Uid::from)).collect()
}

/// Ends claims that nothing is left of but the claim itself.
async fn collect_claims(ctx: &Ctx, registered: &BTreeSet<Uid>, machines: &[Instance]) -> Result<(), ControllerError> {
    let listed: BTreeSet<&str> = machines.iter().map(|machine| machine.id.as_str()).collect();
    let lost: Vec<NodeClaim> = {
        let store = ctx.store();
        let is_lost = |(name, claim): &(&NodeName, Arc<NodeClaim>)| {
            let was_registered = claim.metadata.uid.as_deref().is_some_and(|uid| registered.contains(&Uid::from(uid)));
            let id = claim.status.as_ref().and_then(|status| status.provider_id.as_deref()).unwrap_or_default();
            let is_listed = listed.contains(id);
            was_registered && !is_listed && store.claim_life(name).is_some_and(|life| is_lost(&life.value, is_listed))
        };
        store.claims().iter().filter(is_lost).map(|(_, claim)| Arc::unwrap_or_clone(claim)).collect()
    };
    let ends = futures::stream::iter(lost).map(|claim| async move {
        write::delete(ctx, &claim).await?;
        disrupted::count_claim(ctx, &claim, DisruptedReason::GarbageCollected);
        let (name, id) = (&claim.metadata.name, claim.status.as_ref().and_then(|status| status.provider_id.as_deref()));
        tracing::debug!(
            NodeClaim = name,
            "provider-id" = id,
            "garbage collecting nodeclaim with no cloudprovider representation"
        );
        Ok(())
    });
    let ends: Vec<Result<(), ControllerError>> = ends.buffered(AT_ONCE).collect().await;
    ends.into_iter().collect()
}

/// Ends machines that nobody will ever ask for: their launch was never heard of, or their end was cut short.
async fn collect_machines(ctx: &Ctx, machines: &[Instance]) -> Result<(), ControllerError> {
    let owned: Vec<Owned<ProviderId>> = machines.iter().filter_map(owned).collect();
    let known =
        ctx.store().claims().values().filter_map(|claim| claim.metadata.uid.as_deref().map(Uid::from)).collect();
    if orphans(&owned, &known, ctx.now()).next().is_none() {
        return Ok(());
    }
    // The store may have missed a claim, and another controller's claims are not in it at all: ask before anything ends.
    let known = list_claims(ctx).await?;
    let cloud = ctx.cloud.for_controller(Collection::NAME);
    // One machine that cannot be ended now does not keep the others.
    let mut end = Ok(());
    for orphan in orphans(&owned, &known, ctx.now()) {
        end = end.and(end_orphan(&cloud, orphan).await);
    }
    end
}

async fn end_orphan(cloud: &Metered, orphan: &Owned<ProviderId>) -> Result<(), ControllerError> {
    let ended = match cloud.terminate(&orphan.id).await {
        Err(error) if error.reaction() == provider::Reaction::AlreadyGone => Termination::Gone,
        answer => answer.doing(format!("terminating machine {}", orphan.id))?,
    };
    tracing::info!("provider-id" = %orphan.id, claim = %orphan.claim, ?ended, "collecting a machine without a nodeclaim");
    Ok(())
}

fn owned(machine: &Instance) -> Option<Owned<ProviderId>> {
    let claim = machine.claim.as_ref().filter(|claim| !claim.uid.is_empty())?;
    Some(Owned { id: machine.id.clone(), claim: Uid::from(claim.uid.as_str()), launched: machine.launched_at })
}

/// The ids of all claims that there are, ours or not.
async fn list_claims(ctx: &Ctx) -> Result<BTreeSet<Uid>, ControllerError> {
    let api: Api<NodeClaim> = Api::all(ctx.client.clone());
    let mut found = BTreeSet::new();
    let mut continued: Option<String> = None;
    loop {
        let params = ListParams { limit: Some(PAGE), continue_token: continued, ..ListParams::default() };
        let page = api.list_metadata(&params).await.doing("listing nodeclaims")?;
        found.extend(page.items.iter().filter_map(|claim| claim.metadata.uid.as_deref().map(Uid::from)));
        continued = page.metadata.continue_.filter(|token| !token.is_empty());
        if continued.is_none() {
            return Ok(found);
        }
    }
}

#[cfg(test)]
mod tests;
