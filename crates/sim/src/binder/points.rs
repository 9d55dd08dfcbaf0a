//! Which of the feasible nodes is best, by the scores of kube-scheduler's default profile.

use model::resources::Resources;

use super::board::{Board, Facts, Seat, Slot};
use super::class::{Asked, Class, ClassId};
use super::counters::CounterId;
use super::keys::{KeyId, NOWHERE};

const MOST: i64 = 100;

/// What a container that asks for nothing counts for, so that such pods do not all land on one node.
const DEFAULT_CPU_MILLI: i64 = 100;
const DEFAULT_MEMORY_BYTES: i64 = 200 * 1024 * 1024;

impl Board {
    /// The weighted sum of all plugins for each of these nodes, which must come from a look at the present moment.
    pub(super) fn scores(&mut self, class: ClassId, feasible: &[Slot]) -> Vec<i64> {
        let (asks, heard) = (self.asks(class), self.heard(class));
        let looking = self.class(class);
        let cells = looking.table.as_ref().map_or(&[][..], |table| &table.cells);
        let spots = looking.ground.map_or(&[][..], |ground| self.grounds.spots(ground));
        let mut totals: Vec<i64> = feasible.iter().map(|slot| cells[*slot].points).collect();

        let disliked = feasible.iter().map(|slot| i64::from(spots[*slot].disliked));
        add_share(&mut totals, disliked, |share| 3 * (MOST - share));
        let preferred = feasible.iter().map(|slot| spots[*slot].preferred);
        add_share(&mut totals, preferred, |share| 2 * share);
        if !asks.soft.is_empty() {
            self.add_spread(&mut totals, class, &asks.soft, feasible);
        }
        if !asks.wishes.is_empty() || !heard.wishes.is_empty() {
            self.add_wishes(&mut totals, asks.wishes.iter().chain(&heard.wishes), feasible);
        }
        totals
    }

    /// The fewer matching pods in the node's domains, the better. Nodes without some of the labels get nothing.
    fn add_spread(&self, totals: &mut [i64], class: ClassId, soft: &[Asked], feasible: &[Slot]) {
        let spots = self.class(class).ground.map_or(&[][..], |ground| self.grounds.spots(ground));
        let is_scored: Vec<bool> = feasible.iter().map(|slot| spots[*slot].has_soft_keys).collect();
        let scored = || feasible.iter().zip(&is_scored).filter(|(_, is_scored)| **is_scored).map(|(slot, _)| *slot);
        let scored_count = scored().count();
        let mut sums = vec![0.0_f64; feasible.len()];
        for asked in soft {
            let size = if asked.is_by_host { scored_count } else { self.domain_count(asked.key, scored()) };
            let weight = (size as f64 + 2.0).ln();
            // More allowed skew waters the differences down.
            let base = f64::from(asked.max_skew) - 1.0;
            let counts = if asked.is_by_host {
                Vec::new()
            } else {
                self.domain_counts(asked.counter, asked.key, asked.place, spots)
            };
            let on_node = self.counters.by_slot(asked.counter);
            let domains = self.keys.by_slot(asked.key);
            for (sum, slot) in sums.iter_mut().zip(feasible) {
                let domain = domains.get(*slot).copied().unwrap_or(NOWHERE);
                if domain == NOWHERE {
                    continue;
                }
                let count = if asked.is_by_host {
                    i64::from(on_node.get(*slot).copied().unwrap_or(0))
                } else {
                    counts[domain as usize].unwrap_or(0)
                };
                *sum += count as f64 * weight + base;
            }
        }
        let crowdings: Vec<i64> = sums.into_iter().map(|sum| sum.round() as i64).collect();
        let counted =
            || crowdings.iter().zip(&is_scored).filter(|(_, is_scored)| **is_scored).map(|(crowding, _)| *crowding);
        let (least, most) = (counted().min().unwrap_or(0), counted().max().unwrap_or(0));
        for ((total, crowding), is_scored) in totals.iter_mut().zip(&crowdings).zip(&is_scored) {
            *total += match (is_scored, most) {
                (false, _) => 0,
                (true, 0) => 2 * MOST,
                (true, _) => 2 * (MOST * (most + least - crowding) / most),
            };
        }
    }

    /// How many domains these nodes are in. Having no label is a domain too, where such nodes are scored at all.
    fn domain_count(&self, key: KeyId, slots: impl Iterator<Item = Slot>) -> usize {
        let mut is_seen = vec![false; self.keys.bound(key) + 1];
        for slot in slots {
            let domain = self.keys.domain(key, slot);
            let place = if domain == NOWHERE { is_seen.len() - 1 } else { domain as usize };
            is_seen[place] = true;
        }
        is_seen.into_iter().filter(|is_seen| *is_seen).count()
    }

