//! Deployments roll from one ReplicaSet to the next.

mod rolling;
mod status;

use std::sync::Arc;

use serde_json::{Value, json};

use super::Outcome;
use crate::apiserver::{ApiServer, At, Deletion};
use crate::fields::{
    self, Rounding, annotation, created, integer, is_deleting, labels, name, scaled, template_hash, uid,
};
use crate::kinds::Kind;

const REVISION: &str = "deployment.kubernetes.io/revision";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MAXIMUM: &str = "deployment.kubernetes.io/max-replicas";
const HASH: &str = "pod-template-hash";

pub(super) fn reconcile(at: &At, server: &ApiServer) -> Outcome {
    let Some(deployment) = server.get(Kind::Deployment, at) else { return Outcome::default() };
    let mut rollout = Rollout::of(deployment, server);
    if is_deleting(&rollout.deployment) {
        rollout.say_status();
        return Outcome::default();
    }
    if rollout.deployment["spec"]["paused"] == true || rollout.is_scaled() {
        rollout.scale_all();
    } else if rollout.deployment["spec"]["strategy"]["type"] == "Recreate" {
        rollout.recreate();
    } else {
        rollout.roll();
    }
    rollout.say_status();
    rollout.forget_history();
    Outcome::default()
}

/// A Deployment and its ReplicaSets, as far as one look goes.
struct Rollout<'a> {
    server: &'a ApiServer,
    deployment: Arc<Value>,
    hash: String,
    replicas: i64,
    surge: i64,
    unavailable: i64,
    new: Option<Set>,
    /// The oldest first.
    old: Vec<Set>,
}

#[derive(Clone, Debug)]
struct Set {
    object: Arc<Value>,
    at: At,
    replicas: i64,
    available: i64,
}

impl Set {
    fn of(object: Arc<Value>) -> Self {
        Self {
            at: fields::at(&object),
            replicas: integer(&object["spec"]["replicas"], 1),
            available: integer(&object["status"]["availableReplicas"], 0),
            object,
        }
    }

    fn counted(&self, status: &str) -> i64 {
        integer(&self.object["status"][status], 0)
    }

    fn annotated(&self, key: &str) -> Option<i64> {
        annotation(&self.object, key)?.parse().ok()
    }
}

impl<'a> Rollout<'a> {
    fn of(deployment: Arc<Value>, server: &'a ApiServer) -> Self {
        let replicas = integer(&deployment["spec"]["replicas"], 1);
        let (surge, unavailable) = fenceposts(&deployment["spec"]["strategy"], replicas);
        let hash = template_hash(&deployment["spec"]["template"], integer(&deployment["status"]["collisionCount"], 0));
        let mut sets = server.owned_by(Kind::ReplicaSet, uid(&deployment));
        sets.retain(|set| !is_deleting(set));
        sets.sort_by(|a, b| created(a).cmp(&created(b)).then_with(|| name(a).cmp(name(b))));
        let (new, old): (Vec<Set>, Vec<Set>) =
            sets.into_iter().map(Set::of).partition(|set| labels(&set.object)[HASH] == hash.as_str());
        Self { server, hash, replicas, surge, unavailable, new: new.into_iter().next(), old, deployment }
    }

    fn all(&self) -> impl Iterator<Item = &Set> {
        self.old.iter().chain(&self.new)
    }

    fn all_replicas(&self) -> i64 {
        self.all().map(|set| set.replicas).sum()
    }

    /// Whether a set was last sized for another number of replicas.
    fn is_scaled(&self) -> bool {
        self.all().any(|set| set.replicas > 0 && set.annotated(DESIRED).is_some_and(|desired| desired != self.replicas))
    }

    fn maximum(&self) -> i64 {
        self.replicas + self.surge
    }

    /// Sizes a set and notes for how many it was meant.
    fn scale(&self, set: &Set, replicas: i64) -> Option<Set> {
        let annotations = json!({DESIRED: self.replicas.to_string(), MAXIMUM: self.maximum().to_string()});
        let patch = json!({"metadata": {"annotations": annotations}, "spec": {"replicas": replicas}});
        // A set that is gone comes up again with the change that says so.
        self.server.patch(Kind::ReplicaSet, &set.at, &patch).ok().map(Set::of)
    }

