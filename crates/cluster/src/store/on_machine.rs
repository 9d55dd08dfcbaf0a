//! What happens when a Node, a claim or a node's drivers change.

use std::collections::BTreeSet;

use api::NodeClaim;
use k8s_openapi::api::core::v1::Node as WireNode;
use k8s_openapi::api::storage::v1::CSINode;
use model::ids::{NodeName, Uid};
use model::node::{Node, Tenure};
use model::time::Instant;

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
        for shift in shifts {
            self.note_shift(&shift, cause, now, change);
        }
    }

    fn note_shift(&mut self, shift: &Shift, cause: Cause, now: Instant, change: &mut Change) {
        let Shift { name, before, after } = shift;
        self.snapshots.touch_node(name);
        let is_leaving = |machine: &Option<Machine>| machine.as_ref().is_some_and(|machine| machine.node.is_leaving);
        if is_leaving(after) {
            self.leaving.insert(name.clone());
        } else {
            self.leaving.remove(name);
        }
        let begins_to_leave = is_leaving(after) && !is_leaving(before);
        let is_alike = match (before, after) {
            (Some(before), Some(after)) => makes_no_difference(&before.node, &after.node),
            _ => false,
        };
        if cause == Cause::Fact && !is_alike {
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
        let claims = self.machines.claims().briefs();
        let of_pool = claims.filter(|(_, claim)| claim.pool.as_deref() == Some(pool.as_str()));
        of_pool.filter(|(_, claim)| !claim.has_id).map(|(name, _)| name.clone()).collect()
    }
}

/// Whether a machine gives and takes as before, as far as moves are concerned. Until it is ready for pods it is nobody's
/// destination, whatever is known of it.
fn makes_no_difference(before: &Node, after: &Node) -> bool {
    if before.is_leaving != after.is_leaving {
        return false;
    }
    if !before.is_initialized() && !after.is_initialized() {
        return true;
    }
    let Node {
        name: _,
        pool,
        labels,
        taints,
        capacity,
        allocatable,
        attach_limits,
        progress,
        is_leaving: _,
        created,
        tenure,
    } = before;
    (pool, labels, taints, capacity) == (&after.pool, &after.labels, &after.taints, &after.capacity)
        && (allocatable, attach_limits, progress) == (&after.allocatable, &after.attach_limits, &after.progress)
        && *created == after.created
        && match (tenure, &after.tenure) {
            (Some(before), Some(after)) => is_as_free(before, after),
            (before, after) => before == after,
        }
}

/// The same but for the last time that a pod came or went, which only puts off when the machine may leave.
fn is_as_free(before: &Tenure, after: &Tenure) -> bool {
    *before == Tenure { last_pod_event: before.last_pod_event, ..after.clone() }
}

fn pool_of(claim: &NodeClaim) -> Option<String> {
    claim.metadata.labels.as_ref()?.get(api::labels::NODE_POOL).cloned()
}
