//! Everything that we tell people about their objects: one function per event.

use cluster::Undecodable;
use k8s_openapi::api::core::v1::ObjectReference;
use runtime::Note;

/// An object that cannot be read is skipped, and its owner is told.
pub fn undecodable(object: &Undecodable) -> Note {
    let regarding = ObjectReference {
        kind: Some(object.key.kind.to_string()),
        name: Some(object.key.name.to_string()),
        namespace: Some(object.key.namespace.to_string()).filter(|namespace| !namespace.is_empty()),
        ..ObjectReference::default()
    };
    let message = format!("This object is skipped because it cannot be read: {}", object.problem);
    Note::warning(regarding, "Undecodable", message).dedupe([object.key.to_string(), object.problem.to_string()])
}
