//! Custom resources: what the server does for every one of them. The rules of their schemas have tables of their own.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::world::{World, patience, same, text};

super::promises![
    a_custom_object_is_born_without_status,
    a_write_of_a_custom_objects_status_changes_nothing_else,
    a_write_of_a_custom_object_leaves_its_status,
    a_custom_object_counts_its_generations,
    custom_objects_in_lists_say_what_they_are,
    a_custom_object_is_not_replaced_without_a_version,
    a_custom_objects_finalizer_needs_no_domain,
    a_pool_has_a_scale,
    a_pool_that_counts_nothing_has_no_scale,
];

const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";
const POOLS: &str = "/apis/karpenter.sh/v1/nodepools";

fn claim(world: &World) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": format!("{}-claim", world.ns)},
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}],
            "expireAfter": "720h",
        },
    })
}

fn pool(world: &World, replicas: Option<i64>) -> Value {
    let mut pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": format!("{}-pool", world.ns)},
        "spec": {
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}],
            }},
        },
    });
    if let Some(replicas) = replicas {
        pool["spec"]["replicas"] = replicas.into();
    }
    pool
}

async fn make(world: &World) -> Result<(String, Value)> {
    let made = world.post(CLAIMS, &claim(world)).await?.made()?;
    Ok((format!("{CLAIMS}/{}-claim", world.ns), made))
}

async fn a_custom_object_is_born_without_status(world: World) -> Result<()> {
    let mut early = claim(&world);
    early["status"] = json!({"nodeName": "n"});
    let made = world.post(CLAIMS, &early).await?.made()?;
    ensure!(made["status"].is_null(), "{made}");
    Ok(())
}

async fn a_write_of_a_custom_objects_status_changes_nothing_else(world: World) -> Result<()> {
    let (path, made) = make(&world).await?;
    let patch = json!({"status": {"nodeName": "n"}, "metadata": {"labels": {"a": "b"}}, "spec": {"expireAfter": "1h"}});
    let patched = world.patch(&format!("{path}/status"), &patch).await?.fine()?;
    same(&patched["status"]["nodeName"], "n")?;
    same(&patched["spec"], made["spec"].clone())?;
    ensure!(patched["metadata"]["labels"].is_null(), "{patched}");
    same(&patched["metadata"]["generation"], 1)
}

async fn a_write_of_a_custom_object_leaves_its_status(world: World) -> Result<()> {
    let (path, _) = make(&world).await?;
    world.patch(&format!("{path}/status"), &json!({"status": {"nodeName": "n"}})).await?.fine()?;
    let patch = json!({"status": {"nodeName": "m"}, "metadata": {"labels": {"a": "b"}}});
    let patched = world.patch(&path, &patch).await?.fine()?;
    same(&patched["status"]["nodeName"], "n")?;
    same(&patched["metadata"]["labels"], json!({"a": "b"}))
}

async fn a_custom_object_counts_its_generations(world: World) -> Result<()> {
    let made = world.post(POOLS, &pool(&world, Some(1))).await?.made()?;
    same(&made["metadata"]["generation"], 1)?;
    let path = format!("{POOLS}/{}-pool", world.ns);
    let patched = world.patch(&path, &json!({"metadata": {"annotations": {"a": "b"}}})).await?.fine()?;
    same(&patched["metadata"]["generation"], 1)?;
    let patched = world
        .patch(&path, &json!({"spec": {"replicas": 2}, "metadata": {"finalizers": ["example.com/x"]}}))
        .await?
        .fine()?;
    same(&patched["metadata"]["generation"], 2)?;
    let marked = world.delete(&path, &json!(null)).await?.fine()?;
    same(&marked["metadata"]["generation"], 3)?;
    world.patch(&path, &json!({"metadata": {"finalizers": null}})).await?.fine()?;
    world.gone(&path).await
}

async fn custom_objects_in_lists_say_what_they_are(world: World) -> Result<()> {
    let (_, made) = make(&world).await?;
    let list = world.get(CLAIMS).await?.fine()?;
    same(&list["kind"], "NodeClaimList")?;
    let mut items = list["items"].as_array().into_iter().flatten();
    let item = items.find(|item| item["metadata"]["uid"] == made["metadata"]["uid"]);
    ensure!(item.is_some_and(|item| item["kind"] == "NodeClaim" && item["apiVersion"] == "karpenter.sh/v1"), "{list}");
    Ok(())
}

async fn a_custom_object_is_not_replaced_without_a_version(world: World) -> Result<()> {
    let (path, _) = make(&world).await?;
    let answer = world.put(&path, &claim(&world)).await?;
    answer.invalid("metadata.resourceVersion", "FieldValueInvalid")?;
    Ok(())
}

async fn a_custom_objects_finalizer_needs_no_domain(world: World) -> Result<()> {
    let mut held = claim(&world);
    held["metadata"]["finalizers"] = json!(["mine"]);
    world.post(CLAIMS, &held).await?.made()?;
    let path = format!("{CLAIMS}/{}-claim", world.ns);
    world.delete(&path, &json!(null)).await?.fine()?;
    world.patch(&path, &json!({"metadata": {"finalizers": null}})).await?.fine()?;
    world.gone(&path).await
}

async fn a_pool_has_a_scale(world: World) -> Result<()> {
    world.post(POOLS, &pool(&world, Some(2))).await?.made()?;
    let path = format!("{POOLS}/{}-pool", world.ns);
    world.patch(&format!("{path}/status"), &json!({"status": {"nodes": 5}})).await?.fine()?;
    let scale = world.get(&format!("{path}/scale")).await?.fine()?;
    ensure!(scale["spec"]["replicas"] == 2 && scale["status"]["replicas"] == 5, "{scale}");
    let scale = world.patch(&format!("{path}/scale"), &json!({"spec": {"replicas": 7}})).await?.fine()?;
    same(&scale["spec"]["replicas"], 7)?;
    let pool = world.get(&path).await?.fine()?;
    ensure!(pool["spec"]["replicas"] == 7 && pool["metadata"]["generation"] == 2, "{pool}");
    patience("the pool goes", || async { Ok((world.delete(&path, &json!(null)).await?.code == 404).then_some(())) })
        .await
}

async fn a_pool_that_counts_nothing_has_no_scale(world: World) -> Result<()> {
    world.post(POOLS, &pool(&world, None)).await?.made()?;
    let status = world.get(&format!("{POOLS}/{}-pool/scale", world.ns)).await?.refused(500, "InternalError")?;
    ensure!(text(&status["message"]).contains("the spec replicas field \".spec.replicas\" does not exist"), "{status}");
    Ok(())
}
