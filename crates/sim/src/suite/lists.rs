//! Lists and their pages.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::world::{World, same, text, version};

super::promises![
    a_list_says_what_it_is_and_when,
    pages_show_one_moment,
    a_list_below_its_limit_has_no_next_page,
    a_page_token_that_means_nothing_is_refused,
    objects_in_lists_of_built_in_kinds_do_not_say_what_they_are,
    a_list_is_in_the_order_of_names,
    an_empty_list_has_items_all_the_same,
];

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().into_iter().flatten();
    items.map(|item| text(&item["metadata"]["name"]).to_owned()).collect()
}

async fn a_list_says_what_it_is_and_when(world: World) -> Result<()> {
    let made = world.map("a").await?;
    let list = world.get(&format!("{}?labelSelector=suite", world.path("configmaps"))).await?.fine()?;
    ensure!(list["kind"] == "ConfigMapList" && list["apiVersion"] == "v1", "{list}");
    ensure!(version(&list) >= version(&made), "{list}");
    ensure!(names(&list) == ["a"], "{list}");
    Ok(())
}

async fn pages_show_one_moment(world: World) -> Result<()> {
    for name in ["a", "b", "c", "d", "e"] {
        world.map(name).await?;
    }
    let path = format!("{}?labelSelector=suite&limit=2", world.path("configmaps"));
    let first = world.get(&path).await?.fine()?;
    ensure!(names(&first) == ["a", "b"], "{first}");
    world.map("bb").await?;
    world.map("f").await?;
    world.delete(&format!("{}/d", world.path("configmaps")), &json!(null)).await?.fine()?;
    let second = world.get(&format!("{path}&continue={}", text(&first["metadata"]["continue"]))).await?.fine()?;
    ensure!(names(&second) == ["c", "d"], "{second}");
    let third = world.get(&format!("{path}&continue={}", text(&second["metadata"]["continue"]))).await?.fine()?;
    ensure!(names(&third) == ["e"] && text(&third["metadata"]["continue"]).is_empty(), "{third}");
    ensure!(version(&first) == version(&second) && version(&second) == version(&third), "{third}");
    Ok(())
}

async fn a_list_below_its_limit_has_no_next_page(world: World) -> Result<()> {
    world.map("a").await?;
    world.map("b").await?;
    let list = world.get(&format!("{}?labelSelector=suite&limit=3", world.path("configmaps"))).await?.fine()?;
    ensure!(names(&list).len() == 2 && text(&list["metadata"]["continue"]).is_empty(), "{list}");
    Ok(())
}

async fn a_page_token_that_means_nothing_is_refused(world: World) -> Result<()> {
    let path = format!("{}?limit=2&continue=nonsense", world.path("configmaps"));
    world.get(&path).await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn objects_in_lists_of_built_in_kinds_do_not_say_what_they_are(world: World) -> Result<()> {
    world.map("a").await?;
    let list = world.get(&format!("{}?labelSelector=suite", world.path("configmaps"))).await?.fine()?;
    let item = &list["items"][0];
    ensure!(item["kind"].is_null() && item["apiVersion"].is_null() && !item["metadata"].is_null(), "{item}");
    Ok(())
}

async fn a_list_is_in_the_order_of_names(world: World) -> Result<()> {
    for name in ["b", "a", "c.d", "c-d"] {
        world.map(name).await?;
    }
    let list = world.get(&format!("{}?labelSelector=suite", world.path("configmaps"))).await?.fine()?;
    ensure!(names(&list) == ["a", "b", "c-d", "c.d"], "{list}");
    Ok(())
}

async fn an_empty_list_has_items_all_the_same(world: World) -> Result<()> {
    let list = world.get(&world.path("limitranges")).await?.fine()?;
    same(&list["items"], json!([]))
}
