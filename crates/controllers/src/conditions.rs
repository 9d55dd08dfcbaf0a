//! Watches over the conditions of claims, nodes, pools and buffers: tells people when one changes, and measures how long that took.
//!
//! It writes nothing but events, and its memory is what it saw last. After a restart the first look at an object is no change.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::labels::{INITIALIZED, NODE_POOL, TERMINATION_FINALIZER};
use api::{CapacityBuffer, NodeClaim, NodePool};
use cluster::{Duty, Store};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use model::ids::{NodeName, PodName, PoolName};
use runtime::Next;

use crate::controller::{Controller, TickId};
use crate::ctx::Ctx;
use crate::error::ControllerError;
use crate::events::{self, ConditionChange};
use crate::metrics::KindMetrics;
use crate::metrics::labels::class_label_name;

/// Different words that are shared. Beyond that something is odd, and sharing starts over.
const MOST_WORDS: usize = 4096;

/// An object whose conditions are watched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Watched {
    Claim(NodeName),
    Node(NodeName),
    Pool(PoolName),
    Buffer(PodName),
}

/// Objects as they were seen last.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    last: Mutex<Last>,
}

/// Every node and every claim has an entry here, so words that many of them use are kept once.
#[derive(Debug, Default)]
struct Last {
    kept: BTreeMap<Watched, Kept>,
    words: BTreeSet<Arc<str>>,
}

/// What is still of use of an object once it has been looked at.
#[derive(Debug)]
struct Kept {
    uid: Option<Box<str>>,
    deleted_at: Option<Timestamp>,
    has_finalizer: bool,
    labels: Box<[(Arc<str>, Arc<str>)]>,
    conditions: Box<[KeptCondition]>,
}

#[derive(Debug)]
struct KeptCondition {
    type_: Arc<str>,
    status: Arc<str>,
    since: Option<Timestamp>,
}

/// What is kept of an object.
#[derive(Clone, Debug)]
struct Seen {
    regarding: ObjectReference,
    deleted_at: Option<Timestamp>,
    has_finalizer: bool,
    /// Beside the kind: class, pool and the like.
    labels: Vec<(String, String)>,
    conditions: BTreeMap<String, Held>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    status: String,
    reason: String,
    message: String,
    since: Option<Timestamp>,
}

impl Controller for Conditions {
    type Key = Watched;

    const NAME: &'static str = "status";

    fn wakes_for(call: &Duty) -> Option<Watched> {
        match call {
            Duty::Claim(name) => Some(Watched::Claim(name.clone())),
            Duty::Node(name) => Some(Watched::Node(name.clone())),
            Duty::Pool(name) => Some(Watched::Pool(name.clone())),
            Duty::Buffer(name) => Some(Watched::Buffer(name.clone())),
            _ => None,
        }
    }

    fn first_keys(&self, store: &Store) -> Vec<Watched> {
        let claims = store.claims().names().cloned().map(Watched::Claim);
        let nodes = store.nodes().names().cloned().map(Watched::Node);
        let pools = store.node_pools().keys().cloned().map(Watched::Pool);
        let buffers = store.buffers().map(|(name, _)| Watched::Buffer(name.clone()));
        claims.chain(nodes).chain(pools).chain(buffers).collect()
    }

    async fn tick(&self, ctx: &Ctx, key: &Watched, _: &TickId) -> Result<Next, ControllerError> {
        let seen = look(&ctx.store(), key);
        let before = self.last().replace(key, seen.as_ref());
        // A name that is in use again belongs to another object, whose first look this is.
        let is_same = |seen: &&Seen| before.as_ref().is_some_and(|before| before.regarding.uid == seen.regarding.uid);
        match (&before, seen.as_ref().filter(is_same)) {
            (Some(before), Some(seen)) => {
                tell_changes(ctx, key, before, seen);
                tell_release(ctx, before, seen);
            }
            (Some(before), None) => tell_end(ctx, key, before),
            (None, _) => {}
        }
        if let Some(seen) = seen.as_ref().filter(|seen| !is_same(seen)) {
            // Statuses that an object comes with are counted, but nobody saw them change.
            seen.conditions.iter().for_each(|(type_, held)| count(ctx, key, seen, type_, held));
        }
        Ok(Next::OnChange)
    }
}

