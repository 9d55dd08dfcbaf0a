//! Pods: where they are, and what they still wait for.

use cluster::Store;
use cluster::lower::facts::PodFacts;
use model::pod::{Pod, Readiness};
use model::time::Instant;

use super::{Gauge, Labels, tag};

const STATE: &[&str] = &[
    "name",
    "namespace",
    "owner",
    "node",
    "scheduled",
    "nodepool",
    "zone",
    "arch",
    "capacity_type",
    "instance_type",
    "phase",
    "ready",
    "managed",
];
const NAMES: &[&str] = &["name", "namespace"];
const NAMES_AND_DEVICES: &[&str] = &["name", "namespace", "dynamic_resources"];

pub(super) fn gauges(store: &Store, now: Instant) -> Vec<Gauge> {
    let waiting = |name, help| Gauge::new(name, help, NAMES);
    let mut state = Gauge::new("karpenter_pods_state", "Where a pod is.", STATE);
    let mut unstarted = waiting("karpenter_pods_unstarted_time_seconds", "How long a pod has waited for its start.");
    let mut unbound =
        Gauge::new("karpenter_pods_unbound_time_seconds", "How long a pod has waited for a node.", NAMES_AND_DEVICES);
    let mut placed_unbound = Gauge::new(
        "karpenter_pods_provisioning_unbound_time_seconds",
        "How long a pod has waited for a node since we know a place for it.",
        NAMES_AND_DEVICES,
    );
    let mut placed_unstarted = waiting(
        "karpenter_pods_provisioning_unstarted_time_seconds",
        "How long a pod has waited for its start since we know a place for it.",
    );
    let mut undecided = waiting(
        "karpenter_pods_provisioning_scheduling_undecided_time_seconds",
        "How long a pod has waited for our first decision about it.",
    );
    for (pod, facts) in all(store) {
        state.push(state_labels(store, pod, facts), 1.0);
        let is_unbound = pod.node.is_none();
        let wait = |gauge: &mut Gauge, since: Option<Instant>, holds: bool| {
            if let Some(since) = since.filter(|_| holds) {
                let mut labels = names(pod);
                if gauge.labels.contains(&"dynamic_resources") {
                    labels.push(tag("dynamic_resources", pod.wants.has_resource_claims.to_string()));
                }
                gauge.push(labels, now.since(since).as_secs_f64());
            }
        };
        wait(&mut unbound, Some(pod.created), is_unbound);
        wait(&mut unstarted, Some(pod.created), facts.is_pending);
        let Some(times) = store.pod_times(&pod.name) else { continue };
        wait(&mut placed_unbound, times.placed, is_unbound);
        wait(&mut placed_unstarted, times.placed, facts.is_pending);
        wait(&mut undecided, Some(times.seen), times.decided.is_none() && is_unbound);
    }
    vec![state, unstarted, unbound, placed_unbound, placed_unstarted, undecided]
}

/// Those without a node, then those on every node that is known.
fn all(store: &Store) -> impl Iterator<Item = (&std::sync::Arc<Pod>, &PodFacts)> {
    store.unbound_pods().chain(store.nodes().names().flat_map(|node| store.pods_on(node)))
}

fn names(pod: &Pod) -> Labels {
    vec![tag("name", pod.name.name.to_string()), tag("namespace", pod.name.namespace.to_string())]
}

fn state_labels(store: &Store, pod: &Pod, facts: &PodFacts) -> Labels {
    let machine = pod.node.as_ref().and_then(|node| store.machines().get(node));
    let of_node = |key: &str| {
        let value = machine.and_then(|machine| machine.node.labels.get(key));
        value.map(|value| value.to_string()).unwrap_or_default()
    };
    let mut labels = names(pod);
    labels.extend([
        tag("owner", owner(pod, facts)),
        tag("node", pod.node.as_ref().map(ToString::to_string).unwrap_or_default()),
        tag("scheduled", pod.node.is_some().to_string()),
        tag("nodepool", of_node(api::labels::NODE_POOL)),
        tag("zone", of_node(api::labels::ZONE)),
        tag("arch", of_node(api::labels::ARCH)),
        tag("capacity_type", of_node(api::labels::CAPACITY_TYPE)),
        tag("instance_type", of_node(api::labels::INSTANCE_TYPE)),
        tag("phase", if facts.is_pending { "Pending" } else { "Running" }),
        tag("ready", (pod.is_ready == Readiness::Ready).to_string()),
        tag("managed", machine.is_some_and(|machine| machine.claim.is_some()).to_string()),
    ]);
    labels
}

/// The path under which the API server has the owner, as far as it can be guessed from its kind.
fn owner(pod: &Pod, facts: &PodFacts) -> String {
    facts.owner.as_ref().map_or_else(String::new, |owner| {
        let (api_version, namespace) = (&owner.api_version, &pod.name.namespace);
        format!("/apis/{api_version}/namespaces/{namespace}/{}s/{}", owner.kind.to_lowercase(), owner.name)
    })
}