    fn scale_new(&mut self, replicas: i64) {
        if let Some(set) = self.new.as_ref().and_then(|set| self.scale(set, replicas)) {
            self.new = Some(set);
        }
    }

    fn scale_old(&mut self, place: usize, replicas: i64) {
        if let Some(set) = self.scale(&self.old[place], replicas) {
            self.old[place] = set;
        }
    }

    /// Finds the set of the present template, or makes it, and gives it the newest revision.
    fn ensure_new(&mut self) {
        let newest_old = self.old.iter().filter_map(|set| set.annotated(REVISION)).max().unwrap_or(0);
        match &self.new {
            None => self.new = self.create_new(newest_old + 1),
            Some(set) => {
                let revision = set.annotated(REVISION).unwrap_or(0).max(newest_old + 1);
                let patch = json!({"metadata": {"annotations": {REVISION: revision.to_string()}}});
                self.new = self.server.patch(Kind::ReplicaSet, &set.at, &patch).ok().map(Set::of).or(self.new.take());
            }
        }
        if let Some(revision) = self.new.as_ref().and_then(|set| set.annotated(REVISION)) {
            let patch = json!({"metadata": {"annotations": {REVISION: revision.to_string()}}});
            let patched = self.server.patch(Kind::Deployment, &fields::at(&self.deployment), &patch);
            self.deployment = patched.unwrap_or_else(|_| self.deployment.clone());
        }
    }

    fn create_new(&self, revision: i64) -> Option<Set> {
        let deployment = &self.deployment;
        let mut template = deployment["spec"]["template"].clone();
        template["metadata"]["labels"][HASH] = json!(self.hash);
        let mut selector = deployment["spec"]["selector"].clone();
        selector["matchLabels"][HASH] = json!(self.hash);
        let annotations = json!({
            REVISION: revision.to_string(), DESIRED: self.replicas.to_string(), MAXIMUM: self.maximum().to_string(),
        });
        let mut set = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {
                "name": format!("{}-{}", name(deployment), self.hash),
                "namespace": fields::namespace(deployment),
                "labels": template["metadata"]["labels"],
                "annotations": annotations,
                "ownerReferences": [fields::owner_reference(deployment)],
            },
            "spec": {"replicas": self.room_for_new(0), "selector": selector, "template": template},
        });
        if !deployment["spec"]["minReadySeconds"].is_null() {
            set["spec"]["minReadySeconds"] = deployment["spec"]["minReadySeconds"].clone();
        }
        match self.server.create(set) {
            Ok(set) => Some(Set::of(set)),
            Err(refusal) => {
                if refusal.reason == "AlreadyExists" {
                    self.note_collision();
                }
                None
            }
        }
    }

    /// Somebody else's set has our name: the next hash will be another.
    fn note_collision(&self) {
        let count = integer(&self.deployment["status"]["collisionCount"], 0) + 1;
        let patch = json!({"status": {"collisionCount": count}});
        let _ = self.server.patch_status(Kind::Deployment, &fields::at(&self.deployment), &patch);
    }

    /// Deletes the oldest empty sets beyond what is to be kept, once the newest has taken over.
    fn forget_history(&self) {
        if !self.is_complete() {
            return;
        }
        let kept = integer(&self.deployment["spec"]["revisionHistoryLimit"], 10).max(0) as usize;
        let surplus = self.old.len().saturating_sub(kept);
        for set in &self.old[..surplus] {
            if set.replicas == 0 && set.counted("replicas") == 0 {
                let _ = self.server.delete(Kind::ReplicaSet, &set.at, &Deletion::default());
            }
        }
    }
}

/// How many pods there may be too many, and how many too few. Without either nothing could move, so one may be missing then.
fn fenceposts(strategy: &Value, replicas: i64) -> (i64, i64) {
    if strategy["type"] == "Recreate" {
        return (0, 0);
    }
    let surge = scaled(&strategy["rollingUpdate"]["maxSurge"], replicas, Rounding::Up).unwrap_or(0);
    let unavailable = scaled(&strategy["rollingUpdate"]["maxUnavailable"], replicas, Rounding::Down).unwrap_or(0);
    if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable.min(replicas.max(0))) }
}
