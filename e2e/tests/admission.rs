//! What a real API server says to each row of the admission tables, and that the tables leave no rule out.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeSet;
use std::path::Path;

use api::crd::{CrdSet, definitions};
use e2e::Cluster;
use serde_json::Value;
use sim::tables::{Rule, Table, Verdict, check_over_client, exercised, read_tables, rules_of};

#[test]
fn the_api_server_agrees_with_every_row_of_the_aws_tables() {
    check_set(CrdSet::Aws);
}

#[test]
fn the_api_server_agrees_with_every_row_of_the_kwok_tables() {
    check_set(CrdSet::Kwok);
}

#[test]
fn every_rule_has_an_accepted_and_a_refused_row() {
    let mut gaps = Vec::new();
    let mut seen = BTreeSet::new();
    for table in tables() {
        gaps.extend(gaps_of(&table));
        seen.insert((table.set.clone(), table.definition.clone()));
    }
    // The core set is the common part of the other two, so it needs no rows of its own.
    for set in [CrdSet::Aws, CrdSet::Kwok] {
        for crd in definitions(set) {
            let is_covered_by_aws = seen.contains(&("aws".to_owned(), crd.name().to_owned()));
            if !seen.contains(&(set.name().to_owned(), crd.name().to_owned())) && !is_covered_by_aws {
                gaps.push(format!("{} of the set {} has no table", crd.name(), set.name()));
            }
        }
    }
    assert!(gaps.is_empty(), "{} gaps:\n{}", gaps.len(), gaps.join("\n"));
}

/// What is missing in a table, and what it names that does not exist.
///
/// A kind of the kwok set that the aws set has as well is asked only for the rules that the aws set lacks.
fn gaps_of(table: &Table) -> Vec<String> {
    let definition = definition(table);
    let mut wanted = rules_of(&definition);
    if table.set != "aws" {
        let aws = definitions(CrdSet::Aws);
        let twin = aws.iter().find(|crd| crd.name() == table.definition);
        let elsewhere = twin.map(|crd| rules_of(crd.to_value())).unwrap_or_default();
        wanted.retain(|rule| !elsewhere.contains(rule));
    }
    let named: BTreeSet<String> = rules_of(&definition).iter().map(Rule::to_string).collect();
    let mut accepted = BTreeSet::new();
    let mut refused = BTreeSet::new();
    for row in &table.rows {
        match row.verdict() {
            Verdict::Accepted { .. } => {
                let mut object = table.object(row).unwrap();
                if !row.status {
                    // The API server drops a status that does not come through the sub-resource, unread.
                    object.as_object_mut().unwrap().remove("status");
                }
                accepted.extend(exercised(&definition, &object, row.is_update()));
            }
            Verdict::RefusedBy(rule) => {
                refused.insert(rule.to_owned());
            }
        }
    }
    let unknown = refused.iter().chain(table.unviolable.keys()).filter(|rule| !named.contains(*rule));
    let mut gaps: Vec<String> = unknown.map(|rule| format!("{}: there is no rule {rule}", table.definition)).collect();
    for rule in wanted {
        let name = rule.to_string();
        if !accepted.contains(&rule) {
            gaps.push(format!("{}: no accepted row exercises {name}", table.definition));
        }
        if !refused.contains(&name) && !table.unviolable.contains_key(&name) {
            gaps.push(format!("{}: no refused row violates {name}", table.definition));
        }
    }
    gaps
}

fn tables() -> Vec<Table> {
    read_tables(&Path::new(env!("CARGO_MANIFEST_DIR")).join("admission")).unwrap()
}

fn definition(table: &Table) -> Value {
    let set = CrdSet::ALL.into_iter().find(|set| set.name() == table.set).unwrap();
    definitions(set).iter().find(|crd| crd.name() == table.definition).unwrap().to_value().clone()
}

/// Runs all rows of a set on a cluster that has the set's definitions.
fn check_set(set: CrdSet) {
    let cluster = Cluster::start().unwrap();
    let yaml: String = definitions(set).iter().map(|crd| crd.to_yaml()).collect();
    cluster.apply(&yaml).unwrap();
    let wait = cluster.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"]).unwrap();
    assert!(wait.status.success(), "{}", String::from_utf8_lossy(&wait.stderr));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let failures: Vec<String> = runtime.block_on(async {
        let client = e2e::client(&cluster).await.unwrap();
        let mut failures = Vec::new();
        let mut rows = 0;
        for table in tables().iter().filter(|table| table.set == set.name()) {
            rows += table.rows.len();
            failures.extend(check_over_client(&client, table, &definition(table)).await.unwrap());
        }
        eprintln!("{rows} rows of the set {}", set.name());
        assert!(rows > 0);
        failures
    });
    assert!(failures.is_empty(), "{} rows failed:\n{}", failures.len(), failures.join("\n"));
}
