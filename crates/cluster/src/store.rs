//! Our memory of the cluster.
//!
//! Objects come in as they are on the wire and are lowered at once; what is kept is what decisions are made of. Facts may
//! come late, twice, or in any order: the snapshot depends on the newest state of each object and on nothing else.
//!
//! The store is synchronous and knows no clock. Whoever shares it holds it behind a lock, never across an await.

mod ask;
mod assuming;
mod buffers;
mod daemons;
mod disturbing;
mod leaving;
mod machines;
mod moved;
mod on_machine;
mod on_pod;
mod on_pool;
mod on_storage;
mod pods;
mod pools;
mod quiet;
mod recording;
mod refused;
mod sharing;
mod snapshots;
mod storage;
#[cfg(test)]
mod tests;
mod times;
mod trim;
mod unread;
mod versions;
mod wires;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::NodeOverlay;
use api::labels::LabelRules;
use api::record::Event;
use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use model::ids::{Namespace, NodeName, PodName, Uid};
use model::labels::{Labels, WellKnown};
use model::overlay::Overlay;
use model::snapshot::{PodBudget, SchedulingPolicy, Snapshot};
use model::time::Instant;

use crate::assume::Assumed;
use crate::feed::Undecodable;
use crate::lower::node::NodeClasses;
use crate::lower::pod::Surroundings;
use crate::lower::spread::Workloads;
use crate::lower::volume::Refused;
use crate::object::{Gone, Key, Kind, Object, Version, uid};
use crate::record::{self, Journal};
use crate::synced::Synced;
use crate::wake::{Change, Duty};

use versions::Stamp;

pub use ask::{Batch, PoolClaims, PoolCounts, PoolUsage, Revision, Usage};
pub use buffers::Template;
pub use machines::Machine;
pub use pools::NodeClass;
pub use storage::Attachment;
pub use times::PodTimes;
pub use wires::Wires;

/// What the operator and the provider chose for the whole process.
#[derive(Clone, Debug)]
pub struct Settings {
    pub classes: NodeClasses,
    pub rules: LabelRules,
    pub well_known: Arc<WellKnown>,
    pub policy: SchedulingPolicy,
    /// Spreads for pods that name none of their own.
    pub default_spread: Vec<TopologySpreadConstraint>,
    pub refused: Refused,
    /// How long a machine is left alone for pods that were planned onto it.
    pub nomination: Duration,
    /// Kinds without which nothing is decided.
    pub expected: BTreeSet<Kind>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            classes: NodeClasses::default(),
            rules: LabelRules::default(),
            well_known: Arc::default(),
            policy: SchedulingPolicy::default(),
            default_spread: Vec::new(),
            refused: Refused::default(),
            nomination: Duration::from_secs(20),
            expected: BTreeSet::from([
                Kind::Pod,
                Kind::Node,
                Kind::NodeClaim,
                Kind::NodePool,
                Kind::DaemonSet,
                Kind::PersistentVolumeClaim,
                Kind::PersistentVolume,
                Kind::StorageClass,
                Kind::CsiNode,
                Kind::VolumeAttachment,
                Kind::PodDisruptionBudget,
                Kind::Namespace,
            ]),
        }
    }
}

