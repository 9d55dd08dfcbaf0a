//! Nodes that are taken away on purpose, story by story. One cluster and one controller play them all at the same time, each in
//! a pool of its own, because each mostly waits.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use e2e::Replica;
use e2e::replica::wait_for;
use serde_json::{Value, json};

use crate::leaving::{Nodes, Seen};
use crate::stage::{LIMIT, Stage, condition, deployment, merged, play_together, pool};

/// How long something that must not happen is waited for: longer than `consolidateAfter` and the second look of 15 s.
const PROOF: Duration = Duration::from_secs(30);

struct Play<'a> {
    stage: &'a Stage,
    live: &'a Replica,
    /// Of the pool, and of all else in it.
    name: &'static str,
}

/// What it is called, and what happens in it.
type Story = (&'static str, fn(&Play<'_>));

#[test]
fn nodes_leave_on_purpose() {
    let stage = Stage::kwok();
    let live = Replica::start(&stage.cluster, &["--feature-gates=StaticCapacity=true,CapacityBuffer=true"]).unwrap();
    let stories: [Story; 11] = [
        ("empty", empty_nodes_leave_within_their_budget_and_not_while_it_is_closed),
        ("spare", a_drifted_node_whose_pods_fit_elsewhere_is_not_replaced),
        ("drifting", drifted_nodes_are_replaced_within_their_budget_and_not_while_it_is_closed),
        ("unready", a_drifted_node_stays_while_its_replacement_does_not_become_ready),
        ("unborn", a_drifted_node_stays_while_its_replacement_does_not_register),
        ("runaway-empty", |play| a_pod_that_fits_nowhere_does_not_make_the_cluster_grow(play, "WhenEmpty")),
        ("runaway", |play| a_pod_that_fits_nowhere_does_not_make_the_cluster_grow(play, "WhenEmptyOrUnderutilized")),
        ("static", a_drifted_static_pool_is_replaced_without_a_gap),
        ("buffer", a_buffer_is_used_refilled_renewed_and_removed),
        ("bounded", a_buffer_keeps_its_limits_and_its_distance_when_its_nodes_expire),
        ("guarded", a_budget_of_pods_keeps_a_node_until_it_is_lifted),
    ];
    play_together(&stories, &live, |name, story| story(&Play { stage: &stage, live: &live, name }));
}

