//! What nodes are to a kind of demands, whoever stands on them.

use std::sync::Arc;

use model::labels::Labels;
use model::pod::{Pod, Weighted};
use model::requirements::Requirements;
use model::taints::{Taint, Toleration};
use model::topology::Policy;

use super::board::{Board, Facts, Slot};
use super::class::ClassId;
use super::numbered::{Numbered, hash_of};
use super::reasons::Refusal;

pub(super) type GroundId = usize;

/// Everything that pods ask of a node's labels and taints.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Demands {
    selector: Requirements,
    terms: Vec<Requirements>,
    preferred: Vec<Weighted<Requirements>>,
    tolerations: Vec<Toleration>,
    volume_places: Vec<Requirements>,
    has_resource_claims: bool,
    /// Of each spread what decides which nodes take part.
    spreads: Vec<Partakers>,
    /// Whether a node without the label of one soft spread is left out by all of them.
    needs_all_keys: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Partakers {
    key: Arc<str>,
    is_soft: bool,
    node_affinity: Policy,
    node_taints: Policy,
}

/// One node, seen so.
#[derive(Clone, Copy, Default)]
pub(super) struct Spot {
    seen: u64,
    /// What keeps pods off before anybody looks at who stands there.
    pub(super) refusal: Option<Refusal>,
    pub(super) is_reachable: bool,
    /// Soft taints that are not tolerated.
    pub(super) disliked: u32,
    /// The weight of preferred terms that hold.
    pub(super) preferred: i64,
    /// A bit for each spread that counts the node.
    pub(super) partakes: u64,
    /// Whether soft spreads give it points at all.
    pub(super) has_soft_keys: bool,
}

pub(super) struct Ground {
    demands: Demands,
    spots: Vec<Spot>,
    position: u64,
}

#[derive(Default)]
pub(super) struct Grounds(Numbered<Ground>);

impl Grounds {
    pub(super) fn take(&mut self, demands: Demands) -> GroundId {
        let hash = hash_of(&demands);
        let known = self.0.join(hash, |ground| ground.demands == demands);
        known.unwrap_or_else(|| self.0.add(hash, Ground { demands, spots: Vec::new(), position: 0 }))
    }

    pub(super) fn drop_user(&mut self, id: GroundId) {
        self.0.leave(id);
    }

    pub(super) fn spots(&self, id: GroundId) -> &[Spot] {
        self.0.get(id).map_or(&[], |ground| &ground.spots)
    }
}

impl Board {
    /// Looks again at nodes that have changed.
    pub(super) fn refresh_ground(&mut self, class: ClassId) -> GroundId {
        let id = self.ground_of(class);
        let Some(Ground { demands, spots, position }) = self.grounds.0.get_mut(id) else { return id };
        spots.resize(self.seats.len(), Spot::default());
        let mut look = |slot: Slot| {
            let seat = self.seats[slot].as_ref();
            let version = seat.map_or(0, |seat| seat.version);
            if spots[slot].seen != version || version == 0 {
                let facts = seat.and_then(|seat| seat.facts.as_ref());
                spots[slot] = facts.map_or(Spot::default(), |facts| demands.spot(facts));
                spots[slot].seen = version;
            }
        };
        match self.log.since(*position) {
            Some(changed) => changed.for_each(&mut look),
            None => (0..self.seats.len()).for_each(&mut look),
        }
        *position = self.log.end();
        id
    }
}

impl Demands {
    pub(super) fn of(pod: &Pod, needs_all_keys: bool) -> Self {
        let wants = &pod.wants;
        let partakers = wants.spread.iter().map(|spread| Partakers {
            key: spread.key.clone(),
            is_soft: spread.mode == model::topology::SpreadMode::ScheduleAnyway,
            node_affinity: spread.node_affinity,
            node_taints: spread.node_taints,
        });
        Self {
            selector: wants.selector.clone(),
            terms: wants.terms.clone(),
            preferred: wants.preferred_nodes.clone(),
            tolerations: wants.tolerations.clone(),
            volume_places: wants.volumes.alternatives.clone(),
            has_resource_claims: wants.has_resource_claims,
            spreads: partakers.collect(),
            needs_all_keys,
        }
    }

    fn spot(&self, facts: &Facts) -> Spot {
        let labels = &facts.labels;
        let is_tolerated = facts.hard.iter().all(|taint| self.tolerates(taint));
        let is_wanted = self.wants(labels);
        let refusal = if self.has_resource_claims {
            Some(Refusal::ResourceClaims)
        } else if facts.is_cordoned && !self.tolerates_cordon(facts) {
            Some(Refusal::Unschedulable)
        } else if !is_tolerated {
            Some(Refusal::Taint)
        } else {
            (!is_wanted).then_some(Refusal::NodeAffinity)
        };
        let met = self.preferred.iter().filter(|preferred| matches_term(&preferred.item, labels));
        let places = &self.volume_places;
        let has_keys = |is_soft: bool| {
            self.spreads
                .iter()
                .filter(|spread| spread.is_soft == is_soft)
                .all(|spread| labels.contains_key(&spread.key))
        };
        let (has_hard_keys, has_soft_keys) = (has_keys(false), !self.needs_all_keys || has_keys(true));
        let partakes = |spread: &Partakers| {
            let has_keys = if spread.is_soft { has_soft_keys } else { has_hard_keys };
            has_keys
                && (spread.node_affinity == Policy::Ignore || is_wanted)
                && (spread.node_taints == Policy::Ignore || is_tolerated)
        };
        let bits = self
            .spreads
            .iter()
            .enumerate()
            .filter(|(_, spread)| partakes(spread))
            .map(|(place, _)| 1_u64 << place.min(63));
        Spot {
            seen: 0,
            refusal,
            // Unlike a term of node affinity, a place without demands is everywhere.
            is_reachable: places.is_empty() || places.iter().any(|place| is_met(place, labels)),
            disliked: u32::try_from(facts.soft.iter().filter(|taint| !self.tolerates(taint)).count())
                .unwrap_or(u32::MAX),
            preferred: met.map(|preferred| i64::from(preferred.weight)).sum(),
            partakes: bits.fold(0, |all, bit| all | bit),
            has_soft_keys,
        }
    }

    fn tolerates(&self, taint: &Taint) -> bool {
        self.tolerations.iter().any(|toleration| toleration.tolerates(taint))
    }

    fn tolerates_cordon(&self, facts: &Facts) -> bool {
        let cordon = facts.hard.iter().find(|taint| *taint.key == *super::CORDON);
        cordon.is_some_and(|taint| self.tolerates(taint))
    }

    /// The node selector, and one of the required terms.
    fn wants(&self, labels: &Labels) -> bool {
        is_met(&self.selector, labels)
            && (self.terms.is_empty() || self.terms.iter().any(|term| matches_term(term, labels)))
    }
}

/// A term without demands selects no node, by Kubernetes' decree.
fn matches_term(term: &Requirements, labels: &Labels) -> bool {
    !term.is_empty() && is_met(term, labels)
}

fn is_met(requirements: &Requirements, labels: &Labels) -> bool {
    requirements.iter().all(|(key, requirement)| match labels.get(key) {
        Some(value) => requirement.has(value),
        None => requirement.allows_absent(),
    })
}
