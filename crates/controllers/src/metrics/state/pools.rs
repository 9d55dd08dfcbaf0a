//! Pools: what they may have, what they have, and what that costs.

use std::collections::BTreeMap;

use cluster::Store;
use model::ids::{NodeName, PoolName};
use model::instance::Offering;
use model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, Labels as NodeLabels, ZONE};
use model::node::{Node, Progress};
use model::resources::Resource;

use super::{Gauge, Labels, amount, push_amounts, resource_type, tag};

const LABELS: &[&str] = &["resource_type", "nodepool"];

pub(super) fn gauges(store: &Store) -> Vec<Gauge> {
    let mut limit = Gauge::new("karpenter_nodepools_limit", "What a pool may have at most.", LABELS);
    let mut usage = Gauge::new("karpenter_nodepools_usage", "What a pool has.", LABELS);
    let mut cost = Gauge::new("karpenter_nodepools_cost_total", "What a pool's machines cost per hour.", &["nodepool"]);
    let (used, costs) = (store.pool_usage(), costs(store));
    for (name, pool) in store.node_pools() {
        let labels = |resource: &str| -> Labels {
            vec![tag("resource_type", resource_type(resource)), tag("nodepool", name.to_string())]
        };
        for (resource, quantity) in &pool.spec.limits {
            let axis = Resource::from_name(resource);
            let value = if axis == Resource::Cpu { quantity.milli() } else { quantity.units() };
            limit.push(labels(resource), amount(&axis, value));
        }
        let used = used.get(name).cloned().unwrap_or_default();
        push_amounts(&mut usage, &vec![tag("nodepool", name.to_string())], &used.capacity);
        usage.push(labels("nodes"), used.nodes as f64);
        cost.push(vec![tag("nodepool", name.to_string())], costs.get(name.as_str()).copied().unwrap_or_default());
    }
    vec![limit, usage, cost]
}

/// By pool. A machine whose offering nobody knows any more counts for nothing, as in the reference.
fn costs(store: &Store) -> BTreeMap<String, f64> {
    let mut sums: BTreeMap<String, i128> = BTreeMap::new();
    for (_, pool, offering) in bought(store) {
        *sums.entry(pool.to_string()).or_default() += offering.map_or(0, |offering| i128::from(offering.price.pico()));
    }
    sums.into_iter().map(|(pool, pico)| (pool, pico as f64 / 1e12)).collect()
}

/// Machines of pools that sell something, but nothing like them, with their pools.
pub(super) fn unpriced(store: &Store) -> BTreeMap<NodeName, PoolName> {
    let sells = |pool: &PoolName| store.pools().get(pool).is_some_and(|pool| !pool.instance_types.is_empty());
    let is_launched = |node: &Node| !matches!(node.progress, Progress::Unlaunched { .. });
    let unknown = bought(store).filter(|(node, pool, offering)| offering.is_none() && sells(pool) && is_launched(node));
    unknown.map(|(node, pool, _)| (node.name.clone(), pool.clone())).collect()
}

/// Every machine of a pool, and the offering that it was bought by, where that is known.
fn bought(store: &Store) -> impl Iterator<Item = (&Node, &PoolName, Option<&Offering>)> {
    store.machines().values().filter_map(move |machine| {
        let (pool, labels) = (machine.node.pool.as_ref()?, &machine.node.labels);
        let machine_type = labels.get(INSTANCE_TYPE).and_then(|name| store.pools().get(pool)?.instance_type(name));
        let offering = machine_type.and_then(|it| it.offerings.iter().find(|offering| is_bought_as(offering, labels)));
        Some((&*machine.node, pool, offering))
    })
}

/// Whether a machine with these labels was bought this way: zone, capacity type and, where there is one, reservation.
fn is_bought_as(offering: &Offering, labels: &NodeLabels) -> bool {
    let agrees = |key: &str| offering.label(key) == labels.get(key);
    let reservation = offering.reservation.as_ref();
    agrees(ZONE)
        && agrees(CAPACITY_TYPE)
        && reservation.is_none_or(|reservation| labels.values().any(|value| **value == *reservation.id.as_str()))
}