impl Conditions {
    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Last {
    /// Keeps what is seen now, and says what was before.
    fn replace(&mut self, key: &Watched, seen: Option<&Seen>) -> Option<Seen> {
        let before = match seen {
            Some(seen) => {
                let kept = self.keep(seen);
                self.kept.insert(key.clone(), kept)
            }
            None => self.kept.remove(key),
        };
        before.map(|kept| kept.to_seen(key))
    }

    fn keep(&mut self, seen: &Seen) -> Kept {
        let labels = seen.labels.iter().map(|(name, value)| (self.word(name), self.word(value))).collect();
        let conditions = seen.conditions.iter();
        let conditions = conditions.map(|(type_, held)| KeptCondition {
            type_: self.word(type_),
            status: self.word(&held.status),
            since: held.since,
        });
        Kept {
            uid: seen.regarding.uid.as_deref().map(Into::into),
            deleted_at: seen.deleted_at,
            has_finalizer: seen.has_finalizer,
            conditions: conditions.collect(),
            labels,
        }
    }

    fn word(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.words.get(text) {
            return known.clone();
        }
        if self.words.len() >= MOST_WORDS {
            self.words.clear();
        }
        let word: Arc<str> = text.into();
        self.words.insert(word.clone());
        word
    }
}

impl Kept {
    /// As it was, but for reasons and messages, which nobody asks for afterwards.
    fn to_seen(&self, key: &Watched) -> Seen {
        let held = |status: &str, since| Held {
            status: status.to_owned(),
            reason: String::new(),
            message: String::new(),
            since,
        };
        let conditions = self.conditions.iter().map(|kept| (kept.type_.to_string(), held(&kept.status, kept.since)));
        Seen {
            regarding: ObjectReference { uid: self.uid.as_deref().map(str::to_owned), ..key.to_reference() },
            deleted_at: self.deleted_at,
            has_finalizer: self.has_finalizer,
            labels: self.labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            conditions: conditions.collect(),
        }
    }
}

impl Watched {
    /// Which object it is, but for its uid.
    fn to_reference(&self) -> ObjectReference {
        fn of<K: Resource<DynamicType = ()>>(namespace: Option<String>, name: &str) -> ObjectReference {
            ObjectReference {
                api_version: Some(K::api_version(&()).into_owned()),
                kind: Some(K::kind(&()).into_owned()),
                namespace,
                name: Some(name.to_owned()),
                ..ObjectReference::default()
            }
        }
        match self {
            Self::Claim(name) => of::<NodeClaim>(None, name.as_str()),
            Self::Node(name) => of::<Node>(None, name.as_str()),
            Self::Pool(name) => of::<NodePool>(None, name.as_str()),
            Self::Buffer(name) => of::<CapacityBuffer>(Some(name.namespace.to_string()), &name.name),
        }
    }
}

fn tell_changes(ctx: &Ctx, key: &Watched, before: &Seen, seen: &Seen) {
    for (type_, held) in &seen.conditions {
        let Some(old) = before.conditions.get(type_) else {
            count(ctx, key, seen, type_, held);
            continue;
        };
        if old.status == held.status {
            continue;
        }
        count(ctx, key, seen, type_, held);
        let kept = old.since.zip(held.since).map(|(from, to)| to.duration_since(from).as_secs_f64().max(0.0));
        for (metrics, labels) in metrics_of(ctx, key, seen) {
            let own = [("type", type_.as_str()), ("status", &old.status), ("to_status", &held.status)];
            metrics.transition.get_or_create(&with(&own, &labels)).observe(kept.unwrap_or_default());
        }
        let (from, to) = (old.status.as_str(), held.status.as_str());
        let change = ConditionChange { type_, from, to, reason: &held.reason, message: &held.message };
        ctx.recorder.publish(events::condition_transitioned(seen.regarding.clone(), change));
    }
}

fn tell_release(ctx: &Ctx, before: &Seen, seen: &Seen) {
    if before.has_finalizer && !seen.has_finalizer && seen.deleted_at.is_some() {
        ctx.recorder.publish(events::finalized(seen.regarding.clone(), TERMINATION_FINALIZER));
    }
}

/// The object is gone. If it was told to go, that is when our finalizer left it, too.
fn tell_end(ctx: &Ctx, key: &Watched, before: &Seen) {
    let Some(deleted_at) = before.deleted_at else { return };
    if before.has_finalizer {
        ctx.recorder.publish(events::finalized(before.regarding.clone(), TERMINATION_FINALIZER));
    }
    let took = ctx.timestamp().duration_since(deleted_at).as_secs_f64().max(0.0);
    for (metrics, labels) in metrics_of(ctx, key, before) {
        metrics.termination.get_or_create(&labels).observe(took);
    }
}

fn count(ctx: &Ctx, key: &Watched, seen: &Seen, type_: &str, held: &Held) {
    for (metrics, labels) in metrics_of(ctx, key, seen) {
        let own = [("type", type_), ("status", &held.status), ("reason", &held.reason)];
        metrics.transitions.get_or_create(&with(&own, &labels)).inc();
    }
}

/// The metrics of the kind, and for our own kinds the older ones that name the kind in a label.
fn metrics_of<'a>(ctx: &'a Ctx, key: &Watched, seen: &Seen) -> Vec<(&'a KindMetrics, Vec<(String, String)>)> {
    let metrics = &ctx.metrics.conditions;
    let of_kind = |group: &str, kind: &str| {
        let labels = vec![("group".to_owned(), group.to_owned()), ("kind".to_owned(), kind.to_owned())];
        (&metrics.any, labels)
    };
    match key {
        Watched::Claim(_) => vec![(&metrics.claims, seen.labels.clone()), of_kind("karpenter.sh", "NodeClaim")],
        Watched::Node(_) => vec![(&metrics.nodes, seen.labels.clone())],
        Watched::Pool(_) => vec![(&metrics.pools, seen.labels.clone()), of_kind("karpenter.sh", "NodePool")],
        Watched::Buffer(_) => {
            vec![(&metrics.buffers, seen.labels.clone()), of_kind("autoscaling.x-k8s.io", "CapacityBuffer")]
        }
    }
}

