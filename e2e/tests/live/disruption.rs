//! Nodes that are taken away on purpose, story by story. One cluster and one controller play them all at the same time, each in
//! a pool of its own, because each mostly waits.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use e2e::Replica;
use e2e::replica::wait_for;
use serde_json::{Value, json};

use crate::leaving::{Nodes, Seen};
use crate::stage::{LIMIT, Stage, condition, deployment, merged, pool};

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
    let stories: [Story; 4] = [
        ("empty", empty_nodes_leave_within_their_budget_and_not_while_it_is_closed),
        ("runaway", a_pod_that_fits_nowhere_does_not_make_the_cluster_grow),
        ("static", a_drifted_static_pool_is_replaced_without_a_gap),
        ("buffer", a_buffer_is_used_refilled_renewed_and_removed),
    ];
    let failed: Vec<&str> = thread::scope(|scope| {
        let spawned = stories.map(|(name, story)| {
            let (stage, live) = (&stage, &live);
            (name, scope.spawn(move || story(&Play { stage, live, name })))
        });
        spawned.into_iter().filter_map(|(name, story)| story.join().is_err().then_some(name)).collect()
    });
    assert!(failed.is_empty(), "{failed:?} failed, see above; what the controller said:\n{}", live.log());
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

    fn nodes(&self, serving: usize) -> Nodes {
        Nodes::watch(&self.stage.cluster, self.name, serving)
    }

    fn scale(&self, replicas: u32) {
        let replicas = format!("--replicas={replicas}");
        self.stage.cluster.succeed(&["scale", "deployment", self.name, &replicas]).unwrap();
    }

    fn claims(&self) -> Vec<Value> {
        self.stage.items(&["nodeclaims", &format!("--selector=karpenter.sh/nodepool={}", self.name)])
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

// 02/E3
fn a_pod_that_fits_nowhere_does_not_make_the_cluster_grow(play: &Play<'_>) {
    play.pool(json!({"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}));
    let nodes = play.nodes(usize::MAX);
    play.pods(1);
    // Somebody closes every node as soon as it is there, so the pod that it was bought for never runs.
    let end = std::time::Instant::now() + Duration::from_secs(75);
    let mut closed = BTreeSet::new();
    while std::time::Instant::now() < end {
        for node in names(&nodes.seen()) {
            if closed.insert(node.clone()) {
                // It may be gone already.
                let _ = play.stage.cluster.kubectl(&[
                    "taint",
                    "node",
                    &node,
                    "example.com/closed=true:NoExecute",
                    "--overwrite",
                ]);
            }
        }
        thread::sleep(Duration::from_millis(100));
    }
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
    play.patch(json!({"spec": {"replicas": 1}}));
    play.wait("one to go", &nodes, |seen| seen.nodes.len() == 1);
}

// 02/E9
fn a_buffer_is_used_refilled_renewed_and_removed(play: &Play<'_>) {
    play.pool(json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "2s", "budgets": [{"nodes": "100%"}]}));
    let template = deployment(play.name, 1, json!({"cpu": "800m"}))["spec"]["template"].clone();
    let here = json!({"spec": {"nodeSelector": {"karpenter.sh/nodepool": play.name}}});
    play.stage.apply(&json!({
        "apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": play.name, "namespace": "default"},
        "template": merged(template, here),
    }));
    play.stage.apply(&json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
        "metadata": {"name": play.name, "namespace": "default"},
        "spec": {"podTemplateRef": {"name": play.name}, "replicas": 2},
    }));
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
