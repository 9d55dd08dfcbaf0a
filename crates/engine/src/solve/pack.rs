//! The same pods on cheaper claims.
//!
//! Greedy fills claims one pod at a time and never goes back. Here pods that care about nothing but amounts, labels and who
//! shares their host are taken off their claims again, worst claims first, and packed anew: all ways are tried for about a
//! dozen, larger lots are filled machine by machine, by what really fits. A better packing is then seated pod by pod under
//! all rules (`replay`); the plan changes only if that works and costs less.

mod exact;
mod patterns;
mod refill;
mod replay;
#[cfg(test)]
mod tests;

use std::cell::OnceCell;
use std::sync::atomic::{AtomicBool, Ordering};

use super::claims::Claim;
use super::greedy::{Greedy, Seat};
use super::limits::{Bought, Limits};
use super::outlook::{OutlookId, Stock};
use super::rooms::has_room;
use super::topology::GroupId;
use super::worth::{Bundle, Worth};

/// Looks at a way to fill a machine, for each pod of the plan and beside that.
const LOOKS_PER_POD: u64 = 2;
const SPARE_LOOKS: u64 = 60_000;
/// The same for finding patterns; a look there is one at so many kinds of pods.
const PATTERN_LOOKS_PER_POD: u64 = 32;
const KINDS_PER_LOOK: u64 = 16;

/// Patterns are looked for where more than this part of the cost seems to be wasted.
const LEAST_WASTE: Cost = 100;

/// So few pods are seated again for whatever is gained, more only for this part of the cost.
const FEW_PODS: u64 = 1_000;
const LEAST_PART: Cost = 1_000;

/// Most claims, and most pods on them, that are filled anew together.
const MOST_CLAIMS: usize = 6;
const MOST_PODS: usize = 400;

/// After so many lots in a row that were packed well already, the others, which waste less, are let be.
const MOST_IDLE: usize = 6;

/// Rounds over all claims.
const ROUNDS: usize = 6;

/// Cost in millionths of a millionth of a dollar per hour.
type Cost = i64;

/// A claim, as far as packing goes.
#[derive(Clone, Debug)]
struct Bin {
    template: usize,
    /// What its labels can be with the pods that stay, and with all.
    outlook: OutlookId,
    /// The claim of the plan with pods that stay where they are, if there are any.
    fixed: Option<usize>,
    /// What the pods that stay ask for.
    base: Vec<i64>,
    /// Pods that may move.
    pods: Vec<usize>,
    cost: Cost,
}

/// How many claims are packed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lot {
    /// So few pods that all ways can be tried.
    Small,
    Large,
}

/// Everything that packing looks at.
struct Puzzle<'g, 'w, 'a> {
    greedy: &'g Greedy<'w, 'a>,
    cancel: &'g AtomicBool,
    /// Which pods may move.
    moves: Vec<bool>,
    /// What pools may still grow by, with what was packed so far.
    limits: Limits,
    fee: Cost,
    worth: OnceCell<Worth>,
    /// Most pods of which all ways are tried.
    few: usize,
    looks: u64,
    most_looks: u64,
    /// What the effort allows in all.
    allowed: u64,
}

/// Packs a complete plan anew where that is cheaper.
pub(crate) fn cheaper<'w, 'a>(mut first: Greedy<'w, 'a>, effort: u64, cancel: &AtomicBool) -> Greedy<'w, 'a> {
    let seated = first.order.len() as u64;
    let allowed = effort.saturating_sub(first.steps);
    // Seating the packing is paid for beforehand, so that a plan costs the same steps whatever comes of this.
    let on_claims: usize = first.claims.iter().map(|claim| claim.pods.len()).sum();
    if on_claims < 2 || allowed < seated || !first.world.reservations.is_empty() {
        return first;
    }
    let (targets, looks) = {
        let mut puzzle = Puzzle::new(&first, allowed - seated, cancel);
        let mut bins = puzzle.bins();
        let before = total(&bins);
        puzzle.improve(&mut bins);
        let gain = before.saturating_sub(total(&bins));
        // Seating everybody again is not worth a trifle.
        let is_worthwhile = gain > 0 && (seated <= FEW_PODS || gain >= before / LEAST_PART);
        (is_worthwhile.then_some(bins), puzzle.looks)
    };
    let steps = first.steps + seated + looks;
    if let Some(packed) = targets.and_then(|bins| first.replayed(&bins)).filter(|packed| packed.cost() < first.cost()) {
        first = packed;
    }
    first.steps = steps;
    first
}

