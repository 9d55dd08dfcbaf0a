//! # controllers
//!
//! Purpose: the hands. One file per duty, and each duty has the same shape: gate, look at the store, ask the engine, do what
//! it said, report.
//! May touch: the API server and the cloud, through `Ctx`; every room but a concrete cloud.
//! Must not touch: the wall clock, spawning, unseeded chance, another duty (two duties that need one thing ask the engine).
//! Invariants: the store's lock is never held across an await; one function makes claims; what failed is handled by its kind
//! in one place (`error::ControllerError::reaction`); an end at any moment leaves nothing that a restart does not find again.
//!
//! ## Where to add a duty
//!
//! 1. A duty is a type with `impl Controller` (`controller.rs`): a name, which wake-up calls of the store concern it, and
//!    `tick`, which looks at one key and says when it wants to see it again. State between ticks lives in the type.
//! 2. It is added to the list in [`duties`] below, and nowhere else. `Duties::add` gives back its queue, for duties that are
//!    pushed by another one.
//! 3. `tick` reads with `ctx.store()` (a lock; never across an await), writes facts that it has just caused with
//!    `ctx.tell(|store, now| store.assume_...)`, which wakes whom that concerns, and returns `Result<Next, ControllerError>`.
//!    An error is handled by its kind in `controller::answer`; a duty handles itself only what it knows better.
//! 4. Calls to the API server or the cloud get words: `.doing("creating nodeclaim a")?` (`error.rs`).
//! 5. Texts of events are functions in `events.rs`, metrics are fields in `metrics.rs`, numbers that an operator may want to
//!    change stand in `settings.rs`.
//! 6. Claims are created by `claims::create` alone.
//! 7. Tests use `testing::World`: an API server in memory, the simulated cloud on top of it, and a `Ctx` that knows both.

pub mod apis;
mod buffers;
mod catalogs;
mod claims;
mod conditions;
pub mod controller;
pub mod ctx;
mod disrupt;
mod disruptable;
mod disrupted;
mod drain;
mod ending;
pub mod error;
pub mod events;
mod facts;
mod failpoint;
mod gc;
mod http;
mod interruption;
mod lifecycle;
pub mod metrics;
mod overlays;
mod per_claim;
pub mod pools;
mod provision;
mod repair;
pub mod settings;
mod statics;
#[cfg(test)]
mod testing;
mod upkeep;
mod wakers;
mod write;
mod zones;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use runtime::http::Server;
use runtime::{Election, RuntimeError, Stop, Tasks};

pub use claims::DECISION;
use controller::Duties;
pub use controller::{Controller, TickId};
pub use ctx::Ctx;
pub use disrupt::recorded;
pub use disrupt::resume::REPLACES;
pub use error::{ControllerError, Doing, Reaction};
pub use metrics::Metrics;
use provision::Provisioner;
pub use settings::Settings;

/// How long tasks may go on with what they have begun once the process is asked to end.
const GRACE: Duration = Duration::from_secs(10);

/// Every duty of ours, in one list.
fn duties(ctx: &Arc<Ctx>) -> Duties {
    let mut duties = Duties::new(ctx.clone());
    duties.add(upkeep::Upkeep);
    duties.add(apis::Discovery);
    duties.add(pools::Pools::default());
    duties.add(catalogs::CatalogKeeper::default());
    if ctx.settings.observes_cluster_state {
        duties.add(conditions::Conditions::default());
    }
    duties.add(lifecycle::Lifecycle::default());
    let evictions = Arc::new(drain::Evictions::default());
    let queue = duties.add(drain::EvictionQueue::new(evictions.clone()));
    duties.add(drain::NodeTermination::new(evictions, queue));
    duties.add(gc::Collection);
    duties.add(disruptable::Disruptable::default());
    duties.add(disruptable::PodEvents);
    add_gated(&mut duties, ctx);
    disrupt::add(&mut duties, ctx);
    duties
}

/// Those that an operator has to switch on.
fn add_gated(duties: &mut Duties, ctx: &Ctx) {
    let gates = ctx.settings.gates;
    if gates.node_repair && !provider::CloudProvider::repair_policies(&ctx.cloud).is_empty() {
        duties.add(repair::Repair);
    }
    if gates.static_capacity {
        duties.add(statics::StaticUp);
        duties.add(statics::StaticDown);
    }
    if gates.capacity_buffer {
        duties.add(buffers::Buffers);
    }
    if gates.node_overlay {
        duties.add(overlays::Overlays);
    }
}

/// How the process meets others: its rivals for the Lease, and those who ask how it is.
#[derive(Default)]
pub struct Front {
    pub election: Option<Election>,
    pub metrics: Option<Server>,
    pub probes: Option<Server>,
}

/// The whole process: everything that runs, until the stop is given or something fails.
///
/// Without an election it leads at once. Watching starts with leading, unless the operator wants a warm stand-by.
pub async fn run(ctx: Arc<Ctx>, front: Front, stop: Stop) -> Result<(), RuntimeError> {
    let duties = duties(&ctx);
    let mut tasks = Tasks::new(stop.child_token());
    let stop = tasks.stop();
    let is_watching = Arc::new(AtomicBool::new(false));
    http::spawn(&ctx, front.metrics, front.probes, &is_watching, &mut tasks);
    let is_warm = ctx.settings.watches_before_leading;
    if is_warm {
        is_watching.store(true, Ordering::Relaxed);
        facts::spawn(&ctx, &mut tasks);
    }
    let leading = {
        let (ctx, stop) = (ctx.clone(), stop.clone());
        async move {
            let work = || {
                let is_new = !is_watching.swap(true, Ordering::Relaxed);
                lead(ctx, Work { duties, watches: is_new }, stop.child_token())
            };
            match front.election {
                Some(election) => election.lead(&stop, work).await,
                None => work().await,
            }
        }
    };
    tasks.spawn("lead", leading);
    tasks.run(stop.cancelled_owned(), GRACE + GRACE).await
}

/// What only the leader does.
struct Work {
    duties: Duties,
    /// Whether watching begins only now.
    watches: bool,
}

async fn lead(ctx: Arc<Ctx>, work: Work, stop: Stop) -> Result<(), RuntimeError> {
    let held = metrics::LeaseHeld { name: ctx.settings.lease_name.clone() };
    ctx.metrics.leader.get_or_create(&held).set(1.0);
    let mut tasks = Tasks::new(stop);
    {
        // A warm stand-by sees what the leader sees; what is to be said about it is said once.
        let (ctx, stop) = (ctx.clone(), tasks.stop());
        tasks.spawn("events", async move {
            ctx.recorder.run(ctx.client.clone(), &stop).await;
            Ok::<(), RuntimeError>(())
        });
    }
    let provisioner = Provisioner::new(&ctx);
    if work.watches {
        facts::spawn(&ctx, &mut tasks);
    }
    work.duties.spawn(&mut tasks);
    {
        let (ctx, stop) = (ctx.clone(), tasks.stop());
        tasks.spawn(provision::NAME, async move {
            provisioner.run(&ctx, &stop).await;
            Ok::<(), RuntimeError>(())
        });
    }
    {
        let (ctx, stop) = (ctx.clone(), tasks.stop());
        tasks.spawn(interruption::NAME, async move { interruption::run(&ctx, &stop).await });
    }
    for duty in provider::CloudProvider::duties(&ctx.cloud) {
        let (ctx, stop) = (ctx.clone(), tasks.stop());
        tasks.spawn(duty.name, async move { controller::run_provider_duty(&ctx, &duty, &stop).await });
    }
    let stop = tasks.stop();
    tasks.run(stop.cancelled_owned(), GRACE).await
}
