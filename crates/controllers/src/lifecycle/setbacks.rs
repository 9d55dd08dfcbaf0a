//! How often a pool's nodes did not initialize. It can be lost: then the pool has as much time again as at first.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::NodeClaim;
use api::labels::NODE_POOL;
use engine::lifecycle::Setbacks;
use kube::ResourceExt;
use model::claim::ClaimLife;
use model::ids::PoolName;
use model::time::Instant;

use crate::ctx::Ctx;

#[derive(Debug, Default)]
pub(super) struct PoolSetbacks(Mutex<BTreeMap<PoolName, Entry>>);

#[derive(Debug, Default)]
struct Entry {
    /// Which pool it was and what it said: whoever corrects a pool wants to see soon whether that helps.
    state: State,
    setbacks: Setbacks,
}

type State = (Option<String>, Option<i64>);

impl PoolSetbacks {
    /// How long the claim's node may take to initialize; nothing when nobody minds, or it has done so.
    pub(super) fn time_for(&self, ctx: &Ctx, claim: &NodeClaim, life: &ClaimLife) -> Option<Duration> {
        let first = ctx.settings.initialization_timeout.filter(|_| !life.initialized.is_true())?;
        let Some((name, state)) = pool_of(ctx, claim) else { return Some(first) };
        let entries = self.lock();
        let known = entries.get(&name).filter(|entry| entry.state == state);
        Some(known.map_or(first, |entry| entry.setbacks.time_for(life.registered.since, first)))
    }

    /// A node of the pool was given up that registered then.
    pub(super) fn note(&self, ctx: &Ctx, claim: &NodeClaim, registered: Instant, now: Instant) {
        let Some((name, state)) = pool_of(ctx, claim) else { return };
        let mut entries = self.lock();
        let store = ctx.store();
        entries.retain(|name, _| store.node_pool(name).is_some());
        drop(store);
        let entry = entries.entry(name).or_default();
        if entry.state != state {
            *entry = Entry { state, setbacks: Setbacks::default() };
        }
        entry.setbacks.note(registered, now);
    }

    /// A node of the pool has come all the way, so the pool is not to blame.
    pub(super) fn forget(&self, claim: &NodeClaim) {
        if let Some(name) = claim.labels().get(NODE_POOL) {
            self.lock().remove(&PoolName::from(name.as_str()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PoolName, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pool of a claim; a claim without one is not made anew by anybody.
fn pool_of(ctx: &Ctx, claim: &NodeClaim) -> Option<(PoolName, State)> {
    let name = PoolName::from(claim.labels().get(NODE_POOL)?.as_str());
    let store = ctx.store();
    let pool = &store.node_pool(&name)?.metadata;
    Some((name, (pool.uid.clone(), pool.generation)))
}
