//! Making and changing objects.

use std::sync::Arc;

use serde_json::{Value, json};

use super::denial::{Cause, Denial, not_served, spoken_name};
use super::prepare::{
    check_identity, drop_empty, drop_nulls, has_generation, is_new_generation, keep_system_fields, main_write,
    prepare_status, settle_namespace, status_write, wipe_system_fields,
};
use super::store::Store;
use super::{At, defaults, meta, pods, shape, validate};
use crate::kinds::Kind;

/// How often a generated name that is taken is drawn again.
const NAME_DRAWS: usize = 8;

/// Which part of an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Main,
    Status,
}

/// Who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A stand-in, whose objects have the right shape.
    Inside,
    /// A client.
    Outside,
    /// A client who only wants to know what would come of it.
    DryRun,
}

impl Store {
    pub(super) fn create(
        &mut self,
        kind: Kind,
        namespace: &str,
        mut object: Value,
        source: Source,
    ) -> Result<Arc<Value>, Denial> {
        if !object["metadata"].is_object() {
            object["metadata"] = json!({});
        }
        settle_namespace(kind, namespace, &mut object)?;
        if !meta::version(&object).is_empty() {
            return Err(Denial::bare(500, "resourceVersion should not be set on objects to be created"));
        }
        if source != Source::Inside {
            shape::check(kind, &mut object).map_err(|error| shape::unreadable(kind, &error))?;
        } else if !kind.is_custom() {
            drop_nulls(&mut object);
        }
        self.check_namespace(kind, &object)?;
        wipe_system_fields(&mut object);
        drop_empty(&mut object);
        defaults::fill(kind, &mut object);
        self.admit(kind, &mut object, None)?;
        self.generate_name(kind, &mut object);
        prepare_status(kind, &mut object);
        let mut causes = validate::metadata(kind, &object);
        if let Some(rules) = self.hooks.rules.get(&kind) {
            causes.extend(broken(rules.admit(&mut object, None)));
        }
        causes.extend(shape::new_object(kind, &object));
        if !causes.is_empty() {
            return Err(Denial::invalid(kind, spoken_name(&object), &causes));
        }
        let at = At::of(&object);
        if self.get(kind, &at).is_some() {
            return Err(Denial::already_exists(kind, &at.name));
        }
        object["metadata"]["uid"] = self.rng.uuid().into();
        object["metadata"]["creationTimestamp"] = self.stamp().into();
        if has_generation(kind) {
            object["metadata"]["generation"] = 1.into();
        }
        if kind == Kind::Job {
            defaults::name_pods_of_job(&mut object);
        }
        if source == Source::DryRun {
            return Ok(Arc::new(object));
        }
        let stored = self.put(kind, &at, object);
        self.settle();
        Ok(stored)
    }

    /// A merge patch of one part of an object.
    pub(super) fn patch(
        &mut self,
        kind: Kind,
        at: &At,
        patch: &Value,
        part: Part,
        source: Source,
    ) -> Result<Arc<Value>, Denial> {
        let Some(old) = self.get(kind, at) else { return Err(Denial::not_found(kind, &at.name)) };
        let mut object = Value::clone(old);
        meta::merge(&mut object, patch);
        if meta::uid(&object) != meta::uid(old) && !meta::uid(&object).is_empty() {
            let cause = Cause::immutable("metadata.uid", &object["metadata"]["uid"]);
            return Err(Denial::invalid(kind, &at.name, &[cause]));
        }
        if source != Source::Inside {
            let unreadable = |error: String| {
                Denial::invalid(kind, "", &[Cause::invalid("patch", &patch.to_string().into(), &error)])
            };
            shape::check(kind, &mut object).map_err(unreadable)?;
        }
        self.update(kind, at, object, part, source)
    }

