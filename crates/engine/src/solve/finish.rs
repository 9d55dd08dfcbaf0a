//! From numbers back to words: the plan that others read.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use model::ids::PodName;
use model::labels::{CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, Labels};
use model::plan::{Plan, PlannedClaim, Target};
use model::price::Price;
use model::requirements::{Requirement, Requirements};
use model::resources::Resources;
use model::snapshot::MinValuesPolicy;
use model::why::{ClaimReason, Obstacle};

use super::bits::Bits;
use super::claims::Claim;
use super::explain::{self, Inquiry};
use super::greedy::{Greedy, Seat};
use super::lift::{Constraint, Lift};
use super::listing::{Choice, Listing, unmet};
use super::outlook::{Outlook, OutlookId, Step};
use super::words::Key;
use super::world::World;

/// A claim, spelled out.
struct Draft {
    number: usize,
    outlook: Rc<Outlook>,
    /// Its labels, if they were narrowed once more for the sake of offerings that differ in amounts.
    narrowed: Option<Vec<Bits>>,
    machines: Bits,
    requirements: Requirements,
}

/// Writes the plan down. Claims settle their lists in the order in which they were opened.
pub(crate) fn finish(mut greedy: Greedy<'_, '_>, cancel: &AtomicBool) -> Plan {
    let counted: BTreeSet<Key> = greedy.topology.groups.iter().flat_map(|group| group.keys()).collect();
    let mut listings = Listings::default();
    let mut settled = Settled::default();
    let mut drafts: Vec<(Draft, Rc<Listed>)> = Vec::with_capacity(greedy.claims.len());
    let mut sharers = vec![0_i64; greedy.world.templates.len()];
    greedy.claims.iter().for_each(|claim| sharers[claim.template] += 1);
    for number in 0..greedy.claims.len() {
        let mut draft = spelled_out(&greedy, number, &counted, &mut settled);
        let Claim { template, charged, .. } = &greedy.claims[number];
        let (template, mut charged) = (*template, charged.clone());
        // Offerings that the pool cannot pay for are to be left out like those that are too small.
        greedy.limits.keep_share(template, charged.as_deref(), &mut draft.machines, sharers[template]);
        draft.settle_offerings(greedy.world);
        let listed = listings.of(&greedy, &mut draft);
        if greedy.limits.has_resources(template) {
            greedy.limits.charge(template, &mut charged, listed.most.as_deref());
            sharers[template] -= 1;
        }
        drafts.push((draft, listed));
    }
    let inquiry = Inquiry::new(&greedy, cancel);
    let unplaced = explain::unplaced(&inquiry);
    let pods = &greedy.world.pods;
    let target = |seat: Seat| match seat {
        Seat::Site(site) => Target::Node(greedy.world.sites[site].node.name.clone()),
        Seat::Claim(claim) => Target::Claim(claim),
    };
    let placements = greedy.order.iter().filter_map(|pod| Some((pods[*pod].name.clone(), target(greedy.seats[*pod]?))));
    let mut bindings = Bindings::default();
    Plan {
        placements: placements.collect(),
        claims: drafts.into_iter().map(|(draft, listed)| planned(&inquiry, draft, &listed, &mut bindings)).collect(),
        unplaced,
        steps: greedy.steps,
    }
}

impl Draft {
    /// What its labels can be.
    fn states(&self) -> &[Bits] {
        self.narrowed.as_deref().unwrap_or(&self.outlook.states)
    }

    /// Leaves out machines, or narrows labels, where a type's offerings differ in amounts.
    fn settle_offerings(&mut self, world: &World<'_>) {
        if !world.machines.has_twins {
            return;
        }
        let choice = Choice::new(world, self.states(), &self.machines);
        self.machines = choice.machines;
        let Some(narrowed) = choice.narrowed else { return };
        for (key, states) in narrowed.iter().enumerate().filter(|(key, states)| **states != self.outlook.states[*key]) {
            self.requirements.add(world.words.key_name(key).clone(), one_of(world, key, states));
        }
        self.narrowed = Some(narrowed);
    }
}

/// One of the values that these states stand for.
fn one_of(world: &World<'_>, key: Key, states: &Bits) -> Requirement {
    Requirement::one_of(states.iter().filter_map(|state| world.words.value(key, state)).cloned())
}

/// What rules about other pods have settled, by outlook and key.
#[derive(Default)]
struct Settled(BTreeMap<(OutlookId, Key), Requirement>);

