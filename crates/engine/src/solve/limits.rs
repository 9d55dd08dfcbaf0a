//! What pools may still grow by.
//!
//! A claim is charged with the cheapest machine that it may become, and lists only machines that the pool can pay for
//! beside all its other claims. So the limits hold whichever machine the cloud picks, and a claim that could be large does
//! not keep others from being made.

use std::collections::BTreeMap;
use std::rc::Rc;

use model::node::{Node, Progress};
use model::pool::BrokenLimit;
use model::resources::{Resource, Resources};

use super::bits::Bits;
use super::world::World;

/// What each template's pool has left.
#[derive(Clone)]
pub(crate) struct Limits {
    left: Vec<Left>,
}

#[derive(Clone)]
struct Left {
    nodes: Option<i64>,
    resources: Vec<(Resource, i64)>,
    /// What each machine has of each.
    capacities: Rc<Vec<Vec<i64>>>,
    /// The most of each that any machine of the template has.
    largest: Vec<i64>,
}

/// What a node counts against its pool: its capacity, or the most that it may turn out to have.
fn largest(node: &Node) -> Resources {
    match &node.progress {
        Progress::Unlaunched { types, .. } => types.iter().fold(Resources::default(), |most, instance_type| {
            let special = instance_type.offerings.iter().filter(|offering| offering.capacity_override.is_some());
            let most = most.max(&instance_type.capacity);
            special.fold(most, |most, offering| most.max(&instance_type.capacity_of(offering)))
        }),
        _ => node.capacity.clone(),
    }
}

/// A machine that a template's pool pays for.
#[derive(Clone, Copy)]
pub(crate) struct Bought {
    pub(crate) template: usize,
    pub(crate) machine: usize,
}

