//! Whether the sample holds what it claims to hold: does each field of a pod ever decide anything?
//!
//! The judge is asked again about pods that lack a field, or among others that lack it. If not one opinion changes in the
//! whole sample, the comparison would not have noticed that the judge or the lowering has forgotten the field.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::referee::{Opinion, Referee, read};

/// How many pods each field decided something for.
pub(crate) type Fields = BTreeMap<&'static str, usize>;

/// One world without each of the fields in turn.
pub(crate) struct Lacking<'a> {
    others: Vec<(&'static str, Referee<'a>)>,
}

impl<'a> Lacking<'a> {
    pub(crate) fn new(referee: &Referee<'a>, standing: &[Value]) -> Result<Self> {
        let mut others = Vec::new();
        for (name, change) in OF_STANDING {
            let pods: Vec<Option<Value>> = standing.iter().map(|pod| changed(pod, change)).collect();
            if pods.iter().any(Option::is_some) {
                let pods = pods.into_iter().zip(standing).map(|(other, pod)| other.unwrap_or_else(|| pod.clone()));
                others.push((name, referee.among(&pods.collect::<Vec<_>>())?));
            }
        }
        Ok(Self { others })
    }

    pub(crate) fn bind(&mut self, pod: &Pod, node: &str) -> Result<()> {
        self.others.iter_mut().try_for_each(|(_, referee)| referee.bind(pod, node))
    }

    /// Counts the fields without which the judge would say something else about the pod.
    pub(crate) fn count(&self, referee: &Referee<'_>, pod: &Pod, opinion: &Opinion, fields: &mut Fields) -> Result<()> {
        let value = serde_json::to_value(pod).context("writing a pod")?;
        for (name, change) in OF_ASKED {
            if let Some(changed) = changed(&value, change)
                && differs(&referee.opinion(&read(&changed)?)?, opinion)
            {
                *fields.entry(name).or_default() += 1;
            }
        }
        for (name, other) in &self.others {
            if differs(&other.opinion(pod)?, opinion) {
                *fields.entry(name).or_default() += 1;
            }
        }
        Ok(())
    }
}

/// All fields that are looked at.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    OF_ASKED.iter().chain(&OF_STANDING).map(|(name, _)| *name)
}

/// The changed pod; nothing when it is the same.
fn changed(pod: &Value, change: fn(&mut Value)) -> Option<Value> {
    let mut changed = pod.clone();
    change(&mut changed);
    (changed != *pod).then_some(changed)
}

fn differs(one: &Opinion, other: &Opinion) -> bool {
    one.iter().zip(other).any(|((_, one), (_, other))| one.is_some() != other.is_some())
}

