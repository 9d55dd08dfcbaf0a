//! Which fillings of machines to buy, for many pods of a few kinds.
//!
//! A pattern is a machine with so many pods of each kind on it. Buying patterns in fractions is a linear program with a row for
//! each kind; its prices say what a pod of each kind is worth, and a machine that can be filled with more worth than it costs is
//! a pattern to buy. So patterns are found while the program is solved, as Gilmore and Gomory do it. Whole numbers of the best
//! are bought, and the few pods that are left fill machines one after the other, by the same worth.

use std::collections::BTreeMap;

use model::taints::Toleration;

use super::super::outlook::{OutlookId, Step};
use super::super::rooms::has_room;
use super::super::simplex::Simplex;
use super::{Bin, Cost, Puzzle};

/// With more kinds the program is no longer small.
const MOST_KINDS: usize = 200;
/// Machines to choose from, over all sets of labels that pods ask for.
const MOST_MACHINES: usize = 20_000;
/// Rounds of looking for better patterns.
const ROUNDS: usize = 300;
/// Machines that are tried in each round: those that were the best buys when all of them were tried.
const SHORT_LIST: usize = 24;
/// Patterns that enter the program in a round.
const AT_ONCE: usize = 6;
/// Ways to fill a machine that are tried where the quick ones find nothing more.
const WAYS: u64 = 400;
/// A pattern must be worth so much more than it costs.
const BARGAIN: f64 = 1.0 + 1e-3;

/// Pods that are alike as far as packing goes.
struct Kind<'g> {
    requests: &'g [i64],
    pods: Vec<usize>,
}

/// A machine that may be bought.
struct Ware<'g> {
    template: usize,
    outlook: OutlookId,
    cost: Cost,
    room: &'g [i64],
    /// Kinds that may be on it without narrowing its labels further, as a number of a list.
    guests: usize,
}

/// A machine with pods on it.
#[derive(Clone)]
struct Pattern {
    ware: usize,
    /// How many pods of which kinds.
    counts: Vec<(usize, usize)>,
    cost: Cost,
}

/// The program's answer.
struct Solved {
    patterns: Vec<Pattern>,
    /// What a pod of each kind is worth, in dollars.
    worth: Vec<f64>,
    /// Which patterns to buy, and how much of each, most first.
    bought: Vec<(usize, f64)>,
}

/// What is weighed when pods are put in order for a machine: the share of all its resources that a pod takes, or only of one.
#[derive(Clone, Copy)]
enum Weight {
    Sum,
    Largest,
    Axis(usize),
}

/// Everything that there is to choose from.
struct Shop<'g> {
    kinds: Vec<Kind<'g>>,
    wares: Vec<Ware<'g>>,
    guests: Vec<Vec<usize>>,
    weights: Vec<Weight>,
}

impl<'g> Puzzle<'g, '_, '_> {
    /// A cheaper packing of all pods that may move and share no claim with others, if they are many and of few kinds.
    pub(super) fn by_patterns(&mut self, bins: &mut Vec<Bin>) {
        let is_whole = |bin: &Bin| bin.fixed.is_none() && !bin.pods.is_empty();
        let mut weights: Vec<_> =
            bins.iter().filter(|bin| is_whole(bin)).map(|bin| self.weight(bin.template)).collect();
        weights.sort_unstable();
        weights.dedup();
        for weight in weights {
            let belongs = |bin: &Bin| {
                is_whole(bin) && self.weight(bin.template) == weight && bin.pods.iter().all(|pod| self.is_plain(*pod))
            };
            let lot: Vec<usize> = (0..bins.len()).filter(|bin| belongs(&bins[*bin])).collect();
            let cost = lot.iter().fold(0, |sum: Cost, bin| sum.saturating_add(bins[*bin].cost));
            let waste = lot.iter().fold(0, |sum: Cost, bin| sum.saturating_add(self.waste(&bins[*bin])));
            let pods: Vec<usize> = lot.iter().flat_map(|bin| bins[*bin].pods.iter().copied()).collect();
            if pods.len() <= self.few || waste < cost / super::LEAST_WASTE {
                continue;
            }
            if let Some(packed) = self.by_program(&pods, &self.templates_of(weight)) {
                self.replace(bins, &lot, packed);
            }
        }
        bins.retain(|bin| bin.fixed.is_some() || !bin.pods.is_empty());
    }

