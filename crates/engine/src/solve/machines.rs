//! What is on sale, as one question sees it: a catalogue, with the words that the question brings.

use std::borrow::Cow;
use std::sync::Arc;

use model::instance::InstanceType;
use model::resources::Resource;

use super::bits::Bits;
use super::catalogue::{Asking, Catalogue, Machine, Sale};
use super::sizes::Sizes;
use super::words::{Key, Mask, Words};

/// All machines of all pools.
pub(crate) struct Machines<'a> {
    pub(crate) all: &'a [Machine],
    /// Whether some type is several machines, because its offerings differ in amounts.
    pub(crate) has_twins: bool,
    catalogue: &'a Catalogue,
    axes: Vec<Resource>,
    /// By axis, machines by what they have of it.
    sizes: Vec<Option<&'a Sizes>>,
    shapes: Vec<Cow<'a, [Mask]>>,
    asking: Vec<Cow<'a, [Asking]>>,
    /// How many states a label of each key can be in.
    state_counts: Vec<usize>,
}

impl<'a> Machines<'a> {
    pub(crate) fn new(catalogue: &'a Catalogue, axes: Vec<Resource>, words: &Words) -> Self {
        let shapes = catalogue.shapes.iter().map(|shape| {
            let is_enough = !shape.masks.iter().any(|mask| words.exceeds_lexicon(mask.key));
            if is_enough { Cow::Borrowed(&*shape.masks) } else { Cow::Owned(words.masks(&shape.requirements)) }
        });
        let keys = 0..words.key_count();
        Self {
            all: &catalogue.machines,
            has_twins: catalogue.has_twins,
            catalogue,
            sizes: axes.iter().map(|axis| catalogue.sizes.get(axis)).collect(),
            axes,
            shapes: shapes.collect(),
            asking: keys.clone().map(|key| asking(catalogue, key, words)).collect(),
            state_counts: keys.map(|key| words.state_count(key)).collect(),
        }
    }

    pub(crate) fn axes(&self) -> &[Resource] {
        &self.axes
    }

