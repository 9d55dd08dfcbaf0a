//! Pods that the scheduler cannot tell apart.

use std::sync::Arc;

use model::labels::HOSTNAME;
use model::pod::{Life, Pod};
use model::resources::Resource;
use model::topology::{Spread, SpreadMode};

use super::attempt::Failure;
use super::board::Board;
use super::counters::{CounterId, Matcher, WishKind, matches_all, wishes_of};
use super::ground::{Demands, GroundId};
use super::keys::KeyId;
use super::look::Table;
use super::numbered::{Numbered, hash_of};

pub(super) type ClassId = usize;

pub(super) struct Class {
    /// One of them, to be looked at for all.
    pub(super) sample: Arc<Pod>,
    /// Whether a node must have the labels of all soft spreads to get points for any. Not so for those that kube-scheduler adds.
    pub(super) needs_all_keys: bool,
    /// Beyond cpu, memory, disk and its place.
    pub(super) extended: Vec<(Resource, i64)>,
    /// Counters that count its pods.
    pub(super) adds: Vec<CounterId>,
    /// What its pods ask about others; known once one of them has looked for a place.
    pub(super) asks: Option<Arc<Asks>>,
    pub(super) heard: Option<Arc<Heard>>,
    pub(super) ground: Option<GroundId>,
    pub(super) table: Option<Table>,
    /// The last answer to a pod of the class that found no place.
    pub(super) failure: Option<Arc<Failure>>,
}

/// What a class asks about standing pods.
#[derive(Default)]
pub(super) struct Asks {
    pub(super) hard: Vec<Asked>,
    pub(super) soft: Vec<Asked>,
    pub(super) together: Option<Together>,
    pub(super) apart: Vec<(CounterId, KeyId)>,
    pub(super) wishes: Vec<(CounterId, KeyId, i64)>,
}

/// One spread.
pub(super) struct Asked {
    pub(super) counter: CounterId,
    pub(super) key: KeyId,
    pub(super) max_skew: i32,
    pub(super) min_domains: Option<i32>,
    /// Whether a pod of the class counts itself.
    pub(super) adds: i64,
    /// Its place among the pod's spreads, hard and soft together.
    pub(super) place: usize,
    pub(super) is_by_host: bool,
}

pub(super) struct Together {
    pub(super) counter: CounterId,
    pub(super) keys: Vec<KeyId>,
    /// Whether a pod of the class may be the first of its kind.
    pub(super) matches_itself: bool,
}

/// Which wishes of standing pods are about a class.
pub(super) struct Heard {
    version: u64,
    pub(super) shunning: Vec<(CounterId, KeyId)>,
    pub(super) wishes: Vec<(CounterId, KeyId, i64)>,
}

#[derive(Default)]
pub(super) struct Classes {
    /// Their pods are their users.
    all: Numbered<Class>,
    /// Classes with a table, the one that was used last at the end.
    pub(super) with_table: Vec<ClassId>,
}

impl Classes {
    pub(super) fn get(&self, id: ClassId) -> &Class {
        self.all.get(id).expect("a class is there as long as one of its pods is")
    }

    pub(super) fn get_mut(&mut self, id: ClassId) -> &mut Class {
        self.all.get_mut(id).expect("a class is there as long as one of its pods is")
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.all.iter().count()
    }
}

impl Asks {
    /// Whether other pods decide where pods of the class may be.
    pub(super) fn is_about_others(&self) -> bool {
        !self.hard.is_empty() || self.together.is_some() || !self.apart.is_empty()
    }
}

impl Board {
    /// The class of a pod, with one pod more.
    pub(super) fn join_class(&mut self, pod: &Arc<Pod>, needs_all_keys: bool) -> ClassId {
        let hash = hash_of(&(&pod.name.namespace, &pod.labels, pod.priority, &pod.requests, &pod.wants));
        let is_it = |class: &Class| class.needs_all_keys == needs_all_keys && is_alike(&class.sample, pod);
        if let Some(id) = self.classes.all.join(hash, is_it) {
            return id;
        }
        let extended = pod.requests.amounts().filter(|(axis, _)| matches!(axis, Resource::Extended(_))).collect();
        let adds = self.counters.asked().filter(|(_, matcher)| matcher.counts(pod)).map(|(id, _)| id).collect();
        let mut class = Class {
            sample: pod.clone(),
            needs_all_keys,
            extended,
            adds,
            asks: None,
            heard: None,
            ground: None,
            table: None,
            failure: None,
        };
        // Twice the same wish counts twice.
        class.adds.extend(wishes_of(pod).into_iter().map(|wish| self.counters.take(&Matcher::Owners(wish)).0));
        self.classes.all.add(hash, class)
    }

    /// One pod of the class less; it must not stand any more.
    pub(super) fn leave_class(&mut self, id: ClassId) {
        let Some(class) = self.classes.all.leave(id) else { return };
        self.classes.with_table.retain(|other| *other != id);
        if let Some(ground) = class.ground {
            self.grounds.drop_user(ground);
        }
        for wish in wishes_of(&class.sample) {
            let (counter, _) = self.counters.take(&Matcher::Owners(wish));
            self.counters.drop_user(counter);
            self.counters.drop_user(counter);
        }
        for counter in class.asks.iter().flat_map(|asks| asks.counters()) {
            if self.counters.drop_user(counter) {
                for other in self.classes.all.iter_mut() {
                    other.adds.retain(|added| *added != counter);
                }
            }
        }
    }

