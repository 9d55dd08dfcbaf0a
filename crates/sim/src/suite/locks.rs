//! Optimistic locks, identities and preconditions.

use anyhow::{Result, ensure};
use serde_json::json;

use super::world::{World, config_map, same, text, version};

super::promises![
    a_patch_of_an_old_version_conflicts,
    a_patch_of_the_present_version_passes,
    a_replacement_of_an_old_version_conflicts,
    a_replacement_without_a_version_wins,
    some_kinds_are_not_replaced_without_a_version,
    what_changes_nothing_keeps_its_version,
    versions_grow,
    a_patch_for_another_uid_is_refused,
    a_replacement_for_another_uid_conflicts,
    a_name_cannot_be_patched,
    a_namespace_cannot_be_patched,
    a_replacement_under_another_name_is_refused,
    the_time_of_birth_cannot_be_changed,
    a_client_cannot_set_the_time_of_deletion,
    a_deletion_of_another_uid_conflicts,
    a_deletion_of_an_old_version_conflicts,
];

const MODIFIED: &str = "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to \
                        the latest version and try again";

async fn a_patch_of_an_old_version_conflicts(world: World) -> Result<()> {
    let made = world.map("a").await?;
    let path = format!("{}/a", world.path("configmaps"));
    world.patch(&path, &json!({"data": {"b": "2"}})).await?.fine()?;
    let late = json!({"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "data": {"c": "3"}});
    let status = world.patch(&path, &late).await?.refused(409, "Conflict")?;
    same(&status["message"], MODIFIED)?;
    same(&status["details"], json!({"name": "a", "kind": "configmaps"}))
}

async fn a_patch_of_the_present_version_passes(world: World) -> Result<()> {
    let made = world.map("a").await?;
    let path = format!("{}/a", world.path("configmaps"));
    let patch = json!({"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "data": {"c": "3"}});
    let patched = world.patch(&path, &patch).await?.fine()?;
    ensure!(version(&patched) > version(&made), "{patched}");
    same(&patched["data"], json!({"a": "1", "c": "3"}))
}

async fn a_replacement_of_an_old_version_conflicts(world: World) -> Result<()> {
    let mut made = world.map("a").await?;
    let path = format!("{}/a", world.path("configmaps"));
    world.patch(&path, &json!({"data": {"b": "2"}})).await?.fine()?;
    made["data"] = json!({"c": "3"});
    let status = world.put(&path, &made).await?.refused(409, "Conflict")?;
    same(&status["message"], MODIFIED)
}

async fn a_replacement_without_a_version_wins(world: World) -> Result<()> {
    let made = world.map("a").await?;
    let mut new = config_map("a");
    new["data"] = json!({"c": "3"});
    new["metadata"]["labels"] = json!({"suite": "other"});
    let put = world.put(&format!("{}/a", world.path("configmaps")), &new).await?.fine()?;
    same(&put["data"], json!({"c": "3"}))?;
    same(&put["metadata"]["labels"], json!({"suite": "other"}))?;
    same(&put["metadata"]["uid"], made["metadata"]["uid"].clone())
}

async fn some_kinds_are_not_replaced_without_a_version(world: World) -> Result<()> {
    let path = world.path_of("policy/v1", "poddisruptionbudgets");
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "a"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "nobody"}}},
    });
    world.post(&path, &budget).await?.made()?;
    let answer = world.put(&format!("{path}/a"), &budget).await?;
    answer.invalid("metadata.resourceVersion", "FieldValueInvalid")?;
    Ok(())
}

async fn what_changes_nothing_keeps_its_version(world: World) -> Result<()> {
    let made = world.map("a").await?;
    let path = format!("{}/a", world.path("configmaps"));
    let patched = world.patch(&path, &json!({"data": {"a": "1", "b": null}})).await?.fine()?;
    same(&patched["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"].clone())?;
    let put = world.put(&path, &made).await?.fine()?;
    same(&put["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"].clone())
}

async fn versions_grow(world: World) -> Result<()> {
    let path = format!("{}/a", world.path("configmaps"));
    let mut last = version(&world.map("a").await?);
    for number in 0..5 {
        let patched = world.patch(&path, &json!({"data": {"a": number.to_string() + "x"}})).await?.fine()?;
        ensure!(version(&patched) > last, "{patched} after {last}");
        last = version(&patched);
    }
    Ok(())
}

