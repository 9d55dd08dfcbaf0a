//! Namespaces.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::world::{World, config_map, patience, same, text};

super::promises![
    the_first_namespaces_are_there,
    a_namespace_is_born_active_and_bears_its_name,
    nothing_is_made_in_a_namespace_that_is_not_there,
    a_namespace_takes_its_content_along,
    nothing_is_made_in_a_namespace_that_is_going,
];

async fn other(world: &World) -> Result<(String, Value)> {
    let name = format!("{}-other", world.ns);
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let made = world.post("/api/v1/namespaces", &body).await?.made()?;
    Ok((format!("/api/v1/namespaces/{name}"), made))
}

async fn the_first_namespaces_are_there(world: World) -> Result<()> {
    for name in ["default", "kube-system", "kube-node-lease", "kube-public"] {
        world.get(&format!("/api/v1/namespaces/{name}")).await?.fine()?;
    }
    Ok(())
}

async fn a_namespace_is_born_active_and_bears_its_name(world: World) -> Result<()> {
    let (_, made) = other(&world).await?;
    same(&made["status"]["phase"], "Active")?;
    same(&made["spec"]["finalizers"], json!(["kubernetes"]))?;
    same(&made["metadata"]["labels"]["kubernetes.io/metadata.name"], made["metadata"]["name"].clone())
}

async fn nothing_is_made_in_a_namespace_that_is_not_there(world: World) -> Result<()> {
    let path = format!("/api/v1/namespaces/{}-nowhere/configmaps", world.ns);
    let status = world.post(&path, &config_map("a")).await?.refused(404, "NotFound")?;
    same(&status["message"], format!("namespaces \"{}-nowhere\" not found", world.ns))
}

async fn a_namespace_takes_its_content_along(world: World) -> Result<()> {
    let (path, _) = other(&world).await?;
    world.post(&format!("{path}/configmaps"), &config_map("a")).await?.made()?;
    let marked = world.delete(&path, &json!(null)).await?.fine()?;
    same(&marked["status"]["phase"], "Terminating")?;
    world.gone(&path).await?;
    world.gone(&format!("{path}/configmaps/a")).await
}

async fn nothing_is_made_in_a_namespace_that_is_going(world: World) -> Result<()> {
    let (path, _) = other(&world).await?;
    let mut map = config_map("a");
    map["metadata"]["finalizers"] = json!(["example.com/x"]);
    world.post(&format!("{path}/configmaps"), &map).await?.made()?;
    world.delete(&path, &json!(null)).await?.fine()?;
    let late = config_map("late");
    let status = world.post(&format!("{path}/configmaps"), &late).await?.refused(403, "Forbidden")?;
    ensure!(text(&status["message"]).contains("because it is being terminated"), "{status}");
    let one = format!("{path}/configmaps/a");
    patience("the content is going", || async {
        Ok((!world.get(&one).await?.fine()?["metadata"]["deletionTimestamp"].is_null()).then_some(()))
    })
    .await?;
    world.patch(&one, &json!({"metadata": {"finalizers": null}})).await?.fine()?;
    world.gone(&path).await
}