impl Limits {
    pub(crate) fn new(world: &World<'_>) -> Self {
        let left = |template: &super::world::Template<'_>| {
            let of_pool =
                |node: &&std::sync::Arc<Node>| node.pool.as_ref() == Some(&template.pool.name) && !node.is_leaving;
            let nodes: Vec<_> = world.nodes().filter(of_pool).collect();
            let used = nodes.iter().fold(Resources::default(), |sum, node| sum.plus(&largest(node)));
            let count = i64::try_from(nodes.len()).unwrap_or(i64::MAX);
            let limits = &template.pool.limits;
            let column = |(axis, _): &(Resource, i64)| {
                world.machines.all.iter().map(|machine| machine.capacity.get(axis)).collect()
            };
            let capacities: Vec<Vec<i64>> = limits.resources.iter().map(column).collect();
            let largest = |column: &Vec<i64>| template.machines.iter().map(|machine| column[machine]).max();
            Left {
                largest: capacities.iter().map(|column| largest(column).unwrap_or(0)).collect(),
                capacities: Rc::new(capacities),
                nodes: limits.nodes.map(|limit| limit.saturating_sub(count)),
                resources: limits
                    .resources
                    .iter()
                    .map(|(axis, limit)| (axis.clone(), limit.saturating_sub(used.get(axis))))
                    .collect(),
            }
        };
        Self { left: world.templates.iter().map(left).collect() }
    }

    /// Gives back what a node of the pool has, because it leaves.
    pub(crate) fn leave(&mut self, world: &World<'_>, node: &Node) {
        let is_its = |template: &super::world::Template<'_>| node.pool.as_ref() == Some(&template.pool.name);
        let Some(number) = world.templates.iter().position(is_its).filter(|_| !node.is_leaving) else { return };
        let (left, used) = (&mut self.left[number], largest(node));
        left.nodes = left.nodes.map(|nodes| nodes.saturating_add(1));
        for (axis, amount) in &mut left.resources {
            *amount = amount.saturating_add(used.get(axis));
        }
    }

    /// Whether some machine of a template could be too much for its pool now.
    pub(crate) fn may_bind(&self, template: usize) -> bool {
        let left = &self.left[template];
        left.nodes.is_some_and(|nodes| nodes < 1)
            || left.resources.iter().zip(&left.largest).any(|((_, left), largest)| left < largest)
    }

    /// Keeps the machines that the pool can pay for, with what a claim holds already.
    pub(crate) fn keep_affordable(
        &self,
        world: &World<'_>,
        template: usize,
        charged: Option<&[i64]>,
        machines: &mut Bits,
    ) {
        let left = &self.left[template];
        if charged.is_none() && left.nodes.is_some_and(|nodes| nodes < 1) {
            *machines = Bits::empty(world.machines.all.len());
            return;
        }
        for (number, (_, amount)) in left.resources.iter().enumerate() {
            let most = amount.saturating_add(charged.map_or(0, |charged| charged[number]));
            if most < left.largest[number] {
                machines.retain(|machine| left.capacities[number][machine] <= most);
            }
        }
    }

    /// The limits that a new claim would break if it became the one of these machines that goes beyond them least.
    pub(crate) fn broken_by(&self, world: &World<'_>, template: usize, machines: &Bits) -> Vec<BrokenLimit> {
        let (left, limits) = (&self.left[template], &world.templates[template].pool.limits);
        if let (Some(limit), Some(nodes)) = (limits.nodes, left.nodes)
            && nodes < 1
        {
            let would_be = limit.saturating_sub(nodes).saturating_add(1);
            return vec![BrokenLimit { resource: "nodes".into(), limit, would_be }];
        }
        let broken = |machine: usize| -> Vec<BrokenLimit> {
            let axes = left.resources.iter().zip(&limits.resources).zip(left.capacities.iter());
            let would_be = axes.map(|(((axis, left), (_, limit)), column)| {
                (axis, *limit, limit.saturating_sub(*left).saturating_add(column[machine]))
            });
            let broken = would_be.filter(|(_, limit, would_be)| would_be > limit);
            broken
                .map(|(axis, limit, would_be)| BrokenLimit { resource: axis.name().into(), limit, would_be })
                .collect()
        };
        machines.iter().map(broken).min_by_key(|broken| (broken.len(), excess(broken))).unwrap_or_default()
    }

    /// Whether a template's pool has any limit.
    pub(crate) fn has_any(&self, template: usize) -> bool {
        self.left[template].nodes.is_some() || self.has_resources(template)
    }

    /// Whether a template's pool limits anything but its number of nodes.
    pub(crate) fn has_resources(&self, template: usize) -> bool {
        !self.left[template].resources.is_empty()
    }

    /// The most that any of these machines has of what a template's pool limits; `None` when there are no machines.
    pub(crate) fn most(&self, template: usize, machines: impl Iterator<Item = usize> + Clone) -> Option<Vec<i64>> {
        let columns = self.left[template].capacities.iter();
        columns.map(|column| machines.clone().map(|machine| column[machine]).max()).collect()
    }

    /// Charges the pool with so much instead of what a claim was charged with so far. Without an amount it stays as it was.
    pub(crate) fn charge(&mut self, template: usize, charged: &mut Option<Vec<i64>>, most: Option<&[i64]>) {
        let left = &mut self.left[template];
        if charged.is_none() {
            left.nodes = left.nodes.map(|nodes| nodes - 1);
        }
        let charged = charged.get_or_insert_with(|| vec![0; left.resources.len()]);
        for (((_, left), own), most) in left.resources.iter_mut().zip(charged).zip(most.into_iter().flatten()) {
            *left = left.saturating_add(*own).saturating_sub(*most);
            *own = *most;
        }
    }

    /// Gives machines back for others, if the pools can pay for these; says whether they can.
    pub(crate) fn trade(&mut self, given: &[Bought], wanted: &[Bought]) -> bool {
        let mut after: BTreeMap<usize, Left> = BTreeMap::new();
        let sides = given.iter().map(|bought| (bought, 1)).chain(wanted.iter().map(|bought| (bought, -1)));
        for (bought, sign) in sides {
            let left = after.entry(bought.template).or_insert_with(|| self.left[bought.template].clone());
            left.nodes = left.nodes.map(|nodes| nodes.saturating_add(sign));
            for (number, (_, amount)) in left.resources.iter_mut().enumerate() {
                *amount = amount.saturating_add(sign.saturating_mul(left.capacities[number][bought.machine]));
            }
        }
        // A pool that was over its limits before may stay so, if it does not get worse.
        let is_less = |own: i64, before: i64| own < 0 && own < before;
        let is_broken = after.iter().any(|(template, left)| {
            let before = &self.left[*template];
            let nodes = left.nodes.zip(before.nodes).is_some_and(|(own, before)| is_less(own, before));
            nodes || left.resources.iter().zip(&before.resources).any(|((_, own), (_, before))| is_less(*own, *before))
        });
        if !is_broken {
            after.into_iter().for_each(|(template, left)| self.left[template] = left);
        }
        !is_broken
    }

    /// Keeps the machines that a claim may list in the end: those within what it is charged with already and its share of what
    /// is left over, so that the first of many claims does not leave the last without a choice.
    pub(crate) fn keep_share(&self, template: usize, charged: Option<&[i64]>, machines: &mut Bits, sharers: i64) {
        let left = &self.left[template];
        for (number, (_, amount)) in left.resources.iter().enumerate() {
            let own = charged.map_or(0, |charged| charged[number]);
            let most = own.saturating_add(amount.max(&0) / sharers.max(1));
            if most < left.largest[number] {
                machines.retain(|machine| left.capacities[number][machine] <= most);
            }
        }
    }
}

