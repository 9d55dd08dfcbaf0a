//! Pods that are alike in everything that matters, answered for once.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::rc::Rc;

use model::labels::HOSTNAME;
use model::pod::{Pod, soft_taint_toleration};
use model::requirements::Requirements;
use model::taints::Toleration;
use model::topology::PodTerm;

use super::limits::Limits;
use super::reach::{Reach, Reaches};
use super::topology::{Footprint, GroupId, Rule, SpreadGroups, Topology};
use super::wishes::{Domains, Wish, ladder};
use super::words::{Key, Mask};
use super::world::World;

/// Pods of one namespace with equal labels, requests and wants: a manner and a size.
pub(crate) struct Class<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) requests: Vec<i64>,
    manner: Rc<Manner>,
}

/// What pods of equal namespace, labels and wants ask of nodes and of each other, whatever their size.
pub(crate) struct Manner {
    /// The first class of this manner; it speaks for all of them.
    pub(crate) spokesman: usize,
    pub(crate) rungs: Vec<Rung>,
    pub(crate) footprint: Footprint,
    /// Rules by which others keep a pod of this class away.
    pub(crate) unwanted: Vec<Rule>,
    /// Whether no two of its pods may share a host.
    pub(crate) is_alone: bool,
    /// Spreads by a label that select the pod, but count it only on some nodes.
    pub(crate) choosy: Vec<GroupId>,
}

/// One rung of the ladder, in numbers.
pub(crate) struct Rung {
    pub(crate) labels: Requirements,
    pub(crate) masks: Vec<Mask>,
    /// Where the volumes can be: one of these; a pod without such volumes has one that asks nothing.
    pub(crate) places: Vec<Place>,
    pub(crate) tolerations: Vec<Toleration>,
    pub(crate) rules: Vec<Rule>,
    domains: Domains,
    /// Keys that some group counts the pod by, or that its rules speak of.
    pub(crate) keys: Vec<Key>,
}

/// One place where the volumes can be.
pub(crate) struct Place {
    pub(crate) requirements: Requirements,
    pub(crate) masks: Vec<Mask>,
    /// The number of everything that is asked of labels there, and what that is.
    pub(crate) set: usize,
    pub(crate) all_masks: Vec<Mask>,
}

/// Numbers for sets of masks; many classes ask the same.
#[derive(Default)]
struct MaskSets(BTreeMap<Vec<Mask>, usize>);

impl MaskSets {
    fn number(&mut self, masks: &[Mask]) -> usize {
        let next = self.0.len();
        *self.0.entry(masks.to_vec()).or_insert(next)
    }
}

/// Makes a class of each kind of pods. What does not depend on size is worked out once for each manner.
pub(crate) fn classify<'a>(world: &World<'a>, limits: &Limits, topology: &mut Topology) -> Vec<Class<'a>> {
    let has_soft_taints = world.has_soft_taints();
    let mut sets = MaskSets::default();
    let mut reaches = Reaches::default();
    let manner = |pod: &&'a Pod| {
        let wishes = ladder(&pod.wants, world.snapshot.policy.preferences, has_soft_taints);
        Manner::new(world, limits, topology, pod, &wishes, (&mut sets, &mut reaches))
    };
    let kinds = &world.kinds;
    let mut manners: Vec<Manner> = kinds.first_of_manner.iter().map(manner).collect();
    for (class, manner) in kinds.manner_of.iter().enumerate().rev() {
        manners[*manner].spokesman = class;
    }
    topology.meet_standing(world);
    // Only now are all groups known, so only now can be said who counts in which.
    for (manner, pod) in manners.iter_mut().zip(&kinds.first_of_manner) {
        manner.meet(topology, pod);
    }
    let manners: Vec<Rc<Manner>> = manners.into_iter().map(Rc::new).collect();
    let classes = kinds.first.iter().zip(&kinds.manner_of).map(|(pod, manner)| {
        // Nobody brings room along: a negative request is none.
        Class { pod, requests: world.amounts(&pod.requests.floored()), manner: manners[*manner].clone() }
    });
    classes.collect()
}

