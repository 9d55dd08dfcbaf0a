//! StatefulSets keep pods with names, one after the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Outcome;
use super::pods::{Group, Pod, Pods};
use super::template::{self, Naming, delete_pod, write_status};
use crate::apiserver::{ApiServer, At, Change, Refusal};
use crate::fields::{
    Rounding, after_seconds, at_in, each, integer, is_deleting, name, namespace, scaled, template_hash, uid,
};
use crate::kinds::Kind;

/// What the real controller keeps in ControllerRevisions: the templates that pods of a set may still have to be made from.
#[derive(Debug, Default)]
pub(super) struct StatefulSets {
    templates: BTreeMap<At, Templates>,
}

#[derive(Debug, Default)]
struct Templates {
    of_uid: String,
    /// By revision.
    by_revision: BTreeMap<String, Arc<Value>>,
    current: String,
}

/// A set and its pods, as far as one look goes.
struct Look<'a> {
    server: &'a ApiServer,
    set: &'a Value,
    start: i64,
    /// One place per replica, in order.
    replicas: Vec<(At, Option<&'a Pod>)>,
    /// Pods beyond the replicas, the highest ordinal first.
    condemned: Vec<(&'a At, &'a Pod)>,
    update: &'a str,
    current: &'a str,
    min_ready: i64,
    now: Timestamp,
}

impl StatefulSets {
    pub(super) fn heed(&mut self, change: &Change) {
        if change.kind == Kind::StatefulSet && change.after.is_none() {
            self.templates.remove(&change.at);
        }
    }

    pub(super) fn reconcile(&mut self, at: &At, pods: &Pods, server: &ApiServer) -> Outcome {
        let Some(set) = server.get(Kind::StatefulSet, at) else { return Outcome::default() };
        let update = self.note_revision(at, &set);
        let Some(templates) = self.templates.get_mut(at) else { return Outcome::default() };
        let look = Look::of(&set, pods.group(uid(&set)), [&update, &templates.current], server);
        let refused = if is_deleting(&set) { None } else { look.act(templates).err() };
        let is_rolled = look.say_status();
        let again = look.next_available();
        if is_rolled {
            templates.by_revision.retain(|revision, _| *revision == update);
            templates.current = update;
        }
        Outcome { again, refused }
    }

    /// Remembers the present template and gives its revision.
    fn note_revision(&mut self, at: &At, set: &Value) -> String {
        let template = &set["spec"]["template"];
        let update = format!("{}-{}", name(set), template_hash(template, 0));
        let templates = self.templates.entry(at.clone()).or_default();
        if templates.of_uid != uid(set) {
            *templates = Templates { of_uid: uid(set).to_owned(), current: update.clone(), ..Templates::default() };
        }
        if !templates.by_revision.contains_key(&update) {
            templates.by_revision.insert(update.clone(), Arc::new(template.clone()));
        }
        update
    }
}

