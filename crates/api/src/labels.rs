//! Keys that the API spells out, and the classes of label keys that decide who may set them.

use serde::{Deserialize, Serialize};

pub const NODE_POOL: &str = "karpenter.sh/nodepool";
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
pub const INITIALIZED: &str = "karpenter.sh/initialized";
pub const REGISTERED: &str = "karpenter.sh/registered";
pub const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";

pub const CAPACITY_TYPE_ON_DEMAND: &str = "on-demand";
pub const CAPACITY_TYPE_SPOT: &str = "spot";
pub const CAPACITY_TYPE_RESERVED: &str = "reserved";

pub const ARCH: &str = "kubernetes.io/arch";
pub const HOSTNAME: &str = "kubernetes.io/hostname";
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
pub const OS: &str = "kubernetes.io/os";
pub const REGION: &str = "topology.kubernetes.io/region";
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";
pub const ZONE: &str = "topology.kubernetes.io/zone";
pub const EXCLUDE_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// Annotations on pods, nodes, claims and pools.
pub mod annotations {
    pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
    /// Kubernetes' own: which of several pods its author would rather lose.
    pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
    pub const PROVIDER_COMPATIBILITY: &str = "compatibility.karpenter.sh/provider";
    pub const NODE_POOL_HASH: &str = "karpenter.sh/nodepool-hash";
    pub const NODE_POOL_HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";
    pub const TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
    pub const MIN_VALUES_RELAXED: &str = "karpenter.sh/nodeclaim-min-values-relaxed";
    pub const REQUESTED_DRA_DRIVERS: &str = "karpenter.sh/requested-dra-drivers";
    pub const PRICE_OVERLAY_APPLIED: &str = "karpenter.sh/price-overlay-applied";
    pub const BUFFER_POD: &str = "karpenter.sh/capacity-buffer-fake-pod";
    pub const BUFFER_NAME: &str = "karpenter.sh/capacity-buffer-name";
    pub const BUFFER_NAMESPACE: &str = "karpenter.sh/capacity-buffer-namespace";
    pub const CAPACITY_OVERLAY_APPLIED: &str = "karpenter.sh/capacity-overlay-applied";
}

/// Taint keys. `DISRUPTED` is used with NoSchedule, `UNREGISTERED` with NoExecute.
pub mod taints {
    pub const DISRUPTED: &str = "karpenter.sh/disrupted";
    pub const UNREGISTERED: &str = "karpenter.sh/unregistered";
}

/// On NodeClaims and on Nodes: the machine must be gone before the object is.
pub const TERMINATION_FINALIZER: &str = "karpenter.sh/termination";

const CORE_DOMAIN: &str = "karpenter.sh";

const WELL_KNOWN: [&str; 8] = [NODE_POOL, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, CAPACITY_TYPE, WINDOWS_BUILD];

/// Old spellings that older manifests still use.
const NORMALIZED: [(&str, &str); 5] = [
    ("failure-domain.beta.kubernetes.io/zone", ZONE),
    ("failure-domain.beta.kubernetes.io/region", REGION),
    ("beta.kubernetes.io/arch", ARCH),
    ("beta.kubernetes.io/os", OS),
    ("beta.kubernetes.io/instance-type", INSTANCE_TYPE),
];

/// The stable spelling of a label key.
pub fn normalized(key: &str) -> &str {
    NORMALIZED.iter().find(|(old, _)| *old == key).map_or(key, |(_, stable)| stable)
}

/// The label that ties a node to its NodeClass: `<group>/<lower-case kind>`.
pub fn node_class_label(group: &str, kind: &str) -> String {
    format!("{group}/{}", kind.to_lowercase())
}

/// Which label keys mean something to the autoscaler and which nobody else may set.
///
/// A provider adds its own keys and its own domain at start-up; nothing here is global.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelRules {
    provider_well_known: Vec<String>,
    provider_domains: Vec<String>,
}

impl LabelRules {
    /// The rules with a provider's own keys and the domains that only it may use.
    pub fn with_provider(well_known: &[&str], domains: &[&str]) -> Self {
        Self {
            provider_well_known: well_known.iter().map(|key| (*key).to_owned()).collect(),
            provider_domains: domains.iter().map(|domain| (*domain).to_owned()).collect(),
        }
    }

    /// Keys that every instance type answers for, so a missing one means "any" and not "no".
    pub fn is_well_known(&self, key: &str) -> bool {
        WELL_KNOWN.contains(&key) || self.provider_well_known.iter().any(|known| known == key)
    }

    /// Keys that users may neither label with nor require.
    pub fn is_restricted(&self, key: &str) -> bool {
        if self.is_well_known(key) {
            return false;
        }
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
        let is_under =
            |parent: &str| domain == parent || domain.strip_suffix(parent).is_some_and(|sub| sub.ends_with('.'));
        key == HOSTNAME || is_under(CORE_DOMAIN) || self.provider_domains.iter().any(|parent| is_under(parent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_autoscalers_own_domains_and_the_hostname_are_restricted() {
        let rules = LabelRules::with_provider(&["karpenter.kwok.sh/instance-size"], &["karpenter.kwok.sh"]);
        for key in
            ["karpenter.sh/x", "sub.karpenter.sh/x", "karpenter.kwok.sh/other", HOSTNAME, "karpenter.sh/registered"]
        {
            assert!(rules.is_restricted(key), "{key}");
        }
        for key in [
            NODE_POOL,
            CAPACITY_TYPE,
            ZONE,
            "karpenter.kwok.sh/instance-size",
            "mykarpenter.sh/x",
            "kubernetes.io/x",
            "sub.k8s.io/x",
            "kops.k8s.io/instancegroup",
            "plain",
        ] {
            assert!(!rules.is_restricted(key), "{key}");
        }
    }

    #[test]
    fn old_spellings_become_the_stable_ones() {
        assert_eq!(normalized("failure-domain.beta.kubernetes.io/zone"), ZONE);
        assert_eq!(normalized("beta.kubernetes.io/instance-type"), INSTANCE_TYPE);
        assert_eq!(normalized("example.com/zone"), "example.com/zone");
        assert_eq!(node_class_label("karpenter.kwok.sh", "KWOKNodeClass"), "karpenter.kwok.sh/kwoknodeclass");
    }
}
