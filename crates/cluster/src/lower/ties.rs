//! What of a pod must be looked up again when the cluster around it changes.
//!
//! Pods are not kept as they came, so that a hundred thousand of them fit into memory. But what a pod means depends on its
//! volume claims, on the labels of namespaces, and, where the operator set default spreads, on services and controllers.
//! The few words that these are looked up by are kept, and only for pods that have any.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{self as wire, Affinity, PodAffinityTerm, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use model::pod::Pod;
use model::why::PodProblem;

use super::affinity::Neighbour;
use super::pod::Surroundings;
use super::spread::{self, Controller, Member};
use super::volume::{Mounts, Owner};
use super::{Lowered, Oddities, wants};

/// A pod's ties to the objects around it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ties {
    mounts: Mounts,
    /// Only where a term means namespaces by their labels.
    company: Option<Affinity>,
    /// Whether it names no spread of its own and the operator chose some for such pods.
    takes_default_spread: bool,
}

impl Ties {
    /// The ties of a pod that was lowered in these surroundings; most pods have none.
    pub fn of(pod: &wire::Pod, lowered: &Pod, around: &Surroundings<'_>) -> Option<Box<Self>> {
        let spec = pod.spec.as_ref()?;
        let owner = Owner { namespace: lowered.namespace(), name: &lowered.name.name, uid: lowered.uid.as_str() };
        let names_spread = spec.topology_spread_constraints.as_ref().is_some_and(|spread| !spread.is_empty());
        let ties = Self {
            mounts: Some(Mounts::of(spec, &owner))
                .filter(|mounts| mounts.claims().next().is_some())
                .unwrap_or_default(),
            company: selects_namespaces(spec).then(|| company(spec)),
            takes_default_spread: !names_spread && !around.default_spread.is_empty(),
        };
        (ties != Self::default()).then(|| Box::new(ties))
    }

    /// Volume claims that the pod uses, by name in its own namespace.
    pub fn claims(&self) -> impl Iterator<Item = &Arc<str>> {
        self.mounts.claims()
    }

    pub fn selects_namespaces(&self) -> bool {
        self.company.is_some()
    }

    pub fn takes_default_spread(&self) -> bool {
        self.takes_default_spread
    }

    /// The pod as it would be lowered in these surroundings.
    pub fn renewed(&self, pod: &Pod, controller: Option<&Controller>, around: &Surroundings<'_>) -> Lowered<Pod> {
        let metadata = ObjectMeta {
            namespace: Some(pod.namespace().to_string()),
            name: Some(pod.name.name.to_string()),
            ..ObjectMeta::default()
        };
        let mut oddities = Oddities::of("Pod", &metadata);
        let mut renewed = pod.clone();
        let neighbour = Neighbour { namespace: pod.namespace(), labels: &pod.labels, namespaces: around.namespaces };
        if self.mounts.claims().next().is_some() {
            let volumes = self.mounts.look_up(pod.namespace(), around.storage, &mut oddities);
            renewed.wants.volumes = volumes.volumes;
            // A pod that wants other nodes has that one problem and no other.
            if !pod.problems.contains(&PodProblem::WantsOtherNodes) {
                renewed.problems.retain(|problem| !matches!(problem, PodProblem::Volume { .. }));
                renewed.problems.extend(volumes.problems);
            }
        }
        if let Some(affinity) = &self.company {
            wants::set_company(&mut renewed.wants, Some(affinity), &neighbour);
        }
        if self.takes_default_spread {
            let workloads = around.workloads.get(pod.namespace());
            let member = Member { labels: &pod.labels, controller };
            renewed.wants.spread = spread::default_spread(member, around.default_spread, workloads);
        }
        oddities.with(renewed)
    }
}

fn selects_namespaces(spec: &PodSpec) -> bool {
    let Some(affinity) = &spec.affinity else { return false };
    let by_labels = |term: &PodAffinityTerm| term.namespace_selector.is_some();
    let together = affinity.pod_affinity.as_ref().is_some_and(|terms| {
        let required = terms.required_during_scheduling_ignored_during_execution.iter().flatten();
        let preferred = terms.preferred_during_scheduling_ignored_during_execution.iter().flatten();
        required.chain(preferred.map(|term| &term.pod_affinity_term)).any(by_labels)
    });
    let apart = affinity.pod_anti_affinity.as_ref().is_some_and(|terms| {
        let required = terms.required_during_scheduling_ignored_during_execution.iter().flatten();
        let preferred = terms.preferred_during_scheduling_ignored_during_execution.iter().flatten();
        required.chain(preferred.map(|term| &term.pod_affinity_term)).any(by_labels)
    });
    together || apart
}

fn company(spec: &PodSpec) -> Affinity {
    let affinity = spec.affinity.as_ref();
    Affinity {
        node_affinity: None,
        pod_affinity: affinity.and_then(|affinity| affinity.pod_affinity.clone()),
        pod_anti_affinity: affinity.and_then(|affinity| affinity.pod_anti_affinity.clone()),
    }
}