fn spelled_out(greedy: &Greedy<'_, '_>, number: usize, counted: &BTreeSet<Key>, settled: &mut Settled) -> Draft {
    let claim = &greedy.claims[number];
    // Best effort rather lowers a minimum of values than lists nothing, should a limit have become too tight for it.
    let is_lenient = greedy.world.snapshot.policy.min_values == MinValuesPolicy::BestEffort;
    let lift = if is_lenient { Lift::of(&[Constraint::MinValues]) } else { Lift::default() };
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
            let asked = settled.0.entry((claim.outlook, key)).or_insert_with(|| one_of(greedy.world, key, states));
            requirements.add(words.key_name(key).clone(), asked.clone());
        }
    }
    Draft { number, outlook, narrowed: None, machines, requirements }
}

fn planned(inquiry: &Inquiry<'_, '_, '_>, draft: Draft, listed: &Listed, bindings: &mut Bindings) -> PlannedClaim {
    let greedy = inquiry.greedy;
    let (world, claim, listing) = (greedy.world, &greedy.claims[draft.number], &listed.listing);
    let template = &world.templates[claim.template];
    let asked = world.machines.axes().iter().zip(&claim.requests).filter(|(_, amount)| **amount > 0);
    let requests = asked.fold(Resources::default(), |mut sum, (axis, amount)| {
        sum.set(axis.clone(), *amount);
        sum
    });
    let price = listing.cheapest.map_or(Price::ZERO, |price| price);
    let pods: Arc<[PodName]> = claim.pods.iter().map(|pod| world.pods[*pod].name.clone()).collect();
    let labels = custom_labels(greedy, claim.template, &draft.requirements);
    let mut requirements = draft.requirements;
    requirements.remove(HOSTNAME);
    requirements.add(INSTANCE_TYPE, listing.type_names.clone());
    requirements.add(CAPACITY_TYPE, listing.capacity_types.clone());
    let is_min_values_relaxed = lower_minimums(world, &template.min_values, listing, &mut requirements);
    PlannedClaim {
        pool: template.pool.name.clone(),
        requirements,
        pods: pods.clone(),
        requests: requests.plus(&least_daemons(greedy, claim.template, &listed.machines)),
        labels,
        reservations: claim.held.iter().cloned().collect(),
        is_min_values_relaxed,
        is_full: greedy.world.expects_more && is_full(greedy, claim),
        price,
        reason: ClaimReason {
            pods,
            binding: bindings.of(inquiry, claim),
            price,
            cheapest: listing.types.first().cloned(),
            runner_up: listing.runner_up.clone(),
        },
        types: listing.types.clone(),
    }
}

/// Whether more pods like a claim's own could not make it better: the cheapest machine for it has no room for the least that any
/// pod asks for, and no other that it may become would cost less for each of them.
fn is_full(greedy: &Greedy<'_, '_>, claim: &Claim) -> bool {
    let Some(own) = greedy.cheapest(claim) else { return true };
    let template = &greedy.world.templates[claim.template];
    let room = |step: &Step| template.room(step.machine, claim.requests.len());
    let least = |axis: usize| greedy.least.iter().map(|least| least[axis]).min().unwrap_or(0);
    let mut axes = room(&own).iter().zip(&claim.requests).enumerate();
    if !axes.any(|(axis, (room, held))| least(axis) > 0 && held.saturating_add(least(axis)) > *room) {
        return false;
    }
    let fee = greedy.world.snapshot.policy.node_fee;
    let cost = |step: &Step| i128::from(step.price.plus(fee).pico());
    let pods = claim.pods.len() as i128;
    // How many pods of the claim's average size a machine holds.
    let holds = |step: &Step| {
        let axes = room(step).iter().zip(&claim.requests).filter(|(_, held)| **held > 0);
        axes.map(|(room, held)| i128::from(*room) * pods / i128::from(*held)).min().unwrap_or(0)
    };
    let ladder = &greedy.outlooks.borrow().get(claim.outlook).clone().ladder;
    !ladder.iter().any(|other| cost(other) * pods < cost(&own) * holds(other))
}

