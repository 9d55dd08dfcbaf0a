//! Metric names, kinds and labels, held against a scrape of the reference's kwok controller.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use e2e::scrape::{Family, families, merge};
use e2e::{Autoscaler, Cluster, Which};

/// Metrics of the reference that ours lacks, by the beginning of their names, and why. An entry without a difference fails.
const ABSENT: &[(&str, &str)] = &[
    ("go_", "decision 0040: the Go runtime"),
    ("certwatcher_", "decision 0040: certificates of webhooks"),
    ("client_go_", "decision 0040: the Go client"),
    ("workqueue_", "decision 0040: its work queue"),
    ("controller_runtime_conversion_webhook_panics_total", "decision 0040: webhooks"),
    ("controller_runtime_webhook_panics_total", "decision 0040: webhooks"),
    ("controller_runtime_reconcile_panics_total", "decision 0040: a panic ends our process"),
    ("controller_runtime_reconcile_timeouts_total", "decision 0040: ticks have no time limit of their own"),
    ("controller_runtime_terminal_reconcile_errors_total", "decision 0040: errors are told apart by their kind"),
];

/// Metrics that last for a moment, which a scrape may or may not see: they are held against docs/metrics.md instead.
const PASSING: &[&str] = &[
    "karpenter_pods_provisioning_scheduling_undecided_time_seconds",
    "karpenter_pods_provisioning_unbound_time_seconds",
    "karpenter_pods_provisioning_unstarted_time_seconds",
    "karpenter_pods_unbound_time_seconds",
    "karpenter_pods_unstarted_time_seconds",
    "karpenter_scheduler_queue_depth",
    "karpenter_scheduler_unfinished_work_seconds",
];

const OBJECTS: &str = "
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  limits: {cpu: 100}
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements: [{key: kubernetes.io/os, operator: In, values: [linux]}]
  disruption: {consolidateAfter: Never}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: web, resources: {requests: {cpu: 100m, memory: 100Mi}}}]
";

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < deadline, "{what} was not to be seen within two minutes");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// What an autoscaler tells while pods come, run and go and a node ends.
fn told_by(which: Which) -> BTreeMap<String, Family> {
    let cluster = Cluster::start().unwrap();
    let autoscaler = Autoscaler::start(&cluster, which).unwrap();
    cluster.apply(OBJECTS).unwrap();
    let mut told = BTreeMap::new();
    let mut look = || {
        let text = autoscaler.scrape().unwrap();
        merge(&mut told, families(&text));
        text
    };
    wait_for("three running pods", || {
        look();
        let phases = cluster.succeed(&["get", "pods", "--output", "jsonpath={.items[*].status.phase}"]).unwrap();
        phases.split(' ').filter(|phase| *phase == "Running").count() == 3
    });
    // The reference renews what it tells of nodes every 5 s, of pools every 10 s and of pods every 30 s.
    wait_for("metrics of pods, nodes and pools", || {
        let text = look();
        ["karpenter_pods_state{", "karpenter_nodes_allocatable{", "karpenter_nodepools_usage{"]
            .iter()
            .all(|name| text.contains(name))
    });
    cluster.succeed(&["scale", "deployment", "web", "--replicas=0"]).unwrap();
    cluster.succeed(&["delete", "nodeclaims", "--all", "--wait=false"]).unwrap();
    wait_for("the end of the node", || look().contains("karpenter_nodes_terminated_total{"));
    // What is told last comes with the claim's end.
    wait_for("the end of the claim", || look().contains("karpenter_nodeclaims_termination_duration_seconds_count{"));
    look();
    told
}

/// What the page about metrics says of the passing ones.
fn on_the_page() -> BTreeMap<String, Family> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    let page = std::fs::read_to_string(path).unwrap();
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let (name, kind, labels) = (cells.get(1)?.trim_matches('`'), cells.get(2)?, cells.get(3)?);
        let labels = labels.split(", ").filter(|label| !label.is_empty()).map(ToOwned::to_owned).collect();
        Some((name.to_owned(), Family { kind: (*kind).to_owned(), labels: BTreeSet::from([labels]) }))
    });
    rows.filter(|(name, _)| PASSING.contains(&name.as_str())).collect()
}

/// The label sets of a family, for people.
fn shown(labels: &BTreeSet<BTreeSet<String>>) -> Vec<String> {
    labels.iter().map(|set| set.iter().cloned().collect::<Vec<_>>().join(",")).collect()
}

#[test]
fn whatever_the_reference_tells_is_told_under_the_same_name_kind_and_labels() {
    let (theirs, mut ours) = (told_by(Which::Reference), told_by(Which::Dovetail));
    let page = on_the_page();
    assert_eq!(page.len(), PASSING.len(), "docs/metrics.md has {page:?}");
    for (name, family) in page {
        ours.entry(name).or_insert(family);
    }
    let mut differences = Vec::new();
    let mut used = BTreeSet::new();
    for (name, family) in &theirs {
        let excuse = ABSENT.iter().position(|(start, _)| name.starts_with(start));
        match (ours.get(name), excuse) {
            (None, Some(excuse)) => drop(used.insert(excuse)),
            (None, None) => differences.push(format!("{name} is missing")),
            (Some(found), _) if found.kind != family.kind => {
                differences.push(format!("{name} is a {} and should be a {}", found.kind, family.kind));
            }
            (Some(found), _) if !found.labels.is_subset(&family.labels) => differences.push(format!(
                "{name} has the labels {:?} and should have {:?}",
                shown(&found.labels),
                shown(&family.labels)
            )),
            (Some(_), _) => {}
        }
    }
    let stale = ABSENT.iter().enumerate().filter(|(index, _)| !used.contains(index));
    differences.extend(stale.map(|(_, (start, _))| format!("nothing that begins with {start} is missing any more")));
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
