//! The counters of one constraint.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;

use model::ids::Namespace;
use model::labels::{HOSTNAME, Labels};
use model::requirements::Requirements;
use model::taints::{Taint, Toleration, first_hard_untolerated};
use model::topology::{PodTerm, Selector};

use super::super::bits::Bits;
use super::super::hash::hash;
use super::super::outlook::Domain;
use super::super::sites::Site;
use super::super::wishes::Domains;
use super::super::words::{ABSENT, FIRST_VALUE, Key, Mask, hold_surely, may_hold};
use super::super::world::{Template, World};
use super::{Ground, Spot};

/// Claims with more pods than this are not told apart by sets.
const MOST_COUNTED: u32 = 4;

/// What makes two constraints the same. Everything that can change a count or a verdict is in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Identity {
    Spread {
        key: Arc<str>,
        namespace: Namespace,
        selector: Selector,
        /// The nodes that count, by the pod's own selector and terms.
        nodes: Option<(Requirements, Vec<Requirements>)>,
        tolerations: Option<Vec<Toleration>>,
        /// Labels that a node must have as well to count.
        beside: BTreeSet<Arc<str>>,
    },
    /// Pods that all of these terms select, counted by one of their keys.
    Near {
        key: Arc<str>,
        company: Company,
    },
    Far {
        term: PodTerm,
    },
}

/// Terms that together name a company. There may be very many, so they are kept and hashed once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Company {
    hash: u64,
    terms: Arc<[PodTerm]>,
}

impl Company {
    pub(super) fn new(terms: &[PodTerm]) -> Self {
        Self { hash: hash(&terms), terms: terms.into() }
    }
}

impl Hash for Company {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// Counters of one constraint.
#[derive(Clone)]
pub(crate) struct Group {
    pub(super) identity: Rc<Identity>,
    /// `None` for the hostname.
    pub(crate) key: Option<Key>,
    /// Pods that the constraint selects, by domain; where it is open whether or where a pod counts, it does everywhere.
    pub(super) selected: Vec<u32>,
    /// The most of those in any domain.
    pub(super) fullest: u32,
    /// The same, without pods of which it is open.
    pub(super) surely_selected: Vec<u32>,
    /// Pods that have the constraint, by domain; kept for required distance only.
    pub(super) owners: Vec<u32>,
    /// All selected pods that stand in a domain of some label of their company.
    pub(super) total: u32,
    /// The labels of the company; none when the hostname, which every node has, is among them.
    company_keys: Vec<Key>,
    /// Sites that count; the others are as if they were not there.
    pub(super) sites: Bits,
    /// Sites that may count: what they will be is still open.
    pub(super) possible_sites: Bits,
    /// The label states of all of those.
    pub(super) site_states: Bits,
    /// The states of sites and claims that count for sure and can be in one only.
    pub(super) settled: Bits,
    /// For nodes to come: templates whose nodes count, and what such a node must be, one of these.
    pub(super) templates: Bits,
    nodes: Vec<Vec<Mask>>,
    /// The states in which such a node can be in a domain that counts; `None` for all.
    within: Option<Bits>,
    /// Claims of the plan that count, by the states that their label may come to: each is a domain once the node is there.
    pub(super) claims: Vec<u32>,
    /// For the hostname: which places of claims count.
    pub(super) hosts: Vec<Counts>,
    /// For the hostname, by counter: claims with one pod at least, with two, and so on.
    pub(super) crowded: [Vec<Bits>; 3],
    site_count: usize,
    /// What pods that are seated already rely on.
    pub(super) relied_on: Option<Reliance>,
}

/// A seated pod's spread was judged by these domains. One more, with nobody in it, would have made a difference if some
/// domain holds more pods than the skew allows.
#[derive(Clone, Debug)]
pub(super) struct Reliance {
    pub(super) universe: Bits,
    pub(super) max_skew: i64,
}

/// Whether a machine to come counts for a spread, as far as its labels are settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counts {
    No,
    Maybe,
    Surely,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counter {
    Selected,
    SurelySelected,
    Owners,
}

impl Group {
    pub(super) fn new(world: &World<'_>, identity: Rc<Identity>) -> Self {
        let key_name = identity.key();
        let key = if **key_name == *HOSTNAME { None } else { world.words.key(key_name) };
        let size = key.map_or(world.sites.len(), |key| world.words.state_count(key));
        let mut group = Self {
            key,
            selected: vec![0; size],
            fullest: 0,
            surely_selected: vec![0; size],
            owners: vec![0; size],
            total: 0,
            company_keys: identity.company_keys(world),
            sites: Bits::full(world.sites.len()),
            possible_sites: Bits::full(world.sites.len()),
            site_states: Bits::empty(size),
            settled: Bits::empty(size),
            templates: Bits::full(world.templates.len()),
            nodes: Vec::new(),
            within: None,
            claims: vec![0; if key.is_some() { size } else { 0 }],
            hosts: Vec::new(),
            crowded: Default::default(),
            site_count: world.sites.len(),
            relied_on: None,
            identity,
        };
        group.restrict(world);
        if let Some(key) = key {
            group.within = group.states_of_nodes(world, key);
            group.site_states = group.states_of_sites(world, key);
            for site in group.sites.iter().map(|site| &world.sites[site].states[key]).filter(|states| states.len() == 1)
            {
                group.settled.add_all(site);
            }
        }
        group
    }

