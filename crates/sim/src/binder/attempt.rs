//! One attempt to find a place for one pod.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use model::ids::{NodeName, PodName};
use serde_json::json;

use super::board::Slot;
use super::claims::{Claims, SELECTED_NODE};
use super::class::ClassId;
use super::look::Look;
use super::numbered::hash_of;
use super::reasons::{Histogram, Survey, sentence};
use super::{Binder, at, back_off, later};
use crate::apiserver::{ApiServer, At};
use crate::kinds::Kind;

/// Why a pod found no place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) message: String,
    /// A hash of the kinds of reasons, without their numbers.
    pub(super) kinds: u64,
    /// How often the board had changed; until it changes again, the answer stays.
    changes: u64,
}

impl Failure {
    pub(super) fn new(message: String, kinds: &impl std::hash::Hash) -> Self {
        Self { kinds: hash_of(kinds), message, changes: 0 }
    }
}

/// What came of looking for a place.
enum Found {
    Place(NodeName),
    /// No place, and others were asked to leave this node.
    Promised(NodeName, Failure),
    Nothing(Failure),
}

impl Binder {
    pub(super) fn attempt(&mut self, name: &PodName, now: Timestamp, server: &ApiServer) {
        let Some(known) = self.pods.get(name) else { return };
        let class = known.class;
        let claims = Claims::of(&self.around.storage, &name.namespace, &known.seen.claims);
        if let Some(failure) = self.unusable(&claims) {
            self.tell(name, &failure, None, server);
            self.queue.postpone(name, now, later(now, self.settings.flush_after));
            return;
        }
        match self.find(name, class, now, server) {
            Found::Place(node) => {
                match claims {
                    Claims::WaitForNode(claims) => self.choose_for_volumes(name, &node, &claims, now, server),
                    _ => self.bind(name, &node, now, server),
                }
                // Who is like it may find a place too; whoever backs off was moved by itself.
                if self.settings.pops_early {
                    self.queue.wake(class);
                }
            }
            Found::Promised(node, failure) => {
                self.tell(name, &failure, Some(Some(&node)), server);
                self.nominees.insert(name.clone(), node);
                self.queue.postpone(name, now, later(now, self.settings.flush_after));
                // Others may leave other nodes for those who are like it.
                self.queue.urge(class);
            }
            Found::Nothing(failure) => self.fail(name, class, &failure, now, server),
        }
    }

    fn fail(&mut self, name: &PodName, class: ClassId, failure: &Failure, now: Timestamp, server: &ApiServer) {
        let flush = later(now, self.settings.flush_after);
        self.tell(name, failure, None, server);
        let pinned = self.pods.get(name).and_then(|known| known.seen.pinned.clone());
        let is_pinned = pinned.is_some();
        if let Some(node) = pinned {
            self.pinned_waits.entry(node).or_default().insert(name.clone());
        }
        if self.nominees.contains_key(name) || is_pinned {
            // Its answer is not that of its class.
            self.queue.postpone(name, now, flush);
            return;
        }
        let minds_others = self.board.minds_others(class);
        self.queue.park(name, class, minds_others, (now, flush));
    }

    fn back_off_of(&self, name: &PodName) -> std::time::Duration {
        back_off(self.settings.back_off, self.settings.back_off_most, self.queue.attempts(name) + 1)
    }

    fn unusable(&self, claims: &Claims) -> Option<Failure> {
        let nodes = self.board.node_count();
        match claims {
            Claims::Bound | Claims::WaitForNode(_) => None,
            Claims::Unusable(reason) => {
                let message = format!("0/{nodes} nodes are available: {reason}. {}", not_helpful(nodes));
                Some(Failure::new(message, reason))
            }
            Claims::UnusableOnNodes(reason) => {
                let reasons = Histogram::from([((*reason).to_owned(), nodes)]);
                Some(Failure::new(format!("{} {}", sentence(nodes, &reasons), not_helpful(nodes)), reason))
            }
        }
    }