/// Everything that is known, and everything that we have asked for.
#[derive(Debug)]
pub struct Store {
    settings: Settings,
    pods: pods::Pods,
    unread: unread::Unread,
    machines: machines::Machines,
    /// Machines that are shown and going away.
    leaving: BTreeSet<NodeName>,
    pools: pools::Pools,
    volumes: storage::Volumes,
    namespaces: BTreeMap<Namespace, Labels>,
    /// What stands there when disruption is stopped in the whole cluster.
    stopped: Option<Arc<str>>,
    workloads: BTreeMap<Namespace, Workloads>,
    daemons: daemons::Daemons,
    budgets: BTreeMap<PodName, Arc<PodBudget>>,
    buffers: buffers::Buffers,
    overlays: BTreeMap<Arc<str>, Arc<Overlay>>,
    /// The same as they came, for those who write their status.
    overlay_wires: BTreeMap<Arc<str>, Arc<NodeOverlay>>,
    assumed: Assumed,
    times: times::Times,
    moved: moved::Movements,
    /// Pods that waited at the last look at what may leave, which imagined places for them.
    reckoned_with: BTreeSet<PodName>,
    quiet: quiet::Quiet,
    synced: Synced,
    versions: versions::Versions,
    snapshots: snapshots::Snapshots,
    /// What ran out and nobody has been told of yet.
    untold: Change,
    /// Who writes down what is told and asked, if somebody wants that.
    journal: Option<Box<Journal>>,
}