    /// Leaves out sites that the spread's own policies leave out.
    fn restrict(&mut self, world: &World<'_>) {
        let Identity::Spread { nodes, tolerations, beside, .. } = &*self.identity else { return };
        if let Some((selector, terms)) = nodes {
            let alternatives = selector.with_any_of(terms);
            self.nodes = alternatives.iter().map(|requirements| world.words.masks(requirements)).collect();
            // Where one alternative asks nothing, all nodes will do.
            if self.nodes.iter().any(Vec::is_empty) {
                self.nodes.clear();
            }
        }
        let suits =
            |states: &[Bits]| self.nodes.is_empty() || self.nodes.iter().any(|masks| hold_surely(masks, states));
        let may_suit =
            |states: &[Bits]| self.nodes.is_empty() || self.nodes.iter().any(|masks| may_hold(masks, states));
        let tolerated = |taints: &[Taint]| {
            tolerations.as_ref().is_none_or(|tolerations| first_hard_untolerated(taints, tolerations).is_none())
        };
        // A claim whose node has not come yet counts as well: by the time pods are bound to it, it is a node.
        let counts = |site: &Site<'_>| suits(&site.states) && tolerated(&site.node.taints);
        let may_count = |site: &Site<'_>| may_suit(&site.states) && tolerated(&site.node.taints);
        self.sites.retain(|site| counts(&world.sites[site]));
        self.possible_sites.retain(|site| may_count(&world.sites[site]));
        self.templates.retain(|template| tolerated(&world.templates[template].pool.template.taints));
        let beside: Vec<Key> = beside.iter().filter_map(|name| world.words.key(name)).collect();
        beside.into_iter().for_each(|key| self.demand(world, key));
    }

    /// Leaves out what lacks a label.
    fn demand(&mut self, world: &World<'_>, key: Key) {
        let is_there = |states: &Bits| !states.contains(ABSENT);
        let may_be_there = |states: &Bits| !states.is_subset(&world.words.just(key, ABSENT));
        self.sites.retain(|site| is_there(&world.sites[site].states[key]));
        self.possible_sites.retain(|site| may_be_there(&world.sites[site].states[key]));
        let sold = |template: &Template<'_>| {
            let mut states = world.machines.states_of(key, &template.machines);
            states.keep(&template.states[key]);
            states
        };
        self.templates.retain(|template| may_be_there(&sold(&world.templates[template])));
        // Where all machines have the label, nobody needs to ask each claim for it.
        if !self.templates.iter().all(|template| is_there(&sold(&world.templates[template]))) {
            let mut states = world.words.everything(key);
            states.remove(ABSENT);
            let mask = Mask { key, states };
            self.nodes = if self.nodes.is_empty() { vec![Vec::new()] } else { std::mem::take(&mut self.nodes) };
            self.nodes.iter_mut().for_each(|masks| masks.push(mask.clone()));
        }
    }

    /// Counts a selected pod. Company that stands on a node without any of the labels is nowhere, and nobody's company.
    pub(super) fn meet(&mut self, spot: &Spot<'_>) {
        if self.is_met_at(spot) {
            self.total += 1;
        }
    }

    pub(super) fn is_met_at(&self, spot: &Spot<'_>) -> bool {
        let is_somewhere = |key: &Key| spot.states[*key].iter().any(|state| state != ABSENT);
        self.company_keys.is_empty() || self.company_keys.iter().any(is_somewhere)
    }

