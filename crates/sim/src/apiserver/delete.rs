//! Deletion: at once, gracefully, or when the last finalizer is gone.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::denial::Denial;
use super::store::Store;
use super::{At, meta};
use crate::kinds::Kind;

/// What becomes of an object's dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Propagation {
    /// They go after it.
    Background,
    /// It goes after them.
    Foreground,
    /// They stay.
    Orphan,
}

#[derive(Clone, Debug, Default)]
pub(super) struct DeleteOptions {
    pub(super) grace_seconds: Option<i64>,
    /// Without it, what the object's finalizers say, and otherwise background.
    pub(super) propagation: Option<Propagation>,
    pub(super) uid: Option<String>,
    pub(super) version: Option<String>,
    pub(super) is_dry_run: bool,
}

/// What has come of a deletion.
#[derive(Clone, Debug)]
pub(super) enum Deleted {
    Gone(Arc<Value>),
    /// It is marked, and something holds it.
    Marked(Arc<Value>),
}

impl Store {
    pub(super) fn delete(&mut self, kind: Kind, at: &At, options: &DeleteOptions) -> Result<Deleted, Denial> {
        let Some(old) = self.get(kind, at).cloned() else { return Err(Denial::not_found(kind, &at.name)) };
        check_preconditions(kind, at, &old, options)?;
        if kind == Kind::Namespace {
            return Ok(self.delete_namespace(at, &old, options));
        }
        let mut object = Value::clone(&old);
        let grace = match kind {
            Kind::Pod => mark_gracefully(&mut object, self.now(), options.grace_seconds),
            _ => Grace::None,
        };
        if grace == Grace::Pending {
            return Ok(Deleted::Marked(old));
        }
        set_finalizers(&mut object, options.propagation);
        let is_held = meta::finalizers(&object).next().is_some();
        if is_held && grace == Grace::None {
            mark(&mut object, self.now());
        }
        if options.is_dry_run {
            return Ok(Deleted::Marked(Arc::new(object)));
        }
        let is_told = is_held || matches!(grace, Grace::Left | Grace::Over);
        let marked = if is_told && object != *old { self.put(kind, at, object) } else { old };
        let deleted = if is_held || grace == Grace::Left {
            Deleted::Marked(marked)
        } else {
            self.remove(kind, at);
            Deleted::Gone(marked)
        };
        self.settle();
        Ok(deleted)
    }

    /// A namespace goes when its content has gone.
    fn delete_namespace(&mut self, at: &At, old: &Arc<Value>, options: &DeleteOptions) -> Deleted {
        if meta::is_deleting(old) || options.is_dry_run {
            return Deleted::Marked(old.clone());
        }
        let mut namespace = Value::clone(old);
        mark(&mut namespace, self.now());
        meta::set(&mut namespace, "deletionGracePeriodSeconds", Value::Null);
        namespace["status"]["phase"] = "Terminating".into();
        let marked = self.put(Kind::Namespace, at, namespace);
        for kind in Kind::ALL.iter().copied().filter(|kind| kind.is_namespaced()) {
            let content: Vec<At> = self.list_in(kind, &at.name).map(|object| At::of(object)).collect();
            for place in content {
                // It was there a moment ago; if something that went before has taken it along, all the better.
                let _gone = self.delete(kind, &place, &DeleteOptions::default());
            }
        }
        self.doubtful.push_back((Kind::Namespace, at.clone()));
        self.settle();
        Deleted::Marked(marked)
    }
}

/// What the grace of a pod comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grace {
    /// The kind knows none.
    None,
    /// The pod is going already, and the request would not make it go sooner.
    Pending,
    Left,
    Over,
}

/// Sets when a pod has to be gone. A pod that is going already can only be made to go sooner.
fn mark_gracefully(pod: &mut Value, now: Timestamp, asked: Option<i64>) -> Grace {
    let asked = asked.map(|seconds| if seconds < 0 { 1 } else { seconds });
    if meta::is_deleting(pod) {
        let before = pod["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
        if before == 0 {
            return Grace::None;
        }
        return match asked {
            Some(seconds) if seconds < before => {
                let ends: Timestamp =
                    pod["metadata"]["deletionTimestamp"].as_str().and_then(|text| text.parse().ok()).unwrap_or(now);
                set_end(pod, ends, seconds - before, seconds);
                if seconds > 0 { Grace::Left } else { Grace::Over }
            }
            _ => Grace::Pending,
        };
    }
    let own = pod["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(0);
    let is_bound = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    let is_over = matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
    let seconds = match asked.unwrap_or(own) {
        _ if !is_bound || is_over => 0,
        negative if negative < 0 => 1,
        seconds => seconds,
    };
    set_end(pod, now, seconds, seconds);
    count_generation(pod);
    if seconds > 0 { Grace::Left } else { Grace::Over }
}

fn set_end(pod: &mut Value, from: Timestamp, shift_seconds: i64, grace_seconds: i64) {
    let end = from.checked_add(SignedDuration::from_secs(shift_seconds)).unwrap_or(from);
    pod["metadata"]["deletionTimestamp"] = meta::stamp(end).into();
    pod["metadata"]["deletionGracePeriodSeconds"] = grace_seconds.into();
}

/// Marks an object of a kind without grace that something holds.
fn mark(object: &mut Value, now: Timestamp) {
    if object["metadata"]["deletionGracePeriodSeconds"].is_null() {
        count_generation(object);
    }
    let is_later = |text: &str| text.parse::<Timestamp>().is_ok_and(|before| before > now);
    if object["metadata"]["deletionTimestamp"].as_str().is_none_or(is_later) {
        object["metadata"]["deletionTimestamp"] = meta::stamp(now).into();
    }
    object["metadata"]["deletionGracePeriodSeconds"] = 0.into();
}

fn count_generation(object: &mut Value) {
    if let Some(generation) = object["metadata"]["generation"].as_i64().filter(|generation| *generation > 0) {
        object["metadata"]["generation"] = (generation + 1).into();
    }
}

/// The two finalizers that stand for what becomes of dependents follow the request.
fn set_finalizers(object: &mut Value, propagation: Option<Propagation>) {
    let Some(propagation) = propagation else { return };
    let others = meta::finalizers(object).filter(|finalizer| ![meta::FOREGROUND, meta::ORPHAN].contains(finalizer));
    let mut finalizers: Vec<Value> = others.map(Value::from).collect();
    match propagation {
        Propagation::Background => {}
        Propagation::Foreground => finalizers.push(json!(meta::FOREGROUND)),
        Propagation::Orphan => finalizers.push(json!(meta::ORPHAN)),
    }
    let before: Vec<&str> = meta::finalizers(object).collect();
    if before != finalizers.iter().filter_map(Value::as_str).collect::<Vec<_>>() {
        meta::set_finalizers(object, finalizers);
    }
}

pub(super) fn check_preconditions(kind: Kind, at: &At, old: &Value, options: &DeleteOptions) -> Result<(), Denial> {
    // The real one says the kind here where others say the plural.
    let refuse = |why: &str| Err(Denial::conflict_on(kind.as_str(), kind, &at.name, why));
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != meta::uid(old)) {
        return refuse(&format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and \
             then recreated",
            meta::uid(old)
        ));
    }
    if let Some(version) = options.version.as_deref().filter(|version| *version != meta::version(old)) {
        return refuse(&format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The object \
             might have been modified",
            meta::version(old)
        ));
    }
    Ok(())
}
