//! Giving claims and Nodes that older controllers made what they lack: the label by which they are known as ours.

use api::labels::node_class_label;
use kube::ResourceExt;
use model::ids::NodeName;

use super::desk::Desk;

pub(super) fn hydrate(desk: &mut Desk) {
    let class = &desk.claim.spec.node_class_ref;
    let (key, value) = (node_class_label(&class.group, &class.kind), class.name.clone());
    if desk.claim.labels().get(&key) != Some(&value) {
        desk.claim.labels_mut().insert(key.clone(), value.clone());
    }
    // A Node that is not registered yet gets all of the claim's labels when it is.
    let is_ours = desk.life().registered.is_true();
    let lacking = desk.nodes().filter(|node| is_ours && node.labels().get(&key) != Some(&value));
    let lacking: Vec<NodeName> = lacking.map(|node| node.name_any().into()).collect();
    for node in lacking.iter() {
        if let Some(node) = desk.node_mut(node) {
            node.labels_mut().insert(key.clone(), value.clone());
        }
    }
}
