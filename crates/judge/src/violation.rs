//! What can be wrong with a binding or a plan, as values, and the words for it.

mod text;

use std::sync::Arc;

use model::ids::{DriverName, NodeName, PodName, PoolName, ReservationId, TypeName};
use model::pod::HostPort;
use model::pool::{BrokenLimit, PoolState};
use model::resources::Resource;
use model::taints::Taint;
use model::why::PodProblem;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// kube-scheduler would not bind this pod to this node.
    Refused {
        pod: PodName,
        node: NodeName,
        refusal: Refusal,
    },
    /// The plan speaks of a pod that is not there.
    UnknownPod {
        pod: PodName,
    },
    UnknownNode {
        pod: PodName,
        node: NodeName,
    },
    UnknownClaim {
        pod: PodName,
        claim: usize,
    },
    PlacedTwice {
        pod: PodName,
    },
    PlacedAndUnplaced {
        pod: PodName,
    },
    /// The pod asks for no place.
    NotWaiting {
        pod: PodName,
        state: NotWaiting,
    },
    /// A claim of the plan that should not be made, or not so.
    Claim {
        claim: usize,
        pool: PoolName,
        fault: ClaimFault,
    },
    /// A claim of an earlier plan that may become a machine which does not suit what this plan puts on it.
    Unlaunched {
        node: NodeName,
        fault: ClaimFault,
    },
    ReservationOverused {
        id: ReservationId,
        claims: usize,
        left: u32,
    },
    Limit {
        pool: PoolName,
        limit: BrokenLimit,
    },
}

/// Which rule of kube-scheduler keeps a pod off a node, with the numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    Leaving,
    Taint(Taint),
    /// The node selector; no value where the node has no such label.
    Selector {
        key: Arc<str>,
        value: Option<Arc<str>>,
    },
    /// None of the required terms holds.
    Terms {
        tried: usize,
    },
    /// The holder is a pod, or a daemon that will come.
    Port {
        wanted: HostPort,
        holder: Option<PodName>,
    },
    Resource {
        resource: Resource,
        wanted: i64,
        free: i64,
        allocatable: i64,
    },
    Attachments {
        driver: DriverName,
        would_be: usize,
        limit: u32,
    },
    VolumePlace {
        alternatives: usize,
    },
    /// The node has no label for the spread's domains.
    SpreadLabel {
        key: Arc<str>,
    },
    Spread {
        key: Arc<str>,
        domain: Arc<str>,
        would_be: i64,
        least: i64,
        max_skew: i32,
        domains: usize,
    },
    /// The node has no label for the affinity's domains.
    AffinityLabel {
        key: Arc<str>,
    },
    Together {
        key: Arc<str>,
        domain: Arc<str>,
    },
    /// The pod itself wants to stay away from the other.
    Apart {
        key: Arc<str>,
        domain: Arc<str>,
        other: PodName,
    },
    /// The other wants this pod to stay away.
    ApartFrom {
        key: Arc<str>,
        domain: Arc<str>,
        other: PodName,
    },
    ResourceClaims,
}

/// Why a pod needs no place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotWaiting {
    /// It runs on a node that stays.
    Running(NodeName),
    /// It is on its way out, or has ended.
    Ending,
    /// It cannot be placed by us at all.
    Problem(PodProblem),
}

/// What is wrong with a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimFault {
    UnknownPool,
    StaticPool,
    /// The pool is not ready, or going.
    PoolState(PoolState),
    UnknownType(TypeName),
    UnknownReservation(ReservationId),
    /// Nothing that is on sale satisfies it.
    NoMachine,
    /// The pods that it lists are not those that are placed on it.
    PodsDiffer {
        listed: Vec<PodName>,
        placed: Vec<PodName>,
    },
    MinValues {
        key: Arc<str>,
        wanted: u32,
        found: usize,
    },
    Machine(Box<MachineFault>),
}

/// A machine that the cloud may pick, and that will not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineFault {
    /// One of the claim's pods cannot run on it.
    Refuses { machine: MachineName, pod: PodName, refusal: Refusal },
    /// It is not what the pool's own requirements ask for.
    OutsidePool { machine: MachineName, key: Arc<str>, value: Option<Arc<str>> },
    /// Its daemons ask for more than it has, so that some of them could never run.
    Daemons { machine: MachineName, resource: Resource, wanted: i64, allocatable: i64 },
}

/// A type and the way it is bought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineName {
    pub type_name: TypeName,
    pub zone: Option<Arc<str>>,
    pub capacity_type: Option<Arc<str>>,
}

impl Refusal {
    /// The plugin of kube-scheduler that refuses.
    pub fn rule(&self) -> &'static str {
        match self {
            Self::Leaving => "NodeUnschedulable",
            Self::Taint(_) => "TaintToleration",
            Self::Selector { .. } | Self::Terms { .. } => "NodeAffinity",
            Self::Port { .. } => "NodePorts",
            Self::Resource { .. } => "NodeResourcesFit",
            Self::Attachments { .. } => "NodeVolumeLimits",
            Self::VolumePlace { .. } => "VolumeBinding",
            Self::SpreadLabel { .. } | Self::Spread { .. } => "PodTopologySpread",
            Self::AffinityLabel { .. } | Self::Together { .. } | Self::Apart { .. } | Self::ApartFrom { .. } => {
                "InterPodAffinity"
            }
            Self::ResourceClaims => "DynamicResources",
        }
    }
}
