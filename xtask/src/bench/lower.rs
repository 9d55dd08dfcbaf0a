//! From a workload file to a snapshot, through the same lowering that watched objects go through.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use api::labels::LabelRules;
use api::{NodeClaim, NodePool};
use cluster::lower;
use cluster::lower::node::{NodeClasses, Parts};
use cluster::lower::pod::Surroundings;
use cluster::lower::volume::Storage;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Namespace as WireNamespace, Node as WireNode, Pod as WirePod};
use model::ids::{Namespace, ReservationId};
use model::instance::{InstanceType, Offering, Reservation};
use model::labels::{CAPACITY_TYPE, Labels, WellKnown, ZONE};
use model::pool::Pool;
use model::price::Price;
use model::requirements::{Operator, Requirement, Requirements};
use model::snapshot::{MinValuesPolicy, PreferencePolicy, SchedulingPolicy, Snapshot};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::file::{MinValues, OfferingEntry, PodEntry, Preferences, RequirementEntry, TypeEntry, Workload};

/// A workload as the engine sees it.
pub(super) struct World {
    pub(super) snapshot: Snapshot,
    /// How long the lowering took. Decoding the file is not part of it: a watch hands out decoded objects.
    pub(super) seconds: f64,
    /// What the snapshot was made from. Memory that is freed before a solve and used again by it would not show in the
    /// solve's peak, so nothing is freed.
    _wire: Wire,
}

struct Wire {
    _pools: Vec<NodePool>,
    _claims: Vec<NodeClaim>,
    _nodes: Vec<WireNode>,
    _daemon_sets: Vec<DaemonSet>,
    _templates: Vec<WirePod>,
}

/// All moments in a workload are before this one.
const NOW_UNIX_SECONDS: i64 = 1_800_000_000;

pub(super) fn lower(workload: &Workload) -> anyhow::Result<World> {
    let mut stopwatch = Stopwatch::default();
    let label_keys: Vec<&str> = workload
        .well_known_labels
        .iter()
        .chain((!workload.reservation_id_label.is_empty()).then_some(&workload.reservation_id_label))
        .map(String::as_str)
        .collect();
    let mut snapshot = Snapshot::empty(model::time::Instant::from_unix_seconds(NOW_UNIX_SECONDS));
    snapshot.policy = policy(workload);
    snapshot.well_known = Arc::new(WellKnown::with_provider(label_keys.iter().copied()));
    let pools: Vec<NodePool> = objects(&workload.pools, "pools")?;
    let claims: Vec<NodeClaim> = objects(&workload.node_claims, "nodeClaims")?;
    let nodes: Vec<WireNode> = objects(&workload.nodes, "nodes")?;
    let daemon_sets: Vec<DaemonSet> = objects(&workload.daemon_sets, "daemonSets")?;
    let templates: Vec<WirePod> = objects(&workload.pod_templates, "podTemplates")?;
    let types = stopwatch.run(|| types(workload))?;
    for wire in &pools {
        let pool = stopwatch.run(|| pool(workload, wire, &types))?;
        snapshot.pools.insert(pool.name.clone(), Arc::new(pool));
    }
    let references = pools.iter().map(|pool| &pool.spec.template.spec.node_class_ref);
    let classes = NodeClasses::new(references.map(|class| (class.group.as_str(), class.kind.as_str())));
    add_nodes(&mut snapshot, (&nodes, &claims), &classes, &mut stopwatch)?;
    for wire in &daemon_sets {
        let daemon = stopwatch.run(|| lower::daemon::daemon(wire, None));
        ensure!(daemon.oddities.is_empty(), "{}", daemon.oddities[0]);
        snapshot.daemons.insert(daemon.value.name.clone(), Arc::new(daemon.value));
    }
    let rules = LabelRules::with_provider(&label_keys, &[]);
    add_pods(&mut snapshot, workload, (&templates, &rules), &mut stopwatch)?;
    let wire = Wire { _pools: pools, _claims: claims, _nodes: nodes, _daemon_sets: daemon_sets, _templates: templates };
    Ok(World { snapshot, seconds: stopwatch.total.as_secs_f64(), _wire: wire })
}

