//! Every kind that is served. Whatever is not in this table is refused by name.

use std::fmt;

macro_rules! kinds {
    ($($kind:ident = $name:literal $version:literal $plural:literal $scope:ident [$($sub:ident)*]),+ $(,)?) => {
        /// A kind of object.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $($kind),+
        }

        const TABLE: &[(Kind, Entry)] = &[$(
            (Kind::$kind, Entry {
                name: $name,
                api_version: $version,
                plural: $plural,
                scope: Scope::$scope,
                subresources: &[$(Subresource::$sub),*],
            })
        ),+];

        impl Kind {
            pub const ALL: &[Self] = &[$(Self::$kind),+];
        }
    };
}

struct Entry {
    name: &'static str,
    api_version: &'static str,
    plural: &'static str,
    scope: Scope,
    subresources: &'static [Subresource],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Cluster,
    Namespaced,
}

/// A part of an object with an address of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subresource {
    Status,
    Scale,
    Binding,
    Eviction,
}

kinds! {
    Pod = "Pod" "v1" "pods" Namespaced [Status Binding Eviction],
    Node = "Node" "v1" "nodes" Cluster [Status],
    Namespace = "Namespace" "v1" "namespaces" Cluster [Status],
    Event = "Event" "v1" "events" Namespaced [],
    ConfigMap = "ConfigMap" "v1" "configmaps" Namespaced [],
    Service = "Service" "v1" "services" Namespaced [Status],
    PodTemplate = "PodTemplate" "v1" "podtemplates" Namespaced [],
    LimitRange = "LimitRange" "v1" "limitranges" Namespaced [],
    PersistentVolume = "PersistentVolume" "v1" "persistentvolumes" Cluster [Status],
    PersistentVolumeClaim = "PersistentVolumeClaim" "v1" "persistentvolumeclaims" Namespaced [Status],
    Deployment = "Deployment" "apps/v1" "deployments" Namespaced [Status Scale],
    ReplicaSet = "ReplicaSet" "apps/v1" "replicasets" Namespaced [Status Scale],
    StatefulSet = "StatefulSet" "apps/v1" "statefulsets" Namespaced [Status Scale],
    DaemonSet = "DaemonSet" "apps/v1" "daemonsets" Namespaced [Status],
    Job = "Job" "batch/v1" "jobs" Namespaced [Status],
    PodDisruptionBudget = "PodDisruptionBudget" "policy/v1" "poddisruptionbudgets" Namespaced [Status],
    PriorityClass = "PriorityClass" "scheduling.k8s.io/v1" "priorityclasses" Cluster [],
    RuntimeClass = "RuntimeClass" "node.k8s.io/v1" "runtimeclasses" Cluster [],
    StorageClass = "StorageClass" "storage.k8s.io/v1" "storageclasses" Cluster [],
    CsiNode = "CSINode" "storage.k8s.io/v1" "csinodes" Cluster [],
    VolumeAttachment = "VolumeAttachment" "storage.k8s.io/v1" "volumeattachments" Cluster [Status],
    Lease = "Lease" "coordination.k8s.io/v1" "leases" Namespaced [],
    NodeClaim = "NodeClaim" "karpenter.sh/v1" "nodeclaims" Cluster [Status],
    NodePool = "NodePool" "karpenter.sh/v1" "nodepools" Cluster [Status Scale],
    NodeOverlay = "NodeOverlay" "karpenter.sh/v1alpha1" "nodeoverlays" Cluster [Status],
    KwokNodeClass = "KWOKNodeClass" "karpenter.kwok.sh/v1alpha1" "kwoknodeclasses" Cluster [Status],
    Ec2NodeClass = "EC2NodeClass" "karpenter.k8s.aws/v1" "ec2nodeclasses" Cluster [Status],
    CapacityBuffer = "CapacityBuffer" "autoscaling.x-k8s.io/v1beta1" "capacitybuffers" Namespaced [Status],
    Provisioner = "Provisioner" "karpenter.sh/v1alpha5" "provisioners" Cluster [Status],
    AwsNodeTemplate = "AWSNodeTemplate" "karpenter.k8s.aws/v1alpha1" "awsnodetemplates" Cluster [Status],
}

impl Kind {
    fn entry(self) -> &'static Entry {
        // The table is in the order of the enumeration.
        &TABLE[self as usize].1
    }

    /// The API's name of the kind.
    pub fn as_str(self) -> &'static str {
        self.entry().name
    }

    /// Group and version, such as `apps/v1`; of the core group the version alone.
    pub fn api_version(self) -> &'static str {
        self.entry().api_version
    }

    /// The API group; empty for the core group.
    pub fn group(self) -> &'static str {
        self.api_version().split_once('/').map_or("", |(group, _)| group)
    }

    /// Whether the kind is made by a custom resource definition.
    pub fn is_custom(self) -> bool {
        self >= Self::NodeClaim
    }

    pub fn plural(self) -> &'static str {
        self.entry().plural
    }

    pub fn is_namespaced(self) -> bool {
        self.entry().scope == Scope::Namespaced
    }

    pub fn has(self, subresource: Subresource) -> bool {
        self.entry().subresources.contains(&subresource)
    }

    pub fn of(api_version: &str, name: &str) -> Option<Self> {
        TABLE.iter().find(|(_, entry)| entry.api_version == api_version && entry.name == name).map(|(kind, _)| *kind)
    }

    pub fn of_plural(api_version: &str, plural: &str) -> Option<Self> {
        TABLE
            .iter()
            .find(|(_, entry)| entry.api_version == api_version && entry.plural == plural)
            .map(|(kind, _)| *kind)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_stands_at_its_place_in_the_table() {
        for (place, kind) in Kind::ALL.iter().enumerate() {
            assert_eq!((TABLE[place].0, Kind::of(kind.api_version(), kind.as_str())), (*kind, Some(*kind)));
            assert_eq!(Kind::of_plural(kind.api_version(), kind.plural()), Some(*kind));
        }
        for (version, name) in [("v1", "Secret"), ("v1", "ReplicationController"), ("batch/v1", "CronJob")] {
            assert_eq!(Kind::of(version, name), None, "nobody here would do anything about a {name}");
        }
    }
}
