//! From numbers back to words: the plan that others read.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use model::ids::TypeName;
use model::instance::CapacityType;
use model::labels::{CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, Labels};
use model::plan::{Plan, PlannedClaim, Target};
use model::price::Price;
use model::requirements::{Operator, Requirement, Requirements};
use model::resources::Resources;
use model::snapshot::MinValuesPolicy;
use model::why::{ClaimReason, Obstacle};

use super::bits::Bits;
use super::claims::Claim;
use super::explain;
use super::greedy::{Greedy, Seat};
use super::lift::Lift;
use super::machines::Sale;
use super::outlook::OutlookId;
use super::words::Key;
use super::world::World;

/// A claim, spelled out.
struct Draft {
    claim: Claim,
    states: Vec<Bits>,
    machines: Bits,
    requirements: Requirements,
    /// Whether its labels were narrowed once more for the sake of offerings that differ in amounts.
    is_special: bool,
}

/// Writes the plan down. Claims settle their lists in the order in which they were opened.
pub(crate) fn finish(mut greedy: Greedy<'_, '_>) -> Plan {
    let counted: BTreeSet<Key> = greedy.topology.groups.iter().flat_map(|group| group.keys()).collect();
    let mut drafts = Vec::new();
    for number in 0..greedy.claims.len() {
        let mut draft = spelled_out(&greedy, &greedy.claims[number], &counted);
        if greedy.world.machines.has_twins {
            settle_offerings(greedy.world, &mut draft);
        }
        greedy.limits.settle(greedy.world, &draft.claim, &mut draft.machines);
        drafts.push(draft);
    }
    let mut listings = Listings::default();
    let mut listed: Vec<(Draft, Rc<Listing>)> = Vec::new();
    for draft in drafts {
        let listing = listings.of(&greedy, &draft);
        listed.push((draft, listing));
    }
    drop_claims_that_truncation_breaks(&mut greedy, &mut listed);
    let unplaced = explain::unplaced(&greedy);
    let pods = &greedy.world.pods;
    let target = |seat: Seat| match seat {
        Seat::Site(site) => Target::Node(greedy.world.sites[site].node.name.clone()),
        Seat::Claim(claim) => Target::Claim(claim),
    };
    let placements = greedy.order.iter().filter_map(|pod| Some((pods[*pod].name.clone(), target(greedy.seats[*pod]?))));
    let mut bindings = Bindings::default();
    Plan {
        placements: placements.collect(),
        claims: listed.iter().map(|(draft, listing)| planned(&greedy, draft, listing, &mut bindings)).collect(),
        unplaced,
        steps: greedy.steps,
    }
}

fn spelled_out(greedy: &Greedy<'_, '_>, claim: &Claim, counted: &BTreeSet<Key>) -> Draft {
    let lift = Lift::default();
    let machines = greedy.view(&lift).machines_for(claim, None, claim.outlook);
    let outlook = greedy.outlooks.borrow().get(claim.outlook).clone();
    let template = &greedy.world.templates[claim.template];
    let mut requirements = template.pool.template.requirements.clone();
    for asked in &claim.asked {
        let rung = &greedy.classes[asked.class].rungs[asked.rung];
        requirements.add_all(&rung.labels);
        requirements.add_all(&rung.places[asked.place].requirements);
    }
    // What rules about other pods settled stands in no demand.
    let words = &greedy.world.words;
    for key in counted.iter().copied().filter(|key| outlook.states[*key] != template.states[*key]) {
        let states = &outlook.states[key];
        if states.is_subset(&words.named(key)) {
            let values = states.iter().filter_map(|state| words.value(key, state)).map(|value| &**value);
            requirements.add(words.key_name(key).clone(), Requirement::new(Operator::In, values));
        }
    }
    Draft { claim: claim.clone(), states: outlook.states.clone(), machines, requirements, is_special: false }
}

/// A type whose offerings differ in amounts may be sold to the claim in a way that is too small for its pods. Such a type
/// goes, if others are left; otherwise the claim is narrowed to the labels of the offerings that are large enough.
fn settle_offerings(world: &World<'_>, claim: &mut Draft) {
    let shapes = world.machines.shapes_for(|key| &claim.states[key]);
    let is_sold = |machine: usize| world.machines.all[machine].sales.iter().any(|sale| shapes.contains(sale.shape));
    // Pools may offer different types of one name, so a type is told by its place in memory and not by its name.
    let type_of = |machine: usize| Arc::as_ptr(world.machines.all[machine].instance_type);
    let left_out =
        (0..world.machines.all.len()).filter(|machine| !claim.machines.contains(*machine) && is_sold(*machine));
    let doubtful: BTreeSet<_> = left_out.map(type_of).collect();
    let mut sound = claim.machines.clone();
    sound.retain(|machine| !doubtful.contains(&type_of(machine)));
    if !sound.is_empty() {
        claim.machines = sound;
        return;
    }
    claim.is_special = true;
    let sales = claim.machines.iter().flat_map(|machine| &world.machines.all[machine].sales);
    let suited: Bits = sales.map(|sale| sale.shape).filter(|shape| shapes.contains(*shape)).collect();
    for key in 0..world.words.key_count() {
        let mut states = claim.states[key].clone();
        states.keep(&world.machines.states_on_sale(key, &suited, &world.words));
        if states != claim.states[key] {
            let values: Vec<&str> =
                states.iter().filter_map(|state| world.words.value(key, state)).map(|v| &**v).collect();
            claim.requirements.add(world.words.key_name(key).clone(), Requirement::new(Operator::In, values));
            claim.states[key] = states;
        }
    }
}