impl Play<'_> {
    /// Applies the pool of machines of one core, with this disruption.
    fn pool(&self, disruption: Value) {
        self.stage.apply(&self.pool_with(json!({"spec": {"disruption": disruption}})));
    }

    fn pool_with(&self, change: Value) -> Value {
        let small = json!([{"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["1"]}]);
        merged(pool(self.name, small), change)
    }

    fn patch(&self, patch: Value) {
        let patch = patch.to_string();
        self.stage.cluster.succeed(&["patch", "nodepool", self.name, "--type=merge", "--patch", &patch]).unwrap();
    }

    /// Every node of the pool is of yesterday.
    fn drift(&self) {
        self.patch(json!({"spec": {"template": {"metadata": {"labels": {"example.com/version": "2"}}}}}));
    }

    /// Pods of which each fills a node.
    fn pods(&self, replicas: u32) {
        let pods = deployment(self.name, replicas, json!({"cpu": "800m"}));
        let here = json!({"nodeSelector": {"karpenter.sh/nodepool": self.name}});
        self.stage.apply(&merged(pods, json!({"spec": {"template": {"spec": here}}})));
    }

    /// A buffer of such pods, as many as it says itself.
    fn buffer(&self, requests: Value, pod_spec: Value, size: Value) {
        let template = deployment(self.name, 1, requests)["spec"]["template"].clone();
        let here = json!({"spec": {"nodeSelector": {"karpenter.sh/nodepool": self.name}}});
        self.stage.apply(&json!({
            "apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": self.name, "namespace": "default"},
            "template": merged(merged(template, here), json!({"spec": pod_spec})),
        }));
        let spec = merged(json!({"podTemplateRef": {"name": self.name}}), size);
        self.stage.apply(&json!({
            "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
            "metadata": {"name": self.name, "namespace": "default"}, "spec": spec,
        }));
    }

    fn nodes(&self, serving: usize) -> Nodes {
        Nodes::watch(&self.stage.cluster, self.name, serving)
    }

    fn scale(&self, replicas: u32) {
        let replicas = format!("--replicas={replicas}");
        self.stage.cluster.succeed(&["scale", "deployment", self.name, &replicas]).unwrap();
    }

    /// Adds a taint that chases all pods away. It is added to what the server has: whoever writes the whole list brings back
    /// what the controller has just taken off, and such a node would never be initialized. Says whether it was done.
    fn close(&self, node: &str) -> bool {
        let taint = json!({"key": "example.com/closed", "effect": "NoExecute"});
        let first = json!([
            {"op": "test", "path": "/spec/taints", "value": null},
            {"op": "add", "path": "/spec/taints", "value": [taint]},
        ]);
        let further = json!([{"op": "add", "path": "/spec/taints/-", "value": taint}]);
        let patch = |patch: &Value| {
            self.stage.cluster.succeed(&["patch", "node", node, "--type=json", "--patch", &patch.to_string()]).is_ok()
        };
        patch(&further) || patch(&first)
    }

    fn claims(&self) -> Vec<Value> {
        self.stage.items(&["nodeclaims", &format!("--selector=karpenter.sh/nodepool={}", self.name)])
    }

    /// The nodes on which its pods are.
    fn hosts(&self) -> BTreeSet<String> {
        let pods = self.stage.items(&["pods", &format!("--selector=app={}", self.name)]);
        pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).map(str::to_owned).collect()
    }

    fn wait(&self, what: &str, nodes: &Nodes, holds: impl Fn(&Seen) -> bool) {
        let waited = wait_for(what, LIMIT, || Ok(holds(&nodes.seen()).then_some(())));
        waited.unwrap_or_else(|error| panic!("{}: {error}: {:?}", self.name, nodes.seen()));
    }

    /// Waits for so many claims that have this condition.
    fn wait_for_claims(&self, count: usize, type_: &str) {
        let holds = |claim: &&Value| condition(claim, type_).as_deref() == Some("True");
        let what = format!("{count} claims that are {type_}");
        let waited = wait_for(&what, LIMIT, || Ok((self.claims().iter().filter(holds).count() >= count).then_some(())));
        waited.unwrap_or_else(|error| panic!("{}: {error}", self.name));
    }

    /// Something stays as it is for a while.
    fn stays(&self, nodes: &Nodes, holds: impl Fn(&Seen) -> bool) {
        thread::sleep(PROOF);
        assert!(holds(&nodes.seen()), "{}: {:?}", self.name, nodes.seen());
    }
}

fn names(seen: &Seen) -> BTreeSet<String> {
    seen.nodes.keys().cloned().collect()
}

// 02/E1
fn empty_nodes_leave_within_their_budget_and_not_while_it_is_closed(play: &Play<'_>) {
    let closed = json!([{"nodes": "0", "schedule": "* * * * *", "duration": "10m"}]);
    play.pool(json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "2s", "budgets": closed}));
    play.pods(6);
    play.stage.rolled_out(play.name, play.live);
    let nodes = play.nodes(6);
    play.scale(0);
    play.wait_for_claims(6, "Consolidatable");
    play.stays(&nodes, |seen| seen.nodes.len() == 6 && seen.most_leaving == 0);
    play.patch(json!({"spec": {"disruption": {"budgets": [{"nodes": "2"}]}}}));
    play.wait("all to be gone", &nodes, |seen| seen.nodes.is_empty());
    assert_eq!(nodes.seen().most_leaving, 2, "as many as are allowed at a time, and no more");
}

