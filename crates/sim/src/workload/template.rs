//! From a template to a pod.

use serde_json::{Value, json};

use crate::apiserver::{ApiServer, At, Deletion};
use crate::fields::{self, namespace, owner_reference};
use crate::kinds::Kind;

/// How the pod gets its name.
pub(super) enum Naming {
    /// A random ending after the beginning.
    Generated(String),
    Fixed(String),
}

/// A pod of an owner, made from a template, without anything that the owner's kind adds.
pub(super) fn pod(owner: &Value, template: &Value, naming: Naming) -> Value {
    let mut metadata = json!({"namespace": namespace(owner), "ownerReferences": [owner_reference(owner)]});
    for key in ["labels", "annotations", "finalizers"] {
        if !template["metadata"][key].is_null() {
            metadata[key] = template["metadata"][key].clone();
        }
    }
    match naming {
        Naming::Generated(prefix) => metadata["generateName"] = Value::String(prefix),
        Naming::Fixed(name) => metadata["name"] = Value::String(name),
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"].clone()})
}

/// Deletes a pod the usual way. One that is gone already is fine.
pub(super) fn delete_pod(server: &ApiServer, at: &At, uid: &str) {
    let deletion = Deletion { uid: Some(uid.to_owned()), ..Deletion::default() };
    // The only refusals are that it is gone or another one by now; either way the next change says so.
    let _ = server.delete(Kind::Pod, at, &deletion);
}

/// The status of a workload, written if it says anything new.
pub(super) fn write_status(server: &ApiServer, kind: Kind, object: &Value, mut status: Value) {
    // Jobs have no such field.
    if kind != Kind::Job {
        status["observedGeneration"] = object["metadata"]["generation"].clone();
    }
    // A workload that is gone needs no status.
    let _ = server.patch_status(kind, &fields::at(object), &json!({"status": status}));
}
