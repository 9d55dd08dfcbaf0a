//! Nodes: what they have, what is asked of them, how old they are.

use cluster::Store;
use k8s_openapi::api::core::v1::Node;
use model::resources::Resources;
use model::time::Instant;

use super::{Gauge, Labels, push_amounts, resource_type, tag};

const OF_NODE: &[&str] = &["node_name", "phase", "managed", "resource_type", "(one for each well-known label)"];
const LIFETIME: &[&str] = &["node_name", "phase", "managed", "(one for each well-known label)"];

pub(super) fn gauges(store: &Store, now: Instant) -> Vec<Gauge> {
    let of_node = |name, help| Gauge::new(name, help, OF_NODE);
    let mut allocatable = of_node("karpenter_nodes_allocatable", "What pods can have on a node.");
    let mut requests = of_node("karpenter_nodes_total_pod_requests", "What a node's pods ask for, daemons included.");
    let mut limits = of_node("karpenter_nodes_total_pod_limits", "The limits of a node's pods, daemons included.");
    let mut daemon_requests = of_node("karpenter_nodes_total_daemon_requests", "What a node's daemons ask for.");
    let mut daemon_limits = of_node("karpenter_nodes_total_daemon_limits", "The limits of a node's daemons.");
    let mut overhead = of_node("karpenter_nodes_system_overhead", "What of a node pods cannot have.");
    let mut lifetime = Gauge::new("karpenter_nodes_current_lifetime_seconds", "How old a node is.", LIFETIME);
    let mut sums = (Resources::default(), Resources::default());
    let keys = label_names(store);
    for machine in store.machines().values().filter(|machine| machine.node.has_node()) {
        let wire = store.node(&machine.node.name);
        let labels = labels(wire.as_deref(), machine, &keys);
        let usage = store.usage(&machine.node.name);
        push_amounts(&mut allocatable, &labels, &machine.node.allocatable);
        push_amounts(&mut requests, &labels, &usage.requests);
        push_amounts(&mut limits, &labels, &usage.limits);
        push_amounts(&mut daemon_requests, &labels, &usage.daemons);
        push_amounts(&mut daemon_limits, &labels, &usage.daemon_limits);
        push_amounts(&mut overhead, &labels, &machine.node.capacity.minus(&machine.node.allocatable));
        lifetime.push(labels, now.since(born(wire.as_deref(), machine)).as_secs_f64());
        sums = (sums.0.plus(&usage.requests), sums.1.plus(&machine.node.allocatable));
    }
    let utilization = utilization(&sums.0, &sums.1);
    vec![allocatable, requests, limits, daemon_requests, daemon_limits, overhead, lifetime, utilization]
}

/// When the Node joined; its claim is older.
fn born(wire: Option<&Node>, machine: &cluster::store::Machine) -> Instant {
    let created = wire.and_then(|node| node.metadata.creation_timestamp.as_ref());
    created.map_or(machine.node.created, |time| crate::ctx::instant(time.0))
}

fn utilization(requests: &Resources, allocatable: &Resources) -> Gauge {
    let help = "What all pods ask for, of what all nodes have for them.";
    let mut gauge = Gauge::new("karpenter_cluster_utilization_percent", help, &["resource_type"]);
    for (resource, all) in allocatable.amounts() {
        let used = requests.get(&resource) as f64 / all as f64 * 100.0;
        gauge.push(vec![tag("resource_type", resource_type(resource.name()))], used);
    }
    gauge
}

/// Well-known label keys with the names that metrics have for them: what follows the slash.
fn label_names(store: &Store) -> Vec<(String, String)> {
    let mut names: Vec<(String, String)> = Vec::new();
    for key in store.settings().well_known.iter() {
        let name = key.rsplit('/').next().unwrap_or(key).replace('-', "_");
        if names.iter().all(|(_, taken)| *taken != name) {
            names.push((key.to_string(), name));
        }
    }
    names
}

fn labels(wire: Option<&Node>, machine: &cluster::store::Machine, keys: &[(String, String)]) -> Labels {
    let node = &machine.node;
    let phase = wire.and_then(|wire| wire.status.as_ref()?.phase.clone()).unwrap_or_default();
    let mut labels: Labels = vec![
        tag("node_name", node.name.to_string()),
        tag("phase", phase),
        tag("managed", machine.claim.is_some().to_string()),
    ];
    labels.extend(keys.iter().map(|(key, name)| {
        let value = node.labels.get(key.as_str()).map(|value| value.to_string()).unwrap_or_default();
        tag(name.clone(), value)
    }));
    labels
}