// 02/E1
fn drifted_nodes_are_replaced_within_their_budget_and_not_while_it_is_closed(play: &Play<'_>) {
    let closed = json!([{"nodes": "0", "reasons": ["Drifted"]}, {"nodes": "100%"}]);
    play.pool(json!({"consolidateAfter": "Never", "budgets": closed}));
    play.pods(4);
    play.stage.rolled_out(play.name, play.live);
    let nodes = play.nodes(4);
    let old = names(&nodes.seen());
    play.drift();
    play.wait_for_claims(4, "Drifted");
    play.stays(&nodes, |seen| names(seen) == old && seen.most_leaving == 0);
    play.patch(json!({"spec": {"disruption": {"budgets": [{"nodes": "1"}]}}}));
    play.wait("all to be replaced", &nodes, |seen| seen.nodes.len() == 4 && names(seen).is_disjoint(&old));
    let seen = nodes.seen();
    assert_eq!((seen.most_leaving, seen.ever.len()), (1, 8), "one after the other, each by one: {seen:?}");
    play.stage.rolled_out(play.name, play.live);
}

// 02/E1
fn a_drifted_node_whose_pods_fit_elsewhere_is_not_replaced(play: &Play<'_>) {
    play.pool(json!({"consolidateAfter": "Never", "budgets": [{"nodes": "1"}]}));
    play.pods(3);
    play.stage.rolled_out(play.name, play.live);
    play.wait_for_claims(3, "Initialized");
    let nodes = play.nodes(3);
    play.scale(1);
    let one = wait_for("one pod to be left", LIMIT, || Ok(Some(play.hosts()).filter(|hosts| hosts.len() == 1)));
    let full = one.unwrap();
    // A claim with another stamp than its pool is of yesterday.
    let claims = play.claims();
    let claim = claims.iter().find(|claim| full.contains(claim["status"]["nodeName"].as_str().unwrap_or_default()));
    let stamp = "karpenter.sh/nodepool-hash=yesterday";
    play.stage.cluster.succeed(&["annotate", "nodeclaim", &name(claim.unwrap()), "--overwrite", stamp]).unwrap();
    play.wait("its pod to go to a node that is there", &nodes, |seen| names(seen).is_disjoint(&full));
    play.stage.rolled_out(play.name, play.live);
    let seen = nodes.seen();
    assert_eq!((seen.nodes.len(), seen.ever.len()), (2, 3), "nothing was bought: {seen:?}");
    let old = names(&seen);
    play.drift();
    play.wait("one new node", &nodes, |seen| seen.nodes.len() == 1 && names(seen).is_disjoint(&old));
    let seen = nodes.seen();
    assert_eq!((seen.most_leaving, seen.ever.len()), (1, 4), "what was empty was not replaced: {seen:?}");
    play.stage.rolled_out(play.name, play.live);
}

// 02/E2
fn a_drifted_node_stays_while_its_replacement_does_not_become_ready(play: &Play<'_>) {
    play.pool(json!({"consolidateAfter": "Never"}));
    play.pods(1);
    play.stage.rolled_out(play.name, play.live);
    let nodes = play.nodes(1);
    let old = names(&nodes.seen());
    // Whoever takes this taint away has not been installed.
    let taint = json!({"key": "example.com/not-yet", "effect": "NoSchedule"});
    play.patch(json!({"spec": {"template": {"spec": {"startupTaints": [taint]}}}}));
    play.wait("a replacement", &nodes, |seen| seen.nodes.len() == 2);
    play.wait_for_claims(2, "Registered");
    play.stays(&nodes, |seen| seen.nodes.len() == 2 && names(seen).is_superset(&old));
    assert!(play.hosts().is_subset(&old), "{:?}", play.hosts());
    let new: Vec<String> = names(&nodes.seen()).difference(&old).cloned().collect();
    play.stage.cluster.succeed(&["taint", "node", &new[0], "example.com/not-yet:NoSchedule-"]).unwrap();
    play.wait("the old node to leave", &nodes, |seen| names(seen).iter().eq(&new));
    play.stage.rolled_out(play.name, play.live);
}