    /// Whether a pod does not mind whom it shares its host with.
    fn is_plain(&self, pod: usize) -> bool {
        let footprint = &self.class(pod).footprint;
        footprint.owns.is_empty() && footprint.counted_in.is_empty()
    }

    fn by_program(&mut self, pods: &[usize], templates: &[usize]) -> Option<Vec<Bin>> {
        let kinds = self.kinds(pods)?;
        let shop = self.shop(kinds, templates)?;
        let solved = self.solved(&shop);
        let mut left: Vec<usize> = shop.kinds.iter().map(|kind| kind.pods.len()).collect();
        let mut bought: Vec<Pattern> = Vec::new();
        for (pattern, amount) in &solved.bought {
            let whole = (amount + 1e-6).floor().max(0.0) as usize;
            for _ in 0..whole {
                take(&solved.patterns[*pattern], &mut left, &mut bought);
            }
        }
        self.grant(super::PATTERN_LOOKS_PER_POD);
        let all: Vec<usize> = (0..shop.wares.len()).collect();
        while left.iter().any(|left| *left > 0) {
            let (_, best) = self.best_buys(&shop, &all, &solved.worth, &left).into_iter().next()?;
            while take(&best, &mut left, &mut bought) {}
        }
        Some(self.as_bins(&shop, &bought))
    }

