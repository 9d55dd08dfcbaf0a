//! Nodes and claims, joined into machines.
//!
//! A Node and a claim are one machine when they have one provider id. What is shown under a name is a pure function of the
//! Nodes and claims that are known, so that the order in which they came cannot matter; when one of them changes, the names
//! that it can have an effect on are looked at again.
//!
//! Two Nodes, or two claims, of one provider id cannot both be right. The oldest counts: a younger Node stands for itself, a
//! younger claim for no machine at all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::NodeClaim;
use api::labels::{HOSTNAME, REGISTERED};
use k8s_openapi::api::core::v1::Node as WireNode;
use k8s_openapi::api::storage::v1::CSINode;
use model::ids::{NodeName, PoolName};
use model::node::Node;
use model::pool::Pool;

use super::sharing::Shared;
use super::versions::differ_in_version_alone;
use super::wires::{Wire, Wires};
use crate::lower::Oddity;
use crate::lower::node::{NodeClasses, Parts, is_admitted, node as lower};

/// Shown before the name of a claim when a Node that has nothing to do with it bears that name. No Node can be called so.
const CLAIM_PREFIX: &str = "nodeclaim/";

/// One machine as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    pub node: Arc<Node>,
    /// The name of its claim, if it is ours.
    pub claim: Option<NodeName>,
}

#[derive(Debug, Default)]
pub(super) struct Machines {
    nodes: Wires<WireNode>,
    /// Only ours.
    claims: Wires<NodeClaim>,
    csi: BTreeMap<NodeName, CSINode>,
    nodes_by_id: BTreeMap<Arc<str>, BTreeSet<NodeName>>,
    claims_by_id: BTreeMap<Arc<str>, BTreeSet<NodeName>>,
    shown: BTreeMap<NodeName, Machine>,
    /// Of labels: machines of one type have most of them in common.
    words: Shared<str>,
}

/// What else decides how a machine is seen.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) classes: &'a NodeClasses,
    pub(super) pools: &'a BTreeMap<PoolName, Arc<Pool>>,
    /// Claims that we have decided to remove.
    pub(super) marks: &'a BTreeMap<NodeName, model::time::Instant>,
}

/// How the machine under a name changed.
pub(super) struct Shift {
    pub(super) name: NodeName,
    pub(super) before: Option<Machine>,
    pub(super) after: Option<Machine>,
}

