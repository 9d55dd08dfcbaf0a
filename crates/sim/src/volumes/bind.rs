//! Finding a volume for a claim.

use std::sync::Arc;

use api::Quantity;
use serde_json::{Value, json};

use super::{Volumes, claim_of, write_phase};
use crate::apiserver::{ApiServer, At};
use crate::fields::{
    self, Selector, after_seconds, annotation, at_cluster, each, labels, matches_node_terms, name, uid,
};
use crate::kinds::Kind;

/// The scheduler's choice for a claim that waits for its first consumer.
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

impl Volumes {
    /// Binds a claim to a volume that is there, or has one made.
    pub(super) fn seek_volume(&mut self, at: &At, claim: &Value, server: &ApiServer) {
        if let Some(volume) = self.own_volume(at, claim, server) {
            bind(claim, &volume, server);
            return;
        }
        if claim["spec"]["volumeName"].as_str().is_some_and(|wanted| !wanted.is_empty()) {
            return;
        }
        let class_name = claim["spec"]["storageClassName"].as_str().unwrap_or_default();
        let class = server.get(Kind::StorageClass, &at_cluster(class_name));
        let waits = class.as_ref().is_some_and(|class| class["volumeBindingMode"] == "WaitForFirstConsumer");
        let node = annotation(claim, SELECTED_NODE).and_then(|node| server.get(Kind::Node, &at_cluster(node)));
        if waits && node.is_none() {
            return;
        }
        if let Some(volume) = self.free_volume(claim, node.as_deref(), server) {
            bind(claim, &volume, server);
        } else if class.is_some_and(|class| class["provisioner"] != NO_PROVISIONER) {
            let due = after_seconds(server.now(), self.settings.provision_seconds);
            self.provisioning.entry(at.clone()).or_insert(due);
        }
    }

    /// The volume that the claim names, or that names the claim.
    fn own_volume(&self, at: &At, claim: &Value, server: &ApiServer) -> Option<Arc<Value>> {
        let named = claim["spec"]["volumeName"].as_str().filter(|name| !name.is_empty());
        let volume = named.or_else(|| self.by_claim.get(at).map(|name| &**name))?;
        let volume = server.get(Kind::PersistentVolume, &at_cluster(volume))?;
        let is_ours = match claim_of(&volume) {
            None => true,
            Some(of) => of == *at && volume["spec"]["claimRef"]["uid"].as_str().is_none_or(|of| of == uid(claim)),
        };
        (is_ours && fields::phase(&volume) != "Released").then_some(volume)
    }

    /// The smallest volume that nobody has and that is enough.
    fn free_volume(&self, claim: &Value, node: Option<&Value>, server: &ApiServer) -> Option<Arc<Value>> {
        let volumes = self.free.iter().filter_map(|name| server.get(Kind::PersistentVolume, &at_cluster(name)));
        let fitting = volumes.filter(|volume| fits(volume, claim, node));
        fitting.min_by_key(|volume| (quantity(&volume["spec"]["capacity"]["storage"]), name(volume).to_owned()))
    }
}

fn fits(volume: &Value, claim: &Value, node: Option<&Value>) -> bool {
    let (have, want) = (&volume["spec"], &claim["spec"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let has_mode = |mode: &Value| each(&have["accessModes"]).any(|present| present == mode);
    let required = &have["nodeAffinity"]["required"];
    !fields::is_deleting(volume)
        && text(&have["storageClassName"]) == text(&want["storageClassName"])
        && have["volumeMode"] == want["volumeMode"]
        && each(&want["accessModes"]).all(has_mode)
        && quantity(&have["capacity"]["storage"]) >= quantity(&want["resources"]["requests"]["storage"])
        && (want["selector"].is_null() || Selector::of(&want["selector"]).matches(labels(volume)))
        && node.is_none_or(|node| required.is_null() || matches_node_terms(&required["nodeSelectorTerms"], node))
}

fn quantity(value: &Value) -> Option<Quantity> {
    serde_json::from_value(value.clone()).ok()
}

/// Ties both to each other. What is tied already stays as it is.
pub(super) fn bind(claim: &Value, volume: &Value, server: &ApiServer) {
    let reference = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": fields::namespace(claim),
        "name": name(claim), "uid": uid(claim),
    });
    let note = json!({"pv.kubernetes.io/bound-by-controller": "yes"});
    let patch = json!({"metadata": {"annotations": note}, "spec": {"claimRef": reference}});
    // Whatever is refused here concerns an object that is gone, and its last change is still to be heard.
    if server.patch(Kind::PersistentVolume, &fields::at(volume), &patch).is_err() {
        return;
    }
    write_phase(server, Kind::PersistentVolume, volume, "Bound");
    let notes = json!({"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"});
    let patch = json!({"metadata": {"annotations": notes}, "spec": {"volumeName": name(volume)}});
    let _ = server.patch(Kind::PersistentVolumeClaim, &fields::at(claim), &patch);
    let status = json!({
        "phase": "Bound", "accessModes": volume["spec"]["accessModes"], "capacity": volume["spec"]["capacity"],
    });
    let _ = server.patch_status(Kind::PersistentVolumeClaim, &fields::at(claim), &json!({"status": status}));
}
