//! How a pod wants to stand to other pods.

use std::collections::BTreeMap;

use api::labels::normalized;
use k8s_openapi::api::core::v1::{PodAffinityTerm, TopologySpreadConstraint, WeightedPodAffinityTerm};
use model::ids::Namespace;
use model::labels::Labels;
use model::pod::Weighted;
use model::requirements::{Operator, Requirement};
use model::topology::{Namespaces, PodTerm, Policy, Selector, Spread, SpreadMode};

use super::selector::selector;

/// The pod that wants something, and the namespaces that there are.
pub(super) struct Neighbour<'a> {
    pub(super) namespace: &'a Namespace,
    pub(super) labels: &'a Labels,
    pub(super) namespaces: &'a BTreeMap<Namespace, Labels>,
}

impl Neighbour<'_> {
    pub(super) fn terms(&self, wire: Option<&Vec<PodAffinityTerm>>) -> Vec<PodTerm> {
        wire.into_iter().flatten().map(|term| self.term(term)).collect()
    }

    pub(super) fn weighted(&self, wire: Option<&Vec<WeightedPodAffinityTerm>>) -> Vec<Weighted<PodTerm>> {
        wire.into_iter()
            .flatten()
            .map(|term| Weighted { weight: term.weight, item: self.term(&term.pod_affinity_term) })
            .collect()
    }

    fn term(&self, wire: &PodAffinityTerm) -> PodTerm {
        let mut selector = selector(wire.label_selector.as_ref());
        self.narrow(&mut selector, wire.match_label_keys.as_ref(), Operator::In);
        self.narrow(&mut selector, wire.mismatch_label_keys.as_ref(), Operator::NotIn);
        PodTerm { key: normalized(&wire.topology_key).into(), selector, namespaces: self.namespaces_of(wire) }
    }

    /// Named namespaces and selected ones together; the pod's own only when nothing is said at all.
    fn namespaces_of(&self, wire: &PodAffinityTerm) -> Namespaces {
        let named = wire.namespaces.iter().flatten().map(|name| Namespace::from(name.as_str()));
        let Some(by_labels) = &wire.namespace_selector else {
            let named: std::collections::BTreeSet<Namespace> = named.collect();
            let is_silent = named.is_empty();
            return Namespaces::Listed(if is_silent { [self.namespace.clone()].into() } else { named });
        };
        match selector(Some(by_labels)) {
            Selector::Matching(requirements) if requirements.is_empty() => Namespaces::All,
            by_labels => {
                let selected = self.namespaces.iter().filter(|(_, labels)| by_labels.selects(labels));
                Namespaces::Listed(named.chain(selected.map(|(name, _)| name.clone())).collect())
            }
        }
    }

    pub(super) fn spread(&self, wire: &TopologySpreadConstraint) -> Spread {
        let mut selector = selector(wire.label_selector.as_ref());
        self.narrow(&mut selector, wire.match_label_keys.as_ref(), Operator::In);
        spread(wire, selector)
    }

    /// Adds the pod's own values of some labels to a selector, so that revisions of one workload keep apart. A label that
    /// the pod does not have says nothing.
    fn narrow(&self, selector: &mut Selector, keys: Option<&Vec<String>>, operator: Operator) {
        let Selector::Matching(requirements) = selector else { return };
        for key in keys.into_iter().flatten() {
            if let Some((key, value)) = self.labels.get_key_value(key.as_str()) {
                requirements.add(key.clone(), Requirement::new(operator, [&**value]));
            }
        }
    }
}

/// A spread of the pods that `selector` means.
pub(super) fn spread(wire: &TopologySpreadConstraint, selector: Selector) -> Spread {
    let is_soft = wire.when_unsatisfiable == "ScheduleAnyway";
    Spread {
        key: normalized(&wire.topology_key).into(),
        max_skew: wire.max_skew,
        min_domains: wire.min_domains,
        mode: if is_soft { SpreadMode::ScheduleAnyway } else { SpreadMode::DoNotSchedule },
        selector,
        node_affinity: policy(wire.node_affinity_policy.as_deref(), Policy::Honor),
        node_taints: policy(wire.node_taints_policy.as_deref(), Policy::Ignore),
    }
}

fn policy(text: Option<&str>, default: Policy) -> Policy {
    match text {
        Some("Honor") => Policy::Honor,
        Some("Ignore") => Policy::Ignore,
        _ => default,
    }
}
