//! Watches.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::world::{World, config_map, same, version};

super::promises![
    a_watch_tells_every_change_in_order,
    a_watch_resumes_where_another_ended,
    a_watch_without_a_version_begins_with_what_is_there,
    a_watch_from_version_zero_begins_with_what_is_there,
    what_leaves_the_selection_is_deleted_for_the_watch,
    a_watch_of_one_name_sees_that_one_only,
    a_watch_of_one_namespace_sees_no_other,
    a_watch_ends_when_its_time_is_over,
    a_watch_with_bookmarks_learns_how_far_it_has_come,
    a_watch_can_begin_with_a_list_that_has_an_end,
    a_deletion_that_is_held_is_a_change_first,
    what_is_deleted_is_shown_as_it_last_was,
    events_say_what_their_object_is,
];

async fn a_watch_tells_every_change_in_order(world: World) -> Result<()> {
    let path = world.path("configmaps");
    let list = world.get(&path).await?.fine()?;
    let mut watch =
        world.watch(&format!("{path}?labelSelector=suite%3Dyes&resourceVersion={}", version(&list))).await?;
    world.map("a").await?;
    world.map("b").await?;
    world.patch(&format!("{path}/a"), &json!({"data": {"b": "2"}})).await?.fine()?;
    world.delete(&format!("{path}/b"), &json!(null)).await?.fine()?;
    let versions = [
        version(&watch.sees("ADDED", "a").await?),
        version(&watch.sees("ADDED", "b").await?),
        version(&watch.sees("MODIFIED", "a").await?),
        version(&watch.sees("DELETED", "b").await?),
    ];
    ensure!(versions.is_sorted() && versions[0] > version(&list), "{versions:?} after {}", version(&list));
    Ok(())
}

async fn a_watch_resumes_where_another_ended(world: World) -> Result<()> {
    let path = world.path("configmaps");
    world.map("a").await?;
    let second = world.map("b").await?;
    world.patch(&format!("{path}/a"), &json!({"data": {"b": "2"}})).await?.fine()?;
    let mut watch =
        world.watch(&format!("{path}?labelSelector=suite%3Dyes&resourceVersion={}", version(&second))).await?;
    watch.sees("MODIFIED", "a").await?;
    world.map("c").await?;
    watch.sees("ADDED", "c").await?;
    Ok(())
}

async fn a_watch_without_a_version_begins_with_what_is_there(world: World) -> Result<()> {
    let path = world.path("configmaps");
    world.map("a").await?;
    let mut watch = world.watch(&format!("{path}?labelSelector=suite%3Dyes")).await?;
    watch.sees("ADDED", "a").await?;
    world.map("b").await?;
    watch.sees("ADDED", "b").await?;
    Ok(())
}

async fn a_watch_from_version_zero_begins_with_what_is_there(world: World) -> Result<()> {
    let path = world.path("configmaps");
    world.map("a").await?;
    // A cache behind a real server may be a moment late, so this looks for the object in whichever way it comes.
    let mut watch = world.watch(&format!("{path}?labelSelector=suite%3Dyes&resourceVersion=0")).await?;
    watch.sees("ADDED", "a").await?;
    Ok(())
}

async fn what_leaves_the_selection_is_deleted_for_the_watch(world: World) -> Result<()> {
    let path = world.path("configmaps");
    let made = world.map("a").await?;
    let mut watch =
        world.watch(&format!("{path}?labelSelector=colour%3Dred&resourceVersion={}", version(&made))).await?;
    let one = format!("{path}/a");
    let paint = |colour: &str| json!({"metadata": {"labels": {"colour": colour}}});
    world.patch(&one, &paint("red")).await?.fine()?;
    watch.sees("ADDED", "a").await?;
    world.patch(&one, &json!({"data": {"b": "2"}})).await?.fine()?;
    watch.sees("MODIFIED", "a").await?;
    let blue = world.patch(&one, &paint("blue")).await?.fine()?;
    let left = watch.sees("DELETED", "a").await?;
    same(&left["metadata"]["labels"]["colour"], "red")?;
    ensure!(version(&left) == version(&blue), "{left}");
    world.patch(&one, &json!({"data": {"c": "3"}})).await?.fine()?;
    world.patch(&one, &paint("red")).await?.fine()?;
    let back = watch.sees("ADDED", "a").await?;
    same(&back["data"], json!({"a": "1", "b": "2", "c": "3"}))
}

async fn a_watch_of_one_name_sees_that_one_only(world: World) -> Result<()> {
    let path = world.path("configmaps");
    let list = world.get(&path).await?.fine()?;
    let query = format!("fieldSelector=metadata.name%3Db&resourceVersion={}", version(&list));
    let mut watch = world.watch(&format!("{path}?{query}")).await?;
    world.map("a").await?;
    world.map("b").await?;
    watch.sees("ADDED", "b").await?;
    Ok(())
}

