//! What names, labels and annotations may look like.

use anyhow::{Result, ensure};
use serde_json::json;

use super::world::{World, config_map, text};

super::promises![
    a_name_has_no_capitals,
    a_name_has_an_end,
    a_namespace_is_one_label,
    a_label_key_has_at_most_one_slash,
    a_label_value_has_no_spaces,
    a_label_value_may_be_empty,
    a_label_value_has_at_most_63_letters,
    an_annotation_key_is_like_a_label_key,
    an_annotation_value_may_be_anything,
    everything_wrong_is_said_at_once,
];

async fn check(world: &World, metadata: serde_json::Value, field: &str) -> Result<()> {
    let mut map = config_map("a");
    map["metadata"] = metadata;
    world.post(&world.path("configmaps"), &map).await?.invalid(field, "FieldValueInvalid")?;
    Ok(())
}

async fn a_name_has_no_capitals(world: World) -> Result<()> {
    for name in ["A", "a_b", "-a", "a-", "a..b"] {
        check(&world, json!({"name": name}), "metadata.name").await?;
    }
    let mut map = config_map("Big");
    map["metadata"]["name"] = "Big".into();
    let status = world.post(&world.path("configmaps"), &map).await?.refused(422, "Invalid")?;
    let start = "ConfigMap \"Big\" is invalid: metadata.name: Invalid value: \"Big\": a lowercase RFC 1123 subdomain must consist of";
    ensure!(text(&status["message"]).starts_with(start), "{status}");
    Ok(())
}

async fn a_name_has_an_end(world: World) -> Result<()> {
    world.map(&"a".repeat(253)).await?;
    check(&world, json!({"name": "a".repeat(254)}), "metadata.name").await
}

async fn a_namespace_is_one_label(world: World) -> Result<()> {
    for name in [format!("{}.x", world.ns), "a".repeat(64)] {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        world.post("/api/v1/namespaces", &body).await?.invalid("metadata.name", "FieldValueInvalid")?;
    }
    Ok(())
}

async fn a_label_key_has_at_most_one_slash(world: World) -> Result<()> {
    for key in ["a/b/c", "/a", "a/", "-a", "Example.com/a"] {
        check(&world, json!({"name": "a", "labels": {key: "x"}}), "metadata.labels").await?;
    }
    Ok(())
}

async fn a_label_value_has_no_spaces(world: World) -> Result<()> {
    for value in ["a b", "-a", "a/b"] {
        check(&world, json!({"name": "a", "labels": {"a": value}}), "metadata.labels").await?;
    }
    Ok(())
}

async fn a_label_value_may_be_empty(world: World) -> Result<()> {
    let mut map = config_map("a");
    map["metadata"]["labels"] = json!({"example.com/A_b.c": "", "b": "A_b.C-1"});
    world.post(&world.path("configmaps"), &map).await?.made()?;
    Ok(())
}

async fn a_label_value_has_at_most_63_letters(world: World) -> Result<()> {
    check(&world, json!({"name": "a", "labels": {"a": "b".repeat(64)}}), "metadata.labels").await?;
    check(&world, json!({"name": "a", "labels": {"b".repeat(64): "a"}}), "metadata.labels").await
}

async fn an_annotation_key_is_like_a_label_key(world: World) -> Result<()> {
    check(&world, json!({"name": "a", "annotations": {"a b": "x"}}), "metadata.annotations").await?;
    check(&world, json!({"name": "a", "annotations": {"a/b/c": "x"}}), "metadata.annotations").await
}

async fn an_annotation_value_may_be_anything(world: World) -> Result<()> {
    let mut map = config_map("a");
    map["metadata"]["annotations"] = json!({"Example.com/a": "any thing, [at] all\n"});
    world.post(&world.path("configmaps"), &map).await?.made()?;
    Ok(())
}

async fn everything_wrong_is_said_at_once(world: World) -> Result<()> {
    let mut map = config_map("A");
    map["metadata"]["labels"] = json!({"a": "b c"});
    let answer = world.post(&world.path("configmaps"), &map).await?;
    let status = answer.clone().invalid("metadata.name", "FieldValueInvalid")?;
    answer.invalid("metadata.labels", "FieldValueInvalid")?;
    ensure!(text(&status["message"]).starts_with("ConfigMap \"A\" is invalid: ["), "{status}");
    Ok(())
}
