//! Small stories, played.

use std::time::Duration;

use crate::scenario::{Happening, Play, Report, Story, paused_runtime};

const CLUSTER: &str = "
---
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  template:
    spec:
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: kubernetes.io/os, operator: In, values: [linux]}
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - name: web
          image: web:1
          resources: {requests: {cpu: 700m, memory: 1Gi}}
";

fn story(cloud: &str, steps: &str) -> Story {
    let head = format!(
        "apiVersion: dovetail.dev/v1alpha1\nkind: Scenario\nmetadata: {{name: test}}\nspec:\n  cloud: {{catalog: kwok{cloud}}}\n  duration: 20m\n  steps:\n{steps}"
    );
    let trace = "name,cpu_milli,memory_mib,num_gpu,creation_time,deletion_time\n\
                 old,1000,1024,0,10,130\nnew,1000,1024,0,160,400\nhuge,9000000,1024,0,160,400\n";
    let open = |path: &str| if path == "trace.csv" { Ok(trace.to_owned()) } else { Err("missing".to_owned()) };
    Story::read("test.yaml", &format!("{head}{CLUSTER}"), &open).unwrap()
}

/// Plays in parts of so many seconds.
fn play_in(story: &Story, seed: u64, part: u64) -> (Report, Vec<Happening>) {
    let runtime = paused_runtime().unwrap();
    runtime.block_on(async {
        let mut play = Play::new(story, seed).unwrap();
        while play.now() < story.duration {
            play.advance(play.now() + Duration::from_secs(part)).await.unwrap();
        }
        let report = play.end().await.unwrap();
        (report, play.take_happenings())
    })
}

fn play(story: &Story) -> (Report, Vec<Happening>) {
    play_in(story, 1, 100_000)
}

fn verdicts(report: &Report) -> Vec<(bool, &str)> {
    report.expectations.iter().map(|verdict| (verdict.ok, verdict.message.as_str())).collect()
}

const GROWTH: &str = "
    - {at: 1m, scale: {kind: Deployment, name: web, replicas: 3}}
    - {at: 1m, expect: {runningPods: 3, pendingPods: 0, within: 2m}}
    - {at: 10m, scale: {kind: Deployment, name: web, replicas: 0}}
    - {at: 10m, expect: {runningPods: 0, within: 2m}}
";

#[test]
fn what_comes_of_a_story_is_counted() {
    let (report, happenings) = play(&story(", launchDelay: 5s, registrationDelay: 20s", GROWTH));
    assert!(report.is_as_expected(), "{:?}", verdicts(&report));
    assert_eq!((report.pods.created, report.pods.placed, report.pods.pending), (3, 3, 0));
    assert!((25.0..27.0).contains(&report.pods.max_pending_seconds), "{:?}", report.pods);
    let [decision, removals @ ..] = report.decisions.as_slice() else { panic!("{:?}", report.decisions) };
    assert_eq!((decision.kind, decision.reason.as_str()), ("provision", "Unschedulable"));
    assert!(decision.why.starts_with("3 pods wait: 3 of default/web; "), "{}", decision.why);
    assert_eq!(decision.replacements.len(), report.nodes.len());
    // One at a time: of two nodes a tenth is one.
    assert!(removals.iter().all(|removal| (removal.kind, removal.nodes.len()) == ("remove", 1)), "{removals:?}");
    assert_eq!(removals.len(), report.nodes.len());
    for node in &report.nodes {
        let told = (node.pool.as_deref(), node.capacity_type.as_str(), node.reason.as_deref());
        assert_eq!(told, (Some("general"), "on-demand", Some("Empty")));
        // A second look comes after fifteen seconds.
        assert!(node.deleted_at.is_some_and(|gone| (615.0..680.0).contains(&gone)), "{node:?}");
        assert!((65.0..66.0).contains(&node.created_at), "{node:?}");
        assert!(node.ready_at.is_some_and(|ready| (85.0..86.0).contains(&ready)), "{node:?}");
    }
    let hourly: f64 = report.nodes.iter().map(|node| node.price_per_hour).sum();
    assert!(hourly > 0.0 && report.cost.hourly_end == 0.0);
    let lived = |node: &crate::scenario::NodeReport| node.deleted_at.unwrap() - node.created_at;
    let expected: f64 = report.nodes.iter().map(|node| node.price_per_hour * lived(node) / 3600.0).sum();
    assert!((report.cost.total - expected).abs() < 1e-6, "{} and not {expected}", report.cost.total);
    let words: Vec<&str> = happenings.iter().map(|happening| happening.word).collect();
    for word in ["start", "step", "wait", "decide", "launch", "ready", "placed", "expect", "leave", "gone"] {
        assert!(words.contains(&word), "{words:?}");
    }
    assert!(happenings.is_sorted_by_key(|happening| happening.at));
}

