//! The scale subresource.

use anyhow::{Result, ensure};
use serde_json::json;

use super::world::{World, replica_set, same};

super::promises![
    a_scale_tells_the_number_and_the_selector,
    a_scale_sets_the_number,
    a_scale_below_zero_is_refused,
    a_scale_of_an_old_version_conflicts,
    a_scale_can_be_replaced,
    what_has_no_scale_does_not_answer,
];

fn at(world: &World) -> String {
    format!("{}/a", world.path_of("apps/v1", "replicasets"))
}

async fn make(world: &World) -> Result<serde_json::Value> {
    world.post(&world.path_of("apps/v1", "replicasets"), &replica_set("a")).await?.made()
}

async fn a_scale_tells_the_number_and_the_selector(world: World) -> Result<()> {
    let made = make(&world).await?;
    let scale = world.get(&format!("{}/scale", at(&world))).await?.fine()?;
    ensure!(scale["kind"] == "Scale" && scale["apiVersion"] == "autoscaling/v1", "{scale}");
    same(&scale["metadata"]["uid"], made["metadata"]["uid"].clone())?;
    // None is not written at all.
    ensure!(scale["spec"]["replicas"].as_i64().unwrap_or(0) == 0, "{scale}");
    same(&scale["status"]["replicas"], 0)?;
    same(&scale["status"]["selector"], "app=a")
}

async fn a_scale_sets_the_number(world: World) -> Result<()> {
    let mut set = replica_set("a");
    // Held by a gate, its pods disturb nobody.
    set["spec"]["template"]["spec"]["schedulingGates"] = json!([{"name": "example.com/x"}]);
    world.post(&world.path_of("apps/v1", "replicasets"), &set).await?.made()?;
    let scale = world.patch(&format!("{}/scale", at(&world)), &json!({"spec": {"replicas": 3}})).await?.fine()?;
    same(&scale["spec"]["replicas"], 3)?;
    let set = world.get(&at(&world)).await?.fine()?;
    same(&set["spec"]["replicas"], 3)?;
    same(&set["metadata"]["generation"], 2)?;
    world.delete(&at(&world), &json!(null)).await?.fine()?;
    Ok(())
}

async fn a_scale_below_zero_is_refused(world: World) -> Result<()> {
    make(&world).await?;
    let answer = world.patch(&format!("{}/scale", at(&world)), &json!({"spec": {"replicas": -1}})).await?;
    answer.invalid("spec.replicas", "FieldValueInvalid")?;
    Ok(())
}

async fn a_scale_of_an_old_version_conflicts(world: World) -> Result<()> {
    let made = make(&world).await?;
    world.patch(&at(&world), &json!({"metadata": {"labels": {"a": "b"}}})).await?.fine()?;
    let patch = json!({"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "spec": {"replicas": 0}});
    world.patch(&format!("{}/scale", at(&world)), &patch).await?.refused(409, "Conflict")?;
    Ok(())
}

async fn a_scale_can_be_replaced(world: World) -> Result<()> {
    let mut set = replica_set("a");
    set["spec"]["template"]["spec"]["schedulingGates"] = json!([{"name": "example.com/x"}]);
    world.post(&world.path_of("apps/v1", "replicasets"), &set).await?.made()?;
    let body = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a", "namespace": world.ns}, "spec": {"replicas": 1},
    });
    let scale = world.put(&format!("{}/scale", at(&world)), &body).await?.fine()?;
    same(&scale["spec"]["replicas"], 1)?;
    world.delete(&at(&world), &json!(null)).await?.fine()?;
    Ok(())
}

async fn what_has_no_scale_does_not_answer(world: World) -> Result<()> {
    world.map("a").await?;
    world.get(&format!("{}/a/scale", world.path("configmaps"))).await?.with_code(404)?;
    Ok(())
}