fn total(bins: &[Bin]) -> Cost {
    bins.iter().fold(0, |sum, bin| sum.saturating_add(bin.cost))
}

impl Greedy<'_, '_> {
    /// What all claims cost, each at its cheapest, with the fee for each.
    fn cost(&self) -> Cost {
        let fee = self.world.snapshot.policy.node_fee.pico();
        let prices = self.claims.iter().filter_map(|claim| self.cheapest(claim));
        prices.fold(0, |sum, step| sum.saturating_add(step.price.pico()).saturating_add(fee))
    }
}

impl<'g, 'w, 'a> Puzzle<'g, 'w, 'a> {
    fn new(greedy: &'g Greedy<'w, 'a>, allowed: u64, cancel: &'g AtomicBool) -> Self {
        let free: Vec<bool> = (0..greedy.classes.len()).map(|class| may_move(greedy, class)).collect();
        let mut moves = vec![false; greedy.class_of.len()];
        for claim in greedy.claims.iter().filter(|claim| is_open(greedy, claim)) {
            // Whoever has given up a wish stays where it found a place.
            let moving = claim.pods.iter().filter(|pod| free[greedy.class_of[**pod]] && greedy.rungs[**pod] == 0);
            moving.for_each(|pod| moves[*pod] = true);
        }
        let fee = greedy.world.snapshot.policy.node_fee.pico();
        let few = exact::most_pods(greedy.order.len());
        let limits = greedy.limits.clone();
        Self { greedy, cancel, moves, limits, fee, worth: OnceCell::new(), few, looks: 0, most_looks: 0, allowed }
    }

    /// The claims of the plan.
    fn bins(&self) -> Vec<Bin> {
        (0..self.greedy.claims.len()).map(|number| self.bin(number)).collect()
    }

    fn bin(&self, number: usize) -> Bin {
        let (greedy, claim) = (self.greedy, &self.greedy.claims[number]);
        let (pods, staying): (Vec<usize>, Vec<usize>) = claim.pods.iter().partition(|pod| self.moves[**pod]);
        let mut base = vec![0_i64; claim.requests.len()];
        for pod in &staying {
            add(&mut base, &greedy.classes[greedy.class_of[*pod]].requests);
        }
        let price = greedy.cheapest(claim).map_or(0, |step| step.price.pico());
        let (outlook, fixed) = match staying.is_empty() {
            true => (self.start(claim.template).unwrap_or(claim.outlook), None),
            false => (claim.outlook, Some(number)),
        };
        Bin { template: claim.template, outlook, fixed, base, pods, cost: price.saturating_add(self.fee) }
    }

    /// What so much is worth.
    fn worth(&self, amounts: &[i64]) -> f64 {
        let worth = self.worth.get_or_init(|| {
            let mut demand = vec![0_i64; amounts.len()];
            self.greedy.claims.iter().for_each(|claim| add(&mut demand, &claim.requests));
            worth(self.greedy, &demand)
        });
        worth.of(amounts.iter().copied())
    }

    fn start(&self, template: usize) -> Option<OutlookId> {
        self.greedy.outlooks.borrow_mut().start(self.greedy.world, template, Stock::OnSale)
    }