/// Adds up the time that is spent on lowering, without the decoding in between.
#[derive(Default)]
struct Stopwatch {
    total: Duration,
}

impl Stopwatch {
    fn run<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let done = work();
        self.total += started.elapsed();
        done
    }
}

fn policy(workload: &Workload) -> SchedulingPolicy {
    SchedulingPolicy {
        preferences: match workload.policy.preferences {
            Preferences::Respect => PreferencePolicy::Respect,
            Preferences::Ignore => PreferencePolicy::Ignore,
        },
        min_values: match workload.policy.min_values {
            MinValues::Strict => MinValuesPolicy::Strict,
            MinValues::BestEffort => MinValuesPolicy::BestEffort,
        },
        ..SchedulingPolicy::default()
    }
}

fn types(workload: &Workload) -> anyhow::Result<BTreeMap<&str, Arc<InstanceType>>> {
    let mut found = BTreeMap::new();
    for entry in &workload.types {
        let kind =
            instance_type(entry, &workload.reservation_id_label).with_context(|| format!("type {}", entry.name))?;
        ensure!(found.insert(entry.name.as_str(), Arc::new(kind)).is_none(), "type {} is there twice", entry.name);
    }
    Ok(found)
}

fn instance_type(entry: &TypeEntry, reservation_label: &str) -> anyhow::Result<InstanceType> {
    let offerings = entry.offerings.iter().map(|sold| offering(sold, reservation_label));
    Ok(InstanceType {
        name: entry.name.as_str().into(),
        requirements: requirements(&entry.requirements)?,
        capacity: lower::resources::of_list(&entry.capacity),
        overhead: lower::resources::of_list(&entry.overhead),
        offerings: offerings.collect::<anyhow::Result<_>>()?,
        attach_limits: BTreeMap::new(),
        has_capacity_overlay: false,
    })
}

/// Demands in the file's spelling, which is that of NodeClaims.
pub(super) fn requirements(entries: &[RequirementEntry]) -> anyhow::Result<Requirements> {
    let mut all = Requirements::default();
    for entry in entries {
        let operator = Operator::parse(&entry.operator)
            .with_context(|| format!("requirement on {}: unknown operator {:?}", entry.key, entry.operator))?;
        let requirement = Requirement::new(operator, entry.values.iter().map(String::as_str));
        all.add(entry.key.as_str(), requirement.with_min_values(entry.min_values));
    }
    Ok(all)
}

fn offering(entry: &OfferingEntry, reservation_label: &str) -> anyhow::Result<Offering> {
    let mut requirements = Requirements::default()
        .with(ZONE, Requirement::value(entry.zone.as_str().into()))
        .with(CAPACITY_TYPE, Requirement::value(entry.capacity_type.as_str().into()));
    let is_reserved = entry.capacity_type == "reserved";
    ensure!(
        is_reserved != entry.reservation_id.is_empty(),
        "an offering is reserved exactly when it has a reservation"
    );
    if is_reserved {
        ensure!(!reservation_label.is_empty(), "reservation {} needs a reservationIdLabel", entry.reservation_id);
        requirements.add(reservation_label, Requirement::value(entry.reservation_id.as_str().into()));
    }
    Ok(Offering {
        requirements,
        price: price(&entry.price)?,
        is_available: entry.available,
        reservation: is_reserved.then(|| Reservation {
            id: ReservationId::from(entry.reservation_id.as_str()),
            left: entry.reservation_capacity.unwrap_or(0),
        }),
        capacity_override: None,
        overhead_override: None,
        has_price_overlay: false,
    })
}

