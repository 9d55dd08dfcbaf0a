//! How many pods of some sort stand on each node, kept up to date pod by pod.

use model::ids::Namespace;
use model::pod::{Life, Pod};
use model::requirements::Requirements;
use model::topology::{PodTerm, Selector};

use super::numbered::{Numbered, hash_of};

pub(super) type CounterId = usize;

/// Which pods are counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Matcher {
    /// Those that a spread of a pod of this namespace counts.
    Spread { namespace: Namespace, selector: Selector },
    /// Those that all of these terms select at once.
    Terms(Vec<PodTerm>),
    /// Those that have this wish themselves.
    Owners(Wish),
}

/// A wish of a standing pod about pods to come.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wish {
    pub(super) term: PodTerm,
    pub(super) kind: WishKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum WishKind {
    /// Must not come near.
    Apart,
    /// Changes the score by this much.
    Weight(i64),
}

/// A number for each slot.
pub(super) struct Counter {
    pub(super) matcher: Matcher,
    by_slot: Vec<u32>,
}

#[derive(Default)]
pub(super) struct Counters {
    all: Numbered<Counter>,
    /// Counters of wishes; whoever comes must look at all of them.
    owners: Vec<CounterId>,
    /// Grows whenever `owners` changes.
    pub(super) owners_version: u64,
}

impl Counters {
    /// The counter of a matcher, with one user more, and whether it is new and has counted nobody yet.
    pub(super) fn take(&mut self, matcher: &Matcher) -> (CounterId, bool) {
        let hash = hash_of(matcher);
        if let Some(id) = self.all.join(hash, |counter| counter.matcher == *matcher) {
            return (id, false);
        }
        let id = self.all.add(hash, Counter { matcher: matcher.clone(), by_slot: Vec::new() });
        if matches!(matcher, Matcher::Owners(_)) {
            self.owners.push(id);
            self.owners_version += 1;
        }
        (id, true)
    }

    /// One user less; says whether the counter is gone.
    pub(super) fn drop_user(&mut self, id: CounterId) -> bool {
        if self.all.leave(id).is_none() {
            return false;
        }
        if self.owners.contains(&id) {
            self.owners.retain(|other| *other != id);
            self.owners_version += 1;
        }
        true
    }

    pub(super) fn add(&mut self, id: CounterId, slot: usize, change: i32) {
        let Some(counter) = self.all.get_mut(id) else { return };
        if counter.by_slot.len() <= slot {
            counter.by_slot.resize(slot + 1, 0);
        }
        counter.by_slot[slot] = counter.by_slot[slot].saturating_add_signed(change);
    }

    /// By slot; slots past the end have nobody.
    pub(super) fn by_slot(&self, id: CounterId) -> &[u32] {
        self.all.get(id).map_or(&[], |counter| &counter.by_slot)
    }

    /// Those that count pods by what is asked about them, not by what they ask.
    pub(super) fn asked(&self) -> impl Iterator<Item = (CounterId, &Matcher)> {
        let all = self.all.iter().map(|(id, counter)| (id, &counter.matcher));
        all.filter(|(_, matcher)| !matches!(matcher, Matcher::Owners(_)))
    }

    /// The wishes of standing pods.
    pub(super) fn wishes(&self) -> impl Iterator<Item = (CounterId, &Wish)> {
        self.owners.iter().filter_map(|id| match &self.all.get(*id)?.matcher {
            Matcher::Owners(wish) => Some((*id, wish)),
            _ => None,
        })
    }
}

impl Matcher {
    /// Whether a standing pod is counted. Owners are told by the pod itself, see [`wishes_of`].
    pub(super) fn counts(&self, pod: &Pod) -> bool {
        match self {
            Self::Spread { namespace, selector } => {
                // A selector without demands selects every pod, yet kube-scheduler counts none for it.
                let asks_nothing = matches!(selector, Selector::Matching(demands) if Requirements::is_empty(demands));
                !asks_nothing
                    && pod.life == Life::Active
                    && pod.name.namespace == *namespace
                    && selector.selects(&pod.labels)
            }
            Self::Terms(terms) => matches_all(terms, pod),
            Self::Owners(_) => false,
        }
    }
}

/// No terms are matched by nobody.
pub(super) fn matches_all(terms: &[PodTerm], pod: &Pod) -> bool {
    !terms.is_empty() && terms.iter().all(|term| term.selects(&pod.name.namespace, &pod.labels))
}

/// kube-scheduler's weight for the required affinity of pods that stand already towards the one that comes.
const REQUIRED_AFFINITY_WEIGHT: i64 = 1;

/// What a pod will wish of those who come after it.
pub(super) fn wishes_of(pod: &Pod) -> Vec<Wish> {
    let wants = &pod.wants;
    let wish = |term: &PodTerm, kind: WishKind| Wish { term: term.clone(), kind };
    let apart = wants.apart.iter().map(|term| wish(term, WishKind::Apart));
    let near = wants.together.iter().map(|term| wish(term, WishKind::Weight(REQUIRED_AFFINITY_WEIGHT)));
    let likes = wants.preferred_together.iter().map(|one| wish(&one.item, WishKind::Weight(i64::from(one.weight))));
    let dislikes = wants.preferred_apart.iter().map(|one| wish(&one.item, WishKind::Weight(-i64::from(one.weight))));
    apart.chain(near).chain(likes).chain(dislikes).collect()
}