// 02/E2
fn a_drifted_node_stays_while_its_replacement_does_not_register(play: &Play<'_>) {
    play.stage.apply(&json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "never"},
        "spec": {"nodeRegistrationDelay": "1h"},
    }));
    play.pool(json!({"consolidateAfter": "Never"}));
    play.pods(1);
    play.stage.rolled_out(play.name, play.live);
    let nodes = play.nodes(1);
    let old = names(&nodes.seen());
    let known: BTreeSet<String> = play.claims().iter().map(name).collect();
    play.patch(json!({"spec": {"template": {"spec": {"nodeClassRef": {"name": "never"}}}}}));
    play.wait_for_claims(2, "Launched");
    play.stays(&nodes, |seen| names(seen) == old && seen.ever.len() == 1);
    // It is given up: the node that was to leave takes pods again.
    assert_eq!(nodes.seen().most_leaving, 1);
    let unborn: Vec<String> = play.claims().iter().map(name).filter(|name| !known.contains(name)).collect();
    play.stage.cluster.succeed(&["delete", "nodeclaim", &unborn[0], "--wait=false"]).unwrap();
    play.wait("the old node to be open again", &nodes, |seen| !seen.nodes.values().any(|is_leaving| *is_leaving));
    assert_eq!(names(&nodes.seen()), old);
    // Nobody shall go on trying for as long as the other stories take.
    play.stage.cluster.succeed(&["delete", "nodepool", play.name, "--wait=false"]).unwrap();
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

// 02/E3
fn a_pod_that_fits_nowhere_does_not_make_the_cluster_grow(play: &Play<'_>, policy: &str) {
    play.pool(json!({"consolidationPolicy": policy, "consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}));
    let nodes = play.nodes(usize::MAX);
    play.pods(1);
    // Somebody closes every node that comes, so the pod that it was bought for never stays.
    let end = std::time::Instant::now() + Duration::from_secs(75);
    let mut closed = BTreeSet::new();
    while std::time::Instant::now() < end {
        for node in names(&nodes.seen()) {
            if !closed.contains(&node) && play.close(&node) {
                closed.insert(node);
            }
        }
        // An empty node is looked at twice, 15 s apart, and new ones come within a second: this pace decides how many there are.
        thread::sleep(Duration::from_secs(1));
    }
    assert!(closed.len() > 5, "only {closed:?} were closed");
    let seen = nodes.seen();
    // The reference's own bound is 35.
    assert!(seen.most_at_once < 35, "{} nodes at a time: {seen:?}", seen.most_at_once);
    play.stage.cluster.succeed(&["delete", "deployment", play.name]).unwrap();
    play.wait("what was bought in vain to go", &nodes, |seen| seen.nodes.is_empty());
}

// 02/E8
fn a_drifted_static_pool_is_replaced_without_a_gap(play: &Play<'_>) {
    let spec = json!({"replicas": 2, "limits": {"nodes": "3"}, "disruption": {"budgets": [{"nodes": "100%"}]}});
    let mut pool = play.pool_with(json!({"spec": spec}));
    // What saves money has no business in a pool of fixed size.
    pool["spec"]["disruption"].as_object_mut().unwrap().remove("consolidateAfter");
    play.stage.apply(&pool);
    let nodes = play.nodes(2);
    play.wait("two nodes that serve", &nodes, |seen| seen.fewest_serving == Some(2));
    play.wait_for_claims(2, "Initialized");
    let old = names(&nodes.seen());
    play.drift();
    play.wait("both to be replaced", &nodes, |seen| seen.nodes.len() == 2 && names(seen).is_disjoint(&old));
    let seen = nodes.seen();
    assert_eq!((seen.most_at_once, seen.fewest_serving), (3, Some(2)), "the limit is three: {seen:?}");
    play.patch(json!({"spec": {"replicas": 5}}));
    play.wait("as many as the limit allows", &nodes, |seen| seen.nodes.len() == 3);
    play.wait_for_claims(3, "Initialized");
    play.patch(json!({"spec": {"replicas": 1}}));
    play.wait("two to go", &nodes, |seen| seen.nodes.len() == 1);
    play.stage.cluster.succeed(&["delete", "nodepool", play.name, "--wait=false"]).unwrap();
    play.wait("the last one to go with its pool", &nodes, |seen| seen.nodes.is_empty());
    assert_eq!(nodes.seen().most_at_once, 3, "the limit held at all times");
}

// 02/E9
fn a_buffer_keeps_its_limits_and_its_distance_when_its_nodes_expire(play: &Play<'_>) {
    play.stage.apply(&play.pool_with(json!({"spec": {"template": {"spec": {"expireAfter": "60s"}}}})));
    // Ten of them would fit on one node, but no two want to share one; and no more than two are to be had.
    let apart = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
        "topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": play.name}},
    }]}});
    let size = json!({"replicas": 10, "limits": {"cpu": "150m"}});
    play.buffer(json!({"cpu": "70m"}), json!({"affinity": apart}), size);
    let nodes = play.nodes(2);
    play.wait("room for two", &nodes, |seen| seen.nodes.len() == 2);
    play.wait_for_claims(2, "Initialized");
    let old = names(&nodes.seen());
    play.wait("two others", &nodes, |seen| seen.nodes.len() == 2 && names(seen).is_disjoint(&old));
    let seen = nodes.seen();
    assert!(seen.most_at_once <= 4 && seen.ever.len() == 4, "two, and one for each that expires: {seen:?}");
    // Nobody shall go on buying for as long as the other stories take.
    play.stage.cluster.succeed(&["delete", "capacitybuffer", play.name]).unwrap();
}

