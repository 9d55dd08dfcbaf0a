//! What a pod's volume claims mean for its scheduling, in kube-scheduler's words.

use std::sync::Arc;

use cluster::lower::volume::Storage;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use model::ids::Namespace;

use super::lower::Claim;

pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Claims {
    /// All are bound.
    Bound,
    /// These get their volumes once a node is chosen.
    WaitForNode(Vec<Arc<str>>),
    /// The pod cannot be scheduled whatever nodes there are.
    Unusable(String),
    /// The same, but it is said of each node.
    UnusableOnNodes(&'static str),
}

impl Claims {
    pub(super) fn of(storage: &Storage, namespace: &Namespace, claims: &[Claim]) -> Self {
        let known = storage.claims.get(namespace);
        let mut waiting = Vec::new();
        let mut lacks_volume = false;
        for claim in claims {
            let name = &claim.name;
            let Some(wire) = known.and_then(|known| known.get(&**name)) else {
                return Self::Unusable(missing(claim));
            };
            if let Some(problem) = problem(name, wire) {
                return Self::Unusable(problem);
            }
            let volume = volume_name(wire);
            if is_bound(wire) {
                lacks_volume |= !storage.volumes.contains_key(volume);
            } else if volume.is_empty() && waits_for_node(storage, wire) {
                waiting.push(name.clone());
            } else {
                return Self::Unusable("pod has unbound immediate PersistentVolumeClaims".to_owned());
            }
        }
        if lacks_volume {
            return Self::UnusableOnNodes("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)");
        }
        if waiting.is_empty() { Self::Bound } else { Self::WaitForNode(waiting) }
    }
}

fn missing(claim: &Claim) -> String {
    if claim.is_ephemeral {
        format!("waiting for ephemeral volume controller to create the persistentvolumeclaim {:?}", claim.name)
    } else {
        format!("persistentvolumeclaim {:?} not found", claim.name)
    }
}

fn problem(name: &str, claim: &PersistentVolumeClaim) -> Option<String> {
    if claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Lost") {
        let volume = volume_name(claim);
        return Some(format!("persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}"));
    }
    claim.metadata.deletion_timestamp.is_some().then(|| format!("persistentvolumeclaim {name:?} is being deleted"))
}

pub(super) fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    let is_complete = claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(BIND_COMPLETED))
        || claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound");
    is_complete && !volume_name(claim).is_empty()
}

/// The node that was chosen for a claim's volume.
pub(super) fn selected_node(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.metadata.annotations.as_ref()?.get(SELECTED_NODE).map(String::as_str)
}

fn volume_name(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default()
}

fn waits_for_node(storage: &Storage, claim: &PersistentVolumeClaim) -> bool {
    let old = claim.metadata.annotations.as_ref().and_then(|all| all.get(OLD_CLASS));
    let name = old.or_else(|| claim.spec.as_ref()?.storage_class_name.as_ref()).map_or("", String::as_str);
    let mode = storage.classes.get(name).and_then(|class| class.volume_binding_mode.as_deref());
    mode == Some("WaitForFirstConsumer")
}