    /// The pods by kind; `None` when there are too many kinds.
    fn kinds(&self, pods: &[usize]) -> Option<Vec<Kind<'g>>> {
        let greedy = self.greedy;
        let mut sorted = pods.to_vec();
        sorted.sort_unstable_by_key(|pod| (greedy.class_of[*pod], *pod));
        type Key<'k> = (&'k [i64], usize, &'k [Toleration]);
        let mut kinds: BTreeMap<Key<'g>, Kind<'g>> = BTreeMap::new();
        for pod in sorted {
            let class = greedy.class_of[pod];
            let (known, rung) = (&greedy.classes[class], &greedy.classes[class].rungs[0]);
            let key: Key<'g> = (&known.requests, rung.places[0].set, &rung.tolerations);
            let fresh = || Kind { requests: &known.requests, pods: Vec::new() };
            kinds.entry(key).or_insert_with(fresh).pods.push(pod);
            if kinds.len() > MOST_KINDS {
                return None;
            }
        }
        Some(kinds.into_values().collect())
    }

    fn shop(&self, kinds: Vec<Kind<'g>>, templates: &[usize]) -> Option<Shop<'g>> {
        let greedy = self.greedy;
        let axes = greedy.world.machines.axes().len();
        let (mut wares, mut guests) = (Vec::new(), Vec::new());
        for template in templates {
            let Some(start) = self.start(*template) else { continue };
            let mut outlooks: Vec<OutlookId> =
                kinds.iter().filter_map(|kind| self.joined(*template, start, kind.pods[0])).collect();
            outlooks.sort_unstable();
            outlooks.dedup();
            for outlook in outlooks {
                let suits = |kind: &usize| self.joined(*template, outlook, kinds[*kind].pods[0]) == Some(outlook);
                let welcome: Vec<usize> = (0..kinds.len()).filter(suits).collect();
                let room = |step: &Step| greedy.world.templates[*template].room(step.machine, axes);
                let steps = self.wares_for(outlook, |steps| {
                    let holds = |kind: &usize| steps.iter().any(|step| has_room(room(step), kinds[*kind].requests));
                    welcome.iter().all(holds)
                });
                guests.push(welcome);
                let mut kept: Vec<&'g [i64]> = Vec::new();
                for step in &steps {
                    // What costs more and has no more of anything is not worth a look.
                    let room = room(step);
                    if kept.iter().any(|better| better.iter().zip(room).all(|(better, own)| better >= own)) {
                        continue;
                    }
                    kept.push(room);
                    let cost = step.price.pico().saturating_add(self.fee);
                    wares.push(Ware { template: *template, outlook, cost, room, guests: guests.len() - 1 });
                }
                if wares.len() > MOST_MACHINES {
                    return None;
                }
            }
        }
        let asked = (0..axes).filter(|axis| kinds.iter().any(|kind| kind.requests[*axis] > 0));
        let weights = [Weight::Sum, Weight::Largest].into_iter().chain(asked.map(Weight::Axis)).collect();
        Some(Shop { kinds, wares, guests, weights })
    }

    /// The machines to choose from: those that others could stand in for, unless some pod needs one of the rest.
    fn wares_for(&self, outlook: OutlookId, are_enough: impl Fn(&[Step]) -> bool) -> Vec<Step> {
        let outlook = self.greedy.outlooks.borrow().get(outlook).clone();
        let numbered = outlook.ladder.iter().enumerate();
        let replaceable = numbered.filter(|(number, _)| outlook.is_replaceable(self.greedy.world, *number));
        let replaceable: Vec<Step> = replaceable.map(|(_, step)| *step).collect();
        if are_enough(&replaceable) { replaceable } else { outlook.ladder.clone() }
    }

    /// Solves the program, as far as may be looked.
    fn solved(&mut self, shop: &Shop<'_>) -> Solved {
        let demand: Vec<usize> = shop.kinds.iter().map(|kind| kind.pods.len()).collect();
        let mut program = Simplex::new(&demand.iter().map(|count| *count as f64).collect::<Vec<_>>());
        let mut patterns: Vec<Pattern> = Vec::new();
        let all: Vec<usize> = (0..shop.wares.len()).collect();
        let mut short: Vec<usize> = Vec::new();
        for _ in 0..ROUNDS {
            // Rounding could let it go back and forth.
            (0..demand.len()).any(|_| !program.give_away(&program.prices()));
            let worth = program.prices();
            let mut found = self.best_buys(shop, &short, &worth, &demand);
            if !has_bargain(&found) {
                found = self.best_buys(shop, &all, &worth, &demand);
                short = found.iter().take(SHORT_LIST).map(|(_, pattern)| pattern.ware).collect();
            }
            if !has_bargain(&found) {
                found = self.searched(shop, &short, &worth, &demand);
            }
            found.retain(|(ratio, _)| *ratio > BARGAIN);
            if found.is_empty() {
                break;
            }
            for (_, pattern) in found.into_iter().take(AT_ONCE) {
                let mut column = vec![0.0; demand.len()];
                pattern.counts.iter().for_each(|(kind, count)| column[*kind] = *count as f64);
                let cost = pattern.cost as f64 / 1e12;
                // What entered before it has changed the prices.
                let worth: f64 = program.prices().iter().zip(&column).map(|(price, count)| price * count).sum();
                if worth > cost * BARGAIN && program.enter(patterns.len(), cost, &column) {
                    patterns.push(pattern);
                }
            }
        }
        let mut bought: Vec<(usize, f64)> = program.bought().collect();
        bought.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        // What comes along with others for nothing is still to be placed.
        let worth = program.prices().iter().map(|price| price.max(1e-6)).collect();
        Solved { patterns, worth, bought }
    }

    /// For each of these machines the filling with the most worth for its cost that was found, and that ratio; best first.
    fn best_buys(&mut self, shop: &Shop<'_>, wares: &[usize], worth: &[f64], left: &[usize]) -> Vec<(f64, Pattern)> {
        let mut found = Vec::new();
        let mut order: Vec<(f64, usize)> = Vec::new();
        for number in wares {
            let ware = &shop.wares[*number];
            let guests = &shop.guests[ware.guests];
            if !self.may_look(1 + (guests.len() * shop.weights.len()) as u64 / super::KINDS_PER_LOOK) {
                break;
            }
            let mut best: Option<(f64, Vec<(usize, usize)>)> = None;
            for weight in &shop.weights {
                shop.by_density(ware, *weight, worth, left, &mut order);
                let (value, counts) = fill(shop, ware.room, &order, worth, left);
                if value > best.as_ref().map_or(0.0, |(best, _)| *best) {
                    best = Some((value, counts));
                }
            }
            let Some((value, counts)) = best else { continue };
            found.push((value * 1e12 / ware.cost.max(1) as f64, Pattern { ware: *number, counts, cost: ware.cost }));
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.ware.cmp(&b.1.ware)));
        found
    }

    /// The same by trying many ways, for machines that are nearly worth their price.
    fn searched(&mut self, shop: &Shop<'_>, wares: &[usize], worth: &[f64], left: &[usize]) -> Vec<(f64, Pattern)> {
        let mut found = Vec::new();
        let mut order = Vec::new();
        for number in wares {
            let ware = &shop.wares[*number];
            if !self.may_look(1 + WAYS / super::KINDS_PER_LOOK) {
                break;
            }
            shop.by_density(ware, Weight::Sum, worth, left, &mut order);
            let mut search = Search::new(shop, ware.room, &order, worth, left);
            search.go(0, 0.0);
            let (value, counts) = search.best;
            found.push((value * 1e12 / ware.cost.max(1) as f64, Pattern { ware: *number, counts, cost: ware.cost }));
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.ware.cmp(&b.1.ware)));
        found
    }

    fn as_bins(&self, shop: &Shop<'_>, bought: &[Pattern]) -> Vec<Bin> {
        let mut pods: Vec<Vec<usize>> = shop.kinds.iter().map(|kind| kind.pods.clone()).collect();
        let bin = |pattern: &Pattern| {
            let ware = &shop.wares[pattern.ware];
            let mut requests = vec![0; ware.room.len()];
            let mut own = Vec::new();
            for (kind, count) in &pattern.counts {
                let left = pods[*kind].len() - count;
                own.extend(pods[*kind].drain(left..));
                (0..*count).for_each(|_| super::add(&mut requests, shop.kinds[*kind].requests));
            }
            // A smaller machine may do for what it holds.
            let cost = self.cheapest(ware.template, ware.outlook, 0, &requests).map_or(pattern.cost, |(_, cost)| cost);
            let outlook = self.start(ware.template).unwrap_or(ware.outlook);
            Bin { template: ware.template, outlook, fixed: None, base: vec![0; requests.len()], pods: own, cost }
        };
        bought.iter().map(bin).collect()
    }
}

