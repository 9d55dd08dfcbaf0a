//! From objects to what the board knows, and what else of the cluster decides what a pod means.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::ResourceList;
use api::labels::LabelRules;
use cluster::lower::pod::{self, Surroundings};
use cluster::lower::resources;
use cluster::lower::spread::Workloads;
use cluster::lower::volume::Storage;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetSpec, StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1 as wire;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use model::ids::{Namespace, NodeName, Uid};
use model::labels::{HOSTNAME, Labels, ZONE};
use model::pod::{Life, Pod};
use model::taints::{Effect, Taint};
use model::time::Instant;
use serde::Deserialize;
use serde_json::Value;

use super::board::Facts;
use super::{CORDON, part, text};
use crate::apiserver::At;
use crate::kinds::Kind;

/// A pod as the scheduler sees it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) pod: Arc<Pod>,
    /// Whether it names spreads of its own; those that it gets by default are milder.
    pub(super) names_spread: bool,
    /// Claims that its volumes are behind.
    pub(super) claims: Vec<Claim>,
    /// The one node that it is made for.
    pub(super) pinned: Option<NodeName>,
    pub(super) may_preempt: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) name: Arc<str>,
    /// Made for the pod and gone with it.
    pub(super) is_ephemeral: bool,
}

pub(super) struct Around {
    rules: LabelRules,
    namespaces: BTreeMap<Namespace, Labels>,
    pub(super) storage: Storage,
    workloads: BTreeMap<Namespace, Workloads>,
    default_spread: Vec<wire::TopologySpreadConstraint>,
    /// One pod of each controller, lowered. Its siblings mostly differ in nothing but their names.
    siblings: BTreeMap<String, (Arc<Value>, Seen)>,
}

impl Around {
    pub(super) fn new() -> Self {
        let soft = |key: &str, max_skew: i32| wire::TopologySpreadConstraint {
            max_skew,
            topology_key: key.to_owned(),
            when_unsatisfiable: "ScheduleAnyway".to_owned(),
            ..Default::default()
        };
        Self {
            rules: LabelRules::default(),
            namespaces: BTreeMap::new(),
            storage: Storage::default(),
            workloads: BTreeMap::new(),
            // What kube-scheduler does by itself for pods of a service or a controller.
            default_spread: vec![soft(HOSTNAME, 3), soft(ZONE, 5)],
            siblings: BTreeMap::new(),
        }
    }

    /// Says whether pods may mean something else now.
    pub(super) fn put_namespace(&mut self, at: &At, object: Option<&Value>) -> bool {
        let name = Namespace::from(&*at.name);
        let labels = object.map(labels);
        if labels.as_ref() == self.namespaces.get(&name) {
            return false;
        }
        self.siblings.clear();
        match labels {
            Some(labels) => drop(self.namespaces.insert(name, labels)),
            None => drop(self.namespaces.remove(&name)),
        }
        true
    }

    /// A service or a controller came, changed or went.
    pub(super) fn put_workload(&mut self, kind: Kind, at: &At, object: Option<&Value>) {
        let workloads = self.workloads.entry(Namespace::from(&*at.namespace)).or_default();
        let name = at.name.to_string();
        let selector = object.and_then(|object| part(object, "/spec/selector"));
        let labels = || selector.and_then(|selector| BTreeMap::<String, String>::deserialize(selector).ok());
        let expressions =
            || selector.and_then(|selector| LabelSelector::deserialize(selector).ok()).unwrap_or_default();
        match (kind, object.is_some()) {
            (Kind::Service, true) => {
                self.siblings.clear();
                let spec = wire::ServiceSpec { selector: labels(), ..Default::default() };
                workloads.services.insert(name, wire::Service { spec: Some(spec), ..Default::default() });
            }
            (Kind::ReplicaSet, true) => {
                let spec = ReplicaSetSpec { selector: expressions(), ..Default::default() };
                workloads.replica_sets.insert(name, ReplicaSet { spec: Some(spec), ..Default::default() });
            }
            (Kind::StatefulSet, true) => {
                let spec = StatefulSetSpec { selector: expressions(), ..Default::default() };
                workloads.stateful_sets.insert(name, StatefulSet { spec: Some(spec), ..Default::default() });
            }
            (Kind::Service, false) => {
                self.siblings.clear();
                workloads.services.remove(&name);
            }
            (Kind::ReplicaSet, false) => drop(workloads.replica_sets.remove(&name)),
            (Kind::StatefulSet, false) => drop(workloads.stateful_sets.remove(&name)),
            _ => {}
        }
    }

