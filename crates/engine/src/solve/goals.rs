//! Which machine a claim is filled for, and how far.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::claims::{Claim, Narrowing};
use super::classes::Class;
use super::greedy::{Bid, Greedy};
use super::outlook::{OutlookId, Step};
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
        let least = &self.least[set];
        let typical = self.values.typical.as_ref().map_or(demand, |typical| &typical[set]);
        let value = self.values.known.entry((claim.outlook, set)).or_insert_with(|| {
            let bundle =
                |step: &Step| Bundle { price: step.price.dollars() + fee, room: template.room(step.machine, axes) };
            Value::new(typical, least, &outlook.ladder.iter().map(bundle).collect::<Vec<_>>())
        });
        let mut least = f64::INFINITY;
        let mut looked_at: Vec<(f64, f64, usize)> = Vec::new();
        for (least_cost, number) in &value.by_least_cost {
            if *least_cost >= least * (1.0 + NEARLY) {
                break;
            }
            let step = &outlook.ladder[*number];
            let room = template.room(step.machine, axes);
            if *number < claim.step || !has_room(room, &claim.requests) || !outlook.is_replaceable(self.world, *number)
            {
                continue;
            }
            let usable = value.worth.of(room.iter().zip(demand).map(|(room, demand)| *room.min(demand)));
            let cost = (step.price.dollars() + fee) / usable.max(f64::MIN_POSITIVE);
            least = least.min(cost);
            looked_at.push((cost, usable, *number));
        }
        let equals = looked_at.iter().filter(|(cost, ..)| *cost < least * (1.0 + NEARLY));
        let best = equals.min_by(|a, b| b.1.total_cmp(&a.1).then(a.2.cmp(&b.2)));
        outlook.ladder[best.map_or(claim.step, |(.., number)| *number)].machine
    }

    /// Whether enough types would do for a claim once a pod has joined it.
    pub(super) fn leaves_choice(&self, bid: Bid, claim: &Claim, narrowing: &Narrowing) -> bool {
        let outlooks = self.outlooks.borrow();
        let after = outlooks.get(narrowing.outlook);
        let sum = || claim.requests.iter().zip(&self.classes[bid.class].requests).map(|(a, b)| a.saturating_add(*b));
        after.is_replaceable(self.world, narrowing.step)
            || after.leaves_choice(self.world, narrowing.step, &sum().collect::<Vec<_>>())
    }
}

/// What was found out about the worth of resources, by what is on sale and what is asked of labels.
#[derive(Default)]
pub(crate) struct Values {
    known: BTreeMap<(OutlookId, usize), Value>,
    /// What is asked for all in all. Where many questions share what was found out, it must not depend on who asked first.
    pub(super) typical: Option<Rc<Vec<Vec<i64>>>>,
    /// What resources are worth to everybody who asks for so much together.
    pub(super) overall: RefCell<Option<(Vec<i64>, Worth)>>,
}

/// What resources are worth to pods that ask the same of labels, where the same is on sale.
pub(crate) struct Value {
    worth: Worth,
    /// What each step of the ladder costs for its worth if all of it can be used, which is the least that it can cost, with
    /// its number; cheapest first.
    by_least_cost: Vec<(f64, usize)>,
}

impl Value {
    fn new(demand: &[i64], least: &[i64], bundles: &[Bundle<'_>]) -> Self {
        let worth = Worth::new(demand, least, bundles);
        let cost = |bundle: &Bundle<'_>| bundle.price / worth.of(bundle.room.iter().copied()).max(f64::MIN_POSITIVE);
        let mut by_least_cost: Vec<(f64, usize)> = bundles.iter().map(cost).zip(0..).collect();
        by_least_cost.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        Self { worth, by_least_cost }
    }
}

/// What all pods ask for together, by what they ask of labels.
pub(super) fn total(classes: &[Class<'_>], class_of: &[usize], axes: usize) -> Vec<Vec<i64>> {
    let sets = classes.iter().map(|class| class.set()).max().map_or(0, |most| most + 1);
    let mut sums = vec![vec![0_i64; axes]; sets];
    for class in class_of.iter().map(|class| &classes[*class]) {
        let sum = sums[class.set()].iter_mut();
        sum.zip(&class.requests).for_each(|(sum, wanted)| *sum = sum.saturating_add(*wanted));
    }
    sums
}

/// The least that any pod asks for of each resource, by what they ask of labels.
pub(super) fn least(classes: &[Class<'_>], axes: usize) -> Vec<Vec<i64>> {
    let sets = classes.iter().map(|class| class.set()).max().map_or(0, |most| most + 1);
    let mut least = vec![vec![i64::MAX; axes]; sets];
    for class in classes {
        let own = least[class.set()].iter_mut();
        own.zip(&class.requests).for_each(|(least, wanted)| *least = (*least).min(*wanted));
    }
    least
}