/// A claim lists only so many types. If those that are left out take a minimum of values along, the claim would promise
/// less than its pool demands; its pods then stay without a place.
fn drop_claims_that_truncation_breaks(greedy: &mut Greedy<'_, '_>, listed: &mut Vec<(Draft, Rc<Listing>)>) {
    let is_strict = greedy.world.snapshot.policy.min_values == MinValuesPolicy::Strict;
    let broken: Vec<Option<Obstacle>> =
        listed.iter().map(|(draft, list)| is_strict.then(|| shortfall(greedy, draft, list)).flatten()).collect();
    if broken.iter().all(Option::is_none) {
        return;
    }
    // Claims that stay move up into the gaps.
    let number = |claim: usize| broken[..claim].iter().filter(|broken| broken.is_none()).count();
    for pod in 0..greedy.seats.len() {
        let Some(Seat::Claim(claim)) = greedy.seats[pod] else { continue };
        greedy.seats[pod] = broken[claim].is_none().then(|| Seat::Claim(number(claim)));
        greedy.shortfalls[pod] = broken[claim].clone();
    }
    let mut verdicts = broken.iter();
    listed.retain(|_| verdicts.next().is_some_and(Option::is_none));
    greedy.claims = listed.iter().map(|(draft, _)| draft.claim.clone()).collect();
    greedy.order = greedy.order.iter().copied().filter(|pod| greedy.seats[*pod].is_some()).collect();
}

/// The first minimum that the listed types do not meet.
fn shortfall(greedy: &Greedy<'_, '_>, draft: &Draft, listing: &Listing) -> Option<Obstacle> {
    if draft.claim.min_values.is_empty() {
        return None;
    }
    let listed: BTreeSet<&TypeName> = listing.types.iter().collect();
    let mut machines = draft.machines.clone();
    machines.retain(|machine| listed.contains(&greedy.world.machines.all[machine].instance_type.name));
    let lift = Lift::default();
    let view = greedy.view(&lift);
    draft.claim.min_values.iter().find_map(|(key, wanted)| {
        let found = view.values_of(*key, &machines);
        let key = greedy.world.words.key_name(*key).clone();
        (found < *wanted).then_some(Obstacle::MinValues { key, wanted: *wanted, found })
    })
}

fn planned(greedy: &Greedy<'_, '_>, draft: &Draft, listing: &Listing, bindings: &mut Bindings) -> PlannedClaim {
    let (world, claim) = (greedy.world, &draft.claim);
    let template = &world.templates[claim.template];
    let requests = claim.pods.iter().fold(Resources::default(), |sum, pod| sum.plus(&world.pods[*pod].requests));
    let price = listing.cheapest.map_or(Price::ZERO, |price| price);
    let pods: Vec<_> = claim.pods.iter().map(|pod| world.pods[*pod].name.clone()).collect();
    let mut requirements = draft.requirements.clone();
    requirements.remove(HOSTNAME);
    requirements.add(INSTANCE_TYPE, listing.type_names.clone());
    requirements.add(CAPACITY_TYPE, listing.capacity_types.clone());
    PlannedClaim {
        pool: template.pool.name.clone(),
        requirements,
        pods: pods.clone(),
        requests: requests.plus(&least_daemons(greedy, draft)),
        labels: custom_labels(greedy, draft),
        reservations: claim.held.iter().cloned().collect(),
        is_min_values_relaxed: claim.is_min_values_relaxed,
        price,
        reason: ClaimReason {
            pods,
            binding: bindings.of(greedy, claim),
            price,
            cheapest: listing.types.first().cloned(),
            runner_up: listing.runner_up.clone(),
        },
        types: listing.types.clone(),
    }
}

/// What kept the first pod of each class that opened a claim off the node that came closest to taking it.
#[derive(Default)]
struct Bindings(BTreeMap<usize, Option<Obstacle>>);

impl Bindings {
    fn of(&mut self, greedy: &Greedy<'_, '_>, claim: &Claim) -> Option<Obstacle> {
        let class = greedy.class_of[*claim.pods.first()?];
        let nearest = || explain::nearest_site(greedy, class).and_then(|(_, obstacles)| obstacles.into_iter().next());
        self.0.entry(class).or_insert_with(nearest).clone()
    }
}

