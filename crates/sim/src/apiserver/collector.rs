//! What follows from a change: dependents whose owners are gone go too, owners that wait for their dependents go after them, and
//! an empty namespace that was deleted is gone.
//!
//! In a cluster the controller manager does this a moment later. Here it is part of the change, so there is one order of events.

use serde_json::{Value, json};

use super::delete::{DeleteOptions, Propagation};
use super::store::Store;
use super::{At, meta};
use crate::kinds::Kind;

/// What an object's owners are like.
#[derive(Default)]
struct Owners {
    /// They are there.
    solid: usize,
    /// They are gone, or another object has their name.
    dangling: Vec<String>,
    /// They are going, after their dependents.
    waiting: Vec<String>,
}

impl Store {
    /// Remembers who has to be looked at because of a change. Most changes concern nobody.
    pub(super) fn note_doubts(&mut self, kind: Kind, at: &At, before: Option<&Value>, after: Option<&Value>) {
        let owners_before = before.map_or(&[][..], meta::owners);
        let owners_after = after.map_or(&[][..], meta::owners);
        if owners_before != owners_after {
            if after.is_some() {
                self.doubtful.push_back((kind, at.clone()));
            }
            self.doubt_waiting_owners(owners_before);
        }
        match (before, after) {
            (Some(gone), None) => {
                let uid = meta::uid(gone).to_owned();
                self.doubtful.extend(self.dependents(&uid));
                if !at.namespace.is_empty() {
                    self.doubtful.push_back((Kind::Namespace, At::new("", &at.namespace)));
                }
            }
            (_, Some(after)) if meta::is_deleting(after) => {
                if kind == Kind::Namespace {
                    self.doubtful.push_back((kind, at.clone()));
                }
                let before = before.filter(|before| meta::is_deleting(before));
                let begins = |finalizer| {
                    meta::has_finalizer(after, finalizer)
                        && !before.is_some_and(|before| meta::has_finalizer(before, finalizer))
                };
                if begins(meta::FOREGROUND) || begins(meta::ORPHAN) {
                    let uid = meta::uid(after).to_owned();
                    self.doubtful.extend(self.dependents(&uid));
                    self.doubtful.push_back((kind, at.clone()));
                }
            }
            _ => {}
        }
    }

    /// Looks at everyone in doubt until nobody is. What is deleted meanwhile waits for its turn in the same loop: a deletion that
    /// settled its own consequences would nest as deep as there are dependents.
    pub(super) fn settle(&mut self) {
        if self.is_settling {
            return;
        }
        self.is_settling = true;
        while let Some((kind, at)) = self.doubtful.pop_front() {
            self.settle_one(kind, &at);
        }
        self.is_settling = false;
    }

    fn doubt_waiting_owners(&mut self, owners: &[Value]) {
        for owner in owners.iter().filter_map(|owner| owner["uid"].as_str()) {
            let Some((kind, at)) = self.by_uid(owner).cloned() else { continue };
            if self.get(kind, &at).is_some_and(|owner| meta::waits_for_dependents(owner)) {
                self.doubtful.push_back((kind, at));
            }
        }
    }

    fn settle_one(&mut self, kind: Kind, at: &At) {
        let Some(object) = self.get(kind, at).cloned() else { return };
        if kind == Kind::Namespace {
            self.end_namespace(at, &object);
        }
        if meta::is_deleting(&object) {
            if meta::has_finalizer(&object, meta::ORPHAN) {
                self.let_dependents_go(kind, at, &object);
            } else if meta::waits_for_dependents(&object) && !self.is_blocked(&object) {
                self.take_finalizer(kind, at, &object, meta::FOREGROUND);
            }
            return;
        }
        let owners = self.owners(at, &object);
        if owners.dangling.is_empty() && owners.waiting.is_empty() {
            return;
        }
        if owners.solid > 0 {
            let gone: Vec<&str> = owners.dangling.iter().chain(&owners.waiting).map(String::as_str).collect();
            self.drop_owners(kind, at, &object, &gone);
            return;
        }
        let has_dependents = !self.dependents(meta::uid(&object)).is_empty();
        let propagation = (!owners.waiting.is_empty() && has_dependents).then_some(Propagation::Foreground);
        let options = DeleteOptions { propagation, ..DeleteOptions::default() };
        // It is there and no condition is set, so nothing can be said against it.
        let _gone = self.delete(kind, at, &options);
    }

    fn owners(&self, at: &At, object: &Value) -> Owners {
        let mut owners = Owners::default();
        for reference in meta::owners(object) {
            let text = |member: &str| reference[member].as_str().unwrap_or_default();
            // Nobody can say whether an owner of a kind that is not served exists, so it keeps what it has.
            if Kind::of(text("apiVersion"), text("kind")).is_none() {
                owners.solid += 1;
                continue;
            }
            let found = self.by_uid(text("uid")).filter(|(kind, place)| {
                kind.as_str() == text("kind")
                    && *place.name == *text("name")
                    && (place.namespace.is_empty() || place.namespace == at.namespace)
            });
            match found.and_then(|(kind, place)| self.get(*kind, place)) {
                None => owners.dangling.push(text("uid").to_owned()),
                Some(owner) if meta::waits_for_dependents(owner) => owners.waiting.push(text("uid").to_owned()),
                Some(_) => owners.solid += 1,
            }
        }
        owners
    }

    /// Whether a dependent is left that the object has to wait for.
    fn is_blocked(&self, object: &Value) -> bool {
        let uid = meta::uid(object);
        let blocks = |dependent: &Value| {
            meta::owners(dependent).iter().any(|owner| owner["uid"] == uid && owner["blockOwnerDeletion"] == true)
        };
        self.dependents(uid).iter().any(|(kind, at)| self.get(*kind, at).is_some_and(|dependent| blocks(dependent)))
    }

    fn let_dependents_go(&mut self, kind: Kind, at: &At, object: &Value) {
        let uid = meta::uid(object);
        for (of, place) in self.dependents(uid) {
            if let Some(dependent) = self.get(of, &place).cloned() {
                self.drop_owners(of, &place, &dependent, &[uid]);
            }
        }
        self.take_finalizer(kind, at, object, meta::ORPHAN);
    }

    fn drop_owners(&mut self, kind: Kind, at: &At, object: &Value, uids: &[&str]) {
        let mut object = object.clone();
        let kept =
            meta::owners(&object).iter().filter(|owner| !owner["uid"].as_str().is_some_and(|uid| uids.contains(&uid)));
        let kept: Vec<Value> = kept.cloned().collect();
        let value = if kept.is_empty() { Value::Null } else { json!(kept) };
        meta::set(&mut object, "ownerReferences", value);
        self.put(kind, at, object);
    }

    fn take_finalizer(&mut self, kind: Kind, at: &At, object: &Value, finalizer: &str) {
        let mut object = object.clone();
        let kept = meta::finalizers(&object).filter(|found| *found != finalizer).map(Value::from).collect();
        meta::set_finalizers(&mut object, kept);
        self.put_or_remove(kind, at, object);
    }

    fn end_namespace(&mut self, at: &At, namespace: &Value) {
        let is_empty = |store: &Self| {
            let mut kinds = Kind::ALL.iter().filter(|kind| kind.is_namespaced());
            kinds.all(|kind| store.list_in(*kind, &at.name).next().is_none())
        };
        if meta::is_deleting(namespace) && meta::finalizers(namespace).next().is_none() && is_empty(self) {
            self.remove(Kind::Namespace, at);
        }
    }
}
