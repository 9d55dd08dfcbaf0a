//! NodeAffinity: the node selector, and one of the required terms, on the labels that the node really has.

use std::sync::Arc;

use model::labels::Labels;
use model::pod::Pod;
use model::requirements::Requirements;

use crate::violation::Refusal;
use crate::world::Node;

pub(super) fn refusal(pod: &Pod, node: &Node) -> Option<Refusal> {
    mismatch(&pod.wants.selector, &pod.wants.terms, &node.labels)
}

/// What keeps a selector and its terms from matching. Terms are alternatives; no terms at all ask for nothing.
pub(crate) fn mismatch(selector: &Requirements, terms: &[Requirements], labels: &Labels) -> Option<Refusal> {
    if let Some(key) = first_mismatch(selector, labels) {
        return Some(Refusal::Selector { value: labels.get(key).cloned(), key: key.clone() });
    }
    let is_met = terms.is_empty() || terms.iter().any(|term| matches_term(term, labels));
    (!is_met).then_some(Refusal::Terms { tried: terms.len() })
}

/// A term without demands selects no node, by Kubernetes' decree.
pub(crate) fn matches_term(term: &Requirements, labels: &Labels) -> bool {
    !term.is_empty() && first_mismatch(term, labels).is_none()
}

/// The first key whose label, or whose absence, does not satisfy the requirements.
pub(crate) fn first_mismatch<'a>(requirements: &'a Requirements, labels: &Labels) -> Option<&'a Arc<str>> {
    for (key, requirement) in requirements.iter() {
        let is_met = match labels.get(key) {
            Some(value) => requirement.has(value),
            None => requirement.allows_absent(),
        };
        if !is_met {
            return Some(key);
        }
    }
    None
}
