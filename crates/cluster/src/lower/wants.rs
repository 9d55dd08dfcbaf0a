//! What a pod asks of its node.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Affinity, Container, ContainerPort, NodeAffinity, PodSpec};
use model::pod::{HostPort, Protocol, Wants, Weighted};
use model::requirements::Requirements;
use model::volume::Volumes;

use super::affinity::Neighbour;
use super::resources::is_sidecar;
use super::{Oddities, requirements, taints};

/// Everything but spreads that nobody wrote into the pod.
pub(super) fn wants(spec: &PodSpec, neighbour: &Neighbour<'_>, volumes: Volumes, oddities: &mut Oddities<'_>) -> Wants {
    let mut wants = Wants {
        selector: requirements::of_selector(spec.node_selector.as_ref()),
        terms: required_terms(spec),
        preferred_nodes: preferred_nodes(spec.affinity.as_ref()),
        tolerations: taints::tolerations(spec, oddities),
        spread: spec.topology_spread_constraints.iter().flatten().map(|wire| neighbour.spread(wire)).collect(),
        ports: host_ports(spec, oddities),
        volumes,
        has_resource_claims: has_resource_claims(spec),
        ..Wants::default()
    };
    set_company(&mut wants, spec.affinity.as_ref(), neighbour);
    wants
}

/// Whom the pod wants near and whom far.
pub(super) fn set_company(wants: &mut Wants, affinity: Option<&Affinity>, neighbour: &Neighbour<'_>) {
    let together = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
    let apart = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    wants.together =
        neighbour.terms(together.and_then(|terms| terms.required_during_scheduling_ignored_during_execution.as_ref()));
    wants.apart =
        neighbour.terms(apart.and_then(|terms| terms.required_during_scheduling_ignored_during_execution.as_ref()));
    wants.preferred_together = neighbour
        .weighted(together.and_then(|terms| terms.preferred_during_scheduling_ignored_during_execution.as_ref()));
    wants.preferred_apart =
        neighbour.weighted(apart.and_then(|terms| terms.preferred_during_scheduling_ignored_during_execution.as_ref()));
}

pub(super) fn required_terms(spec: &PodSpec) -> Vec<Requirements> {
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    requirements::of_required(affinity.and_then(required))
}

pub(super) fn required(affinity: &NodeAffinity) -> Option<&k8s_openapi::api::core::v1::NodeSelector> {
    affinity.required_during_scheduling_ignored_during_execution.as_ref()
}

/// A preference that says nothing, or weighs nothing, is no preference.
fn preferred_nodes(affinity: Option<&Affinity>) -> Vec<Weighted<Requirements>> {
    let nodes = affinity.and_then(|affinity| affinity.node_affinity.as_ref());
    let wire = nodes.and_then(|nodes| nodes.preferred_during_scheduling_ignored_during_execution.as_ref());
    wire.into_iter()
        .flatten()
        .filter(|term| term.weight != 0)
        .filter_map(|term| Some(Weighted { weight: term.weight, item: requirements::of_term(&term.preference)? }))
        .collect()
}

/// Ports on the node's own address, of containers that run side by side.
pub(super) fn host_ports(spec: &PodSpec, oddities: &mut Oddities<'_>) -> Vec<HostPort> {
    let sidecars = spec.init_containers.iter().flatten().filter(|container| is_sidecar(container));
    let mut ports = BTreeSet::new();
    for container in spec.containers.iter().chain(sidecars) {
        for wire in container.ports.iter().flatten() {
            ports.extend(host_port(spec, container, wire, oddities));
        }
    }
    ports.into_iter().collect()
}

fn host_port(
    spec: &PodSpec,
    container: &Container,
    wire: &ContainerPort,
    oddities: &mut Oddities<'_>,
) -> Option<HostPort> {
    // On the host's network every port is a port of the host. The API server writes that into pods, not into templates.
    let shared = (spec.host_network == Some(true)).then_some(wire.container_port);
    let number = wire.host_port.filter(|port| *port != 0).or(shared)?;
    let Ok(port @ 1..) = u16::try_from(number) else {
        oddities.note(format_args!("containers[{}].ports", container.name), format_args!("{number} is not a port"));
        return None;
    };
    let protocol = match wire.protocol.as_deref() {
        Some("UDP") => Protocol::Udp,
        Some("SCTP") => Protocol::Sctp,
        _ => Protocol::Tcp,
    };
    Some(HostPort { ip: wire.host_ip.as_deref().unwrap_or_default().into(), port, protocol })
}

/// Whether the pod, or any container of it, asks for devices by claim.
pub(super) fn has_resource_claims(spec: &PodSpec) -> bool {
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let mut claims = containers.filter_map(|container| container.resources.as_ref()?.claims.as_ref());
    spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()) || claims.any(|claims| !claims.is_empty())
}
