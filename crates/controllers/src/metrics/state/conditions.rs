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

pub(super) fn gauges(store: &Store, now: Instant) -> Vec<Gauge> {
    let kind = |[count, since, ending]: [&'static str; 3], labels, short| Kind {
        count: Gauge::new(count, COUNT, labels),
        since: Gauge::new(since, SINCE, labels),
        ending: Gauge::new(ending, ENDING, short),
    };
    let mut claims = kind(
        [
            "operator_nodeclaim_status_condition_count",
            "operator_nodeclaim_status_condition_current_status_seconds",
            "operator_nodeclaim_termination_current_time_seconds",
        ],
        CLAIM,
        &["namespace", "name", "(the NodeClass's label)", "karpenter_sh_nodepool"],
    );
    let mut nodes = kind(
        [
            "operator_node_status_condition_count",
            "operator_node_status_condition_current_status_seconds",
            "operator_node_termination_current_time_seconds",
        ],
        NODE,
        &["namespace", "name", "(the NodeClass's label)", "karpenter_sh_nodepool", "karpenter_sh_initialized"],
    );
    let mut pools = kind(
        [
            "operator_nodepool_status_condition_count",
            "operator_nodepool_status_condition_current_status_seconds",
            "operator_nodepool_termination_current_time_seconds",
        ],
        COMMON,
        &["namespace", "name"],
    );
    // The reference's older names, without the kind in them.
    let mut any = kind(
        [
            "operator_status_condition_count",
            "operator_status_condition_current_status_seconds",
            "operator_termination_current_time_seconds",
        ],
        ANY,
        &["namespace", "name", "group", "kind"],
    );
    let now = crate::ctx::timestamp(now);
    for claim in store.claims().values() {
        let held = claim.status.iter().flat_map(|status| &status.conditions).map(of_ours);
        let extra = with_class(store, &claim.metadata);
        let twin = vec![tag("group", "karpenter.sh"), tag("kind", "NodeClaim")];
        claims.push(&claim.metadata, held.clone(), &extra, now);
        any.push(&claim.metadata, held, &twin, now);
    }
    for pool in store.node_pools().values() {
        let held = pool.status.iter().flat_map(|status| &status.conditions).map(of_ours);
        let twin = vec![tag("group", "karpenter.sh"), tag("kind", "NodePool")];
        pools.push(&pool.metadata, held.clone(), &Vec::new(), now);
        any.push(&pool.metadata, held, &twin, now);
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
        nodes.push(&node.metadata, held, &extra, now);
    }
    [claims, nodes, pools, any].into_iter().flat_map(|kind| [kind.count, kind.since, kind.ending]).collect()
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
