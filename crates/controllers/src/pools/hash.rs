//! The stamp by which a pool and its claims are compared: whether nodes made today would be made differently.
//!
//! Stamps of another version are renewed, and that must not hide what has changed while nobody was looking: a claim gets the
//! hash of what it was made from, which is the pool's own only if that is still the same. Decision 0069.

use api::hash::{NODE_POOL_HASH_VERSION, node_claim_hash, node_pool_hash};
use api::labels::NODE_POOL;
use api::labels::annotations::{NODE_POOL_HASH as HASH, NODE_POOL_HASH_VERSION as VERSION};
use api::{NodeClaim, NodePool};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::ctx::Ctx;
use crate::error::{ControllerError, Doing};

/// Claims that are stamped again at the same time, when a cluster is taken over.
const AT_ONCE: usize = 20;

/// Writes the stamps of a pool, and first those of its claims if they are of another version, so that an end in between
/// leaves a pool that is stamped again and no claim that looks drifted.
pub(super) async fn stamp(ctx: &Ctx, pool: &NodePool) -> Result<(), ControllerError> {
    let hash = node_pool_hash(&pool.spec);
    let annotations = pool.annotations();
    let is_ours = annotations.get(VERSION).is_some_and(|version| version == NODE_POOL_HASH_VERSION);
    if is_ours && annotations.get(HASH) == Some(&hash) {
        return Ok(());
    }
    if !is_ours {
        restamp_claims(ctx, pool).await?;
    }
    let name = pool.name_any();
    let api: Api<NodePool> = Api::all(ctx.client.clone());
    let patch = annotation_patch(Some(&hash));
    let written = api
        .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .doing(format!("stamping nodepool {name}"))?;
    ctx.tell(|store, now| store.apply(written, now));
    Ok(())
}

async fn restamp_claims(ctx: &Ctx, pool: &NodePool) -> Result<(), ControllerError> {
    let name = pool.name_any();
    let stale: Vec<(String, Value)> = {
        let store = ctx.store();
        let of_pool = store.claims().values().filter(|claim| claim.labels().get(NODE_POOL) == Some(&name));
        of_pool.filter_map(|claim| Some((claim.name_any(), claim_patch(&claim, pool)?))).collect()
    };
    let api: Api<NodeClaim> = Api::all(ctx.client.clone());
    let restamp = |(claim, patch): (String, Value)| {
        let api = &api;
        async move {
            let written = api.patch(&claim, &PatchParams::default(), &Patch::Merge(patch)).await;
            match written.doing(format!("stamping nodeclaim {claim}")) {
                Ok(written) => ctx.tell(|store, now| store.apply(written, now)),
                Err(error) if error.is_gone() => {}
                Err(error) => return Err(error),
            }
            Ok(())
        }
    };
    stream::iter(stale).map(restamp).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
    Ok(())
}

/// What a claim's stamp becomes; nothing when it is of our version already. One that has drifted keeps its hash, or the new
/// one would make it look up to date.
fn claim_patch(claim: &NodeClaim, pool: &NodePool) -> Option<Value> {
    if claim.annotations().get(VERSION).is_some_and(|version| version == NODE_POOL_HASH_VERSION) {
        return None;
    }
    let mut conditions = claim.status.iter().flat_map(|status| &status.conditions);
    let has_drifted = conditions.any(|condition| condition.type_ == "Drifted") || had_drifted(claim, pool);
    let shown = node_claim_hash(claim, &pool.spec);
    Some(annotation_patch((!has_drifted).then_some(&*shown)))
}

/// Whether the stamps of whoever was here before say so, although nobody has marked the claim yet.
fn had_drifted(claim: &NodeClaim, pool: &NodePool) -> bool {
    let (made, wanted) = (claim.annotations(), pool.annotations());
    let differs = |key: &str| made.get(key).zip(wanted.get(key)).map(|(made, wanted)| made != wanted);
    differs(VERSION) == Some(false) && differs(HASH) == Some(true)
}

fn annotation_patch(hash: Option<&str>) -> Value {
    let mut annotations = json!({VERSION: NODE_POOL_HASH_VERSION});
    if let Some(hash) = hash {
        annotations[HASH] = json!(hash);
    }
    json!({"metadata": {"annotations": annotations}})
}
