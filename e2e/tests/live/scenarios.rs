//! Stories of `scenarios/` on a real control plane, with shorter times and fewer pods. One cluster and one controller play them all
//! at the same time, each with a class, pools and a namespace of its own.
//!
//! `eks-workshop` has a file of its own; `buffer` and `static-pool` are among the stories of `disruption`. What can only be
//! simulated is left out here: the shortage of spot, and ten minutes of illness, for which the illness is dated back.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use e2e::replica::wait_for;
use e2e::{Cluster, Dovetail, Replica};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::leaving::{Nodes, Seen};
use crate::stage::{LIMIT, Stage, condition, merged, play_together};

const STORY: &str = "example.com/story";
/// How long something that must not happen is waited for.
const PROOF: Duration = Duration::from_secs(15);
/// How late somebody may be who began in time.
const SLACK: SignedDuration = SignedDuration::from_secs(3);

/// How a story is played.
type Told = fn(&Play<'_>);

struct Play<'a> {
    stage: &'a Stage,
    live: &'a Replica,
    /// Of the file, of the class and of the namespace.
    name: &'static str,
}

#[test]
fn scenarios_come_true_on_a_real_control_plane() {
    let cluster = Cluster::start().unwrap();
    Dovetail::apply_crds(&cluster, "aws").unwrap();
    let stage = Stage { cluster };
    let arguments = [
        "--catalog=ec2:us-west-2",
        "--feature-gates=NodeRepair=true,NodeOverlay=true",
        // The contract of `overlay-price` ends soon.
        "--pod-move-cooldown=5s",
    ];
    let live = Replica::start(&stage.cluster, &arguments).unwrap();
    let stories: [(&str, Told); 6] = [
        ("image-rollout", a_new_image_rolls_out_within_its_budget_and_around_the_window),
        ("requirement-change", a_changed_requirement_rolls_out_in_the_same_way),
        ("spot-storm", machines_that_are_taken_back_are_left_in_time),
        ("blocked-by-pdb", a_budget_of_pods_holds_a_node_for_good_or_until_its_deadline),
        ("sick-nodes", a_node_that_stays_ill_is_replaced_unless_many_are),
        ("overlay-price", machines_follow_a_price_that_an_overlay_sets),
    ];
    play_together(&stories, &live, |name, story| story(&Play { stage: &stage, live: &live, name }));
}

impl Play<'_> {
    /// Applies the manifests of the file. Whatever is not in a namespace gets a name of its own, and pods stay among their nodes.
    fn begin(&self, change: impl Fn(&Value) -> Value) {
        let path = format!("{}/../scenarios/{}.yaml", env!("CARGO_MANIFEST_DIR"), self.name);
        let text = std::fs::read_to_string(path).unwrap();
        self.stage.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name}}));
        for text in text.split("\n---\n") {
            let manifest: Value = serde_saphyr::from_str(text).unwrap();
            let kind = manifest["kind"].as_str().unwrap();
            let own = match kind {
                "Scenario" => continue,
                "EC2NodeClass" => json!({"metadata": {"name": self.name}}),
                "NodePool" => json!({
                    "metadata": {"name": self.own(manifest["metadata"]["name"].as_str().unwrap())},
                    "spec": {"template": {
                        "metadata": {"labels": {STORY: self.name}}, "spec": {"nodeClassRef": {"name": self.name}},
                    }},
                }),
                "Deployment" => json!({
                    "metadata": {"namespace": self.name},
                    "spec": {"template": {"spec": {"nodeSelector": {STORY: self.name}}}},
                }),
                _ => json!({"metadata": {"namespace": self.name}}),
            };
            let changed = change(&manifest);
            self.stage.apply(&merged(merged(manifest, own), changed));
        }
    }

    fn own(&self, pool: &str) -> String {
        format!("{}-{pool}", self.name)
    }

    fn nodes(&self, pool: &str, serving: usize) -> Nodes {
        Nodes::watch(&self.stage.cluster, &self.own(pool), serving)
    }

    /// kubectl, in the namespace of the story.
    fn kubectl(&self, words: &[&str]) -> String {
        self.stage.cluster.succeed(&[words, &["--namespace", self.name]].concat()).unwrap()
    }

    fn patch(&self, kind: &str, name: &str, patch: Value) {
        self.kubectl(&["patch", kind, name, "--type=merge", "--patch", &patch.to_string()]);
    }

    /// A new image: machines of the one before have drifted.
    fn publish(&self) {
        self.patch("ec2nodeclass", self.name, json!({"spec": {"amiSelectorTerms": [{"alias": "al2023@v20260115"}]}}));
    }

    fn running(&self, count: usize) {
        let waited = wait_for("pods to run", LIMIT, || {
            // Every look is a process, and there are many stories.
            thread::sleep(Duration::from_secs(1));
            Ok((self.ready_pods() == count).then_some(()))
        });
        waited.unwrap_or_else(|error| panic!("{}: {error}", self.name));
    }

    fn ready_pods(&self) -> usize {
        let pods = self.stage.items(&["pods", "--namespace", self.name]);
        let is_ready = |pod: &&Value| {
            pod["metadata"]["deletionTimestamp"].is_null() && condition(pod, "Ready").as_deref() == Some("True")
        };
        pods.iter().filter(is_ready).count()
    }

    fn wait(&self, what: &str, nodes: &Nodes, holds: impl Fn(&Seen) -> bool) {
        let waited = wait_for(what, LIMIT, || Ok(holds(&nodes.seen()).then_some(())));
        waited.unwrap_or_else(|error| panic!("{}: {error}: {:?}", self.name, nodes.seen()));
    }
}