    /// Allows so many more looks, as far as the effort does.
    fn grant(&mut self, per_pod: u64) {
        let looks = (self.greedy.order.len() as u64).saturating_mul(per_pod).saturating_add(SPARE_LOOKS);
        self.most_looks = self.looks.saturating_add(looks).min(self.allowed);
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// Counts a look; says whether it was still allowed.
    fn may_look(&mut self, looks: u64) -> bool {
        let is_allowed = self.looks.saturating_add(looks) <= self.most_looks && !self.is_cancelled();
        self.looks += if is_allowed { looks } else { 0 };
        is_allowed
    }

    /// Packs lots of claims anew, those with the most waste first, until nothing gets better.
    fn improve(&mut self, bins: &mut Vec<Bin>) {
        self.grant(PATTERN_LOOKS_PER_POD);
        self.by_patterns(bins);
        self.grant(LOOKS_PER_POD);
        let mut idle = 0;
        for round in 0..ROUNDS {
            let before = total(bins);
            self.round(bins, if round % 2 == 0 { Lot::Small } else { Lot::Large });
            idle = if total(bins) < before { 0 } else { idle + 1 };
            if idle == 2 || self.is_cancelled() {
                break;
            }
        }
    }

    fn round(&mut self, bins: &mut Vec<Bin>, size: Lot) {
        let mut order: Vec<usize> = (0..bins.len()).filter(|bin| !bins[*bin].pods.is_empty()).collect();
        // What fits into one lot needs no order.
        let is_one_lot = order.iter().map(|bin| bins[*bin].pods.len()).sum::<usize>() <= self.few;
        let waste: Vec<Cost> = bins.iter().map(|bin| if is_one_lot { 0 } else { self.waste(bin) }).collect();
        order.sort_by_key(|bin| (std::cmp::Reverse(waste[*bin]), *bin));
        let mut rest: &[usize] = &order;
        let mut idle = 0;
        while !rest.is_empty() && idle < MOST_IDLE {
            let lot = self.lot(bins, rest, size);
            rest = &rest[lot.len()..];
            let packed = self.packed(bins, &lot);
            let is_better = packed.is_some_and(|packed| self.replace(bins, &lot, packed));
            idle = if is_better { 0 } else { idle + 1 };
        }
        bins.retain(|bin| bin.fixed.is_some() || !bin.pods.is_empty());
    }

    /// The next claims to be packed together: of pools of one weight, and not too many pods.
    fn lot(&self, bins: &[Bin], rest: &[usize], size: Lot) -> Vec<usize> {
        let weight = |bin: usize| self.weight(bins[bin].template);
        let (mut pods, mut fixed, mut claims) = (0, 0, 0);
        let belongs = |bin: &&usize| {
            pods += bins[**bin].pods.len();
            fixed += usize::from(bins[**bin].fixed.is_some());
            claims += 1;
            let is_few = match size {
                Lot::Small => exact::is_small(self.few, pods, fixed),
                Lot::Large => pods <= MOST_PODS && claims <= MOST_CLAIMS,
            };
            weight(**bin) == weight(rest[0]) && (is_few || claims == 1)
        };
        rest.iter().take_while(belongs).copied().collect()
    }

    /// What a claim costs beyond what its pods are worth.
    fn waste(&self, bin: &Bin) -> Cost {
        let worth = self.worth(&self.requests(bin)) * 1e12;
        bin.cost.saturating_sub(worth as Cost)
    }

    fn requests(&self, bin: &Bin) -> Vec<i64> {
        let mut requests = bin.base.clone();
        bin.pods.iter().for_each(|pod| add(&mut requests, &self.class(*pod).requests));
        requests
    }

    fn class(&self, pod: usize) -> &'g super::classes::Class<'a> {
        &self.greedy.classes[self.greedy.class_of[pod]]
    }

    /// Puts packed claims in the place of others, if they cost less and their pools can pay for them.
    fn replace(&mut self, bins: &mut Vec<Bin>, lot: &[usize], packed: Vec<Bin>) -> bool {
        let old = lot.iter().fold(0, |sum: Cost, bin| sum.saturating_add(bins[*bin].cost));
        if total(&packed) >= old {
            return false;
        }
        let given: Vec<Bought> = lot.iter().filter_map(|bin| self.bought(&bins[*bin])).collect();
        let wanted: Vec<Bought> = packed.iter().filter_map(|bin| self.bought(bin)).collect();
        if !self.limits.trade(&given, &wanted) {
            return false;
        }
        for bin in lot {
            bins[*bin].pods.clear();
            bins[*bin].cost = 0;
            bins[*bin].fixed = None;
        }
        bins.extend(packed);
        true
    }

    /// The machine that a pool with limits pays for.
    fn bought(&self, bin: &Bin) -> Option<Bought> {
        if !self.limits.has_any(bin.template) {
            return None;
        }
        let join = |outlook: OutlookId, pod: &usize| self.joined(bin.template, outlook, *pod);
        let outlook = bin.pods.iter().try_fold(bin.outlook, join)?;
        let (step, _) = self.cheapest(bin.template, outlook, 0, &self.requests(bin))?;
        let machine = self.greedy.outlooks.borrow().get(outlook).ladder[step].machine;
        Some(Bought { template: bin.template, machine })
    }

    /// The best packing of a lot that was found, if any.
    fn packed(&mut self, bins: &[Bin], lot: &[usize]) -> Option<Vec<Bin>> {
        let fixed: Vec<Bin> = lot.iter().map(|bin| &bins[*bin]).filter(|bin| bin.fixed.is_some()).cloned().collect();
        let pods: Vec<usize> = lot.iter().flat_map(|bin| bins[*bin].pods.iter().copied()).collect();
        let templates = self.templates_of(self.weight(bins[*lot.first()?].template));
        if exact::is_small(self.few, pods.len(), fixed.len()) {
            return self.best_of_all(&fixed, &pods, &templates);
        }
        self.refilled(&fixed, &pods, &templates)
    }

    fn weight(&self, template: usize) -> i32 {
        self.greedy.world.templates[template].pool.weight
    }

    /// The templates of one weight that claims may be made of here.
    fn templates_of(&self, weight: i32) -> Vec<usize> {
        (0..self.greedy.world.templates.len())
            .filter(|template| self.weight(*template) == weight)
            .filter(|template| self.greedy.world.templates[*template].min_values.is_empty())
            .collect()
    }

    /// What labels are left for a machine when a pod joins it; `None` when it cannot.
    fn joined(&self, template: usize, outlook: OutlookId, pod: usize) -> Option<OutlookId> {
        let rung = &self.class(pod).rungs[0];
        let taints = &self.greedy.world.templates[template].pool.template.taints;
        if model::taints::first_untolerated(taints, &rung.tolerations).is_some() {
            return None;
        }
        let place = &rung.places[0];
        self.greedy.outlooks.borrow_mut().masked(self.greedy.world, outlook, place.set, &place.all_masks)
    }

    /// The cheapest machine with so much room, from a step of the ladder on: the step, and what it costs.
    fn cheapest(&self, template: usize, outlook: OutlookId, from: usize, requests: &[i64]) -> Option<(usize, Cost)> {
        let outlooks = self.greedy.outlooks.borrow();
        let ladder = &outlooks.get(outlook).ladder;
        let template = &self.greedy.world.templates[template];
        let fits = |step: &usize| has_room(template.room(ladder[*step].machine, requests.len()), requests);
        let step = (from..ladder.len()).find(fits)?;
        Some((step, ladder[step].price.pico().saturating_add(self.fee)))
    }

    /// Whether enough types would do for what stands on a step of the ladder.
    fn leaves_choice(&self, outlook: Option<OutlookId>, step: usize, requests: &[i64]) -> bool {
        let outlooks = self.greedy.outlooks.borrow();
        outlook.is_none_or(|outlook| outlooks.get(outlook).leaves_choice(self.greedy.world, step, requests))
    }

    /// Whether pods of two classes cannot share a host.
    fn clash(&self, one: usize, other: usize) -> bool {
        let (one, other) = (&self.greedy.classes[one].footprint, &self.greedy.classes[other].footprint);
        let meet = |owns: &[GroupId], counted: &[GroupId]| owns.iter().any(|group| counted.contains(group));
        meet(&one.owns, &other.counted_in) || meet(&other.owns, &one.counted_in)
    }

    /// Whether a pod can be on a claim beside pods that stay there.
    fn suits_fixed(&self, bin: &Bin, pod: usize) -> bool {
        let staying = bin.fixed.map(|claim| &self.greedy.claims[claim].pods[..]).unwrap_or_default();
        let class = self.greedy.class_of[pod];
        let stays = |other: &&usize| !self.moves[**other];
        !staying.iter().filter(stays).any(|other| self.clash(class, self.greedy.class_of[*other]))
    }
}

fn add(sum: &mut [i64], more: &[i64]) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(*more));
}

