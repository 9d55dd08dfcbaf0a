//! Owner references and what becomes of dependents.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::world::{World, config_map, patience, reference, same};

super::promises![
    dependents_go_after_their_owner,
    dependents_of_dependents_go_too,
    a_dependent_of_somebody_who_never_was_goes,
    a_dependent_with_another_owner_stays,
    an_owner_of_the_whole_cluster_takes_dependents_along,
    orphans_stay,
    in_the_foreground_an_owner_waits_for_its_dependents,
    in_the_foreground_an_owner_waits_only_for_those_who_block,
    an_owner_in_the_foreground_shows_its_finalizer,
    an_object_has_one_controller,
    an_owner_needs_a_uid,
];

/// A ConfigMap with this owner and these finalizers.
async fn dependent(world: &World, name: &str, owner: &Value, finalizers: Value) -> Result<Value> {
    let mut map = config_map(name);
    let mut reference = reference(owner);
    reference["blockOwnerDeletion"] = true.into();
    map["metadata"]["ownerReferences"] = json!([reference]);
    map["metadata"]["finalizers"] = finalizers;
    let mut made = world.post(&world.path("configmaps"), &map).await?.made()?;
    made["apiVersion"] = "v1".into();
    made["kind"] = "ConfigMap".into();
    Ok(made)
}

fn at(world: &World, name: &str) -> String {
    format!("{}/{name}", world.path("configmaps"))
}

async fn dependents_go_after_their_owner(world: World) -> Result<()> {
    let owner = world.map("owner").await?;
    dependent(&world, "a", &owner, json!(null)).await?;
    dependent(&world, "b", &owner, json!(null)).await?;
    world.delete(&at(&world, "owner"), &json!(null)).await?.fine()?;
    world.gone(&at(&world, "owner")).await?;
    world.gone(&at(&world, "a")).await?;
    world.gone(&at(&world, "b")).await
}

async fn dependents_of_dependents_go_too(world: World) -> Result<()> {
    let owner = world.map("owner").await?;
    let middle = dependent(&world, "middle", &owner, json!(null)).await?;
    dependent(&world, "low", &middle, json!(null)).await?;
    let options = json!({"propagationPolicy": "Background"});
    world.delete(&at(&world, "owner"), &options).await?.fine()?;
    world.gone(&at(&world, "low")).await
}

async fn a_dependent_of_somebody_who_never_was_goes(world: World) -> Result<()> {
    let nobody = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "nobody", "uid": "2c2f5c3f-5a3e-4a7f-8a51-6e0a8e5d9d4c"},
    });
    dependent(&world, "a", &nobody, json!(null)).await?;
    world.gone(&at(&world, "a")).await
}

async fn a_dependent_with_another_owner_stays(world: World) -> Result<()> {
    let (first, second) = (world.map("first").await?, world.map("second").await?);
    let mut map = config_map("a");
    map["metadata"]["ownerReferences"] = json!([reference(&first), reference(&second)]);
    world.post(&world.path("configmaps"), &map).await?.made()?;
    world.delete(&at(&world, "first"), &json!(null)).await?.fine()?;
    patience("the gone owner is forgotten", || async {
        let left = world.get(&at(&world, "a")).await?.fine()?;
        let owners = left["metadata"]["ownerReferences"].as_array().map(Vec::len);
        Ok((owners == Some(1)).then_some(()))
    })
    .await?;
    let left = world.get(&at(&world, "a")).await?.fine()?;
    same(&left["metadata"]["ownerReferences"][0]["name"], "second")?;
    ensure!(left["metadata"]["deletionTimestamp"].is_null(), "{left}");
    Ok(())
}

async fn an_owner_of_the_whole_cluster_takes_dependents_along(world: World) -> Result<()> {
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": format!("{}-class", world.ns)}, "value": 7,
    });
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let owner = world.post(classes, &class).await?.made()?;
    dependent(&world, "a", &owner, json!(null)).await?;
    world.delete(&format!("{classes}/{}-class", world.ns), &json!(null)).await?.fine()?;
    world.gone(&at(&world, "a")).await
}