    fn find(&mut self, name: &PodName, class: ClassId, now: Timestamp, server: &ApiServer) -> Found {
        if self.board.node_count() == 0 {
            return Found::Nothing(Failure::new("no nodes available to schedule pods".to_owned(), &0));
        }
        let nominated = self.nominees.get(name).and_then(|node| self.board.slot_of(node));
        if let Some(slot) = nominated.filter(|slot| self.fits_on(name, class, *slot)) {
            return Found::Place(self.node_at(slot));
        }
        let pinned = self.pods.get(name).and_then(|known| known.seen.pinned.clone());
        let is_as_its_class = pinned.is_none() && self.nominees.is_empty();
        if is_as_its_class && let Some(failure) = self.known_failure(class) {
            return Found::Nothing(failure);
        }
        if let Some(slot) = pinned.as_ref().and_then(|node| self.board.slot_of(node))
            && self.fits_on(name, class, slot)
        {
            return Found::Place(self.node_at(slot));
        }
        let mut look = self.board.look(class);
        if pinned.is_some() {
            look.feasible.clear();
        }
        if self.yield_to_nominees(name, class, &mut look) {
            let feasible = look.feasible;
            look = self.board.look(class);
            look.feasible = feasible;
        }
        if let Some(slot) = self.choose(class, &look.feasible) {
            return Found::Place(self.node_at(slot));
        }
        let found = self.explain(name, class, &look, now, server);
        if let (true, Found::Nothing(failure)) = (is_as_its_class, &found) {
            let changes = self.board.changes;
            self.board.classes.get_mut(class).failure = Some(Arc::new(Failure { changes, ..failure.clone() }));
        }
        found
    }

    /// The answer that the class got last, if nothing has changed since.
    fn known_failure(&self, class: ClassId) -> Option<Failure> {
        let failure = self.board.class(class).failure.as_ref()?;
        (failure.changes == self.board.changes).then(|| Failure::clone(failure))
    }

    fn node_at(&self, slot: Slot) -> NodeName {
        self.board.seat_at(slot).map_or_else(|| "".into(), |seat| seat.name.clone())
    }

    /// The best of the feasible nodes; dice decide among equals.
    fn choose(&mut self, class: ClassId, feasible: &[Slot]) -> Option<Slot> {
        if feasible.len() <= 1 {
            return feasible.first().copied();
        }
        let scores = self.board.scores(class, feasible);
        let most = scores.iter().max().copied()?;
        let best: Vec<Slot> =
            feasible.iter().zip(&scores).filter(|(_, score)| **score == most).map(|(slot, _)| *slot).collect();
        let chosen = if best.len() == 1 { 0 } else { self.rng.below(best.len() as u64) };
        best.get(usize::try_from(chosen).unwrap_or(0)).copied()
    }

    /// Whether a pod may be on a node now, also when those have come to whom the node was promised.
    pub(super) fn fits_on(&mut self, name: &PodName, class: ClassId, slot: Slot) -> bool {
        self.is_feasible(class, slot) && self.fits_beside_nominees(name, class, slot)
    }

    fn is_feasible(&mut self, class: ClassId, slot: Slot) -> bool {
        if self.board.minds_others(class) {
            self.board.look(class).feasible.contains(&slot)
        } else {
            self.board.is_open(class, slot)
        }
    }

    fn fits_beside_nominees(&mut self, name: &PodName, class: ClassId, slot: Slot) -> bool {
        let priority = self.board.class(class).sample.priority;
        let node = self.node_at(slot);
        let promised: Vec<_> = self
            .nominees
            .iter()
            .filter(|(pod, promised)| *pod != name && **promised == node)
            .filter_map(|(pod, _)| self.pods.get(pod).map(|known| (known.seen.pod.clone(), known.class)))
            .filter(|(pod, _)| pod.priority >= priority && self.board.slot_of_pod(&pod.name).is_none())
            .collect();
        if promised.is_empty() {
            return true;
        }
        let changes = self.board.changes;
        for (pod, class) in &promised {
            self.board.seat(pod, *class, &node);
        }
        let fits = self.is_feasible(class, slot);
        for (pod, _) in &promised {
            self.board.lift(&pod.name);
        }
        // Nothing has really happened.
        self.board.changes = changes;
        fits
    }

