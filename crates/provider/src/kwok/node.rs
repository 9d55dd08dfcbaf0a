//! A simulated machine as a Node, and back.

use std::collections::BTreeMap;

use api::labels::{HOSTNAME, INSTANCE_TYPE, node_class_label, normalized, taints};
use api::requirement::Operator as Wire;
use api::{NodeClaim, ResourceList};
use k8s_openapi::api::core::v1::{Node, NodeSpec, NodeStatus, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use model::requirements::{Operator, Requirements};
use model::time::Instant;

use super::choose::Choice;
use super::classes::Class;
use super::draw::hash;
use super::keys::{CLAIM, CLAIM_UID, FAKE, FAKE_NODE, ID_PREFIX, IMAGE, ONLY_PARTITION, PARTITION, PRICE};
use crate::quantities;
use crate::{ClaimName, Instance, ProviderId};

/// The longest that a label's value, and the longest that a Node's name may be.
const LONGEST_LABEL: usize = 63;
const LONGEST_NAME: usize = 253;

/// What the machine itself brings; the other annotations of its Node were the claim's already.
const OWN_ANNOTATIONS: [&str; 4] = [FAKE_NODE, CLAIM, CLAIM_UID, IMAGE];

/// The name that a claim's Node has or will have. It follows from the claim alone, so that a launch that is repeated meets the
/// Node of the first time.
pub(super) fn name(claim: &ClaimName) -> String {
    let ending = format!("-{:016x}", hash(0, &claim.uid));
    let start = format!("kwok-{}", claim.name);
    format!("{}{ending}", cut(&start, LONGEST_NAME - ending.len()))
}

/// The name of the Node with a provider id; `None` when the id is not ours.
pub(super) fn name_of(id: &ProviderId) -> Option<&str> {
    id.as_str().strip_prefix(ID_PREFIX).filter(|name| !name.is_empty())
}

/// The Node that a launched machine registers as.
pub(super) fn node(claim: &NodeClaim, choice: &Choice<'_>, class: &Class) -> Node {
    let claim_name = ClaimName::of(claim);
    let name = name(&claim_name);
    let requests = &claim.spec.resources.requests;
    let capacity = quantities::to_wire(&choice.capacity());
    let allocatable = quantities::to_wire(&choice.machine.allocatable_of(choice.offering));
    Node {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            labels: Some(labels(claim, choice, class)),
            annotations: Some(annotations(claim, &claim_name, class.image_of(choice.machine))),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            provider_id: Some(format!("{ID_PREFIX}{name}")),
            taints: Some(vec![Taint {
                key: taints::UNREGISTERED.to_owned(),
                effect: "NoExecute".to_owned(),
                ..Taint::default()
            }]),
            ..NodeSpec::default()
        }),
        status: Some(NodeStatus {
            capacity: Some(quantities(requests, capacity)),
            allocatable: Some(quantities(requests, allocatable)),
            phase: Some("Pending".to_owned()),
            ..NodeStatus::default()
        }),
    }
}

/// What is settled about the machine: the claim's labels, then every label for which claim, type or offering leaves one value.
fn labels(claim: &NodeClaim, choice: &Choice<'_>, class: &Class) -> BTreeMap<String, String> {
    let mut labels = claim.metadata.labels.clone().unwrap_or_default();
    for requirement in &claim.spec.requirements {
        if let (Wire::In, [value]) = (requirement.operator, requirement.values.as_slice()) {
            labels.insert(normalized(&requirement.key).to_owned(), value.clone());
        }
    }
    labels.extend(single_values(&choice.machine.requirements));
    labels.extend(single_values(&choice.offering.requirements));
    class.settle(&mut labels, choice.machine);
    let reference = &claim.spec.node_class_ref;
    labels.insert(node_class_label(&reference.group, &reference.kind), reference.name.clone());
    let hostname = cut(claim.metadata.name.as_deref().unwrap_or_default(), LONGEST_LABEL);
    let own = [
        (INSTANCE_TYPE, choice.machine.name.as_str()),
        (HOSTNAME, hostname),
        (FAKE_NODE, FAKE),
        (PARTITION, ONLY_PARTITION),
        (PRICE, &format!("{:.6}", choice.offering.price.dollars())),
    ];
    labels.extend(own.map(|(key, value)| (key.to_owned(), value.to_owned())));
    labels
}

