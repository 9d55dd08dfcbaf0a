//! What is wrong with a file is said with its line and a remedy, before anything is played.

use crate::scenario::{Fault, Story};

const GOOD: &str = "apiVersion: dovetail.dev/v1alpha1
kind: Scenario
metadata:
  name: test
spec:
  cloud: {catalog: kwok}
  duration: 10m
  steps:
    - at: 1m
      scale: {kind: Deployment, name: web, replicas: 2}
    - at: 2m
      expect: {runningPods: 2, within: 1m}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - name: web
          image: web:1
";

fn read(text: &str) -> Result<Story, Fault> {
    Story::read("story.yaml", text, &|path| Err(format!("{path}: not found")))
}

/// Replaces a part of a good file, and checks the line and the words of what is said about it.
fn check(from: &str, to: &str, line: u64, words: &[&str]) {
    assert!(GOOD.contains(from), "{from}");
    let fault = read(&GOOD.replace(from, to)).unwrap_err();
    assert_eq!(fault.line, line, "{fault}");
    let said = fault.to_string();
    assert!(!said.contains('\n') && said.starts_with(&format!("story.yaml:{line}: ")), "{said:?}");
    for word in words {
        assert!(said.contains(word), "{said} should contain {word}");
    }
}

#[test]
fn a_good_file_is_read() {
    let story = read(GOOD).unwrap();
    assert_eq!((story.name.as_str(), story.duration.as_secs()), ("test", 600));
}

#[test]
fn a_typo_in_a_field_is_shown_where_it_stands() {
    check("duration: 10m", "duraton: 10m", 7, &["unknown field", "duraton", "duration"]);
    check("catalog: kwok", "catalogue: kwok", 6, &["catalogue"]);
    check("replicas: 2}", "replica: 2}", 10, &["replica"]);
    check("within: 1m", "witin: 1m", 12, &["witin"]);
    check("catalog: kwok", "catalog: gcp", 6, &["gcp", "ec2"]);
}

#[test]
fn a_typo_in_a_manifest_is_shown_where_it_stands() {
    check("          image: web:1", "          image: web:1\n          imge: x", 26, &["Deployment web", "imge"]);
    check("  name: web\nspec", "  name: web\n  lables: {a: b}\nspec", 18, &["lables"]);
    check("kind: Deployment\nmeta", "kind: Deploymnt\nmeta", 15, &["Deploymnt", "DaemonSet"]);
    check("apiVersion: apps/v1", "apiVersion: apps/v1beta1", 14, &["apps/v1beta1", "apiVersion: apps/v1"]);
}

#[test]
fn times_that_cannot_be_are_refused() {
    check("at: 1m", "at: 11m", 9, &["660 s", "600", "duration"]);
    check("at: 1m", "at: -1m", 9, &["negative"]);
    check("at: 1m", "at: soon", 9, &["soon", "30s"]);
    check("within: 1m", "within: 9m", 11, &["`within`", "660 s"]);
    check("duration: 10m", "duration: 0s", 7, &["no time"]);
}

#[test]
fn what_the_api_would_refuse_is_refused_before_the_play() {
    check("{app: web}}\n  template", "{app: other}}\n  template", 21, &["`selector` does not match template `labels`"]);
    check("  name: web\nspec", "  name: web\n  namespace: shop\nspec", 14, &["shop", "Namespace shop"]);
    check("- name: web", "- name: Web_1", 24, &["spec.template.spec.containers[0].name"]);
    let pool = "---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a}\nspec:\n  weight: 500\n  template:\n    spec:\n      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: a}\n      requirements: []\n";
    let fault = read(&format!("{GOOD}{pool}")).unwrap_err();
    assert!(fault.line == 31 && fault.problem.contains("spec.weight"), "{fault}");
}