    /// Takes nodes off the list that are promised to others who matter as much. Says whether it had to try.
    fn yield_to_nominees(&mut self, name: &PodName, class: ClassId, look: &mut Look) -> bool {
        let others = self.nominees.iter().filter(|(pod, _)| *pod != name);
        let promised: BTreeSet<Slot> = others.filter_map(|(_, node)| self.board.slot_of(node)).collect();
        let concerned: Vec<Slot> = look.feasible.iter().copied().filter(|slot| promised.contains(slot)).collect();
        for slot in &concerned {
            if !self.fits_beside_nominees(name, class, *slot) {
                look.feasible.retain(|other| other != slot);
            }
        }
        !concerned.is_empty()
    }

    /// Why there is no place, and whether others can be made to leave.
    fn explain(&mut self, name: &PodName, class: ClassId, look: &Look, now: Timestamp, server: &ApiServer) -> Found {
        let nodes = self.board.node_count();
        let pinned = self.pods.get(name).and_then(|known| known.seen.pinned.clone());
        let slot = pinned.as_ref().and_then(|node| self.board.slot_of(node));
        let survey = match pinned {
            Some(_) => self.board.survey_pinned(class, look, slot),
            None => self.board.survey(class, look),
        };
        let Survey { reasons, curable } = survey;
        let start = sentence(nodes, &reasons);
        let preempted = self.preempt(name, class, &curable, now, server);
        let message = match &preempted.explanation {
            Some(explanation) => format!("{start} preemption: {explanation}"),
            None => start,
        };
        let kinds: Vec<&String> = reasons.keys().collect();
        let failure = Failure::new(message, &kinds);
        match preempted.node {
            Some(node) => Found::Promised(node, failure),
            None => Found::Nothing(failure),
        }
    }

    /// Tells the API server, and goes on as if it had happened.
    pub(super) fn bind(&mut self, name: &PodName, node: &NodeName, now: Timestamp, server: &ApiServer) {
        match server.bind(&at(name), node.as_str()) {
            Ok(()) => {
                self.assume(name, node);
                self.queue.remove(name);
                self.nominees.remove(name);
                self.note_bound(name, node, server);
            }
            Err(_) => {
                if let Some((slot, _)) = self.board.lift(name) {
                    self.relieved.insert(slot);
                }
                self.retry(name, now);
            }
        }
    }

    fn assume(&mut self, name: &PodName, node: &NodeName) {
        if self.board.slot_of_pod(name).is_some() {
            return;
        }
        if let Some(known) = self.pods.get(name) {
            self.board.seat(&known.seen.pod, known.class, node);
        }
    }

    /// Tells the claims which node their volumes are for. The pod stands there from now on, and is bound when they have come.
    fn choose_for_volumes(
        &mut self,
        name: &PodName,
        node: &NodeName,
        claims: &[Arc<str>],
        now: Timestamp,
        server: &ApiServer,
    ) {
        self.assume(name, node);
        self.nominees.remove(name);
        self.queue.remove(name);
        self.volume_waits.insert(name.clone(), (node.clone(), now));
        for claim in claims {
            let claim = At { namespace: name.namespace.shared(), name: claim.clone() };
            let patch = json!({"metadata": {"annotations": {SELECTED_NODE: node.as_str()}}});
            if server.patch(Kind::PersistentVolumeClaim, &claim, &patch).is_err() {
                self.give_up(name, now);
                return;
            }
        }
    }

    /// A chosen node comes to nothing; the pod is tried again after a while.
    pub(super) fn give_up(&mut self, name: &PodName, now: Timestamp) {
        self.volume_waits.remove(name);
        if let Some((slot, _)) = self.board.lift(name) {
            self.relieved.insert(slot);
        }
        self.retry(name, now);
    }

    fn retry(&mut self, name: &PodName, now: Timestamp) {
        let Some(known) = self.pods.get(name) else { return };
        if !self.queue.has(name) {
            self.queue.enter(name, known.seen.pod.priority);
        }
        let pause = self.back_off_of(name);
        self.queue.postpone(name, now, later(now, pause));
    }
}

/// What preemption says when it was not even tried.
fn not_helpful(nodes: usize) -> String {
    let reasons = Histogram::from([("Preemption is not helpful for scheduling".to_owned(), nodes)]);
    format!("preemption: {}", sentence(nodes, &reasons))
}