/// A decimal with at most twelve places, exactly.
fn price(text: &str) -> anyhow::Result<Price> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    let is_short = (1..=6).contains(&whole.len()) && fraction.len() <= 12 && !text.ends_with('.');
    ensure!(
        is_short && is_digits(whole) && is_digits(fraction),
        "price {text:?} is no decimal with at most twelve places"
    );
    let pico: i64 = format!("{whole}{fraction:0<12}").parse().with_context(|| format!("price {text:?}"))?;
    Ok(Price::from_pico(pico))
}

fn pool(workload: &Workload, wire: &NodePool, types: &BTreeMap<&str, Arc<InstanceType>>) -> anyhow::Result<Pool> {
    let name = wire.metadata.name.as_deref().unwrap_or_default();
    let listed = match workload.pool_types.get(name) {
        Some(names) => names.iter().map(String::as_str).collect(),
        None => workload.types.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(),
    };
    let known = |type_name: &str| {
        types.get(type_name).cloned().with_context(|| format!("pool {name} has type {type_name}, which is not there"))
    };
    Ok(lower::pool::pool(wire, listed.into_iter().map(known).collect::<anyhow::Result<_>>()?))
}

fn add_nodes(
    snapshot: &mut Snapshot,
    (nodes, claims): (&[WireNode], &[NodeClaim]),
    classes: &NodeClasses,
    stopwatch: &mut Stopwatch,
) -> anyhow::Result<()> {
    let mut by_id: BTreeMap<String, &NodeClaim> = BTreeMap::new();
    for claim in claims {
        let id = claim.status.as_ref().and_then(|status| status.provider_id.clone()).unwrap_or_default();
        ensure!(!id.is_empty(), "nodeClaim {:?} has no status.providerID", claim.metadata.name);
        by_id.insert(id, claim);
    }
    for wire in nodes {
        let id = wire.spec.as_ref().and_then(|spec| spec.provider_id.clone()).unwrap_or_default();
        let parts = Parts { node: Some(wire), claim: by_id.remove(&id), csi: None, pool: None, is_marked: false };
        let node = stopwatch.run(|| lower::node::node(parts, classes));
        let node = node
            .with_context(|| format!("node {:?} is not taken: it lacks a provider id or type", wire.metadata.name))?;
        snapshot.nodes.insert(node.value.name.clone(), Arc::new(node.value));
    }
    for claim in by_id.into_values() {
        let parts = Parts { node: None, claim: Some(claim), csi: None, pool: None, is_marked: false };
        let node = stopwatch.run(|| lower::node::node(parts, classes)).context("a claim of ours is always taken")?;
        snapshot.nodes.insert(node.value.name.clone(), Arc::new(node.value));
    }
    Ok(())
}

fn add_pods(
    snapshot: &mut Snapshot,
    workload: &Workload,
    (templates, rules): (&[WirePod], &LabelRules),
    stopwatch: &mut Stopwatch,
) -> anyhow::Result<()> {
    let namespaces = namespaces(workload)?;
    let around = Surroundings {
        rules,
        namespaces: &namespaces,
        storage: &Storage::default(),
        workloads: &BTreeMap::new(),
        default_spread: &[],
    };
    for entry in workload.bound_pods.iter().chain(&workload.pods) {
        // One at a time: what is freed before the solve would hide what the solve needs.
        let wire = expand(&templates[entry.template], entry);
        let pod = stopwatch.run(|| lower::pod::pod(&wire, &around));
        if let Some(oddity) = pod.oddities.first() {
            bail!("{oddity}");
        }
        snapshot.pods.insert(pod.value.name.clone(), Arc::new(pod.value));
    }
    Ok(())
}

/// The pod that an entry stands for, by the four steps of the contract.
fn expand(template: &WirePod, entry: &PodEntry) -> WirePod {
    let mut pod = template.clone();
    pod.metadata.name = Some(entry.name.clone());
    pod.metadata.namespace = Some(entry.namespace.clone());
    pod.metadata.uid = Some(entry.uid.clone());
    if let Some(labels) = &entry.labels {
        pod.metadata.labels = Some(labels.clone());
    }
    if let Some(node) = &entry.node {
        pod.spec.get_or_insert_default().node_name = Some(node.clone());
    }
    pod
}

