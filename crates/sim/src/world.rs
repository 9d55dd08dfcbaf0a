//! A whole cluster with its autoscaler: the API server, everything that a cluster does by itself, the simulated cloud, and the
//! controllers that run in production, on one thread under virtual time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use api::crd::{CrdSet, definitions};
use cluster::record::{Journal, Origin};
use controllers::ctx::Parts;
use controllers::{Ctx, Front, Metrics, events};
use jiff::Timestamp;
use provider::kwok::{Assortment, Kwok};
use provider::metered::Metered;
use runtime::{Clock, Compute, Recorder, Rng, RuntimeError, Stop};
use serde_json::Value;

use crate::admission::admit;
use crate::apiserver::{ApiServer, Hooks, RuleViolation, Rules};
use crate::binder::{self, Binder};
use crate::budgets::Budgets;
use crate::kubelet::{self, Kubelets};
use crate::node_lifecycle::NodeLifecycle;
use crate::schema::{Schema, SchemaError};
use crate::standin::StandIn;
use crate::standins::StandIns;
use crate::volumes::{self, Volumes};
use crate::workload::Workloads;

/// Where the cloud notes machines whose Node has not come yet, and where the Lease would be.
const NAMESPACE: &str = "kube-system";

/// What a simulation begins with.
pub struct Beginning {
    /// One seed gives one run.
    pub seed: u64,
    pub epoch: Timestamp,
    /// What the cloud sells.
    pub assortment: Assortment,
    pub controller: controllers::Settings,
    /// Hear every change after everybody else, and do nothing.
    pub watchers: Vec<Box<dyn StandIn>>,
}

/// The simulated cluster.
pub struct World {
    pub server: ApiServer,
    /// The cloud, for stories in which something happens to it.
    pub cloud: Kwok,
    stand_ins: StandIns,
    ctx: Arc<Ctx>,
    controller: Pin<Box<dyn Future<Output = Result<(), RuntimeError>>>>,
}

impl World {
    /// Call it inside a runtime on one thread whose clock is paused.
    pub fn new(beginning: Beginning) -> anyhow::Result<Self> {
        let (clock, rng) = (Clock::virtual_from(beginning.epoch), Rng::new(beginning.seed));
        let server = ApiServer::of_cluster(clock.clone(), rng.fork("server"))?;
        let of_cloud = provider::kwok::Settings { namespace: NAMESPACE.to_owned(), rng: rng.fork("cloud") };
        let cloud = Kwok::new(server.client(), clock.clone(), &of_cloud, beginning.assortment)?;
        let metrics = Arc::new(Metrics::default());
        let ctx = Ctx::new(Parts {
            client: server.client(),
            cloud: Metered::new(Arc::new(cloud.clone()), metrics.clone()),
            recorder: Recorder::new(events::COMPONENT, clock.clone(), rng.fork("events")),
            compute: Compute::in_place(),
            clock,
            metrics,
            settings: beginning.controller,
            rng: rng.fork("controller"),
        });
        let ctx = Arc::new(ctx);
        let controller = Box::pin(controllers::run(ctx.clone(), Front::default(), Stop::new()));
        let parts = parts(&rng).into_iter().chain(beginning.watchers).collect();
        let stand_ins = StandIns::new(server.clone(), parts);
        Ok(Self { server, cloud, stand_ins, ctx, controller })
    }

    /// Writes down what the controllers see and decide. Call it before any time has passed.
    pub fn record(&self, journal: Journal, origin: Origin) {
        self.ctx.start_recording(journal, origin);
    }

    /// Lets so much time pass.
    pub async fn pass(&mut self, time: Duration) -> anyhow::Result<()> {
        tokio::select! {
            biased;
            ended = &mut self.controller => {
                ended.context("the controller failed")?;
                bail!("the controller ended by itself");
            }
            never = self.stand_ins.run() => match never {},
            () = tokio::time::sleep(time) => Ok(()),
        }
    }
}

/// What a cluster does by itself, in the order in which it acts.
fn parts(rng: &Rng) -> Vec<Box<dyn StandIn>> {
    vec![
        Box::new(Workloads::new()),
        Box::new(Binder::new(binder::Settings::default(), rng)),
        Box::new(Kubelets::new(kubelet::Settings::default())),
        Box::new(NodeLifecycle::new()),
        Box::new(Volumes::new(volumes::Settings::default())),
        Box::new(Budgets::new()),
    ]
}

impl ApiServer {
    /// A server as a cluster has it: with admission, and with the rules of every custom kind, those of AWS and kwok's own.
    pub fn of_cluster(clock: Clock, rng: Rng) -> Result<Self, SchemaError> {
        let all = [CrdSet::Aws, CrdSet::Kwok].into_iter().flat_map(definitions);
        let all: Vec<Value> = all.map(|definition| definition.to_value().clone()).collect();
        Self::with_definitions(clock, rng, &all)
    }

    /// The same with these definitions and no others.
    pub fn with_definitions(clock: Clock, rng: Rng, definitions: &[Value]) -> Result<Self, SchemaError> {
        let hooks = Hooks { admit: Some(admit), ..Hooks::default() };
        let hooks = hooks.with_definitions(definitions, |definition, version| {
            Schema::of(definition, version).map(|schema| Box::new(schema) as Box<dyn Rules>)
        })?;
        Ok(Self::with_hooks(clock, rng, hooks))
    }
}

impl Rules for Schema {
    fn admit(&self, object: &mut Value, old: Option<&Value>) -> Result<(), Vec<RuleViolation>> {
        Schema::admit(self, object, old).map_err(|errors| {
            let violation = |error: crate::schema::FieldError| RuleViolation {
                reason: error.kind.reason(),
                field: error.field,
                message: error.message,
            };
            errors.into_iter().map(violation).collect()
        })
    }
}

#[cfg(test)]
mod tests;
