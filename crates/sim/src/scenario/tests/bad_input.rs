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

const TRACE: &str = "name,cpu_milli,memory_mib,creation_time,deletion_time
early,1000,1024,0,60
late,2000,2048,30,90
later,500,512,100,110
";

fn read(text: &str) -> Result<Story, Fault> {
    read_with(text, TRACE)
}

fn read_with(text: &str, trace: &str) -> Result<Story, Fault> {
    let open = |path: &str| match path {
        "trace.csv" => Ok(trace.to_owned()),
        _ => Err(format!("{path}: not found")),
    };
    Story::read("story.yaml", text, &open)
}

/// Replaces a part of a good file, and checks the line and the words of what is said about it.
fn check(from: &str, to: &str, line: u64, words: &[&str]) {
    assert!(GOOD.contains(from), "{from}");
    expect(&read(&GOOD.replace(from, to)).unwrap_err(), "story.yaml", line, words);
}

fn expect(fault: &Fault, file: &str, line: u64, words: &[&str]) {
    let said = fault.to_string();
    assert!(!said.contains('\n') && said.starts_with(&format!("{file}:{line}: ")), "{file}:{line}: {said:?}");
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
    // A field that is missing is missed where its map ends.
    let scale = "scale:\n        kind: Deployment\n        replicas: 2";
    check("scale: {kind: Deployment, name: web, replicas: 2}", scale, 12, &["missing field `name`", "ends here"]);
    check("{kind: Deployment, name: web, replicas: 2}", "{kind: Deployment, name: web}", 10, &["`replicas`"]);
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
    check("within: 1m", "within: 9m", 12, &["`within`", "660 s"]);
    check("duration: 10m", "duration: 0s", 7, &["no time"]);
}

#[test]
fn what_the_api_would_refuse_is_refused_before_the_play() {
    check("{app: web}}\n  template", "{app: other}}\n  template", 21, &["`selector` does not match template `labels`"]);
    check("  name: web\nspec", "  name: web\n  namespace: shop\nspec", 18, &["shop", "Namespace shop"]);
    check("- name: web", "- name: Web_1", 24, &["spec.template.spec.containers[0].name"]);
    let pool = "---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a}\nspec:\n  weight: 500\n  template:\n    spec:\n      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: a}\n      requirements: []\n";
    let fault = read(&format!("{GOOD}{pool}")).unwrap_err();
    assert!(fault.line == 31 && fault.problem.contains("spec.weight"), "{fault}");
}

#[test]
fn a_refusal_that_names_no_field_is_shown_where_its_cause_stands() {
    check("  selector:", "  replicas: two\n  selector:", 19, &["two", "Deployment in version"]);
    check("image: web:1", "image: web:1\n          ports: [{containerPort: high}]", 26, &["high"]);
    check(
        "{kind: Deployment, name: web, replicas: 2}\n",
        "{kind: Deployment, name: web, replicas: 2}\n    - at: 90s\n      patch:\n        kind: Deployment\n        name: web\n        patch:\n          metadata: {labels: {a: b}}\n          spec:\n            paused: perhaps\n",
        18,
        &["perhaps"],
    );
    let pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n    - {name: a, image: b}\n  priorityClassName: high\n";
    expect(&read(&format!("{GOOD}{pod}")).unwrap_err(), "story.yaml", 33, &["no PriorityClass with name high"]);
}