/// A class is spoken of as if it were its manner.
impl Deref for Class<'_> {
    type Target = Manner;

    fn deref(&self) -> &Manner {
        &self.manner
    }
}

impl Manner {
    fn new<'a>(
        world: &World<'a>,
        limits: &Limits,
        topology: &mut Topology,
        pod: &'a Pod,
        wishes: &[Wish<'_>],
        (sets, reaches): (&mut MaskSets, &mut Reaches<'a>),
    ) -> Self {
        // Only spreads ask how far a pod can reach.
        let spreads = wishes.iter().any(|wish| !wish.spread.is_empty());
        let reach = if spreads { reaches.of(world, limits, pod) } else { Rc::default() };
        // The first wish has all spreads that any has.
        let groups = topology.spread_groups(world, pod, wishes.first().map_or(&[], |wish| &wish.spread));
        let rungs = wishes.iter().map(|wish| Rung::new(world, topology, pod, wish, (&groups, &reach), sets)).collect();
        let footprint = Footprint { counted_in: Vec::new(), owns: topology.owned(world, pod) };
        let keeps_off = |term: &PodTerm| *term.key == *HOSTNAME && term.selects(pod.namespace(), &pod.labels);
        let is_alone = pod.wants.apart.iter().any(keeps_off);
        Self { spokesman: 0, rungs, footprint, unwanted: Vec::new(), is_alone, choosy: Vec::new() }
    }

    /// Learns which groups count its pods, once all of them are known.
    fn meet(&mut self, topology: &Topology, pod: &Pod) {
        let groups = &topology.groups;
        self.footprint.counted_in = topology.counting(pod.namespace(), &pod.labels);
        let counted = &self.footprint.counted_in;
        self.unwanted =
            counted.iter().filter(|id| groups[**id].is_far()).map(|id| Rule::Unwanted { group: *id }).collect();
        self.choosy = counted.iter().copied().filter(|id| groups[*id].is_choosy()).collect();
        for rung in &mut self.rungs {
            let of_rules = rung.rules.iter().map(Rule::group);
            let all = counted.iter().chain(&self.footprint.owns).copied().chain(of_rules);
            let keys: BTreeSet<Key> = all.filter_map(|group| groups[group].key).collect();
            rung.keys = keys.into_iter().collect();
        }
    }
}

impl Manner {
    /// What the pod asks of labels, as a number that pods which ask the same share.
    pub(crate) fn set(&self) -> usize {
        self.rungs[self.least_demanding()].places[0].set
    }

    /// The number of the rung on which the pod asks for nothing but what it insists on. Reasons speak of that one.
    pub(crate) fn least_demanding(&self) -> usize {
        let all = self.rungs.iter();
        all.filter(|rung| rung.domains == Domains::Reachable).count().saturating_sub(1)
    }
}

impl Rung {
    fn new(
        world: &World<'_>,
        topology: &mut Topology,
        pod: &Pod,
        wish: &Wish<'_>,
        reach: (&SpreadGroups, &Reach),
        sets: &mut MaskSets,
    ) -> Self {
        let masks = world.words.masks(&wish.labels);
        let mut tolerations = pod.wants.tolerations.clone();
        if wish.tolerates_soft_taints {
            tolerations.push(soft_taint_toleration());
        }
        let rules = topology.rules(world, pod, wish, reach);
        let mut place = |requirements: &Requirements| {
            let own = world.words.masks(requirements);
            let all_masks = [masks.clone(), own.clone()].concat();
            Place { requirements: requirements.clone(), masks: own, set: sets.number(&all_masks), all_masks }
        };
        let alternatives = &pod.wants.volumes.alternatives;
        let places = match alternatives.is_empty() {
            true => vec![place(&Requirements::default())],
            false => alternatives.iter().map(place).collect(),
        };
        let (labels, domains) = (wish.labels.clone(), wish.domains);
        Self { labels, masks, places, tolerations, rules, domains, keys: Vec::new() }
    }
}