fn names(seen: &Seen) -> BTreeSet<String> {
    seen.nodes.keys().cloned().collect()
}

/// So many pods that start slowly, each on a node of its own.
fn slow(replicas: usize) -> impl Fn(&Value) -> Value {
    move |manifest| match manifest["kind"].as_str() {
        Some("Deployment") => json!({"spec": {"replicas": replicas, "template": {"metadata": {
            "annotations": {"dovetail.dev/ready-delay": "3s"},
        }}}}),
        Some("NodePool") => {
            json!({"spec": {"disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "10%"}]}}})
        }
        _ => json!({}),
    }
}

fn a_new_image_rolls_out_within_its_budget_and_around_the_window(play: &Play<'_>) {
    check_rollout(play, || play.publish());
}

fn a_changed_requirement_rolls_out_in_the_same_way(play: &Play<'_>) {
    let requirements = json!([
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m6i.xlarge"]},
    ]);
    let nodes = check_rollout(play, || {
        let patch = json!({"spec": {"template": {"spec": {"requirements": requirements}}}});
        play.patch("nodepool", &play.own("default"), patch);
    });
    let seen = nodes.seen();
    assert!(seen.types.values().all(|type_name| type_name == "m6i.xlarge"), "{seen:?}");
}

/// Every node is replaced once, one at a time, and nobody begins within a window of one minute that cuts the rollout in two; at
/// most one pod is missing at any time.
fn check_rollout(play: &Play<'_>, begin: impl Fn()) -> Nodes {
    const PODS: usize = 8;
    play.begin(slow(PODS));
    play.running(PODS);
    let nodes = play.nodes("default", PODS);
    let old = names(&nodes.seen());
    assert_eq!(old.len(), PODS);
    // Windows begin with a minute. Twenty-five seconds before are enough for some nodes, and too few for all.
    let early = SignedDuration::from_secs(25);
    let now = Timestamp::now();
    let minute = (now.saturating_add(early).unwrap().as_second() / 60 + 1) * 60;
    let start = Timestamp::from_second(minute).unwrap();
    let end = start + SignedDuration::from_mins(1);
    let schedule = format!("{} {} * * *", minute / 60 % 60, minute / 3600 % 24);
    let budgets = json!([{"nodes": "10%"}, {"nodes": "0", "schedule": schedule, "duration": "1m"}]);
    play.patch("nodepool", &play.own("default"), json!({"spec": {"disruption": {"budgets": budgets}}}));
    thread::sleep(Duration::try_from((start - early).duration_since(Timestamp::now())).unwrap_or_default());
    begin();
    let mut fewest = PODS;
    let rolled = wait_for("the rollout to end", LIMIT, || {
        thread::sleep(Duration::from_secs(1));
        fewest = fewest.min(play.ready_pods());
        let seen = nodes.seen();
        Ok((seen.nodes.len() == PODS && names(&seen).is_disjoint(&old)).then_some(()))
    });
    let seen = nodes.seen();
    rolled.unwrap_or_else(|error| panic!("{}: {error}: {seen:?}", play.name));
    play.running(PODS);
    assert_eq!((seen.most_leaving, seen.ever.len()), (1, 2 * PODS), "one after the other, each by one: {seen:?}");
    assert!(fewest >= PODS - 1, "{} of {PODS} pods were ready", fewest);
    let within = |from: Timestamp, to: Timestamp| seen.began.values().filter(|at| (from..to).contains(*at)).count();
    assert_eq!(within(start + SLACK, end), 0, "nobody begins from {start} to {end}: {:?}", seen.began);
    let (before, after) = (within(Timestamp::MIN, start + SLACK), within(end, Timestamp::MAX));
    assert!(before > 0 && after > 0 && before + after == PODS, "{before} before and {after} after: {:?}", seen.began);
    nodes
}

fn machines_that_are_taken_back_are_left_in_time(play: &Play<'_>) {
    const PODS: usize = 12;
    const NOTICE: Duration = Duration::from_secs(40);
    let few = |manifest: &Value| match manifest["kind"].as_str() {
        Some("Deployment") => json!({"spec": {"replicas": PODS}}),
        _ => json!({}),
    };
    play.begin(few);
    play.running(PODS);
    let nodes = play.nodes("default", 1);
    let is_spot = |node: &Value| node["metadata"]["labels"]["karpenter.sh/capacity-type"] == "spot";
    let all = play.stage.items(&["nodes", &format!("--selector={STORY}={}", play.name)]);
    assert!(all.len() > 3 && all.iter().all(is_spot), "spot is cheaper: {:?}", nodes.seen());
    let take_back = |struck: &BTreeSet<String>| {
        let notice = format!("karpenter.kwok.sh/interruption-notice={}s", NOTICE.as_secs());
        let words: Vec<&str> = struck.iter().map(String::as_str).collect();
        let announced = Timestamp::now();
        play.stage.cluster.succeed(&[&["annotate", "node"], &words[..], &[notice.as_str()]].concat()).unwrap();
        play.wait("what is taken back to be gone", &nodes, |seen| names(seen).is_disjoint(struck));
        let took = Timestamp::now().duration_since(announced);
        assert!(took <= SignedDuration::try_from(NOTICE).unwrap() + SLACK, "gone after {took}");
        play.running(PODS);
    };
    // Some, and then all that are left.
    take_back(&names(&nodes.seen()).into_iter().take(2).collect());
    take_back(&names(&nodes.seen()));
    let metrics = play.live.metrics().unwrap();
    let counted = format!(
        "karpenter_nodeclaims_disrupted_total{{reason=\"spot_interrupted\",nodepool=\"{}\"",
        play.own("default")
    );
    assert!(metrics.contains(&counted), "{metrics}");
}

fn a_budget_of_pods_holds_a_node_for_good_or_until_its_deadline(play: &Play<'_>) {
    let short = |manifest: &Value| match manifest["metadata"]["name"].as_str() {
        Some("bounded") if manifest["kind"] == "NodePool" => {
            json!({"spec": {"template": {"spec": {"terminationGracePeriod": "60s"}}}})
        }
        _ => json!({}),
    };
    play.begin(short);
    play.running(2);
    let (patient, bounded) = (play.nodes("patient", 1), play.nodes("bounded", 1));
    let (held, old) = (names(&patient.seen()), names(&bounded.seen()));
    assert_eq!((held.len(), old.len()), (1, 1));
    play.publish();
    // Of its minute the last thirty seconds are the pod's to end in. Nothing is bought for it before it is free to go.
    play.wait("the deadline", &bounded, |seen| seen.nodes.len() == 1 && names(seen).is_disjoint(&old));
    let seen = bounded.seen();
    let took = Timestamp::now().duration_since(*seen.began.values().min().unwrap());
    assert!((25..90).contains(&took.as_secs()), "{took}: {seen:?}");
    assert_eq!(seen.ever.len(), 2);
    let seen = patient.seen();
    assert!(names(&seen) == held && seen.most_leaving == 0, "whom a budget holds is not even closed: {seen:?}");
    let blocked = format!("Pdb prevents pod evictions (PodDisruptionBudget=[{}/patient])", play.name);
    play.stage.event("DisruptionBlocked", &blocked, play.live);
    play.kubectl(&["delete", "pdb", "patient"]);
    play.wait("the other to be replaced", &patient, |seen| seen.nodes.len() == 1 && names(seen).is_disjoint(&held));
    play.running(2);
}

// 02/E10
fn a_node_that_stays_ill_is_replaced_unless_many_are(play: &Play<'_>) {
    const PODS: usize = 6;
    let few = |manifest: &Value| match manifest["kind"].as_str() {
        Some("Deployment") => json!({"spec": {"replicas": PODS}}),
        _ => json!({}),
    };
    play.begin(few);
    play.running(PODS);
    let nodes = play.nodes("default", PODS);
    let first: Vec<String> = names(&nodes.seen()).into_iter().collect();
    assert_eq!(first.len(), PODS);
    // Ten minutes are put up with.
    fall_ill(play, &first[0], SignedDuration::ZERO);
    thread::sleep(PROOF);
    assert_eq!((nodes.seen().ever.len(), nodes.seen().most_leaving), (PODS, 0));
    recover(play, &first[0]);
    fall_ill(play, &first[1], SignedDuration::from_mins(11));
    play.wait("it to be replaced", &nodes, |seen| seen.nodes.len() == PODS && !seen.nodes.contains_key(&first[1]));
    play.running(PODS);
    // An epidemic: all fall ill before the time of the first is up.
    let ill: Vec<String> = names(&nodes.seen()).into_iter().take(3).collect();
    ill.iter().for_each(|node| fall_ill(play, node, SignedDuration::ZERO));
    ill.iter().for_each(|node| fall_ill(play, node, SignedDuration::from_mins(11)));
    play.stage.event("NodeRepairBlocked", "more than 20% nodes are unhealthy in the nodepool", play.live);
    thread::sleep(PROOF);
    let seen = nodes.seen();
    assert_eq!((seen.nodes.len(), seen.ever.len()), (PODS, PODS + 1), "one was replaced, and no other: {seen:?}");
    ill.iter().for_each(|node| recover(play, node));
}

/// The node says that it has not been ready for so long, and nobody says otherwise.
fn fall_ill(play: &Play<'_>, node: &str, since: SignedDuration) {
    play.kubectl(&["annotate", "node", node, "dovetail.dev/status=custom", "--overwrite"]);
    let since = (Timestamp::now() - since).round(jiff::Unit::Second).unwrap();
    let ready = json!({
        "type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "ill",
        "lastTransitionTime": since.to_string(), "lastHeartbeatTime": since.to_string(),
    });
    let patch = json!({"status": {"conditions": [ready]}}).to_string();
    play.kubectl(&["patch", "node", node, "--subresource=status", "--type=strategic", "--patch", &patch]);
}

fn recover(play: &Play<'_>, node: &str) {
    play.kubectl(&["annotate", "node", node, "dovetail.dev/status-"]);
    let well = wait_for("a node to recover", LIMIT, || {
        Ok((condition(&play.stage.get(&["node", node]), "Ready").as_deref() == Some("True")).then_some(()))
    });
    well.unwrap_or_else(|error| panic!("{}: {error}", play.name));
}

fn machines_follow_a_price_that_an_overlay_sets(play: &Play<'_>) {
    const PODS: usize = 3;
    let short = |manifest: &Value| match manifest["kind"].as_str() {
        Some("Deployment") => json!({"spec": {"replicas": PODS}}),
        Some("NodePool") => json!({"spec": {"disruption": {"consolidateAfter": "5s"}}}),
        _ => json!({}),
    };
    play.begin(short);
    play.running(PODS);
    let nodes = play.nodes("default", PODS);
    let only = |wanted: &'static str| {
        move |seen: &Seen| seen.types.len() == PODS && seen.types.values().all(|type_name| type_name == wanted)
    };
    play.wait("list prices", &nodes, only("c6a.large"));
    // A contract, for this pool alone.
    play.stage.apply(&json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": play.name},
        "spec": {"priceAdjustment": "-60%", "requirements": [
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]},
            {"key": "karpenter.sh/nodepool", "operator": "In", "values": [play.own("default")]},
        ]},
    }));
    play.wait("what the contract makes cheap", &nodes, only("m5.large"));
    play.running(PODS);
    play.kubectl(&["delete", "nodeoverlay", play.name]);
    play.wait("list prices again", &nodes, only("c6a.large"));
    play.running(PODS);
}
