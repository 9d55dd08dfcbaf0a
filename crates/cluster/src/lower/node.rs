//! Nodes: machines that run, and claims that will become machines.
//!
//! A Node and its claim are one thing seen from two sides. The claim knows what was asked for and what the cloud answered;
//! the Node knows what has become of it. Until the Node is registered, the claim is believed:
//!
//! ```text
//! claim, no provider id ──► claim with provider id ──► + Node ──► registered ──► initialized
//!   Unlaunched                Starting                  Starting   Starting       Initialized
//!   labels, taints: claim     claim                     claim      Node           Node
//!   amounts: of the types     claim                     Node, and what it still lacks from the claim
//!                                                                                 Node
//!   startup and ephemeral taints are not seen ────────────────────────────────►  all taints count
//! ```
//!
//! A Node without a claim, ours or not, is taken as it is.

mod tenure;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use api::labels::{INITIALIZED, INSTANCE_TYPE, NODE_POOL, REGISTERED, node_class_label, normalized};
use api::nodepool::NodeClassReference;
use api::{NodeClaim, NodePool};
use k8s_openapi::api::core::v1;
use k8s_openapi::api::storage::v1::CSINode;
use model::ids::PoolName;
use model::instance::InstanceType;
use model::labels::{HOSTNAME, Labels};
use model::node::{Node, Progress};
use model::pool::Pool;
use model::requirements::Requirements;
use model::resources::Resources;
use model::taints::Taint;
use model::volume::AttachLimits;

use super::resources::Amounts;
use super::{Lowered, Oddities, created, requirements, resources, taints};

/// The kinds of NodeClass that the provider serves. What carries one of them is ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeClasses {
    kinds: BTreeSet<(String, String)>,
    labels: BTreeSet<String>,
}

impl NodeClasses {
    /// From groups and kinds, such as `karpenter.k8s.aws` and `EC2NodeClass`.
    pub fn new<'a>(kinds: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut classes = Self::default();
        for (group, kind) in kinds {
            classes.kinds.insert((group.to_owned(), kind.to_owned()));
            classes.labels.insert(node_class_label(group, kind));
        }
        classes
    }

    /// Groups and kinds.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = (&str, &str)> {
        self.kinds.iter().map(|(group, kind)| (group.as_str(), kind.as_str()))
    }

    /// The label keys under which claims and nodes name their class.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.labels.iter().map(String::as_str)
    }

    pub fn owns_node(&self, node: &v1::Node) -> bool {
        node.metadata.labels.iter().flatten().any(|(key, _)| self.labels.contains(key))
    }

    pub fn owns_claim(&self, claim: &NodeClaim) -> bool {
        self.has_kind_of(&claim.spec.node_class_ref)
    }

    pub fn owns_pool(&self, pool: &NodePool) -> bool {
        self.has_kind_of(&pool.spec.template.spec.node_class_ref)
    }

    fn has_kind_of(&self, class: &NodeClassReference) -> bool {
        self.kinds.iter().any(|(group, kind)| *group == class.group && *kind == class.kind)
    }
}

/// Everything that is known of one machine.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    pub node: Option<&'a v1::Node>,
    pub claim: Option<&'a NodeClaim>,
    /// The drivers on the node and how many volumes each can attach.
    pub csi: Option<&'a CSINode>,
    /// The claim's pool: while nothing has been launched, its instance types say what may come.
    pub pool: Option<&'a Pool>,
    /// Whether we have decided to remove it and the world does not show that yet.
    pub is_marked: bool,
}

