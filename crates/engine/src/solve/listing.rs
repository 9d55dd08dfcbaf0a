//! Which types a claim lists, and in which ways it can buy them.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::ids::{ReservationId, TypeName};
use model::instance::CapacityType;
use model::price::Price;
use model::requirements::Requirement;
use model::snapshot::MinValuesPolicy;

use super::bits::Bits;
use super::catalogue::Sale;
use super::claims::Claim;
use super::greedy::Greedy;
use super::lift::{Constraint, Lift};
use super::outlook::Step;
use super::words::Key;
use super::world::World;

const KINDS: [CapacityType; 3] = [CapacityType::Reserved, CapacityType::Spot, CapacityType::OnDemand];

/// The types that a claim lists, in the ways that it can buy them.
pub(crate) struct Listing {
    /// Cheapest first.
    pub(crate) types: Arc<[TypeName]>,
    /// One machine of each.
    pub(crate) machines: Bits,
    pub(crate) type_names: Requirement,
    pub(crate) capacity_types: Requirement,
    pub(crate) cheapest: Option<Price>,
    pub(crate) runner_up: Option<(TypeName, Price)>,
}

impl Listing {
    pub(crate) fn new(world: &World<'_>, held: &BTreeSet<ReservationId>, shapes: &Bits, machines: &Bits) -> Self {
        Self::of(world, held, shapes, machines, priced(world, Some(held), shapes, machines))
    }

    /// The same of machines whose least prices are known, cheapest first, where nothing is reserved.
    pub(crate) fn of_ladder(world: &World<'_>, shapes: &Bits, machines: &Bits, ladder: &[Step]) -> Self {
        let prices = ladder.iter().map(|step| (step.price, step.machine));
        let prices = prices.filter(|(_, machine)| machines.contains(*machine)).collect();
        Self::of(world, &BTreeSet::new(), shapes, machines, shortened(world, prices))
    }

    fn of(
        world: &World<'_>,
        held: &BTreeSet<ReservationId>,
        shapes: &Bits,
        machines: &Bits,
        prices: Vec<(Price, usize)>,
    ) -> Self {
        let all = world.machines.all;
        let name = |machine: usize| &all[machine].instance_type.name;
        let mut listed = Bits::empty(all.len());
        prices.iter().for_each(|(_, machine)| listed.insert(all[*machine].name));
        let kept = machines.iter().filter(|machine| listed.contains(all[*machine].name));
        let kinds = kept.flat_map(|machine| sales(world, Some(held), machine, shapes)).filter_map(|s| s.capacity_type);
        let kinds = kinds.fold([false; 3], |mut seen, kind| {
            seen[kind as usize] = true;
            seen
        });
        let kinds = KINDS.into_iter().filter(|kind| kinds[*kind as usize]);
        let mut one_of_each = Bits::empty(all.len());
        prices.iter().for_each(|(_, machine)| one_of_each.insert(*machine));
        Self {
            types: prices.iter().map(|(_, machine)| name(*machine).clone()).collect(),
            // Machines are numbered by name; what comes in order is put in order quickly.
            type_names: Requirement::one_of(one_of_each.iter().map(|machine| name(machine).shared())),
            capacity_types: Requirement::one_of(kinds.map(|kind| kind.as_str().into())),
            cheapest: prices.first().map(|(price, _)| *price),
            runner_up: prices.get(1).map(|(price, machine)| (name(*machine).clone(), *price)),
            machines: one_of_each,
        }
    }
}

/// The machines that a claim with these labels would list, cheapest first: no more than a claim may name, each type once.
pub(crate) fn listed(
    world: &World<'_>,
    held: Option<&BTreeSet<ReservationId>>,
    states: &[Bits],
    machines: &Bits,
) -> Vec<usize> {
    let choice = Choice::new(world, states, machines);
    let states = choice.narrowed.as_deref().unwrap_or(states);
    let shapes = world.machines.shapes_for(|key| &states[key]);
    priced(world, held, &shapes, &choice.machines).into_iter().map(|(_, machine)| machine).collect()
}

