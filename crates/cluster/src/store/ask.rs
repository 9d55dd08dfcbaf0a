//! What duties ask of the store.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::sync::Arc;
use std::time::Duration;

use api::nodepool::NodeClassReference;
use api::record::{DecisionKind, Event};
use api::{CapacityBuffer, NodeClaim, NodeOverlay, NodePool};
use k8s_openapi::api::core::v1::Node as WireNode;
use model::disruption::Moved;
use model::eviction::is_currently_reschedulable;
use model::ids::{NodeName, PodName, PoolName};
use model::node::Progress;
use model::overlay::Overlay;
use model::pod::{Owner, Pod};
use model::pool::Pool;
use model::resources::Resources;
use model::snapshot::{PodBudget, Snapshot};
use model::time::Instant;

use super::refused::Refused;
use super::{Attachment, Machine, NodeClass, PodTimes, Store, Wires};
use crate::lower::eligible::{is_provisionable, is_unjudged};
use crate::lower::facts::PodFacts;
use crate::object::{Key, Kind};

/// Pods that need a place, and the world that they need it in.
#[derive(Clone, Debug)]
pub struct Batch {
    pub snapshot: Arc<Snapshot>,
    /// Waiting, and fit for us.
    pub pending: Vec<Arc<Pod>>,
    /// On machines that are leaving, and able to move now.
    pub displaced: Vec<Arc<Pod>>,
    /// Where those who wait or must move are to go, as far as that was planned before.
    pub promised: BTreeMap<PodName, NodeName>,
    /// Standing for room that buffers keep.
    pub buffered: Vec<Arc<Pod>>,
    /// Waiting, but with a problem that is not ours to solve.
    pub ignored: Vec<Arc<Pod>>,
}

impl Batch {
    /// All that need a place.
    pub fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pending.iter().chain(&self.displaced).chain(&self.buffered)
    }

    pub fn is_empty(&self) -> bool {
        self.pods().next().is_none()
    }
}

/// The versions of a claim and its Nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision(Vec<u64>);

/// What the pods of a node ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub requests: Resources,
    /// The part of it that daemons ask for.
    pub daemons: Resources,
    /// What they may use at most, and the daemons' part of it; each pod takes its place.
    pub limits: Resources,
    pub daemon_limits: Resources,
    pub pods: usize,
}

/// What a pool's machines have together, without those that are leaving.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolUsage {
    pub capacity: Resources,
    /// How many machines that is.
    pub nodes: i64,
    /// Machines that were asked for and of which nobody knows yet what they will be.
    pub unlaunched: i64,
}

/// A pool's claims by what is to become of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolClaims {
    pub active: BTreeSet<NodeName>,
    pub deleting: BTreeSet<NodeName>,
    /// To go as soon as their replacements are there.
    pub replacing: BTreeSet<NodeName>,
}

/// How many of each there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolCounts {
    pub active: i64,
    pub deleting: i64,
    pub replacing: i64,
}

impl PoolClaims {
    pub fn counts(&self) -> PoolCounts {
        let count = |names: &BTreeSet<NodeName>| i64::try_from(names.len()).unwrap_or(i64::MAX);
        let Self { active, deleting, replacing } = self;
        PoolCounts { active: count(active), deleting: count(deleting), replacing: count(replacing) }
    }
}

impl Store {
    /// Everything that a pass of provisioning needs, all of one moment.
    pub fn batch(&mut self, now: Instant) -> Batch {
        self.batch_for(DecisionKind::Provisioning, now)
    }

    /// The same for any decision.
    pub fn batch_for(&mut self, decision: DecisionKind, now: Instant) -> Batch {
        let snapshot = self.snapshot_to_decide(decision, now);
        let (pending, ignored): (Vec<_>, Vec<_>) = self.provisionable(now).partition(|pod| pod.problems.is_empty());
        let displaced = self.displaced(now);
        if decision == DecisionKind::Disruption {
            self.reckoned_with = pending.iter().map(|pod| pod.name.clone()).collect();
        }
        Batch {
            promised: self.promises(pending.iter().chain(&displaced).map(|pod| &pod.name)),
            pending,
            ignored,
            displaced,
            buffered: self.buffers.pods().values().cloned().collect(),
            snapshot,
        }
    }

    /// What the operator wrote when disruption was stopped in the whole cluster; nothing while it goes on.
    pub fn disruption_stopped(&self) -> Option<&Arc<str>> {
        self.stopped.as_ref()
    }

    /// A number that is the same as before only if a snapshot would show the same, but for the time.
    pub fn generation(&self) -> u64 {
        self.snapshots.generation()
    }

