//! Which nodes could leave: estimates for many sets of them, on all threads.
//!
//! Three kinds of sets are asked about. Each node alone, which also tells why it stays. Nodes that can all be deleted because
//! their pods fit elsewhere, found one after the other on a world in which the former are gone. And groups of nodes that cost
//! much for what their pods are worth, of several lengths and around each such length, to be replaced by fewer or cheaper ones.
//! Nothing is decided here: the best sets are planned in full by whoever asked.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use model::eviction::EvictionCost;
use model::ids::{NodeName, PodName, PoolName};
use model::pod::Pod;
use model::price::Price;
use model::topology::SpreadMode;

use super::Effort;
use super::ground::{Company, Ground};
use super::worth::{cost_pico, least_saving, pays_back_after};
use crate::solve::Question;
use crate::solve::whatif::{self, Answer, WhatIf};

/// How many nodes groups are made of, at most; larger ones fall into parts of their own anyway.
const WINDOW: usize = 64;
/// Lengths that are tried in every window.
const COARSE: [usize; 4] = [2, 6, 18, 54];
/// So many windows, those of the nodes that waste most, are searched in all lengths. In the others longer groups are asked about only
/// where one of up to this length comes near to gain.
const WASTEFUL: usize = 8;
const ENOUGH: usize = 18;
/// A group that gains this part of what it costs is good enough, in hundredths; what more there is finds the next decision.
const PLENTY: i64 = 10;
/// What the evictions of all nodes that could be deleted weigh beside all of their room, where these are ordered.
const TROUBLE: f64 = 0.1;
/// How far around a good length every other one is tried.
const AROUND: usize = 6;
/// A group that costs no more than this part more than what it replaces is worth a closer look, in hundredths.
const NEARLY: i64 = 4;

/// What was found.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    /// What would become of each source if it left alone.
    pub(super) alone: Vec<Option<Alone>>,
    /// Sources that can all be deleted, and where their pods would go.
    pub(super) deletions: Deletions,
    /// Sets that would be replaced by something cheaper, the best first.
    pub(super) groups: Vec<Group>,
    pub(super) effort: Effort,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Deletions {
    pub(super) sources: Vec<usize>,
    /// With each place its turn: where pods mind each other, only that order may lead there.
    pub(super) moves: BTreeMap<PodName, (usize, NodeName)>,
    pub(super) gain_pico: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) sources: Vec<usize>,
    pub(super) gain_pico: i64,
}

/// What became of the question about one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Alone {
    /// Its pods fit elsewhere.
    Fits,
    /// It would take machines that are cheaper than it.
    Cheaper {
        gain_pico: i64,
    },
    Stuck {
        pod: PodName,
        others: usize,
    },
    TooDear {
        machines: usize,
        price: Price,
    },
    /// It would save something for a machine of this price, but only so late as much as it costs.
    Late {
        after: Duration,
        price: Price,
    },
    Unready {
        pod: PodName,
        node: NodeName,
    },
}

