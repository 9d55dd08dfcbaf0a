//! Pods that are alike in everything that matters, answered for once.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use model::pod::{Pod, soft_taint_toleration};
use model::requirements::Requirements;
use model::taints::{Toleration, first_untolerated};

use super::bits::Bits;
use super::claims::Claim;
use super::hash::Fnv;
use super::limits::Limits;
use super::topology::{Footprint, Reach, Rule, Topology};
use super::wishes::{Domains, Wish, ladder};
use super::words::Mask;
use super::world::World;

/// Pods of one namespace with equal labels, requests and wants.
pub(crate) struct Class<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) requests: Vec<i64>,
    pub(crate) rungs: Vec<Rung>,
    pub(crate) footprint: Footprint,
}

/// One rung of the ladder, in numbers.
pub(crate) struct Rung {
    pub(crate) labels: Requirements,
    pub(crate) masks: Vec<Mask>,
    /// Where the volumes can be: one of these; a pod without such volumes has one that asks nothing.
    pub(crate) places: Vec<(Requirements, Vec<Mask>)>,
    pub(crate) tolerations: Vec<Toleration>,
    pub(crate) rules: Vec<Rule>,
    domains: Domains,
}

/// Finds the classes of a question's pods. The second list names the class of each pod.
pub(crate) fn classify<'a>(
    world: &World<'a>,
    limits: &Limits,
    topology: &mut Topology,
) -> (Vec<Class<'a>>, Vec<usize>) {
    let mut classes: Vec<Class<'a>> = Vec::new();
    let mut of_pod = Vec::with_capacity(world.pods.len());
    let mut index: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    let has_soft_taints = world.has_soft_taints();
    for pod in &world.pods {
        let mut hasher = Fnv::default();
        (pod.namespace(), &pod.labels, &pod.requests, &pod.wants).hash(&mut hasher);
        let slot = index.entry(hasher.finish()).or_default();
        let known = slot.iter().copied().find(|class| is_alike(classes[*class].pod, pod));
        let class = known.unwrap_or_else(|| {
            slot.push(classes.len());
            classes.push(Class::new(world, limits, topology, pod, has_soft_taints));
            classes.len() - 1
        });
        of_pod.push(class);
    }
    topology.meet_standing(world);
    // Only now are all groups known, so only now can be said who counts in which.
    for class in &mut classes {
        class.footprint.counted_in = topology.counting(class.pod.namespace(), &class.pod.labels);
    }
    (classes, of_pod)
}

fn is_alike(a: &Pod, b: &Pod) -> bool {
    a.namespace() == b.namespace() && a.labels == b.labels && a.requests == b.requests && a.wants == b.wants
}

impl<'a> Class<'a> {
    fn new(world: &World<'a>, limits: &Limits, topology: &mut Topology, pod: &'a Pod, has_soft_taints: bool) -> Self {
        let wishes = ladder(&pod.wants, world.snapshot.policy.preferences, has_soft_taints);
        let reach = reach(world, limits, pod);
        let rungs = wishes.iter().map(|wish| Rung::new(world, topology, pod, wish, &reach)).collect();
        let owns = topology.owned(world, pod);
        let footprint = Footprint { counted_in: Vec::new(), owns };
        // Nobody brings room along: a negative request is none.
        Self { pod, requests: world.amounts(&pod.requests.floored()), rungs, footprint }
    }
}

impl Class<'_> {
    /// The number of the rung on which the pod asks for nothing but what it insists on. Reasons speak of that one.
    pub(crate) fn least_demanding(&self) -> usize {
        let all = self.rungs.iter();
        all.filter(|rung| rung.domains == Domains::Reachable).count().saturating_sub(1)
    }
}

impl Rung {
    fn new(world: &World<'_>, topology: &mut Topology, pod: &Pod, wish: &Wish<'_>, reach: &Reach) -> Self {
        let masks = world.words.masks(&wish.labels);
        let mut tolerations = pod.wants.tolerations.clone();
        if wish.tolerates_soft_taints {
            tolerations.push(soft_taint_toleration());
        }
        let rules = topology.rules(world, pod, wish, reach);
        let alternatives = &pod.wants.volumes.alternatives;
        let places = alternatives.iter().map(|place| (place.clone(), world.words.masks(place)));
        let places =
            if alternatives.is_empty() { vec![(Requirements::default(), Vec::new())] } else { places.collect() };
        Self { labels: wish.labels.clone(), masks, places, tolerations, rules, domains: wish.domains }
    }
}

/// What the labels of a new node could be that takes such a pod.
///
/// This is what spreads count domains by, so it goes by what the scheduler insists on: any one of the required terms, and
/// no preference, neither the pod's nor a soft taint's.
fn reach(world: &World<'_>, limits: &Limits, pod: &Pod) -> Reach {
    let keys = world.words.key_count();
    let mut reach = Reach { states: (0..keys).map(|key| Bits::empty(world.words.state_count(key))).collect() };
    let mut tolerations = pod.wants.tolerations.clone();
    tolerations.push(soft_taint_toleration());
    for number in 0..world.templates.len() {
        let claim = Claim::new(world, number);
        let mut machines = claim.machines.clone();
        limits.keep_affordable(world, &claim, &mut machines);
        let taints = &world.templates[number].pool.template.taints;
        if machines.is_empty() || first_untolerated(taints, &tolerations).is_some() {
            continue;
        }
        if pod.wants.terms.is_empty() {
            reach.add(world, &claim.states, &machines, &world.words.masks(&pod.wants.selector));
        }
        for term in &pod.wants.terms {
            reach.add(world, &claim.states, &machines, &world.words.masks(&pod.wants.selector.intersection(term)));
        }
    }
    reach
}

impl Reach {
    fn add(&mut self, world: &World<'_>, states: &[Bits], machines: &Bits, masks: &[Mask]) {
        let mut left = states.to_vec();
        masks.iter().for_each(|mask| left[mask.key].keep(&mask.states));
        let mut machines = machines.clone();
        masks.iter().for_each(|mask| machines.keep(&world.machines.with_states(mask.key, &left[mask.key])));
        let shapes = world.machines.shapes_for(|key| &left[key]);
        machines.keep(&world.machines.on_sale_in(&shapes));
        if machines.is_empty() {
            return;
        }
        for (key, reached) in self.states.iter_mut().enumerate() {
            let mut of_template = left[key].clone();
            of_template.keep(&world.machines.states_of(key, &machines));
            of_template.keep(&world.machines.states_on_sale(key, &shapes, &world.words));
            reached.add_all(&of_template);
        }
    }
}
