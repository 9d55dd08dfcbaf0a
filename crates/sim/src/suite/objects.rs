//! Making and reading.

use anyhow::{Result, ensure};
use http::Method;
use serde_json::json;

use super::world::{World, config_map, pod, same, text, version};

super::promises![
    a_new_object_has_a_uid_a_time_and_a_version,
    what_exists_is_not_made_again,
    what_does_not_exist_is_not_found,
    a_generated_name_has_five_characters_after_its_start,
    a_name_of_its_own_wins_over_a_generated_one,
    an_object_without_a_name_is_refused,
    a_client_cannot_choose_uid_and_times,
    a_version_is_not_taken_at_birth,
    an_object_is_not_made_in_another_namespace_than_asked,
    an_object_of_another_kind_is_refused,
    an_object_of_another_version_is_refused,
    a_field_of_the_wrong_type_is_refused,
    a_field_that_the_type_lacks_is_dropped,
    a_field_that_is_null_is_absent,
    a_body_that_is_no_json_is_refused,
    a_dry_run_stores_nothing,
    an_object_is_not_posted_to_its_own_address,
    an_unknown_group_is_not_found,
    an_unknown_plural_is_not_found,
    what_is_not_there_cannot_be_replaced,
    the_server_tells_what_it_serves,
];

async fn a_new_object_has_a_uid_a_time_and_a_version(world: World) -> Result<()> {
    let made = world.map("a").await?;
    let metadata = &made["metadata"];
    ensure!(text(&metadata["uid"]).len() == 36, "{made}");
    let time = text(&metadata["creationTimestamp"]);
    ensure!(time.len() == "2026-01-01T00:00:00Z".len() && time.ends_with('Z'), "{made}");
    ensure!(version(&made) > 0, "{made}");
    same(&metadata["namespace"], world.ns.as_str())?;
    let read = world.get(&format!("{}/a", world.path("configmaps"))).await?.fine()?;
    same(&read["metadata"]["uid"], metadata["uid"].clone())?;
    same(&read["data"], json!({"a": "1"}))
}

async fn what_exists_is_not_made_again(world: World) -> Result<()> {
    world.map("a").await?;
    let status = world.post(&world.path("configmaps"), &config_map("a")).await?.refused(409, "AlreadyExists")?;
    same(&status["message"], "configmaps \"a\" already exists")?;
    same(&status["details"], json!({"name": "a", "kind": "configmaps"}))
}

