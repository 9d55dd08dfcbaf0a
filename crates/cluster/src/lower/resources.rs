//! What pods ask for and machines have, as whole numbers.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use api::ResourceList;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use model::resources::{Resource, Resources};

use super::{Lowered, Oddities};

/// What the scheduler counts for a pod, its own place among the node's pods included.
pub fn of_pod(pod: &Pod) -> Lowered<Resources> {
    let mut oddities = Oddities::of("Pod", &pod.metadata);
    let requests = pod
        .spec
        .as_ref()
        .map(|spec| requests(spec, Origin::Admitted(pod.status.as_ref()), &mut oddities))
        .unwrap_or_default();
    oddities.with(requests.into_pod())
}

/// What a pod's containers may use at most, together or in the hungriest moment of their start; nothing where none of them has
/// a limit. What cannot be read is left out: the API server has let it through, and nobody decides by it.
pub fn limits_of_pod(pod: &Pod) -> Option<Resources> {
    let spec = pod.spec.as_ref()?;
    let mut oddities = Oddities::of("Pod", &pod.metadata);
    let mut of = |container: &Container| {
        let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
        Amounts::reported(limits, format_args!("limits"), &mut oddities)
    };
    let (mut total, mut sidecars, mut starting) = (Amounts::default(), Amounts::default(), Amounts::default());
    for container in &spec.containers {
        total.add(&of(container));
    }
    for container in spec.init_containers.iter().flatten() {
        let mut limits = of(container);
        if is_sidecar(container) {
            total.add(&limits);
            sidecars.add(&limits);
        } else {
            limits.add(&sidecars);
            starting.raise_to(&limits);
        }
    }
    total.raise_to(&starting);
    let limits = total.into_resources();
    (!limits.is_zero()).then_some(limits)
}

/// Amounts as pools, claims and overlays write them.
pub fn of_list(list: &ResourceList) -> Resources {
    Amounts::of_list(list).into_resources()
}

/// Where a pod spec comes from.
#[derive(Clone, Copy)]
pub(super) enum Origin<'a> {
    /// The API server has filled in defaults; a kubelet may have reported what the containers hold now.
    Admitted(Option<&'a PodStatus>),
    /// Nobody has filled in anything yet.
    Template,
}

/// Thousandths of each resource. Amounts are rounded once, after adding up, as the scheduler does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Amounts(BTreeMap<String, i128>);

/// More than any machine has. It stands for a request that cannot be read, so that such a pod fits nowhere.
const ABSURD: i128 = i64::MAX as i128 * 1000;

/// The exact effective request of a pod, without its place among the node's pods.
pub(super) fn requests(spec: &PodSpec, origin: Origin<'_>, oddities: &mut Oddities<'_>) -> Amounts {
    let mut total = container_requests(spec, origin, oddities);
    for (name, amount) in pod_level(spec, origin, &total, oddities).0 {
        total.0.insert(name, amount);
    }
    total.add(&Amounts::asked(spec.overhead.as_ref(), format_args!("spec.overhead"), oddities));
    total
}

/// All containers together, or the hungriest moment of the start, whichever is more.
///
/// Init containers run one after the other, so only the greatest counts; but sidecars among them stay, and count for
/// everything that starts after them.
fn container_requests(spec: &PodSpec, origin: Origin<'_>, oddities: &mut Oddities<'_>) -> Amounts {
    let reported = Reported::of(origin);
    let mut total = Amounts::default();
    for container in &spec.containers {
        total.add(&reported.requests(container, origin, oddities));
    }
    let mut sidecars = Amounts::default();
    let mut starting = Amounts::default();
    for container in spec.init_containers.iter().flatten() {
        if is_sidecar(container) {
            let requests = reported.requests(container, origin, oddities);
            total.add(&requests);
            sidecars.add(&requests);
        } else {
            let mut moment = written_requests(container, origin, oddities);
            moment.add(&sidecars);
            starting.raise_to(&moment);
        }
    }
    total.raise_to(&starting);
    total
}

/// Whether an init container keeps running beside the others.
pub(super) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

fn written_requests(container: &Container, origin: Origin<'_>, oddities: &mut Oddities<'_>) -> Amounts {
    let resources = container.resources.as_ref();
    let name = &container.name;
    let field = format_args!("containers[{name}].resources.requests");
    let mut requests = Amounts::asked(resources.and_then(|r| r.requests.as_ref()), field, oddities);
    if let Origin::Template = origin {
        let field = format_args!("containers[{name}].resources.limits");
        requests.fill_from(&Amounts::asked(resources.and_then(|r| r.limits.as_ref()), field, oddities));
    }
    requests
}

/// What kubelets say about the containers of one pod, for resizing in place.
struct Reported<'a> {
    containers: BTreeMap<&'a str, &'a ContainerStatus>,
    is_infeasible: bool,
}

impl<'a> Reported<'a> {
    fn of(origin: Origin<'a>) -> Self {
        let Origin::Admitted(Some(status)) = origin else {
            return Self { containers: BTreeMap::new(), is_infeasible: false };
        };
        let statuses = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
        Self {
            containers: statuses.map(|status| (status.name.as_str(), status)).collect(),
            is_infeasible: is_resize_infeasible(status),
        }
    }

    /// What is written or what is held, whichever is more: a growing container must find room for its new size, and a
    /// shrinking one keeps the old until the kubelet has taken it back. A resize that cannot happen counts for nothing.
    fn requests(&self, container: &Container, origin: Origin<'_>, oddities: &mut Oddities<'_>) -> Amounts {
        let written = written_requests(container, origin, oddities);
        let status = self.containers.get(container.name.as_str());
        let Some((status, resources)) = status.and_then(|status| Some((status, status.resources.as_ref()?))) else {
            return written;
        };
        let name = &container.name;
        let field = format_args!("status.containerStatuses[{name}]");
        let mut held = Amounts::asked(resources.requests.as_ref(), field, oddities);
        held.raise_to(&Amounts::asked(status.allocated_resources.as_ref(), field, oddities));
        if !self.is_infeasible {
            held.raise_to(&written);
        }
        held
    }
}

