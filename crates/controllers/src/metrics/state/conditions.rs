//! Conditions of claims, nodes of ours and pools: which there are, and for how long they have held.

use std::borrow::Cow;
use std::collections::BTreeMap;

use api::labels::NODE_POOL;
use cluster::Store;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use model::time::Instant;

use super::{Gauge, Labels, label_of, tag};
use crate::metrics::labels::class_label_name;

const COMMON: &[&str] = &["namespace", "name", "type", "status", "reason"];
const CLAIM: &[&str] =
    &["namespace", "name", "type", "status", "reason", "(the NodeClass's label)", "karpenter_sh_nodepool"];
const NODE: &[&str] = &[
    "namespace",
    "name",
    "type",
    "status",
    "reason",
    "(the NodeClass's label)",
    "karpenter_sh_nodepool",
    "karpenter_sh_initialized",
];
const ANY: &[&str] = &["namespace", "name", "type", "status", "reason", "group", "kind"];
const COUNT: &str = "A condition that an object has.";
const SINCE: &str = "For how long a condition has had its status.";
const ENDING: &str = "For how long an object has been ending.";

/// One condition, whatever it is a condition of.
struct Held<'a> {
    type_: &'a str,
    status: &'a str,
    reason: &'a str,
    since: Option<Timestamp>,
}

/// The gauges about one kind.
struct Kind {
    count: Gauge,
    since: Gauge,
    ending: Gauge,
}

/// The gauges about all kinds.
struct Kinds {
    claims: Kind,
    nodes: Kind,
    pools: Kind,
    buffers: Kind,
    /// The reference's older names, without the kind in them.
    any: Kind,
}

pub(super) fn gauges(store: &Store, now: Instant) -> Vec<Gauge> {
    let (mut kinds, now) = (Kinds::new(), crate::ctx::timestamp(now));
    for claim in store.claims().values() {
        let held = claim.status.iter().flat_map(|status| &status.conditions).map(of_ours);
        kinds.claims.push(&claim.metadata, held.clone(), &with_class(store, &claim.metadata), now);
        kinds.any.push(&claim.metadata, held, &twin("karpenter.sh", "NodeClaim"), now);
    }
    for pool in store.node_pools().values() {
        let held = pool.status.iter().flat_map(|status| &status.conditions).map(of_ours);
        kinds.pools.push(&pool.metadata, held.clone(), &Vec::new(), now);
        kinds.any.push(&pool.metadata, held, &twin("karpenter.sh", "NodePool"), now);
    }
    for (_, buffer) in store.buffers() {
        let held = buffer.status.iter().flat_map(|status| &status.conditions).map(of_ours);
        kinds.buffers.push(&buffer.metadata, held.clone(), &Vec::new(), now);
        kinds.any.push(&buffer.metadata, held, &twin("autoscaling.x-k8s.io", "CapacityBuffer"), now);
    }
    for node in store.nodes().values().filter(|node| store.settings().classes.owns_node(node)) {
        let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let held = conditions.map(|it| Held {
            type_: &it.type_,
            status: &it.status,
            reason: it.reason.as_deref().unwrap_or_default(),
            since: it.last_transition_time.as_ref().map(|time| time.0),
        });
        let mut extra = with_class(store, &node.metadata);
        extra.push(tag("karpenter_sh_initialized", label_of(node.metadata.labels.as_ref(), api::labels::INITIALIZED)));
        kinds.nodes.push(&node.metadata, held, &extra, now);
    }
    let Kinds { claims, nodes, pools, buffers, any } = kinds;
    [claims, nodes, pools, buffers, any].into_iter().flat_map(|kind| [kind.count, kind.since, kind.ending]).collect()
}

impl Kinds {
    fn new() -> Self {
        let kind = |[count, since, ending]: [&'static str; 3], labels, short| Kind {
            count: Gauge::new(count, COUNT, labels),
            since: Gauge::new(since, SINCE, labels),
            ending: Gauge::new(ending, ENDING, short),
        };
        let claims = [
            "operator_nodeclaim_status_condition_count",
            "operator_nodeclaim_status_condition_current_status_seconds",
            "operator_nodeclaim_termination_current_time_seconds",
        ];
        let nodes = [
            "operator_node_status_condition_count",
            "operator_node_status_condition_current_status_seconds",
            "operator_node_termination_current_time_seconds",
        ];
        let pools = [
            "operator_nodepool_status_condition_count",
            "operator_nodepool_status_condition_current_status_seconds",
            "operator_nodepool_termination_current_time_seconds",
        ];
        let buffers = [
            "operator_capacitybuffer_status_condition_count",
            "operator_capacitybuffer_status_condition_current_status_seconds",
            "operator_capacitybuffer_termination_current_time_seconds",
        ];
        let any = [
            "operator_status_condition_count",
            "operator_status_condition_current_status_seconds",
            "operator_termination_current_time_seconds",
        ];
        Self {
            claims: kind(claims, CLAIM, &["namespace", "name", "(the NodeClass's label)", "karpenter_sh_nodepool"]),
            nodes: kind(
                nodes,
                NODE,
                &["namespace", "name", "(the NodeClass's label)", "karpenter_sh_nodepool", "karpenter_sh_initialized"],
            ),
            pools: kind(pools, COMMON, &["namespace", "name"]),
            buffers: kind(buffers, COMMON, &["namespace", "name"]),
            any: kind(any, ANY, &["namespace", "name", "group", "kind"]),
        }
    }
}

fn twin(group: &'static str, kind: &'static str) -> Labels {
    vec![tag("group", group), tag("kind", kind)]
}

fn of_ours(condition: &api::Condition) -> Held<'_> {
    Held {
        type_: &condition.type_,
        status: condition.status.as_str(),
        reason: &condition.reason,
        since: Some(condition.last_transition_time.0),
    }
}

/// The labels that tell class and pool.
fn with_class(store: &Store, metadata: &ObjectMeta) -> Labels {
    let labels: Option<&BTreeMap<String, String>> = metadata.labels.as_ref();
    let classes = store.settings().classes.labels();
    let mut all: Labels = classes.map(|key| tag(class_label_name(key), label_of(labels, key))).collect();
    all.push(tag("karpenter_sh_nodepool", label_of(labels, NODE_POOL)));
    all
}

impl Kind {
    fn push<'a>(
        &mut self,
        metadata: &ObjectMeta,
        held: impl Iterator<Item = Held<'a>>,
        extra: &Labels,
        now: Timestamp,
    ) {
        let text = |text: &Option<String>| Cow::from(text.clone().unwrap_or_default());
        let of_object: Labels = [tag("namespace", text(&metadata.namespace)), tag("name", text(&metadata.name))]
            .into_iter()
            .chain(extra.clone())
            .collect();
        for Held { type_, status, reason, since } in held {
            let mut labels = of_object.clone();
            labels.push(tag("type", type_.to_owned()));
            labels.push(tag("status", status.to_owned()));
            labels.push(tag("reason", reason.to_owned()));
            if let Some(since) = since {
                self.since.push(labels.clone(), now.duration_since(since).as_secs_f64());
            }
            self.count.push(labels, 1.0);
        }
        if let Some(time) = &metadata.deletion_timestamp {
            self.ending.push(of_object, now.duration_since(time.0).as_secs_f64());
        }
    }
}