/// Whether pods may leave a claim. Where volumes are attached, or daemons take ports as well, amounts alone do not tell which
/// machines will do for those who stay.
fn is_open(greedy: &Greedy<'_, '_>, claim: &Claim) -> bool {
    let has_ports = || greedy.world.templates[claim.template].daemons.iter().any(|group| !group.ports.is_empty());
    claim.min_values.is_empty() && claim.attached.is_empty() && (claim.ports.is_empty() || !has_ports())
}

/// Whether pods of a class care about nothing but amounts, labels and who shares their host.
fn may_move(greedy: &Greedy<'_, '_>, number: usize) -> bool {
    let (class, groups) = (&greedy.classes[number], &greedy.topology.groups);
    let is_local = |group: &GroupId| groups[*group].key.is_none() && groups[*group].is_far();
    let wants = &class.pod.wants;
    class.rungs[0].places.len() == 1
        && wants.ports.is_empty()
        && wants.volumes.attached.is_empty()
        && class.footprint.counted_in.iter().all(is_local)
        && class.footprint.owns.iter().all(is_local)
        && class.rungs[0].rules.iter().all(|rule| rule.is_distance() && is_local(&rule.group()))
}

/// What resources are worth where so much is asked for, at the prices of everything on sale.
pub(super) fn worth(greedy: &Greedy<'_, '_>, demand: &[i64]) -> Worth {
    let mut overall = greedy.values.overall.borrow_mut();
    let known = overall.take().filter(|(asked, _)| asked == demand);
    let find = || with_menu(greedy, demand, greedy.world.node_fee, |least, bundles| Worth::new(demand, least, bundles));
    let (_, found) = overall.insert(known.unwrap_or_else(|| (demand.to_vec(), find())));
    found.clone()
}