    /// A controller is gone; nobody will ask for its pods' sibling again.
    pub(super) fn forget_siblings(&mut self, owner: &Value) {
        if let Some(uid) = part(owner, "/metadata/uid").and_then(Value::as_str) {
            self.siblings.remove(uid);
        }
    }

    pub(super) fn see(&mut self, object: &Arc<Value>) -> Seen {
        let owner = controller(object);
        if let Some(seen) = owner.and_then(|uid| self.like_sibling(uid, object)) {
            return seen;
        }
        let seen = self.lower(object);
        let has_ties = !seen.claims.is_empty() || !seen.pod.wants.volumes.attached.is_empty();
        if let Some(uid) = owner.filter(|_| !has_ties) {
            self.siblings.insert(uid.to_owned(), (object.clone(), seen.clone()));
        }
        seen
    }

    fn like_sibling(&self, owner: &str, object: &Value) -> Option<Seen> {
        let (sibling, seen) = self.siblings.get(owner)?;
        let is_alike = is_same_but_for(sibling, object, if seen.pinned.is_some() { "affinity" } else { "nodeName" });
        let pinned = pinned(object);
        if !is_alike
            || pinned.is_some() != seen.pinned.is_some()
            || seen.pod.name.namespace.as_str() != text(object, "/metadata/namespace")
        {
            return None;
        }
        let pod = Pod {
            name: pod_name(object),
            uid: Uid::from(text(object, "/metadata/uid")),
            created: created(object),
            life: life(object),
            node: None,
            ..Pod::clone(&seen.pod)
        };
        Some(Seen { pod: Arc::new(pod), pinned, ..seen.clone() })
    }

    fn lower(&self, object: &Value) -> Seen {
        let mut wire = wire::Pod::deserialize(object).unwrap_or_else(|_| wire::Pod {
            // Nothing that the API server let in is unreadable; a pod that is would otherwise end the run.
            metadata: ObjectMeta { name: Some(text(object, "/metadata/name").to_owned()), ..Default::default() },
            ..Default::default()
        });
        let pinned = pinned(object);
        if pinned.is_some() {
            unpin(&mut wire);
        }
        let around = Surroundings {
            rules: &self.rules,
            namespaces: &self.namespaces,
            storage: &self.storage,
            workloads: &self.workloads,
            default_spread: &self.default_spread,
        };
        let mut pod = pod::pod(&wire, &around).value;
        pod.node = None;
        let spread = part(object, "/spec/topologySpreadConstraints").and_then(Value::as_array);
        Seen {
            pod: Arc::new(pod),
            names_spread: spread.is_some_and(|spread| !spread.is_empty()),
            claims: claims(object),
            pinned,
            may_preempt: text(object, "/spec/preemptionPolicy") != "Never",
        }
    }
}

/// Claims behind a pod's volumes.
fn claims(pod: &Value) -> Vec<Claim> {
    let volumes = part(pod, "/spec/volumes").and_then(Value::as_array).into_iter().flatten();
    let claim = |volume: &Value| {
        if let Some(name) = part(volume, "/persistentVolumeClaim/claimName").and_then(Value::as_str) {
            return Some(Claim { name: name.into(), is_ephemeral: false });
        }
        volume.get("ephemeral")?;
        let name = format!("{}-{}", text(pod, "/metadata/name"), text(volume, "/name"));
        Some(Claim { name: name.into(), is_ephemeral: true })
    };
    volumes.filter_map(claim).collect()
}

const TERMS: &str = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";

/// The node that a pod of a DaemonSet is made for: every term names it. Such pods would otherwise all be different.
fn pinned(pod: &Value) -> Option<NodeName> {
    let terms = part(pod, TERMS)?.as_array()?;
    let mut names = terms.iter().map(|term| match term.get("matchFields")?.as_array()?.as_slice() {
        [field] if text(field, "/key") == "metadata.name" && text(field, "/operator") == "In" => {
            match field.get("values")?.as_array()?.as_slice() {
                [name] => name.as_str(),
                _ => None,
            }
        }
        _ => None,
    });
    let first = names.next()??;
    names.all(|name| name == Some(first)).then(|| NodeName::from(first))
}