    fn states_of_sites(&self, world: &World<'_>, key: Key) -> Bits {
        let mut states = Bits::empty(world.words.state_count(key));
        for site in self.possible_sites.iter() {
            states.add_all(&world.sites[site].states[key]);
        }
        states.remove(ABSENT);
        self.within.iter().for_each(|within| states.keep(within));
        states
    }

    /// What the nodes that count can have for a label, by any one of the ways to count.
    fn states_of_nodes(&self, world: &World<'_>, key: Key) -> Option<Bits> {
        let mut states = (!self.nodes.is_empty()).then(|| Bits::empty(world.words.state_count(key)))?;
        for masks in &self.nodes {
            states.add_all(&masks.iter().find(|mask| mask.key == key)?.states);
        }
        Some(states)
    }

    /// Notes the domains that a claim may stand for, if it counts.
    pub(super) fn note_claim(&mut self, spot: &Spot<'_>, domains: &[Domain], note: impl Fn(&mut u32)) {
        let Some(key) = self.key.filter(|_| self.counts_at(spot)) else { return };
        let within = |state: &usize| self.within.as_ref().is_none_or(|within| within.contains(*state));
        domains.iter().map(|domain| domain.state).filter(within).for_each(|state| note(&mut self.claims[state]));
        // Labels only get narrower, so what is settled stays as it is.
        if self.surely_counts_at(spot) {
            self.settled.add_all(&spot.states[key]);
        }
    }

    /// The domains of a spread: those that the pod could reach, and those that claims of the plan will make.
    pub(super) fn domains(&self, universe: &Bits) -> Bits {
        let mut domains = universe.clone();
        for (state, claims) in self.claims.iter().enumerate().skip(FIRST_VALUE) {
            if *claims > 0 {
                domains.insert(state);
            }
        }
        domains
    }

    pub(super) fn counts_at(&self, spot: &Spot<'_>) -> bool {
        match spot.ground {
            Ground::Site(site) => self.possible_sites.contains(site),
            Ground::Template(template) if !self.templates.contains(template) => false,
            Ground::Template(_) => self.nodes.is_empty() || self.nodes.iter().any(|masks| may_hold(masks, spot.states)),
        }
    }

    /// Whether a pod there counts whatever the open labels come to.
    pub(super) fn surely_counts_at(&self, spot: &Spot<'_>) -> bool {
        let is_settled = self.key.is_none_or(|key| spot.states[key].len() == 1);
        let suits = || self.nodes.is_empty() || self.nodes.iter().any(|masks| hold_surely(masks, spot.states));
        match spot.ground {
            Ground::Site(site) => is_settled && self.sites.contains(site),
            Ground::Template(template) => is_settled && self.templates.contains(template) && suits(),
        }
    }

