//! Attaching volumes to the nodes of their pods, and detaching them afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Settings;
use super::pods::{Users, claims_of};
use crate::apiserver::{ApiServer, At, Change, Deletion};
use crate::fields::{after_seconds, at_cluster, each, hash64, node_of, phase};
use crate::kinds::Kind;

/// VolumeAttachments, and what is under way.
#[derive(Debug, Default)]
pub(super) struct Attachments {
    /// By volume, then by node: the name, and whether it is attached.
    by_volume: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Attachment>>,
    /// Claims whose pods or volume have changed.
    touched: BTreeSet<At>,
    attaching: BTreeMap<Arc<str>, Timestamp>,
    detaching: BTreeMap<Arc<str>, Timestamp>,
    /// Volumes by claim, to find the attachments of a claim that is gone.
    volumes: BTreeMap<At, Arc<str>>,
    claims: BTreeMap<Arc<str>, At>,
}

#[derive(Clone, Debug)]
struct Attachment {
    name: Arc<str>,
}

impl Attachments {
    pub(super) fn touch(&mut self, claim: &At) {
        self.touched.insert(claim.clone());
    }

    pub(super) fn heed(&mut self, change: &Change) {
        let Some(wire) = change.after.as_ref().or(change.before.as_ref()) else { return };
        let Some((volume, node)) = ends(wire) else { return };
        let of_volume = self.by_volume.entry(volume.clone()).or_default();
        match change.after {
            Some(_) => drop(of_volume.insert(node, Attachment { name: change.at.name.clone() })),
            None => {
                of_volume.remove(&node);
                if of_volume.is_empty() {
                    self.by_volume.remove(&volume);
                }
                self.attaching.remove(&change.at.name);
                self.detaching.remove(&change.at.name);
            }
        }
        // Somebody may have waited for it to be detached from another node.
        self.touched.extend(self.claims.get(&volume).cloned());
    }

    pub(super) fn settle(&mut self, users: &Users, settings: &Settings, server: &ApiServer) {
        for claim in std::mem::take(&mut self.touched) {
            self.find_volume(&claim, server);
            if let Some(volume) = self.volumes.get(&claim).cloned() {
                self.settle_volume(&volume, &users.nodes(&claim), settings, server);
            }
        }
    }

    fn find_volume(&mut self, claim: &At, server: &ApiServer) {
        let Some(wire) = server.get(Kind::PersistentVolumeClaim, claim).filter(|wire| phase(wire) == "Bound") else {
            return;
        };
        if let Some(volume) = wire["spec"]["volumeName"].as_str() {
            let volume: Arc<str> = volume.into();
            self.volumes.insert(claim.clone(), volume.clone());
            self.claims.insert(volume, claim.clone());
        }
    }

    fn settle_volume(
        &mut self,
        volume: &Arc<str>,
        wanted: &BTreeSet<Arc<str>>,
        settings: &Settings,
        server: &ApiServer,
    ) {
        let now = server.now();
        let present = self.by_volume.get(volume).cloned().unwrap_or_default();
        for (node, attachment) in &present {
            if wanted.contains(node) {
                self.detaching.remove(&attachment.name);
            } else {
                let due = after_seconds(now, settings.detach_seconds);
                self.detaching.entry(attachment.name.clone()).or_insert(due);
            }
        }
        let Some(wire) = server.get(Kind::PersistentVolume, &at_cluster(volume)) else {
            if present.is_empty()
                && let Some(claim) = self.claims.remove(volume)
            {
                self.volumes.remove(&claim);
            }
            return;
        };
        let Some(driver) = wire["spec"]["csi"]["driver"].as_str() else { return };
        for node in wanted.iter().filter(|node| !present.contains_key(*node)) {
            // A volume for one node must have left the last one first.
            let is_elsewhere = !is_shared(&wire) && self.by_volume.contains_key(volume);
            if !is_elsewhere {
                self.create(volume, node, driver, settings, server);
            }
        }
    }

    fn create(&mut self, volume: &Arc<str>, node: &Arc<str>, driver: &str, settings: &Settings, server: &ApiServer) {
        let name = attachment_name(driver, volume, node);
        let made = server.create(json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": name},
            "spec": {"attacher": driver, "nodeName": &**node, "source": {"persistentVolumeName": &**volume}},
            "status": {"attached": false},
        }));
        if made.is_ok() {
            self.attaching.insert(name.into(), after_seconds(server.now(), settings.attach_seconds));
        }
    }

    pub(super) fn next(&self) -> Option<Timestamp> {
        self.attaching.values().chain(self.detaching.values()).copied().min()
    }

    pub(super) fn wake(&mut self, now: Timestamp, server: &ApiServer) {
        let due = |tasks: &BTreeMap<Arc<str>, Timestamp>| -> Vec<Arc<str>> {
            tasks.iter().filter(|(_, at)| **at <= now).map(|(name, _)| name.clone()).collect()
        };
        for name in due(&self.attaching) {
            self.attaching.remove(&name);
            let patch = json!({"status": {"attached": true}});
            // An attachment that is gone cannot come.
            let _ = server.patch_status(Kind::VolumeAttachment, &at_cluster(&name), &patch);
        }
        for name in due(&self.detaching) {
            self.detaching.remove(&name);
            let _ = server.delete(Kind::VolumeAttachment, &at_cluster(&name), &Deletion::default());
        }
    }
}

fn ends(attachment: &Value) -> Option<(Arc<str>, Arc<str>)> {
    let volume = attachment["spec"]["source"]["persistentVolumeName"].as_str()?;
    Some((volume.into(), attachment["spec"]["nodeName"].as_str()?.into()))
}

/// Whether several nodes may have it at once.
fn is_shared(volume: &Value) -> bool {
    each(&volume["spec"]["accessModes"]).any(|mode| mode == "ReadWriteMany" || mode == "ReadOnlyMany")
}

/// A name that follows from what is attached where, as the real one's does.
fn attachment_name(driver: &str, volume: &str, node: &str) -> String {
    format!(
        "csi-{:016x}{:016x}",
        hash64(&format!("{volume}{driver}{node}")),
        hash64(&format!("{node}{driver}{volume}"))
    )
}

/// Whether everything that a pod mounts has reached its node.
pub(crate) fn are_volumes_attached(pod: &Value, server: &ApiServer) -> bool {
    let Some(node) = node_of(pod) else { return false };
    claims_of(pod).all(|claim| {
        let claim = server.get(Kind::PersistentVolumeClaim, &claim).filter(|claim| phase(claim) == "Bound");
        let Some(volume) = claim.as_ref().and_then(|claim| claim["spec"]["volumeName"].as_str()) else { return false };
        let Some(wire) = server.get(Kind::PersistentVolume, &at_cluster(volume)) else { return false };
        let Some(driver) = wire["spec"]["csi"]["driver"].as_str() else { return true };
        let name = attachment_name(driver, volume, node);
        server.get(Kind::VolumeAttachment, &at_cluster(&name)).is_some_and(|found| found["status"]["attached"] == true)
    })
}
