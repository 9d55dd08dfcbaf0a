//! The world at one moment, as the engine sees it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ids::{Namespace, NodeName, PodName, PoolName};
use crate::labels::{Labels, WellKnown};
use crate::node::Node;
use crate::pod::{HostPort, Pod};
use crate::pool::Pool;
use crate::price::Price;
use crate::requirements::Requirements;
use crate::resources::Resources;
use crate::taints::Toleration;
use crate::time::Instant;
use crate::topology::Selector;

/// Everything that a decision depends on. An entry is replaced, never edited, so that copies are cheap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub now: Instant,
    pub policy: SchedulingPolicy,
    pub well_known: Arc<WellKnown>,
    pub pools: BTreeMap<PoolName, Arc<Pool>>,
    pub nodes: BTreeMap<NodeName, Arc<Node>>,
    pub pods: BTreeMap<PodName, Arc<Pod>>,
    pub daemons: BTreeMap<PodName, Arc<Daemon>>,
    pub disruption_budgets: Vec<Arc<PodBudget>>,
    /// What the operator wrote when disruption was stopped in the whole cluster; nothing while it goes on.
    pub stopped: Option<Arc<str>>,
}

/// What the operator chose for the whole process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulingPolicy {
    pub preferences: PreferencePolicy,
    pub min_values: MinValuesPolicy,
    /// Whether reserved capacity is used at all.
    pub uses_reservations: bool,
    /// Most instance types that one claim lists.
    pub max_types_per_claim: usize,
    /// What a node costs per hour beyond its machine: daemons, licences, the trouble of one more.
    pub node_fee: Price,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreferencePolicy {
    /// Preferences hold like requirements until nothing else helps.
    Respect,
    Ignore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinValuesPolicy {
    Strict,
    /// Better fewer values than no node.
    BestEffort,
}

/// A DaemonSet: the pod that every node it suits will run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Daemon {
    pub name: PodName,
    pub labels: Labels,
    pub requests: Resources,
    pub selector: Requirements,
    /// Required node affinity: one of these, or nothing asked.
    pub terms: Vec<Requirements>,
    pub tolerations: Vec<Toleration>,
    pub ports: Vec<HostPort>,
    pub has_resource_claims: bool,
}

/// A PodDisruptionBudget, as far as it decides whether pods can ever move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodBudget {
    pub namespace: Namespace,
    pub name: Arc<str>,
    pub selector: Selector,
    /// Whether its own terms never allow a disruption.
    pub blocks_always: bool,
    pub disruptions_allowed: i32,
    /// Whether pods that are not ready may go in spite of it.
    pub lets_unhealthy_go: bool,
}

impl Default for SchedulingPolicy {
    fn default() -> Self {
        Self {
            preferences: PreferencePolicy::Respect,
            min_values: MinValuesPolicy::Strict,
            uses_reservations: true,
            max_types_per_claim: 600,
            node_fee: Price::from_pico(2_000_000_000),
        }
    }
}

impl Snapshot {
    /// A world with nothing in it.
    pub fn empty(now: Instant) -> Self {
        Self {
            now,
            policy: SchedulingPolicy::default(),
            well_known: Arc::default(),
            pools: BTreeMap::new(),
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            daemons: BTreeMap::new(),
            disruption_budgets: Vec::new(),
            stopped: None,
        }
    }
}
