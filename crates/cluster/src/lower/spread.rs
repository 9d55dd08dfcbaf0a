//! Spreads that the operator chose for every pod which names none of its own.
//!
//! Such a spread has no selector; which pods count is deduced from what the pod belongs to, exactly as the scheduler
//! does. Nothing is remembered from one pod to the next, so that no two pods can share an answer by mistake.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{ReplicationController, Service, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use model::labels::Labels;
use model::requirements::{Requirement, Requirements};
use model::topology::{Selector, Spread};

use super::affinity::spread;
use super::selector::requirements;

/// What pods of one namespace can belong to, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workloads {
    pub services: BTreeMap<String, Service>,
    pub replica_sets: BTreeMap<String, ReplicaSet>,
    pub stateful_sets: BTreeMap<String, StatefulSet>,
    pub replication_controllers: BTreeMap<String, ReplicationController>,
}

/// Who made a pod: its controller.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Controller {
    pub api_version: Arc<str>,
    pub kind: Arc<str>,
    pub name: Arc<str>,
}

impl Controller {
    /// The owner that says it is in charge; there is one at most.
    pub fn of(metadata: &ObjectMeta) -> Option<Self> {
        let mut owners = metadata.owner_references.iter().flatten();
        let owner = owners.find(|owner| owner.controller == Some(true))?;
        Some(Self {
            api_version: owner.api_version.as_str().into(),
            kind: owner.kind.as_str().into(),
            name: owner.name.as_str().into(),
        })
    }
}

/// A pod, as far as its default spreads depend on it.
#[derive(Clone, Copy)]
pub(super) struct Member<'a> {
    pub(super) labels: &'a Labels,
    pub(super) controller: Option<&'a Controller>,
}

/// The default spreads for a pod that has none; nothing when no selector can be deduced.
pub(super) fn default_spread(
    member: Member<'_>,
    constraints: &[TopologySpreadConstraint],
    workloads: Option<&Workloads>,
) -> Vec<Spread> {
    let Some(workloads) = workloads.filter(|_| !constraints.is_empty()) else { return Vec::new() };
    let deduced = deduced(member, workloads);
    if deduced.is_empty() {
        return Vec::new();
    }
    constraints.iter().map(|wire| spread(wire, Selector::Matching(deduced.clone()))).collect()
}

/// The pods that share the pod's services and its controller.
fn deduced(member: Member<'_>, workloads: &Workloads) -> Requirements {
    let mut labels = service_labels(member.labels, workloads);
    let Some(owner) = member.controller else { return exactly(&labels) };
    let name = &*owner.name;
    let selector: Option<&LabelSelector> = match (&*owner.api_version, &*owner.kind) {
        ("v1", "ReplicationController") => {
            let controller = workloads.replication_controllers.get(name);
            let selector = controller.and_then(|controller| controller.spec.as_ref()?.selector.as_ref());
            // Here the controller has the last word on a label; below it only adds to what is asked.
            labels.extend(selector.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str())));
            None
        }
        ("apps/v1", "ReplicaSet") => {
            workloads.replica_sets.get(name).and_then(|set| Some(&set.spec.as_ref()?.selector))
        }
        ("apps/v1", "StatefulSet") => {
            workloads.stateful_sets.get(name).and_then(|set| Some(&set.spec.as_ref()?.selector))
        }
        _ => None,
    };
    let mut deduced = exactly(&labels);
    if let Some(selected) = selector.and_then(requirements) {
        deduced.add_all(&selected);
    }
    deduced
}

/// Everything that the services of the pod select by. They all match the pod, so they cannot disagree.
fn service_labels<'a>(labels: &Labels, workloads: &'a Workloads) -> BTreeMap<&'a str, &'a str> {
    let has = |key: &String, value: &String| labels.get(key.as_str()).is_some_and(|own| **own == **value);
    workloads
        .services
        .values()
        .filter_map(|service| service.spec.as_ref()?.selector.as_ref())
        .filter(|selector| selector.iter().all(|(key, value)| has(key, value)))
        .flatten()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect()
}

fn exactly(labels: &BTreeMap<&str, &str>) -> Requirements {
    labels.iter().map(|(key, value)| ((*key).into(), Requirement::value((*value).into()))).collect()
}
