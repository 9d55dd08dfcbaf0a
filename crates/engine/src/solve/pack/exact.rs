//! All ways to pack about a dozen pods.
//!
//! What each set of pods costs on a machine of its own, or beside those that stay on a claim, is found once; then the
//! cheapest way to divide all pods into such sets is put together from the cheapest ways for fewer.

use super::super::outlook::OutlookId;
use super::{Bin, Cost, Puzzle, add};

/// Most ways to divide sets in two that are looked at.
const MOST_WAYS: usize = 2_000_000;

/// More than anything costs.
const NEVER: Cost = Cost::MAX / 4;

/// Of how many pods every set is looked at. Each one more makes it three times as much, so in a large plan lots are smaller.
pub(super) fn most_pods(in_plan: usize) -> usize {
    match in_plan {
        0..=24 => 12,
        25..=100 => 10,
        _ => 8,
    }
}

pub(super) fn is_small(most: usize, pods: usize, fixed: usize) -> bool {
    pods <= most && 3_usize.pow(pods as u32) * (fixed + 1) <= MOST_WAYS
}

/// What a set of pods costs together, and the template that it costs so little in.
#[derive(Clone, Copy)]
struct Priced {
    cost: Cost,
    template: usize,
}

/// A set of pods on a machine, as it grows.
struct Growing {
    outlook: Option<OutlookId>,
    step: usize,
}

impl Puzzle<'_, '_, '_> {
    /// The cheapest packing of these pods on claims that stay and on new ones.
    pub(super) fn best_of_all(&mut self, fixed: &[Bin], pods: &[usize], templates: &[usize]) -> Option<Vec<Bin>> {
        let sets = 1_usize << pods.len();
        let ways = 3_u64.pow(pods.len() as u32) / 16;
        if !self.may_look((sets * (fixed.len() + templates.len())) as u64 + ways * (fixed.len() as u64 + 1)) {
            return None;
        }
        let mut fresh = vec![Priced { cost: NEVER, template: 0 }; sets];
        for template in templates {
            let empty = Bin {
                template: *template,
                outlook: self.start(*template)?,
                fixed: None,
                base: vec![0; self.greedy.world.machines.axes().len()],
                pods: Vec::new(),
                cost: 0,
            };
            for (set, cost) in self.costs(&empty, pods).into_iter().enumerate() {
                if cost < fresh[set].cost {
                    fresh[set] = Priced { cost, template: *template };
                }
            }
        }
        let on_fixed: Vec<Vec<Cost>> = fixed.iter().map(|bin| self.costs(bin, pods)).collect();
        divided(&fresh, &on_fixed).map(|found| self.written(fixed, pods, &found))
    }

    /// What each set of pods costs beside those that stay.
    fn costs(&self, bin: &Bin, pods: &[usize]) -> Vec<Cost> {
        let sets = 1_usize << pods.len();
        // What each set asks for, all in a row.
        let axes = bin.base.len();
        let mut requests: Vec<i64> = Vec::with_capacity(sets * axes);
        let mut growing: Vec<Growing> = Vec::with_capacity(sets);
        let mut costs = Vec::with_capacity(sets);
        let classes: Vec<usize> = pods.iter().map(|pod| self.greedy.class_of[*pod]).collect();
        let suits: Vec<bool> = pods.iter().map(|pod| self.suits_fixed(bin, *pod)).collect();
        let clash = |a: usize, b: usize| self.clash(classes[a], classes[b]);
        let clashes: Vec<Vec<bool>> = (0..pods.len()).map(|a| (0..pods.len()).map(|b| clash(a, b)).collect()).collect();
        for set in 0..sets {
            if set == 0 {
                let found = self.cheapest(bin.template, bin.outlook, 0, &bin.base);
                requests.extend_from_slice(&bin.base);
                growing.push(Growing { outlook: Some(bin.outlook), step: found.map_or(0, |(step, _)| step) });
                costs.push(if bin.fixed.is_some() { found.map_or(NEVER, |(_, cost)| cost) } else { 0 });
                continue;
            }
            let last = set.trailing_zeros() as usize;
            let rest = set & (set - 1);
            let others = (last + 1..pods.len()).filter(|other| rest & (1 << other) != 0);
            let is_apart = suits[last] && !others.into_iter().any(|other| clashes[last][other]);
            let before = &growing[rest];
            let outlook = before.outlook.filter(|_| is_apart);
            let outlook = outlook.and_then(|outlook| self.joined(bin.template, outlook, pods[last]));
            requests.extend_from_within(rest * axes..(rest + 1) * axes);
            let wanted = &mut requests[set * axes..];
            add(wanted, &self.class(pods[last]).requests);
            let from = if outlook == before.outlook { before.step } else { 0 };
            let found = outlook.and_then(|outlook| self.cheapest(bin.template, outlook, from, wanted));
            growing.push(Growing {
                outlook: outlook.filter(|_| found.is_some()),
                step: found.map_or(0, |(step, _)| step),
            });
            // One pod must be somewhere; together they leave a choice.
            let is_alone = rest == 0 && bin.fixed.is_none();
            let is_open = |found: &(usize, Cost)| is_alone || self.leaves_choice(outlook, found.0, wanted);
            costs.push(found.filter(is_open).map_or(NEVER, |(_, cost)| cost));
        }
        costs
    }

    fn written(&self, fixed: &[Bin], pods: &[usize], found: &Division) -> Vec<Bin> {
        let of = |set: usize| (0..pods.len()).filter(|pod| set & (1 << pod) != 0).map(|pod| pods[pod]).collect();
        let stay = fixed.iter().zip(&found.on_fixed);
        let mut bins: Vec<Bin> =
            stay.map(|(bin, (set, cost))| Bin { pods: of(*set), cost: *cost, ..bin.clone() }).collect();
        bins.extend(found.fresh.iter().filter_map(|(set, priced)| {
            Some(Bin {
                template: priced.template,
                outlook: self.start(priced.template)?,
                fixed: None,
                base: vec![0; self.greedy.world.machines.axes().len()],
                pods: of(*set),
                cost: priced.cost,
            })
        }));
        bins
    }
}

