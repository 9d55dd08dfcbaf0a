//! What pools can buy, kept in the store: asked of the cloud by class, corrected by overlays where that is switched on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::nodepool::NodeClassReference;
use api::{NodeOverlay, NodePool};
use cluster::store::NodeClass;
use cluster::{Duty, Store};
use engine::overlay::{Overlaid, PoolTypes, Verdict};
use model::ids::{NodeName, PoolName};
use model::instance::InstanceType;
use model::overlay::Overlay;
use model::pool::Pool;
use provider::{Catalog, CatalogVersion, CloudProvider, ProviderError, Reaction};
use runtime::Next;
use runtime::error::with_causes;
use tokio::time::Instant;

use crate::controller::{Controller, TickId};
use crate::ctx::Ctx;
use crate::error::ControllerError;
use crate::metrics::{ByPool, unpriced};
use crate::overlays::problems;

/// Prices and availability change without anybody telling us. Whoever plans asks anew in any case.
const ROUND: Duration = Duration::from_secs(60);

/// What was last put into the store, so that equal news is no news, and what became of overlays.
#[derive(Default)]
pub(crate) struct Catalogs {
    shown: Mutex<BTreeMap<PoolName, Shown>>,
    verdicts: Mutex<BTreeMap<Arc<str>, Verdict>>,
    laid: Mutex<Option<Laid>>,
}

/// Lists that overlays have corrected, and what they follow from. Going through all types of all pools takes long enough to
/// be done only when something of that has changed.
struct Laid {
    of: Subjects,
    types: Arc<PoolLists>,
}

/// What pools are sold, as far as that is known, and the overlays.
#[derive(PartialEq)]
struct Subjects {
    pools: Vec<(PoolName, Option<(CatalogVersion, Labels)>)>,
    overlays: Vec<Arc<Overlay>>,
}

type PoolLists = BTreeMap<PoolName, Vec<Arc<InstanceType>>>;

#[derive(PartialEq)]
struct Shown {
    version: Option<CatalogVersion>,
    /// What the list was corrected by; nothing where overlays are switched off.
    corrections: Option<Corrections>,
}

/// Overlays, and the pool that they were laid over.
#[derive(Clone, PartialEq)]
struct Corrections {
    overlays: Vec<Arc<Overlay>>,
    pool: Labels,
}

type Labels = (model::labels::Labels, model::requirements::Requirements);

/// A pool and the class whose offers it can take.
struct Asking {
    name: PoolName,
    class: NodeClassReference,
    pool: Option<Arc<Pool>>,
}