/// Looks at everything. The answer does not depend on the number of threads.
pub(super) fn search(ground: &Ground, threads: usize) -> Found {
    if threads < 2 {
        return on_world(ground, |searcher| {
            let (alone, mut groups) = (searcher.alone(), searcher.groups());
            groups.extend(searcher.singles(&alone));
            let deletions = searcher.deletions(&hopeful(&alone));
            Found { alone, deletions, groups: best_first(groups), effort: searcher.effort }
        });
    }
    thread::scope(|scope| {
        let beside = scope.spawn(|| {
            on_world(ground, |searcher| {
                let groups = searcher.groups();
                (groups, searcher.effort)
            })
        });
        let (alone, singles, deletions, own) = on_world(ground, |searcher| {
            let alone = searcher.alone();
            let singles = searcher.singles(&alone);
            let deletions = searcher.deletions(&hopeful(&alone));
            (alone, singles, deletions, searcher.effort)
        });
        // A thread that panicked found a bug; there is nothing sensible to go on with.
        let (mut groups, effort) = match beside.join() {
            Ok(found) => found,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        groups.extend(singles);
        let effort = Effort {
            questions: own.questions + effort.questions,
            refused_at_sight: own.refused_at_sight + effort.refused_at_sight,
            ..own
        };
        Found { alone, deletions, groups: best_first(groups), effort }
    })
}

/// Only the deletions, on a world that has changed since.
pub(super) fn search_deletions(ground: &Ground) -> Deletions {
    let all: Vec<usize> = (0..ground.sources.len()).collect();
    on_world(ground, |searcher| searcher.deletions(&all))
}

/// Sources that can be deleted as long as the others stay. Deletions only take room away, so no other can be later.
fn hopeful(alone: &[Option<Alone>]) -> Vec<usize> {
    (0..alone.len()).filter(|source| alone[*source] == Some(Alone::Fits)).collect()
}

/// Whether a pod may run only near to, apart from, or evenly with others.
pub(super) fn minds_others(pod: &Pod) -> bool {
    let wants = &pod.wants;
    let has_hard_spread = wants.spread.iter().any(|spread| spread.mode == SpreadMode::DoNotSchedule);
    has_hard_spread || !wants.together.is_empty() || !wants.apart.is_empty()
}

fn best_first(mut groups: Vec<Group>) -> Vec<Group> {
    groups.sort_by(|a, b| (b.gain_pico, &a.sources).cmp(&(a.gain_pico, &b.sources)));
    groups
}

fn on_world<R>(ground: &Ground, search: impl FnOnce(&mut Searcher<'_, '_, '_>) -> R) -> R {
    let prices: BTreeMap<&NodeName, f64> =
        ground.sources.iter().map(|source| (&source.node, source.price.dollars())).collect();
    // Nodes that cannot leave are filled first, then those that are worth their price.
    let rank = |name: &NodeName, worth: f64| match prices.get(name) {
        None => i64::MIN,
        Some(price) => (waste(*price, worth) * 1e9) as i64,
    };
    let pods = ground.movable.iter().map(|pod| &**pod).collect();
    let question = Question { closed: ground.closed.clone(), ..Question::about(pods) };
    whatif::ask(&ground.snapshot, &ground.catalogue, &question, &rank, |world| {
        let by_name: BTreeMap<&NodeName, usize> = world.sites().map(|(site, name)| (name, site)).collect();
        let sites = ground.sources.iter().map(|source| by_name.get(&source.node).copied());
        let sites: Vec<usize> = sites.map(|site| site.unwrap_or(usize::MAX)).collect();
        let worth = world.worth_by_site.clone();
        let mut order: Vec<usize> = (0..sites.len()).filter(|source| sites[*source] != usize::MAX).collect();
        let key = |source: usize| waste(ground.sources[source].price.dollars(), worth[sites[source]]);
        order.sort_by(|a, b| key(*b).total_cmp(&key(*a)).then(a.cmp(b)));
        search(&mut Searcher { ground, world, sites, order, effort: Effort::default() })
    })
}

/// The part of a price that pods do not make use of.
fn waste(price: f64, worth: f64) -> f64 {
    if price > 0.0 { ((price - worth) / price).clamp(-1e6, 1.0) } else { -1e6 }
}

struct Searcher<'r, 'w, 'a> {
    ground: &'r Ground,
    world: &'r mut WhatIf<'w, 'a>,
    /// The site of each source.
    sites: Vec<usize>,
    /// Sources, those that cost most for what their pods are worth first.
    order: Vec<usize>,
    effort: Effort,
}

impl Searcher<'_, '_, '_> {
    fn alone(&mut self) -> Vec<Option<Alone>> {
        let mut alone: Vec<Option<Alone>> = vec![None; self.sites.len()];
        let mut known: BTreeMap<(Vec<String>, Vec<usize>), (Alone, usize)> = BTreeMap::new();
        for (source, site) in self.sites.clone().into_iter().enumerate().filter(|(_, site)| *site != usize::MAX) {
            let own = &self.ground.sources[source];
            let kind = (own.kind.clone(), self.world.classes_on(site));
            let found = match known.get(&kind) {
                // Whoever is exactly like one that stays will stay as well.
                Some((found @ Alone::TooDear { .. }, _)) => found.clone(),
                // Its pods may have been moved lately, and these not.
                Some((Alone::Late { price, .. }, other)) if self.ground.sources[*other].cost <= own.cost => {
                    self.not_in_time(source, 1, *price)
                }
                Some((Alone::Stuck { pod, others }, other)) => {
                    let own = self.world.twin_of(pod, self.sites[*other], site).unwrap_or(pod);
                    Alone::Stuck { pod: own.clone(), others: *others }
                }
                _ => {
                    let found = self.ask_alone(source);
                    known.insert(kind, (found.clone(), source));
                    found
                }
            };
            alone[source] = Some(found);
        }
        alone
    }

    /// What is said of a node whose machines instead cost so much, and do not pay in time.
    fn not_in_time(&self, source: usize, machines: usize, price: Price) -> Alone {
        let own = &self.ground.sources[source];
        let saved = own.price.pico().saturating_sub(price.pico());
        let after = pays_back_after(cost_pico(own.cost, price), saved);
        after.map_or(Alone::TooDear { machines, price }, |after| Alone::Late { after, price })
    }

    fn ask_alone(&mut self, source: usize) -> Alone {
        let (gain, answer) = self.ask(&[source]);
        if let Some((pod, site)) = answer.unready
            && let Some((_, node)) = self.world.sites().find(|(number, _)| *number == site)
        {
            return Alone::Unready { pod: self.world.pod(pod).name.clone(), node: node.clone() };
        }
        match answer.stuck {
            Some(_) if answer.is_too_dear => {
                Alone::TooDear { machines: answer.machines, price: Price::from_pico(answer.price_pico) }
            }
            Some(pod) => Alone::Stuck { pod: self.world.pod(pod).name.clone(), others: answer.left_over - 1 },
            None if answer.machines == 0 => Alone::Fits,
            None if gain > 0 => Alone::Cheaper { gain_pico: gain },
            None => self.not_in_time(source, answer.machines, Price::from_pico(answer.price_pico)),
        }
    }

    fn singles(&self, alone: &[Option<Alone>]) -> Vec<Group> {
        let gain = |(source, alone): (usize, &Option<Alone>)| match alone {
            Some(Alone::Cheaper { gain_pico }) if self.may_go_alone(source) => {
                Some(Group { sources: vec![source], gain_pico: *gain_pico })
            }
            _ => None,
        };
        alone.iter().enumerate().filter_map(gain).collect()
    }

    fn may_go_alone(&self, source: usize) -> bool {
        self.ground.sources[source].company == Company::Any
    }

    /// What would be gained if these left: what they cost, less what comes instead and the least that it must save.
    fn ask(&mut self, sources: &[usize]) -> (i64, Answer) {
        let sites: Vec<usize> = sources.iter().map(|source| self.sites[*source]).collect();
        let own = |source: &usize| &self.ground.sources[*source];
        let before = sources.iter().map(own).fold(Price::ZERO, |sum, source| sum.plus(source.price));
        self.effort.questions += 1;
        let most = before.pico().saturating_add(before.pico() / 100 * NEARLY);
        let bound = self.world.least_price(&sites);
        if bound >= before.pico() {
            self.effort.refused_at_sight += 1;
            return (i64::MIN, Answer::too_dear(bound));
        }
        let answer = self.world.ask(&sites, most);
        let cost: EvictionCost = sources.iter().map(own).map(|source| source.cost).sum();
        let least = match answer.machines {
            0 => 0,
            _ => least_saving(cost_pico(cost, Price::from_pico(answer.price_pico)), self.ground.payback),
        };
        let is_possible = answer.left_over == 0 && answer.unready.is_none();
        let gain = before.pico().saturating_sub(answer.price_pico).saturating_sub(least);
        (if is_possible { gain } else { i64::MIN }, answer)
    }

    /// Groups that cost much for what their pods are worth: from every window of such nodes the best beginning.
    fn groups(&mut self) -> Vec<Group> {
        let order = self.order.clone();
        let mut found = Vec::new();
        let mut start = 0;
        while start + 1 < order.len() {
            let window = self.within_budgets(&order[start..]);
            if window.len() < 2 {
                break;
            }
            found.extend(self.best_beginning(&window, start / WINDOW));
            start += WINDOW;
        }
        found
    }

    /// The first nodes of a list that budgets let go together.
    fn within_budgets(&self, order: &[usize]) -> Vec<usize> {
        let mut taken: BTreeMap<&PoolName, u32> = BTreeMap::new();
        let mut window = Vec::new();
        for source in order {
            let pool = &self.ground.sources[*source].pool;
            let count = taken.entry(pool).or_default();
            if *count < self.ground.allowed.get(pool).copied().unwrap_or(0) {
                *count += 1;
                window.push(*source);
            }
            if window.len() == WINDOW {
                break;
            }
        }
        window
    }

    fn best_beginning(&mut self, window: &[usize], number: usize) -> Option<Group> {
        let lengths: Vec<usize> = match number == 0 && window.len() <= WINDOW / 2 {
            true => (2..=window.len()).collect(),
            false => COARSE.iter().map(|length| (*length).min(window.len())).collect(),
        };
        let mut best = Group { sources: Vec::new(), gain_pico: i64::MIN };
        let mut tried: Vec<usize> = Vec::new();
        for length in lengths {
            if length > ENOUGH && number >= WASTEFUL && best.gain_pico == i64::MIN {
                break;
            }
            self.try_length(window, length, &mut best, &mut tried);
        }
        // Close to gain: look at every length around, and at single nodes to keep or to add.
        let before = best.sources.iter().map(|source| &self.ground.sources[*source]);
        let before = before.fold(Price::ZERO, |sum, source| sum.plus(source.price));
        if best.gain_pico > i64::MIN && best.gain_pico < before.pico() / 100 * PLENTY {
            let length = best.sources.len();
            for other in length.saturating_sub(AROUND).max(2)..=(length + AROUND).min(window.len()) {
                self.try_length(window, other, &mut best, &mut tried);
            }
            self.improve(window, &mut best);
        }
        (best.gain_pico > 0).then_some(best)
    }

    fn try_length(&mut self, window: &[usize], length: usize, best: &mut Group, tried: &mut Vec<usize>) {
        if length > window.len() || tried.contains(&length) {
            return;
        }
        tried.push(length);
        let (gain, _) = self.ask(&window[..length]);
        if gain > best.gain_pico {
            *best = Group { sources: window[..length].to_vec(), gain_pico: gain };
        }
    }

    /// Drops nodes that gain nothing by leaving, and adds such that do.
    fn improve(&mut self, window: &[usize], best: &mut Group) {
        if best.gain_pico <= 0 || best.sources.len() > WINDOW / 2 {
            return;
        }
        for source in best.sources.clone().into_iter().rev().filter(|_| best.sources.len() > 1).collect::<Vec<_>>() {
            let fewer: Vec<usize> = best.sources.iter().copied().filter(|other| *other != source).collect();
            if fewer.is_empty() {
                break;
            }
            let (gain, _) = self.ask(&fewer);
            // What gains the same by moving less is better.
            if gain >= best.gain_pico {
                *best = Group { sources: fewer, gain_pico: gain };
            }
        }
        for source in window.iter().copied().take(WINDOW / 2) {
            if best.sources.contains(&source) {
                continue;
            }
            let more: Vec<usize> = best.sources.iter().copied().chain([source]).collect();
            let (gain, _) = self.ask(&more);
            if gain > best.gain_pico {
                *best = Group { sources: more, gain_pico: gain };
            }
        }
    }

    /// What each of these nodes saves by its deletion, for the room that all others lose by it and for the trouble. Room is counted
    /// in pods as they are on average: a machine whose memory nobody needs, or whose cores nobody can use, has little of it.
    fn thrift(&self, sources: &[usize]) -> BTreeMap<usize, f64> {
        let trouble = |source: usize| self.ground.sources[source].trouble.as_f64();
        let room = |source: usize| self.world.share_of_all(self.sites[source]);
        let all_trouble: f64 = sources.iter().map(|source| trouble(*source)).sum();
        let all_room: f64 = sources.iter().map(|source| room(*source)).sum();
        let part = |own: f64, all: f64| if all > 0.0 { own / all } else { 0.0 };
        let spent = |source: usize| part(room(source), all_room) + TROUBLE * part(trouble(source), all_trouble);
        let saved = |source: usize| self.ground.sources[source].price.dollars();
        let thrift = |source: usize| saved(source) / spent(source).max(f64::MIN_POSITIVE);
        sources.iter().map(|source| (*source, thrift(*source))).collect()
    }

    /// Deletes what can be deleted of these, one after the other: the most money for the least room and trouble first.
    fn deletions(&mut self, hopeful: &[usize]) -> Deletions {
        let may_go = |source: &usize| self.sites[*source] != usize::MAX && self.may_go_alone(*source);
        let mut order: Vec<usize> = hopeful.iter().copied().filter(may_go).collect();
        let thrift = self.thrift(&order);
        order.sort_by(|a, b| thrift[b].total_cmp(&thrift[a]).then(a.cmp(b)));
        let mut found = Deletions::default();
        let mut taken: BTreeMap<&PoolName, u32> = BTreeMap::new();
        let names: Vec<NodeName> = self.world.sites().map(|(_, name)| name.clone()).collect();
        let mut turns = 0..;
        // Whoever minds where others are moves once: the deletions are carried out apart, and the first must hold before the second.
        let mut kept: BTreeSet<usize> = BTreeSet::new();
        for source in order {
            if kept.contains(&self.sites[source]) {
                continue;
            }
            let pool = &self.ground.sources[source].pool;
            let count = taken.entry(pool).or_default();
            if *count >= self.ground.allowed.get(pool).copied().unwrap_or(0) {
                continue;
            }
            self.effort.questions += 1;
            let Some(seated) = self.world.carry_out(&[self.sites[source]]) else { continue };
            *count += 1;
            kept.extend(seated.iter().filter(|(pod, _)| minds_others(self.world.pod(*pod))).map(|(_, site)| *site));
            for ((pod, site), turn) in seated.into_iter().zip(&mut turns) {
                found.moves.insert(self.world.pod(pod).name.clone(), (turn, names[site].clone()));
            }
            found.sources.push(source);
            found.gain_pico = found.gain_pico.saturating_add(self.ground.sources[source].price.pico());
        }
        found
    }
}