#[test]
fn values_in_which_there_is_no_sense_are_refused() {
    let good = "scale: {kind: Deployment, name: web, replicas: 2}";
    let none = ["at least 1"];
    check(good, "cloud: {interruption: {count: 0}}", 10, &none);
    check(good, "cloud:\n        interruption:\n          notice: 1m\n          count: 0", 13, &none);
    check(good, "sick: {status: Unknown, count: 0}", 10, &none);
    check(good, "churn: {kind: Deployment, name: web, count: 0, every: 1m, for: 1m}", 10, &none);
    check(good, "churn: {kind: Deployment, name: web, every: 2m, for: 1m}", 10, &["before anybody ends", "`every`"]);
    check(good, "sick: {status: Unknown, for: 0s}", 10, &["well again at once"]);
    check(good, "sick: {status: Unknown, condition: \"\"}", 10, &["no name", "Ready"]);
    for list in ["types", "zones", "capacityTypes"] {
        let empty = ["the list is empty", "leave the field out"];
        check(good, &format!("cloud: {{price: {{times: 2, {list}: []}}}}"), 10, &empty);
        check(good, &format!("cloud:\n        shortage:\n          {list}: []"), 12, &empty);
        check(good, &format!("sick: {{status: Unknown, {list}: []}}"), 10, &empty);
        check("{catalog: kwok}", &format!("{{catalog: kwok, shortages: [{{{list}: []}}]}}"), 6, &empty);
    }
    check("runningPods: 2,", "types: [],", 12, &["the list is empty"]);
    check("runningPods: 2,", "runningPods: {},", 12, &["`min`", "`max`"]);
    check("runningPods: 2,", "runningPods: {min: 3, max: 2},", 12, &["min 3", "max 2"]);
    check("within: 1m}", "throughout: 0s}", 12, &["no time"]);
    check(good, "cloud: {restock: {capacityTypes: [reserved]}}", 10, &["sells nothing", "reserved"]);
    check(good, "cloud: {image: {family: al2023, release: v2}}", 10, &["has no images", "catalog: ec2"]);
    check(good, "apply: []", 10, &["the list is empty", "manifest"]);
    check(good, "patch: {kind: Deployment, name: web, patch: {}}", 10, &["changes nothing"]);
    check(good, "delete: {kind: Pod, name: Web_1}", 10, &["Web_1", "lower case"]);
    check(good, "delete: {kind: Node, namespace: a, name: b}", 10, &["no namespace"]);
    let ec2 = GOOD.replace("{catalog: kwok}", "{catalog: ec2, region: us-east-1}");
    for (family, release, words) in [("al2024", "v2", "use one of al2023, bottlerocket"), ("al2", "v", "v20260115")] {
        let step = format!("cloud:\n        image:\n          family: {family}\n          release: {release}");
        let line = if family == "al2" { 13 } else { 12 };
        expect(&read(&ec2.replace(good, &step)).unwrap_err(), "story.yaml", line, &[words]);
    }
}

#[test]
fn a_step_about_nobody_or_about_two_things_is_refused() {
    check("name: web, replicas", "name: wbe, replicas", 10, &["no Deployment default/wbe"]);
    check("kind: Deployment, name: web, rep", "kind: Pod, name: web, rep", 10, &["cannot be scaled"]);
    check("      scale: {", "      delete: {kind: Pod, name: a}\n      scale: {", 9, &["several things", "two steps"]);
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
    let late = "\n    podMoveCooldown: 1m\n    featureGates: NodeRepair";
    check("duration: 10m", &with(late), 10, &["feature-gates"]);
    check("duration: 10m", &with("{nodeFee: -0.5}"), 8, &["node-fee", "from 0 to 100"]);
    check("duration: 10m", &with("{nodeFee: 1000}"), 8, &["node-fee", "from 0 to 100"]);
    let good = "{featureGates: NodeRepair=true, podMoveCooldown: 1m, nodeFee: 0.01}";
    let chosen = read(&GOOD.replace("duration: 10m", &with(good))).unwrap().controller;
    assert!(chosen.gates.node_repair && chosen.pod_move_cooldown.as_secs() == 60);
    assert_eq!(chosen.policy.node_fee.pico(), 10_000_000_000);
}

#[test]
fn churn_and_sickness_that_cannot_be_are_refused() {
    let good = "scale: {kind: Deployment, name: web, replicas: 2}";
    check(good, "churn: {kind: Deployment, name: web, every: 0s, for: 1m}", 10, &["a second"]);
    check(good, "churn: {kind: Deployment, name: web, every: 1m, for: 1h}", 10, &["`for`", "3660 s"]);
    check(good, "churn: {kind: Job, name: web, every: 1m, for: 1m}", 10, &["Job", "Deployment"]);
    check(good, "churn: {kind: Deployment, name: wbe, every: 1m, for: 1m}", 10, &["no Deployment default/wbe"]);
    check(good, "sick: {status: bad}", 10, &["bad", "Unknown"]);
    check(good, "scale: {kind: StatefulSet, name: web, replicas: 2, atRandom: true}", 10, &["chance", "atRandom"]);
    check("within: 1m}", "within: 1m, throughout: 1m}", 12, &["`within` or `throughout`"]);
    check("within: 1m}", "throughout: 9m}", 12, &["`throughout`", "660 s"]);
}

#[test]
fn a_trace_that_is_not_there_is_named() {
    let trace = "trace: {file: away.csv}";
    check("expect: {runningPods: 2, within: 1m}", trace, 12, &["away.csv", "DOVETAIL_DATA"]);
}