fn has_bargain(found: &[(f64, Pattern)]) -> bool {
    found.first().is_some_and(|(ratio, _)| *ratio > BARGAIN)
}

impl Shop<'_> {
    /// The kinds that may be on a machine and still wait, by their worth for what they take of it, with that number.
    fn by_density(
        &self,
        ware: &Ware<'_>,
        weight: Weight,
        worth: &[f64],
        left: &[usize],
        order: &mut Vec<(f64, usize)>,
    ) {
        order.clear();
        let wanted = self.guests[ware.guests].iter().filter(|kind| left[**kind] > 0 && worth[**kind] > 0.0);
        order.extend(wanted.map(|kind| (worth[*kind] / weight.of(self.kinds[*kind].requests, ware.room), *kind)));
        order.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    }
}

/// The best filling of a machine, kind by kind, from the most of each down to none. What is left of all resources together, at
/// the best density to come, is the most that a way can still gain.
struct Search<'s> {
    shop: &'s Shop<'s>,
    room: &'s [i64],
    order: &'s [(f64, usize)],
    worth: &'s [f64],
    left: &'s [usize],
    free: Vec<i64>,
    counts: Vec<(usize, usize)>,
    best: (f64, Vec<(usize, usize)>),
    ways: u64,
}

impl<'s> Search<'s> {
    fn new(
        shop: &'s Shop<'s>,
        room: &'s [i64],
        order: &'s [(f64, usize)],
        worth: &'s [f64],
        left: &'s [usize],
    ) -> Self {
        let best = (0.0, Vec::new());
        Self { shop, room, order, worth, left, free: room.to_vec(), counts: Vec::new(), best, ways: 0 }
    }

