//! Volumes: claims are bound or provisioned, volumes attached to nodes and detached, and nothing is removed that is in use.
//!
//! All volumes that a StorageClass brings are CSI volumes of its provisioner. `Node.status.volumesAttached` is not kept: nobody here
//! reads it.

mod attach;
mod bind;
mod pods;
mod provision;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::apiserver::{ApiServer, At, Change, Deletion};
use crate::fields::{self, at_cluster, each, is_deleting, owner_reference, phase, uid};
use crate::kinds::Kind;
use crate::standin::StandIn;
use attach::Attachments;
use pods::{Users, create_ephemeral_claims};

pub(crate) use attach::are_volumes_attached;

const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
const ZONE: &str = "topology.kubernetes.io/zone";

/// How long things take, and what nodes can attach.
#[derive(Clone, Debug)]
pub struct Settings {
    pub provision_seconds: i64,
    pub attach_seconds: i64,
    pub detach_seconds: i64,
    /// Drivers that every node has.
    pub drivers: Vec<Driver>,
}

/// A CSI driver as it stands in a CSINode.
#[derive(Clone, Debug)]
pub struct Driver {
    pub name: String,
    /// How many volumes of it a node can have; without it as many as it likes.
    pub attachable: Option<u32>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { provision_seconds: 2, attach_seconds: 2, detach_seconds: 3, drivers: Vec::new() }
    }
}

/// The volume controllers: binder, provisioners, attacher, and protection of what is in use.
#[derive(Default)]
pub struct Volumes {
    settings: Settings,
    users: Users,
    attachments: Attachments,
    dirty_claims: BTreeSet<At>,
    /// Claims that have no volume yet: a new volume or class may be for them.
    unbound: BTreeSet<At>,
    dirty_volumes: BTreeSet<Arc<str>>,
    /// Volumes without a claim.
    free: BTreeSet<Arc<str>>,
    /// Volumes by the claim that they name.
    by_claim: BTreeMap<At, Arc<str>>,
    new_nodes: BTreeSet<Arc<str>>,
    ephemeral_pods: BTreeSet<At>,
    /// Claims that a provisioner is at work for.
    provisioning: BTreeMap<At, Timestamp>,
}

impl Volumes {
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    fn heed_pod(&mut self, change: &Change) {
        let pod = change.after.as_ref().or(change.before.as_ref());
        if pod.is_none_or(|pod| pod["spec"]["volumes"].is_null()) {
            return;
        }
        if change.before.is_none() {
            self.ephemeral_pods.insert(change.at.clone());
        }
        for claim in self.users.heed(change) {
            self.attachments.touch(&claim);
            self.dirty_claims.insert(claim);
        }
    }

    fn heed_claim(&mut self, change: &Change) {
        self.dirty_claims.insert(change.at.clone());
        self.attachments.touch(&change.at);
        let is_unbound = change.after.as_ref().is_some_and(|claim| phase(claim) != "Bound");
        if is_unbound {
            self.unbound.insert(change.at.clone());
        } else {
            self.unbound.remove(&change.at);
        }
        if change.after.is_none() {
            self.provisioning.remove(&change.at);
            self.dirty_volumes.extend(self.by_claim.get(&change.at).cloned());
        }
    }

    fn heed_volume(&mut self, change: &Change) {
        let volume = &change.at.name;
        if let Some(claim) = change.before.as_ref().and_then(|volume| claim_of(volume)) {
            self.by_claim.remove(&claim);
        }
        self.free.remove(volume);
        if let Some(wire) = &change.after {
            self.dirty_volumes.insert(volume.clone());
            match claim_of(wire) {
                Some(claim) => {
                    self.attachments.touch(&claim);
                    self.dirty_claims.insert(claim.clone());
                    self.by_claim.insert(claim, volume.clone());
                }
                None => {
                    self.free.insert(volume.clone());
                    self.dirty_claims.extend(self.unbound.iter().cloned());
                }
            }
        }
    }

    /// A volume whose claim is gone goes too, or is kept for somebody to look at; one without a claim is for sale.
    fn settle_volume(&mut self, volume: &Arc<str>, server: &ApiServer) {
        let Some(wire) = server.get(Kind::PersistentVolume, &at_cluster(volume)) else { return };
        if is_deleting(&wire) {
            if phase(&wire) != "Bound" || self.is_claim_gone(&wire, server) {
                unprotect(server, Kind::PersistentVolume, &wire, VOLUME_PROTECTION);
            }
            return;
        }
        let is_claimed = !wire["spec"]["claimRef"]["uid"].is_null();
        match phase(&wire) {
            "Pending" if !is_claimed => write_phase(server, Kind::PersistentVolume, &wire, "Available"),
            "Bound" | "Pending" if is_claimed && self.is_claim_gone(&wire, server) => {
                write_phase(server, Kind::PersistentVolume, &wire, "Released");
                if wire["spec"]["persistentVolumeReclaimPolicy"] == "Delete" {
                    // It may be gone already.
                    let _ = server.delete(Kind::PersistentVolume, &at_cluster(volume), &Deletion::default());
                }
            }
            _ => {}
        }
    }

