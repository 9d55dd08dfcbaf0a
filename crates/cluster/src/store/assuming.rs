//! How duties tell the store what they have done or decided, before the world shows it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::NodeClaim;
use api::record::Event;
use model::ids::{NodeName, PodName, PoolName};
use model::time::Instant;

use super::Store;
use super::on_machine::Cause;
use super::times::Health;
use crate::assume::Places;
use crate::object::{Gone, Key, Kind};
use crate::record;
use crate::wake::Change;

const REGISTRATION_HEALTHY: &str = "NodeRegistrationHealthy";

impl Store {
    /// Takes in a claim that we have just created, as the API server answered. Until a watch shows it, it counts as made.
    ///
    /// A watch may have been faster, and the claim may even be gone again; then this is no news.
    pub fn assume_claim(&mut self, claim: NodeClaim, now: Instant) -> Change {
        self.note_at(now, || Event::Created { claim: record::raw(&claim) });
        let key = Key::new(Kind::NodeClaim, &claim.metadata);
        let (name, uid) = (NodeName::from(&*key.name), claim.metadata.uid.clone());
        let is_known = |store: &Self| store.machines.claim(&name).is_some_and(|known| known.metadata.uid == uid);
        let was_known = is_known(self);
        let change = self.accept(claim.into(), now);
        if !was_known && is_known(self) {
            self.assumed.expect_claim(&name, now);
        }
        change
    }

    /// Claims that no watch has shown in time. Ask the API server: apply what it answers, or forget the claim.
    pub fn overdue_claims(&self, now: Instant) -> Vec<NodeName> {
        self.assumed.overdue(now).cloned().collect()
    }

    /// Drops a claim that we created and that is not there. One that a watch has shown stays until a watch says otherwise.
    pub fn forget_claim(&mut self, name: &NodeName, now: Instant) -> Change {
        self.note_at(now, || Event::Forgotten { claim: name.to_string() });
        if !self.assumed.is_unseen(name) {
            return Change::default();
        }
        self.lose(&Gone { key: claim_key(name), uid: None, version: None }, now)
    }