    /// The ways to make it sure that a pod on such a machine to come counts. None when nothing is open.
    pub(crate) fn open_terms<'s>(
        &self,
        template: usize,
        at: impl Fn(Key) -> &'s Bits,
    ) -> impl Iterator<Item = &Vec<Mask>> {
        let is_sure = |masks: &Vec<Mask>| masks.iter().all(|mask| at(mask.key).is_subset(&mask.states));
        let is_open = self.templates.contains(template) && !self.nodes.iter().any(is_sure);
        let may_be = move |masks: &&Vec<Mask>| masks.iter().all(|mask| at(mask.key).intersects(&mask.states));
        self.nodes.iter().filter(move |_| is_open).filter(may_be)
    }

    /// A fresh host can nearly always be had, so the least count is zero; but where no new machine would count, or the pod
    /// cannot have one, it is that of the hosts that are there.
    pub(super) fn least_on_hosts(&self, domains: Domains) -> i64 {
        if domains == Domains::Reachable && !self.templates.is_empty() {
            return 0;
        }
        let claims = self.hosts.iter().enumerate().filter(|(_, counts)| **counts != Counts::No).map(|(place, _)| place);
        self.possible_sites.iter().chain(claims).map(|place| i64::from(self.surely_at(place))).min().unwrap_or(0)
    }

    /// Notes whether a claim counts as a host.
    pub(super) fn set_host(&mut self, spot: &Spot<'_>) {
        if self.hosts.len() <= spot.place {
            self.hosts.resize(spot.place + 1, Counts::No);
        }
        self.hosts[spot.place] = match (self.counts_at(spot), self.surely_counts_at(spot)) {
            (_, true) => Counts::Surely,
            (true, false) => Counts::Maybe,
            (false, false) => Counts::No,
        };
    }

    /// How many domains there are for sure.
    pub(super) fn settled_domains(&self) -> usize {
        if self.key.is_none() {
            return self.sites.len() + self.hosts.iter().filter(|counts| **counts == Counts::Surely).count();
        }
        self.settled.iter().filter(|state| *state != ABSENT).count()
    }

    pub(super) fn bump(&mut self, spot: &Spot<'_>, counter: Counter) {
        let counts = match counter {
            Counter::Selected => &mut self.selected,
            Counter::SurelySelected => &mut self.surely_selected,
            Counter::Owners => &mut self.owners,
        };
        let mut most = 0;
        match self.key {
            None => {
                if counts.len() <= spot.place {
                    counts.resize(spot.place + 1, 0);
                }
                counts[spot.place] += 1;
                most = counts[spot.place];
                if let Some(claim) = spot.place.checked_sub(self.site_count) {
                    crowd(&mut self.crowded[counter as usize], most, claim);
                }
            }
            // Where a label is still open the pod may come to stand in any of its states.
            Some(key) => {
                for state in spot.states[key].iter().filter(|state| *state != ABSENT) {
                    counts[state] += 1;
                    most = most.max(counts[state]);
                }
            }
        }
        if counter == Counter::Selected {
            self.fullest = self.fullest.max(most);
        }
    }

    /// Claims with so many pods; nobody is told where there are very many.
    pub(super) fn claims_with(&self, counter: Counter, count: usize) -> Option<&Bits> {
        self.crowded[counter as usize].get(count.checked_sub(1)?)
    }

    pub(super) fn surely_at(&self, domain: usize) -> u32 {
        self.surely_selected.get(domain).copied().unwrap_or(0)
    }

    pub(super) fn selected_at(&self, domain: usize) -> u32 {
        self.selected.get(domain).copied().unwrap_or(0)
    }

    pub(super) fn owners_at(&self, domain: usize) -> u32 {
        self.owners.get(domain).copied().unwrap_or(0)
    }
}

/// Notes that a claim has so many pods now.
fn crowd(crowded: &mut Vec<Bits>, count: u32, claim: usize) {
    if count > MOST_COUNTED {
        return;
    }
    if crowded.len() < count as usize {
        crowded.push(Bits::default());
    }
    let set = &mut crowded[count as usize - 1];
    set.grow(claim + 1);
    set.insert(claim);
}

impl Identity {
    fn company_keys(&self, world: &World<'_>) -> Vec<Key> {
        let Self::Near { company, .. } = self else { return Vec::new() };
        let names: BTreeSet<&Arc<str>> = company.terms.iter().map(|term| &term.key).collect();
        let keys = names.into_iter().map(|name| world.words.key(name).filter(|_| **name != *HOSTNAME));
        keys.collect::<Option<Vec<Key>>>().unwrap_or_default()
    }

    pub(super) fn key(&self) -> &Arc<str> {
        match self {
            Self::Spread { key, .. } | Self::Near { key, .. } => key,
            Self::Far { term } => &term.key,
        }
    }

    /// Whether it counts a pod. A selector that asks nothing selects everybody, yet for a spread the scheduler counts nobody.
    pub(super) fn selects(&self, namespace: &Namespace, labels: &Labels) -> bool {
        match self {
            Self::Spread { selector: Selector::Matching(asked), .. } if asked.is_empty() => false,
            Self::Spread { namespace: own, selector, .. } => own == namespace && selector.selects(labels),
            Self::Near { company, .. } => company.terms.iter().all(|term| term.selects(namespace, labels)),
            Self::Far { term } => term.selects(namespace, labels),
        }
    }
}

impl Group {
    /// Whether it counts by a label, and only on nodes that suit its pods.
    pub(crate) fn is_choosy(&self) -> bool {
        self.key.is_some() && !self.nodes.is_empty()
    }

    /// The label that it counts by, and those that decide whether a node counts.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Key> {
        self.key.into_iter().chain(self.nodes.iter().flatten().map(|mask| mask.key))
    }

    pub(super) fn is_spread(&self) -> bool {
        matches!(*self.identity, Identity::Spread { .. })
    }

    pub(crate) fn is_far(&self) -> bool {
        matches!(*self.identity, Identity::Far { .. })
    }

    pub(crate) fn key_name(&self) -> &Arc<str> {
        self.identity.key()
    }
}