#[test]
fn a_step_about_nobody_or_about_two_things_is_refused() {
    check("name: web, replicas", "name: wbe, replicas", 9, &["no Deployment default/wbe"]);
    check("kind: Deployment, name: web, rep", "kind: Pod, name: web, rep", 10, &["cannot be scaled"]);
    check("      scale: {", "      delete: {kind: Pod, name: a}\n      scale: {", 9, &["one thing"]);
    check("      expect: {runningPods: 2, within: 1m}\n", "", 11, &["nothing happens", "apply"]);
    check("{runningPods: 2, within: 1m}", "{within: 1m}", 12, &["nothing is expected"]);
}

#[test]
fn clouds_that_do_not_exist_are_refused() {
    check("{catalog: kwok}", "{catalog: ec2}", 6, &["region", "us-east-1"]);
    check("{catalog: kwok}", "{catalog: ec2, region: moon-1}", 6, &["moon-1", "us-east-1"]);
    check("{catalog: kwok}", "{catalog: kwok, region: us-east-1}", 6, &["no regions"]);
    let goods = |goods: &str| format!("{{catalog: ec2, region: us-east-1, shortages: [{goods}]}}");
    check("{catalog: kwok}", &goods("{types: [m5.lrage]}"), 6, &["m5.lrage", "m5.large"]);
    check("{catalog: kwok}", &goods("{zones: [us-west-2a]}"), 6, &["us-west-2a", "us-east-1a"]);
    check("{catalog: kwok}", &goods("{capacityTypes: [cheap]}"), 6, &["cheap", "on-demand, spot"]);
}

#[test]
fn settings_of_the_controller_are_read_as_its_flags_are() {
    let with = |controller: &str| format!("duration: 10m\n  controller: {controller}");
    check("duration: 10m", &with("{featureGates: NodeRepair}"), 8, &["feature-gates", "NodeRepair=true"]);
    check("duration: 10m", &with("{featureGates: Disruption=true}"), 8, &["Disruption", "unknown"]);
    check("duration: 10m", &with("{payback: 1h}"), 8, &["payback", "consolidationPayback"]);
    let story = read(&GOOD.replace("duration: 10m", &with("{featureGates: NodeRepair=true, podMoveCooldown: 1m}")));
    let chosen = story.unwrap().controller;
    assert!(chosen.gates.node_repair && chosen.pod_move_cooldown.as_secs() == 60);
}

#[test]
fn churn_and_sickness_that_cannot_be_are_refused() {
    let good = "scale: {kind: Deployment, name: web, replicas: 2}";
    check(good, "churn: {kind: Deployment, name: web, every: 0s, for: 1m}", 10, &["no time passes"]);
    check(good, "churn: {kind: Deployment, name: web, every: 1m, for: 1h}", 9, &["`for`", "3660 s"]);
    check(good, "churn: {kind: Job, name: web, every: 1m, for: 1m}", 10, &["Job", "Deployment"]);
    check(good, "churn: {kind: Deployment, name: wbe, every: 1m, for: 1m}", 9, &["no Deployment default/wbe"]);
    check(good, "sick: {status: bad}", 10, &["bad", "Unknown"]);
    check(good, "scale: {kind: StatefulSet, name: web, replicas: 2, atRandom: true}", 10, &["chance", "atRandom"]);
    check("within: 1m}", "within: 1m, throughout: 1m}", 12, &["`within` or `throughout`"]);
    check("within: 1m}", "throughout: 9m}", 11, &["`throughout`", "660 s"]);
}

#[test]
fn a_trace_that_is_not_there_is_named() {
    let trace = "trace: {file: away.csv}";
    check("expect: {runningPods: 2, within: 1m}", trace, 12, &["away.csv", "DOVETAIL_DATA"]);
}

#[test]
fn one_scenario_is_in_a_file() {
    check("kind: Scenario", "kind: Scenery", 1, &["no Scenario", "kind: Scenario"]);
    check("dovetail.dev/v1alpha1", "dovetail.dev/v1", 1, &["dovetail.dev/v1", "v1alpha1"]);
    let fault = read(&format!("{GOOD}---\n{GOOD}")).unwrap_err();
    assert!(fault.line == 27 && fault.problem.contains("second Scenario"), "{fault}");
}
