//! Ends of nodes on a real control plane, with kwok as kubelet, under the role that the controller is shipped with.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::thread;
use std::time::{Duration, Instant};

use e2e::{Autoscaler, Cluster, Which};
use serde_json::{Value, json};

/// Long enough on a machine that has other things to do.
const LIMIT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(300);

struct Stage {
    live: Autoscaler,
    cluster: Cluster,
}

impl Stage {
    fn start() -> Self {
        let cluster = Cluster::start().unwrap();
        let live = Autoscaler::start(&cluster, Which::Dovetail).unwrap();
        let stage = Self { live, cluster };
        stage.apply(&json!({
            "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"},
        }));
        stage
    }

    fn apply(&self, object: &Value) {
        self.cluster.apply(&object.to_string()).unwrap();
    }

    /// An object, or nothing.
    fn find(&self, kind: &str, name: &str) -> Option<Value> {
        let text = self.cluster.succeed(&["get", kind, name, "--ignore-not-found", "--output=json"]).unwrap();
        (!text.trim().is_empty()).then(|| serde_json::from_str(&text).unwrap())
    }

    fn delete(&self, kind: &str, name: &str) {
        self.cluster.succeed(&["delete", kind, name, "--wait=false"]).unwrap();
    }

    fn wait<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(found) = look() {
                return found;
            }
            if Instant::now() > deadline {
                let all = self.cluster.succeed(&["get", "nodeclaims,nodes,pods,pdb,events", "--output=wide"]);
                panic!("{what} did not happen\n{}\n{}", all.unwrap_or_default(), self.live.log());
            }
            thread::sleep(POLL);
        }
    }

    fn wait_until_gone(&self, kind: &str, name: &str) {
        self.wait(&format!("the end of {kind} {name}"), || self.find(kind, name).is_none().then_some(()));
    }

    /// Makes a claim without a pool and waits until its node is ready for pods. Gives back the node's name.
    fn claim(&self, name: &str, grace: Option<&str>) -> String {
        let mut claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": name},
            "spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": [{"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["4"]}],
                "resources": {"requests": {"cpu": "1"}}, "expireAfter": "Never",
            },
        });
        if let Some(grace) = grace {
            claim["spec"]["terminationGracePeriod"] = grace.into();
        }
        self.apply(&claim);
        self.wait(&format!("claim {name} becoming ready"), || {
            let claim = self.find("nodeclaim", name)?;
            let node = claim["status"]["nodeName"].as_str()?.to_owned();
            (condition(&claim, "Ready").0 == "True").then_some(node)
        })
    }

    /// A pod on a node, running.
    fn pod(&self, name: &str, node: &str, annotations: Value) {
        self.apply(&json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": {"app": name}, "annotations": annotations},
            "spec": {
                "nodeName": node, "terminationGracePeriodSeconds": 5,
                "containers": [{"name": "main", "image": "none"}],
            },
        }));
        self.wait(&format!("pod {name} running"), || {
            let pod = self.find("pod", name)?;
            (condition(&pod, "Ready").0 == "True").then_some(())
        });
    }

    fn events(&self, object: &str, reason: &str) -> Vec<String> {
        let selector = format!("--field-selector=involvedObject.name={object},reason={reason}");
        let text = self.cluster.succeed(&["get", "events", "--all-namespaces", &selector, "--output=json"]).unwrap();
        let list: Value = serde_json::from_str(&text).unwrap();
        let items = list["items"].as_array().cloned().unwrap_or_default();
        items.iter().map(|event| event["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    fn wait_for_event(&self, object: &str, reason: &str, part: &str) {
        self.wait(&format!("event {reason} about {object} with {part:?}"), || {
            self.events(object, reason).iter().any(|message| message.contains(part)).then_some(())
        });
    }
}

/// Status and reason of a condition.
fn condition(object: &Value, type_: &str) -> (String, String) {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|condition| condition["type"] == type_).unwrap_or_default();
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

fn is_closed(node: &Value) -> bool {
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let has_taint = |taint: &Value| taint["key"] == "karpenter.sh/disrupted" && taint["effect"] == "NoSchedule";
    let label = &node["metadata"]["labels"]["node.kubernetes.io/exclude-from-external-load-balancers"];
    taints.iter().any(has_taint) && label == "karpenter"
}

fn budget(app: &str) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app, "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
    })
}