#[test]
fn an_expectation_that_is_not_met_says_what_is_so_instead() {
    let steps = "
    - {at: 1m, scale: {kind: Deployment, name: web, replicas: 3}}
    - {at: 1m, expect: {runningPods: 4, within: 2m}}
    - {at: 5m, expect: {nodes: 0, pricePerHourAtMost: 0.001}}
    - {at: 20m, expect: {runningPods: {min: 3}}}
";
    let (report, happenings) = play(&story("", steps));
    assert!(!report.is_as_expected());
    let verdicts = verdicts(&report);
    assert_eq!(verdicts[0], (false, "3 running pods instead of 4 after 120 s (line 10)"));
    assert!(!verdicts[1].0 && verdicts[1].1.contains("instead of at most $0.0010/h"), "{verdicts:?}");
    assert_eq!(verdicts[2], (true, "at least 3 running pods"));
    let failed = happenings.iter().find(|happening| happening.word == "FAILED").unwrap();
    assert_eq!(failed.at.as_secs(), 180, "at the end of its time");
}

#[test]
fn one_seed_gives_one_story_however_it_is_cut() {
    let story = story(", registrationDelay: 20s", GROWTH);
    let told = |seed: u64, part: u64| {
        let (report, happenings) = play_in(&story, seed, part);
        (serde_json::to_string(&report).unwrap(), happenings)
    };
    let whole = told(1, 100_000);
    assert_eq!(whole, told(1, 100_000));
    assert_eq!(whole, told(1, 1), "second by second");
    assert_ne!(whole, told(2, 100_000));
}

#[test]
fn a_scale_can_be_gradual() {
    let steps = "
    - {at: 1m, scale: {kind: Deployment, name: web, replicas: 60, over: 5m}}
    - {at: 3m30s, expect: {runningPods: {min: 20, max: 32}}}
    - {at: 6m, expect: {runningPods: 60, within: 1m}}
";
    let (report, _) = play(&story("", steps));
    assert!(report.is_as_expected(), "{:?}", verdicts(&report));
}

#[test]
fn the_last_word_about_replicas_ends_a_gradual_change() {
    let two = "spec: {replicas: 2}";
    let manifest = format!("{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web}}, {two}}}");
    for (word, pods) in [
        ("scale: {kind: Deployment, name: web, replicas: 2}".to_owned(), 2),
        ("scale: {kind: Deployment, name: web, replicas: 2, over: 1m}".to_owned(), 2),
        (format!("patch: {{kind: Deployment, name: web, patch: {{{two}}}}}"), 2),
        (format!("apply: {manifest}"), 2),
        ("delete: {kind: Deployment, name: web}".to_owned(), 0),
        // Who says nothing about replicas leaves them to whoever did.
        ("patch: {kind: Deployment, name: web, patch: {metadata: {labels: {a: b}}}}".to_owned(), 40),
    ] {
        let steps = format!(
            "
    - {{at: 1m, scale: {{kind: Deployment, name: web, replicas: 40, over: 10m}}}}
    - {{at: 3m, {word}}}
    - {{at: 5m, expect: {{runningPods: {}}}}}
    - {{at: 20m, expect: {{runningPods: {pods}, pendingPods: 0}}}}
",
            if pods == 40 { "{min: 10}".to_owned() } else { pods.to_string() }
        );
        let (report, _) = play(&story("", &steps));
        assert!(report.is_as_expected(), "{word}: {:?}", verdicts(&report));
    }
}

