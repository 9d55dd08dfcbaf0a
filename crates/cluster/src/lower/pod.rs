//! Pods: what each asks for, where it may run, and how far it has come.

#[cfg(test)]
mod odd;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::labels::{LabelRules, annotations};
use k8s_openapi::api::core::v1::{self as wire, PodCondition, PodSpec, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use model::ids::{Namespace, PodName, Uid};
use model::labels::Labels;
use model::pod::{DoNotDisrupt, Life, Owner, Pod, Readiness};
use model::why::PodProblem;

use super::affinity::Neighbour;
use super::resources::{Origin, requests};
use super::spread::{self, Controller, Member, Workloads};
use super::volume::{self, Storage};
use super::{Lowered, Oddities, created, instant, labels, problems, wants};

/// What else in the cluster decides what a pod means.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    pub rules: &'a LabelRules,
    pub namespaces: &'a BTreeMap<Namespace, Labels>,
    pub storage: &'a Storage,
    pub workloads: &'a BTreeMap<Namespace, Workloads>,
    /// Spreads for pods that name none of their own. Usually there are none.
    pub default_spread: &'a [TopologySpreadConstraint],
}

pub fn pod(pod: &wire::Pod, around: &Surroundings<'_>) -> Lowered<Pod> {
    lower(pod, Origin::Admitted(pod.status.as_ref()), around)
}

/// A pod that nobody has made yet, so that defaults are still open.
pub(super) fn from_template(pod: &wire::Pod, around: &Surroundings<'_>) -> Lowered<Pod> {
    lower(pod, Origin::Template, around)
}

fn lower(pod: &wire::Pod, origin: Origin<'_>, around: &Surroundings<'_>) -> Lowered<Pod> {
    let mut oddities = Oddities::of("Pod", &pod.metadata);
    let empty = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&empty);
    let name = name(&pod.metadata);
    let uid = pod.metadata.uid.clone().unwrap_or_else(|| name.to_string());
    let pod_labels = labels(pod.metadata.labels.as_ref());

    let owner = volume::Owner { namespace: &name.namespace, name: &name.name, uid: &uid };
    let volumes = volume::of_pod(spec, &owner, around.storage, &mut oddities);
    let neighbour = Neighbour { namespace: &name.namespace, labels: &pod_labels, namespaces: around.namespaces };
    let mut wants = wants::wants(spec, &neighbour, volumes.volumes, &mut oddities);
    if wants.spread.is_empty() {
        let controller = Controller::of(&pod.metadata);
        let member = Member { labels: &pod_labels, controller: controller.as_ref() };
        wants.spread = spread::default_spread(member, around.default_spread, around.workloads.get(&name.namespace));
    }
    let problems = if problems::wants_other_nodes(&wants) {
        // Its author knows; anything else that may be wrong is not ours to report.
        vec![PodProblem::WantsOtherNodes]
    } else {
        problems::of_spec(spec, around.rules).into_iter().chain(volumes.problems).collect()
    };
    let value = Pod {
        uid: Uid::from(uid),
        priority: spec.priority.unwrap_or(0),
        created: created(&pod.metadata),
        requests: requests(spec, origin, &mut oddities).into_pod(),
        wants: wants.into(),
        life: life(pod),
        owner: owner_kind(&pod.metadata),
        node: spec.node_name.as_deref().filter(|name| !name.is_empty()).map(Into::into),
        is_unschedulable: is_unschedulable(pod),
        is_gated: spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty()),
        is_nominated: is_nominated(pod),
        problems,
        do_not_disrupt: do_not_disrupt(pod, &mut oddities),
        is_ready: readiness(pod),
        is_virtual: false,
        deletion_cost: deletion_cost(pod, &mut oddities),
        labels: pod_labels.into(),
        name,
    };
    oddities.with(value)
}

pub(super) fn name(metadata: &ObjectMeta) -> PodName {
    let namespace = metadata.namespace.as_deref().unwrap_or("default");
    PodName::new(namespace, metadata.name.as_deref().unwrap_or_default())
}