impl Catalogs {
    /// Asks the cloud about every class that pools name, and tells the store what is new. A class that the cloud cannot
    /// answer for now keeps what was known; one that it will not serve sells nothing. Says what it could not find out.
    pub(crate) async fn refresh(&self, ctx: &Ctx, cloud: &dyn CloudProvider) -> Option<ControllerError> {
        let (asking, overlays) = look(ctx);
        let mut answers: BTreeMap<&NodeClassReference, Answer> = BTreeMap::new();
        let mut unanswered = None;
        for pool in &asking {
            if !answers.contains_key(&pool.class) {
                let said = cloud.catalog(&pool.class).await;
                if let Some(error) = said.as_ref().err().filter(|error| error.reaction() == Reaction::BackOff) {
                    let doing = format!("asking what class {} sells", pool.class.name);
                    unanswered = Some(ControllerError::Cloud { doing, source: error.clone() });
                }
                answers.insert(&pool.class, Answer::of(said, &pool.class));
            }
        }
        let corrected = ctx.settings.gates.node_overlay.then(|| self.lay(ctx, &asking, &answers, &overlays));
        for pool in &asking {
            let (version, types) = match &answers[&pool.class] {
                Answer::Unknown => continue,
                Answer::Nothing => (None, None),
                Answer::Sold(catalog) => (Some(catalog.version), Some(&catalog.types)),
            };
            let corrections = corrected
                .as_ref()
                .and(pool.pool.as_ref())
                .map(|known| Corrections { overlays: overlays.clone(), pool: labels_of(known) });
            let is_news = self.note(&pool.name, Shown { version, corrections });
            if is_news {
                let overlaid = corrected.as_ref().and_then(|types| types.get(&pool.name)).cloned();
                let types = overlaid.unwrap_or_else(|| types.map(|types| types.to_vec()).unwrap_or_default());
                ctx.tell(|store, now| store.set_catalog(&pool.name, types, now));
            }
        }
        let names: BTreeSet<&PoolName> = asking.iter().map(|pool| &pool.name).collect();
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).retain(|name, _| names.contains(name));
        unanswered
    }

    /// What the cloud sells as overlays correct it.
    fn lay(
        &self,
        ctx: &Ctx,
        asking: &[Asking],
        answers: &BTreeMap<&NodeClassReference, Answer>,
        overlays: &[Arc<Overlay>],
    ) -> Arc<PoolLists> {
        let pools = asking.iter().map(|asking| match (&answers[&asking.class], &asking.pool) {
            (Answer::Sold(catalog), Some(pool)) => (asking.name.clone(), Some((catalog.version, labels_of(pool)))),
            _ => (asking.name.clone(), None),
        });
        let of = Subjects { pools: pools.collect(), overlays: overlays.to_vec() };
        let mut laid = self.laid.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(laid) = laid.as_ref().filter(|laid| laid.of == of) {
            return laid.types.clone();
        }
        let Overlaid { types, verdicts } = corrected(ctx, asking, answers, overlays);
        let types = Arc::new(types);
        *laid = Some(Laid { of, types: types.clone() });
        drop(laid);
        if self.note_verdicts(verdicts) {
            ctx.wakers.wake(&Duty::Overlays);
        }
        types
    }

    /// What became of an overlay when the cloud was last asked.
    pub(crate) fn verdict(&self, overlay: &str) -> Option<Verdict> {
        self.verdicts.lock().unwrap_or_else(PoisonError::into_inner).get(overlay).cloned()
    }

    /// Says whether that is news.
    fn note_verdicts(&self, verdicts: BTreeMap<Arc<str>, Verdict>) -> bool {
        let mut known = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = *known != verdicts;
        *known = verdicts;
        is_news
    }

    /// Whether this differs from what the store has.
    fn note(&self, pool: &PoolName, shown: Shown) -> bool {
        let mut known = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if known.get(pool) == Some(&shown) {
            return false;
        }
        known.insert(pool.clone(), shown);
        true
    }
}

fn labels_of(pool: &Pool) -> Labels {
    (pool.template.labels.clone(), pool.template.requirements.clone())
}

enum Answer {
    Sold(Catalog),
    Nothing,
    Unknown,
}

impl Answer {
    fn of(answer: Result<Catalog, ProviderError>, class: &NodeClassReference) -> Self {
        let error = match answer {
            Ok(catalog) => return Self::Sold(catalog),
            Err(error) => error,
        };
        // The pool's own condition says what is wrong with its class; here it is only worth a line for those who look.
        tracing::debug!(class = class.name, error = with_causes(&error), "cannot say what the class sells");
        match error.reaction() {
            Reaction::BackOff => Self::Unknown,
            Reaction::PlanAgain | Reaction::WaitForChange | Reaction::AlreadyGone => Self::Nothing,
        }
    }
}

fn look(ctx: &Ctx) -> (Vec<Asking>, Vec<Arc<Overlay>>) {
    let store = ctx.store();
    let asking = store.node_pools().iter().map(|(name, wire)| Asking {
        name: name.clone(),
        class: wire.spec.template.spec.node_class_ref.clone(),
        pool: store.pools().get(name).cloned(),
    });
    let asking = asking.collect();
    // One that makes no sense in itself is applied nowhere, and one that is going not any more.
    let rules = &store.settings().rules;
    let is_sound = |wire: &NodeOverlay| wire.metadata.deletion_timestamp.is_none() && problems(wire, rules).is_empty();
    let sound = |name: &str| store.node_overlays().get(name).is_some_and(|wire| is_sound(wire));
    let overlays = store.overlays().filter(|overlay| sound(&overlay.name)).cloned().collect();
    (asking, overlays)
}

