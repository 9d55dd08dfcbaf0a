//! Quantities print as Kubernetes prints them: a real API server is asked to rewrite a few hundred.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeMap;

use api::Quantity;
use e2e::Cluster;
use serde_json::{Value, json};

#[test]
fn a_real_api_server_prints_quantities_as_we_do() {
    let cluster = Cluster::start().unwrap();
    let spellings = spellings();
    assert!(spellings.len() > 200, "{}", spellings.len());
    let hard: BTreeMap<String, &String> =
        spellings.iter().enumerate().map(|(index, text)| (format!("requests.example.com/q{index}"), text)).collect();
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}});
    cluster.apply(&quota.to_string()).unwrap();
    let answer = cluster.kubectl(&["get", "resourcequota", "q", "--output=json"]).unwrap();
    let answer: Value = serde_json::from_slice(&answer.stdout).unwrap();
    let mut differences = Vec::new();
    for (key, text) in hard {
        let (ours, theirs) = (text.parse::<Quantity>().unwrap().to_string(), &answer["spec"]["hard"][&key]);
        if *theirs != ours {
            differences.push(format!("{text}: {theirs}, but ours is {ours}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Every suffix with numbers that are and are not canonical. Extended resources must be whole, so fractions appear where
/// the suffix makes them so.
fn spellings() -> Vec<String> {
    let whole =
        ["1", "7", "10", "100", "512", "999", "1000", "1001", "1024", "1500", "2048", "10240", "1000000", "1048576"];
    let mut spellings = vec!["0".to_owned(), "0Ki".to_owned(), "0e3".to_owned()];
    for suffix in ["", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "e3", "e4", "E2", "e9"] {
        spellings.extend(whole.iter().map(|number| format!("{number}{suffix}")));
    }
    for suffix in ["k", "M", "G", "Ki", "Mi", "Gi", "e3", "e6"] {
        spellings.extend(
            ["1.5", "0.5", "10.25", "1.125", "3.000", "1024.0"].iter().map(|number| format!("{number}{suffix}")),
        );
    }
    spellings.extend(
        ["1000m", "2000m", "5000000u", "3000000000n", "4000e-3", "+7k", "0001", "5.", "007Gi"].map(str::to_owned),
    );
    // Half a kibibyte is whole, a quarter of a thousand too; what remains fractional is no count of anything.
    spellings.retain(|text| {
        let exact = text.parse::<Quantity>().unwrap();
        exact.milli() == exact.units().saturating_mul(1000) || exact.units() > i64::MAX / 1000
    });
    spellings
}
