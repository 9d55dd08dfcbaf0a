//! The kinds of objects that the store remembers, and how one object is told from another.

use std::fmt;
use std::sync::Arc;

use api::aws::EC2NodeClass;
use api::kwok::KWOKNodeClass;
use api::{CapacityBuffer, NodeClaim, NodeOverlay, NodePool};
use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodTemplate, ReplicationController, Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use model::ids::{PodName, Uid};
use serde_json::value::RawValue;

use crate::record::raw;

macro_rules! kinds {
    ($($kind:ident($wire:ty) = $name:literal),+ $(,)?) => {
        /// A kind of object.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $($kind),+
        }

        impl Kind {
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            /// The API's name of the kind.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $name),+
                }
            }
        }

        /// An object as it came over the wire.
        #[derive(Clone, Debug)]
        pub enum Object {
            $($kind(Box<$wire>)),+
        }

        impl Object {
            pub fn kind(&self) -> Kind {
                match self {
                    $(Self::$kind(_) => Kind::$kind),+
                }
            }

            pub fn metadata(&self) -> &ObjectMeta {
                match self {
                    $(Self::$kind(object) => &object.metadata),+
                }
            }

            /// The JSON of it, as it goes into a recording.
            pub(crate) fn encode(&self) -> Box<RawValue> {
                match self {
                    $(Self::$kind(object) => raw(object)),+
                }
            }

            /// Reads the JSON of one object of a kind.
            pub fn decode(kind: Kind, json: &[u8]) -> Result<Self, serde_json::Error> {
                match kind {
                    $(Kind::$kind => serde_json::from_slice::<$wire>(json).map(Self::from)),+
                }
            }
        }

        $(impl From<$wire> for Object {
            fn from(object: $wire) -> Self {
                Self::$kind(Box::new(object))
            }
        })+
    };
}

kinds! {
    Pod(Pod) = "Pod",
    Node(Node) = "Node",
    NodeClaim(NodeClaim) = "NodeClaim",
    NodePool(NodePool) = "NodePool",
    KwokNodeClass(KWOKNodeClass) = "KWOKNodeClass",
    Ec2NodeClass(EC2NodeClass) = "EC2NodeClass",
    DaemonSet(DaemonSet) = "DaemonSet",
    PersistentVolumeClaim(PersistentVolumeClaim) = "PersistentVolumeClaim",
    PersistentVolume(PersistentVolume) = "PersistentVolume",
    StorageClass(StorageClass) = "StorageClass",
    CsiNode(CSINode) = "CSINode",
    VolumeAttachment(VolumeAttachment) = "VolumeAttachment",
    PodDisruptionBudget(PodDisruptionBudget) = "PodDisruptionBudget",
    Namespace(Namespace) = "Namespace",
    Service(Service) = "Service",
    ReplicaSet(ReplicaSet) = "ReplicaSet",
    StatefulSet(StatefulSet) = "StatefulSet",
    ReplicationController(ReplicationController) = "ReplicationController",
    CapacityBuffer(CapacityBuffer) = "CapacityBuffer",
    PodTemplate(PodTemplate) = "PodTemplate",
    NodeOverlay(NodeOverlay) = "NodeOverlay",
}

