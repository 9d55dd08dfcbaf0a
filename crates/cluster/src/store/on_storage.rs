//! What happens when something changes that pods refer to: storage, namespaces, and what they belong to.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace as WireNamespace, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{StorageClass, VolumeAttachment};
use model::ids::{Namespace, PodName};
use model::labels::STOP_NAMESPACE;
use model::time::Instant;

use super::{Store, trim};
use crate::lower;
use crate::lower::spread::Workloads;
use crate::object::{Key, Kind, Object};
use crate::wake::{Change, Duty};

impl Store {
    pub(super) fn put_volume_claim(
        &mut self,
        key: &PodName,
        wire: Option<PersistentVolumeClaim>,
        now: Instant,
        change: &mut Change,
    ) {
        let claims = self.volumes.put_claim(key, wire.map(trim::volume_claim));
        self.renew_users(&claims, now, change);
    }

    pub(super) fn put_volume(&mut self, name: &str, wire: Option<PersistentVolume>, now: Instant, change: &mut Change) {
        let claims = self.volumes.put_volume(name, wire.map(trim::volume));
        self.renew_users(&claims, now, change);
    }

    pub(super) fn put_storage_class(
        &mut self,
        name: &str,
        wire: Option<StorageClass>,
        now: Instant,
        change: &mut Change,
    ) {
        let claims = self.volumes.put_class(name, wire.map(trim::storage_class));
        self.renew_users(&claims, now, change);
    }

    fn renew_users(&mut self, claims: &BTreeSet<PodName>, now: Instant, change: &mut Change) {
        let users = claims.iter().flat_map(|claim| self.pods.using_volume_claim(claim)).cloned().collect();
        self.renew_pods(users, now, change);
    }

    pub(super) fn put_attachment(&mut self, name: &Arc<str>, wire: Option<VolumeAttachment>, change: &mut Change) {
        if let Some(node) = self.volumes.put_attachment(name, wire)
            && self.leaving.contains(&node)
        {
            change.wake(Duty::Node(node));
        }
    }

    pub(super) fn put_namespace(
        &mut self,
        name: &str,
        wire: Option<&WireNamespace>,
        now: Instant,
        change: &mut Change,
    ) {
        if name == STOP_NAMESPACE {
            self.note_stop(wire.and_then(lower::stop_of), now, change);
        }
        let name = Namespace::from(name);
        let labels = wire.map(|wire| lower::labels(wire.metadata.labels.as_ref()));
        if self.namespaces.get(&name) == labels.as_ref() {
            return;
        }
        match labels {
            Some(labels) => drop(self.namespaces.insert(name, labels)),
            None => drop(self.namespaces.remove(&name)),
        }
        let pods = self.pods.selecting_namespaces().cloned().collect();
        self.renew_pods(pods, now, change);
        self.refresh_buffers(now, change);
    }

    fn note_stop(&mut self, stopped: Option<Arc<str>>, now: Instant, change: &mut Change) {
        if self.stopped != stopped {
            self.stopped = stopped;
            self.snapshots.touch(|stale| stale.stopped = true);
            self.disturb(now, change);
        }
    }

    pub(super) fn put_workload(&mut self, key: &Key, object: Option<Object>, now: Instant, change: &mut Change) {
        let namespace = Namespace::from(&*key.namespace);
        let workloads = self.workloads.entry(namespace.clone()).or_default();
        let is_news = put(workloads, key, object);
        if *workloads == Workloads::default() {
            self.workloads.remove(&namespace);
        }
        if !is_news {
            return;
        }
        let pods = self.pods.with_default_spread(&namespace).cloned().collect();
        self.renew_pods(pods, now, change);
        self.refresh_buffers(now, change);
    }

    fn refresh_buffers(&mut self, now: Instant, change: &mut Change) {
        let keys: Vec<PodName> = self.buffers.iter().map(|(key, _)| key.clone()).collect();
        keys.iter().for_each(|key| self.refresh_buffer(key, now, change));
    }
}

/// Replaces one of the workloads, or removes it, and says whether that made a difference.
fn put(workloads: &mut Workloads, key: &Key, object: Option<Object>) -> bool {
    fn replace<T: PartialEq>(all: &mut std::collections::BTreeMap<String, T>, name: &str, value: Option<T>) -> bool {
        if all.get(name) == value.as_ref() {
            return false;
        }
        match value {
            Some(value) => drop(all.insert(name.to_owned(), value)),
            None => drop(all.remove(name)),
        }
        true
    }
    let name = &*key.name;
    match (key.kind, object) {
        (_, Some(Object::Service(wire))) => replace(&mut workloads.services, name, Some(trim::service(*wire))),
        (_, Some(Object::ReplicaSet(wire))) => {
            replace(&mut workloads.replica_sets, name, Some(trim::replica_set(*wire)))
        }
        (_, Some(Object::StatefulSet(wire))) => {
            replace(&mut workloads.stateful_sets, name, Some(trim::stateful_set(*wire)))
        }
        (_, Some(Object::ReplicationController(wire))) => {
            replace(&mut workloads.replication_controllers, name, Some(trim::replication_controller(*wire)))
        }
        (Kind::Service, None) => replace(&mut workloads.services, name, None),
        (Kind::ReplicaSet, None) => replace(&mut workloads.replica_sets, name, None),
        (Kind::StatefulSet, None) => replace(&mut workloads.stateful_sets, name, None),
        (Kind::ReplicationController, None) => replace(&mut workloads.replication_controllers, name, None),
        _ => false,
    }
}
