//! Finalizers hold what is deleted.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::world::{World, config_map, replica_set, same, text};

super::promises![
    a_finalizer_holds_an_object_until_it_is_taken_off,
    the_last_of_several_finalizers_lets_go,
    no_finalizer_is_added_to_what_is_going,
    a_second_deletion_changes_nothing,
    what_is_going_can_still_be_changed,
    deletion_counts_as_a_new_generation,
    a_finalizer_of_a_built_in_kind_has_a_domain,
    a_finalizer_taken_off_early_does_not_matter,
    the_name_is_free_again_only_when_the_object_is_gone,
];

async fn held(world: &World, finalizers: Value) -> Result<String> {
    let mut map = config_map("a");
    map["metadata"]["finalizers"] = finalizers;
    world.post(&world.path("configmaps"), &map).await?.made()?;
    Ok(format!("{}/a", world.path("configmaps")))
}

async fn a_finalizer_holds_an_object_until_it_is_taken_off(world: World) -> Result<()> {
    let path = held(&world, json!(["example.com/x"])).await?;
    let marked = world.delete(&path, &json!(null)).await?.fine()?;
    ensure!(!text(&marked["metadata"]["deletionTimestamp"]).is_empty(), "{marked}");
    same(&marked["metadata"]["deletionGracePeriodSeconds"], 0)?;
    same(&world.get(&path).await?.fine()?["metadata"]["finalizers"], json!(["example.com/x"]))?;
    let last = world.patch(&path, &json!({"metadata": {"finalizers": null}})).await?.fine()?;
    ensure!(last["metadata"]["finalizers"].is_null(), "{last}");
    world.get(&path).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn the_last_of_several_finalizers_lets_go(world: World) -> Result<()> {
    let path = held(&world, json!(["example.com/x", "example.com/y"])).await?;
    world.delete(&path, &json!(null)).await?.fine()?;
    world.patch(&path, &json!({"metadata": {"finalizers": ["example.com/y"]}})).await?.fine()?;
    same(&world.get(&path).await?.fine()?["metadata"]["finalizers"], json!(["example.com/y"]))?;
    world.patch(&path, &json!({"metadata": {"finalizers": []}})).await?.fine()?;
    world.get(&path).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn no_finalizer_is_added_to_what_is_going(world: World) -> Result<()> {
    let path = held(&world, json!(["example.com/x"])).await?;
    world.delete(&path, &json!(null)).await?.fine()?;
    let patch = json!({"metadata": {"finalizers": ["example.com/x", "example.com/y"]}});
    let status = world.patch(&path, &patch).await?.invalid("metadata.finalizers", "FieldValueForbidden")?;
    ensure!(
        text(&status["message"]).contains("no new finalizers can be added if the object is being deleted"),
        "{status}"
    );
    world.patch(&path, &json!({"metadata": {"finalizers": null}})).await?.fine()?;
    Ok(())
}

async fn a_second_deletion_changes_nothing(world: World) -> Result<()> {
    let path = held(&world, json!(["example.com/x"])).await?;
    let first = world.delete(&path, &json!(null)).await?.fine()?;
    let second = world.delete(&path, &json!(null)).await?.fine()?;
    same(&second["metadata"]["deletionTimestamp"], first["metadata"]["deletionTimestamp"].clone())?;
    same(&second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"].clone())?;
    world.patch(&path, &json!({"metadata": {"finalizers": null}})).await?.fine()?;
    Ok(())
}

async fn what_is_going_can_still_be_changed(world: World) -> Result<()> {
    let path = held(&world, json!(["example.com/x"])).await?;
    world.delete(&path, &json!(null)).await?.fine()?;
    let patched =
        world.patch(&path, &json!({"data": {"b": "2"}, "metadata": {"deletionTimestamp": null}})).await?.fine()?;
    same(&patched["data"], json!({"a": "1", "b": "2"}))?;
    ensure!(!patched["metadata"]["deletionTimestamp"].is_null(), "{patched}");
    world.patch(&path, &json!({"metadata": {"finalizers": null}})).await?.fine()?;
    world.get(&path).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn deletion_counts_as_a_new_generation(world: World) -> Result<()> {
    let mut set = replica_set("a");
    set["metadata"]["finalizers"] = json!(["example.com/x"]);
    let collection = world.path_of("apps/v1", "replicasets");
    same(&world.post(&collection, &set).await?.made()?["metadata"]["generation"], 1)?;
    let path = format!("{collection}/a");
    same(&world.delete(&path, &json!(null)).await?.fine()?["metadata"]["generation"], 2)?;
    world.patch(&path, &json!({"metadata": {"finalizers": null}})).await?.fine()?;
    Ok(())
}

async fn a_finalizer_of_a_built_in_kind_has_a_domain(world: World) -> Result<()> {
    let mut map = config_map("a");
    map["metadata"]["finalizers"] = json!(["mine"]);
    world.post(&world.path("configmaps"), &map).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn a_finalizer_taken_off_early_does_not_matter(world: World) -> Result<()> {
    let path = held(&world, json!(["example.com/x"])).await?;
    world.patch(&path, &json!({"metadata": {"finalizers": null}})).await?.fine()?;
    world.get(&path).await?.fine()?;
    world.delete(&path, &json!(null)).await?.fine()?;
    world.get(&path).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn the_name_is_free_again_only_when_the_object_is_gone(world: World) -> Result<()> {
    let path = held(&world, json!(["example.com/x"])).await?;
    let first = world.delete(&path, &json!(null)).await?.fine()?;
    world.post(&world.path("configmaps"), &config_map("a")).await?.refused(409, "AlreadyExists")?;
    world.patch(&path, &json!({"metadata": {"finalizers": null}})).await?.fine()?;
    let second = world.map("a").await?;
    ensure!(second["metadata"]["uid"] != first["metadata"]["uid"], "{second}");
    Ok(())
}