impl Kind {
    /// The kind that the API calls so, if it is one of those that we watch.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == name)
    }

    pub fn is_namespaced(self) -> bool {
        match self {
            Self::Pod
            | Self::DaemonSet
            | Self::PersistentVolumeClaim
            | Self::PodDisruptionBudget
            | Self::Service
            | Self::ReplicaSet
            | Self::StatefulSet
            | Self::ReplicationController
            | Self::CapacityBuffer
            | Self::PodTemplate => true,
            Self::Node
            | Self::NodeClaim
            | Self::NodePool
            | Self::KwokNodeClass
            | Self::Ec2NodeClass
            | Self::PersistentVolume
            | Self::StorageClass
            | Self::CsiNode
            | Self::VolumeAttachment
            | Self::Namespace
            | Self::NodeOverlay => false,
        }
    }

    /// Whether the kind matters only for spreads that the operator chose.
    pub(crate) fn is_workload(self) -> bool {
        matches!(self, Self::Service | Self::ReplicaSet | Self::StatefulSet | Self::ReplicationController)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One object of the cluster, whatever becomes of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub kind: Kind,
    /// Empty for objects of the whole cluster.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl Key {
    pub fn new(kind: Kind, metadata: &ObjectMeta) -> Self {
        let namespace = match metadata.namespace.as_deref().unwrap_or_default() {
            "" if kind.is_namespaced() => "default",
            namespace => namespace,
        };
        Self { kind, namespace: namespace.into(), name: metadata.name.as_deref().unwrap_or_default().into() }
    }

    /// Namespace and name alone.
    pub(crate) fn pod_name(&self) -> PodName {
        PodName { namespace: (&*self.namespace).into(), name: self.name.clone() }
    }

    pub(crate) fn of_pod(name: &PodName) -> Self {
        Self { kind: Kind::Pod, namespace: name.namespace.shared(), name: name.name.clone() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        write!(f, "{} {}{slash}{}", self.kind, self.namespace, self.name)
    }
}

/// How new a state of an object is. Within one kind a greater number is newer; an object without one is always news.
pub type Version = Option<u64>;

pub(crate) fn version(metadata: &ObjectMeta) -> Version {
    metadata.resource_version.as_deref()?.parse().ok()
}

pub(crate) fn uid(metadata: &ObjectMeta) -> Option<Uid> {
    metadata.uid.as_deref().map(Uid::from)
}

/// An object that is no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone {
    pub key: Key,
    /// Which one it was; another may be made under its name.
    pub uid: Option<Uid>,
    /// Of its last state, where that is known. An object that is made again under its name is newer.
    pub version: Version,
}

impl Object {
    pub fn key(&self) -> Key {
        Key::new(self.kind(), self.metadata())
    }

    pub fn version(&self) -> Version {
        version(self.metadata())
    }

    pub fn uid(&self) -> Option<Uid> {
        uid(self.metadata())
    }

    /// The word that this object was deleted.
    pub fn gone(&self) -> Gone {
        Gone { key: self.key(), uid: self.uid(), version: self.version() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_for_people() {
        let metadata = ObjectMeta { name: Some("web".into()), namespace: Some("shop".into()), ..ObjectMeta::default() };
        assert_eq!(Key::new(Kind::Pod, &metadata).to_string(), "Pod shop/web");
        let metadata = ObjectMeta { name: Some("a".into()), ..ObjectMeta::default() };
        assert_eq!(Key::new(Kind::CsiNode, &metadata).to_string(), "CSINode a");
    }

    #[test]
    fn objects_are_read_by_their_kind_and_refused_with_a_reason() {
        let pod = Object::decode(Kind::Pod, br#"{"metadata": {"name": "a", "resourceVersion": "7"}}"#).unwrap();
        assert_eq!((pod.kind(), pod.version()), (Kind::Pod, Some(7)));
        assert_eq!(pod.gone().key, pod.key());
        let error = Object::decode(Kind::Pod, br#"{"spec": {"containers": 3}}"#).unwrap_err().to_string();
        assert!(error.contains("invalid type"), "{error}");
        for kind in Kind::ALL {
            assert!(Object::decode(*kind, b"[]").is_err(), "{kind}");
        }
    }

    #[test]
    fn a_version_is_a_number_or_nothing() {
        let of = |text: &str| ObjectMeta { resource_version: Some(text.into()), ..ObjectMeta::default() };
        assert_eq!(version(&of("17")), Some(17));
        assert_eq!(version(&of("x17")), None);
        assert_eq!(version(&ObjectMeta::default()), None);
    }
}