/// Takes the name out of the terms. A term that says nothing else must not stay: it would select no node.
fn unpin(pod: &mut wire::Pod) {
    let affinity = pod.spec.as_mut().and_then(|spec| spec.affinity.as_mut()?.node_affinity.as_mut());
    let Some(affinity) = affinity else { return };
    let Some(required) = affinity.required_during_scheduling_ignored_during_execution.as_mut() else { return };
    let mut is_free = false;
    for term in &mut required.node_selector_terms {
        term.match_fields = None;
        is_free |= term.match_expressions.as_ref().is_none_or(|expressions| expressions.is_empty());
    }
    if is_free {
        affinity.required_during_scheduling_ignored_during_execution = None;
    }
}

/// Whether two pods ask for the same, whatever node they are on.
pub(super) fn is_same_spec(a: &Value, b: &Value) -> bool {
    is_same_but_for(a, b, "nodeName")
}

fn is_same_but_for(a: &Value, b: &Value, field: &str) -> bool {
    part(a, "/metadata/labels") == part(b, "/metadata/labels")
        && fields(a, field).eq(fields(b, field))
        && resized(a).eq(resized(b))
}

fn fields<'a>(pod: &'a Value, but: &'a str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    let spec = pod.get("spec").and_then(Value::as_object).into_iter().flatten();
    spec.filter(move |(name, _)| *name != "nodeName" && *name != but && *name != "hostname")
}

/// What kubelets report of containers that were resized in place.
fn resized(pod: &Value) -> impl Iterator<Item = (Option<&Value>, Option<&Value>)> {
    let statuses = part(pod, "/status/containerStatuses").and_then(Value::as_array).into_iter().flatten();
    let parts = statuses.map(|status| (status.get("resources"), status.get("allocatedResources")));
    parts.filter(|(resources, allocated)| resources.is_some() || allocated.is_some())
}

pub(super) fn pod_name(pod: &Value) -> model::ids::PodName {
    model::ids::PodName::new(text(pod, "/metadata/namespace"), text(pod, "/metadata/name"))
}

pub(super) fn life(pod: &Value) -> Life {
    match text(pod, "/status/phase") {
        "Failed" | "Succeeded" => Life::Terminal,
        _ if part(pod, "/metadata/deletionTimestamp").is_some() => Life::Terminating,
        _ => Life::Active,
    }
}

fn created(pod: &Value) -> Instant {
    let stamp = text(pod, "/metadata/creationTimestamp").parse::<jiff::Timestamp>().ok();
    stamp.map_or(Instant::from_unix_seconds(0), |stamp| Instant::from_unix_nanos(stamp.as_nanosecond()))
}

fn controller(pod: &Value) -> Option<&str> {
    let owners = part(pod, "/metadata/ownerReferences")?.as_array()?;
    let owner = owners.iter().find(|owner| owner.get("controller") == Some(&Value::Bool(true)))?;
    owner.get("uid")?.as_str()
}

fn labels(object: &Value) -> Labels {
    let wire = part(object, "/metadata/labels").and_then(Value::as_object).into_iter().flatten();
    wire.filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into()))).collect()
}

/// A node, and how many volumes its drivers can attach.
pub(super) fn facts(node: &Value, csi: Option<&Value>) -> Facts {
    let mut facts = Facts { labels: labels(node), ..Facts::default() };
    for taint in part(node, "/spec/taints").and_then(Value::as_array).into_iter().flatten() {
        let (key, value) = (text(taint, "/key"), text(taint, "/value"));
        match text(taint, "/effect") {
            "NoSchedule" => facts.hard.push(Taint::new(key, value, Effect::NoSchedule)),
            "NoExecute" => facts.hard.push(Taint::new(key, value, Effect::NoExecute)),
            "PreferNoSchedule" => facts.soft.push(Taint::new(key, value, Effect::PreferNoSchedule)),
            _ => {}
        }
    }
    facts.is_cordoned = part(node, "/spec/unschedulable") == Some(&Value::Bool(true));
    // The flag counts at once; the taint that says the same comes a moment later.
    if facts.is_cordoned && !facts.hard.iter().any(|taint| *taint.key == *CORDON) {
        facts.hard.push(Taint::new(CORDON, "", Effect::NoSchedule));
    }
    let allocatable = part(node, "/status/allocatable").and_then(|list| ResourceList::deserialize(list).ok());
    facts.allocatable = allocatable.map(|list| resources::of_list(&list)).unwrap_or_default();
    let drivers = csi.and_then(|csi| part(csi, "/spec/drivers")?.as_array()).into_iter().flatten();
    let limit = |driver: &Value| {
        let count = part(driver, "/allocatable/count")?.as_i64()?;
        Some((text(driver, "/name").into(), u32::try_from(count).unwrap_or(0)))
    };
    facts.attach_limits = drivers.filter_map(limit).collect();
    facts
}
