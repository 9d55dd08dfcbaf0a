//! Label and field selectors.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::world::{World, config_map, pod, text};

super::promises![
    labels_are_selected_by_equality,
    labels_are_selected_by_sets,
    labels_are_selected_by_presence,
    a_label_selector_that_means_nothing_is_refused,
    objects_are_selected_by_name,
    pods_are_selected_by_node,
    pods_are_selected_by_phase,
    events_are_selected_by_what_they_are_about,
    a_field_that_cannot_be_selected_by_is_refused,
    selectors_of_both_kinds_must_hold,
];

async fn found(world: &World, plural: &str, query: &str) -> Result<Vec<String>> {
    let list = world.get(&format!("{}?{query}", world.path(plural))).await?.fine()?;
    let items = list["items"].as_array().into_iter().flatten();
    Ok(items.map(|item| text(&item["metadata"]["name"]).to_owned()).collect())
}

async fn painted(world: &World) -> Result<()> {
    for (name, labels) in [
        ("red", json!({"suite": "yes", "colour": "red"})),
        ("blue", json!({"suite": "yes", "colour": "blue"})),
        ("none", json!({"suite": "yes"})),
    ] {
        let mut map = config_map(name);
        map["metadata"]["labels"] = labels;
        world.post(&world.path("configmaps"), &map).await?.made()?;
    }
    Ok(())
}

async fn check(world: &World, query: &str, expected: &[&str]) -> Result<()> {
    let names = found(world, "configmaps", query).await?;
    ensure!(names == expected, "{query}: {names:?}");
    Ok(())
}

async fn labels_are_selected_by_equality(world: World) -> Result<()> {
    painted(&world).await?;
    check(&world, "labelSelector=colour%3Dred", &["red"]).await?;
    check(&world, "labelSelector=colour%3D%3Dred", &["red"]).await?;
    check(&world, "labelSelector=suite%3Dyes%2Ccolour!%3Dred", &["blue", "none"]).await
}

async fn labels_are_selected_by_sets(world: World) -> Result<()> {
    painted(&world).await?;
    check(&world, "labelSelector=colour%20in%20(red%2Cgreen)", &["red"]).await?;
    check(&world, "labelSelector=suite%2Ccolour%20notin%20(red)", &["blue", "none"]).await
}

async fn labels_are_selected_by_presence(world: World) -> Result<()> {
    painted(&world).await?;
    check(&world, "labelSelector=colour", &["blue", "red"]).await?;
    check(&world, "labelSelector=suite%2C!colour", &["none"]).await
}

async fn a_label_selector_that_means_nothing_is_refused(world: World) -> Result<()> {
    for selector in ["a%20b%20(c)", "%3Db", "a%20in%20b"] {
        world
            .get(&format!("{}?labelSelector={selector}", world.path("configmaps")))
            .await?
            .refused(400, "BadRequest")?;
    }
    Ok(())
}

async fn objects_are_selected_by_name(world: World) -> Result<()> {
    painted(&world).await?;
    check(&world, "fieldSelector=metadata.name%3Dblue", &["blue"]).await?;
    check(&world, "labelSelector=suite&fieldSelector=metadata.name!%3Dblue", &["none", "red"]).await
}

async fn pods_are_selected_by_node(world: World) -> Result<()> {
    let mut bound = pod("bound");
    let node = world.nowhere();
    bound["spec"]["nodeName"] = node.as_str().into();
    world.post(&world.path("pods"), &bound).await?.made()?;
    world.post(&world.path("pods"), &pod("free")).await?.made()?;
    let [is_there, is_not_there] = [format!("%3D{node}"), format!("!%3D{node}")];
    for (selector, expected) in [(&*is_there, "bound"), ("%3D", "free"), (&is_not_there, "free")] {
        let names = found(&world, "pods", &format!("fieldSelector=spec.nodeName{selector}")).await?;
        ensure!(names == [expected], "{selector}: {names:?}");
    }
    Ok(())
}

async fn pods_are_selected_by_phase(world: World) -> Result<()> {
    world.running(pod("running"), true).await?;
    world.post(&world.path("pods"), &pod("waiting")).await?.made()?;
    let names = found(&world, "pods", "fieldSelector=status.phase%3DRunning").await?;
    ensure!(names == ["running"], "{names:?}");
    let names = found(&world, "pods", "fieldSelector=status.phase!%3DRunning").await?;
    ensure!(names == ["waiting"], "{names:?}");
    Ok(())
}

async fn events_are_selected_by_what_they_are_about(world: World) -> Result<()> {
    for name in ["a", "b"] {
        let event: Value = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("about-{name}")}, "reason": "Tested", "type": "Normal",
            "involvedObject": {"kind": "ConfigMap", "name": name, "namespace": world.ns, "apiVersion": "v1"},
        });
        world.post(&world.path("events"), &event).await?.made()?;
    }
    let query = "fieldSelector=involvedObject.name%3Db%2CinvolvedObject.kind%3DConfigMap";
    let names = found(&world, "events", query).await?;
    ensure!(names == ["about-b"], "{names:?}");
    Ok(())
}

async fn a_field_that_cannot_be_selected_by_is_refused(world: World) -> Result<()> {
    let path = format!("{}?fieldSelector=spec.containers%3Dx", world.path("pods"));
    let status = world.get(&path).await?.refused(400, "BadRequest")?;
    ensure!(text(&status["message"]).contains("field label not supported: spec.containers"), "{status}");
    Ok(())
}

async fn selectors_of_both_kinds_must_hold(world: World) -> Result<()> {
    painted(&world).await?;
    check(&world, "labelSelector=colour%3Dred&fieldSelector=metadata.name%3Dblue", &[]).await?;
    check(&world, "labelSelector=colour%3Dred&fieldSelector=metadata.name%3Dred", &["red"]).await
}