// 02/TE1 02/TE14 02/EV5
#[test]
fn a_drain_waits_for_budgets_and_for_pods_that_do_not_want_to_be_disturbed() {
    let stage = Stage::start();
    let node = stage.claim("guarded", None);
    stage.pod("budgeted", &node, json!({}));
    stage.pod("undisturbed", &node, json!({"karpenter.sh/do-not-disrupt": "true"}));
    stage.pod("free", &node, json!({}));
    stage.apply(&budget("budgeted"));
    stage.wait("the budget being counted", || {
        let found = stage.find("pdb", "budgeted")?;
        (found["status"]["currentHealthy"] == 1 && found["status"]["disruptionsAllowed"] == 0).then_some(())
    });
    stage.delete("nodeclaim", "guarded");
    stage.wait_until_gone("pod", "free");
    stage.wait_for_event("free", "Evicted", "Evicted pod: Forceful Termination");
    stage.wait_for_event(&node, "FailedDraining", "pods are waiting to be evicted");
    // Long enough for many attempts.
    thread::sleep(Duration::from_secs(8));
    let found = stage.find("node", &node).unwrap();
    assert!(is_closed(&found), "{found}");
    for pod in ["budgeted", "undisturbed"] {
        assert!(stage.find("pod", pod).unwrap()["metadata"]["deletionTimestamp"].is_null(), "{pod} was disturbed");
    }
    let claim = stage.find("nodeclaim", "guarded").unwrap();
    assert_eq!(condition(&claim, "Drained"), ("Unknown".to_owned(), "Draining".to_owned()));
    assert_eq!(condition(&claim, "Ready").0, "True", "{claim}");
    let scraped = stage.live.scrape().unwrap();
    assert!(scraped.contains("karpenter_pods_eviction_requests_total{code=\"429\"}"), "{scraped}");

    stage.delete("pdb", "budgeted");
    stage.wait_until_gone("pod", "budgeted");
    assert!(stage.find("node", &node).is_some());
    stage.cluster.succeed(&["annotate", "pod", "undisturbed", "karpenter.sh/do-not-disrupt-"]).unwrap();
    stage.wait_until_gone("pod", "undisturbed");
    stage.wait_until_gone("node", &node);
    stage.wait_until_gone("nodeclaim", "guarded");
}

// 02/TE22 02/EV9 02/FI12
#[test]
fn a_termination_grace_period_ends_every_protection() {
    let stage = Stage::start();
    let node = stage.claim("hasty", Some("25s"));
    stage.pod("budgeted", &node, json!({}));
    stage.pod("undisturbed", &node, json!({"karpenter.sh/do-not-disrupt": "true"}));
    stage.apply(&budget("budgeted"));
    stage.wait("the budget being counted", || {
        (stage.find("pdb", "budgeted")?["status"]["currentHealthy"] == 1).then_some(())
    });
    let begun = Instant::now();
    stage.delete("nodeclaim", "hasty");
    stage.wait_for_event("hasty", "TerminationGracePeriodExpiring", "All pods will be deleted by ");
    let claim = stage.find("nodeclaim", "hasty").unwrap();
    let deadline = &claim["metadata"]["annotations"]["karpenter.sh/nodeclaim-termination-timestamp"];
    assert!(deadline.is_string(), "{claim}");
    stage.wait("the pods being deleted", || {
        let left = ["budgeted", "undisturbed"]
            .iter()
            .filter(|pod| stage.find("pod", pod).is_some_and(|pod| pod["metadata"]["deletionTimestamp"].is_null()));
        (left.count() == 0).then_some(())
    });
    let waited = begun.elapsed().as_secs();
    assert!((18..60).contains(&waited), "their grace of 5 s is kept before the deadline: {waited} s");
    stage.wait_for_event("undisturbed", "Disrupted", "This bypasses the PDB of the pod");
    stage.wait_until_gone("node", &node);
    stage.wait_until_gone("nodeclaim", "hasty");
}

/// What nobody but its owner may have changed.
fn outline(node: &Value) -> Value {
    let metadata = &node["metadata"];
    json!([
        metadata["labels"],
        metadata["finalizers"],
        metadata["ownerReferences"],
        metadata["deletionTimestamp"],
        node["spec"]
    ])
}

// 02/TE4 02/TE5 01/API-22
#[test]
fn a_deleted_node_takes_its_claim_along_and_nodes_of_others_are_never_touched() {
    let stage = Stage::start();
    let foreign_node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": "theirs", "annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": {"kubernetes.io/hostname": "theirs"},
            "finalizers": ["karpenter.sh/termination"],
        },
        "spec": {"providerID": "other://theirs"},
        "status": {"capacity": {"cpu": "4", "pods": "10"}, "allocatable": {"cpu": "4", "pods": "10"}},
    });
    stage.apply(&foreign_node);
    stage.apply(&json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "theirs"},
        "spec": {
            "nodeClassRef": {"group": "example.com", "kind": "OtherClass", "name": "default"}, "requirements": [],
            "expireAfter": "1s",
        },
    }));
    let node = stage.claim("alone", None);
    stage.pod("guest", &node, json!({}));
    stage.pod("their-guest", "theirs", json!({}));
    stage.delete("node", "theirs");
    let before = outline(&stage.find("node", "theirs").unwrap());
    stage.delete("node", &node);
    stage.wait_until_gone("nodeclaim", "alone");
    stage.wait_until_gone("node", &node);
    stage.wait_until_gone("pod", "guest");
    assert_eq!(outline(&stage.find("node", "theirs").unwrap()), before);
    assert!(stage.find("pod", "their-guest").unwrap()["metadata"]["deletionTimestamp"].is_null());
    let claim = stage.find("nodeclaim", "theirs").unwrap();
    assert!(claim["status"].is_null() && claim["metadata"]["finalizers"].is_null(), "{claim}");
    assert!(claim["metadata"]["deletionTimestamp"].is_null(), "{claim}");
    let gone = ["deleted node", "deleted nodeclaim", "tainted node"];
    for message in gone {
        assert!(stage.live.log().contains(&format!("\"message\":\"{message}\"")), "{message}: {}", stage.live.log());
    }
    stage
        .cluster
        .succeed(&["patch", "node", "theirs", "--type=merge", "--patch={\"metadata\":{\"finalizers\":null}}"])
        .unwrap();
}
