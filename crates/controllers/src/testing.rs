//! For tests: a cluster in memory, the simulated cloud on top of it, and a `Ctx` that knows both. Under a paused clock.
//!
//! `world.put(json!({...}))` makes an object, `world.sync()` brings what the server has into the store, as watches would, and
//! then a duty's `tick(&world.ctx, &key, &world.id())` is one look. `world.run(duration)` runs the whole process instead.

mod apiserver;
mod cloud;
mod objects;
mod tests;

use std::sync::Arc;
use std::time::Duration;

use cluster::{Fact, Kind, feed};
use provider::kwok::types::Menu;
use provider::kwok::{Assortment, Kwok};
use provider::metered::Metered;
use runtime::{Clock, Compute, Recorder, Rng, Stop, Tasks};
use serde_json::{Value, json};

pub(crate) use apiserver::{ApiServer, Trouble};
pub(crate) use cloud::Scripted;
pub(crate) use objects::{machine, merged, node_class, node_pool, pending_pod, pod_on};

use crate::controller::{Controller, Duties, TickId};
use crate::ctx::{Ctx, Parts};
use crate::facts;
use crate::metrics::Metrics;
use crate::settings::Settings;

/// The moment at which every test begins.
pub(crate) const EPOCH: &str = "2026-01-01T00:00:00Z";

pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) cloud: Kwok,
    pub(crate) ctx: Arc<Ctx>,
}

impl World {
    /// Call it inside a runtime whose clock is paused.
    pub(crate) fn new() -> Self {
        Self::with(Settings::default())
    }

    pub(crate) fn with(settings: Settings) -> Self {
        Self::selling(settings, Assortment::Menu(Menu::generated()))
    }

    /// With a cloud that does what a test says.
    pub(crate) fn scripted() -> (Self, Scripted) {
        Self::scripted_with(Settings::default())
    }

    pub(crate) fn scripted_with(settings: Settings) -> (Self, Scripted) {
        let mut scripted = None;
        let world = Self::around(settings, Assortment::Menu(Menu::generated()), |kwok| {
            let cloud = Scripted::new(kwok);
            scripted = Some(cloud.clone());
            Arc::new(cloud)
        });
        (world, scripted.unwrap())
    }

    pub(crate) fn selling(settings: Settings, assortment: Assortment) -> Self {
        Self::around(settings, assortment, |kwok| Arc::new(kwok))
    }

    fn around(
        settings: Settings,
        assortment: Assortment,
        wrap: impl FnOnce(Kwok) -> Arc<dyn provider::CloudProvider>,
    ) -> Self {
        let clock = Clock::virtual_from(EPOCH.parse().unwrap());
        Self::on(ApiServer::new(clock.clone()), clock, settings, assortment, wrap)
    }

    /// The same cluster for a process that knows nothing of what another one did.
    pub(crate) fn reborn(&self) -> Self {
        let (settings, assortment) = (self.ctx.settings.clone(), Assortment::Menu(Menu::generated()));
        Self::on(self.server.clone(), self.ctx.clock.clone(), settings, assortment, |kwok| Arc::new(kwok))
    }

    fn on(
        server: ApiServer,
        clock: Clock,
        settings: Settings,
        assortment: Assortment,
        wrap: impl FnOnce(Kwok) -> Arc<dyn provider::CloudProvider>,
    ) -> Self {
        let (client, rng) = (server.client(), Rng::new(1));
        let of_cloud = provider::kwok::Settings { namespace: "machines".to_owned(), rng: rng.fork("cloud") };
        let cloud = Kwok::new(client.clone(), clock.clone(), &of_cloud, assortment).unwrap();
        let metrics = Arc::new(Metrics::default());
        let ctx = Ctx::new(Parts {
            client,
            cloud: Metered::new(wrap(cloud.clone()), metrics.clone()),
            recorder: Recorder::new("karpenter", clock.clone(), rng.fork("events")),
            clock,
            metrics,
            settings,
            rng,
            compute: Compute::in_place(),
        });
        Self { server, cloud, ctx: Arc::new(ctx) }
    }

