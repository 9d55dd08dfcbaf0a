//! An API server in memory: the verbs that we speak, with the manners of the real one.
//!
//! ```text
//!   client() ──▶ http ──┐                        ┌──▶ watches (lines of JSON, made once for all who watch)
//!                       ├──▶ store ── a change ──┤
//!   in-process methods ─┘      │                 └──▶ followers (stand-ins)
//!                              └── what follows from it: dependents without owners go, a namespace takes its content along
//! ```
//!
//! What the garbage collector and the namespace controller of a cluster do a moment later happens here within the same call.

mod collector;
mod defaults;
mod delete;
mod denial;
mod discovery;
mod evict;
mod hooks;
mod http;
mod list;
mod meta;
mod pods;
mod prepare;
mod route;
mod scale;
mod selector;
mod shape;
mod store;
mod validate;
mod watch;
mod write;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use runtime::{Clock, Rng};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::kinds::Kind;
use delete::{DeleteOptions, Propagation};
use write::{Part, Source};

pub use hooks::{Admit, Hooks, RuleViolation, Rules};
pub(crate) use meta::merge;
pub use store::Store;
pub(crate) use validate::is_subdomain;

/// The server. Copies are one and the same. Its in-process methods and its HTTP face (`client`) share one store and one set of
/// rules.
#[derive(Clone)]
pub struct ApiServer {
    store: Arc<Mutex<Store>>,
    clock: Clock,
}

/// An object's namespace (empty for objects of the whole cluster) and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct At {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

/// One change of one object, as a watch would tell it.
#[derive(Clone, Debug)]
pub struct Change {
    pub kind: Kind,
    pub at: At,
    /// `None` when it was made.
    pub before: Option<Arc<Value>>,
    /// `None` when it is gone.
    pub after: Option<Arc<Value>>,
}

/// How an object is to be deleted.
#[derive(Clone, Debug, Default)]
pub struct Deletion {
    /// Pods only; what the pod itself says otherwise. Zero removes it at once.
    pub grace_seconds: Option<i64>,
    /// Whether its dependents stay, without it as their owner.
    pub orphans_dependents: bool,
    /// Refused with a conflict if the object is another by now.
    pub uid: Option<String>,
}

/// Why a request was turned down, as a `Status` would say it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub code: u16,
    /// Such as `NotFound`, `Conflict`, `Invalid`.
    pub reason: &'static str,
    pub message: String,
}

/// Reads changes in order. Nothing is lost; a follower that nobody reads costs memory.
pub struct Follower {
    changes: UnboundedReceiver<Change>,
    /// One that was seen while waiting and is still to be read.
    ahead: Option<Change>,
}

impl At {
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Where an object lives, by its metadata.
    pub fn of(object: &Value) -> Self {
        Self::new(meta::namespace(object), meta::name(object))
    }
}

impl ApiServer {
    pub fn new(clock: Clock, rng: Rng) -> Self {
        Self::with_hooks(clock, rng, Hooks::default())
    }

