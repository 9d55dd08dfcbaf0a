//! What the engine answers: where pods go, which machines to ask for, and who stays without a place.

use std::sync::Arc;

use crate::ids::{NodeName, PodName, PoolName, ReservationId, TypeName};
use crate::labels::Labels;
use crate::price::Price;
use crate::requirements::Requirements;
use crate::resources::Resources;
use crate::why::{ClaimReason, Unplaced};

/// A complete answer. Equal snapshots and equal effort give equal plans, byte for byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Every placed pod, in the order in which the plan relies on: a pod may count on those before it.
    pub placements: Vec<(PodName, Target)>,
    pub claims: Vec<PlannedClaim>,
    pub unplaced: Vec<Unplaced>,
    /// How many candidate evaluations it took. Solving again with this effort gives the same plan.
    pub steps: u64,
}

/// Where a pod goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A node that is there, or a claim that was made before.
    Node(NodeName),
    /// A claim of this plan, by its place in the list.
    Claim(usize),
}

/// A machine to ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedClaim {
    pub pool: PoolName,
    /// What its node's labels must satisfy, as far as the pods have narrowed it.
    pub requirements: Requirements,
    /// The types that suit, cheapest first. Claims that list the same share the list.
    pub types: Arc<[TypeName]>,
    pub pods: Vec<PodName>,
    /// What the pods ask for together, and the least that daemons add.
    pub requests: Resources,
    /// Labels beyond the pool's own that the node gets, so that its pods find what they asked for.
    pub labels: Labels,
    /// Reservations that it may use; when there are any, it must use one.
    pub reservations: Vec<ReservationId>,
    /// Whether the pool's minimum numbers of values were lowered for it.
    pub is_min_values_relaxed: bool,
    /// Its cheapest offering.
    pub price: Price,
    pub reason: ClaimReason,
}

impl Plan {
    /// What all new claims cost per hour, each at its cheapest.
    pub fn price(&self) -> Price {
        self.claims.iter().fold(Price::ZERO, |sum, claim| sum.plus(claim.price))
    }
}