/// One machine; nothing when there is none of ours or anyone's to speak of yet.
pub fn node(parts: Parts<'_>, classes: &NodeClasses) -> Option<Lowered<Node>> {
    let claim = parts.claim.filter(|claim| classes.owns_claim(claim));
    let node = parts.node.filter(|node| is_admitted(node, classes));
    let metadata = node.map(|node| &node.metadata).or(claim.map(|claim| &claim.metadata))?;
    let kind = if node.is_some() { "Node" } else { "NodeClaim" };
    let mut oddities = Oddities::of(kind, metadata);
    let stage = Stage::of(node, claim);
    let name = metadata.name.as_deref().unwrap_or_default();
    let labels = labels_of(name, node, claim, stage);
    let value = Node {
        name: name.into(),
        pool: pool_of(node, claim, classes),
        taints: taints_of(node, claim, stage, &mut oddities),
        capacity: amounts_of(node, claim, stage, Which::Capacity, &mut oddities),
        allocatable: amounts_of(node, claim, stage, Which::Allocatable, &mut oddities),
        attach_limits: parts.csi.map(attach_limits).unwrap_or_default(),
        progress: progress(claim, stage, parts.pool, &labels),
        is_leaving: parts.is_marked || is_leaving(node, claim),
        created: created(claim.map_or(metadata, |claim| &claim.metadata)),
        tenure: claim.map(|claim| tenure::tenure(claim, node)),
        labels,
    };
    Some(oddities.with(value))
}

/// How much of the Node can be believed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Unlaunched,
    Launched,
    Joined,
    Registered,
    /// Also every Node that has no claim.
    Initialized,
}

impl Stage {
    fn of(node: Option<&v1::Node>, claim: Option<&NodeClaim>) -> Self {
        let has = |key: &str| {
            let labels = node.and_then(|node| node.metadata.labels.as_ref());
            labels.and_then(|labels| labels.get(key)).is_some_and(|value| value == "true")
        };
        match (node, claim) {
            (_, None) => Self::Initialized,
            (None, Some(claim)) => {
                let id = claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
                if id.is_some_and(|id| !id.is_empty()) { Self::Launched } else { Self::Unlaunched }
            }
            (Some(_), Some(_)) if has(REGISTERED) && has(INITIALIZED) => Self::Initialized,
            (Some(_), Some(_)) if has(REGISTERED) => Self::Registered,
            (Some(_), Some(_)) => Self::Joined,
        }
    }

    fn believes_node(self) -> bool {
        matches!(self, Self::Registered | Self::Initialized)
    }
}

/// A Node of ours that does not yet say which machine it is, or of which type, would be taken for something else.
pub(crate) fn is_admitted(node: &v1::Node, classes: &NodeClasses) -> bool {
    let labels = node.metadata.labels.as_ref();
    let label = |key: &str| labels.and_then(|labels| labels.get(key)).map(String::as_str);
    if !classes.owns_node(node) && label(NODE_POOL).is_none() {
        return true;
    }
    let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref());
    let has_type = label(INITIALIZED) == Some("true") || label(INSTANCE_TYPE).is_some();
    id.is_some_and(|id| !id.is_empty()) && has_type
}

fn pool_of(node: Option<&v1::Node>, claim: Option<&NodeClaim>, classes: &NodeClasses) -> Option<PoolName> {
    let of_claim = claim.and_then(|claim| claim.metadata.labels.as_ref());
    let of_node = node.filter(|node| classes.owns_node(node)).and_then(|node| node.metadata.labels.as_ref());
    of_claim.or(of_node)?.get(NODE_POOL).map(|name| PoolName::from(name.as_str()))
}

fn labels_of(name: &str, node: Option<&v1::Node>, claim: Option<&NodeClaim>, stage: Stage) -> Labels {
    let of_node = || node.and_then(|node| node.metadata.labels.as_ref());
    let of_claim = || claim.and_then(|claim| claim.metadata.labels.as_ref());
    let mut labels = super::labels(if stage.believes_node() { of_node() } else { of_claim() });
    // Every demand is on the stable spelling of a key, so a node that only has the old one must answer to the new.
    let old: Vec<(Arc<str>, Arc<str>)> = labels
        .iter()
        .filter(|(key, _)| normalized(key) != &***key)
        .map(|(key, value)| (normalized(key).into(), value.clone()))
        .collect();
    for (key, value) in old {
        labels.entry(key).or_insert(value);
    }
    let host = of_node().and_then(|labels| labels.get(HOSTNAME)).map_or(name, String::as_str);
    labels.entry(HOSTNAME.into()).or_insert_with(|| host.into());
    labels
}

