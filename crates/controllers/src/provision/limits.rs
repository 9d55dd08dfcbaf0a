//! A last look at pools' limits: planning takes its time, and others make claims too.

use std::collections::BTreeMap;

use model::ids::PoolName;
use model::pool::BrokenLimit;

use super::Look;
use crate::ctx::Ctx;

/// The pools that have more than they may have by now. No claim is made for them.
pub(super) fn exceeded(ctx: &Ctx, look: &Look) -> BTreeMap<PoolName, BrokenLimit> {
    let usage = ctx.store().pool_usage();
    let pools = look.batch.snapshot.pools.iter().filter(|(_, pool)| !pool.limits.is_empty());
    let broken = pools.filter_map(|(name, pool)| {
        let used = usage.get(name)?;
        let broken = pool.limits.first_broken(used.nodes + used.unlaunched, &used.capacity)?;
        Some((name.clone(), broken))
    });
    broken.collect()
}
