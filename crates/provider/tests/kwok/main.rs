//! The simulated cloud on an API server in memory.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod apiserver;
mod ec2;
mod events;
mod launch;
mod machines;
mod wrappers;

use std::sync::Arc;
use std::time::Duration;

use api::NodeClaim;
use api::nodepool::NodeClassReference;
use model::instance::CapacityType;
use provider::conformance::{self, Subject};
use provider::kwok::types::Menu;
use provider::kwok::{Assortment, Kwok, Settings};
use provider::{CloudProvider, Duty, OfferingKey};
use runtime::{Clock, Rng};
use serde_json::{Value, json};

use apiserver::ApiServer;

/// An API server, and a time that moves with tokio's.
pub(crate) struct World {
    pub(crate) server: ApiServer,
    clock: Clock,
    assortment: Assortment,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::selling(Assortment::Menu(Menu::generated()))
    }

    pub(crate) fn of_ec2() -> Self {
        Self::selling(Assortment::Ec2 { region: "us-east-1".to_owned() })
    }

    pub(crate) fn selling(assortment: Assortment) -> Self {
        let server = ApiServer::default();
        server.put(kwok_class("default", json!({})));
        server.put(kwok_class("slow", json!({"nodeRegistrationDelay": "30s"})));
        Self { server, clock: Clock::virtual_from("2026-01-01T00:00:00Z".parse().unwrap()), assortment }
    }

    /// A provider as a fresh process makes it.
    pub(crate) fn start(&self) -> Kwok {
        let settings = Settings { namespace: "machines".to_owned(), rng: Rng::new(7) };
        Kwok::new(self.server.client(), self.clock.clone(), &settings, self.assortment.clone()).unwrap()
    }
}

pub(crate) fn kwok_class(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": name}, "spec": spec,
        "status": {"conditions": [
            {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2024-01-01T01:01:01Z"},
        ]},
    })
}

pub(crate) fn class(name: &str) -> NodeClassReference {
    NodeClassReference {
        group: "karpenter.kwok.sh".to_owned(),
        kind: "KWOKNodeClass".to_owned(),
        name: name.to_owned(),
    }
}

/// A claim with requirements, each as key, operator and values.
pub(crate) fn claim(name: &str, class: &NodeClassReference, requirements: &[(&str, &str, &[&str])]) -> NodeClaim {
    let requirements: Vec<Value> = requirements
        .iter()
        .map(|(key, operator, values)| json!({"key": key, "operator": operator, "values": values}))
        .collect();
    serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name, "uid": format!("uid-of-{name}"), "labels": {"karpenter.sh/nodepool": "pool"}},
        "spec": {
            "nodeClassRef": class,
            "requirements": requirements,
            "resources": {"requests": {"cpu": "500m", "memory": "256Mi", "pods": "3"}},
        },
    }))
    .unwrap()
}

pub(crate) fn offering(type_name: &str, zone: &str, capacity_type: CapacityType) -> OfferingKey {
    OfferingKey { type_name: type_name.into(), zone: zone.into(), capacity_type }
}

pub(crate) fn duty(cloud: &Kwok, name: &str) -> Duty {
    cloud.duties().into_iter().find(|duty| duty.name == name).unwrap()
}

/// Runs a duty for so long, as the process would.
pub(crate) async fn run(duty: &Duty, time: Duration) {
    let rounds = async {
        loop {
            duty.round().await.unwrap();
        }
    };
    let _: Result<(), _> = tokio::time::timeout(time, rounds).await;
}

async fn examine(world: World, class: NodeClassReference) {
    let world = Arc::new(world);
    let starter = world.clone();
    let start: Box<dyn Fn() -> Arc<dyn CloudProvider> + Send + Sync> = Box::new(move || Arc::new(starter.start()));
    let subject = Subject { start, class, run: "kwok".to_owned() };
    conformance::check(&subject).await.unwrap();
    assert!(world.server.all("Node").is_empty() && world.server.all("ConfigMap").is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_simulated_cloud_passes_the_suite() {
    examine(World::new(), class("default")).await;
}

#[tokio::test(start_paused = true)]
async fn the_simulated_cloud_passes_the_suite_while_its_nodes_have_not_come() {
    examine(World::new(), class("slow")).await;
}

#[tokio::test(start_paused = true)]
async fn the_simulated_cloud_passes_the_suite_with_the_goods_of_ec2() {
    let world = World::of_ec2();
    world.server.put(ec2::ec2_class("aws", json!({})));
    run(&duty(&world.start(), "kwok.nodeclass"), Duration::from_secs(1)).await;
    examine(world, ec2::class("aws")).await;
}
