//! Who stands where: counts of pods by domain, and what they allow.
//!
//! Every distinct constraint is one group with counters. Placing a pod adds to the counters of the groups that select it,
//! so a question about a domain is a look-up. A domain of the hostname is a place (a site, or a claim of this plan); of
//! any other key it is a state of the label.

mod group;
#[cfg(test)]
mod tests;
mod undo;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use model::ids::Namespace;
use model::labels::{HOSTNAME, Labels};
use model::pod::{Life, Pod};
use model::topology::{PodTerm, Policy, Spread};

use self::group::{Company, Counter, Group, Identity, Reliance};
use super::bits::Bits;
use super::hash::Known;
use super::outlook::Domain;
use super::reach::Reach;
use super::sites::Standing;
use super::wishes::{Domains, Wish};
use super::words::{Key, OTHER};
use super::world::World;

pub(crate) use undo::{Kept, Shift};

pub(crate) type GroupId = usize;

/// A constraint of a rung.
#[derive(Clone, Debug)]
pub(crate) enum Rule {
    Spread {
        group: GroupId,
        max_skew: i64,
        min_domains: Option<usize>,
        /// One, if the pod counts towards its own spread.
        adds: i64,
        /// Label states that the pod could reach or that nodes have already.
        universe: Bits,
        domains: Domains,
    },
    /// Some selected pod must be there; or nobody anywhere, if the pod would be its own company.
    Near { group: GroupId, is_own_company: bool },
    /// No selected pod may be there.
    Far { group: GroupId },
    /// No pod may be there that wants this one far away.
    Unwanted { group: GroupId },
}

/// All groups, and for each class of pods the groups that it counts in.
#[derive(Clone)]
pub(crate) struct Topology {
    pub(crate) groups: Vec<Group>,
    index: Rc<Known<Rc<Identity>, GroupId>>,
    /// What pods that stand already add to the counters; those that are alike share it.
    pub(crate) standing: Rc<Vec<Rc<Footprint>>>,
    /// Groups that seated pods rely on.
    relying: Vec<GroupId>,
    /// The groups that anybody asks about, in their order; `None` for all. The others need not be told about claims.
    heard: Option<Vec<GroupId>>,
}

/// The groups of one pod's spreads, by where each stands in memory.
#[derive(Default)]
pub(crate) struct SpreadGroups(BTreeMap<*const Spread, GroupId>);

/// Where a pod stands: a place, and the state of each label that a group asks for.
pub(crate) struct Spot<'s> {
    pub(crate) place: usize,
    pub(crate) ground: Ground,
    pub(crate) states: &'s [Bits],
}

/// When a claim was as it is spoken of: before a pod joined it, or after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Before,
    After,
}

/// What a place stands on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ground {
    Site(usize),
    /// A machine to come, of this template.
    Template(usize),
}

/// What a placed pod adds to the counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Footprint {
    pub(crate) counted_in: Vec<GroupId>,
    pub(crate) owns: Vec<GroupId>,
}

impl Topology {
    pub(crate) fn new() -> Self {
        Self { groups: Vec::new(), index: Rc::default(), standing: Rc::default(), relying: Vec::new(), heard: None }
    }

    fn group(&mut self, world: &World<'_>, identity: Identity) -> GroupId {
        let identity = Rc::new(identity);
        if let Some(known) = self.index.get(&identity) {
            return *known;
        }
        let id = self.groups.len();
        self.groups.push(Group::new(world, identity.clone()));
        Rc::make_mut(&mut self.index).add(identity, id);
        id
    }

    /// The groups of a pod's spreads. What nodes they count may be told by thousands of terms, so they are found once for all
    /// rungs, of which there may be thousands too.
    pub(crate) fn spread_groups(&mut self, world: &World<'_>, pod: &Pod, spreads: &[&Spread]) -> SpreadGroups {
        let identity = |spread: &Spread| Identity::Spread {
            key: spread.key.clone(),
            namespace: pod.namespace().clone(),
            selector: spread.selector.clone(),
            nodes: (spread.node_affinity == Policy::Honor)
                .then(|| (pod.wants.selector.clone(), pod.wants.terms.clone())),
            tolerations: (spread.node_taints == Policy::Honor).then(|| pod.wants.tolerations.clone()),
            beside: other_keys(pod, spread),
        };
        let groups = spreads.iter().map(|spread| (std::ptr::from_ref(*spread), self.group(world, identity(spread))));
        SpreadGroups(groups.collect())
    }

