//! A cluster with the definitions, a class and pools, and what tests ask it.

use std::thread;
use std::time::Duration;

use e2e::replica::wait_for;
use e2e::{Cluster, Dovetail, Replica};
use serde_json::{Value, json};

/// Long enough on a machine that has other things to do.
pub(crate) const LIMIT: Duration = Duration::from_secs(240);

pub(crate) struct Stage {
    pub(crate) cluster: Cluster,
}

impl Stage {
    /// A cluster with a class `default` of the simulated cloud, and no pool yet.
    pub(crate) fn kwok() -> Self {
        let cluster = Cluster::start().unwrap();
        Dovetail::apply_crds(&cluster, "kwok").unwrap();
        let stage = Self { cluster };
        stage.apply(&json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}}));
        stage
    }

    pub(crate) fn apply(&self, object: &Value) {
        self.cluster.apply(&object.to_string()).unwrap();
    }

    pub(crate) fn get(&self, what: &[&str]) -> Value {
        let words = [&["get"], what, &["--output=json"]].concat();
        serde_json::from_str(&self.cluster.succeed(&words).unwrap()).unwrap()
    }

    pub(crate) fn items(&self, what: &[&str]) -> Vec<Value> {
        self.get(what)["items"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until every pod of a Deployment is ready; the log says more when it does not happen.
    pub(crate) fn rolled_out(&self, deployment: &str, live: &Replica) {
        let name = format!("deployment/{deployment}");
        let timeout = format!("--timeout={}s", LIMIT.as_secs());
        if let Err(error) = self.cluster.succeed(&["rollout", "status", &name, &timeout]) {
            let pods = self.cluster.succeed(&["get", "pods,nodes,nodeclaims", "--output=wide"]).unwrap_or_default();
            panic!("{error}\n{pods}\n{}", live.log());
        }
    }

    /// Waits until machines, claims and nodes are the same set.
    pub(crate) fn agrees(&self, live: &Replica) {
        let mut last = String::new();
        let agreed = wait_for("machines, claims and nodes to agree", LIMIT, || {
            Ok(self.is_consistent().map_err(|reason| last = reason).ok())
        });
        agreed.unwrap_or_else(|error| panic!("{error}: {last}\n{}", live.log()));
    }

    /// Waits for an event of this reason about a pod, whose message contains this.
    pub(crate) fn event(&self, reason: &str, part: &str, live: &Replica) -> String {
        let found = wait_for("an event", LIMIT, || {
            let events = self.items(&["events", &format!("--field-selector=reason={reason},source=karpenter")]);
            let mut messages = events.iter().filter_map(|event| event["message"].as_str());
            Ok(messages.find(|message| message.contains(part)).map(str::to_owned))
        });
        found.unwrap_or_else(|error| {
            let events = self.cluster.succeed(&["get", "events"]).unwrap_or_default();
            panic!("{error}\n{events}\n{}", live.log())
        })
    }

    /// Instances, claims and nodes belong together one by one, and each claim is initialized.
    fn is_consistent(&self) -> Result<(), String> {
        let claims = self.items(&["nodeclaims"]);
        let nodes = self.items(&["nodes", "--selector=karpenter.sh/nodepool"]);
        let id = |object: &Value, pointer: &str| {
            object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let mut of_claims: Vec<String> = claims.iter().map(|claim| id(claim, "/status/providerID")).collect();
        let mut of_nodes: Vec<String> = nodes.iter().map(|node| id(node, "/spec/providerID")).collect();
        of_claims.sort();
        of_nodes.sort();
        if of_claims != of_nodes {
            return Err(format!("claims have the machines {of_claims:?}, nodes are {of_nodes:?}"));
        }
        // Machines that have not become nodes yet are remembered in config maps.
        let machines =
            self.items(&["configmaps", "--namespace=kube-system", "--selector=karpenter.kwok.sh/instance=pending"]);
        if !machines.is_empty() {
            return Err(format!("{} machines have no node", machines.len()));
        }
        let is_ready = |claim: &&Value| condition(claim, "Initialized").as_deref() != Some("True");
        match claims.iter().find(is_ready) {
            Some(claim) => Err(format!("claim {} is not initialized", id(claim, "/metadata/name"))),
            None => Ok(()),
        }
    }
}

/// The status of a condition.
pub(crate) fn condition(object: &Value, type_: &str) -> Option<String> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    let found = conditions.iter().find(|condition| condition["type"] == type_)?;
    found["status"].as_str().map(str::to_owned)
}

/// A pool of linux machines on demand, with further requirements.
pub(crate) fn pool(name: &str, requirements: Value) -> Value {
    let mut all = vec![
        json!({"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}),
        json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}),
    ];
    all.extend(requirements.as_array().cloned().unwrap_or_default());
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {
            "disruption": {"consolidateAfter": "Never"},
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": all,
            }},
        },
    })
}

/// A Deployment of pods that ask for this much.
pub(crate) fn deployment(name: &str, replicas: u32, requests: Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "none", "resources": {"requests": requests}}]},
            },
        },
    })
}

/// The first document, changed by the second; lists are replaced.
pub(crate) fn merged(mut base: Value, change: Value) -> Value {
    match (&mut base, change) {
        (Value::Object(members), Value::Object(changes)) => {
            for (name, change) in changes {
                let before = members.remove(&name).unwrap_or_default();
                members.insert(name, merged(before, change));
            }
        }
        (base, change) => *base = change,
    }
    base
}

/// Plays stories by name on one cluster at the same time. Each is played to its end, whatever becomes of the others.
pub(crate) fn play_together<S: Copy + Send + Sync>(
    stories: &[(&'static str, S)],
    live: &Replica,
    play: impl Fn(&'static str, S) + Sync,
) {
    let failed: Vec<&str> = thread::scope(|scope| {
        let play = &play;
        let spawned: Vec<_> =
            stories.iter().map(|(name, story)| (*name, scope.spawn(move || play(name, *story)))).collect();
        spawned.into_iter().filter_map(|(name, story)| story.join().is_err().then_some(name)).collect()
    });
    assert!(failed.is_empty(), "{failed:?} failed, see above; what the controller said:\n{}", live.log());
}
