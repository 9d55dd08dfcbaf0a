//! Who stands where: counts of pods by domain, and what they allow.
//!
//! Every distinct constraint is one group with counters. Placing a pod adds to the counters of the groups that select it,
//! so a question about a domain is a look-up. A domain of the hostname is a place (a site, or a claim of this plan); of
//! any other key it is a state of the label.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use model::ids::{Namespace, PodName};
use model::labels::{HOSTNAME, Labels};
use model::pod::{Life, Pod};
use model::requirements::Requirements;
use model::taints::{Effect, Taint, Toleration, first_untolerated};
use model::topology::{PodTerm, Policy, Selector, Spread};

use super::bits::Bits;
use super::hash::Fnv;
use super::wishes::Wish;
use super::words::{ABSENT, Key, Mask, OTHER};
use super::world::{Site, World};

pub(crate) type GroupId = usize;

/// What makes two constraints the same. Everything that can change a count or a verdict is in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Identity {
    Spread {
        key: Arc<str>,
        namespace: Namespace,
        selector: Selector,
        /// The nodes that count, by the pod's own selector and terms.
        nodes: Option<(Requirements, Vec<Requirements>)>,
        tolerations: Option<Vec<Toleration>>,
    },
    /// Pods that all of these terms select, counted by one of their keys.
    Near {
        key: Arc<str>,
        terms: Vec<PodTerm>,
    },
    Far {
        term: PodTerm,
    },
}

/// Counters of one constraint.
pub(crate) struct Group {
    identity: Identity,
    /// `None` for the hostname.
    pub(crate) key: Option<Key>,
    /// Pods that the constraint selects, by domain; where it is open whether or where a pod counts, it does everywhere.
    selected: Vec<u32>,
    /// The same, without pods of which it is open.
    surely_selected: Vec<u32>,
    /// Pods that have the constraint, by domain; kept for required distance only.
    owners: Vec<u32>,
    /// All selected pods, wherever they are.
    total: u32,
    /// Sites that count; the others are as if they were not there.
    sites: Bits,
    /// Sites that may count: what they will be is still open.
    possible_sites: Bits,
    /// The label states of all of those.
    site_states: Bits,
    /// The states of sites that count for sure and can be in one only.
    settled_site_states: Bits,
    /// For nodes to come: templates whose nodes count, and what such a node must be, one of these.
    templates: Bits,
    nodes: Vec<Vec<Mask>>,
    /// Claims of the plan that count, by the states that their label may come to: each is a domain once the node is there.
    claims: Vec<u32>,
    /// The same for claims that count for sure, in the only state that their label can come to.
    settled_claims: Vec<u32>,
    /// What pods that are seated already rely on.
    relied_on: Option<Reliance>,
}

/// A seated pod's spread was judged by these domains. One more, with nobody in it, would have made a difference if some
/// domain holds more pods than the skew allows.
#[derive(Clone, Debug)]
struct Reliance {
    universe: Bits,
    max_skew: i64,
}

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
    },
    /// Some selected pod must be there; or nobody anywhere, if the pod would be its own company.
    Near { group: GroupId, is_own_company: bool },
    /// No selected pod may be there.
    Far { group: GroupId },
    /// No pod may be there that wants this one far away.
    Unwanted { group: GroupId },
}

/// All groups, and for each class of pods the groups that it counts in.
pub(crate) struct Topology {
    pub(crate) groups: Vec<Group>,
    index: BTreeMap<u64, Vec<GroupId>>,
}

