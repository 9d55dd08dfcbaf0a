//! Everything that can be bought, in numbers, made once and kept as long as the same things are on sale.
//!
//! A machine is an instance type together with one set of amounts; a type whose offerings override amounts is
//! several machines. Offerings that ask the same of a node's labels share a shape, so that "which machines are on sale
//! here?" is an `or` over a handful of sets.
//!
//! Nothing here depends on pods, nodes or daemons, so a catalogue answers any number of questions. Whether one still fits is
//! seen from the lists of the pools: an instance type is replaced and never edited, so the same place in memory is the same
//! thing. A plan is the same whether its catalogue was kept or made for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::ids::ReservationId;
use model::instance::{CapacityType, InstanceType, Offering};
use model::pool::Pool;
use model::price::Price;
use model::requirements::{Requirement, Requirements};
use model::resources::{Resource, Resources};
use model::snapshot::Snapshot;

use super::bits::Bits;
use super::reserve::Reservations;
use super::sizes::Sizes;
use super::words::{Dictionary, Key, Lexicon, Mask, Words};
use super::world::usable_pools;

/// What all pools together can buy, ready to be asked about. Keep it, and hand it to [`super::solve_with`].
#[derive(Debug)]
pub struct Catalogue {
    /// What each pool is offered, in the order in which pools are tried.
    menus: Vec<Menu>,
    /// How many machines of each reservation the offerings say are left; the least counts.
    pub(super) reserved: BTreeMap<ReservationId, u32>,
    /// Reservations that were not spent when this was made. What others are sold from is left out.
    stocked: BTreeSet<ReservationId>,
    pub(super) lexicon: Arc<Lexicon>,
    pub(super) machines: Vec<Machine>,
    pub(super) shapes: Vec<Shape>,
    /// By key, machines that ask the same of its label.
    pub(super) asking: Vec<Vec<Asking>>,
    /// By key, machines whose label can be something at all: those that do not contradict themselves.
    pub(super) able: Vec<Bits>,
    /// Whether some type is several machines, because its offerings differ in amounts.
    pub(super) has_twins: bool,
    /// What each machine has of each resource that some have.
    columns: BTreeMap<Resource, Vec<i64>>,
    /// Machines by that.
    pub(super) sizes: BTreeMap<Resource, Sizes>,
    /// The first machine of each type, by the type's place in memory; its others follow.
    numbers: BTreeMap<usize, usize>,
}

/// The types of one pool.
#[derive(Debug)]
struct Menu {
    types: Vec<Arc<InstanceType>>,
    machines: Bits,
}

/// An instance type with one set of amounts.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) instance_type: Arc<InstanceType>,
    /// The number of its type's name, in the order of names.
    pub(crate) name: usize,
    /// Available offerings, cheapest first.
    pub(crate) sales: Vec<Sale>,
    /// What pools' limits are charged with.
    pub(crate) capacity: Resources,
    pub(crate) allocatable: Resources,
}

/// One way to buy a machine.
#[derive(Debug)]
pub(crate) struct Sale {
    pub(crate) shape: usize,
    pub(crate) price: Price,
    pub(crate) capacity_type: Option<CapacityType>,
    pub(crate) reservation: Option<ReservationId>,
}

/// What offerings ask of a node's labels.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) requirements: Requirements,
    pub(super) masks: Vec<Mask>,
    /// Machines on sale in it.
    pub(super) machines: Bits,
}

/// Machines that ask the same of one label.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    /// `None` where they do not mention it, and it may be anything.
    pub(super) requirement: Option<Requirement>,
    pub(super) states: Bits,
    pub(super) machines: Bits,
}

impl Catalogue {
    /// Lowers what the pools of a snapshot are offered.
    pub fn of(snapshot: &Snapshot) -> Self {
        let pools = usable_pools(snapshot);
        let reserved = reserved(&pools);
        let reservations = Reservations::new(snapshot, &reserved, &BTreeSet::new());
        Self::new(&pools, reserved, &reservations)
    }

