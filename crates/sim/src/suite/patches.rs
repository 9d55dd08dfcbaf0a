//! Merge patches.

use anyhow::{Result, ensure};
use http::Method;
use serde_json::json;

use super::world::{World, config_map, pod, same};

super::promises![
    null_takes_a_field_away,
    null_for_what_is_absent_changes_nothing,
    lists_are_replaced_whole,
    neighbours_of_a_patched_field_stay,
    a_whole_map_can_be_taken_away,
    a_patch_to_the_wrong_type_is_refused,
    a_patch_that_is_no_json_is_refused,
    a_patch_of_an_unknown_format_is_refused,
    a_patch_can_make_metadata_invalid_in_vain,
];

async fn null_takes_a_field_away(world: World) -> Result<()> {
    let mut map = config_map("a");
    map["data"] = json!({"a": "1", "b": "2"});
    world.post(&world.path("configmaps"), &map).await?.made()?;
    let patched =
        world.patch(&format!("{}/a", world.path("configmaps")), &json!({"data": {"a": null}})).await?.fine()?;
    same(&patched["data"], json!({"b": "2"}))
}

async fn null_for_what_is_absent_changes_nothing(world: World) -> Result<()> {
    let made = world.map("a").await?;
    let patch = json!({"binaryData": null, "metadata": {"annotations": {"x": null}}});
    let patched = world.patch(&format!("{}/a", world.path("configmaps")), &patch).await?.fine()?;
    same(&patched["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"].clone())
}

async fn lists_are_replaced_whole(world: World) -> Result<()> {
    let mut map = config_map("a");
    map["metadata"]["finalizers"] = json!(["example.com/x", "example.com/y"]);
    world.post(&world.path("configmaps"), &map).await?.made()?;
    let path = format!("{}/a", world.path("configmaps"));
    let patched = world.patch(&path, &json!({"metadata": {"finalizers": ["example.com/z"]}})).await?.fine()?;
    same(&patched["metadata"]["finalizers"], json!(["example.com/z"]))?;
    world.patch(&path, &json!({"metadata": {"finalizers": null}})).await?.fine()?;
    Ok(())
}

async fn neighbours_of_a_patched_field_stay(world: World) -> Result<()> {
    world.map("a").await?;
    let patch = json!({"metadata": {"annotations": {"example.com/x": "y"}}});
    let patched = world.patch(&format!("{}/a", world.path("configmaps")), &patch).await?.fine()?;
    same(&patched["metadata"]["labels"], json!({"suite": "yes"}))?;
    same(&patched["metadata"]["annotations"], json!({"example.com/x": "y"}))?;
    same(&patched["data"], json!({"a": "1"}))
}

async fn a_whole_map_can_be_taken_away(world: World) -> Result<()> {
    world.map("a").await?;
    let patch = json!({"data": null, "metadata": {"labels": null}});
    let patched = world.patch(&format!("{}/a", world.path("configmaps")), &patch).await?.fine()?;
    ensure!(patched["data"].is_null() && patched["metadata"]["labels"].is_null(), "{patched}");
    Ok(())
}

async fn a_patch_to_the_wrong_type_is_refused(world: World) -> Result<()> {
    world.map("a").await?;
    let path = format!("{}/a", world.path("configmaps"));
    world.patch(&path, &json!({"data": {"a": 1}})).await?.invalid("patch", "FieldValueInvalid")?;
    world.post(&world.path("pods"), &pod("a")).await?.made()?;
    let patch = json!({"spec": {"terminationGracePeriodSeconds": "long"}});
    world.patch(&format!("{}/a", world.path("pods")), &patch).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn a_patch_that_is_no_json_is_refused(world: World) -> Result<()> {
    world.map("a").await?;
    let path = format!("{}/a", world.path("configmaps"));
    let answer = world.ask(Method::PATCH, &path, "application/merge-patch+json", b"{".to_vec()).await?;
    answer.refused(400, "BadRequest")?;
    Ok(())
}

async fn a_patch_of_an_unknown_format_is_refused(world: World) -> Result<()> {
    world.map("a").await?;
    let path = format!("{}/a", world.path("configmaps"));
    let answer = world.ask(Method::PATCH, &path, "application/json", b"{}".to_vec()).await?;
    answer.refused(415, "UnsupportedMediaType")?;
    Ok(())
}

async fn a_patch_can_make_metadata_invalid_in_vain(world: World) -> Result<()> {
    world.map("a").await?;
    let patch = json!({"metadata": {"labels": {"a": "not a value"}}});
    let answer = world.patch(&format!("{}/a", world.path("configmaps")), &patch).await?;
    answer.invalid("metadata.labels", "FieldValueInvalid")?;
    Ok(())
}