async fn a_watch_of_one_namespace_sees_no_other(world: World) -> Result<()> {
    let list = world.get("/api/v1/configmaps").await?.fine()?;
    let path = world.path("configmaps");
    let mut watch = world.watch(&format!("{path}?labelSelector=suite&resourceVersion={}", version(&list))).await?;
    let name = format!("{}-elsewhere", world.ns);
    world.post("/api/v1/namespaces/default/configmaps", &config_map(&name)).await?.made()?;
    world.map("a").await?;
    watch.sees("ADDED", "a").await?;
    world.delete(&format!("/api/v1/namespaces/default/configmaps/{name}"), &json!(null)).await?.fine()?;
    Ok(())
}

async fn a_watch_ends_when_its_time_is_over(world: World) -> Result<()> {
    let path = world.path("configmaps");
    let list = world.get(&path).await?.fine()?;
    let watch = world.watch(&format!("{path}?timeoutSeconds=2&resourceVersion={}", version(&list))).await?;
    let rest = watch.rest().await?;
    ensure!(!rest.contains("ERROR"), "{rest}");
    Ok(())
}

async fn a_watch_with_bookmarks_learns_how_far_it_has_come(world: World) -> Result<()> {
    let path = world.path("configmaps");
    let list = world.get(&path).await?.fine()?;
    let query =
        format!("labelSelector=nobody&allowWatchBookmarks=true&timeoutSeconds=6&resourceVersion={}", version(&list));
    let mut watch = world.watch(&format!("{path}?{query}")).await?;
    let unseen = world.map("a").await?;
    let event = watch.next_of_any_kind().await?.context("the watch ended without a bookmark")?;
    same(&event["type"], "BOOKMARK")?;
    let mark = &event["object"];
    ensure!(version(mark) >= version(&unseen), "{mark} of before {unseen}");
    ensure!(mark["kind"] == "ConfigMap" && mark["metadata"]["name"].is_null(), "{mark}");
    Ok(())
}

async fn a_watch_can_begin_with_a_list_that_has_an_end(world: World) -> Result<()> {
    let made = world.map("a").await?;
    let query = "labelSelector=suite&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = world.watch(&format!("{}?{query}", world.path("configmaps"))).await?;
    watch.sees("ADDED", "a").await?;
    let event = watch.next_of_any_kind().await?.context("the watch ended without a bookmark")?;
    same(&event["type"], "BOOKMARK")?;
    same(&event["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true")?;
    ensure!(version(&event["object"]) >= version(&made), "{event}");
    Ok(())
}

async fn a_deletion_that_is_held_is_a_change_first(world: World) -> Result<()> {
    let path = world.path("configmaps");
    let mut map = config_map("a");
    map["metadata"]["finalizers"] = json!(["example.com/x"]);
    let made = world.post(&path, &map).await?.made()?;
    let mut watch = world.watch(&format!("{path}?labelSelector=suite&resourceVersion={}", version(&made))).await?;
    world.delete(&format!("{path}/a"), &json!(null)).await?.fine()?;
    let marked = watch.sees("MODIFIED", "a").await?;
    ensure!(!marked["metadata"]["deletionTimestamp"].is_null(), "{marked}");
    world.patch(&format!("{path}/a"), &json!({"metadata": {"finalizers": null}})).await?.fine()?;
    watch.sees("DELETED", "a").await?;
    Ok(())
}

async fn what_is_deleted_is_shown_as_it_last_was(world: World) -> Result<()> {
    let path = world.path("configmaps");
    let made = world.map("a").await?;
    let mut watch = world.watch(&format!("{path}?labelSelector=suite&resourceVersion={}", version(&made))).await?;
    world.delete(&format!("{path}/a"), &json!(null)).await?.fine()?;
    let gone = watch.sees("DELETED", "a").await?;
    same(&gone["data"], json!({"a": "1"}))?;
    ensure!(version(&gone) > version(&made), "{gone}");
    Ok(())
}

async fn events_say_what_their_object_is(world: World) -> Result<()> {
    let path = world.path("configmaps");
    let list = world.get(&path).await?.fine()?;
    let mut watch = world.watch(&format!("{path}?labelSelector=suite&resourceVersion={}", version(&list))).await?;
    world.map("a").await?;
    let made = watch.sees("ADDED", "a").await?;
    ensure!(made["kind"] == "ConfigMap" && made["apiVersion"] == "v1", "{made}");
    Ok(())
}