/// Namespaces that the file only mentions have the one label that every namespace has.
fn namespaces(workload: &Workload) -> anyhow::Result<BTreeMap<Namespace, Labels>> {
    let mut found = BTreeMap::new();
    for wire in objects::<WireNamespace>(&workload.namespaces, "namespaces")? {
        let labels = wire.metadata.labels.iter().flatten();
        let labels = labels.map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect();
        found.insert(Namespace::from(wire.metadata.name.as_deref().unwrap_or_default()), labels);
    }
    for entry in workload.bound_pods.iter().chain(&workload.pods) {
        found
            .entry(Namespace::from(entry.namespace.as_str()))
            .or_insert_with(|| Labels::from([("kubernetes.io/metadata.name".into(), entry.namespace.as_str().into())]));
    }
    Ok(found)
}

fn objects<T: DeserializeOwned>(values: &[Value], list: &str) -> anyhow::Result<Vec<T>> {
    let decoded = values
        .iter()
        .enumerate()
        .map(|(index, value)| T::deserialize(value).with_context(|| format!("{list}[{index}]")));
    decoded.collect()
}

/// Refuses objects that lose something when they are decoded: a field that one side drops in silence would make the two sides
/// solve different problems. Solvers take files that were checked so.
pub(super) fn check_lossless(workload: &Workload) -> anyhow::Result<()> {
    lossless::<NodePool>(&workload.pools, "pools")?;
    lossless::<WireNamespace>(&workload.namespaces, "namespaces")?;
    lossless::<NodeClaim>(&workload.node_claims, "nodeClaims")?;
    lossless::<WireNode>(&workload.nodes, "nodes")?;
    lossless::<DaemonSet>(&workload.daemon_sets, "daemonSets")?;
    lossless::<WirePod>(&workload.pod_templates, "podTemplates")
}

fn lossless<T: DeserializeOwned + Serialize>(values: &[Value], list: &str) -> anyhow::Result<()> {
    for (index, value) in values.iter().enumerate() {
        let at = || format!("{list}[{index}]");
        let object: T = T::deserialize(value).with_context(at)?;
        let back = serde_json::to_value(&object).with_context(at)?;
        if let Some(lost) = first_lost(value, &back) {
            bail!("{}{lost}: this field is not known", at());
        }
    }
    Ok(())
}

/// The path of the first key that is in one value and not in the other. Empty values may be dropped.
fn first_lost(before: &Value, after: &Value) -> Option<String> {
    match (before, after) {
        (Value::Object(fields), after) => fields.iter().find_map(|(key, value)| match after.get(key) {
            Some(kept) => first_lost(value, kept).map(|rest| format!(".{key}{rest}")),
            None if is_empty(value) => None,
            None => Some(format!(".{key}")),
        }),
        (Value::Array(items), Value::Array(kept)) => {
            let pairs = items.iter().zip(kept).enumerate();
            pairs.filter_map(|(index, (item, kept))| Some(format!("[{index}]{}", first_lost(item, kept)?))).next()
        }
        _ => None,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn prices_are_exact_and_odd_ones_are_refused() {
        assert_eq!(price("0.3147483648").unwrap(), Price::from_pico(314_748_364_800));
        assert_eq!(price("152.88").unwrap(), Price::from_pico(152_880_000_000_000));
        assert_eq!(price("7").unwrap(), Price::from_pico(7_000_000_000_000));
        for odd in ["", ".5", "1.", "-1", "1e3", "1.0000000000001", "1234567"] {
            assert!(price(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_field_that_decoding_would_drop_is_named() {
        let pod = json!({"metadata": {"labels": {}}, "spec": {"containers": [{"name": "main", "flavour": "sweet"}]}});
        let error = lossless::<WirePod>(&[pod], "podTemplates").unwrap_err().to_string();
        assert_eq!(error, "podTemplates[0].spec.containers[0].flavour: this field is not known");
    }
}
