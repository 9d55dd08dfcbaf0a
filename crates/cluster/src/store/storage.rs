//! Volume claims, volumes and classes, and whom a change of one of them concerns.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{StorageClass, VolumeAttachment};
use model::ids::{NodeName, PodName};

use crate::lower::volume::{Refused, Storage};

#[derive(Debug, Default)]
pub(super) struct Volumes {
    storage: Storage,
    /// Volume claims by the volume that they name.
    claims_by_volume: BTreeMap<String, BTreeSet<PodName>>,
    attachments: BTreeMap<Arc<str>, Attachment>,
    attachments_by_node: BTreeMap<NodeName, BTreeSet<Arc<str>>>,
}

/// A volume that is attached to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// The VolumeAttachment.
    pub name: Arc<str>,
    pub node: NodeName,
    /// The PersistentVolume; one without is in the pod itself and nobody waits for it.
    pub volume: Option<Arc<str>>,
}

impl Volumes {
    pub(super) fn new(refused: Refused) -> Self {
        Self { storage: Storage { refused, ..Storage::default() }, ..Self::default() }
    }

    pub(super) fn storage(&self) -> &Storage {
        &self.storage
    }

    /// Says whose pods must be looked at again: those of the claim itself, or nobody's.
    pub(super) fn put_claim(&mut self, key: &PodName, claim: Option<PersistentVolumeClaim>) -> BTreeSet<PodName> {
        let before = self.storage.claims.get(&key.namespace).and_then(|claims| claims.get(&*key.name));
        if before == claim.as_ref() {
            return BTreeSet::new();
        }
        if let Some(volume) = before.and_then(volume_name).map(str::to_owned)
            && let Some(claims) = self.claims_by_volume.get_mut(&volume)
        {
            claims.remove(key);
            if claims.is_empty() {
                self.claims_by_volume.remove(&volume);
            }
        }
        if let Some(volume) = claim.as_ref().and_then(volume_name) {
            self.claims_by_volume.entry(volume.to_owned()).or_default().insert(key.clone());
        }
        let of_namespace = self.storage.claims.entry(key.namespace.clone()).or_default();
        match claim {
            Some(claim) => drop(of_namespace.insert(key.name.to_string(), claim)),
            None => drop(of_namespace.remove(&*key.name)),
        }
        if of_namespace.is_empty() {
            self.storage.claims.remove(&key.namespace);
        }
        BTreeSet::from([key.clone()])
    }

    /// Says which claims this concerns.
    pub(super) fn put_volume(&mut self, name: &str, volume: Option<PersistentVolume>) -> BTreeSet<PodName> {
        if self.storage.volumes.get(name) == volume.as_ref() {
            return BTreeSet::new();
        }
        match volume {
            Some(volume) => drop(self.storage.volumes.insert(name.to_owned(), volume)),
            None => drop(self.storage.volumes.remove(name)),
        }
        self.claims_by_volume.get(name).cloned().unwrap_or_default()
    }

    /// Says which claims this concerns. A class matters until its claim has a volume.
    pub(super) fn put_class(&mut self, name: &str, class: Option<StorageClass>) -> BTreeSet<PodName> {
        if self.storage.classes.get(name) == class.as_ref() {
            return BTreeSet::new();
        }
        match class {
            Some(class) => drop(self.storage.classes.insert(name.to_owned(), class)),
            None => drop(self.storage.classes.remove(name)),
        }
        let claims = self.storage.claims.iter().flat_map(|(namespace, claims)| {
            claims
                .iter()
                .map(move |(name, claim)| (PodName { namespace: namespace.clone(), name: name.as_str().into() }, claim))
        });
        claims.filter(|(_, claim)| volume_name(claim).is_none()).map(|(key, _)| key).collect()
    }

    pub(super) fn put_attachment(&mut self, name: &Arc<str>, wire: Option<VolumeAttachment>) -> Option<NodeName> {
        let before = self.attachments.remove(name);
        if let Some(before) = &before
            && let Some(names) = self.attachments_by_node.get_mut(&before.node)
        {
            names.remove(name);
            if names.is_empty() {
                self.attachments_by_node.remove(&before.node);
            }
        }
        let Some(wire) = wire else { return before.map(|before| before.node) };
        let node = NodeName::from(wire.spec.node_name);
        let volume = wire.spec.source.persistent_volume_name.map(Into::into);
        let attachment = Attachment { name: name.clone(), node: node.clone(), volume };
        let is_news = before.as_ref() != Some(&attachment);
        self.attachments_by_node.entry(node.clone()).or_default().insert(name.clone());
        self.attachments.insert(name.clone(), attachment);
        is_news.then_some(node)
    }

    pub(super) fn attachments(&self, node: &NodeName) -> impl Iterator<Item = &Attachment> {
        self.attachments_by_node.get(node).into_iter().flatten().filter_map(|name| self.attachments.get(name))
    }

    /// The volume behind a claim, as far as it has one.
    pub(super) fn volume_of(&self, claim: &PodName) -> Option<&str> {
        volume_name(self.storage.claims.get(&claim.namespace)?.get(&*claim.name)?)
    }
}

fn volume_name(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.spec.as_ref()?.volume_name.as_deref().filter(|name| !name.is_empty())
}