    fn go(&mut self, place: usize, value: f64) {
        if value > self.best.0 {
            self.best = (value, self.counts.clone());
        }
        let Some((density, kind)) = self.order.get(place).copied() else { return };
        let free: f64 = self.free.iter().zip(self.room).map(|(free, room)| *free as f64 / (*room).max(1) as f64).sum();
        if value + density * free <= self.best.0 || self.ways >= WAYS {
            return;
        }
        let requests = self.shop.kinds[kind].requests;
        let most = most_of(requests, &self.free).min(self.left[kind]);
        for count in (0..=most).rev() {
            self.ways += 1;
            let taken = count as i64;
            self.free.iter_mut().zip(requests).for_each(|(free, wanted)| *free -= wanted * taken);
            self.counts.push((kind, count));
            self.go(place + 1, value + self.worth[kind] * count as f64);
            self.counts.pop();
            self.free.iter_mut().zip(requests).for_each(|(free, wanted)| *free += wanted * taken);
            if self.ways >= WAYS {
                return;
            }
        }
    }
}

/// How many pods that ask for so much fit into what is free.
fn most_of(requests: &[i64], free: &[i64]) -> usize {
    let by_axis = requests.iter().zip(free).filter(|(wanted, _)| **wanted > 0);
    by_axis.map(|(wanted, free)| (free.max(&0) / wanted) as usize).min().unwrap_or(usize::MAX)
}

impl Weight {
    /// How much of a machine a pod takes.
    fn of(self, requests: &[i64], room: &[i64]) -> f64 {
        let shares = requests.iter().zip(room).map(|(wanted, room)| *wanted as f64 / (*room).max(1) as f64);
        let share = match self {
            Self::Sum => shares.sum(),
            Self::Largest => shares.fold(0.0, f64::max),
            Self::Axis(axis) => shares.skip(axis).take(1).sum::<f64>() + 1e-3 * requests.len() as f64,
        };
        share.max(1e-9)
    }
}

/// As many pods as fit, in this order, and what they are worth.
fn fill(
    shop: &Shop<'_>,
    room: &[i64],
    order: &[(f64, usize)],
    worth: &[f64],
    left: &[usize],
) -> (f64, Vec<(usize, usize)>) {
    let mut free = room.to_vec();
    let (mut value, mut counts) = (0.0, Vec::new());
    for (_, kind) in order {
        let requests = shop.kinds[*kind].requests;
        let count = most_of(requests, &free).min(left[*kind]);
        if count == 0 {
            continue;
        }
        free.iter_mut().zip(requests).for_each(|(free, wanted)| *free -= wanted * count as i64);
        value += worth[*kind] * count as f64;
        counts.push((*kind, count));
    }
    (value, counts)
}

/// Buys a pattern if there are still enough pods for it; says whether there were.
fn take(pattern: &Pattern, left: &mut [usize], bought: &mut Vec<Pattern>) -> bool {
    if pattern.counts.iter().any(|(kind, count)| left[*kind] < *count) {
        return false;
    }
    pattern.counts.iter().for_each(|(kind, count)| left[*kind] -= count);
    bought.push(pattern.clone());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_fillings_that_are_worth_the_same_the_one_with_the_most_of_the_first_kind_stands() {
        let kind = |requests: &'static [i64]| Kind { requests, pods: Vec::new() };
        let kinds = vec![kind(&[3, 1]), kind(&[2, 1])];
        let shop = Shop { kinds, wares: Vec::new(), guests: Vec::new(), weights: Vec::new() };
        // Two of the first are worth as much as three of the second, and leave as little.
        let mut search = Search::new(&shop, &[6, 100], &[(5.9, 0), (5.8, 1)], &[3.0, 2.0], &[9, 9]);
        search.go(0, 0.0);
        assert_eq!(search.best, (6.0, vec![(0, 2)]));
        assert!(search.ways > 3, "the second kind alone was tried too");
    }
}