pub(super) fn condition<'a>(pod: &'a wire::Pod, type_: &str) -> Option<&'a PodCondition> {
    pod.status.as_ref()?.conditions.iter().flatten().find(|condition| condition.type_ == type_)
}

/// A pod that is held back by a gate waits for another reason, and no node would help it.
fn is_unschedulable(pod: &wire::Pod) -> bool {
    condition(pod, "PodScheduled").is_some_and(|condition| condition.reason.as_deref() == Some("Unschedulable"))
}

fn is_nominated(pod: &wire::Pod) -> bool {
    let node = pod.status.as_ref().and_then(|status| status.nominated_node_name.as_deref());
    node.is_some_and(|name| !name.is_empty())
}

/// A pod that has ended holds nothing any more, also while it is being deleted; so that comes first.
fn life(pod: &wire::Pod) -> Life {
    match pod.status.as_ref().and_then(|status| status.phase.as_deref()) {
        Some("Failed" | "Succeeded") => Life::Terminal,
        _ if pod.metadata.deletion_timestamp.is_some() => Life::Terminating,
        _ => Life::Active,
    }
}

fn owner_kind(metadata: &ObjectMeta) -> Owner {
    let is_owned_by = |api_version: &str, kind: &str| {
        let mut owners = metadata.owner_references.iter().flatten();
        owners.any(|owner| owner.api_version == api_version && owner.kind == kind)
    };
    if is_owned_by("apps/v1", "DaemonSet") {
        Owner::DaemonSet
    } else if is_owned_by("v1", "Node") {
        Owner::Node
    } else if is_owned_by("apps/v1", "StatefulSet") {
        Owner::StatefulSet
    } else {
        Owner::Other
    }
}

fn readiness(pod: &wire::Pod) -> Readiness {
    match condition(pod, "Ready").map(|condition| condition.status.as_str()) {
        Some("True") => Readiness::Ready,
        Some("False") => Readiness::NotReady,
        _ => Readiness::Unknown,
    }
}

/// Kubernetes has a whole number there; the reference reads any number, so that is what people may have written.
fn deletion_cost(pod: &wire::Pod, oddities: &mut Oddities<'_>) -> i64 {
    let annotation = pod.metadata.annotations.as_ref().and_then(|all| all.get(annotations::POD_DELETION_COST));
    let Some(text) = annotation else { return 0 };
    match text.trim().parse::<f64>() {
        Ok(cost) if cost.is_finite() => cost.round() as i64,
        _ => {
            let field = format_args!("metadata.annotations[{}]", annotations::POD_DELETION_COST);
            oddities.note(field, format_args!("{text:?} is not a number; it is taken for 0"));
            0
        }
    }
}

fn do_not_disrupt(pod: &wire::Pod, oddities: &mut Oddities<'_>) -> DoNotDisrupt {
    let annotation = pod.metadata.annotations.as_ref().and_then(|all| all.get(annotations::DO_NOT_DISRUPT));
    let Some(text) = annotation else { return DoNotDisrupt::No };
    let start = pod.status.as_ref().and_then(|status| status.start_time.as_ref());
    protection(text, start).unwrap_or_else(|| {
        let field = format_args!("metadata.annotations[{}]", annotations::DO_NOT_DISRUPT);
        oddities.note(field, format_args!("{text:?} is neither true nor a positive duration; it protects nothing"));
        DoNotDisrupt::No
    })
}

/// What `karpenter.sh/do-not-disrupt` asks for on something that started then; nothing when it cannot be understood.
pub(in crate::lower) fn protection(text: &str, start: Option<&Time>) -> Option<DoNotDisrupt> {
    if text == "true" {
        return Some(DoNotDisrupt::Always);
    }
    let duration = text.parse::<api::Duration>().ok().filter(|duration| *duration > api::Duration::ZERO)?;
    // Without a start the time has not begun to run out.
    Some(start.map_or(DoNotDisrupt::Always, |start| DoNotDisrupt::Until(instant(start).plus(duration.to_std()))))
}