    /// What a class asks about others, with counters that are up to date.
    pub(super) fn asks(&mut self, id: ClassId) -> Arc<Asks> {
        if let Some(asks) = &self.classes.get(id).asks {
            return asks.clone();
        }
        let pod = self.classes.get(id).sample.clone();
        let wants = &pod.wants;
        let mut asks = Asks::default();
        for (place, spread) in wants.spread.iter().enumerate() {
            let asked = self.asked(&pod, spread, place);
            match spread.mode {
                SpreadMode::DoNotSchedule => asks.hard.push(asked),
                SpreadMode::ScheduleAnyway => asks.soft.push(asked),
            }
        }
        if !wants.together.is_empty() {
            asks.together = Some(Together {
                counter: self.counter(Matcher::Terms(wants.together.clone())),
                keys: wants.together.iter().map(|term| self.key(&term.key)).collect(),
                matches_itself: matches_all(&wants.together, &pod),
            });
        }
        for term in &wants.apart {
            asks.apart.push((self.counter(Matcher::Terms(vec![term.clone()])), self.key(&term.key)));
        }
        let likes = wants.preferred_together.iter().map(|one| (&one.item, i64::from(one.weight)));
        let dislikes = wants.preferred_apart.iter().map(|one| (&one.item, -i64::from(one.weight)));
        for (term, weight) in likes.chain(dislikes) {
            asks.wishes.push((self.counter(Matcher::Terms(vec![term.clone()])), self.key(&term.key), weight));
        }
        let asks = Arc::new(asks);
        self.classes.get_mut(id).asks = Some(asks.clone());
        asks
    }

    /// The wishes of standing pods about a class.
    pub(super) fn heard(&mut self, id: ClassId) -> Arc<Heard> {
        let version = self.counters.owners_version;
        let class = self.classes.get(id);
        if let Some(heard) = class.heard.as_ref().filter(|heard| heard.version == version) {
            return heard.clone();
        }
        let pod = class.sample.clone();
        let about: Vec<(CounterId, Arc<str>, WishKind)> = self
            .counters
            .wishes()
            .filter(|(_, wish)| wish.term.selects(&pod.name.namespace, &pod.labels))
            .map(|(id, wish)| (id, wish.term.key.clone(), wish.kind))
            .collect();
        let mut heard = Heard { version, shunning: Vec::new(), wishes: Vec::new() };
        for (counter, key, kind) in about {
            let key = self.key(&key);
            match kind {
                WishKind::Apart => heard.shunning.push((counter, key)),
                WishKind::Weight(weight) => heard.wishes.push((counter, key, weight)),
            }
        }
        let heard = Arc::new(heard);
        self.classes.get_mut(id).heard = Some(heard.clone());
        heard
    }

    /// The ground of a class, made if it is not there.
    pub(super) fn ground_of(&mut self, id: ClassId) -> GroundId {
        if let Some(ground) = self.classes.get(id).ground {
            return ground;
        }
        let class = self.classes.get(id);
        let demands = Demands::of(&class.sample, class.needs_all_keys);
        let ground = self.grounds.take(demands);
        self.classes.get_mut(id).ground = Some(ground);
        ground
    }

    fn asked(&mut self, pod: &Pod, spread: &Spread, place: usize) -> Asked {
        let matcher = Matcher::Spread { namespace: pod.name.namespace.clone(), selector: spread.selector.clone() };
        Asked {
            counter: self.counter(matcher),
            key: self.key(&spread.key),
            max_skew: spread.max_skew,
            min_domains: spread.min_domains,
            adds: i64::from(spread.selector.selects(&pod.labels)),
            place,
            is_by_host: *spread.key == *HOSTNAME,
        }
    }

    fn key(&mut self, name: &Arc<str>) -> KeyId {
        let seats = self.seats.iter().enumerate();
        let labels = seats.filter_map(|(slot, seat)| Some((slot, &seat.as_ref()?.facts.as_ref()?.labels)));
        self.keys.id(name, labels)
    }

    /// The counter of a matcher; a new one counts who stands already.
    fn counter(&mut self, matcher: Matcher) -> CounterId {
        let (id, is_new) = self.counters.take(&matcher);
        if is_new {
            for class in self.classes.all.iter_mut() {
                if matcher.counts(&class.sample) {
                    class.adds.push(id);
                }
            }
            for (slot, seat) in self.seats.iter().enumerate() {
                let pods = seat.iter().flat_map(|seat| seat.pods.values());
                let count = pods.filter(|standing| matcher.counts(&standing.pod)).count();
                if count > 0 {
                    self.counters.add(id, slot, i32::try_from(count).unwrap_or(i32::MAX));
                }
            }
        }
        id
    }
}

impl Asks {
    /// Every counter that it has taken.
    fn counters(&self) -> impl Iterator<Item = CounterId> + '_ {
        let spreads = self.hard.iter().chain(&self.soft).map(|asked| asked.counter);
        let together = self.together.iter().map(|together| together.counter);
        let apart = self.apart.iter().map(|(counter, _)| *counter);
        spreads.chain(together).chain(apart).chain(self.wishes.iter().map(|(counter, ..)| *counter))
    }
}

fn is_alike(a: &Pod, b: &Pod) -> bool {
    // A pod that is about to end is not counted by spreads.
    let is_active = |pod: &Pod| pod.life == Life::Active;
    a.name.namespace == b.name.namespace
        && a.labels == b.labels
        && a.priority == b.priority
        && a.requests == b.requests
        && is_active(a) == is_active(b)
        && a.wants == b.wants
}
