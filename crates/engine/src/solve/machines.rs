//! Everything that can be bought, as columns of numbers.
//!
//! A machine is an instance type together with one set of allocatable amounts; a type whose offerings override amounts is
//! several machines. Offerings that ask the same of a node's labels share a shape, so that "which machines are on sale
//! here?" is an `or` over a handful of sets.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::instance::{CapacityType, InstanceType, Offering};
use model::price::Price;
use model::resources::{Resource, Resources};

use super::bits::Bits;
use super::reserve::Reservations;
use super::words::{Key, Mask, Words};

/// One way to buy a machine.
pub(crate) struct Sale<'a> {
    pub(crate) shape: usize,
    pub(crate) price: Price,
    pub(crate) capacity_type: Option<CapacityType>,
    pub(crate) offering: &'a Offering,
}

/// An instance type with one set of amounts.
pub(crate) struct Machine<'a> {
    pub(crate) instance_type: &'a Arc<InstanceType>,
    /// Available offerings, cheapest first.
    pub(crate) sales: Vec<Sale<'a>>,
    pub(crate) allocatable: Resources,
}

/// Machines of one key that ask the same of its label.
struct Asking {
    states: Bits,
    machines: Bits,
}

/// All machines of all pools.
pub(crate) struct Machines<'a> {
    pub(crate) all: Vec<Machine<'a>>,
    axes: Vec<Resource>,
    shapes: Vec<Vec<Mask>>,
    /// Machines on sale in each shape.
    on_sale: Vec<Bits>,
    asking: Vec<Vec<Asking>>,
    /// Whether some type is several machines, because its offerings differ in amounts.
    pub(crate) has_twins: bool,
}

impl<'a> Machines<'a> {
    pub(crate) fn build(
        types: &[&'a Arc<InstanceType>],
        axes: &[Resource],
        words: &Words,
        reservations: &Reservations,
    ) -> Self {
        let mut shapes: BTreeMap<Vec<Mask>, usize> = BTreeMap::new();
        let mut all = Vec::new();
        for instance_type in types {
            for (allocatable, offerings) in groups(instance_type, reservations) {
                let mut sales: Vec<Sale<'a>> = Vec::new();
                for offering in offerings {
                    let masks = words.masks(&offering.requirements);
                    let next = shapes.len();
                    let shape = *shapes.entry(masks).or_insert(next);
                    let capacity_type = offering.capacity_type();
                    sales.push(Sale { shape, price: offering.price, capacity_type, offering });
                }
                sales.sort_by_key(|sale| (sale.price, sale.shape));
                all.push(Machine { instance_type, sales, allocatable });
            }
        }
        let mut machines = Self {
            axes: axes.to_vec(),
            on_sale: vec![Bits::empty(all.len()); shapes.len()],
            shapes: in_number_order(shapes),
            asking: Vec::new(),
            has_twins: all.windows(2).any(|pair| Arc::ptr_eq(pair[0].instance_type, pair[1].instance_type)),
            all,
        };
        for (number, machine) in machines.all.iter().enumerate() {
            for sale in &machine.sales {
                machines.on_sale[sale.shape].insert(number);
            }
        }
        machines.asking = (0..words.key_count()).map(|key| machines.asking_of(key, words)).collect();
        machines
    }

    fn asking_of(&self, key: Key, words: &Words) -> Vec<Asking> {
        let mut by_states: BTreeMap<Bits, Bits> = BTreeMap::new();
        for (number, machine) in self.all.iter().enumerate() {
            // A key that the type does not mention may be anything.
            let states = match machine.instance_type.requirements.get(words.key_name(key)) {
                Some(requirement) => words.states(key, requirement),
                None => words.everything(key),
            };
            by_states.entry(states).or_insert_with(|| Bits::empty(self.all.len())).insert(number);
        }
        by_states.into_iter().map(|(states, machines)| Asking { states, machines }).collect()
    }

    pub(crate) fn axes(&self) -> &[Resource] {
        &self.axes
    }

    /// Machines whose label of this key can be in one of these states.
    pub(crate) fn with_states(&self, key: Key, states: &Bits) -> Bits {
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
            machines.add_all(&self.on_sale[shape]);
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
        let leads = |masks: &&Vec<Mask>| masks.iter().any(|mask| mask.key == key && mask.states.contains(state));
        self.shapes.iter().filter(leads).count()
    }

    /// The cheapest way to buy a machine in one of these shapes.
    pub(crate) fn cheapest_sale(&self, machine: usize, shapes: &Bits) -> Option<&Sale<'a>> {
        self.all[machine].sales.iter().find(|sale| shapes.contains(sale.shape))
    }
}

/// The type's allocatable amounts with the available offerings that have them, the type's own amounts first.
fn groups<'a>(
    instance_type: &'a Arc<InstanceType>,
    reservations: &Reservations,
) -> Vec<(Resources, Vec<&'a Offering>)> {
    let mut groups = vec![(instance_type.allocatable(), Vec::new())];
    let on_sale = instance_type.offerings.iter().filter(|offering| offering.is_available);
    for offering in on_sale.filter(|offering| reservations.has_stock(offering)) {
        let allocatable = instance_type.allocatable_of(offering);
        match groups.iter_mut().find(|(present, _)| *present == allocatable) {
            Some((_, offerings)) => offerings.push(offering),
            None => groups.push((allocatable, vec![offering])),
        }
    }
    groups
}

fn in_number_order(shapes: BTreeMap<Vec<Mask>, usize>) -> Vec<Vec<Mask>> {
    let mut ordered: Vec<(usize, Vec<Mask>)> = shapes.into_iter().map(|(masks, number)| (number, masks)).collect();
    ordered.sort();
    ordered.into_iter().map(|(_, masks)| masks).collect()
}