/// A name, and what to do to a pod, as it is stored, so that the field is without effect.
type Change = (&'static str, fn(&mut Value));

/// Changes to the pod that is asked for.
const OF_ASKED: [Change; 30] = [
    ("requests of init containers", |pod| drop_at(pod, "/spec", "initContainers")),
    ("sidecars", |pod| each_at(pod, "/spec/initContainers", |container| drop_from(container, "restartPolicy"))),
    ("overhead", |pod| drop_at(pod, "/spec", "overhead")),
    ("requests of the pod as a whole", |pod| drop_at(pod, "/spec", "resources")),
    ("host ports", |pod| each_at(pod, "/spec/containers", |container| drop_from(container, "ports"))),
    ("host addresses", |pod| each_port(pod, |port| drop_from(port, "hostIP"))),
    ("protocols", |pod| each_port(pod, |port| port["protocol"] = "TCP".into())),
    ("tolerations", |pod| drop_at(pod, "/spec", "tolerations")),
    ("comparing tolerations", |pod| remove_at(pod, "/spec/tolerations", is_bound)),
    ("node selector", |pod| drop_at(pod, "/spec", "nodeSelector")),
    ("node affinity", |pod| drop_at(pod, "/spec/affinity", "nodeAffinity")),
    ("node affinity In", |pod| drop_expressions(pod, "In")),
    ("node affinity NotIn", |pod| drop_expressions(pod, "NotIn")),
    ("node affinity Exists", |pod| drop_expressions(pod, "Exists")),
    ("node affinity DoesNotExist", |pod| drop_expressions(pod, "DoesNotExist")),
    ("node affinity Gt", |pod| drop_expressions(pod, "Gt")),
    ("node affinity Lt", |pod| drop_expressions(pod, "Lt")),
    ("node affinity by field", |pod| each_at(pod, NODE_TERMS, |term| drop_from(term, "matchFields"))),
    ("volumes", |pod| drop_at(pod, "/spec", "volumes")),
    ("spread maxSkew", |pod| each_spread(pod, |spread| spread["maxSkew"] = 9.into())),
    ("spread minDomains", |pod| each_spread(pod, |spread| drop_from(spread, "minDomains"))),
    ("spread whenUnsatisfiable", |pod| each_spread(pod, |spread| spread["whenUnsatisfiable"] = "DoNotSchedule".into())),
    ("spread nodeAffinityPolicy", |pod| each_spread(pod, |spread| flip(spread, "nodeAffinityPolicy", "Ignore"))),
    ("spread nodeTaintsPolicy", |pod| each_spread(pod, |spread| flip(spread, "nodeTaintsPolicy", "Honor"))),
    ("spread labelSelector", |pod| each_spread(pod, |spread| drop_from(spread, "labelSelector"))),
    ("spread matchLabelKeys", |pod| each_spread(pod, |spread| drop_keys(spread, "matchLabelKeys"))),
    ("affinity namespaces", |pod| each_term(pod, |term| drop_from(term, "namespaces"))),
    ("affinity namespaceSelector", |pod| each_term(pod, |term| drop_from(term, "namespaceSelector"))),
    ("affinity matchLabelKeys", |pod| each_term(pod, |term| drop_keys(term, "matchLabelKeys"))),
    ("affinity mismatchLabelKeys", |pod| each_term(pod, |term| drop_keys(term, "mismatchLabelKeys"))),
];

/// Changes to the pods that are there already.
const OF_STANDING: [Change; 9] = [
    ("pods that are ending", |pod| drop_at(pod, "/metadata", "deletionTimestamp")),
    ("pods that have ended", |pod| drop_at(pod, "/status", "phase")),
    ("pods that are resized", |pod| drop_at(pod, "/status", "containerStatuses")),
    ("resizes that cannot happen", |pod| drop_at(pod, "/status", "conditions")),
    ("labels of others", |pod| drop_at(pod, "/metadata", "labels")),
    ("affinity of others", |pod| drop_at(pod, "/spec", "affinity")),
    ("namespaceSelector of others", |pod| each_term(pod, |term| drop_from(term, "namespaceSelector"))),
    ("ports of others", |pod| each_at(pod, "/spec/containers", |container| drop_from(container, "ports"))),
    ("volumes of others", |pod| drop_at(pod, "/spec", "volumes")),
];

fn drop_from(object: &mut Value, key: &str) {
    if let Some(object) = object.as_object_mut() {
        object.remove(key);
    }
}

/// By pointer and not by index, which would create what is not there.
fn drop_at(value: &mut Value, pointer: &str, key: &str) {
    if let Some(object) = value.pointer_mut(pointer) {
        drop_from(object, key);
    }
}

fn each_at(value: &mut Value, pointer: &str, change: impl FnMut(&mut Value)) {
    value.pointer_mut(pointer).and_then(Value::as_array_mut).into_iter().flatten().for_each(change);
}

fn remove_at(value: &mut Value, pointer: &str, is_meant: impl Fn(&Value) -> bool) {
    if let Some(list) = value.pointer_mut(pointer).and_then(Value::as_array_mut) {
        list.retain(|item| !is_meant(item));
    }
}

fn is_bound(toleration: &Value) -> bool {
    toleration["operator"] == "Gt" || toleration["operator"] == "Lt"
}

fn each_port(pod: &mut Value, change: fn(&mut Value)) {
    each_at(pod, "/spec/containers", |container| each_at(container, "/ports", change));
}

fn each_spread(pod: &mut Value, change: fn(&mut Value)) {
    each_at(pod, "/spec/topologySpreadConstraints", change);
}

fn each_term(pod: &mut Value, change: fn(&mut Value)) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        each_at(pod, &format!("/spec/affinity/{kind}/requiredDuringSchedulingIgnoredDuringExecution"), change);
    }
}

const NODE_TERMS: &str = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";

/// An expression that holds everywhere takes the place of each: a term without any would select nothing.
fn drop_expressions(pod: &mut Value, operator: &str) {
    each_at(pod, NODE_TERMS, |term| {
        each_at(term, "/matchExpressions", |expression| {
            if expression["operator"] == operator {
                *expression = json!({"key": "nobody-has-it", "operator": "DoesNotExist"});
            }
        });
    });
}

/// What is not the default becomes the default, and the other way round.
fn flip(spread: &mut Value, policy: &str, unusual: &str) {
    if spread[policy] == unusual {
        drop_from(spread, policy);
    } else {
        spread[policy] = unusual.into();
    }
}

/// The API server has written the keys into the selector as well. Here they are always the same, and in no other use.
fn drop_keys(term: &mut Value, keys: &str) {
    if term[keys].is_array() {
        drop_from(term, keys);
        remove_at(term, "/labelSelector/matchExpressions", |expression| expression["key"] == "rev");
    }
}
