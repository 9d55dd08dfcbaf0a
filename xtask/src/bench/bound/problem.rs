//! The relaxation as numbers: classes of pods, machines, and who may be where.

use std::collections::{BTreeMap, BTreeSet};

use model::ids::{NodeName, PodName};
use model::pod::{Life, Pod};
use model::pool::Pool;
use model::requirements::Requirements;
use model::resources::{Resource, Resources};
use model::snapshot::Snapshot;
use model::taints::{Effect, first_untolerated};

use super::fillings;

pub(super) struct Problem {
    pub(super) classes: Vec<Class>,
    /// Those that no other makes needless: as cheap, as large, and for the same pods.
    pub(super) machines: Vec<Machine>,
    /// What is free on nodes that stand, all together; it costs nothing.
    pub(super) free: Vec<i64>,
}

/// Pods that ask alike.
pub(super) struct Class {
    pub(super) pods: i64,
    /// By resource, like all amounts here.
    pub(super) asks: Vec<i64>,
}

pub(super) struct Machine {
    pub(super) price_pico: i64,
    pub(super) has: Vec<i64>,
    /// The classes of which a pod may be here.
    pub(super) suits: BTreeSet<usize>,
    /// Every way to fill it with whole pods, where those are few enough to be listed; else it is filled with fractions.
    pub(super) fillings: Option<Vec<Filling>>,
}

/// Classes, and how many pods of each.
pub(super) type Filling = Vec<(usize, i64)>;

impl Problem {
    pub(super) fn of(snapshot: &Snapshot, placed: &BTreeSet<&PodName>) -> Self {
        let mut members: BTreeMap<String, (&Pod, i64)> = BTreeMap::new();
        for pod in snapshot.pods.values().filter(|pod| placed.contains(&pod.name)) {
            let wants = &pod.wants;
            let key = format!("{:?} {:?} {:?} {:?}", pod.requests, wants.selector, wants.terms, wants.tolerations);
            members.entry(key).or_insert((pod, 0)).1 += 1;
        }
        let axes: BTreeSet<Resource> =
            members.values().flat_map(|(pod, _)| pod.requests.amounts().map(|(axis, _)| axis)).collect();
        let axes: Vec<Resource> = axes.into_iter().collect();
        let amounts = |resources: &Resources| axes.iter().map(|axis| resources.get(axis).max(0)).collect::<Vec<i64>>();
        let pods: Vec<&Pod> = members.values().map(|(pod, _)| *pod).collect();
        let classes: Vec<Class> =
            members.values().map(|(pod, count)| Class { pods: *count, asks: amounts(&pod.requests) }).collect();
        let mut machines = Vec::new();
        for pool in snapshot.pools.values() {
            machines.extend(machines_of(pool, &pods, &classes, &amounts));
        }
        let mut machines = undominated(machines);
        machines.iter_mut().for_each(|machine| machine.fillings = fillings::all(machine, &classes));
        Self { machines, free: free(snapshot, placed, &amounts, axes.len()), classes }
    }
}

fn machines_of(
    pool: &Pool,
    pods: &[&Pod],
    classes: &[Class],
    amounts: &dyn Fn(&Resources) -> Vec<i64>,
) -> Vec<Machine> {
    let hard: Vec<_> =
        pool.template.taints.iter().filter(|taint| taint.effect != Effect::PreferNoSchedule).cloned().collect();
    let tolerates = |pod: &Pod| first_untolerated(&hard, &pod.wants.tolerations).is_none();
    let mut found = Vec::new();
    for kind in &pool.instance_types {
        for offering in kind.offerings.iter().filter(|offering| offering.is_available) {
            let mut labels = kind.requirements.clone();
            labels.add_all(&offering.requirements);
            if !pool.template.requirements.overlaps(&labels) {
                continue;
            }
            labels.add_all(&pool.template.requirements);
            let has = amounts(&kind.allocatable_of(offering));
            let suits = (0..pods.len()).filter(|class| {
                let fits = classes[*class].asks.iter().zip(&has).all(|(asked, had)| asked <= had);
                fits && tolerates(pods[*class]) && may_match(pods[*class], &labels)
            });
            let (price_pico, suits) = (offering.price.pico(), suits.collect());
            found.push(Machine { price_pico, suits, has, fillings: None });
        }
    }
    found
}

/// Whether the pod's demands on labels can hold; a key that the machine says nothing about may be anything, which only lowers the
/// bound.
fn may_match(pod: &Pod, labels: &Requirements) -> bool {
    let terms = &pod.wants.terms;
    labels.overlaps(&pod.wants.selector) && (terms.is_empty() || terms.iter().any(|term| labels.overlaps(term)))
}

/// Leaves out machines that are never better than another one. Of equals the first stays.
fn undominated(mut machines: Vec<Machine>) -> Vec<Machine> {
    machines.retain(|machine| !machine.suits.is_empty());
    machines.sort_by(|a, b| a.price_pico.cmp(&b.price_pico).then_with(|| b.has.cmp(&a.has)));
    let mut kept: Vec<Machine> = Vec::new();
    for machine in machines {
        let is_needless = kept.iter().any(|other| {
            other.has.iter().zip(&machine.has).all(|(other, own)| other >= own)
                && other.suits.is_superset(&machine.suits)
        });
        if !is_needless {
            kept.push(machine);
        }
    }
    kept
}

/// What pods can still have on all standing nodes together; a relaxation, for no pod has to be on one node.
fn free(
    snapshot: &Snapshot,
    placed: &BTreeSet<&PodName>,
    amounts: &dyn Fn(&Resources) -> Vec<i64>,
    axes: usize,
) -> Vec<i64> {
    let mut left: BTreeMap<&NodeName, Resources> = snapshot
        .nodes
        .values()
        .filter(|node| !node.is_leaving)
        .map(|node| (&node.name, node.allocatable.clone()))
        .collect();
    for pod in snapshot.pods.values().filter(|pod| pod.life != Life::Terminal && !placed.contains(&pod.name)) {
        if let Some(left) = pod.node.as_ref().and_then(|name| left.get_mut(name)) {
            *left = left.minus(&pod.requests);
        }
    }
    left.values().fold(vec![0; axes], |sum, left| {
        sum.iter().zip(amounts(left)).map(|(sum, more)| sum.saturating_add(more)).collect()
    })
}
