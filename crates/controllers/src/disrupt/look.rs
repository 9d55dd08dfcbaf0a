//! What is decided on, all of one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cluster::Store;
use cluster::record::DecisionKind;
use cluster::store::Batch;
use engine::disrupt::{Rules, Scene, StaticCount};
use engine::solve::Catalogue;
use model::disruption::Disruption;
use model::ids::{NodeName, PodName, PoolName};
use model::time::Instant;
use runtime::Cancel;
use tokio::sync::MutexGuard;

use super::commands::{Commands, Number};
use crate::ctx::Ctx;
use crate::error::{ControllerError, Doing};

/// The right to look and then to think, which one has at a time. Whoever looked first and then waited for it would judge a
/// world that is gone.
pub(super) struct Turn<'c> {
    commands: &'c Commands,
    /// What was on sale at the last look.
    kept: MutexGuard<'c, Option<Arc<Catalogue>>>,
}

impl<'c> Turn<'c> {
    pub(super) async fn wait(commands: &'c Commands) -> Self {
        Self { commands, kept: commands.thinking.lock().await }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) batch: Batch,
    pub(super) nominated: BTreeSet<NodeName>,
    pub(super) moved: BTreeMap<PodName, Instant>,
    pub(super) under_way: Vec<Arc<Disruption>>,
    pub(super) paused: BTreeMap<PoolName, Instant>,
    pub(super) static_pools: BTreeMap<PoolName, StaticCount>,
    /// Of the store and of the commands.
    pub(super) generation: (u64, u64),
}

/// What a look saw, as far as time alone does not change it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    generation: (u64, u64),
    nominated: BTreeSet<NodeName>,
    paused: BTreeMap<PoolName, Instant>,
}

impl Look {
    /// Everything but the command that asks, if one does.
    pub(super) fn take(ctx: &Ctx, turn: &Turn<'_>, asking: Option<Number>) -> Self {
        let commands = turn.commands;
        {
            let store = ctx.store();
            commands.keep_rests_of(|pool| store.node_pool(pool).is_some());
        }
        let (now, version) = (ctx.now(), commands.version());
        let (under_way, paused) = (commands.others(asking), commands.resting(now));
        let mut store = ctx.store();
        let decision = if asking.is_some() { DecisionKind::SecondLook } else { DecisionKind::Disruption };
        let batch = store.batch_for(decision, now);
        let nominated = nominated(&store, now);
        let (static_pools, generation) = (static_pools(&store), (store.generation(), version));
        let moved = store.moved_pods(now, ctx.settings.pod_move_cooldown);
        Self { batch, nominated, moved, under_way, paused, static_pools, generation }
    }

    pub(super) fn scene(&self) -> Scene<'_> {
        Scene {
            snapshot: &self.batch.snapshot,
            pending: self.batch.pending.iter().chain(&self.batch.buffered).map(|pod| &**pod).collect(),
            nominated: self.nominated.clone(),
            moved: self.moved.clone(),
            under_way: self.under_way.iter().map(|command| &**command).collect(),
            paused: self.paused.clone(),
            static_pools: self.static_pools.clone(),
        }
    }

    pub(super) fn mark(&self) -> Mark {
        let Self { generation, nominated, paused, .. } = self;
        Mark { generation: *generation, nominated: nominated.clone(), paused: paused.clone() }
    }
}

impl Mark {
    /// What a look at this moment would have, without taking it: a cluster in which nothing happens costs next to nothing.
    pub(super) fn take(ctx: &Ctx, commands: &Commands) -> Self {
        // What has run out changes what a look would show.
        ctx.tell(|store, now| store.expire(now));
        let now = ctx.now();
        let (version, paused) = (commands.version(), commands.resting(now));
        let store = ctx.store();
        Self { generation: (store.generation(), version), nominated: nominated(&store, now), paused }
    }
}

fn nominated(store: &Store, now: Instant) -> BTreeSet<NodeName> {
    store.machines().keys().filter(|name| store.is_nominated(name, now)).cloned().collect()
}

fn static_pools(store: &Store) -> BTreeMap<PoolName, StaticCount> {
    let count = |names: &BTreeSet<NodeName>| i64::try_from(names.len()).unwrap_or(i64::MAX);
    let counts = store.pools().iter().filter(|(_, pool)| pool.is_static()).map(|(name, pool)| {
        let claims = store.pool_claims(name);
        let (active, replacing) = (count(&claims.active), count(&claims.replacing));
        let present = active + replacing + count(&claims.deleting);
        let room = pool.limits.nodes.map(|limit| limit.saturating_sub(present).max(0));
        (name.clone(), StaticCount { active, replacing, room })
    });
    counts.collect()
}

pub(super) fn rules(ctx: &Ctx) -> Rules {
    Rules {
        spot_to_spot: ctx.settings.gates.spot_to_spot_consolidation,
        payback: ctx.settings.consolidation_payback,
        pod_move_cooldown: ctx.settings.pod_move_cooldown,
        threads: ctx.settings.cores(),
    }
}

/// Asks the engine about a look, beside the reactor.
pub(super) async fn think<T: Send + 'static>(
    ctx: &Ctx,
    turn: &mut Turn<'_>,
    look: Look,
    question: impl FnOnce(&Arc<Catalogue>, &Scene<'_>, &Rules) -> T + Send + 'static,
) -> Result<T, ControllerError> {
    let (rules, cancel, last) = (rules(ctx), Cancel::default(), turn.kept.take());
    let answer = ctx.compute.run(&cancel, move |_| {
        let last = last.filter(|last| last.is_of(&look.batch.snapshot));
        let catalogue = last.unwrap_or_else(|| Arc::new(Catalogue::of(&look.batch.snapshot)));
        (question(&catalogue, &look.scene(), &rules), catalogue)
    });
    let (answer, catalogue) = answer.await.doing("deciding which nodes leave")?;
    *turn.kept = Some(catalogue);
    Ok(answer)
}
