//! What is decided on, all of one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cluster::Store;
use cluster::record::DecisionKind;
use cluster::store::{Batch, PoolCounts};
use engine::disrupt::{Memory, Rules, Scene, StaticCount};
use model::disruption::{Disruption, Moved};
use model::ids::{NodeName, PodName, PoolName};
use model::time::Instant;
use runtime::Cancel;
use tokio::sync::MutexGuard;

use super::FORESIGHT;
use super::commands::{Commands, Number};
use crate::ctx::Ctx;
use crate::error::{ControllerError, Doing};

/// The right to look and then to think, which one has at a time. Whoever looked first and then waited for it would judge a
/// world that is gone.
pub(super) struct Turn<'c> {
    commands: &'c Commands,
    memory: MutexGuard<'c, Memory>,
}

impl<'c> Turn<'c> {
    pub(super) async fn wait(commands: &'c Commands) -> Self {
        Self { commands, memory: commands.thinking.lock().await }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) batch: Batch,
    /// How far ahead of the moment nodes are foreseen to settle.
    pub(super) foresight: Duration,
    pub(super) nominated: BTreeSet<NodeName>,
    pub(super) moved: BTreeMap<PodName, Moved>,
    pub(super) under_way: Vec<Arc<Disruption>>,
    pub(super) paused: BTreeMap<PoolName, Instant>,
    pub(super) static_pools: BTreeMap<PoolName, StaticCount>,
}

/// Numbers that change with what a look sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Versions {
    /// Of the store: anything at all.
    generation: u64,
    /// Of the store: something that may make a move possible which was not, or five minutes without that.
    quiet: u64,
    commands: u64,
}

/// What a look saw, as far as time alone does not change it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    versions: Versions,
    /// Nodes that nothing but pods which are about to come keeps from leaving, or from taking others.
    held: BTreeSet<NodeName>,
    paused: BTreeMap<PoolName, Instant>,
    /// Nodes that settle by then were looked at.
    pub(super) foresaw: Instant,
}

impl Look {
    /// Everything but the command that asks, if one does.
    pub(super) fn take(ctx: &Ctx, turn: &Turn<'_>, asking: Option<Number>) -> Self {
        let commands = turn.commands;
        {
            let store = ctx.store();
            commands.keep_rests_of(|pool| store.node_pool(pool).is_some());
        }
        let now = ctx.now();
        let (under_way, paused) = (commands.others(asking), commands.resting(now));
        let mut store = ctx.store();
        let decision = if asking.is_some() { DecisionKind::SecondLook } else { DecisionKind::Disruption };
        let batch = store.batch_for(decision, now);
        let (nominated, static_pools) = (store.nominated(now), static_pools(&store));
        let moved = store.moved_pods(now, ctx.settings.pod_move_cooldown, ctx.settings.consolidation_payback);
        // Whoever looks a second time judges what is so by now.
        let foresight = if asking.is_some() { Duration::ZERO } else { FORESIGHT };
        Self { batch, foresight, nominated, moved, under_way, paused, static_pools }
    }

    pub(super) fn scene(&self) -> Scene<'_> {
        Scene {
            snapshot: &self.batch.snapshot,
            settled_by: self.batch.snapshot.now.plus(self.foresight),
            pending: self.batch.pending.iter().chain(&self.batch.buffered).map(|pod| &**pod).collect(),
            promised: self.batch.promised.clone(),
            nominated: self.nominated.clone(),
            moved: self.moved.clone(),
            under_way: self.under_way.iter().map(|command| &**command).collect(),
            paused: self.paused.clone(),
            static_pools: self.static_pools.clone(),
        }
    }
}

impl Mark {
    /// What a look at this moment would see, without taking it: a cluster in which nothing happens costs next to nothing. Whoever looks
    /// takes it first, so that what happens in between is looked at again.
    pub(super) fn take(ctx: &Ctx, commands: &Commands) -> Self {
        // What has run out changes what a look would show.
        ctx.tell(|store, now| store.expire(now));
        let now = ctx.now();
        let (version, paused) = (commands.version(), commands.resting(now));
        let mut store = ctx.store();
        let versions = Versions::of(&mut store, now, version);
        Self { versions, held: store.held_by_nomination(now), paused, foresaw: now.plus(FORESIGHT) }
    }

    /// Whether a look would now find as little as the one that left this mark. Pods that come and nodes that are named for
    /// them only take room and rest away; what else may change without disturbing anybody waits for the end of a quiet time.
    pub(super) fn still_says(&self, now: &Self) -> bool {
        let is_quiet = self.versions.generation == now.versions.generation || self.versions.quiet == now.versions.quiet;
        is_quiet
            && self.versions.commands == now.versions.commands
            && self.held.is_subset(&now.held)
            && self.paused == now.paused
    }
}

impl Versions {
    fn of(store: &mut Store, now: Instant, commands: u64) -> Self {
        Self { generation: store.generation(), quiet: store.quiet_mark(now), commands }
    }
}

fn static_pools(store: &Store) -> BTreeMap<PoolName, StaticCount> {
    let counts = store.pools().iter().filter(|(_, pool)| pool.is_static()).map(|(name, pool)| {
        let PoolCounts { active, deleting, replacing } = store.pool_claims(name).counts();
        let present = active + replacing + deleting;
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
    question: impl FnOnce(&mut Memory, &Scene<'_>, &Rules) -> T + Send + 'static,
) -> Result<T, ControllerError> {
    let (rules, cancel, mut memory) = (rules(ctx), Cancel::default(), std::mem::take(&mut *turn.memory));
    let answer = ctx.compute.run(&cancel, move |_| (question(&mut memory, &look.scene(), &rules), memory));
    let (answer, memory) = answer.await.doing("deciding which nodes leave")?;
    *turn.memory = memory;
    Ok(answer)
}