fn is_resize_infeasible(status: &PodStatus) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    let pending = conditions.find(|condition| condition.type_ == "PodResizePending");
    pending.is_some_and(|condition| condition.reason.as_deref() == Some("Infeasible"))
}

/// Requests of the pod as a whole. They replace what its containers add up to.
fn pod_level(spec: &PodSpec, origin: Origin<'_>, containers: &Amounts, oddities: &mut Oddities<'_>) -> Amounts {
    let Some(resources) = &spec.resources else { return Amounts::default() };
    let mut requests = Amounts::asked(resources.requests.as_ref(), format_args!("spec.resources.requests"), oddities);
    match origin {
        Origin::Template => {
            let limits = Amounts::asked(resources.limits.as_ref(), format_args!("spec.resources.limits"), oddities);
            requests.fill_from(&limits.without(containers));
        }
        Origin::Admitted(Some(status)) if !requests.0.is_empty() => {
            if let Some(resources) = &status.resources {
                let field = format_args!("status.resources.requests");
                let mut held = Amounts::asked(resources.requests.as_ref(), field, oddities);
                let field = format_args!("status.allocatedResources");
                held.raise_to(&Amounts::asked(status.allocated_resources.as_ref(), field, oddities));
                if !is_resize_infeasible(status) {
                    held.raise_to(&requests);
                }
                requests = held;
            }
        }
        Origin::Admitted(_) => {}
    }
    requests.0.retain(|name, _| name == "cpu" || name == "memory" || name.starts_with("hugepages-"));
    requests
}

impl Amounts {
    /// What somebody asks for: never less than nothing, and absurdly much when it cannot be read.
    pub(super) fn asked(
        list: Option<&BTreeMap<String, Quantity>>,
        field: fmt::Arguments<'_>,
        oddities: &mut Oddities<'_>,
    ) -> Self {
        Self::read(list, ABSURD, field, oddities).at_least_nothing()
    }

    /// What a machine reports: nothing where it cannot be read.
    pub(super) fn reported(
        list: Option<&BTreeMap<String, Quantity>>,
        field: fmt::Arguments<'_>,
        oddities: &mut Oddities<'_>,
    ) -> Self {
        Self::read(list, 0, field, oddities)
    }

    fn read(
        list: Option<&BTreeMap<String, Quantity>>,
        unreadable: i128,
        field: fmt::Arguments<'_>,
        oddities: &mut Oddities<'_>,
    ) -> Self {
        let mut amounts = BTreeMap::new();
        for (name, text) in list.into_iter().flatten() {
            let amount = text.0.parse::<api::Quantity>().map_or_else(
                |problem| {
                    oddities.note(format_args!("{field}[{name}]"), problem);
                    unreadable
                },
                |quantity| thousandths(&quantity),
            );
            amounts.insert(name.clone(), amount);
        }
        Self(amounts)
    }

    pub(super) fn of_list(list: &ResourceList) -> Self {
        Self(list.iter().map(|(name, quantity)| (name.clone(), thousandths(quantity))).collect())
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let sum = self.0.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
    }

    /// The greater amount of each resource.
    pub(super) fn raise_to(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let present = self.0.entry(name.clone()).or_insert(*amount);
            *present = (*present).max(*amount);
        }
    }

    /// Takes what is not named here from `other`.
    pub(super) fn fill_from(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            self.0.entry(name.clone()).or_insert(*amount);
        }
    }

    /// Takes what is not named here, or is zero, from `other`.
    pub(super) fn fill_zeros_from(&mut self, other: &Self) {
        self.0.retain(|_, amount| *amount != 0);
        self.fill_from(other);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, i128)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    pub(super) fn get(&self, name: &str) -> Option<i128> {
        self.0.get(name).copied()
    }

    fn without(mut self, other: &Self) -> Self {
        self.0.retain(|name, _| !other.0.contains_key(name));
        self
    }

    fn at_least_nothing(mut self) -> Self {
        for amount in self.0.values_mut() {
            *amount = (*amount).max(0);
        }
        self
    }

    pub(super) fn into_resources(self) -> Resources {
        let mut resources = Resources::default();
        for (name, amount) in &self.0 {
            let axis = Resource::from_name(name);
            let amount = if axis == Resource::Cpu { *amount } else { rounded_up(*amount) };
            resources.set(axis, saturated(amount));
        }
        resources
    }

    /// The same as a pod's request: each pod takes one place on its node, whatever it says itself.
    pub(super) fn into_pod(self) -> Resources {
        self.into_resources().with("pods", 1)
    }
}

fn thousandths(quantity: &api::Quantity) -> i128 {
    match quantity.milli() {
        // Beyond nine peta-units thousandths no longer fit, and no longer matter.
        i64::MAX | i64::MIN => i128::from(quantity.units()) * 1000,
        milli => i128::from(milli),
    }
}

/// Whole units, away from zero as Kubernetes rounds: half a byte still needs a byte.
fn rounded_up(thousandths: i128) -> i128 {
    let magnitude = thousandths.unsigned_abs().div_ceil(1000);
    // Cannot truncate: a thousandth of the greatest number fits.
    magnitude as i128 * thousandths.signum()
}

fn saturated(amount: i128) -> i64 {
    i64::try_from(amount).unwrap_or(if amount < 0 { i64::MIN } else { i64::MAX })
}