#[test]
fn steps_of_one_time_happen_in_the_order_of_the_file() {
    let scale = "- {at: 1m, scale: {kind: Deployment, name: web, replicas: 3}}";
    let patch = "- {at: 1m, patch: {kind: Deployment, name: web, patch: {spec: {replicas: 1}}}}";
    for (first, second, pods) in [(scale, patch, 1), (patch, scale, 3)] {
        let steps = format!("\n    {first}\n    {second}\n    - {{at: 5m, expect: {{runningPods: {pods}}}}}\n");
        let (report, _) = play(&story("", &steps));
        assert!(report.is_as_expected(), "{:?}", verdicts(&report));
    }
}

#[test]
fn prices_that_move_change_the_bill() {
    let steps = "
    - {at: 1m, scale: {kind: Deployment, name: web, replicas: 1}}
    - {at: 10m, cloud: {price: {times: 3}}}
";
    let (dear, _) = play(&story("", steps));
    let (usual, _) = play(&story("", &steps.replace("times: 3", "times: 1")));
    assert!((dear.cost.hourly_end - 3.0 * usual.cost.hourly_end).abs() < 1e-9);
    let node = &usual.nodes[0];
    let (before, after) = (600.0 - node.created_at, 600.0);
    let expected = node.price_per_hour * (before + 3.0 * after) / 3600.0;
    assert!((dear.cost.total - expected).abs() < 1e-6, "{} and not {expected}", dear.cost.total);
}

#[test]
fn a_machine_that_is_taken_back_is_replaced() {
    let steps = "
    - {at: 1m, scale: {kind: Deployment, name: web, replicas: 1}}
    - {at: 4m, expect: {nodes: 1, runningPods: 1}}
    - {at: 5m, cloud: {interruption: {notice: 1m}}}
    - {at: 6m, expect: {nodes: 1, runningPods: 1, within: 10m}}
    - {at: 20m, expect: {nodes: 1, runningPods: 1}}
";
    let (report, _) = play(&story("", steps));
    assert!(report.is_as_expected(), "{:?} {:?}", verdicts(&report), report.nodes);
    let reasons: Vec<Option<&str>> = report.nodes.iter().map(|node| node.reason.as_deref()).collect();
    assert_eq!(reasons, [Some("Interrupted"), None], "{:?}", report.nodes);
    // It is drained within its notice, not after it.
    assert!(report.nodes[0].deleted_at.is_some_and(|gone| (300.0..=360.0).contains(&gone)), "{:?}", report.nodes);
}