/// The types that a claim lists, in the ways that it can buy them.
struct Listing {
    /// Cheapest first.
    types: Arc<[TypeName]>,
    type_names: Requirement,
    capacity_types: Requirement,
    cheapest: Option<Price>,
    runner_up: Option<(TypeName, Price)>,
}

/// Listings that were made already. Claims of one outlook often end with the same machines.
#[derive(Default)]
struct Listings(BTreeMap<(OutlookId, Bits), Rc<Listing>>);

impl Listings {
    fn of(&mut self, greedy: &Greedy<'_, '_>, draft: &Draft) -> Rc<Listing> {
        // What is held, and what differs by offering, is a claim's own.
        if !draft.claim.held.is_empty() || draft.is_special {
            return Rc::new(Listing::new(greedy, draft));
        }
        let key = (draft.claim.outlook, draft.machines.clone());
        self.0.entry(key).or_insert_with(|| Rc::new(Listing::new(greedy, draft))).clone()
    }
}

impl Listing {
    fn new(greedy: &Greedy<'_, '_>, draft: &Draft) -> Self {
        let machines = &greedy.world.machines;
        let shapes = machines.shapes_for(|key| &draft.states[key]);
        let mut prices: Vec<(Price, usize)> = draft
            .machines
            .iter()
            .filter_map(|machine| Some((sales(greedy, draft, machine, &shapes).next()?.price, machine)))
            .collect();
        prices.sort_unstable();
        // Machines are numbered by name, so equal names are neighbours at one price, and the first price is the least.
        let mut seen: BTreeSet<&TypeName> = BTreeSet::new();
        let name = |machine: usize| &machines.all[machine].instance_type.name;
        prices.retain(|(_, machine)| seen.insert(name(*machine)));
        prices.truncate(greedy.world.snapshot.policy.max_types_per_claim);
        let types: Arc<[TypeName]> = prices.iter().map(|(_, machine)| name(*machine).clone()).collect();
        let listed: BTreeSet<&TypeName> = types.iter().collect();
        let kept = draft.machines.iter().filter(|machine| listed.contains(name(*machine)));
        let sales = kept.flat_map(|machine| sales(greedy, draft, machine, &shapes));
        let capacity_types: BTreeSet<CapacityType> = sales.filter_map(|sale| sale.capacity_type).collect();
        Self {
            type_names: Requirement::one_of(types.iter().map(TypeName::shared)),
            capacity_types: Requirement::one_of(capacity_types.iter().map(|kind| kind.as_str().into())),
            cheapest: prices.first().map(|(price, _)| *price),
            runner_up: prices.get(1).map(|(price, machine)| (name(*machine).clone(), *price)),
            types,
        }
    }
}

/// The ways in which a claim can buy a machine, cheapest first. One that holds reservations buys from those only.
fn sales<'g, 'a>(
    greedy: &'g Greedy<'_, 'a>,
    draft: &'g Draft,
    machine: usize,
    shapes: &'g Bits,
) -> impl Iterator<Item = &'g Sale<'a>> {
    let held = &draft.claim.held;
    greedy.world.machines.all[machine].sales.iter().filter(move |sale| {
        let is_ours = match sale.offering.reservation.as_ref() {
            Some(reservation) => held.contains(&reservation.id),
            None => held.is_empty(),
        };
        is_ours && shapes.contains(sale.shape)
    })
}

/// A value for every label that only requirements speak of, so that the node has what its pods asked for.
fn custom_labels(greedy: &Greedy<'_, '_>, draft: &Draft) -> Labels {
    let template = &greedy.world.templates[draft.claim.template].pool.template;
    let well_known = &greedy.world.snapshot.well_known;
    let custom = draft.requirements.iter().filter(|(key, requirement)| {
        !well_known.contains(key)
            && ***key != *HOSTNAME
            && !template.labels.contains_key(*key)
            && !requirement.allows_absent()
    });
    custom.filter_map(|(key, requirement)| Some((key.clone(), requirement.any()?))).collect()
}

/// What daemons add at least, whichever machine comes.
fn least_daemons(greedy: &Greedy<'_, '_>, draft: &Draft) -> Resources {
    let groups = greedy.world.templates[draft.claim.template].daemons.iter();
    let possible = groups.filter(|group| group.machines.intersects(&draft.machines));
    let least =
        possible.map(|group| group.requests.clone()).reduce(|a, b| a.iter().zip(&b).map(|(a, b)| *a.min(b)).collect());
    let mut resources = Resources::default();
    for (axis, amount) in greedy.world.machines.axes().iter().zip(least.unwrap_or_default()) {
        resources.set(axis.clone(), amount);
    }
    resources
}