    /// The rules of one rung, given the groups of the pod's spreads and what it could reach.
    pub(crate) fn rules(
        &mut self,
        world: &World<'_>,
        pod: &Pod,
        wish: &Wish<'_>,
        (spreads, reach): (&SpreadGroups, &Reach),
    ) -> Vec<Rule> {
        let mut rules = Vec::new();
        for spread in &wish.spread {
            let group = spreads.0[&std::ptr::from_ref(*spread)];
            rules.push(self.spread_rule(world, pod, (spread, group), reach, wish.domains));
        }
        let is_own_company = wish.together.iter().all(|term| term.selects(pod.namespace(), &pod.labels));
        // All terms name the same company, so a key that several of them speak of is asked about once.
        let company = Company::new(wish.together);
        let keys: BTreeSet<&Arc<str>> = wish.together.iter().map(|term| &term.key).collect();
        for key in keys {
            let group = self.group(world, Identity::Near { key: key.clone(), company: company.clone() });
            rules.push(Rule::Near { group, is_own_company });
        }
        for term in &wish.preferred_together {
            let is_own_company = term.selects(pod.namespace(), &pod.labels);
            let company = Company::new(std::slice::from_ref(*term));
            let group = self.group(world, Identity::Near { key: term.key.clone(), company });
            rules.push(Rule::Near { group, is_own_company });
        }
        for term in &wish.apart {
            let group = self.group(world, Identity::Far { term: (*term).clone() });
            rules.push(Rule::Far { group });
        }
        rules
    }

    fn spread_rule(
        &self,
        world: &World<'_>,
        pod: &Pod,
        (spread, group): (&Spread, GroupId),
        reach: &Reach,
        domains: Domains,
    ) -> Rule {
        let mut universe = Bits::default();
        if let Some(key) = self.groups[group].key {
            universe = match domains {
                Domains::Reachable => reach.states(world, key),
                Domains::Present => Bits::empty(world.words.state_count(key)),
            };
            universe.add_all(&self.groups[group].site_states);
        }
        Rule::Spread {
            group,
            max_skew: i64::from(spread.max_skew.max(1)),
            min_domains: spread.min_domains.and_then(|least| usize::try_from(least).ok()),
            adds: i64::from(spread.selector.selects(&pod.labels)),
            universe,
            domains,
        }
    }

    /// The groups of required distance that a pod has itself.
    pub(crate) fn owned(&mut self, world: &World<'_>, pod: &Pod) -> Vec<GroupId> {
        let far = |term: &PodTerm| Identity::Far { term: term.clone() };
        pod.wants.apart.iter().map(far).map(|identity| self.group(world, identity)).collect()
    }

    /// The groups that count a pod.
    pub(crate) fn counting(&self, namespace: &Namespace, labels: &Labels) -> Vec<GroupId> {
        let groups = self.groups.iter().enumerate();
        groups.filter(|(_, group)| group.identity.selects(namespace, labels)).map(|(id, _)| id).collect()
    }

    /// Makes the groups of pods that stand already: their required distance binds newcomers too, until they are gone. Distance
    /// from nobody who is asked about is no group; clusters are full of it.
    pub(crate) fn meet_standing(&mut self, world: &World<'_>) {
        let mut known: Known<&PodTerm, ()> = Known::default();
        let asked = &world.kinds.first_of_manner;
        let selects = |term: &PodTerm| asked.iter().any(|pod| term.selects(pod.namespace(), &pod.labels));
        for term in world.standing.iter().flat_map(|standing| &standing.pod.wants.apart) {
            if known.get(&term).is_some() {
                continue;
            }
            known.add(term, ());
            if selects(term) {
                self.group(world, Identity::Far { term: term.clone() });
            }
        }
    }