// 02/E1
fn a_budget_of_pods_keeps_a_node_until_it_is_lifted(play: &Play<'_>) {
    // Two pods, each beside one that leaves room for it alone; once those have gone, one node would do.
    play.stage.apply(&json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": play.name},
        "spec": {"minAvailable": "100%", "selector": {"matchLabels": {"app": play.name}}},
    }));
    play.pool(json!({
        "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "2s", "budgets": [{"nodes": "0"}],
    }));
    let nodes = play.nodes(2);
    let filler = format!("{}-filler", play.name);
    for (name, cpu) in [(&*filler, "600m"), (play.name, "200m")] {
        let here = json!({"spec": {"template": {"spec": {"nodeSelector": {"karpenter.sh/nodepool": play.name}}}}});
        play.stage.apply(&merged(deployment(name, 2, json!({"cpu": cpu})), here));
        play.stage.rolled_out(name, play.live);
    }
    assert_eq!((nodes.seen().nodes.len(), play.hosts().len()), (2, 2), "one small pod on each");
    play.stage.cluster.succeed(&["delete", "deployment", &filler, "--cascade=foreground"]).unwrap();
    play.patch(json!({"spec": {"disruption": {"budgets": [{"nodes": "100%"}]}}}));
    play.stays(&nodes, |seen| seen.nodes.len() == 2 && seen.most_leaving == 0);
    let blocked = format!("Pdb prevents pod evictions (PodDisruptionBudget=[default/{}])", play.name);
    play.stage.event("DisruptionBlocked", &blocked, play.live);
    play.stage.cluster.succeed(&["delete", "pdb", play.name]).unwrap();
    play.wait("both pods to share a node", &nodes, |seen| seen.nodes.len() == 1);
    play.stage.rolled_out(play.name, play.live);
}

// 02/E9
fn a_buffer_is_used_refilled_renewed_and_removed(play: &Play<'_>) {
    play.pool(json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "2s", "budgets": [{"nodes": "100%"}]}));
    play.buffer(json!({"cpu": "800m"}), json!({}), json!({"replicas": 2}));
    let nodes = play.nodes(2);
    play.wait("room for two", &nodes, |seen| seen.nodes.len() == 2);
    play.wait_for_claims(2, "Initialized");
    play.stays(&nodes, |seen| seen.ever.len() == 2 && seen.most_leaving == 0);
    play.pods(1);
    play.stage.rolled_out(play.name, play.live);
    play.wait("the room to be there again", &nodes, |seen| seen.nodes.len() == 3);
    play.wait_for_claims(3, "Initialized");
    let old = names(&nodes.seen());
    play.drift();
    play.wait("all to be new", &nodes, |seen| seen.nodes.len() == 3 && names(seen).is_disjoint(&old));
    play.stage.rolled_out(play.name, play.live);
    play.stage.cluster.succeed(&["delete", "capacitybuffer", play.name]).unwrap();
    play.wait("only the pod to keep its node", &nodes, |seen| seen.nodes.len() == 1);
    play.stage.rolled_out(play.name, play.live);
}
