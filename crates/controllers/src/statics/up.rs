//! Makes the nodes that a static pool lacks.

use std::time::Duration;

use api::NodeClaim;
use engine::statics::missing;
use futures::{StreamExt, stream};
use model::ids::PoolName;
use model::pool::PoolState;
use runtime::Next;

use super::{Keeper, Look, look};
use crate::claims;
use crate::controller::TickId;
use crate::ctx::Ctx;
use crate::error::ControllerError;
use crate::metrics::CreateReason;

/// Every change of a pool or of one of its machines wakes it; this is for what nobody tells us of.
const AGAIN: Duration = Duration::from_secs(60);
const AT_LIMIT: Duration = Duration::from_secs(30);
const AT_ONCE: usize = 100;

pub(crate) struct StaticUp;

impl Keeper for StaticUp {
    const NAME: &'static str = "static.provisioning";

    async fn keep(ctx: &Ctx, name: &PoolName, id: &TickId) -> Result<Next, ControllerError> {
        let Some((look, places)) = reserve(ctx, name) else { return Ok(Next::OnChange) };
        let wanted = missing(look.census);
        if wanted == 0 {
            return Ok(Next::After(AGAIN));
        }
        if places.left == 0 {
            let limit = look.pool.limits.nodes;
            tracing::info!(NodePool.name = name.as_str(), limit, "nodepool node limit reached");
            return Ok(Next::After(AT_LIMIT));
        }
        let (current, desired, count) = (look.census.active, look.census.replicas, places.left);
        tracing::info!(
            NodePool.name = name.as_str(),
            current,
            desired,
            "provision-count" = count,
            "provisioning nodeclaims to satisfy replica count"
        );
        fill(ctx, &look, places, id).await?;
        Ok(Next::After(if count < wanted { AT_LIMIT } else { AGAIN }))
    }
}

/// Looks and reserves under one lock, so that nobody else counts on the same places. `None` for a pool that makes no nodes.
fn reserve<'a>(ctx: &'a Ctx, name: &PoolName) -> Option<(Look, Places<'a>)> {
    let mut store = ctx.store();
    let look = look(&store, name).filter(|look| look.pool.state == PoolState::Ready)?;
    let left = store.reserve_nodes(name, look.pool.limits.nodes, missing(look.census));
    Some((look, Places { ctx, pool: name.clone(), left }))
}

/// Makes one claim for each place. One that fails takes no other with it, and is made up for at the next look.
async fn fill(ctx: &Ctx, look: &Look, mut places: Places<'_>, id: &TickId) -> Result<(), ControllerError> {
    let rng = ctx.rng.fork(id.as_str());
    let prefix = format!("{}-", places.pool);
    let claims: Vec<NodeClaim> = (0..places.left).map(|_| claims::of_pool(&look.wire, rng.name(&prefix), id)).collect();
    let attempts = stream::iter(claims).map(|claim| claims::create(ctx, claim, CreateReason::Provisioned));
    let mut attempts = attempts.buffered(AT_ONCE);
    let mut end = Ok(());
    while let Some(made) = attempts.next().await {
        // A claim that was made is counted as itself from now on.
        places.give_back(1);
        end = end.and(made.map(drop));
    }
    end
}

/// Places within a pool's limit that nobody else may use. What is not used is given back, however this ends.
struct Places<'a> {
    ctx: &'a Ctx,
    pool: PoolName,
    left: i64,
}

impl Places<'_> {
    fn give_back(&mut self, count: i64) {
        self.left -= count;
        self.ctx.store().release_nodes(&self.pool, count);
    }
}

impl Drop for Places<'_> {
    fn drop(&mut self) {
        if self.left > 0 {
            self.give_back(self.left);
        }
    }
}
