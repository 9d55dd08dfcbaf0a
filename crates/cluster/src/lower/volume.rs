//! Where a pod's volumes can be, what must be attached for them, and why one of them may be unusable.

mod combine;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::labels::normalized;
use k8s_openapi::api::core::v1::{
    PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeSpec, PodSpec, Volume,
};
use k8s_openapi::api::storage::v1::StorageClass;
use model::ids::{DriverName, Namespace, VolumeId};
use model::labels::HOSTNAME;
use model::requirements::{Operator, Requirement, Requirements};
use model::volume::{Attachments, Volumes};
use model::why::PodProblem;

use super::{Oddities, requirements};

/// Everything about storage that pods refer to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Storage {
    pub claims: BTreeMap<Namespace, BTreeMap<String, PersistentVolumeClaim>>,
    pub volumes: BTreeMap<String, PersistentVolume>,
    pub classes: BTreeMap<String, StorageClass>,
    pub refused: Refused,
}

/// What a provider cannot serve.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// CSI drivers and provisioners.
    pub provisioners: BTreeSet<String>,
    /// Label keys in a StorageClass's allowed topologies.
    pub topology_keys: BTreeSet<String>,
}

/// A pod's volumes as the engine sees them, and what is wrong with them.
pub(super) struct PodVolumes {
    pub(super) volumes: Volumes,
    pub(super) problems: Vec<PodProblem>,
}

/// The pod that the volumes belong to.
pub(super) struct Owner<'a> {
    pub(super) namespace: &'a Namespace,
    pub(super) name: &'a str,
    pub(super) uid: &'a str,
}

const EBS: &str = "ebs.csi.aws.com";

/// Storage that Kubernetes once had built in, and the driver that serves it now.
const MIGRATED: [(&str, &str); 7] = [
    ("kubernetes.io/aws-ebs", EBS),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("kubernetes.io/azure-file", "file.csi.azure.com"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
    ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
];

pub(super) fn of_pod(spec: &PodSpec, owner: &Owner<'_>, storage: &Storage, oddities: &mut Oddities<'_>) -> PodVolumes {
    Mounts::of(spec, owner).look_up(owner.namespace, storage, oddities)
}

/// What a pod says of its volumes, without what the cluster knows of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mounts {
    /// Volumes behind claims: the volume's name and the claim's.
    claimed: Vec<(Arc<str>, Arc<str>)>,
    inline: Attachments,
}

impl Mounts {
    pub(super) fn of(spec: &PodSpec, owner: &Owner<'_>) -> Self {
        let claimed = claimed(spec, owner.name).map(|(volume, claim)| (volume.name.as_str().into(), claim.into()));
        Self { claimed: claimed.collect(), inline: inline(spec, owner.uid) }
    }

    /// The names of the claims, all in the pod's namespace.
    pub(super) fn claims(&self) -> impl Iterator<Item = &Arc<str>> {
        self.claimed.iter().map(|(_, claim)| claim)
    }

    pub(super) fn look_up(&self, namespace: &Namespace, storage: &Storage, oddities: &mut Oddities<'_>) -> PodVolumes {
        let mut attached = self.inline.clone();
        let mut places = Vec::new();
        let mut problems = Vec::new();
        for (volume, claim_name) in &self.claimed {
            let mut complain = |text: String| {
                problems.push(PodProblem::Volume { volume: volume.clone(), text: text.into() });
            };
            let claims = storage.claims.get(namespace);
            let Some(wire) = claims.and_then(|claims| claims.get(&**claim_name)) else {
                complain(format!("claim {namespace}/{claim_name} does not exist"));
                continue;
            };
            let claim = Claim::of(wire, storage);
            if let Some(problem) = claim.problem(&storage.refused) {
                complain(format!("claim {namespace}/{claim_name} {problem}"));
            }
            if let Some(driver) = claim.driver() {
                // By claim and not by volume: the claim keeps its name when it gets its volume.
                attach(&mut attached, driver, format!("{namespace}/{claim_name}"));
            }
            places.push(claim.places());
        }
        let combined = combine::all_of(places);
        if combined.is_cut {
            oddities.note("spec.volumes", "too many combinations of places; the first of them are used");
        }
        PodVolumes { volumes: Volumes { alternatives: combined.alternatives, attached }, problems }
    }
}