    /// Pods that wait for a node that only we could bring, those with problems included, and those of whom it is plain that
    /// they will.
    pub fn provisionable(&self, now: Instant) -> impl Iterator<Item = Arc<Pod>> + '_ {
        let refused = Refused::of(&self.pods);
        let is_wanted = move |pod: &Pod| is_provisionable(pod) || refused.foretells(pod, now);
        self.pods.unbound().filter(move |entry| is_wanted(&entry.pod)).map(|entry| entry.pod.clone())
    }

    /// Whether the scheduler is about to say of new pods that it finds no place for them, or that it does, and it is open which.
    pub fn has_unjudged(&self, now: Instant) -> bool {
        let refused = Refused::of(&self.pods);
        self.pods.unbound().any(|entry| is_unjudged(&entry.pod, now) && !refused.foretells(&entry.pod, now))
    }

    /// Pods of leaving machines that would move now if they had a place.
    pub fn displaced(&self, now: Instant) -> Vec<Arc<Pod>> {
        let budgets: Vec<Arc<PodBudget>> = self.budgets.values().cloned().collect();
        let pods = self.leaving.iter().flat_map(|node| self.pods.on_node(node)).map(|entry| &entry.pod);
        pods.filter(|pod| is_currently_reschedulable(pod, &budgets, now)).cloned().collect()
    }

    pub fn pod(&self, name: &PodName) -> Option<(&Arc<Pod>, &PodFacts)> {
        self.pods.get(name).map(|entry| (&entry.pod, &*entry.facts))
    }

    /// Pods that came in the place of some that had to leave a node of ours, as far as that still counts: they rest, or were moved
    /// within some time. How long both are, whoever asks says.
    pub fn moved_pods(&self, now: Instant, first_rest: Duration, within: Duration) -> BTreeMap<PodName, Moved> {
        self.moved.lately(now, first_rest, within)
    }

    pub fn pod_times(&self, name: &PodName) -> Option<&PodTimes> {
        self.times.get(name)
    }

    pub fn pod_count(&self) -> usize {
        self.pods.len()
    }

    /// Pods that nobody has bound to a node yet, whatever they wait for.
    pub fn unbound_pods(&self) -> impl Iterator<Item = (&Arc<Pod>, &PodFacts)> {
        self.pods.unbound().map(|entry| (&entry.pod, &*entry.facts))
    }

    /// Pods bound to a node that have not ended.
    pub fn pods_on(&self, node: &NodeName) -> impl Iterator<Item = (&Arc<Pod>, &PodFacts)> {
        self.pods.on_node(node).map(|entry| (&entry.pod, &*entry.facts))
    }

    pub fn usage(&self, node: &NodeName) -> Usage {
        let mut usage = Usage::default();
        for entry in self.pods.on_node(node) {
            let requests = &entry.pod.requests;
            let limits = entry.facts.limits.as_deref().cloned().unwrap_or_default().with("pods", 1);
            if entry.pod.owner == Owner::DaemonSet {
                usage.daemons = usage.daemons.plus(requests);
                usage.daemon_limits = usage.daemon_limits.plus(&limits);
            }
            usage.requests = usage.requests.plus(requests);
            usage.limits = usage.limits.plus(&limits);
            usage.pods += 1;
        }
        usage
    }

    /// The PersistentVolumes that a pod holds.
    pub fn volumes_of(&self, pod: &PodName) -> Vec<&str> {
        let ties = self.pods.get(pod).and_then(|entry| entry.ties.as_ref());
        let claims = ties.into_iter().flat_map(|ties| ties.claims());
        let claim = |name: &Arc<str>| PodName { namespace: pod.namespace.clone(), name: name.clone() };
        claims.filter_map(|name| self.volumes.volume_of(&claim(name))).collect()
    }

    pub fn attachments_on(&self, node: &NodeName) -> impl Iterator<Item = &Attachment> {
        self.volumes.attachments(node)
    }

    /// All machines by the names that snapshots have them under.
    pub fn machines(&self) -> &BTreeMap<NodeName, Machine> {
        self.machines.shown()
    }

    /// The machine that a claim is or will be.
    pub fn machine_of_claim(&self, claim: &NodeName) -> Option<&Machine> {
        self.machines.of_claim(claim)
    }

    /// A Node as it came, without what nobody here reads; it has its version and may be patched from.
    pub fn node(&self, name: &NodeName) -> Option<Arc<WireNode>> {
        self.machines.node(name)
    }

    pub fn nodes(&self) -> &Wires<WireNode> {
        self.machines.nodes()
    }

    /// A claim of ours as it came.
    pub fn claim(&self, name: &NodeName) -> Option<Arc<NodeClaim>> {
        self.machines.claim(name)
    }

    /// Tells states of a claim and its Nodes apart, and reads none of them for it. `None` when there is no such claim of ours, or no telling.
    pub fn revision_of_claim(&self, name: &NodeName) -> Option<Revision> {
        let id = self.machines.claims().brief(name)?.id.as_deref();
        let nodes = id.into_iter().flat_map(|id| self.nodes_with_id(id)).map(|node| (Kind::Node, node));
        let version = |(kind, name): (Kind, &NodeName)| {
            let key = Key { kind, namespace: "".into(), name: name.as_str().into() };
            self.versions.held(&key).flatten()
        };
        Some(Revision(iter::once((Kind::NodeClaim, name)).chain(nodes).map(version).collect::<Option<_>>()?))
    }

    pub fn claims(&self) -> &Wires<NodeClaim> {
        self.machines.claims()
    }

    /// Nodes that say they are this machine; more than one is a fault in the cluster.
    pub fn nodes_with_id(&self, provider_id: &str) -> impl Iterator<Item = &NodeName> {
        self.machines.nodes_with_id(provider_id)
    }

    /// The claim of a Node; nothing when it has none, or when several say that they are its.
    pub fn claim_of_node(&self, node: &NodeName) -> Option<Arc<NodeClaim>> {
        let node = self.node(node)?;
        let id = node.spec.as_ref()?.provider_id.as_deref().filter(|id| !id.is_empty())?;
        let mut claims = self.claims_with_id(id);
        match (claims.next(), claims.next()) {
            (Some(only), None) => self.claim(only),
            _ => None,
        }
    }

    pub fn claims_with_id(&self, provider_id: &str) -> impl Iterator<Item = &NodeName> {
        self.machines.claims_with_id(provider_id)
    }

    /// A pool of ours as it came.
    pub fn node_pool(&self, name: &PoolName) -> Option<&Arc<NodePool>> {
        self.pools.wires().get(name)
    }

    pub fn node_pools(&self) -> &BTreeMap<PoolName, Arc<NodePool>> {
        self.pools.wires()
    }

    /// Pools of ours as the engine sees them, with what they can buy.
    pub fn pools(&self) -> &BTreeMap<PoolName, Arc<Pool>> {
        self.pools.shown()
    }

    pub fn node_class(&self, kind: Kind, name: &str) -> Option<&Arc<NodeClass>> {
        self.pools.class(kind, name)
    }

    /// The class that a pool or a claim names, if it is there.
    pub fn class_named(&self, named: &NodeClassReference) -> Option<&Arc<NodeClass>> {
        self.node_class(Kind::named(&named.kind)?, &named.name)
    }

    pub fn overlays(&self) -> impl Iterator<Item = &Arc<Overlay>> {
        self.overlays.values()
    }

    /// Overlays as they came.
    pub fn node_overlays(&self) -> &BTreeMap<Arc<str>, Arc<NodeOverlay>> {
        &self.overlay_wires
    }

    pub fn buffer(&self, key: &PodName) -> Option<&Arc<CapacityBuffer>> {
        self.buffers.get(key)
    }

    pub fn buffers(&self) -> impl Iterator<Item = (&PodName, &Arc<CapacityBuffer>)> {
        self.buffers.iter()
    }

    /// The newest pod of a DaemonSet that is there.
    pub fn newest_daemon_pod(&self, set: &PodName) -> Option<&Arc<Pod>> {
        self.daemons.newest(set).and_then(|name| self.pods.get(name)).map(|entry| &entry.pod)
    }

    /// What pools have. A pool without any machine is not named.
    pub fn pool_usage(&self) -> BTreeMap<PoolName, PoolUsage> {
        let mut pools: BTreeMap<PoolName, PoolUsage> = BTreeMap::new();
        for machine in self.machines.shown().values().filter(|machine| !machine.node.is_leaving) {
            let Some(pool) = &machine.node.pool else { continue };
            let usage = pools.entry(pool.clone()).or_default();
            if let Progress::Unlaunched { .. } = machine.node.progress {
                usage.unlaunched += 1;
            } else {
                usage.nodes += 1;
                usage.capacity = usage.capacity.plus(&machine.node.capacity);
            }
        }
        pools
    }

    pub fn pool_claims(&self, pool: &PoolName) -> PoolClaims {
        let mut found = PoolClaims::default();
        let claims = self.machines.claims().briefs();
        for (name, claim) in claims.filter(|(_, claim)| claim.pool.as_deref() == Some(pool.as_str())) {
            // One that is being replaced is marked, too, so that the provisioner plans for its pods. Until it is deleted it
            // stands for one node all the same, or its pool would buy a second replacement when the first one fails.
            let set = if claim.is_ending {
                &mut found.deleting
            } else if self.assumed.is_replacing(name) {
                &mut found.replacing
            } else if self.assumed.marks().contains_key(name) {
                &mut found.deleting
            } else {
                &mut found.active
            };
            set.insert(name.clone());
        }
        found
    }

    /// Whether everything that is expected has been listed once.
    pub fn is_synced(&self) -> bool {
        self.missing_kinds().is_empty()
    }

    /// Whether a kind has been listed once, or is known not to be served; before, an object that is missing may yet be shown.
    pub fn has_listed(&self, kind: Kind) -> bool {
        self.synced.has_listed(kind)
    }

    /// The kinds that are still waited for.
    pub fn missing_kinds(&self) -> Vec<Kind> {
        self.synced.missing().collect()
    }

    /// For how long something has been missing; nothing when all is there.
    pub fn unsynced_for(&self, now: Instant) -> Option<Duration> {
        self.synced.incomplete_for(now)
    }

    /// Waits no longer for a kind that the cluster does not have.
    pub fn excuse(&mut self, kind: Kind) {
        self.note(|| Event::Excused { kind: kind.to_string() });
        self.synced.excuse(kind);
    }
}
