//! What the labels of a new node could be that takes a pod.
//!
//! This is what spreads count domains by, so it goes by what the scheduler insists on: any one of the required terms, and
//! no preference, neither the pod's nor a soft taint's.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use model::pod::Pod;
use model::requirements::Requirements;
use model::taints::{Toleration, first_hard_untolerated};

use super::bits::Bits;
use super::hash::Known;
use super::limits::Limits;
use super::words::{Key, Mask};
use super::world::World;

/// The label states that a pod could get on a new node, worked out key by key as somebody asks.
#[derive(Default)]
pub(crate) struct Reach {
    ways: Vec<Way>,
    known: RefCell<BTreeMap<Key, Bits>>,
}

/// One pool, by one of the pod's terms.
struct Way {
    states: Vec<Bits>,
    machines: Bits,
    shapes: Bits,
}

impl Reach {
    fn new(world: &World<'_>, limits: &Limits, pod: &Pod) -> Self {
        let alternatives = pod.wants.selector.with_any_of(&pod.wants.terms);
        let alternatives: Vec<Vec<Mask>> = alternatives.iter().map(|labels| world.words.masks(labels)).collect();
        let mut reach = Self::default();
        for number in 0..world.templates.len() {
            let template = &world.templates[number];
            let mut machines = template.machines.clone();
            limits.keep_affordable(world, number, None, &mut machines);
            let taints = &template.pool.template.taints;
            if machines.is_empty() || first_hard_untolerated(taints, &pod.wants.tolerations).is_some() {
                continue;
            }
            let ways = alternatives.iter().map(|masks| Way::new(world, &template.states, machines.clone(), masks));
            reach.ways.extend(ways.filter(|way| !way.machines.is_empty()));
        }
        reach
    }

    /// The named values that a label could get.
    pub(crate) fn states(&self, world: &World<'_>, key: Key) -> Bits {
        let mut known = self.known.borrow_mut();
        let found = known.entry(key).or_insert_with(|| {
            let mut states = Bits::empty(world.words.state_count(key));
            self.ways.iter().for_each(|way| states.add_all(&way.states(world, key)));
            states.keep(&world.words.named(key));
            states
        });
        found.clone()
    }
}

impl Way {
    fn new(world: &World<'_>, states: &[Bits], mut machines: Bits, masks: &[Mask]) -> Self {
        let mut states = states.to_vec();
        masks.iter().for_each(|mask| states[mask.key].keep(&mask.states));
        masks.iter().for_each(|mask| machines.keep(&world.machines.with_states(mask.key, &states[mask.key])));
        let shapes = world.machines.shapes_for(|key| &states[key]);
        machines.keep(&world.machines.on_sale_in(&shapes));
        Self { states, machines, shapes }
    }

    fn states(&self, world: &World<'_>, key: Key) -> Bits {
        let mut states = self.states[key].clone();
        states.keep(&world.machines.states_of(key, &self.machines));
        states.keep(&world.machines.states_on_sale(key, &self.shapes, &world.words));
        states
    }
}

/// What was found out for pods that ask the same of nodes.
#[derive(Default)]
pub(crate) struct Reaches<'a>(Known<Asked<'a>, Rc<Reach>>);

/// A pod's selector, its terms, and what it tolerates.
type Asked<'a> = (&'a Requirements, &'a [Requirements], &'a [Toleration]);

impl<'a> Reaches<'a> {
    pub(crate) fn of(&mut self, world: &World<'_>, limits: &Limits, pod: &'a Pod) -> Rc<Reach> {
        let asked: Asked<'a> = (&pod.wants.selector, &pod.wants.terms, &pod.wants.tolerations);
        if let Some(known) = self.0.get(&asked) {
            return known.clone();
        }
        let found = Rc::new(Reach::new(world, limits, pod));
        self.0.add(asked, found.clone());
        found
    }
}
