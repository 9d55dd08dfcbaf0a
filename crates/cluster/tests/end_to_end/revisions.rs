//! Spreads that keep the revisions of a workload apart by a label.

use serde_json::{Value, json};

use crate::fixture::*;

const HASH: &str = "pod-template-hash";

/// Two pods of each of two revisions, spread over hosts; `extra` is what the constraint says beyond that.
fn four_pods(extra: impl Fn(&str) -> Value) -> Pass {
    let pods = ["old", "new"].into_iter().flat_map(|revision| {
        let base = json!({
            "maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        });
        let constraint = merged(base, extra(revision));
        [1, 2].map(|number| {
            let labels = json!({"app": "web", HASH: revision});
            let spec = json!({"topologySpreadConstraints": [constraint.clone()]});
            pod(&format!("{revision}-{number}"), json!({"metadata": {"labels": labels}, "spec": spec}))
        })
    });
    cluster([pool("default", json!({}))]).pods(pods.collect::<Vec<_>>()).pass()
}

/// How many pods share each machine, ascending.
fn crowds(pass: &Pass, prefix: &str) -> Vec<usize> {
    let mut crowds: Vec<usize> = pass.spread(prefix, HOST).into_values().collect();
    crowds.sort_unstable();
    crowds
}

/// What the API server writes into a constraint with `matchLabelKeys`.
fn merged_in(revision: &str) -> Value {
    json!({"labelSelector": {"matchExpressions": [{"key": HASH, "operator": "In", "values": [revision]}]}})
}

// 01/TSC-19
#[test]
fn revisions_share_machines_and_spread_each_for_itself() {
    let by_key = four_pods(|_| json!({"matchLabelKeys": [HASH]}));
    assert_eq!(
        (crowds(&by_key, ""), crowds(&by_key, "old"), crowds(&by_key, "new")),
        (vec![2, 2], vec![1, 1], vec![1, 1])
    );
    assert_eq!(crowds(&four_pods(|_| json!({})), ""), [1, 1, 1, 1], "without the key they are one crowd");
}

// 01/TSC-19
#[test]
fn a_key_that_pods_do_not_have_is_ignored() {
    let unknown = four_pods(|_| json!({"matchLabelKeys": ["nobody-has-this"]}));
    assert_eq!(unknown.plan, four_pods(|_| json!({})).plan);
    let one_of_two = four_pods(|_| json!({"matchLabelKeys": ["nobody-has-this", HASH]}));
    assert_eq!(one_of_two.plan, four_pods(|_| json!({"matchLabelKeys": [HASH]})).plan);
}

// 01/TSC-19
#[test]
fn an_expression_that_the_api_server_adds_changes_nothing() {
    let plain = four_pods(|_| json!({"matchLabelKeys": [HASH]})).plan;
    let both = four_pods(|revision| merged(json!({"matchLabelKeys": [HASH]}), merged_in(revision)));
    assert_eq!(both.plan, plain);
    let twice = four_pods(|revision| {
        let mut change = merged(json!({"matchLabelKeys": [HASH]}), merged_in(revision));
        let expressions = &mut change["labelSelector"]["matchExpressions"];
        *expressions = json!([expressions[0], expressions[0]]);
        change
    });
    assert_eq!(twice.plan, plain);
    assert_eq!(four_pods(merged_in).plan, plain, "the expression alone says the same");
    // Some pods of a workload may have been admitted before the API server began to add it.
    let half =
        four_pods(|revision| if revision == "old" { json!({"matchLabelKeys": [HASH]}) } else { merged_in(revision) });
    assert_eq!(half.plan, plain);
}
