//! Making a volume for a claim, where its pod will run.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::ZONE;
use super::bind::SELECTED_NODE;
use crate::apiserver::{ApiServer, At};
use crate::fields::{self, annotation, at_cluster, each, hash64, name, uid};
use crate::kinds::Kind;

/// Makes the volume, unless its claim has gone or found another meanwhile. A node that the class does not reach is given back, so
/// that the scheduler chooses again.
pub(super) fn provision(at: &At, server: &ApiServer) {
    let Some(claim) = server.get(Kind::PersistentVolumeClaim, at) else { return };
    let class_name = claim["spec"]["storageClassName"].as_str().unwrap_or_default();
    let Some(class) = server.get(Kind::StorageClass, &at_cluster(class_name)) else { return };
    let has_volume = claim["spec"]["volumeName"].as_str().is_some_and(|name| !name.is_empty());
    if has_volume || fields::is_deleting(&claim) {
        return;
    }
    match place(&claim, &class, server) {
        Place::At { key, value } => create(&claim, &class, Some((&key, &value)), server),
        Place::Anywhere => create(&claim, &class, None, server),
        Place::Unreachable => {
            let patch = json!({"metadata": {"annotations": {SELECTED_NODE: Value::Null}}});
            // A claim that is gone needs no node.
            let _ = server.patch(Kind::PersistentVolumeClaim, at, &patch);
        }
    }
}

/// Where a volume can be reached from.
enum Place {
    At { key: String, value: String },
    Anywhere,
    Unreachable,
}

fn place(claim: &Value, class: &Value, server: &ApiServer) -> Place {
    let (key, allowed) = allowed(class);
    if let Some(selected) = annotation(claim, SELECTED_NODE) {
        let node = server.get(Kind::Node, &at_cluster(selected));
        let value = node.as_ref().and_then(|node| node["metadata"]["labels"][key.as_str()].as_str());
        return match value {
            Some(value) if allowed.is_empty() || allowed.contains(value) => Place::At { key, value: value.to_owned() },
            None if allowed.is_empty() && node.is_some() => Place::Anywhere,
            _ => Place::Unreachable,
        };
    }
    let choices: BTreeSet<String> = if allowed.is_empty() {
        let nodes = server.list(Kind::Node);
        nodes.iter().filter_map(|node| node["metadata"]["labels"][ZONE].as_str().map(str::to_owned)).collect()
    } else {
        allowed
    };
    // Nobody has chosen, so the claim's name does: claims of a set then lie in several zones.
    let place = (hash64(name(claim)) % (choices.len().max(1) as u64)) as usize;
    match choices.into_iter().nth(place) {
        Some(value) => Place::At { key, value },
        None => Place::Anywhere,
    }
}

/// The label that the class's topology is told in, and the values that it reaches; none means all.
fn allowed(class: &Value) -> (String, BTreeSet<String>) {
    let mut expressions =
        each(&class["allowedTopologies"]).flat_map(|term| each(&term["matchLabelExpressions"])).peekable();
    let key = expressions.peek().and_then(|expression| expression["key"].as_str()).unwrap_or(ZONE).to_owned();
    let of_key = expressions.filter(|expression| expression["key"] == key.as_str());
    let values = of_key.flat_map(|expression| each(&expression["values"])).filter_map(Value::as_str);
    let values = values.map(str::to_owned).collect();
    (key, values)
}

fn create(claim: &Value, class: &Value, place: Option<(&str, &str)>, server: &ApiServer) {
    let volume_name = format!("pvc-{}", uid(claim));
    let provisioner = class["provisioner"].as_str().unwrap_or_default();
    let mut spec = json!({
        "accessModes": claim["spec"]["accessModes"],
        "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
        "claimRef": {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": fields::namespace(claim),
            "name": name(claim), "uid": uid(claim),
        },
        "csi": {"driver": provisioner, "volumeHandle": volume_name},
        "persistentVolumeReclaimPolicy": class["reclaimPolicy"],
        "storageClassName": name(class),
        "volumeMode": claim["spec"]["volumeMode"],
    });
    if let Some((key, value)) = place {
        let expression = json!({"key": key, "operator": "In", "values": [value]});
        spec["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}});
    }
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": volume_name, "annotations": {"pv.kubernetes.io/provisioned-by": provisioner}},
        "spec": spec,
    });
    // One of that name was made for this very claim already.
    let _ = server.create(volume);
    let note = json!({"metadata": {"annotations": {"volume.kubernetes.io/storage-provisioner": provisioner}}});
    let _ = server.patch(Kind::PersistentVolumeClaim, &fields::at(claim), &note);
}