/// The first minimum number of values that these machines do not meet, with the number that they have.
pub(crate) fn unmet(world: &World<'_>, minimums: &[(Key, u32)], machines: &Bits) -> Option<(Key, u32, u32)> {
    let counted = minimums.iter().map(|(key, wanted)| (*key, *wanted, values_of(world, *key, machines)));
    counted.into_iter().find(|(_, wanted, found)| found < wanted)
}

/// How many different values of a key these machines have among them.
pub(crate) fn values_of(world: &World<'_>, key: Key, machines: &Bits) -> u32 {
    let mut states = world.machines.states_of(key, machines);
    states.keep(&world.words.named(key));
    u32::try_from(states.len()).unwrap_or(u32::MAX)
}

impl Greedy<'_, '_> {
    /// The machines that a claim must be able to list, whatever others take of its pool's limits: the cheapest, and as many
    /// more as a minimum number of values asks for.
    pub(super) fn essential(&self, claim: &Claim) -> Vec<usize> {
        if !self.limits.has_resources(claim.template) {
            return Vec::new();
        }
        let is_strict = self.world.snapshot.policy.min_values == MinValuesPolicy::Strict;
        let minimums: &[(Key, u32)] = if is_strict { &claim.min_values } else { &[] };
        // The cheapest machine of all may be one that the claim cannot name: sold from a reservation that others hold, or in
        // one way that is too small.
        let is_plain = self.world.reservations.is_empty() && !self.world.machines.has_twins;
        if minimums.is_empty() && is_plain {
            return self.cheapest(claim).map(|step| step.machine).into_iter().collect();
        }
        let lift = if is_strict { Lift::default() } else { Lift::of(&[Constraint::MinValues]) };
        let machines = self.view(&lift).machines_for(claim, None, claim.outlook);
        let outlook = self.outlooks.borrow().get(claim.outlook).clone();
        let listed = listed(self.world, Some(&claim.held), &outlook.states, &machines);
        cheapest_that_meet(self.world, minimums, &listed)
    }
}

/// The cheapest of listed machines that together meet every minimum; always one at least.
fn cheapest_that_meet(world: &World<'_>, minimums: &[(Key, u32)], listed: &[usize]) -> Vec<usize> {
    let mut kept = Bits::empty(world.machines.all.len());
    let mut essential = Vec::new();
    for machine in listed {
        essential.push(*machine);
        kept.insert(*machine);
        if unmet(world, minimums, &kept).is_none() {
            break;
        }
    }
    essential
}

/// Machines with their least price, cheapest first.
fn priced(
    world: &World<'_>,
    held: Option<&BTreeSet<ReservationId>>,
    shapes: &Bits,
    machines: &Bits,
) -> Vec<(Price, usize)> {
    let price = |machine: usize| Some((sales(world, held, machine, shapes).next()?.price, machine));
    let mut prices: Vec<(Price, usize)> = machines.iter().filter_map(price).collect();
    prices.sort_unstable();
    shortened(world, prices)
}

/// Each type once, and no more of them than a claim may name.
fn shortened(world: &World<'_>, mut prices: Vec<(Price, usize)>) -> Vec<(Price, usize)> {
    // Machines are numbered by name, so equal names are neighbours at one price, and the first price is the least.
    let mut seen = Bits::empty(world.machines.all.len());
    prices.retain(|(_, machine)| !seen.replace(world.machines.all[*machine].name));
    prices.truncate(world.snapshot.policy.max_types_per_claim);
    prices
}

/// The ways in which a machine can be bought, cheapest first. A claim that holds reservations buys from those only, one that
/// holds none from no reservation; where it is open what is held, all ways count.
fn sales<'w, 'a>(
    world: &World<'a>,
    held: Option<&'w BTreeSet<ReservationId>>,
    machine: usize,
    shapes: &'w Bits,
) -> impl Iterator<Item = &'a Sale> + use<'w, 'a> {
    world.machines.all[machine].sales.iter().filter(move |sale| {
        let is_ours = held.is_none_or(|held| match &sale.reservation {
            Some(reservation) => held.contains(reservation),
            None => held.is_empty(),
        });
        is_ours && shapes.contains(sale.shape)
    })
}