fn with(own: &[(&str, &str)], labels: &[(String, String)]) -> Vec<(String, String)> {
    let own = own.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    own.chain(labels.iter().cloned()).collect()
}

/// The object as it is now.
fn look(store: &Store, key: &Watched) -> Option<Seen> {
    match key {
        Watched::Claim(name) => {
            let claim = store.claim(name)?;
            let conditions = claim.status.iter().flat_map(|status| &status.conditions).map(of_ours).collect();
            let labels = class_labels(store, &claim.metadata);
            Some(Seen { conditions, ..seen(claim.object_ref(&()), &claim.metadata, labels) })
        }
        Watched::Pool(name) => {
            let pool = store.node_pool(name)?;
            let conditions = pool.status.iter().flat_map(|status| &status.conditions).map(of_ours).collect();
            Some(Seen { conditions, ..seen(pool.object_ref(&()), &pool.metadata, Vec::new()) })
        }
        Watched::Buffer(name) => {
            let buffer = store.buffer(name)?;
            let conditions = buffer.status.iter().flat_map(|status| &status.conditions).map(of_ours).collect();
            Some(Seen { conditions, ..seen(buffer.object_ref(&()), &buffer.metadata, Vec::new()) })
        }
        Watched::Node(name) => {
            let node = store.node(name)?;
            let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
            let conditions = conditions.map(|it| {
                let text = |text: &Option<String>| text.clone().unwrap_or_default();
                let (reason, message) = (text(&it.reason), text(&it.message));
                let since = it.last_transition_time.as_ref().map(|time| time.0);
                (it.type_.clone(), Held { status: it.status.clone(), reason, message, since })
            });
            let mut labels = class_labels(store, &node.metadata);
            labels.push(("karpenter_sh_initialized".to_owned(), label(&node.metadata, INITIALIZED)));
            Some(Seen { conditions: conditions.collect(), ..seen(node.object_ref(&()), &node.metadata, labels) })
        }
    }
}

fn seen(regarding: ObjectReference, metadata: &ObjectMeta, labels: Vec<(String, String)>) -> Seen {
    let mut finalizers = metadata.finalizers.iter().flatten();
    Seen {
        regarding,
        deleted_at: metadata.deletion_timestamp.as_ref().map(|time| time.0),
        has_finalizer: finalizers.any(|name| name == TERMINATION_FINALIZER),
        labels,
        conditions: BTreeMap::new(),
    }
}

fn of_ours(condition: &api::Condition) -> (String, Held) {
    let held = Held {
        status: condition.status.as_str().to_owned(),
        reason: condition.reason.clone(),
        message: condition.message.clone(),
        since: Some(condition.last_transition_time.0),
    };
    (condition.type_.clone(), held)
}

fn class_labels(store: &Store, metadata: &ObjectMeta) -> Vec<(String, String)> {
    let classes = store.settings().classes.labels();
    let mut labels: Vec<(String, String)> = classes.map(|key| (class_label_name(key), label(metadata, key))).collect();
    labels.push(("karpenter_sh_nodepool".to_owned(), label(metadata, NODE_POOL)));
    labels
}

fn label(metadata: &ObjectMeta, key: &str) -> String {
    metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned().unwrap_or_default()
}