/// Volumes behind a claim, with the claim's name.
fn claimed<'a>(spec: &'a PodSpec, pod_name: &'a str) -> impl Iterator<Item = (&'a Volume, String)> {
    spec.volumes.iter().flatten().filter_map(move |volume| {
        let claim_name = match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(source), _) => source.claim_name.clone(),
            (None, Some(_)) => format!("{pod_name}-{}", volume.name),
            (None, None) => return None,
        };
        Some((volume, claim_name))
    })
}

/// Whether the volume lives behind a claim, its own or one made for the pod.
pub(super) fn needs_claim(volume: &Volume) -> bool {
    volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some()
}

/// Volumes that stand in the pod itself. The reference forgets them, and their drivers run out of places unnoticed.
pub(super) fn inline(spec: &PodSpec, uid: &str) -> Attachments {
    let mut attached = Attachments::new();
    for volume in spec.volumes.iter().flatten() {
        if let Some(source) = &volume.csi {
            attach(&mut attached, &source.driver, format!("{uid}/{}", volume.name));
        } else if let Some(source) = &volume.aws_elastic_block_store {
            attach(&mut attached, EBS, source.volume_id.clone());
        }
    }
    attached
}

fn attach(attached: &mut Attachments, driver: &str, id: String) {
    attached.entry(DriverName::from(driver)).or_default().insert(VolumeId::from(id));
}

/// A claim with what it refers to.
struct Claim<'a> {
    wire: &'a PersistentVolumeClaim,
    class_name: &'a str,
    class: Option<&'a StorageClass>,
    /// The name of the volume that it is tied to, and the volume if it is there.
    volume: Option<(&'a str, Option<&'a PersistentVolume>)>,
}

impl<'a> Claim<'a> {
    fn of(wire: &'a PersistentVolumeClaim, storage: &'a Storage) -> Self {
        let spec: Option<&PersistentVolumeClaimSpec> = wire.spec.as_ref();
        let volume_name = spec.and_then(|spec| spec.volume_name.as_deref()).filter(|name| !name.is_empty());
        // The old annotation wins over the field, as in Kubernetes. A default class is never looked up: the API server
        // writes it into the claim.
        let annotation = annotation(wire, "volume.beta.kubernetes.io/storage-class");
        let class_name = annotation.or_else(|| spec?.storage_class_name.as_deref()).unwrap_or_default();
        Self {
            wire,
            class_name,
            class: storage.classes.get(class_name),
            volume: volume_name.map(|name| (name, storage.volumes.get(name))),
        }
    }