    /// The more wished-for pods near by and the fewer unwished-for, the better.
    fn add_wishes<'a>(
        &self,
        totals: &mut [i64],
        wishes: impl Iterator<Item = &'a (CounterId, KeyId, i64)>,
        feasible: &[Slot],
    ) {
        let mut sums = vec![0_i64; feasible.len()];
        for (counter, key, weight) in wishes {
            let mut by_domain = vec![0_i64; self.keys.bound(*key)];
            let domains = self.keys.by_slot(*key);
            for (count, domain) in self.counters.by_slot(*counter).iter().zip(domains) {
                if *domain != NOWHERE {
                    by_domain[*domain as usize] += i64::from(*count) * weight;
                }
            }
            for (sum, slot) in sums.iter_mut().zip(feasible) {
                let domain = domains.get(*slot).copied().unwrap_or(NOWHERE);
                *sum += by_domain.get(domain as usize).copied().unwrap_or(0);
            }
        }
        let least = sums.iter().copied().min().unwrap_or(0);
        let range = sums.iter().copied().max().unwrap_or(0) - least;
        if range > 0 {
            for (total, sum) in totals.iter_mut().zip(sums) {
                // In floating point and cut, like kube-scheduler: 29 of 100 may come out as 28.
                *total += 2 * ((MOST as f64 * ((sum - least) as f64 / range as f64)) as i64);
            }
        }
    }
}

/// Adds points by each count's percentage of the greatest, cut; nothing counted is no percentage.
fn add_share(totals: &mut [i64], counts: impl Iterator<Item = i64> + Clone, points: impl Fn(i64) -> i64) {
    let most = counts.clone().max().unwrap_or(0);
    for (total, count) in totals.iter_mut().zip(counts) {
        *total += points(if most > 0 { MOST * count / most } else { 0 });
    }
}

/// LeastAllocated and BalancedAllocation: what only the node's own pods decide.
pub(super) fn node_points(class: &Class, seat: &Seat, facts: &Facts) -> i64 {
    let requests = &class.sample.requests;
    let allocatable = pair(&facts.allocatable);
    let free = mean_free(plus(seat.counted, counted(requests)), allocatable);
    let wanted = pair(requests);
    if wanted == [0, 0] {
        return free;
    }
    let before = pair(&seat.used);
    let gain = balance(plus(before, wanted), allocatable) - balance(before, allocatable);
    free + MOST / 2 + (MOST / 2 + gain) / 2
}

/// Resources that the node does not have say nothing.
fn mean_free(requested: [i64; 2], allocatable: [i64; 2]) -> i64 {
    let (mut points, mut had) = (0, 0);
    for (used, most) in requested.into_iter().zip(allocatable) {
        if most != 0 {
            had += 1;
            points += if used > most { 0 } else { free_points(used, most) };
        }
    }
    if had == 0 { 0 } else { points / had }
}

fn free_points(used: i64, most: i64) -> i64 {
    match most.checked_sub(used).and_then(|free| free.checked_mul(MOST)) {
        Some(product) => product / most,
        None => i64::try_from((i128::from(most) - i128::from(used)) * i128::from(MOST) / i128::from(most)).unwrap_or(0),
    }
}

/// 100 when both shares are equal, 50 when one is full and the other empty; cut to a whole number.
fn balance(requested: [i64; 2], allocatable: [i64; 2]) -> i64 {
    let has_both = allocatable.iter().all(|most| *most != 0);
    let [cpu, memory] = [0, 1].map(|axis: usize| (requested[axis] as f64 / allocatable[axis] as f64).min(1.0));
    let deviation = if has_both { ((cpu - memory) / 2.0).abs() } else { 0.0 };
    ((1.0 - deviation) * MOST as f64) as i64
}

/// Cpu and memory, where asking for nothing counts for something. A pod counts like one container.
pub(super) fn counted(requests: &Resources) -> [i64; 2] {
    let [cpu, memory] = pair(requests);
    [if cpu == 0 { DEFAULT_CPU_MILLI } else { cpu }, if memory == 0 { DEFAULT_MEMORY_BYTES } else { memory }]
}

fn pair(resources: &Resources) -> [i64; 2] {
    [resources.cpu_milli, resources.memory_bytes]
}

fn plus(a: [i64; 2], b: [i64; 2]) -> [i64; 2] {
    [a[0].saturating_add(b[0]), a[1].saturating_add(b[1])]
}
