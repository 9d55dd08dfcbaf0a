//! What a step does, to the cluster or to its cloud.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use model::price::Price;
use provider::OfferingKey;
use provider::kwok::Kwok;
use serde_json::{Value, json};

use super::cast::{Object, Selection};
use super::expectation::Expectation;
use super::lines::Located;
use super::trace::Trace;
use crate::apiserver::{ApiServer, At, Deletion, Refusal};
use crate::fields::{Selector, is_deleting, is_terminal, labels, moment, name, namespace};
use crate::kinds::Kind;
use crate::kubelet;

/// Something that happens at a time.
#[derive(Clone, Debug)]
pub(super) enum Action {
    Apply(Vec<Manifest>),
    Delete(Object),
    Scale { object: Object, replicas: u32, over: Duration, at_random: bool },
    Patch { object: Object, patch: Manifest },
    Cloud(CloudAction),
    Expect(Expectation),
    Trace(Arc<Trace>),
    Churn { object: Object, count: usize, every: Duration, lasts: Duration },
    Sick { goods: Selection, count: usize, sickness: Sickness, lasts: Option<Duration> },
}

/// What a node says about itself that is bad.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sickness {
    pub(super) condition: String,
    pub(super) status: String,
}

/// An object as it was written.
#[derive(Clone, Debug)]
pub(super) struct Manifest {
    pub(super) source: Located,
    pub(super) value: Value,
}

#[derive(Clone, Debug)]
pub(super) enum CloudAction {
    Price { goods: Selection, change: PriceRule },
    Shortage(Selection),
    Restock(Selection),
    Interruption { goods: Selection, count: usize, notice: Duration },
    Image { family: String, release: String },
}

#[derive(Clone, Copy, Debug)]
pub(super) enum PriceRule {
    Is(Price),
    TimesPartsPerMillion(i64),
}

impl Action {
    /// The objects of which it settles how many replicas they have.
    pub(super) fn replicas_of(&self) -> Vec<Object> {
        let says_replicas = |manifest: &&Manifest| manifest.value.pointer("/spec/replicas").is_some();
        match self {
            Self::Scale { object, .. } | Self::Delete(object) => vec![object.clone()],
            Self::Patch { object, patch } => {
                Some(patch).filter(says_replicas).map(|_| object.clone()).into_iter().collect()
            }
            Self::Apply(manifests) => {
                manifests.iter().filter(says_replicas).filter_map(|manifest| object_of(&manifest.value)).collect()
            }
            _ => Vec::new(),
        }
    }
}

impl Manifest {
    pub(super) fn of(source: &Located) -> Self {
        Self { value: source.value(), source: source.clone() }
    }

    /// What it is, as people say it.
    pub(super) fn spoken(&self) -> String {
        let kind = self.value["kind"].as_str().unwrap_or("object");
        match namespace(&self.value) {
            "" => format!("{kind} {}", name(&self.value)),
            namespace => format!("{kind} {namespace}/{}", name(&self.value)),
        }
    }
}

/// Which object a manifest is about, if it is of a kind that is served.
fn object_of(manifest: &Value) -> Option<Object> {
    let text = |key: &str| manifest[key].as_str().unwrap_or_default();
    let kind = Kind::of(text("apiVersion"), text("kind"))?;
    let at = match (kind.is_namespaced(), namespace(manifest)) {
        (true, "") => At::new("default", name(manifest)),
        (true, given) => At::new(given, name(manifest)),
        (false, _) => At::new("", name(manifest)),
    };
    Some(Object { kind, at })
}

/// Makes an object what a manifest says: it is created, or what is there takes over what the manifest names.
pub(super) fn apply(server: &ApiServer, manifest: &Manifest) -> Result<Arc<Value>, Refusal> {
    match present(server, &manifest.value) {
        None => server.create_written(manifest.value.clone()),
        Some(Object { kind, at }) => server.patch_written(kind, &at, &without_status(&manifest.value)),
    }
}

/// What would come of it.
pub(super) fn try_apply(server: &ApiServer, manifest: &Value) -> Result<Arc<Value>, Refusal> {
    match present(server, manifest) {
        None => server.try_create(manifest.clone()),
        Some(Object { kind, at }) => server.try_patch(kind, &at, &without_status(manifest)),
    }
}

fn present(server: &ApiServer, manifest: &Value) -> Option<Object> {
    object_of(manifest).filter(|object| server.get(object.kind, &object.at).is_some())
}

fn without_status(manifest: &Value) -> Value {
    let mut patch = manifest.clone();
    if let Some(members) = patch.as_object_mut() {
        members.remove("status");
    }
    patch
}

pub(super) fn set_replicas(server: &ApiServer, object: &Object, replicas: u32) -> Result<(), Refusal> {
    server.patch(object.kind, &object.at, &json!({"spec": {"replicas": replicas}})).map(drop)
}