async fn what_does_not_exist_is_not_found(world: World) -> Result<()> {
    let status = world.get(&format!("{}/a", world.path("configmaps"))).await?.refused(404, "NotFound")?;
    same(&status["message"], "configmaps \"a\" not found")?;
    let path = format!("{}/a", world.path_of("apps/v1", "deployments"));
    let status = world.get(&path).await?.refused(404, "NotFound")?;
    same(&status["message"], "deployments.apps \"a\" not found")?;
    same(&status["details"], json!({"name": "a", "group": "apps", "kind": "deployments"}))?;
    world.delete(&path, &json!(null)).await?.refused(404, "NotFound")?;
    world.patch(&path, &json!({"metadata": {"labels": {"a": "b"}}})).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn a_generated_name_has_five_characters_after_its_start(world: World) -> Result<()> {
    let mut map = config_map("a");
    map["metadata"] = json!({"generateName": "start-"});
    let first = world.post(&world.path("configmaps"), &map).await?.made()?;
    let second = world.post(&world.path("configmaps"), &map).await?.made()?;
    let name = text(&first["metadata"]["name"]);
    ensure!(name.starts_with("start-") && name.len() == 11, "{name}");
    ensure!(first["metadata"]["name"] != second["metadata"]["name"], "{name} twice");
    same(&first["metadata"]["generateName"], "start-")
}

async fn a_name_of_its_own_wins_over_a_generated_one(world: World) -> Result<()> {
    let mut map = config_map("a");
    map["metadata"]["generateName"] = "start-".into();
    let made = world.post(&world.path("configmaps"), &map).await?.made()?;
    same(&made["metadata"]["name"], "a")
}

async fn an_object_without_a_name_is_refused(world: World) -> Result<()> {
    let mut map = config_map("a");
    map["metadata"] = json!({});
    let status = world.post(&world.path("configmaps"), &map).await?.invalid("metadata.name", "FieldValueRequired")?;
    ensure!(text(&status["message"]).contains("name or generateName is required"), "{status}");
    Ok(())
}

async fn a_client_cannot_choose_uid_and_times(world: World) -> Result<()> {
    let mut map = config_map("a");
    map["metadata"]["uid"] = "mine".into();
    map["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z".into();
    map["metadata"]["deletionTimestamp"] = "2001-01-01T00:00:00Z".into();
    map["metadata"]["deletionGracePeriodSeconds"] = 7.into();
    let made = world.post(&world.path("configmaps"), &map).await?.made()?;
    let metadata = &made["metadata"];
    ensure!(metadata["uid"] != "mine" && !text(&metadata["creationTimestamp"]).starts_with("2001"), "{made}");
    ensure!(metadata["deletionTimestamp"].is_null() && metadata["deletionGracePeriodSeconds"].is_null(), "{made}");
    Ok(())
}

async fn a_version_is_not_taken_at_birth(world: World) -> Result<()> {
    let mut map = config_map("a");
    map["metadata"]["resourceVersion"] = "7".into();
    let status = world.post(&world.path("configmaps"), &map).await?.with_code(500)?;
    ensure!(
        text(&status["message"]).contains("resourceVersion should not be set on objects to be created"),
        "{status}"
    );
    Ok(())
}

async fn an_object_is_not_made_in_another_namespace_than_asked(world: World) -> Result<()> {
    let mut map = config_map("a");
    map["metadata"]["namespace"] = "default".into();
    let status = world.post(&world.path("configmaps"), &map).await?.refused(400, "BadRequest")?;
    ensure!(text(&status["message"]).contains("does not match the namespace"), "{status}");
    Ok(())
}

async fn an_object_of_another_kind_is_refused(world: World) -> Result<()> {
    world.post(&world.path("configmaps"), &pod("a")).await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn an_object_of_another_version_is_refused(world: World) -> Result<()> {
    let mut map = config_map("a");
    map["apiVersion"] = "apps/v1".into();
    world.post(&world.path("configmaps"), &map).await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn a_field_of_the_wrong_type_is_refused(world: World) -> Result<()> {
    let mut map = config_map("a");
    map["data"] = json!({"a": 1});
    let status = world.post(&world.path("configmaps"), &map).await?.refused(400, "BadRequest")?;
    ensure!(text(&status["message"]).contains("cannot be handled as a ConfigMap"), "{status}");
    let mut wrong = pod("a");
    wrong["spec"]["containers"] = "one".into();
    world.post(&world.path("pods"), &wrong).await?.refused(400, "BadRequest")?;
    let mut wrong = pod("a");
    wrong["metadata"]["labels"] = json!({"a": true});
    world.post(&world.path("pods"), &wrong).await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn a_field_that_the_type_lacks_is_dropped(world: World) -> Result<()> {
    let mut map = config_map("a");
    map["nonsense"] = json!({"a": 1});
    map["metadata"]["nonsense"] = "x".into();
    let made = world.post(&world.path("configmaps"), &map).await?.made()?;
    ensure!(made["nonsense"].is_null() && made["metadata"]["nonsense"].is_null(), "{made}");
    Ok(())
}

async fn a_field_that_is_null_is_absent(world: World) -> Result<()> {
    let mut map = config_map("a");
    map["data"] = json!(null);
    map["metadata"]["annotations"] = json!(null);
    let made = world.post(&world.path("configmaps"), &map).await?.made()?;
    let members = made.as_object().map(|members| members.contains_key("data"));
    ensure!(members == Some(false) && made["metadata"]["annotations"].is_null(), "{made}");
    Ok(())
}

async fn a_body_that_is_no_json_is_refused(world: World) -> Result<()> {
    let answer = world.ask(Method::POST, &world.path("configmaps"), "application/json", b"{".to_vec()).await?;
    answer.refused(400, "BadRequest")?;
    Ok(())
}

async fn a_dry_run_stores_nothing(world: World) -> Result<()> {
    let path = format!("{}?dryRun=All", world.path("configmaps"));
    let made = world.post(&path, &config_map("a")).await?.made()?;
    ensure!(text(&made["metadata"]["uid"]).len() == 36, "{made}");
    let one = format!("{}/a", world.path("configmaps"));
    world.get(&one).await?.refused(404, "NotFound")?;
    let stored = world.map("a").await?;
    let patched = world.patch(&format!("{one}?dryRun=All"), &json!({"data": {"b": "2"}})).await?.fine()?;
    same(&patched["data"], json!({"a": "1", "b": "2"}))?;
    world.delete(&format!("{one}?dryRun=All"), &json!(null)).await?.fine()?;
    let read = world.get(&one).await?.fine()?;
    same(&read["metadata"]["resourceVersion"], stored["metadata"]["resourceVersion"].clone())
}

async fn an_object_is_not_posted_to_its_own_address(world: World) -> Result<()> {
    world.post(&format!("{}/a", world.path("configmaps")), &config_map("a")).await?.with_code(405)?;
    Ok(())
}

async fn an_unknown_group_is_not_found(world: World) -> Result<()> {
    world.get("/apis/nobody.example.com/v1/widgets").await?.with_code(404)?;
    world.get("/apis/nobody.example.com/v1").await?.with_code(404)?;
    Ok(())
}

async fn an_unknown_plural_is_not_found(world: World) -> Result<()> {
    world.get(&world.path("widgets")).await?.with_code(404)?;
    world.get("/apis/apps/v1/widgets").await?.with_code(404)?;
    Ok(())
}

async fn what_is_not_there_cannot_be_replaced(world: World) -> Result<()> {
    world.put(&format!("{}/a", world.path("configmaps")), &config_map("a")).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn the_server_tells_what_it_serves(world: World) -> Result<()> {
    let version = world.get("/version").await?.fine()?;
    ensure!(text(&version["gitVersion"]).starts_with('v'), "{version}");
    let listed = world.get("/apis/apps/v1").await?.fine()?;
    let mut resources = listed["resources"].as_array().into_iter().flatten();
    let scale = resources.find(|resource| resource["name"] == "deployments/scale");
    ensure!(scale.is_some_and(|scale| scale["kind"] == "Scale" && scale["group"] == "autoscaling"), "{listed}");
    let groups = world.get("/apis").await?.fine()?;
    let mut found = groups["groups"].as_array().into_iter().flatten();
    ensure!(found.any(|group| group["name"] == "policy" && group["preferredVersion"]["version"] == "v1"), "{groups}");
    let core = world.get("/api").await?.fine()?;
    same(&core["versions"], json!(["v1"]))
}
