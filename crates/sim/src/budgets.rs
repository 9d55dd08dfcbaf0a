//! Disruption budgets: how many of the pods that they select may be missing now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::apiserver::{ApiServer, At, Change};
use crate::fields::{
    self, Rounding, Selector, after_seconds, at_in, conditions_with, controller, integer, is_deleting,
};
use crate::fields::{is_ready, labels, moment, scaled, uid};
use crate::kinds::Kind;
use crate::standin::StandIn;

/// A pod whose eviction was allowed counts as gone for so long, although it is still there.
const DISRUPTED_SECONDS: i64 = 120;

/// The disruption controller. It counts as pods change, so that a status costs as much as there are owners, not pods.
#[derive(Default)]
pub struct Budgets {
    /// By namespace, then by name.
    budgets: BTreeMap<Arc<str>, BTreeMap<At, Budget>>,
    dirty: BTreeSet<At>,
    timers: BTreeSet<(Timestamp, At)>,
    /// Budgets that must be counted from scratch.
    unread: BTreeSet<At>,
    /// Which budgets each scaled workload matters to, by its uid.
    by_workload: BTreeMap<Arc<str>, BTreeSet<At>>,
}

#[derive(Debug, Default)]
struct Budget {
    selector: Selector,
    pods: BTreeMap<At, Pod>,
    healthy: i64,
    /// How many of its pods each owner has. `None` is for pods that nobody controls.
    owners: BTreeMap<Option<Owner>, i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Pod {
    is_healthy: bool,
    is_deleting: bool,
    owner: Option<Owner>,
}

/// A pod's controller.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Owner {
    api_version: Arc<str>,
    kind: Arc<str>,
    name: Arc<str>,
    uid: Arc<str>,
}

/// What a budget asks for, or why that cannot be told.
type Wanted = Result<(i64, i64), String>;

impl Budgets {
    pub fn new() -> Self {
        Self::default()
    }

    fn heed_budget(&mut self, change: &Change) {
        let of_namespace = self.budgets.entry(change.at.namespace.clone()).or_default();
        let Some(wire) = &change.after else {
            of_namespace.remove(&change.at);
            return;
        };
        let selector = Selector::of(&wire["spec"]["selector"]);
        self.dirty.insert(change.at.clone());
        if of_namespace.get(&change.at).is_none_or(|budget| budget.selector != selector) {
            of_namespace.insert(change.at.clone(), Budget { selector, ..Budget::default() });
            self.unread.insert(change.at.clone());
        }
    }

    fn heed_pod(&mut self, change: &Change) {
        let Some(of_namespace) = self.budgets.get_mut(&change.at.namespace) else { return };
        for (at, budget) in of_namespace {
            let after = change.after.as_ref().filter(|pod| budget.selector.matches(labels(pod)));
            if budget.put(&change.at, after.map(|pod| Pod::of(pod))) {
                self.dirty.insert(at.clone());
            }
        }
    }

    /// A workload that is scaled changes what its budgets expect.
    fn heed_workload(&mut self, change: &Change) {
        let replicas = |object: &Option<Arc<Value>>| object.as_ref().map(|object| object["spec"]["replicas"].clone());
        if replicas(&change.before) == replicas(&change.after) {
            return;
        }
        match (&change.after, &change.before) {
            (Some(object), _) => self.dirty.extend(self.by_workload.get(uid(object)).into_iter().flatten().cloned()),
            // Its uid never comes back, and a day has many of them.
            (None, Some(gone)) => self.dirty.extend(self.by_workload.remove(uid(gone)).into_iter().flatten()),
            (None, None) => {}
        }
    }

    fn read(&mut self, server: &ApiServer) {
        let unread = std::mem::take(&mut self.unread);
        if unread.is_empty() {
            return;
        }
        for pod in server.list(Kind::Pod) {
            let at = fields::at(&pod);
            for budget_at in unread.iter().filter(|budget| budget.namespace == at.namespace) {
                let budget = self.budgets.get_mut(&at.namespace).and_then(|budgets| budgets.get_mut(budget_at));
                if let Some(budget) = budget.filter(|budget| budget.selector.matches(labels(&pod))) {
                    budget.put(&at, Some(Pod::of(&pod)));
                }
            }
        }
    }