    /// Machines by what they have of an axis, daemons included, if that is known.
    pub(crate) fn sizes(&self, axis: usize) -> Option<&'a Sizes> {
        self.sizes[axis]
    }

    /// Machines that the pool of this number is offered.
    pub(crate) fn offered_to(&self, pool: usize) -> &'a Bits {
        self.catalogue.offered_to(pool)
    }

    /// The machines of these types, if all of them are on sale.
    pub(crate) fn of_types(&self, types: &[Arc<InstanceType>]) -> Option<Bits> {
        let mut machines = Bits::empty(self.all.len());
        for instance_type in types {
            machines.insert(self.catalogue.machine_of(instance_type)?);
        }
        Some(machines)
    }

    /// The machine that has a type's own amounts, if it is on sale.
    pub(crate) fn of_type(&self, instance_type: &Arc<InstanceType>) -> Option<&'a Machine> {
        self.catalogue.machine_of(instance_type).map(|number| &self.all[number])
    }

    /// What each machine has of an axis; nothing where none has any.
    pub(crate) fn amounts(&self, axis: usize) -> Option<&'a [i64]> {
        self.catalogue.column(&self.axes[axis])
    }

    /// Every state of a key that some of these machines ask for; empty where none of them mentions it.
    pub(crate) fn states_asked(&self, key: Key, machines: &Bits) -> Bits {
        let mut states = Bits::empty(self.state_counts[key]);
        let asking = self.asking[key].iter().filter(|asking| asking.requirement.is_some());
        asking.filter(|asking| asking.machines.intersects(machines)).for_each(|asking| states.add_all(&asking.states));
        states
    }

    /// Machines whose label of this key can be in one of these states.
    pub(crate) fn with_states(&self, key: Key, states: &Bits) -> Bits {
        if states.len() == self.state_counts[key] {
            return self.catalogue.able.get(key).cloned().unwrap_or_else(|| Bits::full(self.all.len()));
        }
        let mut machines = Bits::empty(self.all.len());
        for asking in self.asking[key].iter().filter(|asking| asking.states.intersects(states)) {
            machines.add_all(&asking.machines);
        }
        machines
    }

    /// Every state of a key that some of these machines can have.
    pub(crate) fn states_of(&self, key: Key, machines: &Bits) -> Bits {
        let mut states = Bits::default();
        for asking in self.asking[key].iter().filter(|asking| asking.machines.intersects(machines)) {
            if states == Bits::default() {
                states = asking.states.clone();
            } else {
                states.add_all(&asking.states);
            }
        }
        states
    }

    /// Whether an offering of this shape suits a node whose labels may be in these states.
    fn shape_suits<'s>(&self, shape: usize, states: impl Fn(Key) -> &'s Bits) -> bool {
        self.shapes[shape].iter().all(|mask| mask.states.intersects(states(mask.key)))
    }

    /// Which shapes suit a node whose labels may be in these states.
    pub(crate) fn shapes_for<'s>(&self, states: impl Fn(Key) -> &'s Bits) -> Bits {
        let mut shapes = Bits::empty(self.shapes.len());
        for shape in 0..self.shapes.len() {
            if self.shape_suits(shape, &states) {
                shapes.insert(shape);
            }
        }
        shapes
    }

    /// Machines on sale in one of these shapes.
    pub(crate) fn on_sale_in(&self, shapes: &Bits) -> Bits {
        let mut machines = Bits::empty(self.all.len());
        for shape in shapes.iter() {
            machines.add_all(&self.catalogue.shapes[shape].machines);
        }
        machines
    }

    /// The states that offerings of these shapes leave for a key; everything when none of them mentions it.
    pub(crate) fn states_on_sale(&self, key: Key, shapes: &Bits, words: &Words) -> Bits {
        let mut states = Bits::empty(words.state_count(key));
        for shape in shapes.iter() {
            match self.shapes[shape].iter().find(|mask| mask.key == key) {
                Some(mask) => states.add_all(&mask.states),
                None => return words.everything(key),
            }
        }
        states
    }

    /// Keeps the states of a key that offerings of a shape leave.
    pub(crate) fn keep_shape(&self, shape: usize, key: Key, states: &mut Bits) {
        if let Some(mask) = self.shapes[shape].iter().find(|mask| mask.key == key) {
            states.keep(&mask.states);
        }
    }

    /// How many shapes of offerings lead to a state of a label.
    pub(crate) fn ways_to_buy(&self, key: Key, state: usize) -> usize {
        let leads = |masks: &&Cow<'_, [Mask]>| masks.iter().any(|mask| mask.key == key && mask.states.contains(state));
        self.shapes.iter().filter(leads).count()
    }

    /// The cheapest way to buy a machine in one of these shapes.
    pub(crate) fn cheapest_sale(&self, machine: usize, shapes: &Bits) -> Option<&'a Sale> {
        self.all[machine].sales.iter().find(|sale| shapes.contains(sale.shape))
    }
}

/// What machines ask of a label, with the states that the question adds.
fn asking<'a>(catalogue: &'a Catalogue, key: Key, words: &Words) -> Cow<'a, [Asking]> {
    let known = catalogue.asking.get(key);
    if let Some(known) = known.filter(|_| !words.exceeds_lexicon(key)) {
        return Cow::Borrowed(known);
    }
    let extended = |asking: &Asking| {
        let states = asking.requirement.as_ref().map_or_else(|| words.everything(key), |one| words.states(key, one));
        Asking { states, ..asking.clone() }
    };
    // A key that no type mentions may be anything.
    let open =
        || Asking { requirement: None, states: words.everything(key), machines: Bits::full(catalogue.machines.len()) };
    Cow::Owned(known.map_or_else(|| vec![open()], |known| known.iter().map(extended).collect()))
}
