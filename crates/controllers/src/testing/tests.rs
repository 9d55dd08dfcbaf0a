//! The server in memory, held to what the real one does.

use api::NodePool;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Error};

use super::*;

fn code<T: std::fmt::Debug>(answer: Result<T, Error>) -> u16 {
    match answer.unwrap_err() {
        Error::Api(status) => status.code,
        other => panic!("{other}"),
    }
}

#[tokio::test(start_paused = true)]
async fn writes_follow_the_rules_of_versions_statuses_and_finalizers() {
    let world = World::new();
    let nodes: Api<Node> = Api::all(world.ctx.client.clone());
    let merge = |patch: Value| Patch::Merge(patch);
    let (post, params) = (PostParams::default(), PatchParams::default());
    let node: Node =
        serde_json::from_value(json!({"metadata": {"generateName": "n-", "finalizers": ["a.b/c"]}})).unwrap();
    let made = nodes.create(&post, &node).await.unwrap();
    let name = made.metadata.name.clone().unwrap();
    assert!(name.starts_with("n-") && made.metadata.uid.is_some());
    assert_eq!(code(nodes.create(&post, &made).await), 409);
    let old = made.metadata.resource_version;
    nodes
        .patch(&name, &params, &merge(json!({"metadata": {"labels": {"a": "b"}}, "status": {"phase": "x"}})))
        .await
        .unwrap();
    assert!(nodes.get(&name).await.unwrap().status.is_none(), "the status has a door of its own");
    nodes.patch_status(&name, &params, &merge(json!({"status": {"phase": "x"}}))).await.unwrap();
    let stale = json!({"metadata": {"resourceVersion": old, "labels": {"a": "c"}}});
    assert_eq!(code(nodes.patch(&name, &params, &merge(stale)).await), 409);
    let asked = world.server.asked(&format!("PATCH /api/v1/nodes/{name}"));
    assert_eq!(asked[1].body, json!({"status": {"phase": "x"}}));
    nodes.delete(&name, &DeleteParams::default()).await.unwrap();
    assert!(nodes.get(&name).await.unwrap().metadata.deletion_timestamp.is_some());
    nodes.patch(&name, &params, &merge(json!({"metadata": {"finalizers": null}}))).await.unwrap();
    assert_eq!(code(nodes.get(&name).await), 404);
}

#[tokio::test(start_paused = true)]
async fn objects_come_in_pages_by_namespace_and_reach_the_store() {
    let world = World::new();
    world.put(node_class("default"));
    world.put(node_pool("general"));
    for number in 0..20 {
        world.put(pending_pod(&format!("web-{number}"), "1"));
    }
    world.put(merged(pod_on("there", "db", "1"), json!({"metadata": {"namespace": "back"}})));
    let pods: Api<Pod> = Api::namespaced(world.ctx.client.clone(), "shop");
    let page = pods.list(&ListParams::default()).await.unwrap();
    assert!(page.items.len() < 20 && page.metadata.continue_.is_some());
    world.sync();
    assert_eq!(world.ctx.store().provisionable(world.ctx.now()).count(), 20);
    assert!(world.ctx.store().is_synced());
    world.server.remove("Pod", "web-0");
    world.sync();
    assert_eq!(world.ctx.store().provisionable(world.ctx.now()).count(), 19);
    world.server.withdraw("NodePool");
    let pools: Api<NodePool> = Api::all(world.ctx.client.clone());
    assert_eq!(code(pools.list(&ListParams::default()).await), 404);
    world.server.trouble("GET /api/v1/namespaces/shop/pods", Trouble::Refuses(429));
    assert_eq!(code(pods.list(&ListParams::default()).await), 429);
    world.server.trouble("DELETE /api/v1/namespaces/shop/pods/web-1", Trouble::LosesReply);
    assert_eq!(code(pods.delete("web-1", &DeleteParams::default()).await), 500);
    assert_eq!(code(pods.get("web-1").await), 404);
    assert!(world.server.get("Pod", "web-2").is_some() && world.events().is_empty());
    world.cloud.facts().publish("al2023", "1");
}