    /// A server that asks others what an object of a custom kind, or a new one of a built-in kind, must be like.
    pub fn with_hooks(clock: Clock, rng: Rng, hooks: Hooks) -> Self {
        Self { store: Arc::new(Mutex::new(Store::new(clock.clone(), rng, hooks))), clock }
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn get(&self, kind: Kind, at: &At) -> Option<Arc<Value>> {
        self.lock().get(kind, at).cloned()
    }

    /// All objects of a kind, by namespace and name.
    pub fn list(&self, kind: Kind) -> Vec<Arc<Value>> {
        self.lock().list(kind).cloned().collect()
    }

    /// All objects of a kind in one namespace, by name.
    pub fn list_in(&self, kind: Kind, namespace: &str) -> Vec<Arc<Value>> {
        self.lock().list_in(kind, namespace).cloned().collect()
    }

    /// Objects of a kind that have this object as their controlling owner, by namespace and name; indexed, so it is cheap.
    pub fn owned_by(&self, kind: Kind, owner_uid: &str) -> Vec<Arc<Value>> {
        self.lock().owned_by(kind, owner_uid)
    }

    /// Pods that are bound to a node, by namespace and name; indexed.
    pub fn pods_on(&self, node: &str) -> Vec<Arc<Value>> {
        self.lock().pods_on(node)
    }

    /// Makes an object; `apiVersion` and `kind` say what it is. `generateName`, admission, defaults and validation as over HTTP.
    pub fn create(&self, object: Value) -> Result<Arc<Value>, Refusal> {
        self.create_from(object, Source::Inside)
    }

    /// The same for an object that a person wrote: what cannot be read is refused, and fields that nobody knows are dropped.
    pub fn create_written(&self, object: Value) -> Result<Arc<Value>, Refusal> {
        self.create_from(object, Source::Outside)
    }

    /// A merge patch that a person wrote.
    pub fn patch_written(&self, kind: Kind, at: &At, patch: &Value) -> Result<Arc<Value>, Refusal> {
        Ok(self.lock().patch(kind, at, patch, Part::Main, Source::Outside)?)
    }

    /// What would come of `create_written`.
    pub fn try_create(&self, object: Value) -> Result<Arc<Value>, Refusal> {
        self.create_from(object, Source::DryRun)
    }

    /// What would come of `patch_written`.
    pub fn try_patch(&self, kind: Kind, at: &At, patch: &Value) -> Result<Arc<Value>, Refusal> {
        Ok(self.lock().patch(kind, at, patch, Part::Main, Source::DryRun)?)
    }

    fn create_from(&self, object: Value, source: Source) -> Result<Arc<Value>, Refusal> {
        let kind = denial::kind_of(&object)?;
        self.lock().check_served(kind)?;
        let namespace = match meta::namespace(&object) {
            "" => "default".to_owned(),
            given => given.to_owned(),
        };
        Ok(self.lock().create(kind, &namespace, object, source)?)
    }

    /// A merge patch. One that names a `metadata.resourceVersion` conflicts when that is not the present one. A patch that changes
    /// nothing is no change: no new version, nobody is told.
    pub fn patch(&self, kind: Kind, at: &At, patch: &Value) -> Result<Arc<Value>, Refusal> {
        Ok(self.lock().patch(kind, at, patch, Part::Main, Source::Inside)?)
    }

    /// The same for the status subresource.
    pub fn patch_status(&self, kind: Kind, at: &At, patch: &Value) -> Result<Arc<Value>, Refusal> {
        Ok(self.lock().patch(kind, at, patch, Part::Status, Source::Inside)?)
    }

    pub fn delete(&self, kind: Kind, at: &At, deletion: &Deletion) -> Result<(), Refusal> {
        let options = DeleteOptions {
            grace_seconds: deletion.grace_seconds,
            propagation: deletion.orphans_dependents.then_some(Propagation::Orphan),
            uid: deletion.uid.clone(),
            ..DeleteOptions::default()
        };
        self.lock().delete(kind, at, &options)?;
        Ok(())
    }

    /// Binds a pod to a node, as the scheduler does: sets `spec.nodeName` and the condition `PodScheduled`.
    pub fn bind(&self, pod: &At, node: &str) -> Result<(), Refusal> {
        Ok(self.lock().bind(pod, &pods::Binding { node, ..pods::Binding::default() })?)
    }

    /// Every change from now on.
    pub fn follow(&self) -> Follower {
        Follower { changes: self.lock().follow(), ahead: None }
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Follower {
    /// The next change, if one is there already.
    pub fn try_next(&mut self) -> Option<Change> {
        self.ahead.take().or_else(|| self.changes.try_recv().ok())
    }

    /// Waits until there is a change to read.
    pub async fn changed(&mut self) {
        if self.ahead.is_some() {
            return;
        }
        match self.changes.recv().await {
            Some(change) => self.ahead = Some(change),
            // The server is gone, so there will never be one.
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests;
