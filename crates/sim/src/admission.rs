//! Admission: what the plug-ins of a cluster make of a new object, most of them by what other objects say.
//!
//! The API server calls it after its own defaults and before its own validation (`apiserver`); what follows from the object alone and
//! from its type is settled there.

mod limits;
mod pod;
mod storage;

use serde_json::{Value, json};

use crate::apiserver::Store;
use crate::fields::{each, name};
use crate::kinds::Kind;

/// Fills in what the cluster settles, or says why the object is forbidden (`Hooks::admit`).
pub fn admit_new(kind: Kind, object: &mut Value, store: &Store) -> Result<(), String> {
    match kind {
        Kind::Pod => pod::admit(object, store),
        Kind::Node => {
            taint_node(object);
            Ok(())
        }
        Kind::PriorityClass => check_priority_class(object, store),
        Kind::PersistentVolume => {
            storage::protect_volume(object);
            Ok(())
        }
        Kind::PersistentVolumeClaim => storage::admit_claim(object, store),
        _ => Ok(()),
    }
}

/// A node is born with the taint that its first heartbeat takes off.
fn taint_node(node: &mut Value) {
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    let has_it = each(&node["spec"]["taints"])
        .any(|present| present["key"] == taint["key"] && present["effect"] == taint["effect"]);
    if !has_it {
        list_of(&mut node["spec"]["taints"]).push(taint);
    }
}

fn check_priority_class(class: &Value, store: &Store) -> Result<(), String> {
    if class["globalDefault"] != true {
        return Ok(());
    }
    match store.list(Kind::PriorityClass).find(|other| other["globalDefault"] == true) {
        None => Ok(()),
        Some(other) => {
            Err(format!("PriorityClass {} is already marked as default. Only one default can exist", name(other)))
        }
    }
}

/// The list in a field, made if there is none.
fn list_of(field: &mut Value) -> &mut Vec<Value> {
    if !field.is_array() {
        *field = Value::Array(Vec::new());
    }
    field.as_array_mut().expect("it has just been made a list")
}

#[cfg(test)]
mod tests;