async fn a_patch_for_another_uid_is_refused(world: World) -> Result<()> {
    world.map("a").await?;
    let patch = json!({"metadata": {"uid": "2c2f5c3f-5a3e-4a7f-8a51-6e0a8e5d9d4c"}, "data": {"b": "2"}});
    let answer = world.patch(&format!("{}/a", world.path("configmaps")), &patch).await?;
    answer.invalid("metadata.uid", "FieldValueInvalid")?;
    Ok(())
}

async fn a_replacement_for_another_uid_conflicts(world: World) -> Result<()> {
    let mut made = world.map("a").await?;
    made["metadata"]["uid"] = "2c2f5c3f-5a3e-4a7f-8a51-6e0a8e5d9d4c".into();
    made["data"] = json!({"b": "2"});
    world.put(&format!("{}/a", world.path("configmaps")), &made).await?.refused(409, "Conflict")?;
    Ok(())
}

async fn a_name_cannot_be_patched(world: World) -> Result<()> {
    world.map("a").await?;
    let answer = world.patch(&format!("{}/a", world.path("configmaps")), &json!({"metadata": {"name": "b"}})).await?;
    let status = answer.refused(400, "BadRequest")?;
    same(&status["message"], "the name of the object (b) does not match the name on the URL (a)")
}

async fn a_namespace_cannot_be_patched(world: World) -> Result<()> {
    world.map("a").await?;
    let patch = json!({"metadata": {"namespace": "default"}});
    world.patch(&format!("{}/a", world.path("configmaps")), &patch).await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn a_replacement_under_another_name_is_refused(world: World) -> Result<()> {
    world.map("a").await?;
    let answer = world.put(&format!("{}/a", world.path("configmaps")), &config_map("b")).await?;
    answer.refused(400, "BadRequest")?;
    Ok(())
}

async fn the_time_of_birth_cannot_be_changed(world: World) -> Result<()> {
    let made = world.map("a").await?;
    let patch = json!({"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z"}, "data": {"b": "2"}});
    let patched = world.patch(&format!("{}/a", world.path("configmaps")), &patch).await?.fine()?;
    same(&patched["metadata"]["creationTimestamp"], made["metadata"]["creationTimestamp"].clone())
}

async fn a_client_cannot_set_the_time_of_deletion(world: World) -> Result<()> {
    world.map("a").await?;
    let patch = json!({"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}});
    let answer = world.patch(&format!("{}/a", world.path("configmaps")), &patch).await?;
    answer.invalid("metadata.deletionTimestamp", "FieldValueInvalid")?;
    Ok(())
}

async fn a_deletion_of_another_uid_conflicts(world: World) -> Result<()> {
    let made = world.map("a").await?;
    let path = format!("{}/a", world.path("configmaps"));
    let other = json!({"preconditions": {"uid": "2c2f5c3f-5a3e-4a7f-8a51-6e0a8e5d9d4c"}});
    let status = world.delete(&path, &other).await?.refused(409, "Conflict")?;
    ensure!(text(&status["message"]).contains("the UID in the precondition"), "{status}");
    world.delete(&path, &json!({"preconditions": {"uid": made["metadata"]["uid"]}})).await?.fine()?;
    world.gone(&path).await
}

async fn a_deletion_of_an_old_version_conflicts(world: World) -> Result<()> {
    let made = world.map("a").await?;
    let path = format!("{}/a", world.path("configmaps"));
    let patched = world.patch(&path, &json!({"data": {"b": "2"}})).await?.fine()?;
    let condition = |version: &serde_json::Value| json!({"preconditions": {"resourceVersion": version}});
    let old = condition(&made["metadata"]["resourceVersion"]);
    let status = world.delete(&path, &old).await?.refused(409, "Conflict")?;
    ensure!(text(&status["message"]).contains("the ResourceVersion in the precondition"), "{status}");
    world.delete(&path, &condition(&patched["metadata"]["resourceVersion"])).await?.fine()?;
    world.gone(&path).await
}