    fn reconcile(&mut self, at: &At, server: &ApiServer) {
        let Some(wire) = server.get(Kind::PodDisruptionBudget, at) else { return };
        let Some(budget) = self.budgets.get(&at.namespace).and_then(|budgets| budgets.get(at)) else { return };
        let now = server.now();
        let (disrupted, next_expiry) = budget.disrupted(&wire, now);
        let mut workloads = BTreeSet::new();
        let wanted = budget.wanted(&wire, server, &mut workloads);
        match wanted {
            Ok((expected, desired)) => budget.say(&wire, [expected, desired], &disrupted, server),
            Err(why) => say_failed(&wire, &why, server),
        }
        for workload in workloads {
            self.by_workload.entry(workload).or_default().insert(at.clone());
        }
        if let Some(expiry) = next_expiry {
            self.timers.insert((expiry, at.clone()));
        }
    }
}

impl StandIn for Budgets {
    fn name(&self) -> &'static str {
        "disruption budgets"
    }

    fn heed(&mut self, change: &Change, _server: &ApiServer) {
        match change.kind {
            Kind::PodDisruptionBudget => self.heed_budget(change),
            Kind::Pod => self.heed_pod(change),
            Kind::Deployment | Kind::ReplicaSet | Kind::StatefulSet => self.heed_workload(change),
            _ => {}
        }
    }

    fn settle(&mut self, server: &ApiServer) {
        self.read(server);
        for at in std::mem::take(&mut self.dirty) {
            self.reconcile(&at, server);
        }
    }

    fn next(&self) -> Option<Timestamp> {
        self.timers.first().map(|(at, _)| *at)
    }

    fn wake(&mut self, now: Timestamp, server: &ApiServer) {
        while let Some((_, at)) = self.timers.first().filter(|(at, _)| *at <= now).cloned() {
            self.timers.pop_first();
            self.dirty.insert(at);
        }
        self.settle(server);
    }
}

impl Budget {
    /// Notes a pod, or that it is no longer selected. Says whether anything that counts has changed.
    fn put(&mut self, at: &At, pod: Option<Pod>) -> bool {
        let before = self.pods.get(at);
        if before == pod.as_ref() {
            return false;
        }
        if let Some(before) = before.cloned() {
            self.count(&before, -1);
            self.pods.remove(at);
        }
        if let Some(pod) = pod {
            self.count(&pod, 1);
            self.pods.insert(at.clone(), pod);
        }
        true
    }

    fn count(&mut self, pod: &Pod, sign: i64) {
        self.healthy += if pod.is_healthy { sign } else { 0 };
        let of_owner = self.owners.entry(pod.owner.clone()).or_default();
        *of_owner += sign;
        if *of_owner == 0 {
            self.owners.remove(&pod.owner);
        }
    }

    /// Pods whose eviction was allowed of late and that have not gone yet, and when the first of them is thought of as staying.
    fn disrupted(&self, wire: &Value, now: Timestamp) -> (BTreeMap<String, Value>, Option<Timestamp>) {
        let namespace = fields::namespace(wire);
        let mut kept = BTreeMap::new();
        let mut next = None;
        for (name, since) in wire["status"]["disruptedPods"].as_object().into_iter().flatten() {
            let is_leaving = self.pods.get(&at_in(namespace, name)).is_none_or(|pod| pod.is_deleting);
            let until = after_seconds(moment(since).unwrap_or(now), DISRUPTED_SECONDS);
            if !is_leaving && until > now {
                kept.insert(name.clone(), since.clone());
                next = next.into_iter().chain([until]).min();
            }
        }
        (kept, next)
    }

    /// How many pods are expected and how many of them must be healthy.
    fn wanted(&self, wire: &Value, server: &ApiServer, workloads: &mut BTreeSet<Arc<str>>) -> Wanted {
        let spec = &wire["spec"];
        let (least, most_missing) = (&spec["minAvailable"], &spec["maxUnavailable"]);
        if !most_missing.is_null() {
            let expected = self.expected(wire, server, workloads)?;
            let missing = scaled(most_missing, expected, Rounding::Up).ok_or("invalid maxUnavailable")?;
            return Ok((expected, (expected - missing).max(0)));
        }
        if least.is_string() {
            let expected = self.expected(wire, server, workloads)?;
            return Ok((expected, scaled(least, expected, Rounding::Up).ok_or("invalid minAvailable")?));
        }
        Ok((self.pods.len() as i64, integer(least, 0)))
    }