fn single_values(requirements: &Requirements) -> impl Iterator<Item = (String, String)> + '_ {
    requirements.iter().filter(|(_, requirement)| requirement.operator() == Operator::In).filter_map(
        |(key, requirement)| {
            let mut values = requirement.listed()?.iter();
            let only = values.next().filter(|_| values.next().is_none())?;
            Some((key.to_string(), only.to_string()))
        },
    )
}

fn annotations(claim: &NodeClaim, claim_name: &ClaimName, image: Option<&str>) -> BTreeMap<String, String> {
    let mut annotations = claim.metadata.annotations.clone().unwrap_or_default();
    annotations.insert(FAKE_NODE.to_owned(), FAKE.to_owned());
    annotations.insert(CLAIM.to_owned(), claim_name.name.clone());
    annotations.insert(CLAIM_UID.to_owned(), claim_name.uid.clone());
    if let Some(image) = image {
        annotations.insert(IMAGE.to_owned(), image.to_owned());
    }
    annotations
}

/// What the machine has, and what the claim asks for beyond that: an overlay that the cloud does not know of promised it.
fn quantities(requests: &ResourceList, amounts: ResourceList) -> BTreeMap<String, Quantity> {
    let all = requests.clone().into_iter().chain(amounts);
    all.map(|(name, quantity)| (name, Quantity(quantity.to_string()))).collect()
}

/// The machine behind a Node; `None` when it is not one of ours.
pub(super) fn instance(node: &Node) -> Option<Instance> {
    let id = ProviderId::from(node.spec.as_ref()?.provider_id.as_deref()?);
    name_of(&id)?;
    let all = node.metadata.annotations.clone().unwrap_or_default();
    let claim = all.get(CLAIM).zip(all.get(CLAIM_UID));
    let status = node.status.as_ref();
    let created = node.metadata.creation_timestamp.as_ref();
    Some(Instance {
        id,
        claim: claim.map(|(name, uid)| ClaimName { name: name.clone(), uid: uid.clone() }),
        image: all.get(IMAGE).cloned(),
        labels: node.metadata.labels.clone().unwrap_or_default(),
        annotations: all.into_iter().filter(|(key, _)| OWN_ANNOTATIONS.contains(&key.as_str())).collect(),
        capacity: wire(status.and_then(|status| status.capacity.as_ref())),
        allocatable: wire(status.and_then(|status| status.allocatable.as_ref())),
        launched_at: created.map(|time| Instant::from_unix_nanos(time.0.as_nanosecond())),
    })
}

/// What a list tells of the machine behind a Node: which it is, whose, and since when.
pub(super) fn sketch(node: &Node) -> Option<Instance> {
    let id = ProviderId::from(node.spec.as_ref()?.provider_id.as_deref()?);
    name_of(&id)?;
    let note = |key: &str| node.metadata.annotations.as_ref()?.get(key).cloned();
    let created = node.metadata.creation_timestamp.as_ref();
    Some(Instance {
        id,
        claim: note(CLAIM).zip(note(CLAIM_UID)).map(|(name, uid)| ClaimName { name, uid }),
        image: None,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        capacity: ResourceList::default(),
        allocatable: ResourceList::default(),
        launched_at: created.map(|time| Instant::from_unix_nanos(time.0.as_nanosecond())),
    })
}

fn wire(quantities: Option<&BTreeMap<String, Quantity>>) -> ResourceList {
    let entries = quantities.into_iter().flatten();
    entries.filter_map(|(name, quantity)| Some((name.clone(), quantity.0.parse().ok()?))).collect()
}

/// As much of a name as fits, without the dots and dashes that names must not end in.
fn cut(name: &str, longest: usize) -> &str {
    name[..name.floor_char_boundary(longest)].trim_end_matches(['-', '.', '_'])
}
