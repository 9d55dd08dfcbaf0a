use std::time::Duration;

use super::*;

#[test]
fn what_happens_is_counted_under_the_references_names() {
    let metrics = Metrics::default();
    let pool = || "default".to_owned();
    let created = ClaimCreated { reason: CreateReason::Provisioned, nodepool: pool(), min_values_relaxed: false };
    metrics.claims_created.get_or_create(&created).inc();
    metrics.nodes_termination_duration.observe(&["default"], 3.0);
    let ticks = metrics.ticks("nodepool");
    ticks.begin().end(TickResult::Success);
    ticks.begin().end(TickResult::Error);
    let underway = ticks.begin();
    let text = metrics.encode();
    drop(underway);
    for line in [
        "# TYPE karpenter_nodeclaims_created_total counter",
        r#"karpenter_nodeclaims_created_total{reason="provisioned",nodepool="default",min_values_relaxed="false"} 1"#,
        "# TYPE karpenter_nodes_termination_duration_seconds summary",
        r#"karpenter_nodes_termination_duration_seconds{nodepool="default",quantile="0.5"} 3"#,
        r#"controller_runtime_reconcile_total{controller="nodepool",result="error"} 1"#,
        r#"controller_runtime_reconcile_errors_total{controller="nodepool"} 1"#,
        r#"controller_runtime_active_workers{controller="nodepool"} 1.0"#,
        "# HELP karpenter_build_info What runs here.",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
    }
}

// 01/MET-03
#[test]
fn calls_to_the_cloud_are_timed_and_their_errors_counted_by_kind() {
    let metrics = Metrics::default();
    let call = |error| Call {
        controller: "nodeclaim.lifecycle",
        method: provider::Method::Launch,
        provider: "kwok",
        node_pool: "default",
        took: Duration::from_millis(30),
        error,
    };
    metrics.observe(&call(None));
    metrics.observe(&call(Some("InsufficientCapacityError")));
    let text = metrics.encode();
    let labels = r#"controller="nodeclaim.lifecycle",method="Create",provider="kwok""#;
    assert!(text.contains(&format!("karpenter_cloudprovider_duration_seconds_count{{{labels}}} 2")), "{text}");
    let error = format!(
        r#"karpenter_cloudprovider_errors_total{{{labels},error="InsufficientCapacityError",nodepool="default"}} 1"#
    );
    assert!(text.contains(&error), "{text}");
}

#[test]
fn every_metric_has_one_name_and_a_sentence() {
    let entries = Metrics::default().entries();
    let mut names: Vec<&str> = entries.iter().map(|entry| entry.name).collect();
    names.dedup();
    assert_eq!(names.len(), entries.len());
    for entry in &entries {
        assert!(entry.help.ends_with('.'), "{}", entry.name);
        assert!(entry.kind != "counter" || entry.name.ends_with("_total"), "{}", entry.name);
    }
}

/// The page for people, from what the process itself knows.
fn page() -> String {
    let mut text = "# Metrics\n\nWhat `/metrics` tells. Names, kinds and labels are the reference's, so its dashboards and alerts work; where we differ is \
                    in\ndecision 0040. What begins with `dovetail_` is our own. A test writes this page: run it with `DOVETAIL_BLESS=1` to renew it.\n\n\
                    | name | kind | labels | meaning |\n|---|---|---|---|\n"
        .to_owned();
    for Entry { name, kind, labels, help } in Metrics::default().entries() {
        text.push_str(&format!("| `{name}` | {kind} | {} | {help} |\n", labels.join(", ")));
    }
    text
}

#[test]
fn the_page_about_metrics_is_up_to_date() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let page = page();
    if std::env::var_os("DOVETAIL_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == page,
        "docs/metrics.md is stale; renew it with DOVETAIL_BLESS=1 cargo test -p controllers page_about"
    );
}