    /// Why the claim cannot be used as things stand.
    fn problem(&self, refused: &Refused) -> Option<String> {
        if self.wire.metadata.deletion_timestamp.is_some() {
            return Some("is being deleted".to_owned());
        }
        if self.wire.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Lost") {
            return Some("has lost its volume".to_owned());
        }
        let problem = match self.volume {
            Some((name, volume)) => self.bound_problem(name, volume),
            None => self.unbound_problem(refused),
        };
        problem.or_else(|| {
            let driver = self.driver().filter(|driver| refused.provisioners.contains(*driver))?;
            Some(format!("uses {driver}, which the cloud does not support"))
        })
    }

    fn bound_problem(&self, name: &str, volume: Option<&PersistentVolume>) -> Option<String> {
        let Some(volume) = volume else { return Some(format!("names volume {name}, which does not exist")) };
        if volume.metadata.deletion_timestamp.is_some() {
            return Some(format!("names volume {name}, which is being deleted"));
        }
        annotation(self.wire, "pv.kubernetes.io/bind-completed")
            .is_none()
            .then(|| format!("names volume {name}, but is not bound to it yet"))
    }

    fn unbound_problem(&self, refused: &Refused) -> Option<String> {
        if self.class_name.is_empty() {
            return Some("is not bound and names no storage class".to_owned());
        }
        let name = self.class_name;
        let Some(class) = self.class else {
            return Some(format!("is not bound and its storage class {name} does not exist"));
        };
        // The API server fills the mode in; one that says nothing binds at once.
        if class.volume_binding_mode.as_deref().unwrap_or("Immediate") == "Immediate" {
            return Some(format!("waits for a volume, because storage class {name} binds at once"));
        }
        let mut expressions =
            class.allowed_topologies.iter().flatten().flat_map(|term| term.match_label_expressions.iter().flatten());
        let unsupported = expressions.find(|expression| refused.topology_keys.contains(&expression.key))?;
        Some(format!("is bound by storage class {name} to {}, which the cloud does not support", unsupported.key))
    }

    /// Who attaches the volume, as far as anyone counts.
    fn driver(&self) -> Option<&'a str> {
        match self.volume {
            Some((_, volume)) => volume_driver(volume?.spec.as_ref()?),
            None => self.class.map(|class| migrated(&class.provisioner)),
        }
    }

    /// Where the volume can be: one of these must hold, and none means anywhere.
    fn places(&self) -> Vec<Requirements> {
        match self.volume {
            Some((_, volume)) => volume.and_then(|volume| volume.spec.as_ref()).map(volume_places).unwrap_or_default(),
            None => self.class.map(class_places).unwrap_or_default(),
        }
    }
}

fn annotation<'a>(claim: &'a PersistentVolumeClaim, key: &str) -> Option<&'a str> {
    claim.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// The driver that serves a provisioner today.
fn migrated(provisioner: &str) -> &str {
    MIGRATED.iter().find(|(old, _)| *old == provisioner).map_or(provisioner, |(_, driver)| driver)
}

fn volume_driver(spec: &PersistentVolumeSpec) -> Option<&str> {
    if let Some(source) = &spec.csi {
        return Some(&source.driver);
    }
    let old = if spec.aws_elastic_block_store.is_some() {
        "kubernetes.io/aws-ebs"
    } else if spec.azure_disk.is_some() {
        "kubernetes.io/azure-disk"
    } else if spec.azure_file.is_some() {
        "kubernetes.io/azure-file"
    } else if spec.cinder.is_some() {
        "kubernetes.io/cinder"
    } else if spec.gce_persistent_disk.is_some() {
        "kubernetes.io/gce-pd"
    } else if spec.portworx_volume.is_some() {
        "kubernetes.io/portworx-volume"
    } else if spec.vsphere_volume.is_some() {
        "kubernetes.io/vsphere-volume"
    } else {
        return None;
    };
    Some(migrated(old))
}

/// A volume on a node's own disk names that node. The machine may be gone when the pod comes, and the volume is made
/// anew on the next one; so the name does not count, and a term that said no more allows every node.
fn volume_places(spec: &PersistentVolumeSpec) -> Vec<Requirements> {
    let required = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
    let mut places = requirements::of_required(required);
    if spec.local.is_some() || spec.host_path.is_some() {
        for place in &mut places {
            place.remove(HOSTNAME);
        }
    }
    places
}

fn class_places(class: &StorageClass) -> Vec<Requirements> {
    let Some(terms) = class.allowed_topologies.as_ref().filter(|terms| !terms.is_empty()) else { return Vec::new() };
    let place = |expressions: &Vec<k8s_openapi::api::core::v1::TopologySelectorLabelRequirement>| {
        let entries = expressions.iter().map(|expression| {
            let values = expression.values.iter().map(String::as_str);
            (normalized(&expression.key).into(), Requirement::new(Operator::In, values))
        });
        (!expressions.is_empty()).then(|| entries.collect())
    };
    let places: Vec<Requirements> =
        terms.iter().filter_map(|term| term.match_label_expressions.as_ref().and_then(place)).collect();
    // An empty term selects nothing, and terms without any other allow nothing.
    if places.is_empty() { vec![requirements::impossible()] } else { places }
}