    /// Counts the pods that stand already.
    pub(crate) fn count_standing(&mut self, world: &World<'_>) {
        let mut known: Known<_, Rc<Footprint>> = Known::default();
        let mut footprints = Vec::with_capacity(world.standing.len());
        for Standing { pod, site } in &world.standing {
            // Those who are alike in this add the same to the counters.
            let kind = (pod.namespace(), &pod.labels, &pod.wants.apart, matches!(pod.life, Life::Active));
            let footprint = match known.get(&kind) {
                Some(footprint) => footprint.clone(),
                None => {
                    let footprint = Rc::new(self.footprint_of_standing(pod));
                    known.add(kind, footprint.clone());
                    footprint
                }
            };
            let (place, ground) = (*site, Ground::Site(*site));
            self.add(&footprint, &Spot { place, ground, states: &world.sites[*site].states });
            footprints.push(footprint);
        }
        self.standing = Rc::new(footprints);
    }

    fn footprint_of_standing(&self, pod: &Pod) -> Footprint {
        let own = pod.wants.apart.iter().map(|term| Identity::Far { term: term.clone() });
        let owns = own.filter_map(|identity| self.index.get(&Rc::new(identity)).copied()).collect();
        let mut counted_in = self.counting(pod.namespace(), &pod.labels);
        // A pod that is told to end still keeps others away, but its place in a spread is free.
        counted_in.retain(|id| pod.life == Life::Active || !self.groups[*id].is_spread());
        Footprint { counted_in, owns }
    }

    /// Adds a pod to the counters.
    pub(crate) fn add(&mut self, footprint: &Footprint, spot: &Spot<'_>) {
        for id in &footprint.counted_in {
            self.groups[*id].meet(spot);
            if self.groups[*id].counts_at(spot) {
                self.groups[*id].bump(spot, Counter::Selected);
            }
            if self.groups[*id].surely_counts_at(spot) {
                self.groups[*id].bump(spot, Counter::SurelySelected);
            }
        }
        for id in &footprint.owns {
            self.groups[*id].bump(spot, Counter::Owners);
        }
    }

    /// Remembers what a seated pod's spreads relied on.
    pub(crate) fn rely(&mut self, rules: &[Rule]) {
        for rule in rules {
            let Rule::Spread { group: id, max_skew, universe, domains, .. } = rule else { continue };
            let group = &mut self.groups[*id];
            if group.key.is_none() && *domains == Domains::Reachable {
                continue;
            }
            let domains = group.domains(universe);
            match &mut group.relied_on {
                Some(reliance) => {
                    reliance.universe.keep(&domains);
                    reliance.max_skew = reliance.max_skew.min(*max_skew);
                }
                none => {
                    *none = Some(Reliance { universe: domains, max_skew: *max_skew });
                    self.relying.push(*id);
                }
            }
        }
    }

    /// Whether any seated pod was judged by domains that must not become more.
    pub(crate) fn has_reliance(&self) -> bool {
        !self.relying.is_empty()
    }

    /// Whether a refusal by a host lasts: pods there do not become fewer, and the least count stays where it is.
    pub(crate) fn is_lasting(&self, rule: &Rule) -> bool {
        match rule {
            Rule::Spread { group, domains, .. } => {
                *domains == Domains::Reachable && !self.groups[*group].templates.is_empty()
            }
            Rule::Near { .. } => false,
            Rule::Far { .. } | Rule::Unwanted { .. } => true,
        }
    }

    /// Domains that a claim may not add, because seated pods were judged without them: the key and what is left of it.
    pub(crate) fn closed_domains(&self, template: usize) -> impl Iterator<Item = (Key, &Bits)> {
        self.strained(template).filter_map(|(group, reliance)| Some((group.key?, &reliance.universe)))
    }