fn corrected(
    ctx: &Ctx,
    asking: &[Asking],
    answers: &BTreeMap<&NodeClassReference, Answer>,
    overlays: &[Arc<Overlay>],
) -> Overlaid {
    let sold = asking.iter().filter_map(|asking| match (&answers[&asking.class], &asking.pool) {
        (Answer::Sold(catalog), Some(pool)) => Some(PoolTypes { pool, types: catalog.types.to_vec() }),
        _ => None,
    });
    let sold: Vec<PoolTypes<'_>> = sold.collect();
    let well_known = ctx.store().settings().well_known.clone();
    engine::overlay::apply(overlays, &sold, &well_known)
}

/// Keeps the store's catalogues up to date between plans, for metrics and for claims whose machine is not known yet.
#[derive(Default)]
pub(crate) struct CatalogKeeper {
    asked: Mutex<Option<(Instant, Subject)>>,
    /// Machines whose price nobody knows, and the state of the store in which they were looked for.
    unpriced: Mutex<(Option<u64>, BTreeSet<NodeName>)>,
}

/// What a cloud's answer depends on, as far as anybody tells us. Pools also call when a machine of theirs changes.
#[derive(PartialEq)]
struct Subject {
    pools: Vec<(PoolName, Option<i64>, Option<Arc<NodeClass>>)>,
    overlays: Vec<Arc<Overlay>>,
}

impl Subject {
    fn of(store: &Store) -> Self {
        let pools = store.node_pools().iter();
        let class_of = |pool: &NodePool| store.class_named(&pool.spec.template.spec.node_class_ref).cloned();
        let pools = pools.map(|(name, pool)| (name.clone(), pool.metadata.generation, class_of(pool)));
        Self { pools: pools.collect(), overlays: store.overlays().cloned().collect() }
    }
}

impl CatalogKeeper {
    /// How long the last answers are still good; nothing when the cloud is to be asked.
    fn until_stale(&self, subject: &Subject) -> Option<Duration> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, about) = asked.as_ref()?;
        let left = (*at + ROUND).checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
        left.filter(|_| about == subject)
    }

    /// A machine that is not on sale any more counts for nothing in its pool's cost. Each is told of once.
    fn count_unpriced(&self, ctx: &Ctx) {
        let mut last = self.unpriced.lock().unwrap_or_else(PoisonError::into_inner);
        let (counted, known) = &mut *last;
        let (generation, found) = {
            let store = ctx.store();
            let generation = store.generation();
            if *counted == Some(generation) {
                return;
            }
            (generation, unpriced(&store))
        };
        *counted = Some(generation);
        for (machine, pool) in found.iter().filter(|(machine, _)| !known.contains(*machine)) {
            ctx.metrics.cost_errors.get_or_create(&ByPool { nodepool: pool.to_string() }).inc();
            let (node_pool, machine) = (pool.as_str(), machine.as_str());
            tracing::error!(
                NodePool.name = node_pool,
                machine,
                "no offering tells the price of a machine; it counts for nothing"
            );
        }
        *known = found.into_keys().collect();
    }
}

impl Controller for CatalogKeeper {
    type Key = ();
    const NAME: &'static str = "state.catalog";

    fn wakes_for(call: &Duty) -> Option<()> {
        matches!(call, Duty::Pool(_) | Duty::Overlays).then_some(())
    }

    fn first_keys(&self, _store: &Store) -> Vec<()> {
        vec![()]
    }

    async fn tick(&self, ctx: &Ctx, _key: &(), _id: &TickId) -> Result<Next, ControllerError> {
        let subject = Subject::of(&ctx.store());
        if let Some(left) = self.until_stale(&subject) {
            return Ok(Next::After(left));
        }
        // What could not be found out is asked for again by the clock.
        ctx.catalogs.refresh(ctx, &ctx.cloud.for_controller(Self::NAME)).await;
        self.count_unpriced(ctx);
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), subject));
        Ok(Next::After(ROUND))
    }
}

#[cfg(test)]
mod tests;