impl Machines {
    /// Whether nothing of any machine is left. Words are only known, and go with the next purge.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let Self { nodes, claims, csi, nodes_by_id, claims_by_id, shown, words: _ } = self;
        nodes.is_empty()
            && claims.is_empty()
            && csi.is_empty()
            && nodes_by_id.is_empty()
            && claims_by_id.is_empty()
            && shown.is_empty()
    }

    pub(super) fn node(&self, name: &NodeName) -> Option<Arc<WireNode>> {
        self.nodes.get(name)
    }

    pub(super) fn nodes(&self) -> &Wires<WireNode> {
        &self.nodes
    }

    pub(super) fn claim(&self, name: &NodeName) -> Option<Arc<NodeClaim>> {
        self.claims.get(name)
    }

    pub(super) fn claims(&self) -> &Wires<NodeClaim> {
        &self.claims
    }

    pub(super) fn shown(&self) -> &BTreeMap<NodeName, Machine> {
        &self.shown
    }

    /// Nodes that say they are this machine; more than one is a fault in the cluster.
    pub(super) fn nodes_with_id(&self, id: &str) -> impl Iterator<Item = &NodeName> {
        self.nodes_by_id.get(id).into_iter().flatten()
    }

    pub(super) fn claims_with_id(&self, id: &str) -> impl Iterator<Item = &NodeName> {
        self.claims_by_id.get(id).into_iter().flatten()
    }

    /// The machine that a claim is, under whatever name.
    pub(super) fn of_claim(&self, name: &NodeName) -> Option<&Machine> {
        let is_it = |machine: &&Machine| machine.claim.as_ref() == Some(name);
        let id = self.claims.brief(name).and_then(|claim| claim.id.as_deref());
        let node = id.into_iter().flat_map(|id| self.nodes_with_id(id)).find_map(|node| self.shown.get(node));
        node.filter(is_it)
            .or_else(|| self.shown.get(name).filter(is_it))
            .or_else(|| self.shown.get(&prefixed(name)).filter(is_it))
    }

    /// Replaces a Node, or removes it, and says which names must be looked at again; none when it means the same as before.
    pub(super) fn put_node(&mut self, name: &NodeName, node: Option<WireNode>) -> Option<BTreeSet<NodeName>> {
        let before = self.nodes.get(name);
        if before.is_none() && node.is_none() {
            return None;
        }
        if let (Some(before), Some(after)) = (&before, &node)
            && differ_in_version_alone(&before.metadata, &after.metadata)
            && before.spec == after.spec
            && before.status == after.status
        {
            // Its version may still be newer, and whoever patches it needs that.
            self.nodes.insert(name, node?);
            return None;
        }
        let mut affected = BTreeSet::from([name.clone()]);
        if let Some(id) = before.as_deref().and_then(Wire::provider_id) {
            unindex(&mut self.nodes_by_id, id, name);
            self.add_names_with_id(id, &mut affected);
        }
        if let Some(id) = node.as_ref().and_then(Wire::provider_id) {
            self.nodes_by_id.entry(id.into()).or_default().insert(name.clone());
            self.add_names_with_id(id, &mut affected);
        }
        match node {
            Some(node) => self.nodes.insert(name, node),
            None => self.nodes.remove(name),
        }
        Some(affected)
    }

    /// The same for a claim.
    pub(super) fn put_claim(&mut self, name: &NodeName, claim: Option<NodeClaim>) -> Option<BTreeSet<NodeName>> {
        let before = self.claims.get(name);
        if before.is_none() && claim.is_none() {
            return None;
        }
        if let (Some(before), Some(after)) = (&before, &claim)
            && differ_in_version_alone(&before.metadata, &after.metadata)
            && before.spec == after.spec
            && before.status == after.status
        {
            self.claims.insert(name, claim?);
            return None;
        }
        let mut affected = BTreeSet::from([name.clone()]);
        if let Some(id) = before.as_deref().and_then(Wire::provider_id) {
            unindex(&mut self.claims_by_id, id, name);
            self.add_names_with_id(id, &mut affected);
        }
        if let Some(id) = claim.as_ref().and_then(Wire::provider_id) {
            self.claims_by_id.entry(id.into()).or_default().insert(name.clone());
            self.add_names_with_id(id, &mut affected);
        }
        match claim {
            Some(claim) => self.claims.insert(name, claim),
            None => self.claims.remove(name),
        }
        Some(affected)
    }

    /// Says whether anything changed.
    pub(super) fn put_csi(&mut self, name: &NodeName, csi: Option<CSINode>) -> bool {
        if self.csi.get(name) == csi.as_ref() {
            return false;
        }
        match csi {
            Some(csi) => drop(self.csi.insert(name.clone(), csi)),
            None => drop(self.csi.remove(name)),
        }
        true
    }

    fn add_names_with_id(&self, id: &str, names: &mut BTreeSet<NodeName>) {
        names.extend(self.nodes_with_id(id).chain(self.claims_with_id(id)).cloned());
    }

    /// Looks at names again; says what changed and what could not be understood.
    pub(super) fn refresh(&mut self, names: &BTreeSet<NodeName>, view: View<'_>) -> (Vec<Shift>, Vec<Oddity>) {
        let (mut shifts, mut oddities) = (Vec::new(), Vec::new());
        for name in names.iter().cloned().chain(names.iter().map(prefixed)) {
            let mut after = self.look(&name, view, &mut oddities);
            if self.shown.get(&name) == after.as_ref() {
                continue;
            }
            if let Some(node) = after.as_mut().and_then(|machine| Arc::get_mut(&mut machine.node)) {
                let labels = std::mem::take(&mut node.labels).into_iter();
                node.labels = labels.map(|(key, value)| (self.words.share(key), self.words.share(value))).collect();
            }
            let before = match after.clone() {
                Some(machine) => self.shown.insert(name.clone(), machine),
                None => self.shown.remove(&name),
            };
            shifts.push(Shift { name, before, after });
        }
        (shifts, oddities)
    }

    /// What is to be seen under a name.
    fn look(&self, name: &NodeName, view: View<'_>, oddities: &mut Vec<Oddity>) -> Option<Machine> {
        let Some(claim_name) = name.as_str().strip_prefix(CLAIM_PREFIX).map(NodeName::from) else {
            return self.look_for_node(name, view, oddities).or_else(|| self.look_for_claim(name, view, oddities));
        };
        self.look_for_node(&claim_name, view, &mut Vec::new())?;
        let mut machine = self.look_for_claim(&claim_name, view, oddities)?;
        let mut renamed = Node::clone(&machine.node);
        renamed.name = name.clone();
        renamed.labels.insert(HOSTNAME.into(), name.as_str().into());
        machine.node = Arc::new(renamed);
        Some(machine)
    }

    fn look_for_node(&self, name: &NodeName, view: View<'_>, oddities: &mut Vec<Oddity>) -> Option<Machine> {
        let node = self.nodes.get(name).filter(|node| is_admitted(node, view.classes))?;
        let id = node.provider_id().filter(|id| self.is_oldest_node(name, id, view));
        let claim = id.and_then(|id| self.oldest_claim(id));
        // Until a Node of ours is registered, its claim speaks for it; and a claim that does not know its machine yet does
        // so too, under its own name.
        if claim.is_none() && view.classes.owns_node(&node) && !is_registered(&node) {
            return None;
        }
        self.lower(Some((name, &*node)), claim, view, oddities)
    }

    fn look_for_claim(&self, name: &NodeName, view: View<'_>, oddities: &mut Vec<Oddity>) -> Option<Machine> {
        let claim = self.claims.get(name)?;
        if let Some(id) = claim.provider_id()
            && (self.seen_nodes(id, view).next().is_some() || self.oldest_claim(id) != Some(name))
        {
            return None;
        }
        self.lower(None, Some(name), view, oddities)
    }

    fn lower(
        &self,
        node: Option<(&NodeName, &WireNode)>,
        claim_name: Option<&NodeName>,
        view: View<'_>,
        oddities: &mut Vec<Oddity>,
    ) -> Option<Machine> {
        let claim = claim_name.and_then(|name| self.claims.get(name));
        let pool = claim.as_ref().and_then(|claim| claim.metadata.labels.as_ref()?.get(api::labels::NODE_POOL));
        let parts = Parts {
            node: node.map(|(_, node)| node),
            claim: claim.as_deref(),
            csi: node.and_then(|(name, _)| self.csi.get(name)),
            pool: pool.and_then(|name| view.pools.get(&PoolName::from(name.as_str()))).map(|pool| &**pool),
            is_marked: claim_name.is_some_and(|name| view.marks.contains_key(name)),
        };
        let lowered = lower(parts, view.classes)?;
        oddities.extend(lowered.oddities);
        Some(Machine { node: Arc::new(lowered.value), claim: claim_name.cloned() })
    }

    /// Nodes of an id that are admitted. One that is not has an id all the same, by which its claim finds it to register it.
    fn seen_nodes<'a>(&'a self, id: &str, view: View<'a>) -> impl Iterator<Item = &'a NodeName> {
        let is_seen = move |name: &&NodeName| self.nodes.get(name).is_some_and(|node| is_admitted(&node, view.classes));
        self.nodes_with_id(id).filter(is_seen)
    }

    /// Whether an admitted Node is the oldest one of its id that is.
    fn is_oldest_node(&self, name: &NodeName, id: &str, view: View<'_>) -> bool {
        let age = |name: &NodeName| (self.nodes.brief(name).map(|brief| brief.born), name.clone());
        let is_older = |other: &&NodeName| age(other) < age(name);
        let mut older = self.nodes_with_id(id).filter(|other| *other != name).filter(is_older);
        !older.any(|other| self.nodes.get(other).is_some_and(|node| is_admitted(&node, view.classes)))
    }

    fn oldest_claim(&self, id: &str) -> Option<&NodeName> {
        let age = |name: &&NodeName| (self.claims.brief(name).map(|brief| brief.born), (*name).clone());
        self.claims_with_id(id).min_by_key(age)
    }
}

fn prefixed(claim: &NodeName) -> NodeName {
    NodeName::from(format!("{CLAIM_PREFIX}{claim}"))
}

fn unindex(index: &mut BTreeMap<Arc<str>, BTreeSet<NodeName>>, id: &str, name: &NodeName) {
    let Some(names) = index.get_mut(id) else { return };
    names.remove(name);
    if names.is_empty() {
        index.remove(id);
    }
}

fn is_registered(node: &WireNode) -> bool {
    let labels = node.metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(REGISTERED)).is_some_and(|value| value == "true")
}
