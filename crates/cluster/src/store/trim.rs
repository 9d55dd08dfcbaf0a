//! What is kept of objects that are kept as they came.
//!
//! Nodes, claims and pools are few, and those who patch them need them whole where lists are concerned. But no list of
//! images, no heartbeat and no record of who wrote which field decides anything here.

use api::{NodeClaim, NodePool};
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetSpec, StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, Node, NodeSpec, NodeStatus, PersistentVolume, PersistentVolumeClaim,
    PersistentVolumeClaimSpec, PersistentVolumeClaimStatus, PersistentVolumeSpec, ReplicationController,
    ReplicationControllerSpec, Service, ServiceSpec,
};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Annotations of volume claims that decide whether they are usable.
const OF_CLAIMS: [&str; 2] = ["pv.kubernetes.io/bind-completed", "volume.beta.kubernetes.io/storage-class"];

fn metadata(mut wire: ObjectMeta) -> ObjectMeta {
    wire.managed_fields = None;
    if let Some(annotations) = &mut wire.annotations {
        annotations.remove(LAST_APPLIED);
    }
    wire
}

/// Name and end, and nothing that changes without meaning.
fn bare(wire: ObjectMeta) -> ObjectMeta {
    ObjectMeta { name: wire.name, deletion_timestamp: wire.deletion_timestamp, ..ObjectMeta::default() }
}

pub(super) fn node(wire: Node) -> Node {
    let spec = wire.spec.map(|spec| NodeSpec {
        provider_id: spec.provider_id,
        taints: spec.taints,
        unschedulable: spec.unschedulable,
        ..NodeSpec::default()
    });
    let status = wire.status.map(|status| NodeStatus {
        allocatable: status.allocatable,
        capacity: status.capacity,
        phase: status.phase,
        conditions: status.conditions.map(|mut conditions| {
            conditions.iter_mut().for_each(|condition| condition.last_heartbeat_time = None);
            conditions
        }),
        ..NodeStatus::default()
    });
    Node { metadata: metadata(wire.metadata), spec, status }
}

pub(super) fn claim(mut wire: NodeClaim) -> NodeClaim {
    wire.metadata = metadata(wire.metadata);
    wire
}

pub(super) fn pool(mut wire: NodePool) -> NodePool {
    wire.metadata = metadata(wire.metadata);
    wire
}

pub(super) fn csi_node(wire: CSINode) -> CSINode {
    let mut drivers = wire.spec.drivers;
    for driver in &mut drivers {
        driver.topology_keys = None;
        driver.node_id = String::new();
    }
    CSINode { metadata: ObjectMeta::default(), spec: k8s_openapi::api::storage::v1::CSINodeSpec { drivers } }
}

pub(super) fn volume_claim(wire: PersistentVolumeClaim) -> PersistentVolumeClaim {
    let annotations = wire.metadata.annotations.clone().map(|mut annotations| {
        annotations.retain(|key, _| OF_CLAIMS.contains(&key.as_str()));
        annotations
    });
    PersistentVolumeClaim {
        metadata: ObjectMeta { annotations, ..bare(wire.metadata) },
        spec: wire.spec.map(|spec| PersistentVolumeClaimSpec {
            volume_name: spec.volume_name,
            storage_class_name: spec.storage_class_name,
            ..PersistentVolumeClaimSpec::default()
        }),
        status: wire.status.map(|status| PersistentVolumeClaimStatus {
            phase: status.phase,
            ..PersistentVolumeClaimStatus::default()
        }),
    }
}

pub(super) fn volume(wire: PersistentVolume) -> PersistentVolume {
    let spec = wire.spec.map(|spec| PersistentVolumeSpec {
        csi: spec
            .csi
            .map(|source| CSIPersistentVolumeSource { driver: source.driver, ..CSIPersistentVolumeSource::default() }),
        aws_elastic_block_store: spec.aws_elastic_block_store,
        azure_disk: spec.azure_disk,
        azure_file: spec.azure_file,
        cinder: spec.cinder,
        gce_persistent_disk: spec.gce_persistent_disk,
        portworx_volume: spec.portworx_volume,
        vsphere_volume: spec.vsphere_volume,
        local: spec.local,
        host_path: spec.host_path,
        node_affinity: spec.node_affinity,
        ..PersistentVolumeSpec::default()
    });
    PersistentVolume { metadata: bare(wire.metadata), spec, status: None }
}

pub(super) fn storage_class(wire: StorageClass) -> StorageClass {
    StorageClass {
        metadata: bare(wire.metadata),
        provisioner: wire.provisioner,
        volume_binding_mode: wire.volume_binding_mode,
        allowed_topologies: wire.allowed_topologies,
        ..StorageClass::default()
    }
}

pub(super) fn service(wire: Service) -> Service {
    let spec = wire.spec.map(|spec| ServiceSpec { selector: spec.selector, ..ServiceSpec::default() });
    Service { metadata: ObjectMeta::default(), spec, status: None }
}

pub(super) fn replica_set(wire: ReplicaSet) -> ReplicaSet {
    let spec = wire.spec.map(|spec| ReplicaSetSpec { selector: spec.selector, ..ReplicaSetSpec::default() });
    ReplicaSet { metadata: ObjectMeta::default(), spec, status: None }
}

pub(super) fn stateful_set(wire: StatefulSet) -> StatefulSet {
    let spec = wire.spec.map(|spec| StatefulSetSpec { selector: spec.selector, ..StatefulSetSpec::default() });
    StatefulSet { metadata: ObjectMeta::default(), spec, status: None }
}

pub(super) fn replication_controller(wire: ReplicationController) -> ReplicationController {
    let spec = wire
        .spec
        .map(|spec| ReplicationControllerSpec { selector: spec.selector, ..ReplicationControllerSpec::default() });
    ReplicationController { metadata: ObjectMeta::default(), spec, status: None }
}