/// Every pod on a machine of its own, which takes it half a minute to leave.
const APART: &str = "
    - at: 1m
      patch:
        kind: Deployment
        name: web
        patch:
          spec:
            replicas: 4
            template:
              metadata: {annotations: {dovetail.dev/stop-seconds: \"30\"}}
              spec:
                affinity:
                  podAntiAffinity:
                    requiredDuringSchedulingIgnoredDuringExecution:
                      - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}
    - {at: 4m, expect: {nodes: 4, runningPods: 4}}
";

#[test]
fn a_machine_that_has_notice_is_not_struck_in_the_place_of_another() {
    // Twice at one time, and once more while the first two are on their way out.
    let steps = "
    - {at: 5m, cloud: {interruption: {notice: 2m}}}
    - {at: 5m, cloud: {interruption: {notice: 2m}}}
    - {at: 5m10s, cloud: {interruption: {notice: 2m}}}
    - {at: 20m, expect: {nodes: 4, runningPods: 4}}
";
    let (report, _) = play(&story("", &format!("{APART}{steps}")));
    assert!(report.is_as_expected(), "{:?} {:?}", verdicts(&report), report.nodes);
    let struck = |node: &&crate::scenario::NodeReport| node.reason.as_deref() == Some("Interrupted");
    let mut gone: Vec<f64> = report.nodes.iter().filter(struck).filter_map(|node| node.deleted_at).collect();
    gone.sort_by(f64::total_cmp);
    let [first, second, third] = gone[..] else { panic!("{:?}", report.nodes) };
    assert!(first > 310.0 && second < third, "the first two were still there: {gone:?}");
    assert!(report.nodes.iter().filter(struck).all(|node| node.created_at < 240.0), "the oldest: {:?}", report.nodes);
}

#[test]
fn what_must_be_so_all_the_time_fails_at_the_moment_at_which_it_is_not() {
    let steps = "
    - {at: 1m, scale: {kind: Deployment, name: web, replicas: 3}}
    - {at: 3m, expect: {runningPods: 3, throughout: 4m}}
    - {at: 3m, expect: {runningPods: 3, throughout: 10m}}
    - {at: 10m, scale: {kind: Deployment, name: web, replicas: 2}}
    - {at: 15m, expect: {launchedAfter: 2m}}
";
    let (report, happenings) = play(&story("", steps));
    let verdicts = verdicts(&report);
    assert_eq!(verdicts[0], (true, "3 running pods throughout 240 s"));
    assert_eq!(verdicts[1], (false, "2 running pods instead of 3 after 420 s (line 11)"));
    assert!(!verdicts[2].0 && verdicts[2].1.contains("instead of only after 120 s"), "{verdicts:?}");
    let failed = happenings.iter().find(|happening| happening.word == "FAILED").unwrap();
    assert_eq!(failed.at.as_secs(), 600);
}

#[test]
fn pods_of_a_workload_are_replaced_all_the_time() {
    let steps = "
    - {at: 1m, scale: {kind: Deployment, name: web, replicas: 3}}
    - {at: 5m, churn: {kind: Deployment, name: web, count: 2, every: 1m, for: 10m}}
    - {at: 20m, expect: {runningPods: 3, evictedPods: 0}}
";
    let (report, _) = play(&story("", steps));
    assert!(report.is_as_expected(), "{:?}", verdicts(&report));
    assert_eq!(report.pods.created, 3 + 20);
}

#[test]
fn chance_decides_who_leaves_and_the_seed_decides_chance() {
    let steps = "
    - {at: 1m, scale: {kind: Deployment, name: web, replicas: 40}}
    - {at: 5m, scale: {kind: Deployment, name: web, replicas: 10, atRandom: true}}
    - {at: 5m, expect: {runningPods: 10, within: 2m}}
";
    let story = story("", steps);
    let left = |seed: u64| {
        paused_runtime().unwrap().block_on(async {
            let mut play = Play::new(&story, seed).unwrap();
            play.advance(Duration::from_secs(400)).await.unwrap();
            let pods = play.world().server.list(crate::kinds::Kind::Pod);
            let mut names: Vec<String> = pods.iter().map(|pod| pod["metadata"]["name"].to_string()).collect();
            names.sort();
            names
        })
    };
    assert_eq!(left(1).len(), 10);
    assert_eq!(left(1), left(1));
}

#[test]
fn nodes_fall_ill_and_recover() {
    for (status, seen) in [("\"False\"", "False"), ("Unknown", "Unknown")] {
        let steps = format!(
            "
    - {{at: 1m, scale: {{kind: Deployment, name: web, replicas: 1}}}}
    - {{at: 5m, sick: {{status: {status}, for: 3m}}}}
    - {{at: 20m, expect: {{nodes: 1, runningPods: 1}}}}
"
        );
        let story = story("", &steps);
        paused_runtime().unwrap().block_on(async {
            let mut play = Play::new(&story, 1).unwrap();
            for (second, expected) in [(290, "True"), (400, seen), (600, "True")] {
                play.advance(Duration::from_secs(second)).await.unwrap();
                let nodes = play.world().server.list(crate::kinds::Kind::Node);
                let conditions = nodes[0]["status"]["conditions"].as_array().cloned().unwrap();
                let ready = conditions.iter().find(|condition| condition["type"] == "Ready").unwrap();
                assert_eq!(ready["status"], expected, "after {second} s");
            }
        });
    }
}

#[test]
fn pods_of_a_trace_that_are_evicted_come_back_and_leave_in_time() {
    let steps = "
    - {at: 1m, trace: {file: trace.csv, from: 100, to: 300}}
    - {at: 2m30s, expect: {runningPods: 1}}
    - {at: 5m, cloud: {interruption: {notice: 1m}}}
    - {at: 6m, expect: {runningPods: 1, pendingPods: 0, within: 3m}}
    - {at: 20m, expect: {runningPods: 1, pendingPods: 0}}
";
    let (report, _) = play(&story("", steps));
    assert!(report.is_as_expected(), "{:?}", verdicts(&report));
    assert!(report.pods.created > 2, "{:?}", report.pods);
}

#[test]
fn a_node_that_is_replaced_is_told_apart_from_one_that_pods_wait_for() {
    let steps = "
    - {at: 1m, scale: {kind: Deployment, name: web, replicas: 1}}
    - {at: 5m, patch: {kind: NodePool, name: general, patch: {spec: {template: {metadata: {labels: {a: b}}}}}}}
    - {at: 5m, expect: {nodes: 1, launchedAfter: 5m, runningPods: 1, within: 5m}}
";
    let (report, happenings) = play(&story("", steps));
    assert!(report.is_as_expected(), "{:?}", verdicts(&report));
    let told: Vec<(&str, &str)> =
        report.decisions.iter().map(|decision| (decision.kind, decision.reason.as_str())).collect();
    assert_eq!(told, [("provision", "Unschedulable"), ("replace", "Drifted"), ("remove", "Drifted")]);
    let replaced = &report.decisions[1];
    assert_eq!(replaced.nodes, [report.nodes[0].name.clone()]);
    let line = format!("instead of {}", report.nodes[0].name);
    assert!(happenings.iter().any(|happening| happening.word == "decide" && happening.text.ends_with(&line)));
}

#[test]
fn objects_are_applied_changed_and_deleted() {
    let steps = "
    - at: 1m
      apply:
        - apiVersion: v1
          kind: Pod
          metadata: {name: alone}
          spec: {containers: [{name: a, image: b, resources: {requests: {cpu: 100m}}}]}
        - apiVersion: apps/v1
          kind: Deployment
          metadata: {name: web}
          spec: {replicas: 2}
    - {at: 2m, expect: {runningPods: 3, within: 1m}}
    - {at: 5m, patch: {kind: Deployment, name: web, patch: {spec: {replicas: 1}}}}
    - {at: 5m, delete: {kind: Pod, name: alone}}
    - {at: 5m, expect: {runningPods: 1, within: 2m}}
";
    let (report, _) = play(&story("", steps));
    assert!(report.is_as_expected(), "{:?}", verdicts(&report));
}

#[test]
fn pods_of_a_trace_come_and_go() {
    let steps = "
    - {at: 1m, trace: {file: trace.csv, from: 100, to: 300}}
    - {at: 1m, expect: {runningPods: 1, within: 25s}}
    - {at: 1m35s, expect: {runningPods: 0, pendingPods: 0}}
    - {at: 2m30s, expect: {runningPods: 1}}
    - {at: 20m, expect: {runningPods: 1, pendingPods: 0}}
";
    let (report, happenings) = play(&story("", steps));
    assert!(report.is_as_expected(), "{:?}", verdicts(&report));
    assert_eq!(report.pods.created, 2);
    assert!(happenings.iter().any(|happening| happening.text.contains("1 that no machine can hold")));
}