    pub(super) fn new(
        pools: &[&Arc<Pool>],
        reserved: BTreeMap<ReservationId, u32>,
        reservations: &Reservations,
    ) -> Self {
        let types = distinct_types(pools);
        let mut words = Dictionary::default();
        for instance_type in &types {
            words.add(&instance_type.requirements);
            instance_type.offerings.iter().for_each(|offering| words.add(&offering.requirements));
        }
        let lexicon = Arc::new(words.lexicon());
        let words = Words::of(lexicon.clone());
        let mut catalogue = Self {
            menus: Vec::new(),
            reserved,
            stocked: reservations.stocked(),
            lexicon,
            machines: Vec::new(),
            shapes: Vec::new(),
            asking: Vec::new(),
            able: Vec::new(),
            has_twins: false,
            columns: BTreeMap::new(),
            sizes: BTreeMap::new(),
            numbers: BTreeMap::new(),
        };
        catalogue.lower(&types, &words, reservations);
        catalogue.has_twins = catalogue.machines.windows(2).any(|pair| is_same(&pair[0], &pair[1]));
        catalogue.asking = (0..words.key_count()).map(|key| catalogue.asking_of(key, &words)).collect();
        catalogue.able = catalogue.asking.iter().map(|asking| catalogue.able_of(asking)).collect();
        catalogue.columns = columns(&catalogue.machines);
        let sizes = catalogue.columns.iter().map(|(resource, column)| Some((resource.clone(), Sizes::new(column)?)));
        catalogue.sizes = sizes.flatten().collect();
        let numbers = catalogue.machines.iter().enumerate().rev();
        catalogue.numbers = numbers.map(|(number, machine)| (place(&machine.instance_type), number)).collect();
        catalogue.menus = pools.iter().map(|pool| catalogue.menu(pool)).collect();
        catalogue
    }

    fn lower(&mut self, types: &[&Arc<InstanceType>], words: &Words, reservations: &Reservations) {
        let mut numbers: BTreeMap<Vec<Mask>, usize> = BTreeMap::new();
        let mut sold: Vec<(usize, usize)> = Vec::new();
        let mut name = 0;
        for (number, instance_type) in types.iter().enumerate() {
            name += usize::from(number > 0 && types[number - 1].name != instance_type.name);
            for ([capacity, allocatable], offerings) in groups(instance_type, reservations) {
                let mut sales: Vec<Sale> = Vec::new();
                for offering in offerings {
                    let masks = words.masks(&offering.requirements);
                    let shape = *numbers.entry(masks).or_insert_with_key(|masks| {
                        let (requirements, machines) = (offering.requirements.clone(), Bits::default());
                        self.shapes.push(Shape { requirements, masks: masks.clone(), machines });
                        self.shapes.len() - 1
                    });
                    sold.push((shape, self.machines.len()));
                    let reservation = offering.reservation.as_ref().map(|reservation| reservation.id.clone());
                    let capacity_type = offering.capacity_type();
                    sales.push(Sale { shape, price: offering.price, capacity_type, reservation });
                }
                sales.sort_by_key(|sale| (sale.price, sale.shape));
                let instance_type = (*instance_type).clone();
                self.machines.push(Machine { instance_type, name, sales, capacity, allocatable });
            }
        }
        self.shapes.iter_mut().for_each(|shape| shape.machines = Bits::empty(self.machines.len()));
        sold.into_iter().for_each(|(shape, machine)| self.shapes[shape].machines.insert(machine));
    }

    fn asking_of(&self, key: Key, words: &Words) -> Vec<Asking> {
        let mut by_states: BTreeMap<Bits, Asking> = BTreeMap::new();
        for (number, machine) in self.machines.iter().enumerate() {
            let requirement = machine.instance_type.requirements.get(words.key_name(key));
            let states = requirement.map_or_else(|| words.everything(key), |one| words.states(key, one));
            let asking = by_states.entry(states).or_insert_with_key(|states| Asking {
                requirement: requirement.cloned(),
                states: states.clone(),
                machines: Bits::empty(self.machines.len()),
            });
            asking.machines.insert(number);
        }
        by_states.into_values().collect()
    }

    fn able_of(&self, asking: &[Asking]) -> Bits {
        let mut able = Bits::empty(self.machines.len());
        let sound = asking.iter().filter(|asking| !asking.states.is_empty());
        sound.for_each(|asking| able.add_all(&asking.machines));
        able
    }

    fn menu(&self, pool: &Pool) -> Menu {
        let offered: BTreeSet<_> = pool.instance_types.iter().map(Arc::as_ptr).collect();
        let mut machines = Bits::full(self.machines.len());
        machines.retain(|machine| offered.contains(&Arc::as_ptr(&self.machines[machine].instance_type)));
        Menu { types: pool.instance_types.clone(), machines }
    }

    /// Whether it was made from just what the pools of this snapshot are offered, and is worth keeping.
    pub fn is_of(&self, snapshot: &Snapshot) -> bool {
        self.has_types_of(&usable_pools(snapshot))
    }

    /// Whether anything is sold out of reservations.
    pub(crate) fn has_reservations(&self) -> bool {
        !self.reserved.is_empty()
    }

