//! VolumeBinding and NodeVolumeLimits: the volumes can be reached from the node, and attached to it.

use std::collections::BTreeSet;

use model::ids::VolumeId;
use model::pod::Pod;

use super::node_affinity::first_mismatch;
use crate::violation::Refusal;
use crate::world::Node;

/// Unlike a term of node affinity, an alternative without demands is met everywhere.
pub(super) fn place_refusal(pod: &Pod, node: &Node) -> Option<Refusal> {
    let alternatives = &pod.wants.volumes.alternatives;
    let is_met = alternatives.is_empty() || alternatives.iter().any(|one| first_mismatch(one, &node.labels).is_none());
    (!is_met).then_some(Refusal::VolumePlace { alternatives: alternatives.len() })
}

/// A volume that is attached already takes no further place, even where the node holds too many.
pub(super) fn attach_refusal(pod: &Pod, node: &Node) -> Option<Refusal> {
    for (driver, volumes) in &pod.wants.volumes.attached {
        let Some(limit) = node.attach_limits.get(driver) else { continue };
        let held: BTreeSet<&VolumeId> =
            node.pods().filter_map(|other| other.wants.volumes.attached.get(driver)).flatten().collect();
        let added = volumes.iter().filter(|volume| !held.contains(volume)).count();
        if added > 0 && held.len() + added > *limit as usize {
            return Some(Refusal::Attachments { driver: driver.clone(), would_be: held.len() + added, limit: *limit });
        }
    }
    None
}