async fn orphans_stay(world: World) -> Result<()> {
    let owner = world.map("owner").await?;
    dependent(&world, "a", &owner, json!(null)).await?;
    world.delete(&at(&world, "owner"), &json!({"propagationPolicy": "Orphan"})).await?.fine()?;
    world.gone(&at(&world, "owner")).await?;
    let orphan = world.get(&at(&world, "a")).await?.fine()?;
    ensure!(orphan["metadata"]["ownerReferences"].is_null(), "{orphan}");
    ensure!(orphan["metadata"]["deletionTimestamp"].is_null(), "{orphan}");
    Ok(())
}

async fn in_the_foreground_an_owner_waits_for_its_dependents(world: World) -> Result<()> {
    let owner = world.map("owner").await?;
    dependent(&world, "a", &owner, json!(["example.com/x"])).await?;
    world.delete(&at(&world, "owner"), &json!({"propagationPolicy": "Foreground"})).await?.fine()?;
    patience("the dependent is going", || async {
        let dependent = world.get(&at(&world, "a")).await?.fine()?;
        Ok((!dependent["metadata"]["deletionTimestamp"].is_null()).then_some(()))
    })
    .await?;
    let waiting = world.get(&at(&world, "owner")).await?.fine()?;
    same(&waiting["metadata"]["finalizers"], json!(["foregroundDeletion"]))?;
    world.patch(&at(&world, "a"), &json!({"metadata": {"finalizers": null}})).await?.fine()?;
    world.gone(&at(&world, "owner")).await
}

async fn in_the_foreground_an_owner_waits_only_for_those_who_block(world: World) -> Result<()> {
    let owner = world.map("owner").await?;
    let mut map = config_map("a");
    map["metadata"]["ownerReferences"] = json!([reference(&owner)]);
    map["metadata"]["finalizers"] = json!(["example.com/x"]);
    world.post(&world.path("configmaps"), &map).await?.made()?;
    world.delete(&at(&world, "owner"), &json!({"propagationPolicy": "Foreground"})).await?.fine()?;
    world.gone(&at(&world, "owner")).await?;
    world.patch(&at(&world, "a"), &json!({"metadata": {"finalizers": null}})).await?.fine()?;
    world.gone(&at(&world, "a")).await
}

async fn an_owner_in_the_foreground_shows_its_finalizer(world: World) -> Result<()> {
    let owner = world.map("owner").await?;
    dependent(&world, "a", &owner, json!(["example.com/x"])).await?;
    let options = json!({"propagationPolicy": "Foreground"});
    let marked = world.delete(&at(&world, "owner"), &options).await?.fine()?;
    same(&marked["metadata"]["finalizers"], json!(["foregroundDeletion"]))?;
    ensure!(!marked["metadata"]["deletionTimestamp"].is_null(), "{marked}");
    world.patch(&at(&world, "a"), &json!({"metadata": {"finalizers": null}})).await?.fine()?;
    world.gone(&at(&world, "a")).await
}

async fn an_object_has_one_controller(world: World) -> Result<()> {
    let (first, second) = (world.map("first").await?, world.map("second").await?);
    let mut owners = json!([reference(&first), reference(&second)]);
    owners[0]["controller"] = true.into();
    owners[1]["controller"] = true.into();
    let mut map = config_map("a");
    map["metadata"]["ownerReferences"] = owners;
    world.post(&world.path("configmaps"), &map).await?.invalid("metadata.ownerReferences", "FieldValueInvalid")?;
    Ok(())
}

async fn an_owner_needs_a_uid(world: World) -> Result<()> {
    let owner = world.map("owner").await?;
    let mut map = config_map("a");
    map["metadata"]["ownerReferences"] = json!([reference(&owner)]);
    map["metadata"]["ownerReferences"][0]["uid"] = "".into();
    let answer = world.post(&world.path("configmaps"), &map).await?;
    answer.invalid("metadata.ownerReferences.uid", "FieldValueInvalid")?;
    Ok(())
}
