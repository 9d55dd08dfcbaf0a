use serde_json::json;

use super::*;
use crate::apiserver::At;
use crate::kinds::Kind;
use provider::kwok::types::Menu;

fn beginning(seed: u64) -> Beginning {
    Beginning {
        seed,
        epoch: "2026-01-01T00:00:00Z".parse().unwrap(),
        assortment: Assortment::Menu(Menu::generated()),
        controller: controllers::Settings::default(),
    }
}

/// A class, a pool and a Deployment of so many pods of one cpu.
fn populate(world: &World, replicas: u32) {
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    for object in [
        json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}}),
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "general"}, "spec": {
            "template": {"spec": {"nodeClassRef": class, "requirements": []}},
        }}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"}, "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [
                {"name": "web", "image": "pause", "resources": {"requests": {"cpu": "1", "memory": "256Mi"}}},
            ]}},
        }}),
    ] {
        world.server.create(object).unwrap();
    }
}

/// Who runs where.
fn running(world: &World) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pods = world.server.list(Kind::Pod);
    let pods = pods.iter().filter(|pod| pod["status"]["phase"] == "Running");
    pods.map(|pod| (text(&pod["metadata"]["name"]), text(&pod["spec"]["nodeName"]))).collect()
}

#[tokio::test(start_paused = true)]
async fn pods_that_wait_get_nodes_and_run() {
    let mut world = World::new(beginning(1)).unwrap();
    populate(&world, 20);
    world.pass(Duration::from_secs(60)).await.unwrap();
    assert_eq!(running(&world).len(), 20);
    let claims = world.server.list(Kind::NodeClaim);
    assert!(!claims.is_empty() && claims.len() == world.server.list(Kind::Node).len());
    let is_initialized = |claim: &Arc<Value>| {
        let conditions = claim["status"]["conditions"].as_array().into_iter().flatten();
        conditions.into_iter().any(|condition| condition["type"] == "Initialized" && condition["status"] == "True")
    };
    assert!(claims.iter().all(is_initialized), "{claims:?}");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_claim_is_drained_and_its_pods_move() {
    let mut world = World::new(beginning(1)).unwrap();
    populate(&world, 5);
    world.pass(Duration::from_secs(60)).await.unwrap();
    let first = world.server.list(Kind::NodeClaim)[0].clone();
    world.server.delete(Kind::NodeClaim, &At::of(&first), &crate::Deletion::default()).unwrap();
    world.pass(Duration::from_secs(120)).await.unwrap();
    assert!(world.server.get(Kind::NodeClaim, &At::of(&first)).is_none());
    assert_eq!(running(&world).len(), 5);
    assert_eq!(world.server.list(Kind::NodeClaim).len(), world.server.list(Kind::Node).len());
}

#[tokio::test(start_paused = true)]
async fn one_seed_gives_one_run() {
    async fn story(seed: u64) -> Vec<Arc<Value>> {
        let mut world = World::new(beginning(seed)).unwrap();
        populate(&world, 30);
        world.pass(Duration::from_secs(60)).await.unwrap();
        Kind::ALL.iter().flat_map(|kind| world.server.list(*kind)).collect()
    }
    let (first, again, other) = (story(7).await, story(7).await, story(8).await);
    assert_eq!(first, again);
    assert_ne!(first, other);
}
