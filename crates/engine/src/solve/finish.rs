//! From numbers back to words: the plan that others read.

use std::collections::{BTreeMap, BTreeSet};
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
use super::words::Key;
use super::world::World;

/// A claim, spelled out.
struct Draft {
    claim: Claim,
    states: Vec<Bits>,
    machines: Bits,
    requirements: Requirements,
}

/// Writes the plan down. Claims settle their lists in the order in which they were opened.
pub(crate) fn finish(mut greedy: Greedy<'_, '_>) -> Plan {
    let mut drafts = Vec::new();
    for number in 0..greedy.claims.len() {
        let mut draft = spelled_out(&greedy, &greedy.claims[number]);
        settle_offerings(greedy.world, &mut draft);
        greedy.limits.settle(greedy.world, &draft.claim, &mut draft.machines);
        drafts.push(draft);
    }
    drop_claims_that_truncation_breaks(&mut greedy, &mut drafts);
    let unplaced = explain::unplaced(&greedy);
    let pods = &greedy.world.pods;
    let target = |seat: Seat| match seat {
        Seat::Site(site) => Target::Node(greedy.world.sites[site].node.name.clone()),
        Seat::Claim(claim) => Target::Claim(claim),
    };
    let placements = greedy.order.iter().filter_map(|pod| Some((pods[*pod].name.clone(), target(greedy.seats[*pod]?))));
    Plan {
        placements: placements.collect(),
        claims: drafts.iter().map(|draft| planned(&greedy, draft)).collect(),
        unplaced,
        steps: greedy.steps,
    }
}

fn spelled_out(greedy: &Greedy<'_, '_>, claim: &Claim) -> Draft {
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
    let keys: BTreeSet<Key> = greedy.topology.groups.iter().filter_map(|group| group.key).collect();
    for key in keys.into_iter().filter(|key| outlook.states[*key] != template.states[*key]) {
        let states = &outlook.states[key];
        if states.is_subset(&words.named(key)) {
            let values = states.iter().filter_map(|state| words.value(key, state)).map(|value| &**value);
            requirements.add(words.key_name(key).clone(), Requirement::new(Operator::In, values));
        }
    }
    Draft { claim: claim.clone(), states: outlook.states.clone(), machines, requirements }
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
fn drop_claims_that_truncation_breaks(greedy: &mut Greedy<'_, '_>, drafts: &mut Vec<Draft>) {
    let is_strict = greedy.world.snapshot.policy.min_values == MinValuesPolicy::Strict;
    let broken: Vec<Option<Obstacle>> =
        drafts.iter().map(|draft| is_strict.then(|| shortfall(greedy, draft)).flatten()).collect();
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
    drafts.retain(|_| verdicts.next().is_some_and(Option::is_none));
    greedy.claims = drafts.iter().map(|draft| draft.claim.clone()).collect();
    greedy.order = greedy.order.iter().copied().filter(|pod| greedy.seats[*pod].is_some()).collect();
}

/// The first minimum that the listed types do not meet.
fn shortfall(greedy: &Greedy<'_, '_>, draft: &Draft) -> Option<Obstacle> {
    let most = greedy.world.snapshot.policy.max_types_per_claim;
    let listed: BTreeSet<TypeName> = prices(greedy, draft).into_iter().take(most).map(|(_, name)| name).collect();
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

fn planned(greedy: &Greedy<'_, '_>, draft: &Draft) -> PlannedClaim {
    let (world, claim) = (greedy.world, &draft.claim);
    let template = &world.templates[claim.template];
    let prices = prices(greedy, draft);
    let most = world.snapshot.policy.max_types_per_claim;
    let types: Vec<TypeName> = prices.iter().take(most).map(|(_, name)| name.clone()).collect();
    let requests = claim.pods.iter().fold(Resources::default(), |sum, pod| sum.plus(&world.pods[*pod].requests));
    let price = prices.first().map_or(Price::ZERO, |(price, _)| *price);
    let pods: Vec<_> = claim.pods.iter().map(|pod| world.pods[*pod].name.clone()).collect();
    PlannedClaim {
        pool: template.pool.name.clone(),
        requirements: requirements(greedy, draft, &types),
        pods: pods.clone(),
        requests: requests.plus(&least_daemons(greedy, draft)),
        labels: custom_labels(greedy, draft),
        reservations: claim.held.iter().cloned().collect(),
        is_min_values_relaxed: claim.is_min_values_relaxed,
        price,
        reason: ClaimReason {
            pods,
            binding: binding(greedy, claim),
            price,
            cheapest: types.first().cloned(),
            runner_up: prices.get(1).map(|(price, name)| (name.clone(), *price)),
        },
        types,
    }
}

/// What keeps the claim's first pod off the node that comes closest to taking it.
fn binding(greedy: &Greedy<'_, '_>, claim: &Claim) -> Option<Obstacle> {
    let class = greedy.class_of[*claim.pods.first()?];
    explain::nearest_site(greedy, class).and_then(|(_, obstacles)| obstacles.into_iter().next())
}

/// Every type that the claim may become with its cheapest price, cheapest first.
fn prices(greedy: &Greedy<'_, '_>, claim: &Draft) -> Vec<(Price, TypeName)> {
    let machines = &greedy.world.machines;
    let mut cheapest: BTreeMap<TypeName, Price> = BTreeMap::new();
    for machine in claim.machines.iter() {
        let Some(sale) = sales(greedy, claim, machine).next() else { continue };
        let name = machines.all[machine].instance_type.name.clone();
        let price = cheapest.entry(name).or_insert(sale.price);
        *price = (*price).min(sale.price);
    }
    let mut prices: Vec<(Price, TypeName)> = cheapest.into_iter().map(|(name, price)| (price, name)).collect();
    prices.sort();
    prices
}

/// The ways in which a claim can buy a machine, cheapest first. One that holds reservations buys from those only.
fn sales<'g, 'a>(greedy: &'g Greedy<'_, 'a>, draft: &'g Draft, machine: usize) -> impl Iterator<Item = &'g Sale<'a>> {
    let machines = &greedy.world.machines;
    let shapes = machines.shapes_for(|key| &draft.states[key]);
    let held = &draft.claim.held;
    machines.all[machine].sales.iter().filter(move |sale| {
        let reservation = sale.offering.reservation.as_ref();
        let is_ours = match reservation {
            Some(reservation) => held.contains(&reservation.id),
            None => held.is_empty(),
        };
        is_ours && shapes.contains(sale.shape)
    })
}

/// What the claim asks for, with the types and capacity types that are on sale for it.
fn requirements(greedy: &Greedy<'_, '_>, claim: &Draft, types: &[TypeName]) -> Requirements {
    let machines = &greedy.world.machines;
    let mut requirements = claim.requirements.clone();
    requirements.remove(HOSTNAME);
    requirements.add(INSTANCE_TYPE, Requirement::new(Operator::In, types.iter().map(TypeName::as_str)));
    let kept = claim.machines.iter().filter(|machine| types.contains(&machines.all[*machine].instance_type.name));
    let sales = kept.flat_map(|machine| sales(greedy, claim, machine));
    let capacity_types: BTreeSet<CapacityType> = sales.filter_map(|sale| sale.offering.capacity_type()).collect();
    requirements.add(CAPACITY_TYPE, Requirement::new(Operator::In, capacity_types.iter().map(|kind| kind.as_str())));
    requirements
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