    fn is_claim_gone(&self, volume: &Value, server: &ApiServer) -> bool {
        let Some(claim) = claim_of(volume) else { return true };
        let found = server.get(Kind::PersistentVolumeClaim, &claim);
        let wanted = volume["spec"]["claimRef"]["uid"].as_str();
        found.is_none_or(|found| wanted.is_some_and(|wanted| wanted != uid(&found)))
    }

    fn settle_claim(&mut self, at: &At, server: &ApiServer) {
        let Some(claim) = server.get(Kind::PersistentVolumeClaim, at) else { return };
        if is_deleting(&claim) {
            if !self.users.is_in_use(at) {
                unprotect(server, Kind::PersistentVolumeClaim, &claim, CLAIM_PROTECTION);
            }
            return;
        }
        if phase(&claim) != "Bound" {
            self.seek_volume(at, &claim, server);
        }
    }

    /// Every node says which drivers it has.
    fn register_node(&self, node: &str, server: &ApiServer) {
        let at = at_cluster(node);
        let Some(wire) = server.get(Kind::Node, &at) else { return };
        if server.get(Kind::CsiNode, &at).is_some() {
            return;
        }
        let drivers = self.settings.drivers.iter().map(|driver| {
            let mut entry = json!({"name": driver.name, "nodeID": node, "topologyKeys": [ZONE]});
            if let Some(count) = driver.attachable {
                entry["allocatable"] = json!({"count": count});
            }
            entry
        });
        let mut owner = owner_reference(&wire);
        owner["apiVersion"] = json!("v1");
        owner["kind"] = json!("Node");
        // Somebody else may have made it first.
        let _ = server.create(json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
            "metadata": {"name": node, "ownerReferences": [owner]},
            "spec": {"drivers": drivers.collect::<Vec<_>>()},
        }));
    }
}

impl StandIn for Volumes {
    fn name(&self) -> &'static str {
        "volumes"
    }

    fn heed(&mut self, change: &Change, _server: &ApiServer) {
        match change.kind {
            Kind::Pod => self.heed_pod(change),
            Kind::PersistentVolumeClaim => self.heed_claim(change),
            Kind::PersistentVolume => self.heed_volume(change),
            Kind::StorageClass => self.dirty_claims.extend(self.unbound.iter().cloned()),
            Kind::Node if change.before.is_none() => drop(self.new_nodes.insert(change.at.name.clone())),
            Kind::VolumeAttachment => self.attachments.heed(change),
            _ => {}
        }
    }

    fn settle(&mut self, server: &ApiServer) {
        for node in std::mem::take(&mut self.new_nodes) {
            self.register_node(&node, server);
        }
        for pod in std::mem::take(&mut self.ephemeral_pods) {
            create_ephemeral_claims(&pod, server);
        }
        for claim in std::mem::take(&mut self.dirty_claims) {
            self.settle_claim(&claim, server);
        }
        for volume in std::mem::take(&mut self.dirty_volumes) {
            self.settle_volume(&volume, server);
        }
        self.attachments.settle(&self.users, &self.settings, server);
    }

    fn next(&self) -> Option<Timestamp> {
        self.provisioning.values().copied().chain(self.attachments.next()).min()
    }

    fn wake(&mut self, now: Timestamp, server: &ApiServer) {
        let due: Vec<At> =
            self.provisioning.iter().filter(|(_, at)| **at <= now).map(|(claim, _)| claim.clone()).collect();
        for claim in due {
            self.provisioning.remove(&claim);
            provision::provision(&claim, server);
        }
        self.attachments.wake(now, server);
        self.attachments.settle(&self.users, &self.settings, server);
    }
}

/// The claim that a volume belongs to.
fn claim_of(volume: &Value) -> Option<At> {
    let reference = &volume["spec"]["claimRef"];
    Some(fields::at_in(reference["namespace"].as_str()?, reference["name"].as_str()?))
}

fn write_phase(server: &ApiServer, kind: Kind, object: &Value, phase: &str) {
    // An object that is gone needs no status.
    let _ = server.patch_status(kind, &fields::at(object), &json!({"status": {"phase": phase}}));
}

fn unprotect(server: &ApiServer, kind: Kind, object: &Value, finalizer: &str) {
    let finalizers = &object["metadata"]["finalizers"];
    if !each(finalizers).any(|present| present == finalizer) {
        return;
    }
    let kept: Vec<&Value> = each(finalizers).filter(|present| *present != finalizer).collect();
    let _ = server.patch(kind, &fields::at(object), &json!({"metadata": {"finalizers": kept}}));
}

#[cfg(test)]
mod tests;