    /// Replaces one part of an object. A version or uid that the new object names must be the present one.
    pub(super) fn update(
        &mut self,
        kind: Kind,
        at: &At,
        object: Value,
        part: Part,
        source: Source,
    ) -> Result<Arc<Value>, Denial> {
        let Some(old) = self.get(kind, at).cloned() else { return Err(Denial::not_found(kind, &at.name)) };
        check_identity(kind, at, &old, &object)?;
        let mut new = match part {
            Part::Main => main_write(kind, &old, object),
            Part::Status => status_write(kind, &old, object),
        };
        keep_system_fields(&old, &mut new);
        if new == *old {
            return Ok(old);
        }
        if part == Part::Main {
            defaults::fill(kind, &mut new);
            self.admit(kind, &mut new, Some(&old))?;
        }
        let causes = self.check_change(kind, &old, &mut new, part);
        if !causes.is_empty() {
            return Err(Denial::invalid(kind, &at.name, &causes));
        }
        // Defaults and admission may have undone the change.
        if new == *old {
            return Ok(old);
        }
        if part == Part::Main && has_generation(kind) && is_new_generation(kind, &old, &new) {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
            new["metadata"]["generation"] = generation.into();
        }
        if source == Source::DryRun {
            return Ok(Arc::new(new));
        }
        let stored = self.put_or_remove(kind, at, new);
        self.settle();
        Ok(stored)
    }

    /// Stores an object, unless it is going and nothing holds it any more: then it goes.
    pub(super) fn put_or_remove(&mut self, kind: Kind, at: &At, object: Value) -> Arc<Value> {
        let is_held = meta::finalizers(&object).next().is_some()
            || object["metadata"]["deletionGracePeriodSeconds"].as_i64().is_some_and(|left| left > 0)
            // A namespace has a finalizer of its own, in its spec, that only its emptiness takes off.
            || kind == Kind::Namespace;
        if meta::is_deleting(&object) && !is_held {
            self.remove(kind, at);
            return Arc::new(object);
        }
        self.put(kind, at, object)
    }

    fn check_change(&self, kind: Kind, old: &Value, new: &mut Value, part: Part) -> Vec<Cause> {
        let mut causes = Vec::new();
        if new["metadata"] != old["metadata"] {
            causes.extend(validate::metadata(kind, new));
            causes.extend(validate::metadata_change(old, new));
        }
        if let Some(rules) = self.hooks.rules.get(&kind) {
            causes.extend(broken(rules.admit(new, Some(old))));
        }
        if part == Part::Main {
            causes.extend(shape::fixed_members(kind, old, new));
        }
        if part == Part::Main && new["spec"] != old["spec"] {
            causes.extend(shape::changed_object(kind, old, new));
            if kind == Kind::Pod {
                causes.extend(pods::what_may_not_change(&old["spec"], &new["spec"]));
            }
        }
        causes
    }

    /// What the plug-ins of a cluster make of an object.
    fn admit(&self, kind: Kind, object: &mut Value, old: Option<&Value>) -> Result<(), Denial> {
        let Some(admit) = self.hooks.admit.filter(|_| !kind.is_custom()) else { return Ok(()) };
        admit(kind, object, old, self).map_err(|why| Denial::forbidden(kind, spoken_name(object), &why))
    }

    /// Refuses a kind whose definition this cluster lacks.
    pub(super) fn check_served(&self, kind: Kind) -> Result<(), Denial> {
        if self.hooks.absent.contains(&kind) {
            return Err(not_served(kind.api_version(), kind.as_str()));
        }
        Ok(())
    }

    fn check_namespace(&self, kind: Kind, object: &Value) -> Result<(), Denial> {
        if !kind.is_namespaced() {
            return Ok(());
        }
        let namespace = meta::namespace(object);
        let Some(found) = self.get(Kind::Namespace, &At::new("", namespace)) else {
            return Err(Denial::not_found(Kind::Namespace, namespace));
        };
        if meta::is_deleting(found) {
            let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
            let cause = json!({
                "reason": "NamespaceTerminating", "field": "metadata.namespace",
                "message": format!("namespace {namespace} is being terminated"),
            });
            return Err(Denial::forbidden(kind, spoken_name(object), &why).with_cause(&cause));
        }
        Ok(())
    }

    fn generate_name(&self, kind: Kind, object: &mut Value) {
        let prefix = object["metadata"]["generateName"].as_str().unwrap_or_default().to_owned();
        if !meta::name(object).is_empty() || prefix.is_empty() {
            return;
        }
        for _ in 0..NAME_DRAWS {
            object["metadata"]["name"] = self.rng.name(&prefix).into();
            if self.get(kind, &At::of(object)).is_none() {
                return;
            }
        }
    }
}

fn broken(verdict: Result<(), Vec<super::hooks::RuleViolation>>) -> Vec<Cause> {
    let violations = verdict.err().unwrap_or_default().into_iter();
    violations.map(|found| Cause { field: found.field, reason: found.reason, message: found.message }).collect()
}