    /// Whether one more host of this template would break a spread that was judged by the hosts that are there.
    pub(crate) fn closes_hosts(&self, template: usize) -> bool {
        self.strained(template).any(|(group, _)| group.key.is_none())
    }

    /// Groups with a domain so full that an empty one would make a difference, if machines of a template count for them.
    fn strained(&self, template: usize) -> impl Iterator<Item = (&Group, &Reliance)> {
        let groups = self.relying.iter().map(|id| &self.groups[*id]);
        groups.filter(move |group| group.templates.contains(template)).filter_map(|group| {
            let reliance = group.relied_on.as_ref()?;
            (i64::from(group.fullest) > reliance.max_skew).then_some((group, reliance))
        })
    }

    /// Tells every spread what domains a claim may stand for now, instead of before: those that its label can come to on a
    /// machine that is on sale.
    pub(crate) fn reshape(
        &mut self,
        spot: &Spot<'_>,
        before: Option<&[Bits]>,
        mut find: impl FnMut(Moment, Key) -> Rc<[Domain]>,
    ) {
        // Most spreads are by the same label.
        let mut latest: [Option<(Key, Rc<[Domain]>)>; 2] = [None, None];
        let mut domains = |moment: Moment, key: Key| {
            let latest = &mut latest[moment as usize];
            let known = latest.take().filter(|(of, _)| *of == key).map(|(_, domains)| domains);
            let domains = known.unwrap_or_else(|| find(moment, key));
            *latest = Some((key, domains.clone()));
            domains
        };
        let mut tell = |group: &mut Group| {
            let Some(key) = group.key else {
                group.set_host(spot);
                return;
            };
            if let Some(states) = before {
                group.note_claim(&Spot { states, ..*spot }, &domains(Moment::Before, key), |claims| *claims -= 1);
            }
            group.note_claim(spot, &domains(Moment::After, key), |claims| *claims += 1);
        };
        match &self.heard {
            None => self.groups.iter_mut().filter(|group| group.is_spread()).for_each(tell),
            Some(heard) => {
                for id in heard.iter().copied() {
                    if self.groups[id].is_spread() {
                        tell(&mut self.groups[id]);
                    }
                }
            }
        }
    }

    pub(crate) fn holds_on_host(&self, rule: &Rule, place: usize) -> bool {
        self.fits_host(rule, place, self.least(rule))
    }

    fn fits_host(&self, rule: &Rule, place: usize, least: i64) -> bool {
        let group = &self.groups[rule.group()];
        match rule {
            Rule::Spread { max_skew, adds, .. } => i64::from(group.selected_at(place)) + adds - least <= *max_skew,
            Rule::Near { is_own_company, .. } => group.surely_at(place) > 0 || (*is_own_company && group.total == 0),
            Rule::Far { .. } => group.selected_at(place) == 0,
            Rule::Unwanted { .. } => group.owners_at(place) == 0,
        }
    }

    /// Bars claims whose host a rule refuses, as far as sets tell.
    pub(crate) fn bar(&self, rule: &Rule, least: i64, barred: &mut Bits) {
        let group = &self.groups[rule.group()];
        let crowded = match rule {
            Rule::Spread { max_skew, adds, .. } => match usize::try_from(max_skew + least - adds) {
                Ok(most) => group.claims_with(Counter::Selected, most + 1),
                Err(_) => return barred.add_all_but([]),
            },
            Rule::Near { is_own_company, .. } => {
                if !(*is_own_company && group.total == 0) {
                    barred.add_all_but(group.claims_with(Counter::SurelySelected, 1));
                }
                return;
            }
            Rule::Far { .. } => group.claims_with(Counter::Selected, 1),
            Rule::Unwanted { .. } => group.claims_with(Counter::Owners, 1),
        };
        crowded.into_iter().for_each(|crowded| barred.add_all(crowded));
    }

