//! What merely is: nodes, pods, pools and conditions, looked up in the store when somebody asks.
//!
//! Nothing is kept between two scrapes, so a series ends with its object, and a cluster that nobody looks at costs nothing.

mod conditions;
mod draining;
mod nodes;
mod pods;
mod pools;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;

use cluster::Store;
use model::ids::{NodeName, PoolName};
use model::resources::{Resource, Resources};
use model::time::Instant;
use runtime::metrics::{Sample, write_family};

use super::Entry;

type Labels = Vec<(Cow<'static, str>, Cow<'static, str>)>;

fn tag(
    name: impl Into<Cow<'static, str>>,
    value: impl Into<Cow<'static, str>>,
) -> (Cow<'static, str>, Cow<'static, str>) {
    (name.into(), value.into())
}

/// A gauge with all its series.
#[derive(Debug)]
pub(super) struct Gauge {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) labels: &'static [&'static str],
    pub(super) samples: Vec<Sample<'static>>,
}

impl Gauge {
    fn new(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Self {
        Self { name, help, labels, samples: Vec::new() }
    }

    fn push(&mut self, labels: Labels, value: f64) {
        self.samples.push((labels, value));
    }
}

/// Machines whose price nobody knows, with their pools.
pub(crate) fn unpriced(store: &Store) -> BTreeMap<NodeName, PoolName> {
    pools::unpriced(store)
}

/// Everything as scrapers read it.
pub(super) fn encode(store: &Store, now: Instant) -> String {
    written(gauges(store, now))
}

/// How well we know the cluster. Told even when nothing is told about single objects.
pub(super) fn about_us_text(store: &Store, now: Instant) -> String {
    written(about_us(store, now))
}

fn written(gauges: Vec<Gauge>) -> String {
    let mut text = String::new();
    for gauge in gauges {
        // Writing to a string does not fail.
        let _ = write_family(&mut text, (gauge.name, "gauge", gauge.help), gauge.samples);
    }
    text
}

fn gauges(store: &Store, now: Instant) -> Vec<Gauge> {
    let mut gauges = nodes::gauges(store, now);
    gauges.extend(pods::gauges(store, now));
    gauges.extend(pools::gauges(store));
    gauges.extend(conditions::gauges(store, now));
    gauges.extend(draining::gauges(store, now));
    gauges
}

/// What there is to know of these metrics before there is any object.
pub(super) fn entries() -> Vec<Entry> {
    let now = Instant::from_unix_seconds(0);
    let store = Store::new(cluster::Settings::default(), now);
    let gauges = gauges(&store, now).into_iter().chain(about_us(&store, now));
    gauges.map(|it| Entry { name: it.name, kind: "gauge", labels: it.labels.to_vec(), help: it.help }).collect()
}

fn about_us(store: &Store, now: Instant) -> Vec<Gauge> {
    let single = |name, help, value: f64| Gauge { name, help, labels: &[], samples: vec![(Vec::new(), value)] };
    let unsynced = store.unsynced_for(now).unwrap_or_default().as_secs_f64();
    vec![
        single("karpenter_cluster_state_node_count", "Machines that we know of.", store.machines().len() as f64),
        single(
            "karpenter_cluster_state_synced",
            "Whether everything that decisions depend on has been seen.",
            f64::from(u8::from(store.is_synced())),
        ),
        single("karpenter_cluster_state_unsynced_time_seconds", "For how long something has been missing.", unsynced),
        single(
            "dovetail_disruption_stopped",
            "Whether an annotation has stopped voluntary disruption in the whole cluster.",
            f64::from(u8::from(store.disruption_stopped().is_some())),
        ),
    ]
}

/// The amount in the unit that metrics have: cores, bytes, pieces.
fn amount(resource: &Resource, amount: i64) -> f64 {
    match resource {
        Resource::Cpu => amount as f64 / 1000.0,
        _ => amount as f64,
    }
}

fn resource_type(name: &str) -> Cow<'static, str> {
    name.to_lowercase().replace('-', "_").into()
}

/// One sample for each resource of which there is any.
fn push_amounts(gauge: &mut Gauge, labels: &Labels, amounts: &Resources) {
    for (resource, value) in amounts.amounts() {
        let mut labels = labels.clone();
        labels.push(tag("resource_type", resource_type(resource.name())));
        gauge.push(labels, amount(&resource, value));
    }
}

/// The values of an object's labels under the names that metrics have for them.
fn label_of(labels: Option<&BTreeMap<String, String>>, key: &str) -> Cow<'static, str> {
    labels.and_then(|labels| labels.get(key)).cloned().unwrap_or_default().into()
}
