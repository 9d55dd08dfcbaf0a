//! Rows as requests: made, replaced, or given a status, as a client of the API would do it.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::{Causes, Row, Rule, Table, rules_of};

/// Sends every row of a table to a server that has its definition. Says what was answered otherwise than the table has it.
pub async fn check_over_client(client: &Client, table: &Table, definition: &Value) -> Result<Vec<String>> {
    let rules: BTreeMap<String, Rule> = rules_of(definition).into_iter().map(|rule| (rule.to_string(), rule)).collect();
    let api = api_of(client, definition).context("the definition says too little")?;
    let mut failures = Vec::new();
    for (index, row) in table.rows.iter().enumerate() {
        let name = format!("row-{index}");
        let outcome = send(&api, table, row, &name).await.with_context(|| format!("row {:?}", row.name))?;
        if let Some(problem) = row.problem_with(&rules, outcome) {
            failures.push(format!("{} {:?}: {problem}", table.definition, row.name));
        }
        // Most rows never came to exist.
        let _ = api.delete(&name, &DeleteParams::default()).await;
    }
    Ok(failures)
}

/// The stored object, or the causes of the refusal; an error where the server did not answer.
async fn send(api: &Api<DynamicObject>, table: &Table, row: &Row, name: &str) -> Result<Result<Value, Causes>> {
    let object = |mut value: Value| -> Result<DynamicObject> {
        value["metadata"]["name"] = name.into();
        serde_json::from_value(value).context("reading an object")
    };
    let (wanted, options) = (table.object(row)?, PostParams::default());
    let answer = if row.status {
        let patch = json!({"status": wanted["status"]});
        match api.create(&options, &object(wanted)?).await {
            Ok(_) => api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await,
            refused => refused,
        }
    } else if let Some(old) = table.old_object(row)? {
        let existing = api.create(&options, &object(old)?).await.context("making what is to be replaced")?;
        let mut wanted = wanted;
        wanted["metadata"]["resourceVersion"] = existing.metadata.resource_version.unwrap_or_default().into();
        api.replace(name, &options, &object(wanted)?).await
    } else {
        api.create(&options, &object(wanted)?).await
    };
    match answer {
        Err(kube::Error::Api(status)) => Ok(Err(causes(&status))),
        Err(error) => Err(error).context("the server did not answer"),
        Ok(_) => Ok(Ok(serde_json::to_value(api.get(name).await.context("reading what was stored")?)?)),
    }
}

fn causes(status: &kube::core::Status) -> Causes {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let causes: Causes = causes.map(|cause| (cause.field.clone(), cause.message.clone())).collect();
    if causes.is_empty() { vec![(String::new(), status.message.clone())] } else { causes }
}

fn api_of(client: &Client, definition: &Value) -> Option<Api<DynamicObject>> {
    let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str);
    let kind = GroupVersionKind::gvk(text("/spec/group")?, text("/spec/versions/0/name")?, text("/spec/names/kind")?);
    let resource = ApiResource::from_gvk_with_plural(&kind, text("/spec/names/plural")?);
    Some(match text("/spec/scope")? {
        "Namespaced" => Api::namespaced_with(client.clone(), "default", &resource),
        _ => Api::all_with(client.clone(), &resource),
    })
}