/// Prices per resource at which nothing on sale is a bargain: whatever is bought for pods, it costs no less than this.
pub(super) fn least_worth(greedy: &Greedy<'_, '_>, demand: &[i64]) -> Worth {
    with_menu(greedy, demand, 0.0, |least, bundles| Worth::new(demand, least, bundles).below(least, bundles))
}

/// Everything on sale to all pools, with a fee on each, and the least that pods ask for.
fn with_menu(
    greedy: &Greedy<'_, '_>,
    demand: &[i64],
    fee: f64,
    price: impl FnOnce(&[i64], &[Bundle<'_>]) -> Worth,
) -> Worth {
    let mut outlooks = greedy.outlooks.borrow_mut();
    let mut starts = Vec::new();
    for template in 0..greedy.world.templates.len() {
        let start = outlooks.start(greedy.world, template, Stock::OnSale);
        starts.extend(start.map(|start| (template, outlooks.get(start).clone())));
    }
    let bundles = starts.iter().flat_map(|(template, outlook)| {
        outlook.ladder.iter().map(|step| Bundle {
            price: step.price.dollars() + fee,
            room: greedy.world.templates[*template].room(step.machine, demand.len()),
        })
    });
    let least = (0..demand.len()).map(|axis| greedy.least.iter().map(|least| least[axis]).min().unwrap_or(0));
    price(&least.collect::<Vec<_>>(), &bundles.collect::<Vec<_>>())
}

/// Where each pod of the plan goes in a packing.
fn seats_in(first: &Greedy<'_, '_>, bins: &[Bin]) -> Vec<Option<Seat>> {
    let mut seats = first.seats.clone();
    for (number, bin) in bins.iter().enumerate() {
        let staying = bin.fixed.map(|claim| &first.claims[claim].pods[..]).unwrap_or_default();
        staying.iter().for_each(|pod| seats[*pod] = Some(Seat::Claim(number)));
    }
    for (number, bin) in bins.iter().enumerate() {
        bin.pods.iter().for_each(|pod| seats[*pod] = Some(Seat::Claim(number)));
    }
    seats
}
