use super::*;

#[test]
fn what_happens_is_counted_under_the_references_names() {
    let metrics = Metrics::default();
    let pool = || "default".to_owned();
    let created = ClaimCreated { reason: CreateReason::Provisioned, nodepool: pool(), min_values_relaxed: false };
    metrics.claims_created.get_or_create(&created).inc();
    metrics.nodes_termination_duration.observe(&["default"], 3.0);
    metrics.count_tick("nodepool.hash", TickResult::Success, Duration::from_millis(3));
    metrics.count_tick("nodepool.hash", TickResult::Error, Duration::from_millis(3));
    let text = metrics.encode();
    for line in [
        "# TYPE karpenter_nodeclaims_created_total counter",
        r#"karpenter_nodeclaims_created_total{reason="provisioned",nodepool="default",min_values_relaxed="false"} 1"#,
        "# TYPE karpenter_nodes_termination_duration_seconds summary",
        r#"karpenter_nodes_termination_duration_seconds{nodepool="default",quantile="0.5"} 3"#,
        r#"controller_runtime_reconcile_total{controller="nodepool.hash",result="error"} 1"#,
        r#"controller_runtime_reconcile_errors_total{controller="nodepool.hash"} 1"#,
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
        assert_eq!(entry.kind == "counter", entry.name.ends_with("_total"), "{}", entry.name);
    }
}
