//! Admission: what the plug-ins of a cluster make of an object, most of them by what other objects say.
//!
//! The API server calls it after its own defaults and before its own validation (`apiserver`); what follows from the object alone and
//! from its type is settled there.

mod limits;
mod pod;
mod storage;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::apiserver::Store;
use crate::fields::{each, name};
use crate::kinds::Kind;

/// Fills in what the cluster settles, or says why the object is forbidden (`Hooks::admit`). Most plug-ins care about new objects
/// alone.
pub fn admit(kind: Kind, object: &mut Value, old: Option<&Value>, store: &Store) -> Result<(), String> {
    match (kind, old) {
        (Kind::Pod, None) => pod::admit(object, store),
        (Kind::Pod, Some(old)) => {
            pod::admit_change(object, old);
            Ok(())
        }
        (Kind::Node, None) => {
            taint_node(object);
            Ok(())
        }
        (Kind::PriorityClass, _) => check_priority_class(object, store),
        (Kind::PersistentVolume, None) => {
            storage::protect_volume(object);
            Ok(())
        }
        (Kind::PersistentVolumeClaim, None) => storage::admit_claim(object, store),
        (Kind::PersistentVolumeClaim, Some(old)) => storage::admit_change(object, old, store),
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
    let is_other = |other: &&Arc<Value>| other["globalDefault"] == true && name(other) != name(class);
    match store.list(Kind::PriorityClass).find(is_other) {
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