impl<'a> Look<'a> {
    fn of(set: &'a Value, group: Option<&'a Group>, revisions: [&'a str; 2], server: &'a ApiServer) -> Self {
        let start = integer(&set["spec"]["ordinals"]["start"], 0);
        let count = integer(&set["spec"]["replicas"], 1);
        let pods = group.map(|group| &group.pods);
        let replicas = (start..start + count).map(|ordinal| {
            let at = at_in(namespace(set), &format!("{}-{ordinal}", name(set)));
            let pod = pods.and_then(|pods| pods.get(&at));
            (at, pod)
        });
        let mut condemned: Vec<(i64, (&At, &Pod))> = pods
            .into_iter()
            .flatten()
            .filter_map(|(at, pod)| Some((ordinal(&at.name, name(set))?, (at, pod))))
            .filter(|(ordinal, _)| *ordinal < start || *ordinal >= start + count)
            .collect();
        condemned.sort_by_key(|(ordinal, _)| -ordinal);
        let [update, current] = revisions;
        Self {
            server,
            set,
            start,
            replicas: replicas.collect(),
            condemned: condemned.into_iter().map(|(_, pod)| pod).collect(),
            update,
            current,
            min_ready: integer(&set["spec"]["minReadySeconds"], 0),
            now: server.now(),
        }
    }

    fn is_ordered(&self) -> bool {
        self.set["spec"]["podManagementPolicy"] != "Parallel"
    }

    /// Running, ready for long enough, and staying.
    fn is_healthy(&self, pod: &Pod) -> bool {
        pod.is_active() && pod.is_available(self.min_ready, self.now)
    }

    fn act(&self, templates: &Templates) -> Result<(), Refusal> {
        if self.fill_up(templates)? && self.shrink() {
            self.roll();
        }
        Ok(())
    }

    /// Makes what is missing, in order. Says whether there is nothing left to wait for.
    fn fill_up(&self, templates: &Templates) -> Result<bool, Refusal> {
        for (place, (at, pod)) in self.replicas.iter().enumerate() {
            match pod {
                Some(pod) if pod.is_over() && !pod.is_deleting => delete_pod(self.server, at, &pod.uid),
                Some(pod) if self.is_healthy(pod) => continue,
                Some(_) => {}
                None => self.create(place as i64, at, templates)?,
            }
            if self.is_ordered() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn create(&self, place: i64, at: &At, templates: &Templates) -> Result<(), Refusal> {
        let revision = if place < self.partition() { self.current } else { self.update };
        let known = templates.by_revision.get_key_value(revision);
        let Some((revision, template)) = known.or_else(|| templates.by_revision.get_key_value(self.update)) else {
            return Ok(());
        };
        let ordinal = self.start + place;
        let mut pod = template::pod(self.set, template, Naming::Fixed(at.name.to_string()));
        let labels = &mut pod["metadata"]["labels"];
        labels["statefulset.kubernetes.io/pod-name"] = json!(&*at.name);
        labels["apps.kubernetes.io/pod-index"] = json!(ordinal.to_string());
        labels["controller-revision-hash"] = json!(revision);
        pod["spec"]["hostname"] = json!(&*at.name);
        if !self.set["spec"]["serviceName"].is_null() {
            pod["spec"]["subdomain"] = self.set["spec"]["serviceName"].clone();
        }
        for template in each(&self.set["spec"]["volumeClaimTemplates"]) {
            let claim = format!("{}-{}-{ordinal}", name(template), name(self.set));
            self.ensure_claim(template, &claim)?;
            mount(&mut pod["spec"], name(template), &claim);
        }
        self.server.create(pod).map(drop)
    }

    fn ensure_claim(&self, template: &Value, claim: &str) -> Result<(), Refusal> {
        if self.server.get(Kind::PersistentVolumeClaim, &at_in(namespace(self.set), claim)).is_some() {
            return Ok(());
        }
        let labels = self.set["spec"]["selector"]["matchLabels"].clone();
        let mut metadata = json!({"name": claim, "namespace": namespace(self.set), "labels": labels});
        for (key, value) in template["metadata"]["labels"].as_object().into_iter().flatten() {
            metadata["labels"][key.as_str()] = value.clone();
        }
        if !template["metadata"]["annotations"].is_null() {
            metadata["annotations"] = template["metadata"]["annotations"].clone();
        }
        self.server
            .create(json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": template["spec"],
            }))
            .map(drop)
    }

    /// Takes off what is too many, the highest first. Says whether there is nothing left to wait for.
    fn shrink(&self) -> bool {
        let first_sick = self.condemned.iter().rev().find(|(_, pod)| !self.is_healthy(pod)).map(|(at, _)| *at);
        for (at, pod) in &self.condemned {
            if !pod.is_deleting {
                // A sick pod in the middle holds up the healthy ones above it, but not its own end.
                let is_held = self.is_ordered() && !self.is_healthy(pod) && first_sick != Some(*at);
                if is_held {
                    return false;
                }
                delete_pod(self.server, at, &pod.uid);
            }
            if self.is_ordered() {
                return false;
            }
        }
        true
    }

    fn partition(&self) -> i64 {
        integer(&self.set["spec"]["updateStrategy"]["rollingUpdate"]["partition"], 0)
    }

    /// Replaces pods of another revision, from the highest ordinal down to the partition, as many at a time as may be missing.
    fn roll(&self) {
        let strategy = &self.set["spec"]["updateStrategy"];
        if strategy["type"] == "OnDelete" {
            return;
        }
        let count = self.replicas.len() as i64;
        let most = scaled(&strategy["rollingUpdate"]["maxUnavailable"], count, Rounding::Up).unwrap_or(1).max(1);
        let mut missing = 0;
        for (at, pod) in self.replicas.iter().skip(self.partition().max(0) as usize).rev() {
            let Some(pod) = pod else {
                missing += 1;
                continue;
            };
            let is_outdated = *pod.revision != *self.update;
            if is_outdated && !pod.is_deleting && missing < most {
                delete_pod(self.server, at, &pod.uid);
                missing += 1;
            } else if !self.is_healthy(pod) {
                missing += 1;
            }
            if missing >= most {
                return;
            }
        }
    }

    /// Says whether every pod is of the newest revision and ready.
    fn say_status(&self) -> bool {
        let pods: Vec<&Pod> = self.replicas.iter().filter_map(|(_, pod)| *pod).collect();
        let condemned = self.condemned.iter().map(|(_, pod)| *pod);
        let all: Vec<&Pod> = pods.iter().copied().chain(condemned).collect();
        let of = |revision: &str| all.iter().filter(|pod| pod.is_active() && *pod.revision == *revision).count();
        let ready = all.iter().filter(|pod| pod.is_active() && pod.is_ready()).count();
        let available = all.iter().filter(|pod| self.is_healthy(pod)).count();
        let is_rolled = pods.len() == self.replicas.len()
            && self.condemned.is_empty()
            && pods.iter().all(|pod| *pod.revision == *self.update && self.is_healthy(pod));
        let current = if is_rolled { self.update } else { self.current };
        let status = json!({
            "replicas": all.iter().filter(|pod| !pod.is_over()).count(),
            "readyReplicas": ready,
            "availableReplicas": available,
            "currentReplicas": of(current),
            "updatedReplicas": of(self.update),
            "currentRevision": current,
            "updateRevision": self.update,
            "collisionCount": 0,
        });
        write_status(self.server, Kind::StatefulSet, self.set, status);
        is_rolled
    }

    /// When the next pod will have been ready for long enough.
    fn next_available(&self) -> Option<Timestamp> {
        let pods = self.replicas.iter().filter_map(|(_, pod)| *pod);
        let from = pods.filter_map(|pod| Some(after_seconds(pod.ready_since?, self.min_ready)));
        from.filter(|at| *at > self.now).min()
    }
}

/// The number at the end of a pod's name.
fn ordinal(pod: &str, set: &str) -> Option<i64> {
    pod.strip_prefix(set)?.strip_prefix('-')?.parse().ok()
}

/// A claim in place of the volume of that name, if there was one.
fn mount(spec: &mut Value, volume: &str, claim: &str) {
    let mut volumes: Vec<Value> = each(&spec["volumes"]).filter(|present| present["name"] != volume).cloned().collect();
    volumes.push(json!({"name": volume, "persistentVolumeClaim": {"claimName": claim}}));
    spec["volumes"] = Value::Array(volumes);
}
