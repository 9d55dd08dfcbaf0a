//! Pools that keep a number of nodes, whatever the pods want: up, within their limit, and down, gently.

mod down;
#[cfg(test)]
mod tests;
mod up;

use std::sync::Arc;

use api::NodePool;
use cluster::store::PoolClaims;
use cluster::{Duty, Store};
use engine::statics::Census;
use model::ids::PoolName;
use model::pool::{Pool, PoolKind, PoolState};
use runtime::Next;

use crate::controller::{About, Controller, TickId};
use crate::ctx::Ctx;
use crate::error::ControllerError;
use crate::settings::Settings;
pub(crate) use down::StaticDown;
pub(crate) use up::StaticUp;

/// As many as the reference works on at a time.
const WORKERS: usize = 10;

/// One of the two directions in which a static pool is kept at its size.
pub(crate) trait Keeper: Send + Sync + 'static {
    const NAME: &'static str;

    fn keep(ctx: &Ctx, name: &PoolName, id: &TickId) -> impl Future<Output = Result<Next, ControllerError>> + Send;
}

impl<K: Keeper> Controller for K {
    type Key = PoolName;
    const NAME: &'static str = K::NAME;
    const ABOUT: Option<About> = Some(About { group: "karpenter.sh", kind: "NodePool" });
    // Claims that were not listed yet would be made a second time, and a node whose pods were not would look empty.
    const NEEDS_ALL_LISTED: bool = true;

    fn wakes_for(call: &Duty) -> Option<PoolName> {
        call.pool()
    }

    fn first_keys(&self, store: &Store) -> Vec<PoolName> {
        store.pools().iter().filter(|(_, pool)| pool.is_static()).map(|(name, _)| name.clone()).collect()
    }

    fn workers(_settings: &Settings) -> usize {
        WORKERS
    }

    async fn tick(&self, ctx: &Ctx, name: &PoolName, id: &TickId) -> Result<Next, ControllerError> {
        K::keep(ctx, name, id).await
    }
}

/// A static pool that stays, and its claims, all of one moment.
struct Look {
    wire: Arc<NodePool>,
    pool: Arc<Pool>,
    claims: PoolClaims,
    census: Census,
}

fn look(store: &Store, name: &PoolName) -> Option<Look> {
    let (wire, pool) = (store.node_pool(name)?, store.pools().get(name)?);
    let PoolKind::Static { replicas } = pool.kind else { return None };
    if pool.state == PoolState::Deleting {
        return None;
    }
    let claims = store.pool_claims(name);
    let counts = claims.counts();
    let census = Census { replicas, active: counts.active, replacing: counts.replacing };
    Some(Look { wire: wire.clone(), pool: pool.clone(), claims, census })
}
