//! Label keys that the engine itself must know, and the sets of labels that objects carry.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Labels of one object.
pub type Labels = BTreeMap<Arc<str>, Arc<str>>;

pub const NODE_POOL: &str = "karpenter.sh/nodepool";
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
pub const REGISTERED: &str = "karpenter.sh/registered";
pub const INITIALIZED: &str = "karpenter.sh/initialized";
pub const ARCH: &str = "kubernetes.io/arch";
pub const HOSTNAME: &str = "kubernetes.io/hostname";
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
pub const OS: &str = "kubernetes.io/os";
pub const REGION: &str = "topology.kubernetes.io/region";
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";
pub const ZONE: &str = "topology.kubernetes.io/zone";

/// An annotation that stops all voluntary disruption, whatever it says but `false`, and the namespace that bears it: the one
/// that every cluster has. Decision 0070.
pub const STOP_DISRUPTION: &str = "dovetail.sh/stop-disruption";
pub const STOP_NAMESPACE: &str = "kube-system";

const BASE: [&str; 8] = [NODE_POOL, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, CAPACITY_TYPE, WINDOWS_BUILD];

/// Keys that every instance type answers for. On a machine that does not exist yet, such a key is open and not absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WellKnown(BTreeSet<Arc<str>>);

impl WellKnown {
    /// The keys that every cloud has, and those that a provider adds.
    pub fn with_provider<'a>(keys: impl IntoIterator<Item = &'a str>) -> Self {
        Self(BASE.into_iter().chain(keys).map(Into::into).collect())
    }

    pub fn contains(&self, key: &str) -> bool {
        self.0.contains(key)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter()
    }
}

impl Default for WellKnown {
    fn default() -> Self {
        Self::with_provider([])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cloud_knows_the_base_keys_and_a_provider_adds_its_own() {
        let known = WellKnown::with_provider(["size"]);
        assert_eq!(known.iter().count(), BASE.len() + 1);
        assert!(known.contains("size") && known.contains(ZONE) && !known.contains(HOSTNAME));
        assert!(!WellKnown::default().contains("size") && WellKnown::default().contains(ARCH));
        assert!(known.iter().all(|key| known.contains(key)));
    }
}
