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
    pub pods: Arc<[PodName]>,
    /// What the pods ask for together, and the least that daemons add.
    pub requests: Resources,
    /// Labels beyond the pool's own that the node gets, so that its pods find what they asked for.
    pub labels: Labels,
    /// Reservations that it may use; when there are any, it must use one.
    pub reservations: Vec<ReservationId>,
    /// Whether the pool's minimum numbers of values were lowered for it.
    pub is_min_values_relaxed: bool,
    /// Whether more pods like those that were asked about would not change it: none could join it on its cheapest machine, and no
    /// other machine would be cheaper for each of its pods. Looked at only where the question says that more are to come.
    pub is_full: bool,
    /// Its cheapest offering.
    pub price: Price,
    pub reason: ClaimReason,
}

impl PlannedClaim {
    /// A claim for anything that a pool can launch, and for nobody yet; for building.
    pub fn bare(pool: PoolName) -> Self {
        let pods: Arc<[PodName]> = Arc::default();
        Self {
            pool,
            requirements: Requirements::default(),
            types: Arc::default(),
            pods: pods.clone(),
            requests: Resources::default(),
            labels: Labels::new(),
            reservations: Vec::new(),
            is_min_values_relaxed: false,
            is_full: false,
            price: Price::ZERO,
            reason: ClaimReason { pods, binding: None, price: Price::ZERO, cheapest: None, runner_up: None },
        }
    }
}

impl Plan {
    /// What all new claims cost per hour, each at its cheapest.
    pub fn price(&self) -> Price {
        self.claims.iter().fold(Price::ZERO, |sum, claim| sum.plus(claim.price))
    }

    /// The part of it that need not wait for pods which are still to come: claims that those will not make better because they
    /// are full, claims with a pod that has waited for long enough, and whoever goes to them or to nodes. Of the others nothing
    /// is said yet.
    pub fn ripe_part(mut self, has_waited: impl Fn(&PodName) -> bool) -> Self {
        let is_ripe = |claim: &PlannedClaim| claim.is_full || claim.pods.iter().any(&has_waited);
        let mut numbers = Vec::with_capacity(self.claims.len());
        let mut kept = 0;
        for claim in &self.claims {
            numbers.push(is_ripe(claim).then_some(kept));
            kept += usize::from(is_ripe(claim));
        }
        self.claims.retain(is_ripe);
        self.placements.retain_mut(|(_, target)| match target {
            Target::Node(_) => true,
            Target::Claim(number) => match numbers[*number] {
                Some(renamed) => {
                    *number = renamed;
                    true
                }
                None => false,
            },
        });
        self.unplaced.clear();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(pool: &str, is_full: bool) -> PlannedClaim {
        PlannedClaim { is_full, ..PlannedClaim::bare(pool.into()) }
    }

    #[test]
    fn the_ripe_part_has_full_claims_old_pods_and_who_goes_there_or_to_nodes() {
        let pod = |name: &str| PodName::new("default", name);
        let waiting = PlannedClaim { pods: [pod("old")].into(), ..claim("third", false) };
        let plan = Plan {
            placements: vec![
                (pod("a"), Target::Claim(0)),
                (pod("b"), Target::Claim(1)),
                (pod("c"), Target::Node("n".into())),
                (pod("d"), Target::Claim(2)),
                (pod("old"), Target::Claim(3)),
            ],
            claims: vec![claim("open", false), claim("first", true), claim("second", true), waiting],
            unplaced: vec![Unplaced {
                pod: pod("e"),
                nearest_node: None,
                pools: Vec::new(),
                closest_pool: None,
                general: Vec::new(),
            }],
            steps: 7,
        };
        let ripe = plan.ripe_part(|name| *name == pod("old"));
        let names: Vec<&str> = ripe.claims.iter().map(|claim| claim.pool.as_str()).collect();
        assert_eq!(names, ["first", "second", "third"]);
        let expected = [
            (pod("b"), Target::Claim(0)),
            (pod("c"), Target::Node("n".into())),
            (pod("d"), Target::Claim(1)),
            (pod("old"), Target::Claim(2)),
        ];
        assert_eq!((ripe.placements, ripe.unplaced.len(), ripe.steps), (expected.to_vec(), 0, 7));
    }
}