    /// Makes or replaces an object.
    pub(crate) fn put(&self, object: Value) {
        self.server.put(object);
    }

    pub(crate) fn id(&self) -> TickId {
        self.ctx.tick_id()
    }

    /// Brings everything that the server has into the store, and wakes whom that concerns.
    pub(crate) fn sync(&self) {
        for kind in Kind::ALL.iter().copied() {
            let objects = self.server.all(kind.as_str());
            let read = objects.iter().map(|object| facts::read(kind, object.to_string().as_bytes()));
            let facts = [Fact::Restarted { kind }].into_iter().chain(read);
            for fact in facts.chain([Fact::Listed { kind, version: None }]) {
                let news = feed::take(&mut self.ctx.store(), fact, self.ctx.now());
                news.into_iter().for_each(|news| self.ctx.pass_on(news));
            }
        }
    }

    /// Runs the whole process for so long, in simulated time, and then ends it as SIGTERM would.
    pub(crate) async fn run(&self, time: Duration) {
        let stop = Stop::new();
        let end = async {
            tokio::time::sleep(time).await;
            stop.cancel();
        };
        let (ended, ()) = futures::join!(crate::run(self.ctx.clone(), crate::Front::default(), stop.clone()), end);
        ended.unwrap();
    }

    /// Runs one duty alone for so long, in simulated time. Nobody watches: the store knows what it was told.
    pub(crate) async fn run_only(&self, controller: impl Controller, time: Duration) {
        let (stop, mut duties) = (Stop::new(), Duties::new(self.ctx.clone()));
        duties.add(controller);
        let mut tasks = Tasks::new(stop.clone());
        duties.spawn(&mut tasks);
        tasks.run(tokio::time::sleep(time), time).await.unwrap();
    }

    /// How often a duty has looked at something.
    pub(crate) fn looks(&self, controller: &str) -> u64 {
        let (text, start) = (self.ctx.metrics.encode(), "controller_runtime_reconcile_total{");
        let of_it = format!("controller=\"{controller}\"");
        let lines = text.lines().filter(|line| line.starts_with(start) && line.contains(&of_it));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    /// Runs the whole process for so long, in simulated time, and then ends it as a power cut would.
    pub(crate) async fn run_and_die(&self, time: Duration) {
        let process = crate::run(self.ctx.clone(), crate::Front::default(), Stop::new());
        assert!(tokio::time::timeout(time, process).await.is_err(), "it ended by itself");
    }

    /// Puts a claim of a pool and its Node, each changed as a merge patch would.
    pub(crate) fn put_machine(&self, name: &str, pool: &str, claim_change: Value, node_change: Value) {
        let [claim, node] = machine(name, pool);
        self.put(merged(claim, claim_change));
        self.put(merged(node, node_change));
    }

    /// Status, reason and message of a claim's condition; nothing when it is not there.
    pub(crate) fn condition(&self, kind: &str, name: &str, type_: &str) -> Option<[String; 3]> {
        let object = self.server.get(kind, name).unwrap();
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.into_iter().find(|condition| condition["type"] == type_)?;
        Some(["status", "reason", "message"].map(|field| found[field].as_str().unwrap_or_default().to_owned()))
    }

    /// Whether a line stands among the metrics.
    pub(crate) fn counted(&self, line: &str) -> bool {
        self.ctx.metrics.encode().lines().any(|found| found == line)
    }

    /// Writes the events that were published since, for tests that do not run the process, and gives back all there are.
    pub(crate) async fn told(&self) -> Vec<(String, String)> {
        let stop = Stop::new();
        stop.cancel();
        self.ctx.recorder.run(self.ctx.client.clone(), &stop).await;
        self.events()
    }

    /// The reasons and messages of all events that were written, in the order of time.
    pub(crate) fn events(&self) -> Vec<(String, String)> {
        let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
        self.server.all("Event").iter().map(|event| (text(event, "reason"), text(event, "message"))).collect()
    }
}
