//! Every row of the admission tables, which were held against a real API server, held against the simulator: its schemas by
//! themselves, and its API server as a client meets it.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeMap;
use std::path::Path;

use api::crd::{CrdSet, definitions};
use runtime::{Clock, Rng};
use serde_json::Value;
use sim::ApiServer;
use sim::schema::{FieldError, Schema};
use sim::tables::{Causes, Row, Rule, Table, check_over_client, read_tables, rules_of};

#[test]
fn schemas_agree_with_every_row_of_the_admission_tables() {
    let tables = tables();
    let mut rows = 0;
    let mut failures = Vec::new();
    for table in &tables {
        rows += table.rows.len();
        failures.extend(check_table(table));
    }
    assert!(rows > 1500, "only {rows} rows were read");
    assert!(failures.is_empty(), "{} of {rows} rows failed:\n{}", failures.len(), failures.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn the_api_server_in_memory_agrees_with_every_row_of_the_admission_tables() {
    let (mut rows, mut failures) = (0, Vec::new());
    for set in CrdSet::ALL {
        let all: Vec<Value> = definitions(set).iter().map(|crd| crd.to_value().clone()).collect();
        let clock = Clock::virtual_from("2026-01-01T00:00:00Z".parse().unwrap());
        let server = ApiServer::with_definitions(clock, Rng::new(1), &all).unwrap();
        for table in tables().iter().filter(|table| table.set == set.name()) {
            rows += table.rows.len();
            let definition = all.iter().find(|crd| crd["metadata"]["name"] == table.definition.as_str()).unwrap();
            failures.extend(check_over_client(&server.client(), table, definition).await.unwrap());
        }
    }
    assert!(rows > 1500, "only {rows} rows were read");
    assert!(failures.is_empty(), "{} of {rows} rows failed:\n{}", failures.len(), failures.join("\n"));
}

fn tables() -> Vec<Table> {
    read_tables(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../e2e/admission")).unwrap()
}

#[test]
fn every_definition_can_be_read() {
    for set in CrdSet::ALL {
        for crd in definitions(set) {
            for version in crd.versions() {
                let schema = Schema::of(crd.to_value(), version);
                assert!(schema.is_ok(), "{} of {}: {:?}", crd.name(), set.name(), schema.err());
            }
        }
    }
}

fn check_table(table: &Table) -> Vec<String> {
    let set = CrdSet::ALL.into_iter().find(|set| set.name() == table.set).unwrap();
    let crds = definitions(set);
    let crd = crds.iter().find(|crd| crd.name() == table.definition).unwrap();
    let schema = Schema::of(crd.to_value(), crd.versions()[0]).unwrap();
    let rules: BTreeMap<String, Rule> =
        rules_of(crd.to_value()).into_iter().map(|rule| (rule.to_string(), rule)).collect();
    let problems = table.rows.iter().filter_map(|row| {
        let problem = row.problem_with(&rules, send(&schema, table, row).map_err(causes))?;
        Some(format!("{} {:?}: {problem}", table.definition, row.name))
    });
    problems.collect()
}

/// The object as it would be stored, or the causes of the refusal.
fn send(schema: &Schema, table: &Table, row: &Row) -> Result<Value, Vec<FieldError>> {
    let wanted = table.object(row).unwrap();
    if row.status {
        let mut stored = create(schema, wanted.clone())?;
        let old = stored.clone();
        stored["status"] = wanted["status"].clone();
        schema.admit(&mut stored, Some(&old))?;
        Ok(stored)
    } else if let Some(existing) = table.old_object(row).unwrap() {
        let old = create(schema, existing).unwrap_or_else(|causes| panic!("{}: {causes:?}", row.name));
        let mut object = wanted;
        // An update through the object leaves its status as it was.
        match old.get("status") {
            Some(status) => object["status"] = status.clone(),
            None => drop(object.as_object_mut().unwrap().remove("status")),
        }
        schema.admit(&mut object, Some(&old))?;
        Ok(object)
    } else {
        create(schema, wanted)
    }
}

fn create(schema: &Schema, mut object: Value) -> Result<Value, Vec<FieldError>> {
    object["metadata"]["name"] = "row".into();
    object.as_object_mut().unwrap().remove("status");
    schema.admit(&mut object, None)?;
    Ok(object)
}

fn causes(errors: Vec<FieldError>) -> Causes {
    errors.into_iter().map(|error| (error.field, error.message)).collect()
}