    /// A rule with what it comes to as things stand, to be asked about many spots before anything changes.
    pub(crate) fn weighed<'r>(&self, rule: &'r Rule) -> Weighed<'r> {
        match self.groups[rule.group()].key {
            None => Weighed::Host { rule, least: self.least(rule) },
            Some(key) => Weighed::Label { rule, key, allowed: self.allowed(rule) },
        }
    }

    /// The states of a label that a rule allows.
    pub(crate) fn allowed(&self, rule: &Rule) -> Bits {
        let group = &self.groups[rule.group()];
        let size = group.selected.len().max(group.owners.len());
        let mut allowed = Bits::empty(size);
        match rule {
            Rule::Spread { max_skew, adds, universe, .. } => {
                let least = self.least(rule);
                for state in group.domains(universe).iter() {
                    if i64::from(group.selected_at(state)) + adds - least <= *max_skew {
                        allowed.insert(state);
                    }
                }
            }
            Rule::Near { is_own_company, .. } => {
                let may_start = *is_own_company && group.total == 0;
                let fits = |state: &usize| may_start || group.surely_at(*state) > 0;
                (OTHER..size).filter(fits).for_each(|state| allowed.insert(state));
            }
            Rule::Far { .. } => (0..size).filter(|s| group.selected_at(*s) == 0).for_each(|s| allowed.insert(s)),
            Rule::Unwanted { .. } => (0..size).filter(|s| group.owners_at(*s) == 0).for_each(|s| allowed.insert(s)),
        }
        allowed
    }

    /// The least count of a spread: over the domains that the pod could reach; zero while there are too few of them.
    pub(crate) fn least(&self, rule: &Rule) -> i64 {
        let Rule::Spread { group, min_domains, universe, domains, .. } = rule else { return 0 };
        let group = &self.groups[*group];
        if min_domains.is_some_and(|wanted| group.settled_domains() < wanted) {
            return 0;
        }
        if group.key.is_none() {
            return group.least_on_hosts(*domains);
        }
        group.domains(universe).iter().map(|state| i64::from(group.surely_at(state))).min().unwrap_or(0)
    }

    pub(crate) fn count(&self, group: GroupId, state: usize) -> u32 {
        self.groups[group].selected_at(state)
    }
}

/// A rule, weighed: by place, or by the states of a label that it allows.
pub(crate) enum Weighed<'r> {
    Host { rule: &'r Rule, least: i64 },
    Label { rule: &'r Rule, key: Key, allowed: Bits },
}

impl<'r> Weighed<'r> {
    pub(crate) fn rule(&self) -> &'r Rule {
        match self {
            Self::Host { rule, .. } | Self::Label { rule, .. } => rule,
        }
    }

    /// Whether it holds on a host; what is about labels does.
    pub(crate) fn holds_on_host(&self, topology: &Topology, place: usize) -> bool {
        match self {
            Self::Host { rule, least } => topology.fits_host(rule, place, *least),
            Self::Label { .. } => true,
        }
    }

    /// Whether it holds on a spot whose labels are settled.
    pub(crate) fn holds(&self, topology: &Topology, spot: &Spot<'_>) -> bool {
        match self {
            Self::Host { rule, least } => topology.fits_host(rule, spot.place, *least),
            Self::Label { key, allowed, .. } => spot.states[*key].is_subset(allowed),
        }
    }
}

/// The labels that the pod's other spreads of the same mode count by: the scheduler counts a node only if it has them all. Every
/// node has a hostname.
fn other_keys(pod: &Pod, spread: &Spread) -> BTreeSet<Arc<str>> {
    let others = pod.wants.spread.iter().filter(|other| other.mode == spread.mode && other.key != spread.key);
    others.map(|other| &other.key).filter(|key| ***key != *HOSTNAME).cloned().collect()
}

impl Rule {
    /// Whether nothing that pods of the plan do can make it hold again: it is about distance.
    pub(crate) fn is_distance(&self) -> bool {
        matches!(self, Self::Far { .. } | Self::Unwanted { .. })
    }

    pub(crate) fn group(&self) -> GroupId {
        match self {
            Self::Spread { group, .. } | Self::Near { group, .. } | Self::Far { group } | Self::Unwanted { group } => {
                *group
            }
        }
    }
}