/// How far limits are exceeded, in millionths of each.
fn excess(broken: &[BrokenLimit]) -> i128 {
    let part = |broken: &BrokenLimit| {
        (i128::from(broken.would_be) - i128::from(broken.limit)) * 1_000_000 / i128::from(broken.limit.max(1))
    };
    broken.iter().map(part).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool that has so many nodes and so much cpu left, where machine 0 has one cpu, machine 1 two, and so on.
    fn limits(nodes: Option<i64>, cpu: i64) -> Limits {
        let capacities = Rc::new(vec![(1..=8).collect()]);
        Limits { left: vec![Left { nodes, resources: vec![(Resource::Cpu, cpu)], capacities, largest: vec![8] }] }
    }

    fn bought(machines: &[usize]) -> Vec<Bought> {
        machines.iter().map(|machine| Bought { template: 0, machine: *machine }).collect()
    }

    fn left(limits: &Limits) -> (Option<i64>, i64) {
        (limits.left[0].nodes, limits.left[0].resources[0].1)
    }

    #[test]
    fn machines_are_traded_as_far_as_every_limit_allows() {
        let check = |nodes: Option<i64>, cpu: i64, given: &[usize], wanted: &[usize], expected| {
            let mut limits = limits(nodes, cpu);
            let is_done = limits.trade(&bought(given), &bought(wanted));
            assert_eq!(is_done.then(|| left(&limits)), expected, "{nodes:?} {cpu} {given:?} {wanted:?}");
            assert!(is_done || left(&limits) == (nodes, cpu), "nothing changes where nothing is traded");
        };
        check(Some(1), 0, &[3], &[1, 1], Some((Some(0), 0)));
        check(Some(0), 9, &[3], &[1, 1], None);
        check(Some(9), 0, &[3], &[4], None);
        check(Some(9), 1, &[3], &[4], Some((Some(9), 0)));
        check(None, 0, &[3, 3], &[7], Some((None, 0)));
        // Over its limits already: it may get better or stay as it is, but not worse.
        check(Some(-2), -5, &[7, 0], &[6, 0], Some((Some(-2), -4)));
        check(Some(-2), -5, &[7], &[0, 0], None);
        check(Some(0), -5, &[0], &[1], None);
    }
}
