//! Reasons as values: why a pod stays pending, why a claim exists. Words for people are made of them at the edge.
//!
//! The words are in `text`. Where the reference has a fixed text for something, it stands there letter by letter, because
//! people search and alert on it; the values that clash follow it.

#[cfg(test)]
mod tests;
mod text;

use std::sync::Arc;

use crate::ids::{DriverName, NodeName, PodName, PoolName, TypeName};
use crate::pod::HostPort;
use crate::pool::BrokenLimit;
use crate::price::Price;
use crate::requirements::Clash;
use crate::resources::Resource;
use crate::taints::Taint;

/// What makes a pod unfit for us before any place is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodProblem {
    /// It wants no node of ours; that is its right and nothing to report.
    WantsOtherNodes,
    /// A selector or a required term that we cannot serve, with the reason.
    Requirement { text: Arc<str> },
    /// A required term that selects nodes by field.
    MatchFields,
    /// A volume that cannot be used as things stand.
    Volume { volume: Arc<str>, text: Arc<str> },
}

/// Why a pod has no place in a plan: for the nodes that exist and for each pool, what would have to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unplaced {
    pub pod: PodName,
    /// The node that came closest, and what keeps the pod off it. `None` when there is no node.
    pub nearest_node: Option<(NodeName, Vec<Obstacle>)>,
    /// In the order in which pools are tried.
    pub pools: Vec<(PoolName, Vec<Obstacle>)>,
    /// The pool with the fewest obstacles.
    pub closest_pool: Option<PoolName>,
    /// What holds everywhere, whatever the place.
    pub general: Vec<Obstacle>,
}

/// One constraint that keeps a pod from a place. The smallest set of them is given: were they lifted, it would fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// A taint that the pod does not tolerate.
    Taint(Taint),
    /// A demand on the node's labels that the place cannot meet.
    Label(Clash),
    /// Where the pod's volumes are.
    VolumePlace(Clash),
    /// More than the place has left, or than the largest machine has.
    Resource {
        resource: Resource,
        wanted: i64,
        available: i64,
    },
    /// No machine on sale in the zones and capacity types that are left.
    NoOffering,
    /// No instance type at all suits the pool.
    NoInstanceType,
    Port {
        wanted: HostPort,
        held: HostPort,
    },
    Attachments {
        driver: DriverName,
        would_be: u32,
        limit: u32,
    },
    /// A spread that would become too uneven.
    Spread {
        key: Arc<str>,
        max_skew: i32,
        least: u32,
        domains: Vec<(Arc<str>, u32)>,
    },
    /// Nobody to be together with.
    Together {
        key: Arc<str>,
    },
    /// Somebody to be apart from in every domain.
    Apart {
        key: Arc<str>,
        other: Option<PodName>,
    },
    /// A domain with nobody in it would come into being, and make the spread of pods that are placed already too uneven.
    NewDomain {
        key: Arc<str>,
    },
    Limit(BrokenLimit),
    MinValues {
        key: Arc<str>,
        wanted: u32,
        found: u32,
    },
    /// Reserved capacity exists but is spoken for; the pod waits for the next pass.
    Reserved,
    /// Devices by resource claim are not served yet.
    ResourceClaims,
    /// There is no pool that could launch anything.
    NoPool,
    /// The effort ran out before the pod's turn.
    NotReached,
}

/// Why a claim is in a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimReason {
    /// The pods that it is for, most important first.
    pub pods: Arc<[PodName]>,
    /// What kept the first of them off everything that is there already.
    pub binding: Option<Obstacle>,
    pub price: Price,
    pub cheapest: Option<TypeName>,
    /// The next best type and its price.
    pub runner_up: Option<(TypeName, Price)>,
}

/// Where obstacles stand; the words for them and the remedies differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// Whatever the place.
    Anywhere,
    Node(&'a NodeName),
    Pool(&'a PoolName),
}

/// What one instance type had of the three things that it is picked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeHad {
    /// Its labels suit.
    pub requirements: bool,
    /// It is large enough. The reference counts that only for a type that is on sale too.
    pub resources: bool,
    /// It is on sale where and how it must be.
    pub offering: bool,
}
