//! How many pods of some sort stand on each node, kept up to date pod by pod.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use model::ids::Namespace;
use model::pod::{Life, Pod};
use model::requirements::Requirements;
use model::topology::{PodTerm, Selector};

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
    users: usize,
}

#[derive(Default)]
pub(super) struct Counters {
    all: Vec<Option<Counter>>,
    unused: Vec<CounterId>,
    by_hash: BTreeMap<u64, Vec<CounterId>>,
    /// Counters of wishes; whoever comes must look at all of them.
    owners: Vec<CounterId>,
    /// Grows whenever `owners` changes.
    pub(super) owners_version: u64,
}

/// The same for equal values in every run and on every machine.
pub(super) fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl Counters {
    /// The counter of a matcher, with one user more, and whether it is new and has counted nobody yet.
    pub(super) fn take(&mut self, matcher: &Matcher) -> (CounterId, bool) {
        let hash = hash_of(matcher);
        let known = self.by_hash.get(&hash).into_iter().flatten().copied();
        for id in known {
            if let Some(counter) = self.all[id].as_mut().filter(|counter| counter.matcher == *matcher) {
                counter.users += 1;
                return (id, false);
            }
        }
        let counter = Counter { matcher: matcher.clone(), by_slot: Vec::new(), users: 1 };
        let id = self.unused.pop().unwrap_or(self.all.len());
        if id == self.all.len() {
            self.all.push(Some(counter));
        } else {
            self.all[id] = Some(counter);
        }
        self.by_hash.entry(hash).or_default().push(id);
        if matches!(matcher, Matcher::Owners(_)) {
            self.owners.push(id);
            self.owners_version += 1;
        }
        (id, true)
    }

    /// One user less; says whether the counter is gone.
    pub(super) fn drop_user(&mut self, id: CounterId) -> bool {
        let Some(counter) = self.all[id].as_mut() else { return false };
        counter.users -= 1;
        if counter.users > 0 {
            return false;
        }
        let hash = hash_of(&counter.matcher);
        self.all[id] = None;
        self.unused.push(id);
        if let Some(ids) = self.by_hash.get_mut(&hash) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_hash.remove(&hash);
            }
        }
        if self.owners.contains(&id) {
            self.owners.retain(|other| *other != id);
            self.owners_version += 1;
        }
        true
    }

    pub(super) fn add(&mut self, id: CounterId, slot: usize, change: i32) {
        let Some(counter) = self.all[id].as_mut() else { return };
        if counter.by_slot.len() <= slot {
            counter.by_slot.resize(slot + 1, 0);
        }
        counter.by_slot[slot] = counter.by_slot[slot].saturating_add_signed(change);
    }

    /// By slot; slots past the end have nobody.
    pub(super) fn by_slot(&self, id: CounterId) -> &[u32] {
        self.all[id].as_ref().map_or(&[], |counter| &counter.by_slot)
    }

    /// Those that count pods by what is asked about them, not by what they ask.
    pub(super) fn asked(&self) -> impl Iterator<Item = (CounterId, &Matcher)> {
        let all = self.all.iter().enumerate().filter_map(|(id, counter)| Some((id, &counter.as_ref()?.matcher)));
        all.filter(|(_, matcher)| !matches!(matcher, Matcher::Owners(_)))
    }

    /// The wishes of standing pods.
    pub(super) fn wishes(&self) -> impl Iterator<Item = (CounterId, &Wish)> {
        self.owners.iter().filter_map(|id| match &self.all[*id].as_ref()?.matcher {
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