/// Sets of pods, and what they cost: one for each claim that stays, and those on new claims.
struct Division {
    on_fixed: Vec<(usize, Cost)>,
    fresh: Vec<(usize, Priced)>,
}

/// All subsets of a set, the largest number first; of equal ways to divide pods the first is taken.
fn subsets(set: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(set), move |part| (*part != 0).then(|| (part - 1) & set))
}

/// The cheapest way to divide all pods; `None` when there is none.
fn divided(fresh: &[Priced], on_fixed: &[Vec<Cost>]) -> Option<Division> {
    let sets = fresh.len();
    // On new claims alone: the set with the lowest pod first, then the rest, which has only higher ones and so is known already.
    let mut cheapest = vec![NEVER; sets];
    let mut choice = vec![0; sets];
    cheapest[0] = 0;
    for lowest in (0..sets.trailing_zeros()).rev().map(|pod| 1_usize << pod) {
        let higher = (sets - 1) & !(2 * lowest - 1);
        for part in subsets(higher).map(|part| part | lowest).filter(|part| fresh[*part].cost < NEVER) {
            for rest in subsets(higher & !part) {
                let (set, cost) = (part | rest, fresh[part].cost + cheapest[rest]);
                if cost < cheapest[set] {
                    (cheapest[set], choice[set]) = (cost, part);
                }
            }
        }
    }
    // Then claims that stay take a share, one after the other.
    let mut shares: Vec<Vec<usize>> = Vec::new();
    let mut totals = cheapest;
    for costs in on_fixed {
        let mut with = vec![NEVER; sets];
        let mut share = vec![0; sets];
        for part in subsets(sets - 1).filter(|part| costs[*part] < NEVER) {
            for rest in subsets((sets - 1) & !part) {
                let (set, cost) = (part | rest, costs[part] + totals[rest]);
                if cost < with[set] {
                    (with[set], share[set]) = (cost, part);
                }
            }
        }
        totals = with;
        shares.push(share);
    }
    let mut left = sets - 1;
    if totals[left] >= NEVER {
        return None;
    }
    let mut taken: Vec<(usize, Cost)> = Vec::new();
    for (share, costs) in shares.iter().zip(on_fixed).rev() {
        taken.push((share[left], costs[share[left]]));
        left ^= share[left];
    }
    taken.reverse();
    let mut new = Vec::new();
    while left != 0 {
        new.push((choice[left], fresh[choice[left]]));
        left ^= choice[left];
    }
    Some(Division { on_fixed: taken, fresh: new })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each set of three pods costs on a machine of its own.
    fn fresh(costs: [Cost; 8]) -> Vec<Priced> {
        costs.iter().map(|cost| Priced { cost: *cost, template: 0 }).collect()
    }

    fn sets(found: &Division) -> Vec<usize> {
        found.fresh.iter().map(|(set, _)| *set).collect()
    }

    #[test]
    fn the_cheapest_division_is_found_whether_it_joins_or_parts() {
        let apart = fresh([0, 1, 1, 9, 1, 9, 9, 9]);
        assert_eq!(sets(&divided(&apart, &[]).unwrap()), [1, 2, 4]);
        let together = fresh([0, 5, 5, 6, 5, 6, 6, 7]);
        assert_eq!(sets(&divided(&together, &[]).unwrap()), [7]);
        let pair = fresh([0, 3, 3, 9, 3, 4, 9, 9]);
        assert_eq!(sets(&divided(&pair, &[]).unwrap()), [5, 2]);
    }

    #[test]
    fn a_claim_that_stays_takes_what_it_holds_for_less() {
        let new = fresh([0, 3, 3, 6, 3, 6, 6, 9]);
        // It costs two anyway, nothing more for the second pod, and nothing else fits.
        let stays = vec![2, NEVER, 2, NEVER, NEVER, NEVER, NEVER, NEVER];
        let found = divided(&new, &[stays]).unwrap();
        assert_eq!(found.on_fixed, [(2, 2)]);
        assert_eq!(sets(&found).iter().sum::<usize>(), 5);
        assert!(divided(&fresh([0, NEVER, 1, NEVER, 1, NEVER, NEVER, NEVER]), &[]).is_none());
    }

    #[test]
    fn lots_stay_small() {
        assert!(is_small(most_pods(10), 12, 0) && !is_small(most_pods(10), 13, 0));
        assert!(!is_small(most_pods(10), 12, 9), "many claims that stay make it too much");
        assert_eq!((most_pods(25), most_pods(101)), (10, 8));
    }
}