fn taints_of(
    node: Option<&v1::Node>,
    claim: Option<&NodeClaim>,
    stage: Stage,
    oddities: &mut Oddities<'_>,
) -> Vec<Taint> {
    let of_claim = || claim.map(|claim| taints::of_list(&claim.spec.taints)).unwrap_or_default();
    let mut all = match node.filter(|_| stage.believes_node()) {
        Some(node) => taints::of_node(node, oddities),
        None => of_claim(),
    };
    if stage != Stage::Initialized {
        let startup = claim.map(|claim| taints::of_list(&claim.spec.startup_taints)).unwrap_or_default();
        all.retain(|taint| !taints::is_ephemeral(taint) && !startup.iter().any(|other| other.is_same(taint)));
    }
    all
}

#[derive(Clone, Copy)]
enum Which {
    Capacity,
    Allocatable,
}

/// What the Node reports. While it starts, kubelets report zero of what device plugins have not announced yet; what the
/// cloud promised stands in for it.
fn amounts_of(
    node: Option<&v1::Node>,
    claim: Option<&NodeClaim>,
    stage: Stage,
    which: Which,
    oddities: &mut Oddities<'_>,
) -> Resources {
    let status = node.and_then(|node| node.status.as_ref());
    let (field, list) = match which {
        Which::Capacity => ("status.capacity", status.and_then(|status| status.capacity.as_ref())),
        Which::Allocatable => ("status.allocatable", status.and_then(|status| status.allocatable.as_ref())),
    };
    let mut amounts = Amounts::reported(list, format_args!("{field}"), oddities);
    if stage != Stage::Initialized
        && let Some(status) = claim.and_then(|claim| claim.status.as_ref())
    {
        amounts.fill_zeros_from(&Amounts::of_list(match which {
            Which::Capacity => &status.capacity,
            Which::Allocatable => &status.allocatable,
        }));
    }
    amounts.into_resources()
}

fn attach_limits(csi: &CSINode) -> AttachLimits {
    let limit = |driver: &k8s_openapi::api::storage::v1::CSINodeDriver| {
        let count = driver.allocatable.as_ref()?.count?;
        Some((driver.name.as_str().into(), u32::try_from(count).unwrap_or(0)))
    };
    csi.spec.drivers.iter().filter_map(limit).collect()
}

fn progress(claim: Option<&NodeClaim>, stage: Stage, pool: Option<&Pool>, labels: &Labels) -> Progress {
    match (stage, claim) {
        (Stage::Unlaunched, Some(claim)) => unlaunched(claim, pool, labels),
        (Stage::Unlaunched | Stage::Launched, _) => Progress::Starting { has_node: false },
        (Stage::Joined | Stage::Registered, _) => Progress::Starting { has_node: true },
        (Stage::Initialized, _) => Progress::Initialized,
    }
}

/// What may become of a claim: the types of its pool that its requirements allow and that hold what it asks for.
fn unlaunched(claim: &NodeClaim, pool: Option<&Pool>, labels: &Labels) -> Progress {
    let mut own_labels = labels.clone();
    // Its hostname is a placeholder of ours, which no instance type has.
    own_labels.remove(HOSTNAME);
    let mut demands: Requirements = requirements::of_list(&claim.spec.requirements);
    demands.add_all(&requirements::of_labels(&own_labels));
    let wanted = resources::of_list(&claim.spec.resources.requests);
    let named = demands.get(INSTANCE_TYPE);
    let may_come = |candidate: &&Arc<InstanceType>| {
        // A claim names few of hundreds, so most are passed over by name.
        named.is_none_or(|named| named.has(candidate.name.as_str()))
            && candidate.requirements.overlaps(&demands)
            && (wanted.fits_in(&candidate.allocatable())
                || candidate.offerings.iter().any(|offering| wanted.fits_in(&candidate.allocatable_of(offering))))
    };
    let types = pool.map(|pool| pool.instance_types.iter().filter(may_come).cloned().collect()).unwrap_or_default();
    Progress::Unlaunched { types, requirements: demands }
}

fn is_leaving(node: Option<&v1::Node>, claim: Option<&NodeClaim>) -> bool {
    let is_deleted = node.is_some_and(|node| node.metadata.deletion_timestamp.is_some())
        || claim.is_some_and(|claim| claim.metadata.deletion_timestamp.is_some());
    let mut conditions =
        claim.and_then(|claim| claim.status.as_ref()).into_iter().flat_map(|status| &status.conditions);
    is_deleted || conditions.any(|condition| condition.type_ == "InstanceTerminating" && condition.is_true())
}