/// Where a pod stands: a place, and the state of each label that a group asks for.
pub(crate) struct Spot<'s> {
    pub(crate) place: usize,
    pub(crate) ground: Ground,
    pub(crate) states: &'s [Bits],
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
        Self { groups: Vec::new(), index: BTreeMap::new() }
    }

    fn group(&mut self, world: &World<'_>, identity: Identity) -> GroupId {
        let mut hasher = Fnv::default();
        identity.hash(&mut hasher);
        let slot = self.index.entry(hasher.finish()).or_default();
        if let Some(known) = slot.iter().find(|group| self.groups[**group].identity == identity) {
            return *known;
        }
        let id = self.groups.len();
        slot.push(id);
        self.groups.push(Group::new(world, identity));
        id
    }

    /// The rules of one rung, given what the pod could reach.
    pub(crate) fn rules(&mut self, world: &World<'_>, pod: &Pod, wish: &Wish<'_>, reach: &Reach) -> Vec<Rule> {
        let mut rules = Vec::new();
        for spread in &wish.spread {
            rules.push(self.spread_rule(world, pod, spread, reach));
        }
        let is_own_company = wish.together.iter().all(|term| term.selects(pod.namespace(), &pod.labels));
        for term in wish.together {
            let group = self.group(world, Identity::Near { key: term.key.clone(), terms: wish.together.to_vec() });
            rules.push(Rule::Near { group, is_own_company });
        }
        for term in &wish.preferred_together {
            let is_own_company = term.selects(pod.namespace(), &pod.labels);
            let group = self.group(world, Identity::Near { key: term.key.clone(), terms: vec![(*term).clone()] });
            rules.push(Rule::Near { group, is_own_company });
        }
        for term in &wish.apart {
            let group = self.group(world, Identity::Far { term: (*term).clone() });
            rules.push(Rule::Far { group });
        }
        rules
    }

    fn spread_rule(&mut self, world: &World<'_>, pod: &Pod, spread: &Spread, reach: &Reach) -> Rule {
        let honors_nodes = spread.node_affinity == Policy::Honor;
        let identity = Identity::Spread {
            key: spread.key.clone(),
            namespace: pod.namespace().clone(),
            selector: spread.selector.clone(),
            nodes: honors_nodes.then(|| (pod.wants.selector.clone(), pod.wants.terms.clone())),
            tolerations: (spread.node_taints == Policy::Honor).then(|| pod.wants.tolerations.clone()),
        };
        let group = self.group(world, identity);
        let mut universe = Bits::default();
        if let Some(key) = self.groups[group].key {
            universe = reach.states(world, key);
            universe.add_all(&self.groups[group].site_states);
        }
        Rule::Spread {
            group,
            max_skew: i64::from(spread.max_skew.max(1)),
            min_domains: spread.min_domains.and_then(|least| usize::try_from(least).ok()),
            adds: i64::from(spread.selector.selects(&pod.labels)),
            universe,
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

    /// Makes the groups of pods that stand already: their required distance binds newcomers too.
    pub(crate) fn meet_standing(&mut self, world: &World<'_>) {
        for pod in world.snapshot.pods.values().filter(|pod| pod.node.is_some() && pod.life == Life::Active) {
            self.owned(world, pod);
        }
    }

    /// Counts the pods that stand already. Pods of the question are on their way and do not count where they were.
    pub(crate) fn count_standing(&mut self, world: &World<'_>) {
        let moving: BTreeSet<&PodName> = world.pods.iter().map(|pod| &pod.name).collect();
        let sites: BTreeMap<_, usize> = world.sites.iter().enumerate().map(|(i, site)| (&site.node.name, i)).collect();
        let standing =
            world.snapshot.pods.values().filter(|pod| pod.life == Life::Active && !moving.contains(&pod.name));
        for pod in standing {
            let Some(site) = pod.node.as_ref().and_then(|node| sites.get(node)).copied() else { continue };
            let owns = self.owned(world, pod);
            let footprint = Footprint { counted_in: self.counting(pod.namespace(), &pod.labels), owns };
            self.add(&footprint, &Spot { place: site, ground: Ground::Site(site), states: &world.sites[site].states });
        }
    }

    /// Adds a pod to the counters.
    pub(crate) fn add(&mut self, footprint: &Footprint, spot: &Spot<'_>) {
        for id in &footprint.counted_in {
            self.groups[*id].total += 1;
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
            let Rule::Spread { group, max_skew, universe, .. } = rule else { continue };
            let group = &mut self.groups[*group];
            if group.key.is_none() {
                continue;
            }
            let domains = group.domains(universe);
            match &mut group.relied_on {
                Some(reliance) => {
                    reliance.universe.keep(&domains);
                    reliance.max_skew = reliance.max_skew.min(*max_skew);
                }
                none => *none = Some(Reliance { universe: domains, max_skew: *max_skew }),
            }
        }
    }

    /// Domains that a claim may not add, because seated pods were judged without them: the key and what is left of it.
    pub(crate) fn closed_domains(&self, template: usize) -> impl Iterator<Item = (Key, &Bits)> {
        self.groups.iter().filter(move |group| group.templates.contains(template)).filter_map(|group| {
            let reliance = group.relied_on.as_ref()?;
            let fullest = group.selected.iter().max().copied().unwrap_or(0);
            (i64::from(fullest) > reliance.max_skew).then_some((group.key?, &reliance.universe))
        })
    }

    /// Tells every spread what domains a claim may stand for now, instead of before.
    pub(crate) fn reshape(&mut self, template: usize, before: Option<&[Bits]>, after: &[Bits]) {
        for group in self.groups.iter_mut().filter(|group| matches!(group.identity, Identity::Spread { .. })) {
            let Some(key) = group.key else { continue };
            let counts =
                |states: &[Bits]| group.counts_at(&Spot { place: 0, ground: Ground::Template(template), states });
            let surely = |states: &[Bits]| {
                group.surely_counts_at(&Spot { place: 0, ground: Ground::Template(template), states })
            };
            let (was, was_sure) = (before.filter(|states| counts(states)), before.filter(|states| surely(states)));
            let (is, is_sure) = (counts(after), surely(after));
            if let Some(before) = was {
                before[key].iter().for_each(|state| group.claims[state] -= 1);
            }
            if let Some(before) = was_sure {
                before[key].iter().for_each(|state| group.settled_claims[state] -= 1);
            }
            if is {
                after[key].iter().for_each(|state| group.claims[state] += 1);
            }
            if is_sure {
                after[key].iter().for_each(|state| group.settled_claims[state] += 1);
            }
        }
    }

    /// Whether a rule holds on a spot whose labels are settled.
    pub(crate) fn holds(&self, rule: &Rule, spot: &Spot<'_>) -> bool {
        let group = &self.groups[rule.group()];
        match group.key {
            None => self.holds_on_host(rule, spot.place),
            Some(key) => spot.states[key].is_subset(&self.allowed(rule)),
        }
    }

    pub(crate) fn holds_on_host(&self, rule: &Rule, place: usize) -> bool {
        let group = &self.groups[rule.group()];
        match rule {
            // A fresh host can always be had, so the least count is zero.
            Rule::Spread { max_skew, adds, .. } => i64::from(group.selected_at(place)) + adds <= *max_skew,
            Rule::Near { is_own_company, .. } => group.surely_at(place) > 0 || (*is_own_company && group.total == 0),
            Rule::Far { .. } => group.selected_at(place) == 0,
            Rule::Unwanted { .. } => group.owners_at(place) == 0,
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
        let Rule::Spread { group, min_domains, universe, .. } = rule else { return 0 };
        let group = &self.groups[*group];
        if group.key.is_none() {
            return 0;
        }
        if min_domains.is_some_and(|wanted| group.settled_domains() < wanted) {
            return 0;
        }
        group.domains(universe).iter().map(|state| i64::from(group.surely_at(state))).min().unwrap_or(0)
    }

    pub(crate) fn count(&self, group: GroupId, state: usize) -> u32 {
        self.groups[group].selected_at(state)
    }
}

impl Rule {
    pub(crate) fn group(&self) -> GroupId {
        match self {
            Self::Spread { group, .. } | Self::Near { group, .. } | Self::Far { group } | Self::Unwanted { group } => {
                *group
            }
        }
    }
}

/// The label states that a pod could get on a new node.
pub(crate) struct Reach {
    pub(crate) states: Vec<Bits>,
}

impl Reach {
    fn states(&self, world: &World<'_>, key: Key) -> Bits {
        let mut states = self.states[key].clone();
        states.keep(&world.words.named(key));
        states
    }
}

enum Counter {
    Selected,
    SurelySelected,
    Owners,
}

impl Group {
    fn new(world: &World<'_>, identity: Identity) -> Self {
        let key_name = identity.key();
        let key = if **key_name == *HOSTNAME { None } else { world.words.key(key_name) };
        let size = key.map_or(world.sites.len(), |key| world.words.state_count(key));
        let mut group = Self {
            key,
            selected: vec![0; size],
            surely_selected: vec![0; size],
            owners: vec![0; size],
            total: 0,
            sites: Bits::full(world.sites.len()),
            possible_sites: Bits::full(world.sites.len()),
            site_states: Bits::empty(size),
            settled_site_states: Bits::empty(size),
            templates: Bits::full(world.templates.len()),
            nodes: Vec::new(),
            claims: vec![0; if key.is_some() { size } else { 0 }],
            settled_claims: vec![0; if key.is_some() { size } else { 0 }],
            relied_on: None,
            identity,
        };
        group.restrict(world);
        if let Some(key) = key {
            group.site_states = group.states_of_sites(world, key);
            for site in group.sites.iter().map(|site| &world.sites[site].states[key]).filter(|states| states.len() == 1)
            {
                group.settled_site_states.add_all(site);
            }
        }
        group
    }

    /// Leaves out sites that the spread's own policies leave out.
    fn restrict(&mut self, world: &World<'_>) {
        let Identity::Spread { nodes, tolerations, .. } = &self.identity else { return };
        if let Some((selector, terms)) = nodes {
            let alternatives: Vec<Requirements> = if terms.is_empty() {
                vec![selector.clone()]
            } else {
                terms.iter().map(|term| selector.intersection(term)).collect()
            };
            self.nodes = alternatives.iter().map(|requirements| world.words.masks(requirements)).collect();
        }
        let suits = |states: &[Bits]| {
            self.nodes.is_empty()
                || self.nodes.iter().any(|masks| masks.iter().all(|mask| states[mask.key].is_subset(&mask.states)))
        };
        let may_suit = |states: &[Bits]| {
            self.nodes.is_empty()
                || self.nodes.iter().any(|masks| masks.iter().all(|mask| states[mask.key].intersects(&mask.states)))
        };
        let tolerated = |taints: &[Taint]| {
            tolerations.as_ref().is_none_or(|tolerations| {
                let hard: Vec<Taint> =
                    taints.iter().filter(|t| t.effect != Effect::PreferNoSchedule).cloned().collect();
                first_untolerated(&hard, tolerations).is_none()
            })
        };
        // A claim whose node has not come yet counts as well: by the time pods are bound to it, it is a node.
        let counts = |site: &Site<'_>| suits(&site.states) && tolerated(&site.node.taints);
        let may_count = |site: &Site<'_>| may_suit(&site.states) && tolerated(&site.node.taints);
        self.sites.retain(|site| counts(&world.sites[site]));
        self.possible_sites.retain(|site| may_count(&world.sites[site]));
        self.templates.retain(|template| tolerated(&world.templates[template].pool.template.taints));
    }

    fn states_of_sites(&self, world: &World<'_>, key: Key) -> Bits {
        let mut states = Bits::empty(world.words.state_count(key));
        for site in self.possible_sites.iter() {
            states.add_all(&world.sites[site].states[key]);
        }
        states.remove(ABSENT);
        states
    }

    /// The domains of a spread: those that the pod could reach, and those that claims of the plan will make.
    fn domains(&self, universe: &Bits) -> Bits {
        let mut domains = universe.clone();
        for (state, claims) in self.claims.iter().enumerate().skip(OTHER + 1) {
            if *claims > 0 {
                domains.insert(state);
            }
        }
        domains
    }

    fn counts_at(&self, spot: &Spot<'_>) -> bool {
        match spot.ground {
            Ground::Site(site) => self.possible_sites.contains(site),
            Ground::Template(template) if !self.templates.contains(template) => false,
            Ground::Template(_) => {
                self.nodes.is_empty()
                    || self.nodes.iter().any(|masks| masks.iter().all(|m| spot.states[m.key].intersects(&m.states)))
            }
        }
    }

    /// Whether a pod there counts whatever the open labels come to.
    fn surely_counts_at(&self, spot: &Spot<'_>) -> bool {
        let is_settled = self.key.is_none_or(|key| spot.states[key].len() == 1);
        let suits = || {
            let fits = |masks: &Vec<Mask>| masks.iter().all(|mask| spot.states[mask.key].is_subset(&mask.states));
            self.nodes.is_empty() || self.nodes.iter().any(fits)
        };
        match spot.ground {
            Ground::Site(site) => is_settled && self.sites.contains(site),
            Ground::Template(template) => is_settled && self.templates.contains(template) && suits(),
        }
    }

    /// How many domains there are for sure.
    fn settled_domains(&self) -> usize {
        let mut domains = self.settled_site_states.clone();
        for (state, claims) in self.settled_claims.iter().enumerate() {
            if *claims > 0 {
                domains.insert(state);
            }
        }
        domains.remove(ABSENT);
        domains.len()
    }

    fn bump(&mut self, spot: &Spot<'_>, counter: Counter) {
        let counts = match counter {
            Counter::Selected => &mut self.selected,
            Counter::SurelySelected => &mut self.surely_selected,
            Counter::Owners => &mut self.owners,
        };
        match self.key {
            None => {
                if counts.len() <= spot.place {
                    counts.resize(spot.place + 1, 0);
                }
                counts[spot.place] += 1;
            }
            // Where a label is still open the pod may come to stand in any of its states.
            Some(key) => spot.states[key].iter().filter(|state| *state != ABSENT).for_each(|state| counts[state] += 1),
        }
    }

    fn surely_at(&self, domain: usize) -> u32 {
        self.surely_selected.get(domain).copied().unwrap_or(0)
    }

    fn selected_at(&self, domain: usize) -> u32 {
        self.selected.get(domain).copied().unwrap_or(0)
    }

    fn owners_at(&self, domain: usize) -> u32 {
        self.owners.get(domain).copied().unwrap_or(0)
    }
}

impl Identity {
    fn key(&self) -> &Arc<str> {
        match self {
            Self::Spread { key, .. } | Self::Near { key, .. } => key,
            Self::Far { term } => &term.key,
        }
    }

    fn selects(&self, namespace: &Namespace, labels: &Labels) -> bool {
        match self {
            Self::Spread { namespace: own, selector, .. } => own == namespace && selector.selects(labels),
            Self::Near { terms, .. } => terms.iter().all(|term| term.selects(namespace, labels)),
            Self::Far { term } => term.selects(namespace, labels),
        }
    }
}

impl Group {
    pub(crate) fn is_far(&self) -> bool {
        matches!(self.identity, Identity::Far { .. })
    }

    pub(crate) fn key_name(&self) -> &Arc<str> {
        self.identity.key()
    }
}