/// Lowers the minimum numbers of values that a list does not meet to what it has; says whether there were any.
fn lower_minimums(
    world: &World<'_>,
    minimums: &[(Key, u32)],
    listing: &Listing,
    requirements: &mut Requirements,
) -> bool {
    let short = minimums.iter().filter_map(|minimum| unmet(world, &[*minimum], &listing.machines));
    let short: Vec<(Key, u32, u32)> = short.collect();
    for (key, _, found) in &short {
        let name = world.words.key_name(*key);
        if let Some(lowered) = requirements.remove(name) {
            requirements.add(name.clone(), lowered.with_min_values(Some(*found)));
        }
    }
    !short.is_empty()
}

/// What kept the first pod of each class that opened a claim off the node that came closest to taking it.
#[derive(Default)]
struct Bindings(BTreeMap<usize, Option<Obstacle>>);

impl Bindings {
    fn of(&mut self, inquiry: &Inquiry<'_, '_, '_>, claim: &Claim) -> Option<Obstacle> {
        let class = inquiry.greedy.class_of[*claim.pods.first()?];
        let nearest = || explain::nearest_site(inquiry, class).and_then(|(_, obstacles)| obstacles.into_iter().next());
        self.0.entry(class).or_insert_with(nearest).clone()
    }
}

/// What claims list in the end.
struct Listed {
    listing: Listing,
    /// Machines of the types that are listed.
    machines: Bits,
    /// What they count against limits at most, where there are any.
    most: Option<Vec<i64>>,
}

/// Listings that were made already. Claims of one outlook often end with the same machines.
#[derive(Default)]
struct Listings(BTreeMap<(OutlookId, Bits), Rc<Listed>>);

impl Listings {
    /// What a draft lists of its machines.
    fn of(&mut self, greedy: &Greedy<'_, '_>, draft: &mut Draft) -> Rc<Listed> {
        let claim = &greedy.claims[draft.number];
        let machines = std::mem::take(&mut draft.machines);
        // What is held, and what differs by offering, is a claim's own.
        if !claim.held.is_empty() || draft.narrowed.is_some() {
            return Rc::new(Listed::new(greedy, draft, &machines));
        }
        let entry = self.0.entry((claim.outlook, machines));
        entry.or_insert_with_key(|(_, machines)| Rc::new(Listed::new(greedy, draft, machines))).clone()
    }
}

impl Listed {
    fn new(greedy: &Greedy<'_, '_>, draft: &Draft, machines: &Bits) -> Self {
        let (world, claim) = (greedy.world, &greedy.claims[draft.number]);
        let listing = if draft.narrowed.is_none() && world.reservations.is_empty() {
            Listing::of_ladder(world, &draft.outlook.shapes, machines, &draft.outlook.ladder)
        } else {
            let shapes = world.machines.shapes_for(|key| &draft.states()[key]);
            Listing::new(world, &claim.held, &shapes, machines)
        };
        let mut machines = machines.clone();
        let is_limited = greedy.limits.has_resources(claim.template);
        // Only what is listed counts against limits.
        if is_limited && listing.types.len() >= world.snapshot.policy.max_types_per_claim {
            let all = world.machines.all;
            let names: Bits = listing.machines.iter().map(|machine| all[machine].name).collect();
            machines.retain(|machine| names.contains(all[machine].name));
        }
        let most = if is_limited { greedy.limits.most(claim.template, machines.iter()) } else { None };
        Self { listing, machines, most }
    }
}

/// A value for every label that only requirements speak of, so that the node has what its pods asked for.
fn custom_labels(greedy: &Greedy<'_, '_>, template: usize, requirements: &Requirements) -> Labels {
    let template = &greedy.world.templates[template].pool.template;
    let well_known = &greedy.world.snapshot.well_known;
    let custom = requirements.iter().filter(|(key, requirement)| {
        !well_known.contains(key)
            && ***key != *HOSTNAME
            && !template.labels.contains_key(*key)
            && !requirement.allows_absent()
    });
    custom.filter_map(|(key, requirement)| Some((key.clone(), requirement.any()?))).collect()
}

/// What daemons add at least, whichever machine comes.
fn least_daemons(greedy: &Greedy<'_, '_>, template: usize, machines: &Bits) -> Resources {
    let groups = greedy.world.templates[template].daemons.iter();
    let possible = groups.filter(|group| group.machines.intersects(machines));
    let least =
        possible.map(|group| group.requests.clone()).reduce(|a, b| a.iter().zip(&b).map(|(a, b)| *a.min(b)).collect());
    let mut resources = Resources::default();
    for (axis, amount) in greedy.world.machines.axes().iter().zip(least.unwrap_or_default()) {
        resources.set(axis.clone(), amount);
    }
    resources
}
