//! DaemonSets: the pod that each node will run for them.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use model::snapshot::Daemon;

use super::resources::{Origin, requests};
use super::{Lowered, Oddities, created, labels, pod, requirements, taints, wants};

/// What a node must keep free for a DaemonSet.
///
/// The newest of its pods knows better than the template what such a pod is like, after admission has changed it. But
/// where it may run stands in the template alone: each pod is pinned to the node that it was made for.
pub fn daemon(set: &DaemonSet, newest: Option<&Pod>) -> Lowered<Daemon> {
    let mut oddities = Oddities::of("DaemonSet", &set.metadata);
    let empty = PodSpec::default();
    let template = set.spec.as_ref().map(|spec| &spec.template);
    let template_spec = template.and_then(|template| template.spec.as_ref()).unwrap_or(&empty);
    let live = newest.and_then(|pod| Some((pod, pod.spec.as_ref()?)));
    let (spec, origin) = match live {
        Some((pod, spec)) => (spec, Origin::Admitted(pod.status.as_ref())),
        None => (template_spec, Origin::Template),
    };
    let metadata =
        live.map_or_else(|| template.and_then(|template| template.metadata.as_ref()), |(pod, _)| Some(&pod.metadata));
    let mut tolerations = taints::tolerations(spec, &mut oddities);
    if live.is_none() {
        tolerations.extend(taints::daemon_tolerations(spec));
    }
    let value = Daemon {
        name: pod::name(&set.metadata),
        labels: labels(metadata.and_then(|metadata| metadata.labels.as_ref())),
        requests: requests(spec, origin, &mut oddities).into_pod(),
        selector: requirements::of_selector(spec.node_selector.as_ref()),
        terms: wants::required_terms(template_spec),
        tolerations,
        ports: wants::host_ports(spec, &mut oddities),
        has_resource_claims: wants::has_resource_claims(spec),
    };
    oddities.with(value)
}

/// The same from a live pod that is lowered already; `template` is the DaemonSet without one.
pub fn with_live_pod(template: &Daemon, newest: &model::pod::Pod) -> Daemon {
    Daemon {
        name: template.name.clone(),
        labels: model::labels::Labels::clone(&newest.labels),
        requests: newest.requests.clone(),
        selector: newest.wants.selector.clone(),
        terms: template.terms.clone(),
        tolerations: newest.wants.tolerations.clone(),
        ports: newest.wants.ports.clone(),
        has_resource_claims: newest.wants.has_resource_claims,
    }
}

/// The newest of a DaemonSet's pods; of equally new ones the last by name, so that the answer does not depend on order.
pub fn newest<'a>(set: &DaemonSet, pods: impl IntoIterator<Item = &'a Pod>) -> Option<&'a Pod> {
    let is_own = |pod: &&Pod| {
        let mut owners = pod.metadata.owner_references.iter().flatten();
        pod.metadata.namespace == set.metadata.namespace
            && owners.any(|owner| {
                owner.api_version == "apps/v1"
                    && owner.kind == "DaemonSet"
                    && Some(&owner.name) == set.metadata.name.as_ref()
            })
    };
    let age = |pod: &'a Pod| (created(&pod.metadata), pod.metadata.name.as_deref());
    pods.into_iter().filter(is_own).max_by(|one, other| age(one).cmp(&age(other)))
}

#[cfg(test)]
mod tests;
