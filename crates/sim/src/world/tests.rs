mod recording;

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
        watchers: Vec::new(),
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

/// Claims that are initialized and that nobody has asked to go.
fn standing(world: &World) -> Vec<String> {
    let says = |claim: &Value, type_: &str| {
        let conditions = claim["status"]["conditions"].as_array().into_iter().flatten();
        conditions.into_iter().any(|condition| condition["type"] == type_ && condition["status"] == "True")
    };
    let claims = world.server.list(Kind::NodeClaim);
    let standing =
        claims.iter().filter(|claim| claim["metadata"]["deletionTimestamp"].is_null() && says(claim, "Initialized"));
    standing.map(|claim| claim["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
}

fn change_pool(world: &World, change: &Value) {
    world.server.patch(Kind::NodePool, &At::new("", "general"), change).unwrap();
}

fn scale(world: &World, replicas: u32) {
    let at = At::new("default", "web");
    world.server.patch(Kind::Deployment, &at, &json!({"spec": {"replicas": replicas}})).unwrap();
}

/// Nobody is left closed or marked.
fn assert_at_rest(world: &World) {
    let nodes = world.server.list(Kind::Node);
    assert_eq!(nodes.len(), standing(world).len(), "{nodes:#?}");
    let taints = nodes.iter().flat_map(|node| node["spec"]["taints"].as_array().cloned().unwrap_or_default());
    assert_eq!(taints.collect::<Vec<_>>(), [Value::Null; 0]);
}

#[tokio::test(start_paused = true)]
async fn when_a_deployment_shrinks_the_surplus_nodes_go_and_nobody_who_is_left_suffers() {
    let mut world = World::new(beginning(1)).unwrap();
    populate(&world, 60);
    // Small machines, so that there are many.
    let small = json!([{"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["4"]}]);
    let disruption = json!({"consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]});
    change_pool(&world, &json!({"spec": {"template": {"spec": {"requirements": small}}, "disruption": disruption}}));
    world.pass(Duration::from_secs(120)).await.unwrap();
    let before = standing(&world).len();
    assert!(running(&world).len() == 60 && before >= 15, "{before}");
    scale(&world, 6);
    world.pass(Duration::from_secs(300)).await.unwrap();
    assert_eq!(running(&world).len(), 6);
    let after = standing(&world).len();
    assert!(after <= 2, "six pods of one cpu fit on two machines of four, and {after} are left of {before}");
    assert_at_rest(&world);
    // And it stays so.
    let settled = (standing(&world), running(&world));
    world.pass(Duration::from_secs(900)).await.unwrap();
    assert_eq!((standing(&world), running(&world)), settled);
}

#[tokio::test(start_paused = true)]
async fn a_drifted_node_is_replaced_before_it_leaves() {
    let mut world = World::new(beginning(1)).unwrap();
    populate(&world, 12);
    let small = json!([{"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["4"]}]);
    let disruption = json!({"consolidateAfter": "Never", "budgets": [{"nodes": "1"}]});
    change_pool(&world, &json!({"spec": {"template": {"spec": {"requirements": small}}, "disruption": disruption}}));
    world.pass(Duration::from_secs(120)).await.unwrap();
    let old = standing(&world);
    assert!(old.len() >= 3, "{old:?}");
    change_pool(&world, &json!({"spec": {"template": {"metadata": {"labels": {"image": "new"}}}}}));
    let mut seen_leaving = 0;
    for _ in 0..1200 {
        world.pass(Duration::from_secs(1)).await.unwrap();
        let standing = standing(&world);
        assert!(standing.len() >= old.len(), "{standing:?} of {old:?}");
        let claims = world.server.list(Kind::NodeClaim);
        let leaving = claims.iter().filter(|claim| !claim["metadata"]["deletionTimestamp"].is_null()).count();
        assert!(leaving <= 1, "the budget is one");
        seen_leaving = seen_leaving.max(leaving);
        if !standing.iter().any(|name| old.contains(name)) {
            break;
        }
    }
    world.pass(Duration::from_secs(120)).await.unwrap();
    let new = standing(&world);
    assert_eq!(seen_leaving, 1);
    assert!(new.iter().all(|name| !old.contains(name)), "{new:?}");
    assert_eq!(running(&world).len(), 12);
    assert_at_rest(&world);
}
