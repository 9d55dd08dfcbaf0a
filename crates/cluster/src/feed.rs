//! Joins what happens in the cluster to the store: the one file here that waits.
//!
//! Objects are taken in one by one, as they come off the wire, so that a list of a hundred thousand pods never stands in
//! memory beside the store. The lock is held for one fact at a time and never while waiting.

#[cfg(test)]
mod tests;

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use futures::{Stream, StreamExt};
use model::ids::{NodeName, Uid};
use model::time::Instant;
use serde_json::Value;

use crate::object::{Gone, Key, Kind, Object, Version};
use crate::store::Store;
use crate::wake::Change;

/// One thing that a watch, a list or a recording tells.
#[derive(Clone, Debug)]
pub enum Fact {
    /// A list of the kind begins: the first, or one after a watch was lost.
    Restarted {
        kind: Kind,
    },
    /// The state of an object, from the list or from the watch after it.
    Applied(Object),
    /// A state that the store knows already; see [`Store::knows`].
    Known(Key),
    Deleted(Gone),
    /// The list is complete. What was known and was not in it is gone.
    Listed {
        kind: Kind,
        version: Version,
    },
    /// The cluster does not serve the kind.
    Absent {
        kind: Kind,
    },
    /// An object that makes no sense. It is skipped, and somebody is told.
    Undecodable(Undecodable),
}

/// An object that could not be read, as far as it could be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecodable {
    pub key: Key,
    pub uid: Option<Uid>,
    /// For a pod that has not ended: the node that it is on.
    pub node: Option<NodeName>,
    pub problem: Arc<str>,
}

impl Undecodable {
    /// What can be made out of an object's JSON that does not make up a whole object.
    pub fn read(kind: Kind, json: &[u8], problem: impl fmt::Display) -> Self {
        let value: Value = serde_json::from_slice(json).unwrap_or_default();
        let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
        let namespace = text("/metadata/namespace").unwrap_or_default().into();
        let key = Key { kind, namespace, name: text("/metadata/name").unwrap_or_default().into() };
        let has_ended = matches!(text("/status/phase"), Some("Succeeded" | "Failed"));
        let node = text("/spec/nodeName").filter(|_| kind == Kind::Pod && !has_ended && !is_nodes_own(&value));
        Self {
            key,
            uid: text("/metadata/uid").map(Uid::from),
            node: node.map(NodeName::from),
            problem: problem.to_string().into(),
        }
    }
}

/// Whether a kubelet made the pod, so that it comes and goes with its node.
fn is_nodes_own(pod: &Value) -> bool {
    let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    owners.into_iter().flatten().any(|owner| owner["kind"] == "Node" && owner["apiVersion"] == "v1")
}

/// What is passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    Change(Change),
    Undecodable(Undecodable),
}

/// Takes in facts until there are no more, and passes on what comes of each.
pub async fn feed(
    facts: impl Stream<Item = Fact>,
    store: &Mutex<Store>,
    now: impl Fn() -> Instant,
    mut pass_on: impl FnMut(News),
) {
    let mut facts = pin!(facts);
    while let Some(fact) = facts.next().await {
        let news = {
            // A panic elsewhere leaves the store whole: each of its methods ends with all its parts in agreement, or the
            // process ends.
            let mut store = store.lock().unwrap_or_else(PoisonError::into_inner);
            take(&mut store, fact, now())
        };
        if let Some(news) = news {
            pass_on(news);
        }
    }
}

/// Takes in one fact; says nothing when nothing comes of it.
pub fn take(store: &mut Store, fact: Fact, now: Instant) -> Option<News> {
    let change = match fact {
        Fact::Restarted { kind } => {
            store.restart(kind);
            return None;
        }
        Fact::Applied(object) => store.apply(object, now),
        Fact::Known(key) => {
            store.account_for(&key);
            return None;
        }
        Fact::Deleted(gone) => store.delete(&gone, now),
        Fact::Listed { kind, version } => store.finish_list(kind, version, now),
        Fact::Absent { kind } => store.set_absent(kind, now),
        Fact::Undecodable(object) => {
            store.see_undecodable(&object);
            return Some(News::Undecodable(object));
        }
    };
    (!change.is_empty()).then_some(News::Change(change))
}