/// What a claim may name where offerings of one type differ in amounts: some of them may be too small for its pods.
pub(crate) struct Choice {
    pub(crate) machines: Bits,
    /// What its labels may be, if they had to be narrowed so that only offerings are left that are large enough.
    pub(crate) narrowed: Option<Vec<Bits>>,
}

impl Choice {
    /// A type that may be sold in a way that is too small goes, if others are left. Otherwise the labels are narrowed.
    pub(crate) fn new(world: &World<'_>, states: &[Bits], machines: &Bits) -> Self {
        if !world.machines.has_twins {
            return Self { machines: machines.clone(), narrowed: None };
        }
        let all = world.machines.all;
        let shapes = world.machines.shapes_for(|key| &states[key]);
        let is_sold = |machine: usize| all[machine].sales.iter().any(|sale| shapes.contains(sale.shape));
        // Pools may offer different types of one name, so a type is told by its place in memory and not by its name.
        let type_of = |machine: usize| Arc::as_ptr(&all[machine].instance_type);
        let too_small: Vec<usize> =
            (0..all.len()).filter(|machine| !machines.contains(*machine) && is_sold(*machine)).collect();
        let doubtful: BTreeSet<_> = too_small.iter().map(|machine| type_of(*machine)).collect();
        let mut sound = machines.clone();
        sound.retain(|machine| !doubtful.contains(&type_of(machine)));
        if !sound.is_empty() || machines.is_empty() {
            return Self { machines: sound, narrowed: None };
        }
        let types: BTreeSet<_> = machines.iter().map(type_of).collect();
        let rivals = too_small.into_iter().filter(|machine| types.contains(&type_of(*machine)));
        let bad: Bits = rivals.flat_map(|machine| all[machine].sales.iter().map(|sale| sale.shape)).collect();
        let narrowed = without_shapes(world, states, &shapes_by_price(world, machines, &shapes), &bad);
        let mut left = machines.clone();
        left.keep(&world.machines.on_sale_in(&world.machines.shapes_for(|key| &narrowed[key])));
        Self { machines: left, narrowed: Some(narrowed) }
    }
}

/// The shapes in which these machines are on sale, the cheapest way first.
fn shapes_by_price(world: &World<'_>, machines: &Bits, shapes: &Bits) -> Vec<usize> {
    let sales = machines.iter().flat_map(|machine| &world.machines.all[machine].sales);
    let mut suited: Vec<(Price, usize)> =
        sales.filter(|sale| shapes.contains(sale.shape)).map(|sale| (sale.price, sale.shape)).collect();
    suited.sort_unstable();
    let mut seen = BTreeSet::new();
    suited.retain(|(_, shape)| seen.insert(*shape));
    suited.into_iter().map(|(_, shape)| shape).collect()
}

/// Labels that leave the first of some shapes, as many of the others as possible, and none of the bad ones. Narrowing label
/// by label would not do: of two good ways to buy, the zone of one and the capacity type of the other may make a bad one.
fn without_shapes(world: &World<'_>, states: &[Bits], good: &[usize], bad: &Bits) -> Vec<Bits> {
    let mut kept: Option<Vec<Bits>> = None;
    for shape in good {
        let mut wider = kept.clone().unwrap_or_else(|| states.iter().map(Bits::empty_like).collect());
        for (key, wider) in wider.iter_mut().enumerate() {
            let mut own = states[key].clone();
            world.machines.keep_shape(*shape, key, &mut own);
            wider.add_all(&own);
        }
        let lets_in = world.machines.shapes_for(|key| &wider[key]);
        if kept.is_none() || !lets_in.intersects(bad) {
            kept = Some(wider);
        }
    }
    kept.unwrap_or_else(|| states.to_vec())
}