/// Falls ill, or is well again.
pub(super) fn set_health(server: &ApiServer, node: &str, sickness: &Sickness, is_well: bool) -> Result<(), Refusal> {
    let Sickness { condition, status } = sickness;
    match (condition.as_str(), status.as_str(), is_well) {
        ("Ready", "Unknown", false) => kubelet::stop(server, node),
        ("Ready", "Unknown", true) => kubelet::resume(server, node),
        (_, _, false) => kubelet::set_condition(server, node, condition, status),
        (_, "True", true) => kubelet::set_condition(server, node, condition, "False"),
        (_, _, true) => kubelet::set_condition(server, node, condition, "True"),
    }
}

/// The pods of a workload that nobody has asked to go yet, the oldest first.
pub(super) fn pods_of(server: &ApiServer, object: &Object) -> Vec<At> {
    let Some(workload) = server.get(object.kind, &object.at) else { return Vec::new() };
    let selector = Selector::of(&workload["spec"]["selector"]);
    let is_its = |pod: &Value| {
        namespace(pod) == &*object.at.namespace
            && selector.matches(labels(pod))
            && !is_deleting(pod)
            && !is_terminal(pod)
    };
    let pods = server.list(Kind::Pod);
    let mut pods: Vec<_> = pods.iter().filter(|pod| is_its(pod)).collect();
    pods.sort_by_key(|pod| (moment(&pod["metadata"]["creationTimestamp"]), name(pod).to_owned()));
    pods.into_iter().map(|pod| At::of(pod)).collect()
}

/// Makes these pods the first to go when their workload shrinks.
pub(super) fn make_cheap(server: &ApiServer, pods: &[At]) -> Result<(), Refusal> {
    let patch = json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-1000"}}});
    pods.iter().try_for_each(|at| server.patch(Kind::Pod, at, &patch).map(drop))
}

pub(super) fn delete(server: &ApiServer, object: &Object) -> Result<(), Refusal> {
    server.delete(object.kind, &object.at, &Deletion::default())
}

/// Changes the shelves and prices of a cloud.
pub(super) fn trade(cloud: &Kwok, action: &CloudAction) {
    let chosen = |goods: &Selection| {
        let keys = cloud.price_list().filter(|(key, _)| goods.has(key));
        keys.collect::<Vec<(OfferingKey, Price)>>()
    };
    let facts = cloud.facts();
    match action {
        CloudAction::Price { goods, change } => chosen(goods).into_iter().for_each(|(key, price)| {
            let price = match change {
                PriceRule::Is(price) => *price,
                PriceRule::TimesPartsPerMillion(parts) => price.scaled(*parts),
            };
            facts.set_price(key, price);
        }),
        CloudAction::Shortage(goods) => chosen(goods).into_iter().for_each(|(key, _)| facts.sell_out(key)),
        CloudAction::Restock(goods) => chosen(goods).iter().for_each(|(key, _)| facts.restock(key)),
        CloudAction::Image { family, release } => facts.publish(family, release),
        // Whom it strikes is known to the ledger.
        CloudAction::Interruption { .. } => {}
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Apply(manifests) => {
                let all: Vec<String> = manifests.iter().map(Manifest::spoken).collect();
                write!(f, "apply {}", all.join(", "))
            }
            Self::Delete(object) => write!(f, "delete {object}"),
            Self::Scale { object, replicas, over, at_random } => {
                write!(f, "scale {object} to {replicas}")?;
                if !over.is_zero() {
                    write!(f, " within {} s", over.as_secs())?;
                }
                f.write_str(if *at_random { ", by lot" } else { "" })
            }
            Self::Churn { object, count, every, lasts } => {
                let (every, lasts) = (every.as_secs(), lasts.as_secs());
                write!(f, "{count} of {object} end every {every} s, for {lasts} s")
            }
            Self::Sick { goods, count, sickness: Sickness { condition, status }, .. } => {
                write!(f, "{count} nodes of {goods} say {condition}={status}")
            }
            Self::Patch { object, .. } => write!(f, "patch {object}"),
            Self::Cloud(action) => action.fmt(f),
            Self::Expect(_) => write!(f, "expect"),
            Self::Trace(trace) => {
                write!(f, "trace {}: {} pods come and go", trace.name, trace.pods.len())?;
                match trace.dropped {
                    0 => Ok(()),
                    dropped => write!(f, "; {dropped} that no machine can hold are left out"),
                }
            }
        }
    }
}

impl fmt::Display for CloudAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Price { goods, change: PriceRule::Is(price) } => write!(f, "{goods} now costs {price}"),
            Self::Price { goods, change: PriceRule::TimesPartsPerMillion(parts) } => {
                write!(f, "{goods} now costs {} times as much", *parts as f64 / 1e6)
            }
            Self::Shortage(goods) => write!(f, "sold out: {goods}"),
            Self::Restock(goods) => write!(f, "on sale again: {goods}"),
            Self::Interruption { goods, count, notice } => {
                write!(f, "the cloud takes back {count} of {goods} in {} s", notice.as_secs())
            }
            Self::Image { family, release } => write!(f, "image {family} {release} comes out"),
        }
    }
}