/// A story with a trace, of which something is replaced in the file or in the trace.
fn check_trace(story: (&str, &str), trace: (&str, &str), place: (&str, u64), words: &[&str]) {
    let text = GOOD.replace(
        "expect: {runningPods: 2, within: 1m}",
        "trace:\n        file: trace.csv\n        namespace: default\n        template:\n          metadata: {labels: {a: b}}\n          spec:\n            terminationGracePeriodSeconds: 5",
    );
    read(&text).unwrap();
    let pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: here}\nspec: {containers: [{name: a, image: b}]}\n";
    let range = "---\napiVersion: v1\nkind: LimitRange\nmetadata: {name: small}\nspec: {limits: [{type: Container, max: {cpu: \"4\"}}]}\n";
    let text = format!("{text}{pod}{range}");
    assert!(text.contains(story.0) && TRACE.contains(trace.0), "{story:?} {trace:?}");
    let fault = read_with(&text.replace(story.0, story.1), &TRACE.replace(trace.0, trace.1)).unwrap_err();
    expect(&fault, place.0, place.1, words);
}

#[test]
fn every_line_of_a_trace_is_rehearsed() {
    let of_trace = |from: &str, to: &str, line: u64, words: &[&str]| {
        check_trace(("", ""), (from, to), ("trace.csv", line), words);
    };
    of_trace("late,", "Late,", 3, &["Late", "lower case"]);
    of_trace("later,", "early,", 4, &["line 2 already", "another name"]);
    of_trace("100,110", "100,90", 4, &["leaves at 90"]);
    of_trace("2048", "2Gi", 3, &["memory_mib", "2Gi"]);
    of_trace("later,", "here,", 4, &["\"here\" already exists", "another name"]);
    of_trace("late,2000", "late,5000", 3, &["maximum cpu", "correct the line"]);
    let of_story = |from: &str, to: &str, line: u64, words: &[&str]| {
        check_trace((from, to), ("", ""), ("story.yaml", line), words);
    };
    of_story("namespace: default", "namespace: shop", 14, &["shop", "Namespace shop"]);
    of_story("terminationGracePeriodSeconds: 5", "terminationGracePeriodSecond: 5", 18, &["unknown field", "template"]);
    of_story("terminationGracePeriodSeconds: 5", "terminationGracePeriodSeconds: long", 18, &["long"]);
    of_story("terminationGracePeriodSeconds: 5", "priorityClassName: high", 18, &["no PriorityClass with name high"]);
    of_story("terminationGracePeriodSeconds: 5", "containers: []", 18, &["containers come from the trace"]);
    of_story("{labels: {a: b}}", "{name: a}", 16, &["names come from the trace", "metadata.name"]);
    of_story("{labels: {a: b}}", "{namespace: a}", 16, &["namespace", "beside"]);
    of_story("{labels: {a: b}}", "{labels: {a: b c}}", 16, &["b c"]);
    of_story("          metadata: {labels: {a: b}}", "          kind: Pod", 16, &["has no `kind`"]);
}

#[test]
fn pods_of_a_trace_are_rehearsed_at_their_time() {
    let steps = |first: &str, second: &str| {
        let steps = format!(
            "- {{at: 1m, trace: {{file: trace.csv, namespace: {first}}}}}\n    - {second}\n    - at: 2m\n      expect"
        );
        read(&GOOD.replace("- at: 2m\n      expect", &steps).replace("duration: 10m", "duration: 20m"))
    };
    let apply =
        "apply: {apiVersion: v1, kind: Pod, metadata: {name: early}, spec: {containers: [{name: c, image: d}]}}";
    steps("default", &format!("{{at: 3m, {apply}}}")).unwrap();
    let fault = steps("default", &format!("{{at: 70s, {apply}}}")).unwrap_err();
    expect(&fault, "story.yaml", 12, &["early", "may not change"]);
    // Of one sort with the first, so that the server hears of it only now.
    let alike = TRACE.replace("late,2000,2048", "late,1000,1024");
    let steps_alike = GOOD.replace(
        "- at: 2m\n      expect: {runningPods: 2, within: 1m}",
        &format!("- {{at: 1m, trace: {{file: trace.csv}}}}\n    - {{at: 100s, {}}}", apply.replace("early", "late")),
    );
    expect(&read_with(&steps_alike, &alike).unwrap_err(), "story.yaml", 12, &["late", "may not change"]);
    let fault = steps("default", "{at: 90s, trace: {file: trace.csv}}").unwrap_err();
    expect(&fault, "trace.csv", 2, &["\"early\" already exists"]);
    steps("default", "{at: 5m, trace: {file: trace.csv}}").unwrap();
}

#[test]
fn one_scenario_is_in_a_file() {
    check("kind: Scenario", "kind: Scenery", 1, &["no Scenario", "kind: Scenario"]);
    check("dovetail.dev/v1alpha1", "dovetail.dev/v1", 1, &["dovetail.dev/v1", "v1alpha1"]);
    let fault = read(&format!("{GOOD}---\n{GOOD}")).unwrap_err();
    assert!(fault.line == 27 && fault.problem.contains("second Scenario"), "{fault}");
}
