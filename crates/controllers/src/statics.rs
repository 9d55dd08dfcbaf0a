//! Pools that keep a number of nodes, whatever the pods want: up, within their limit, and down, gently.

mod down;
#[cfg(test)]
mod tests;
mod up;

use std::sync::Arc;

use api::NodePool;
use cluster::Store;
use cluster::store::PoolClaims;
use engine::statics::Census;
use model::ids::PoolName;
use model::pool::{Pool, PoolKind, PoolState};

pub(crate) use down::StaticDown;
pub(crate) use up::StaticUp;

/// As many as the reference works on at a time.
const WORKERS: usize = 10;

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
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let census = Census { replicas, active: count(claims.active.len()), replacing: count(claims.replacing.len()) };
    Some(Look { wire: wire.clone(), pool: pool.clone(), claims, census })
}

fn static_pools(store: &Store) -> Vec<PoolName> {
    let is_static = |pool: &Pool| pool.kind != PoolKind::Dynamic;
    store.pools().iter().filter(|(_, pool)| is_static(pool)).map(|(name, _)| name.clone()).collect()
}
