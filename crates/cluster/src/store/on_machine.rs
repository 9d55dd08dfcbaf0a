//! What happens when a Node, a claim or a node's drivers change.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::NodeClaim;
use k8s_openapi::api::core::v1::Node as WireNode;
use k8s_openapi::api::storage::v1::CSINode;
use model::ids::{NodeName, Uid};
use model::node::{Node, Tenure};
use model::pool::Pool;
use model::time::Instant;

use super::disturbing::{may_give, same_machines};
use super::machines::{Machine, Shift, View};
use super::{Store, trim};
use crate::wake::{Change, Duty};

/// Why a machine is looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The world has changed.
    Fact,
    /// We have changed our mind about it.
    Mark,
}

impl Store {
    pub(super) fn put_node(&mut self, name: &str, wire: Option<WireNode>, now: Instant, change: &mut Change) {
        let name = NodeName::from(name);
        if wire.is_none() {
            self.assumed.forget_node(&name);
        }
        let mut ours = self.machines.node(&name).is_some_and(|node| self.settings.classes.owns_node(&node));
        ours |= wire.as_ref().is_some_and(|node| self.settings.classes.owns_node(node));
        let Some(names) = self.machines.put_node(&name, wire.map(trim::node)) else { return };
        for claim in names.iter().filter(|name| self.machines.claims().contains(name)) {
            change.wake(Duty::Claim(claim.clone()));
        }
        if ours {
            change.wake(Duty::Node(name));
        }
        self.look_again(&names, Cause::Fact, now, change);
    }

    pub(super) fn put_claim(&mut self, name: &str, wire: Option<NodeClaim>, now: Instant, change: &mut Change) {
        let name = NodeName::from(name);
        let uid = |claim: &NodeClaim| claim.metadata.uid.clone();
        let stored = self.machines.claim(&name);
        let before = stored.as_deref().map(uid);
        let wire = wire.filter(|claim| self.settings.classes.owns_claim(claim));
        if before.is_some() && before != wire.as_ref().map(uid) {
            self.assumed.forget_claim(&name);
        }
        let pool_before = stored.as_deref().and_then(pool_of);
        let Some(names) = self.machines.put_claim(&name, wire.map(trim::claim)) else { return };
        let pool_after = self.machines.claim(&name).as_deref().and_then(pool_of);
        for pool in pool_before.into_iter().chain(pool_after) {
            change.wake(Duty::Pool(pool.as_str().into()));
        }
        change.wake(Duty::Claim(name));
        for node in names.iter().filter(|name| self.machines.nodes().contains(name)) {
            change.wake(Duty::Node(node.clone()));
        }
        self.look_again(&names, Cause::Fact, now, change);
    }

    pub(super) fn put_csi_node(&mut self, name: &str, wire: Option<CSINode>, now: Instant, change: &mut Change) {
        let name = NodeName::from(name);
        if self.machines.put_csi(&name, wire.map(trim::csi_node)) {
            self.look_again(&BTreeSet::from([name]), Cause::Fact, now, change);
        }
    }

    /// Sees machines anew, and wakes whom a difference concerns.
    pub(super) fn look_again(&mut self, names: &BTreeSet<NodeName>, cause: Cause, now: Instant, change: &mut Change) {
        let view = View { classes: &self.settings.classes, pools: self.pools.shown(), marks: self.assumed.marks() };
        let (shifts, oddities) = self.machines.refresh(names, view);
        change.oddities.extend(oddities);
        let gives_something = |(before, after)| may_give(before, after, |node| self.has_settled(node, now));
        if cause == Cause::Fact && same_machines(&shifts).into_iter().any(gives_something) {
            self.disturb(now, change);
        }
        for shift in shifts {
            self.note_shift(&shift, change);
        }
    }

    fn note_shift(&mut self, shift: &Shift, change: &mut Change) {
        let Shift { name, before, after } = shift;
        self.snapshots.touch_node(name);
        let is_leaving = |machine: &Option<Machine>| machine.as_ref().is_some_and(|machine| machine.node.is_leaving);
        if is_leaving(after) {
            self.leaving.insert(name.clone());
        } else {
            self.leaving.remove(name);
        }
        let begins_to_leave = is_leaving(after) && !is_leaving(before);
        if begins_to_leave && self.pods.on_node(name).next().is_some() {
            // Its pods need another place.
            change.wake(Duty::Provision(self.uid_of(name)));
        }
        let machines = [before, after].into_iter().flatten();
        for pool in machines.filter_map(|machine| machine.node.pool.clone()) {
            change.wake(Duty::Pool(pool));
        }
    }

    /// Whether a node that must be quiet before anybody is moved to it or from it has not been so for long enough.
    pub(super) fn is_restless(&self, node: &Node) -> bool {
        let pool = node.pool.as_ref().and_then(|pool| self.pools.shown().get(pool));
        let must_settle =
            |pool: &Arc<Pool>| !pool.is_static() && pool.consolidation.after.is_some_and(|after| !after.is_zero());
        let has_yet_to = |tenure: &Tenure| tenure.consolidatable.is_none() && tenure.drifted.is_none();
        node.is_initialized() && node.tenure.as_ref().is_some_and(has_yet_to) && pool.is_some_and(must_settle)
    }

    /// Whether a node has been quiet for as long as its pool asks, whatever its claim says of that.
    fn has_settled(&self, node: &Node, now: Instant) -> bool {
        self.settles_at(node).is_some_and(|settles_at| settles_at <= now)
    }

    fn settles_at(&self, node: &Node) -> Option<Instant> {
        let pool = node.pool.as_ref().and_then(|pool| self.pools.shown().get(pool));
        node.tenure.as_ref()?.settles_at(pool.filter(|pool| !pool.is_static())?)
    }

    /// When the first node after this moment will have been quiet for as long as its pool asks.
    pub fn next_to_settle(&self, after: Instant) -> Option<Instant> {
        let nodes = self.machines.shown().values().map(|machine| &machine.node);
        let staying = nodes.filter(|node| node.is_initialized() && !node.is_leaving);
        staying.filter_map(|node| self.settles_at(node)).filter(|settles_at| *settles_at > after).min()
    }

    fn uid_of(&self, name: &NodeName) -> Uid {
        let uid = self.machines.node(name).and_then(|node| node.metadata.uid.clone());
        Uid::from(uid.unwrap_or_else(|| name.to_string()))
    }

    /// Machines that are not chosen yet depend on what is on sale.
    pub(super) fn unlaunched_of(&self, pool: &model::ids::PoolName) -> BTreeSet<NodeName> {
        let claims = self.machines.claims().briefs();
        let of_pool = claims.filter(|(_, claim)| claim.pool.as_deref() == Some(pool.as_str()));
        of_pool.filter(|(_, claim)| claim.id.is_none()).map(|(name, _)| name.clone()).collect()
    }
}

fn pool_of(claim: &NodeClaim) -> Option<String> {
    claim.metadata.labels.as_ref()?.get(api::labels::NODE_POOL).cloned()
}
