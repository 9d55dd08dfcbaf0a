//! Which machine a claim is filled for.

use super::claims::Claim;
use super::classes::Class;
use super::greedy::Greedy;
use super::outlook::Step;
use super::rooms::has_room;
use super::worth::{Bundle, Worth};

/// Costs that differ by no more than this are the same.
const NEARLY: f64 = 1e-6;

impl Greedy<'_, '_> {
    /// The machine that a new claim is filled for: of those that hold its first pod, the one that costs least for what the
    /// pods that still wait, and ask the same of labels, can use of it. Of equals the larger: fewer machines are less trouble.
    pub(super) fn goal(&mut self, claim: &Claim, set: usize) -> usize {
        let outlook = self.outlooks.borrow().get(claim.outlook).clone();
        let template = &self.world.templates[claim.template];
        let (axes, demand) = (claim.requests.len(), &self.demand[set]);
        // Where nobody else waits, all machines that hold the pod are of the same use, and the first is the cheapest.
        if demand.iter().zip(&claim.requests).all(|(demand, held)| demand <= held) {
            return outlook.ladder[claim.step].machine;
        }
        let fee = self.world.node_fee;
        let value = self.values.entry((claim.outlook, set)).or_insert_with(|| {
            let bundle =
                |step: &Step| Bundle { price: step.price.dollars() + fee, room: template.room(step.machine, axes) };
            Value::new(demand, &outlook.ladder.iter().map(bundle).collect::<Vec<_>>())
        });
        let mut best: Option<(f64, f64, usize)> = None;
        for (step, least_cost) in outlook.ladder.iter().zip(&value.least_costs).skip(claim.step) {
            let room = template.room(step.machine, axes);
            if best.is_some_and(|(least, ..)| *least_cost >= least * (1.0 + NEARLY)) || !has_room(room, &claim.requests)
            {
                continue;
            }
            let usable = value.worth.of(room.iter().zip(demand).map(|(room, demand)| *room.min(demand)));
            let cost = (step.price.dollars() + fee) / usable.max(f64::MIN_POSITIVE);
            let is_better = best.is_none_or(|(least, most, _)| {
                cost < least * (1.0 - NEARLY) || (cost < least * (1.0 + NEARLY) && usable > most)
            });
            if is_better {
                best = Some((cost, usable, step.machine));
            }
        }
        best.map_or_else(|| outlook.ladder[claim.step].machine, |(_, _, machine)| machine)
    }
}

/// What resources are worth to pods that ask the same of labels, where the same is on sale.
pub(crate) struct Value {
    worth: Worth,
    /// By step of the ladder, what its machine costs for its worth if all of it can be used: it never costs less.
    least_costs: Vec<f64>,
}

impl Value {
    fn new(demand: &[i64], bundles: &[Bundle<'_>]) -> Self {
        let worth = Worth::new(demand, bundles);
        let cost = |bundle: &Bundle<'_>| bundle.price / worth.of(bundle.room.iter().copied()).max(f64::MIN_POSITIVE);
        Self { least_costs: bundles.iter().map(cost).collect(), worth }
    }
}

/// What all pods ask for together, by what they ask of labels.
pub(super) fn total(classes: &[Class<'_>], class_of: &[usize], axes: usize) -> Vec<Vec<i64>> {
    let sets = classes.iter().map(Class::set).max().map_or(0, |most| most + 1);
    let mut sums = vec![vec![0_i64; axes]; sets];
    for class in class_of.iter().map(|class| &classes[*class]) {
        let sum = sums[class.set()].iter_mut();
        sum.zip(&class.requests).for_each(|(sum, wanted)| *sum = sum.saturating_add(*wanted));
    }
    sums
}