impl Store {
    pub fn new(settings: Settings, now: Instant) -> Self {
        Self {
            pods: pods::Pods::default(),
            unread: unread::Unread::default(),
            machines: machines::Machines::default(),
            leaving: BTreeSet::new(),
            pools: pools::Pools::default(),
            volumes: storage::Volumes::new(settings.refused.clone()),
            namespaces: BTreeMap::new(),
            stopped: None,
            workloads: BTreeMap::new(),
            daemons: daemons::Daemons::default(),
            budgets: BTreeMap::new(),
            buffers: buffers::Buffers::default(),
            overlays: BTreeMap::new(),
            overlay_wires: BTreeMap::new(),
            assumed: Assumed::default(),
            times: times::Times::default(),
            moved: moved::Movements::default(),
            reckoned_with: BTreeSet::new(),
            quiet: quiet::Quiet::new(now),
            synced: Synced::new(settings.expected.clone(), now),
            versions: versions::Versions::default(),
            snapshots: snapshots::Snapshots::default(),
            untold: Change::default(),
            journal: None,
            settings,
        }
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Takes in the state of an object, wherever it comes from: a watch, a list, or the answer to a write of our own.
    pub fn apply(&mut self, object: impl Into<Object>, now: Instant) -> Change {
        let object = object.into();
        self.note_at(now, || Event::Applied { kind: object.kind().to_string(), object: object.encode() });
        self.accept(object, now)
    }

    fn accept(&mut self, object: Object, now: Instant) -> Change {
        let key = object.key();
        let stamp = Stamp { version: object.version(), uid: object.uid() };
        let mut change = Change::default();
        if key.kind.is_workload() && self.settings.default_spread.is_empty() {
            return change;
        }
        self.account_for(&key);
        if self.is_old(&key, stamp.version) || self.versions.is_departed(&key, &stamp) {
            return change;
        }
        if key.kind != Kind::Pod {
            self.versions.hold(key.clone(), stamp.version);
        }
        self.take(object, &key, now, &mut change);
        change
    }

    /// Whether a state of an object is no news, so that nobody needs to read it. A recording wants to see all there is.
    pub fn knows(&self, key: &Key, version: Version) -> bool {
        !self.is_recording() && self.is_old(key, version)
    }

    fn is_old(&self, key: &Key, version: Version) -> bool {
        self.held_version(key).is_some_and(|held| !versions::is_newer(version, held))
    }

    /// An object is there, whatever it says.
    pub(crate) fn account_for(&mut self, key: &Key) {
        self.synced.account_for(key);
        if key.kind == Kind::NodeClaim {
            self.assumed.confirm_claim(&NodeName::from(&*key.name));
        }
    }

    /// Takes in that an object is no more.
    pub fn delete(&mut self, gone: &Gone, now: Instant) -> Change {
        self.note_at(now, || Event::Deleted(record::gone(gone)));
        self.lose(gone, now)
    }

    fn lose(&mut self, gone: &Gone, now: Instant) -> Change {
        let mut change = Change::default();
        let held = self.held_version(&gone.key).flatten();
        let held_uid = self.held_uid(&gone.key);
        let is_another = match (held, gone.version) {
            (Some(held), Some(version)) => held > version,
            _ => held_uid.is_some() && gone.uid.is_some() && held_uid != gone.uid,
        };
        if is_another {
            // The name is in use again.
            self.versions.bury(gone.key.clone(), Stamp { version: gone.version, uid: gone.uid.clone() }, now);
            return change;
        }
        let uid = gone.uid.clone().or(held_uid);
        self.versions.bury(gone.key.clone(), Stamp { version: gone.version.max(held), uid }, now);
        self.remove(&gone.key, now, &mut change);
        change
    }

    /// A list of a kind begins. What it does not show until its end is gone.
    pub fn restart(&mut self, kind: Kind) {
        self.note(|| Event::Restarted { kind: kind.to_string() });
        self.begin_list(kind);
    }

    fn begin_list(&mut self, kind: Kind) {
        let known: BTreeSet<Key> = match kind {
            Kind::Pod => self.pods.iter().map(|(name, _)| name).chain(self.unread.names()).map(Key::of_pod).collect(),
            kind => self.versions.keys_of(kind).cloned().collect(),
        };
        self.synced.restart(kind, known);
    }

    /// The list of a kind is complete; `version` is the list's own.
    pub fn finish_list(&mut self, kind: Kind, version: Version, now: Instant) -> Change {
        self.note_at(now, || Event::Listed { kind: kind.to_string(), version });
        self.end_list(kind, version, now)
    }

    fn end_list(&mut self, kind: Kind, version: Version, now: Instant) -> Change {
        let mut change = Change::default();
        for key in self.synced.finish(kind).unwrap_or_default() {
            let is_after_list = match (self.held_version(&key).flatten(), version) {
                (Some(held), Some(version)) => held > version,
                // Who can say; but what we have just created is more likely missing from the list than deleted.
                _ => kind == Kind::NodeClaim && self.assumed.is_unseen(&NodeName::from(&*key.name)),
            };
            if !is_after_list {
                // Not remembered as departed: a list that was wrong is made good by the next one.
                self.remove(&key, now, &mut change);
            }
        }
        change
    }

    /// The cluster does not serve the kind, so there are no such objects.
    ///
    /// Of a kind that is expected nobody believes that: an API server that is starting says so too, and to act as if all
    /// claims were gone would be the end of their machines.
    pub fn set_absent(&mut self, kind: Kind, now: Instant) -> Change {
        self.note_at(now, || Event::Absent { kind: kind.to_string() });
        if self.synced.is_expected(kind) {
            return Change::default();
        }
        self.begin_list(kind);
        self.end_list(kind, None, now)
    }

    /// An object that cannot be decoded is still there; what was known of it stays.
    pub fn see_undecodable(&mut self, object: &Undecodable) {
        self.note(|| Event::Undecodable {
            object: record::gone(&Gone { key: object.key.clone(), uid: object.uid.clone(), version: None }),
            node: object.node.as_ref().map(ToString::to_string),
            problem: object.problem.to_string(),
        });
        self.synced.account_for(&object.key);
        if object.key.kind == Kind::Pod {
            self.unread.put(object.key.pod_name(), object.node.clone());
        }
    }

    /// The world as it is known. Its cost is that of what has changed since the last one.
    pub fn snapshot(&mut self, now: Instant) -> Arc<Snapshot> {
        self.note_at(now, || Event::Looked { to: None });
        self.look(now)
    }

    fn look(&mut self, now: Instant) -> Arc<Snapshot> {
        self.run_out(now);
        let mut snapshots = std::mem::take(&mut self.snapshots);
        let snapshot = snapshots.take(
            |snapshot| snapshot.now == now,
            |snapshot, stale| self.renew(snapshot, stale, now),
            || self.build(now),
        );
        self.snapshots = snapshots;
        snapshot
    }

    /// Lets go of what has run out, and says whom that wakes. Snapshots do that by themselves; this is for those who sleep.
    pub fn expire(&mut self, now: Instant) -> Change {
        self.note_at(now, || Event::Looked { to: None });
        self.run_out(now);
        std::mem::take(&mut self.untold)
    }

    fn build(&self, now: Instant) -> Snapshot {
        let real = self.pods.iter().map(|(name, entry)| (name.clone(), entry.pod.clone()));
        let mut pods: BTreeMap<_, _> =
            self.buffers.pods().iter().map(|(name, pod)| (name.clone(), pod.clone())).collect();
        if pods.is_empty() {
            pods = real.collect();
        } else {
            pods.extend(real);
        }
        let machines = self.machines.shown().iter();
        Snapshot {
            now,
            policy: self.settings.policy,
            well_known: self.settings.well_known.clone(),
            pools: self.pools.shown().clone(),
            nodes: machines.map(|(name, machine)| (name.clone(), machine.node.clone())).collect(),
            pods,
            daemons: self.daemons.shown().clone(),
            disruption_budgets: self.budgets.values().cloned().collect(),
            stopped: self.stopped.clone(),
        }
    }

    fn renew(&self, snapshot: &mut Snapshot, stale: &snapshots::Stale, now: Instant) {
        snapshot.now = now;
        for name in &stale.pods {
            let pod = self.pods.get(name).map(|entry| &entry.pod).or_else(|| self.buffers.pods().get(name));
            match pod {
                Some(pod) => drop(snapshot.pods.insert(pod.name.clone(), pod.clone())),
                None => drop(snapshot.pods.remove(name)),
            }
        }
        for name in &stale.nodes {
            match self.machines.shown().get(name) {
                Some(machine) => drop(snapshot.nodes.insert(name.clone(), machine.node.clone())),
                None => drop(snapshot.nodes.remove(name)),
            }
        }
        if stale.pools {
            snapshot.pools = self.pools.shown().clone();
        }
        if stale.daemons {
            snapshot.daemons = self.daemons.shown().clone();
        }
        if stale.budgets {
            snapshot.disruption_budgets = self.budgets.values().cloned().collect();
        }
        if stale.stopped {
            snapshot.stopped = self.stopped.clone();
        }
    }

    fn held_version(&self, key: &Key) -> Option<Version> {
        match key.kind {
            Kind::Pod => self.pods.get(&key.pod_name()).map(|entry| entry.version),
            _ => self.versions.held(key),
        }
    }

    fn held_uid(&self, key: &Key) -> Option<Uid> {
        match key.kind {
            Kind::Pod => self.pods.get(&key.pod_name()).map(|entry| entry.pod.uid.clone()),
            Kind::Node => self.machines.node(&NodeName::from(&*key.name)).and_then(|node| uid(&node.metadata)),
            Kind::NodeClaim => self.machines.claim(&NodeName::from(&*key.name)).and_then(|claim| uid(&claim.metadata)),
            _ => None,
        }
    }

    fn take(&mut self, object: Object, key: &Key, now: Instant, change: &mut Change) {
        match object {
            Object::Pod(wire) => {
                self.forget_unread(&key.pod_name(), change);
                self.take_pod(&wire, now, change);
            }
            Object::Node(wire) => self.put_node(&key.name, Some(*wire), now, change),
            Object::NodeClaim(wire) => self.put_claim(&key.name, Some(*wire), now, change),
            Object::CsiNode(wire) => self.put_csi_node(&key.name, Some(*wire), now, change),
            Object::NodePool(wire) => self.put_pool(&key.name, Some(*wire), now, change),
            Object::KwokNodeClass(wire) => {
                let conditions = wire.status.as_ref().map(|status| &*status.conditions).unwrap_or_default();
                self.put_class(key, Some(NodeClass::new(key.kind, &wire.metadata, conditions)), change);
            }
            Object::Ec2NodeClass(wire) => {
                let conditions = wire.status.as_ref().map(|status| &*status.conditions).unwrap_or_default();
                self.put_class(key, Some(NodeClass::new(key.kind, &wire.metadata, conditions)), change);
            }
            Object::DaemonSet(wire) => self.put_daemon_set(&key.pod_name(), Some(&wire), now, change),
            Object::PodDisruptionBudget(wire) => self.put_budget(&key.pod_name(), Some(&wire), now, change),
            Object::CapacityBuffer(wire) => self.put_buffer(&key.pod_name(), Some(*wire), now, change),
            Object::PodTemplate(_) => self.note_template(&key.pod_name(), change),
            Object::NodeOverlay(wire) => self.put_overlay(&key.name, Some(*wire), now, change),
            Object::PersistentVolumeClaim(wire) => self.put_volume_claim(&key.pod_name(), Some(*wire), now, change),
            Object::PersistentVolume(wire) => self.put_volume(&key.name, Some(*wire), now, change),
            Object::StorageClass(wire) => self.put_storage_class(&key.name, Some(*wire), now, change),
            Object::VolumeAttachment(wire) => self.put_attachment(&key.name, Some(*wire), change),
            Object::Namespace(wire) => self.put_namespace(&key.name, Some(&wire), now, change),
            Object::Service(_) | Object::ReplicaSet(_) | Object::StatefulSet(_) | Object::ReplicationController(_) => {
                self.put_workload(key, Some(object), now, change)
            }
        }
    }

    fn remove(&mut self, key: &Key, now: Instant, change: &mut Change) {
        self.synced.account_for(key);
        self.versions.let_go(key);
        match key.kind {
            Kind::Pod => {
                self.forget_unread(&key.pod_name(), change);
                self.drop_pod(&key.pod_name(), on_pod::Departure::Deleted, now, change);
            }
            Kind::Node => self.put_node(&key.name, None, now, change),
            Kind::NodeClaim => self.put_claim(&key.name, None, now, change),
            Kind::CsiNode => self.put_csi_node(&key.name, None, now, change),
            Kind::NodePool => self.put_pool(&key.name, None, now, change),
            Kind::KwokNodeClass | Kind::Ec2NodeClass => self.put_class(key, None, change),
            Kind::DaemonSet => self.put_daemon_set(&key.pod_name(), None, now, change),
            Kind::PodDisruptionBudget => self.put_budget(&key.pod_name(), None, now, change),
            Kind::CapacityBuffer => self.put_buffer(&key.pod_name(), None, now, change),
            Kind::PodTemplate => self.note_template(&key.pod_name(), change),
            Kind::NodeOverlay => self.put_overlay(&key.name, None, now, change),
            Kind::PersistentVolumeClaim => self.put_volume_claim(&key.pod_name(), None, now, change),
            Kind::PersistentVolume => self.put_volume(&key.name, None, now, change),
            Kind::StorageClass => self.put_storage_class(&key.name, None, now, change),
            Kind::VolumeAttachment => self.put_attachment(&key.name, None, change),
            Kind::Namespace => self.put_namespace(&key.name, None, now, change),
            Kind::Service | Kind::ReplicaSet | Kind::StatefulSet | Kind::ReplicationController => {
                self.put_workload(key, None, now, change);
            }
        }
    }

    /// Something happened that may make it worth while to think about disruption again.
    fn disturb(&mut self, now: Instant, change: &mut Change) {
        self.quiet.disturb(now);
        change.wake(Duty::Disrupt);
    }
}

/// What decides the meaning of pods, from the parts of the store that hold it.
fn surroundings<'a>(
    settings: &'a Settings,
    namespaces: &'a BTreeMap<Namespace, Labels>,
    volumes: &'a storage::Volumes,
    workloads: &'a BTreeMap<Namespace, Workloads>,
) -> Surroundings<'a> {
    Surroundings {
        rules: &settings.rules,
        namespaces,
        storage: volumes.storage(),
        workloads,
        default_spread: &settings.default_spread,
    }
}