    /// The sum of what the pods' workloads were asked to run. Pods that nobody controls do not count.
    fn expected(&self, wire: &Value, server: &ApiServer, workloads: &mut BTreeSet<Arc<str>>) -> Result<i64, String> {
        let mut scales: BTreeMap<Arc<str>, i64> = BTreeMap::new();
        for owner in self.owners.keys().flatten() {
            let scale = owner.scale(fields::namespace(wire), server, workloads)?;
            scales.extend(scale);
        }
        Ok(scales.values().sum())
    }

    fn say(
        &self,
        wire: &Value,
        [expected, desired]: [i64; 2],
        disrupted: &BTreeMap<String, Value>,
        server: &ApiServer,
    ) {
        let namespace = fields::namespace(wire);
        let is_healthy = |name: &&String| self.pods.get(&at_in(namespace, name)).is_some_and(|pod| pod.is_healthy);
        let healthy = self.healthy - disrupted.keys().filter(is_healthy).count() as i64;
        let allowed = if expected <= 0 { 0 } else { (healthy - desired).max(0) };
        let said = match allowed {
            0 => ["DisruptionAllowed", "False", "InsufficientPods", ""],
            _ => ["DisruptionAllowed", "True", "SufficientPods", ""],
        };
        // A merge patch keeps what it does not name, so pods that are no longer listed are named as gone.
        let mut listed = json!(disrupted);
        for (name, _) in wire["status"]["disruptedPods"].as_object().into_iter().flatten() {
            if !disrupted.contains_key(name) {
                listed[name.as_str()] = Value::Null;
            }
        }
        let mut status = json!({
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "disruptionsAllowed": allowed,
            "observedGeneration": wire["metadata"]["generation"],
            "conditions": budget_conditions(wire, server.now(), said),
        });
        if listed.as_object().is_some_and(|listed| !listed.is_empty()) {
            status["disruptedPods"] = listed;
        }
        // A budget that is gone needs no status.
        let _ = server.patch_status(Kind::PodDisruptionBudget, &fields::at(wire), &json!({"status": status}));
    }
}

/// Nothing may be disrupted while it is not known what is expected.
fn say_failed(wire: &Value, why: &str, server: &ApiServer) {
    let said = ["DisruptionAllowed", "False", "SyncFailed", why];
    let status = json!({"disruptionsAllowed": 0, "conditions": budget_conditions(wire, server.now(), said)});
    let _ = server.patch_status(Kind::PodDisruptionBudget, &fields::at(wire), &json!({"status": status}));
}

/// Conditions of this kind always have a message and say which generation they are about.
fn budget_conditions(wire: &Value, now: Timestamp, said: [&str; 4]) -> Value {
    let mut conditions = conditions_with(wire, now, &[said]);
    let ours = conditions.as_array_mut().into_iter().flatten().find(|condition| condition["type"] == said[0]);
    if let Some(condition) = ours {
        condition["message"] = json!(said[3]);
        condition["observedGeneration"] = wire["metadata"]["generation"].clone();
    }
    conditions
}

impl Pod {
    fn of(pod: &Value) -> Self {
        let is_deleting = is_deleting(pod);
        Self { is_healthy: is_ready(pod) && !is_deleting, is_deleting, owner: controller(pod).map(Owner::of) }
    }
}

impl Owner {
    fn of(reference: &Value) -> Self {
        let text = |key: &str| Arc::from(reference[key].as_str().unwrap_or_default());
        Self { api_version: text("apiVersion"), kind: text("kind"), name: text("name"), uid: text("uid") }
    }

    /// The uid of the workload that decides on the number of pods, and that number. A ReplicaSet of a Deployment has none of its own.
    fn scale(
        &self,
        namespace: &str,
        server: &ApiServer,
        workloads: &mut BTreeSet<Arc<str>>,
    ) -> Result<Option<(Arc<str>, i64)>, String> {
        let kind = Kind::of(&self.api_version, &self.kind);
        let Some(kind) = kind.filter(|kind| kind.has(crate::kinds::Subresource::Scale)) else {
            return Err(format!("found no controllers for pods of {} \"{}\"", self.kind, self.name));
        };
        let found = server.get(kind, &at_in(namespace, &self.name)).filter(|found| uid(found) == &*self.uid);
        // A workload that is gone takes its pods with it; until then nobody asks for them.
        let Some(found) = found else { return Ok(None) };
        workloads.insert(self.uid.clone());
        match controller(&found).filter(|_| kind == Kind::ReplicaSet) {
            Some(above) => Self::of(above).scale(namespace, server, workloads),
            None => Ok(Some((self.uid.clone(), integer(&found["spec"]["replicas"], 1)))),
        }
    }
}

#[cfg(test)]
mod tests;
