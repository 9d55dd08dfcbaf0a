//! What happens when a Node, a claim or a node's drivers change.

use std::collections::BTreeSet;

use api::NodeClaim;
use k8s_openapi::api::core::v1::Node as WireNode;
use k8s_openapi::api::storage::v1::CSINode;
use model::ids::{NodeName, Uid};
use model::time::Instant;

use super::machines::{Machine, Shift, View, claim_id};
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
        let mut ours = self.machines.node(&name).is_some_and(|node| self.settings.classes.owns_node(node));
        ours |= wire.as_ref().is_some_and(|node| self.settings.classes.owns_node(node));
        let Some(names) = self.machines.put_node(&name, wire.map(trim::node)) else { return };
        for claim in names.iter().filter(|name| self.machines.claim(name).is_some()) {
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
        let before = self.machines.claim(&name).map(|claim| uid(claim));
        let wire = wire.filter(|claim| self.settings.classes.owns_claim(claim));
        if before.is_some() && before != wire.as_ref().map(uid) {
            self.assumed.forget_claim(&name);
        }
        let ground_before = self.machines.claim(&name).map(|claim| grounds(claim));
        let Some(names) = self.machines.put_claim(&name, wire.map(trim::claim)) else { return };
        let ground_after = self.machines.claim(&name).map(|claim| grounds(claim));
        if ground_before != ground_after {
            self.disturb(now, change);
        }
        for (pool, _) in ground_before.into_iter().chain(ground_after) {
            change.wake.extend(pool.map(|pool| Duty::Pool(pool.as_str().into())));
        }
        change.wake(Duty::Claim(name));
        for node in names.iter().filter(|name| self.machines.node(name).is_some()) {
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
        for shift in shifts {
            self.note_shift(&shift, cause, now, change);
        }
    }

    fn note_shift(&mut self, shift: &Shift, cause: Cause, now: Instant, change: &mut Change) {
        let Shift { name, before, after } = shift;
        self.snapshots.touch_node(name);
        let is_leaving = |machine: &Option<Machine>| machine.as_ref().is_some_and(|machine| machine.node.is_leaving);
        let is_ready = |machine: &Option<Machine>| machine.as_ref().map(|machine| machine.node.is_initialized());
        if is_leaving(after) {
            self.leaving.insert(name.clone());
        } else {
            self.leaving.remove(name);
        }
        let begins_to_leave = is_leaving(after) && !is_leaving(before);
        if cause == Cause::Fact && (is_ready(before) != is_ready(after) || begins_to_leave) {
            self.disturb(now, change);
        }
        if begins_to_leave && self.pods.on_node(name).next().is_some() {
            // Its pods need another place.
            change.wake(Duty::Provision(self.uid_of(name)));
        }
        let machines = [before, after].into_iter().flatten();
        for pool in machines.filter_map(|machine| machine.node.pool.clone()) {
            change.wake(Duty::Pool(pool));
        }
    }

    fn uid_of(&self, name: &NodeName) -> Uid {
        let uid = self.machines.node(name).and_then(|node| node.metadata.uid.clone());
        Uid::from(uid.unwrap_or_else(|| name.to_string()))
    }

    /// Machines that are not chosen yet depend on what is on sale.
    pub(super) fn unlaunched_of(&self, pool: &model::ids::PoolName) -> BTreeSet<NodeName> {
        let of_pool =
            self.machines.claims().iter().filter(|(_, claim)| pool_of(claim).as_deref() == Some(pool.as_str()));
        of_pool.filter(|(_, claim)| claim_id(claim).is_none()).map(|(name, _)| name.clone()).collect()
    }
}

/// What of a claim makes it worth a thought: its pool, and whether it may be consolidated or has drifted.
fn grounds(claim: &NodeClaim) -> (Option<String>, Vec<String>) {
    let conditions = claim.status.iter().flat_map(|status| &status.conditions);
    let true_ones = conditions.filter(|condition| condition.is_true()).map(|condition| condition.type_.clone());
    (pool_of(claim), true_ones.filter(|type_| ["Consolidatable", "Drifted"].contains(&type_.as_str())).collect())
}

pub(super) fn pool_of(claim: &NodeClaim) -> Option<String> {
    claim.metadata.labels.as_ref()?.get(api::labels::NODE_POOL).cloned()
}