    /// Counts machines as leaving, by their claims, until somebody deletes them, takes it back, or does not renew it.
    pub fn mark_for_deletion<'a>(
        &mut self,
        claims: impl IntoIterator<Item = &'a NodeName>,
        until: Instant,
        now: Instant,
    ) -> Change {
        let known = claims.into_iter().filter(|name| self.machines.claims().contains(name));
        let names: Vec<NodeName> = known.cloned().collect();
        self.note_at(now, || Event::Marked { claims: texts(&names), until: until.to_string() });
        names.iter().for_each(|name| self.assumed.mark(name, until));
        self.see_claims(&names, now)
    }

    pub fn unmark<'a>(&mut self, claims: impl IntoIterator<Item = &'a NodeName>, now: Instant) -> Change {
        let names: Vec<NodeName> = claims.into_iter().filter(|name| self.assumed.unmark(name)).cloned().collect();
        self.note_at(now, || Event::Unmarked { claims: texts(&names) });
        let nodes = names.iter().filter_map(|name| self.machines.of_claim(name)).map(|machine| &machine.node.name);
        let pods = nodes.flat_map(|node| self.pods.on_node(node)).map(|entry| &entry.pod.name);
        pods.for_each(|pod| self.assumed.forget_promise(pod));
        self.see_claims(&names, now)
    }

    fn see_claims(&mut self, claims: &[NodeName], now: Instant) -> Change {
        let shown =
            claims.iter().filter_map(|name| self.machines.of_claim(name)).map(|machine| machine.node.name.clone());
        let names: BTreeSet<NodeName> = shown.chain(claims.iter().cloned()).collect();
        let mut change = Change::default();
        self.look_again(&names, Cause::Mark, now, &mut change);
        change
    }

    /// A claim of a static pool waits for its replacement. Until then it counts neither as one to keep nor as one to go.
    pub fn begin_replacing(&mut self, claim: &NodeName, until: Instant) {
        self.note(|| Event::Replacing { claim: claim.to_string(), until: until.to_string() });
        self.assumed.begin_replacing(claim, until);
    }

    pub fn end_replacing(&mut self, claim: &NodeName) {
        self.note(|| Event::Replaced { claim: claim.to_string() });
        self.assumed.end_replacing(claim);
    }

    /// Notes that a pod was planned onto a machine, which is promised to it and left alone for a while. Says how long the first
    /// decision on the pod took, once.
    pub fn nominate(&mut self, pod: &PodName, place: &NodeName, now: Instant) -> Option<Duration> {
        self.note_at(now, || Event::Nominated { pod: record::name(pod), place: place.to_string() });
        // Pods that stand for a buffer's room hold no machine back.
        let entry = self.pods.get(pod)?;
        let is_bound = entry.pod.node.is_some();
        self.assumed.promise(pod, place);
        self.assumed.nominate(pod, place, now.plus(self.settings.nomination));
        if is_bound {
            return None;
        }
        self.times.see(pod, now);
        self.times.place(pod, place, self.health_of(place), now)
    }

    /// Notes where a pod is to go. Whoever plans for it later counts on that, as long as it holds: planned anew beside others, it
    /// might be given another place, and somebody else would find this one taken.
    pub fn promise(&mut self, pod: &PodName, place: &NodeName) {
        self.note(|| Event::Promised { pod: record::name(pod), place: place.to_string() });
        if self.pods.get(pod).is_some() {
            self.assumed.promise(pod, place);
        }
    }

    /// The machine that a pod is to go to, by the name that it has now.
    pub(super) fn promised(&self, pod: &PodName) -> Option<&NodeName> {
        let place = self.assumed.promised(pod)?;
        let machine = self.machines.shown().get(place).or_else(|| self.machines.of_claim(place))?;
        Some(&machine.node.name)
    }

    /// Where these pods are to go, as far as somebody has seen to that.
    pub(super) fn promises<'p>(&self, pods: impl IntoIterator<Item = &'p PodName>) -> BTreeMap<PodName, NodeName> {
        let promise = |pod: &PodName| Some((pod.clone(), self.promised(pod)?.clone()));
        pods.into_iter().filter_map(promise).collect()
    }

    /// Notes that there is no place for a pod. Says how long the first decision took, once.
    pub fn refuse(&mut self, pod: &PodName, now: Instant) -> Option<Duration> {
        let is_waiting = self.pods.get(pod).is_some_and(|entry| entry.pod.node.is_none());
        if is_waiting { self.times.refuse(pod, now) } else { None }
    }

    fn health_of(&self, place: &NodeName) -> Health {
        let machine = self.machines.shown().get(place).or_else(|| self.machines.of_claim(place));
        let pool = machine.and_then(|machine| self.pools.wires().get(machine.node.pool.as_ref()?));
        let mut conditions =
            pool.and_then(|pool| pool.status.as_ref()).into_iter().flat_map(|status| &status.conditions);
        let is_good = conditions.any(|condition| condition.type_ == REGISTRATION_HEALTHY && condition.is_true());
        if is_good { Health::Good } else { Health::Unknown }
    }

    /// All machines to which pods are about to come, under the names that they have now.
    pub fn nominated(&self, now: Instant) -> BTreeSet<NodeName> {
        let of_claim = |claim: &NodeName| self.machines.of_claim(claim).map(|machine| machine.node.name.clone());
        let names = self.assumed.nominated(now).flat_map(|name| of_claim(name).into_iter().chain([name.clone()]));
        names.filter(|name| self.machines.shown().contains_key(name)).collect()
    }

    /// Those of them that nothing else keeps from leaving or from taking pods of others.
    pub fn held_by_nomination(&self, now: Instant) -> BTreeSet<NodeName> {
        let is_ready = |name: &NodeName| {
            let machine = self.machines.shown().get(name);
            machine.is_some_and(|machine| machine.node.is_initialized() && !self.is_restless(&machine.node))
        };
        self.nominated(now).into_iter().filter(is_ready).collect()
    }

    /// A pod is gone, and nothing holds machines for it any more. One that goes because its node leaves has somebody who comes in its
    /// place, and who wants the same machine.
    pub(super) fn end_nominations(&mut self, pod: &PodName, node: Option<&NodeName>) {
        if !node.is_some_and(|node| self.leaving.contains(node)) {
            self.assumed.end_nominations(pod);
        }
    }

    /// Permission to create at most `wanted` nodes of a pool within its limit. What is granted must be given back, whether
    /// the nodes were created or not: those that were are then counted as themselves.
    pub fn reserve_nodes(&mut self, pool: &PoolName, limit: Option<i64>, wanted: i64) -> i64 {
        self.note(|| Event::Reserved { pool: pool.to_string(), limit, wanted });
        let claims = self.pool_claims(pool);
        let present = claims.active.len() + claims.deleting.len() + claims.replacing.len();
        let present = i64::try_from(present).unwrap_or(i64::MAX);
        self.assumed.reserve(pool, Places { limit, present, wanted })
    }

    pub fn release_nodes(&mut self, pool: &PoolName, count: i64) {
        self.note(|| Event::Released { pool: pool.to_string(), count });
        self.assumed.release(pool, count);
    }

    /// How many of the buffers' pods fit on each node; replaces what was known.
    pub fn set_buffered(&mut self, counts: BTreeMap<NodeName, u32>) {
        self.note(|| Event::Buffered {
            counts: counts.iter().map(|(node, count)| (node.to_string(), *count)).collect(),
        });
        self.assumed.set_buffered(counts);
    }

    pub fn buffered_on(&self, node: &NodeName) -> u32 {
        self.assumed.buffered(node)
    }

    /// A number that stays the same while nothing has happened that could make a disruption worth while. It changes after
    /// five minutes in any case.
    pub fn quiet_mark(&mut self, now: Instant) -> u64 {
        self.quiet.mark(now)
    }

    /// Makes disruption look again.
    pub fn end_quiet(&mut self, now: Instant) {
        self.note_at(now, || Event::Disturbed);
        self.quiet.disturb(now);
    }

    pub(super) fn run_out(&mut self, now: Instant) {
        self.versions.forget_until(now);
        let ended = self.assumed.run_out(now);
        for name in &ended.unseen {
            // Nobody has looked, so a watch that was only slow may still bring it back.
            let mut change = Change::default();
            self.remove(&claim_key(name), now, &mut change);
            self.untold.add(change);
        }
        if !ended.marks.is_empty() {
            let change = self.see_claims(&ended.marks, now);
            self.untold.add(change);
        }
    }
}

fn texts(names: &[NodeName]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

fn claim_key(name: &NodeName) -> Key {
    Key { kind: Kind::NodeClaim, namespace: "".into(), name: name.as_str().into() }
}
