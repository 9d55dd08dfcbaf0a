//! What is known of a claim's life and of a node that is leaving, in the words of those who decide.

use model::claim::ClaimLife;
use model::drain::{Attached, Guest};
use model::ids::NodeName;

use super::Store;
use super::wires::Wire;
use crate::lower::Lowered;
use crate::lower::claim;
use crate::lower::facts::PodFacts;

impl Store {
    /// A claim of ours with its Nodes.
    pub fn claim_life(&self, name: &NodeName) -> Option<Lowered<ClaimLife>> {
        let wire = self.machines.claim(name)?;
        let id = wire.provider_id();
        let names = id.into_iter().flat_map(|id| self.machines.nodes_with_id(id));
        let nodes: Vec<_> = names.filter_map(|name| self.machines.node(name)).collect();
        Some(claim::life(&wire, nodes.iter().map(|node| &**node)))
    }

    /// Whether some machine of ours is on its way out.
    pub fn is_any_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// The pods on a node, as a drain sees them.
    pub fn guests_on(&self, node: &NodeName) -> Vec<Guest> {
        self.pods_on(node).map(|(pod, facts)| self.guest(pod, facts)).collect()
    }

    /// One pod, as a drain sees it.
    pub fn guest_named(&self, name: &model::ids::PodName) -> Option<Guest> {
        self.pod(name).map(|(pod, facts)| self.guest(pod, facts))
    }

    fn guest(&self, pod: &std::sync::Arc<model::pod::Pod>, facts: &PodFacts) -> Guest {
        Guest {
            pod: pod.clone(),
            ends_by: facts.ends_by,
            grace: facts.grace,
            is_critical: facts.is_critical,
            volumes: self.volumes_of(&pod.name).into_iter().map(Into::into).collect(),
        }
    }

    /// The volumes attached to a node.
    pub fn attached_to(&self, node: &NodeName) -> Vec<Attached> {
        let of = |attachment: &super::Attachment| Attached {
            name: attachment.name.clone(),
            volume: attachment.volume.clone(),
        };
        self.attachments_on(node).map(of).collect()
    }
}
