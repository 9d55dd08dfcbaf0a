//! What the server makes of an object before it is stored: fields that are its own business, and which part may be written.

use serde_json::{Value, json};

use super::denial::{Cause, Denial};
use super::{At, meta, pods};
use crate::kinds::{Kind, Subresource};

pub(super) fn settle_namespace(kind: Kind, namespace: &str, object: &mut Value) -> Result<(), Denial> {
    if !kind.is_namespaced() {
        meta::set(object, "namespace", Value::Null);
        return Ok(());
    }
    let given = meta::namespace(object);
    if !given.is_empty() && given != namespace {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Denial::bad_request(message));
    }
    object["metadata"]["namespace"] = namespace.into();
    Ok(())
}

pub(super) fn wipe_system_fields(object: &mut Value) {
    for field in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "selfLink",
        "managedFields",
        "resourceVersion",
    ] {
        meta::set(object, field, Value::Null);
    }
}

/// What a new object's status is, whatever the client says.
pub(super) fn prepare_status(kind: Kind, object: &mut Value) {
    match kind {
        Kind::Pod => pods::prepare_status(object),
        // A node may be born with a status: kubelets register theirs so.
        Kind::Node => {}
        Kind::Namespace => {
            object["spec"] = json!({"finalizers": ["kubernetes"]});
            object["status"] = json!({"phase": "Active"});
            let name = meta::name(object).to_owned();
            object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name.into();
        }
        Kind::PersistentVolume | Kind::PersistentVolumeClaim => object["status"] = json!({"phase": "Pending"}),
        kind if kind.has(Subresource::Status) => meta::put_member(object, "status", first_status(kind)),
        _ => {}
    }
}

/// What the API writes of a status in which nothing is said yet: counts that cannot be absent are nought.
fn first_status(kind: Kind) -> Value {
    match kind {
        Kind::Deployment | Kind::Job => json!({}),
        Kind::ReplicaSet => json!({"replicas": 0}),
        Kind::StatefulSet => json!({"availableReplicas": 0, "replicas": 0}),
        Kind::DaemonSet => json!({
            "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
        }),
        Kind::PodDisruptionBudget => {
            json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0})
        }
        _ => Value::Null,
    }
}

pub(super) fn check_identity(kind: Kind, at: &At, old: &Value, new: &Value) -> Result<(), Denial> {
    let (name, namespace) = (meta::name(new), meta::namespace(new));
    if name != &*at.name {
        let message = format!("the name of the object ({name}) does not match the name on the URL ({})", at.name);
        return Err(Denial::bad_request(message));
    }
    if !namespace.is_empty() && kind.is_namespaced() && namespace != &*at.namespace {
        let message = format!(
            "the namespace of the object ({namespace}) does not match the namespace on the request ({})",
            at.namespace
        );
        return Err(Denial::bad_request(message));
    }
    let (before, after) = (meta::uid(old), meta::uid(new));
    if !after.is_empty() && after != before {
        let why = format!("Precondition failed: UID in precondition: {after}, UID in object meta: {before}");
        return Err(Denial::conflict(kind, &at.name, &why));
    }
    match meta::version(new) {
        "" if !updates_unconditionally(kind) => {
            let cause = Cause::invalid("metadata.resourceVersion", &0.into(), "must be specified for an update");
            Err(Denial::invalid(kind, &at.name, &[cause]))
        }
        version if !version.is_empty() && version != meta::version(old) => Err(Denial::modified(kind, &at.name)),
        _ => Ok(()),
    }
}

/// A write of the object leaves its status alone, if that has an address of its own.
pub(super) fn main_write(kind: Kind, old: &Value, mut new: Value) -> Value {
    if kind.has(Subresource::Status) {
        meta::put_member(&mut new, "status", old["status"].clone());
    }
    if kind == Kind::Namespace {
        meta::put_member(&mut new, "spec", old["spec"].clone());
    }
    new
}

/// A write of the status leaves everything else alone; but who may write the status of a built-in kind may also write labels,
/// annotations and finalizers there, which kubelets do.
pub(super) fn status_write(kind: Kind, old: &Value, mut new: Value) -> Value {
    if kind.is_custom() {
        let mut object = old.clone();
        let status = new.get_mut("status").map(Value::take).unwrap_or_default();
        meta::put_member(&mut object, "status", status);
        return object;
    }
    if kind == Kind::Pod && new["status"]["qosClass"].is_null() {
        // Settled at birth; kubelets may leave it out.
        new["status"]["qosClass"] = old["status"]["qosClass"].clone();
    }
    let owners = old["metadata"]["ownerReferences"].clone();
    meta::set(&mut new, "ownerReferences", owners);
    let others = old.as_object().into_iter().flatten();
    for (member, value) in others.filter(|(member, _)| !["metadata", "status"].contains(&member.as_str())) {
        meta::put_member(&mut new, member, value.clone());
    }
    new
}

/// What no client may change: it is put back without a word, as the API server does.
pub(super) fn keep_system_fields(old: &Value, new: &mut Value) {
    for field in
        ["uid", "creationTimestamp", "generation", "resourceVersion", "namespace", "generateName", "managedFields"]
    {
        meta::set(new, field, old["metadata"][field].clone());
    }
    if meta::is_deleting(old) {
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
            meta::set(new, field, old["metadata"][field].clone());
        }
    }
    for member in ["apiVersion", "kind"] {
        meta::put_member(new, member, old[member].clone());
    }
    drop_empty(new);
}

/// Lists and maps that are empty are absent: the API's types do not write them.
pub(super) fn drop_empty(object: &mut Value) {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(entries) => entries.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        if is_empty(&object["metadata"][field]) {
            meta::set(object, field, Value::Null);
        }
    }
    for member in ["data", "binaryData"] {
        if is_empty(&object[member]) {
            meta::put_member(object, member, Value::Null);
        }
    }
}

/// A field that is null is a field that is missing, and is stored as such.
pub(super) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(entries) => entries.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

pub(super) fn is_new_generation(kind: Kind, old: &Value, new: &Value) -> bool {
    let differs = |member: &str| old[member] != new[member];
    match kind {
        // Its controller keeps notes there that it must see itself.
        Kind::Deployment => differs("spec") || old["metadata"]["annotations"] != new["metadata"]["annotations"],
        Kind::PriorityClass => false,
        _ => differs("spec"),
    }
}

/// Kinds whose objects count the versions of what they want.
pub(super) fn has_generation(kind: Kind) -> bool {
    use Kind as K;
    kind.is_custom()
        || matches!(
            kind,
            K::Pod
                | K::Deployment
                | K::ReplicaSet
                | K::StatefulSet
                | K::DaemonSet
                | K::Job
                | K::PodDisruptionBudget
                | K::PriorityClass
        )
}

/// Kinds whose objects can be replaced without saying which version is meant.
fn updates_unconditionally(kind: Kind) -> bool {
    use Kind as K;
    !kind.is_custom()
        && !matches!(kind, K::PodDisruptionBudget | K::RuntimeClass | K::VolumeAttachment | K::CsiNode | K::Lease)
}