    /// Whether these pools are offered just what this was made from, and the same reservations are spent.
    pub(super) fn fits(&self, pools: &[&Arc<Pool>], reservations: &Reservations) -> bool {
        self.has_types_of(pools) && reservations.stocked() == self.stocked
    }

    pub(super) fn has_types_of(&self, pools: &[&Arc<Pool>]) -> bool {
        let is_same = |(menu, pool): (&Menu, &&Arc<Pool>)| {
            menu.types.len() == pool.instance_types.len()
                && menu.types.iter().zip(&pool.instance_types).all(|(a, b)| Arc::ptr_eq(a, b))
        };
        self.menus.len() == pools.len() && self.menus.iter().zip(pools).all(is_same)
    }

    /// The first machine of a type, if it is this very type that is on sale; it has the type's own amounts.
    pub(super) fn machine_of(&self, instance_type: &Arc<InstanceType>) -> Option<usize> {
        self.numbers.get(&place(instance_type)).copied()
    }

    /// What each machine has of a resource; nothing where none has any.
    pub(super) fn column(&self, resource: &Resource) -> Option<&[i64]> {
        self.columns.get(resource).map(Vec::as_slice)
    }

    /// Machines that the pool of this number is offered.
    pub(super) fn offered_to(&self, pool: usize) -> &Bits {
        &self.menus[pool].machines
    }
}

fn is_same(a: &Machine, b: &Machine) -> bool {
    Arc::ptr_eq(&a.instance_type, &b.instance_type)
}

/// Every type once, however many pools share it, in the order of their names: numbers then break ties as names would.
fn distinct_types<'a>(pools: &[&'a Arc<Pool>]) -> Vec<&'a Arc<InstanceType>> {
    let mut seen = BTreeSet::new();
    let all = pools.iter().flat_map(|pool| &pool.instance_types);
    let mut distinct: Vec<_> = all.filter(|instance_type| seen.insert(Arc::as_ptr(instance_type))).collect();
    distinct.sort_by(|a, b| a.name.cmp(&b.name));
    distinct
}

/// A reservation that several types or pools offer is one; the least that any of them says is left counts.
pub(super) fn reserved(pools: &[&Arc<Pool>]) -> BTreeMap<ReservationId, u32> {
    let mut left: BTreeMap<ReservationId, u32> = BTreeMap::new();
    let types = pools.iter().flat_map(|pool| &pool.instance_types);
    for reservation in types.flat_map(|offered| &offered.offerings).filter_map(|way| way.reservation.as_ref()) {
        let least = left.entry(reservation.id.clone()).or_insert(reservation.left);
        *least = (*least).min(reservation.left);
    }
    left
}

fn columns(machines: &[Machine]) -> BTreeMap<Resource, Vec<i64>> {
    let amounts = machines.iter().flat_map(|machine| machine.allocatable.amounts());
    let resources: BTreeSet<Resource> = amounts.map(|(resource, _)| resource).collect();
    let column = |resource: Resource| {
        let column = machines.iter().map(|machine| machine.allocatable.get(&resource)).collect();
        (resource, column)
    };
    resources.into_iter().map(column).collect()
}

fn place(instance_type: &Arc<InstanceType>) -> usize {
    Arc::as_ptr(instance_type).addr()
}

/// The type's capacity and allocatable amounts with the available offerings that have them, the type's own amounts first.
fn groups<'a>(
    instance_type: &'a Arc<InstanceType>,
    reservations: &Reservations,
) -> Vec<([Resources; 2], Vec<&'a Offering>)> {
    let mut groups = vec![([instance_type.capacity.clone(), instance_type.allocatable()], Vec::new())];
    let on_sale = instance_type.offerings.iter().filter(|offering| offering.is_available);
    for offering in on_sale.filter(|offering| reservations.has_stock(offering)) {
        // Hardly any offering differs from its type.
        if !offering.has_own_amounts() {
            groups[0].1.push(offering);
            continue;
        }
        let amounts = [instance_type.capacity_of(offering), instance_type.allocatable_of(offering)];
        match groups.iter_mut().find(|(present, _)| *present == amounts) {
            Some((_, offerings)) => offerings.push(offering),
            None => groups.push((amounts, vec![offering])),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use model::time::Instant;

    use super::*;

    #[test]
    fn a_catalogue_fits_what_it_was_made_from_and_is_not_made_again() {
        let snapshot = Snapshot::empty(Instant::from_unix_seconds(0));
        let reservations = Reservations::new(&snapshot, &BTreeMap::new(), &BTreeSet::new());
        assert!(Catalogue::of(&snapshot).fits(&[], &reservations));
    }
}
