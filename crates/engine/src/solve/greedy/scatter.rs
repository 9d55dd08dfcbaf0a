//! What the scheduler will make of a plan. It knows nothing of plans: whoever comes goes where most is left, not where the plan has
//! put it. A plan that only just fits may so leave somebody without a place.

use std::sync::atomic::AtomicBool;

use model::ids::PodName;
use model::price::Price;
use model::resources::Resource;
use model::snapshot::Snapshot;

use super::super::catalogue::Catalogue;
use super::super::sites::Site;
use super::super::{Question, on_world};
use super::{Bid, Greedy};

/// Shares of what a node has are counted in these parts.
const WHOLE: i128 = 1_000_000;

/// Who finds no place on what is there, and what machines for them cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeftOver {
    /// One at least.
    pub(crate) pods: Vec<PodName>,
    /// `None` where there is no machine for one of them.
    pub(crate) price: Option<Price>,
}

/// What becomes of pods if each goes where most is left, the largest first among equally important ones. They may come in any
/// order; in this one most find a place, so who is left over would hardly find one in another. Nothing, if nobody is.
pub(crate) fn left_over(snapshot: &Snapshot, catalogue: &Catalogue, question: &Question<'_>) -> Option<LeftOver> {
    on_world(catalogue, snapshot, question, |world| {
        let mut greedy = Greedy::new(world, u64::MAX);
        let left = greedy.scatter();
        if left.is_empty() {
            return None;
        }
        let (pods, never) = (left.iter().map(|pod| world.pods[*pod].name.clone()).collect(), AtomicBool::new(false));
        let is_placed = greedy.seat_all(left, &never).is_ok_and(|left| left.is_empty());
        let prices = greedy.claims.iter().map(|claim| greedy.cheapest(claim).map_or(Price::MAX, |step| step.price));
        Some(LeftOver { pods, price: is_placed.then(|| prices.fold(Price::ZERO, Price::plus)) })
    })
}

impl Greedy<'_, '_> {
    /// Seats pods as the scheduler would, and returns who is left.
    fn scatter(&mut self) -> Vec<usize> {
        let capacities: Vec<Vec<i64>> = self.world.sites.iter().map(|site| self.capacity_of(site)).collect();
        let mut waiting = self.queue();
        // Company may come with the last of them.
        loop {
            let before = waiting.len();
            waiting.retain(|pod| !self.seat_where_most_is_left(*pod, &capacities));
            if waiting.is_empty() || waiting.len() == before {
                return waiting;
            }
        }
    }

    /// What a site has for pods; of a machine that is to come, what it has before anybody is there.
    fn capacity_of(&self, site: &Site<'_>) -> Vec<i64> {
        let own = self.world.amounts(&site.node.allocatable);
        if own.iter().any(|amount| *amount > 0) { own } else { site.start.free.clone() }
    }

    fn seat_where_most_is_left(&mut self, pod: usize, capacities: &[Vec<i64>]) -> bool {
        let (class, classes) = (self.class_of[pod], self.classes.clone());
        if classes[class].pod.wants.has_resource_claims {
            return false;
        }
        let requests = &classes[class].requests;
        for rung in 0..classes[class].rungs.len() {
            let walk = self.walk(&classes[class], rung);
            let mut best: Option<(i128, usize)> = None;
            let mut from = 0;
            while let Some(site) = self.free.next(from, requests, &self.memory[class][rung].closed_sites) {
                from = site + 1;
                if self.site_verdict(class, rung, site, &walk.rules).is_err() {
                    continue;
                }
                let left = self.share_left(site, requests, &capacities[site]);
                if best.is_none_or(|(most, _)| left > most) {
                    best = Some((left, site));
                }
            }
            if let Some((_, site)) = best {
                self.settle_on(Bid { pod, class, rung, is_choosy: false }, site);
                return true;
            }
        }
        false
    }

    /// Which part of cpu and memory would be left, added up.
    fn share_left(&self, site: usize, requests: &[i64], capacity: &[i64]) -> i128 {
        let axes = self.world.machines.axes().iter().enumerate();
        let weighed = axes.filter(|(_, resource)| matches!(resource, Resource::Cpu | Resource::Memory));
        let share = |axis: usize| {
            let left = i128::from(self.free.row(site)[axis]) - i128::from(requests[axis]);
            left * WHOLE / i128::from(capacity[axis].max(1))
        };
        weighed.map(|(axis, _)| share(axis)).sum()
    }
}
