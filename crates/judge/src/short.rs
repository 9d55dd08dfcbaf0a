//! Small clusters in a short form, for tests: one line of words per node, pod or instance type.
//!
//! ```text
//! node  n1 cpu=4 zone=a taint=gpu:NoSchedule ebs=2 leaving     cores; attach limit of the driver `ebs`
//! pod   p on=n1 cpu=2 app=web @zone=a !gpu port=80             on a node; selector; toleration; host port
//!         ?zone=a ?zone=b  near=zone:web  apart=zone:web       required terms, one of which must hold; pod terms
//!         spread=zone:1:web  vol=v1  vzone=a  prio=5           hard spread of app=web; attached volume; its zone
//!         ~zone=a  like=zone:web  dislike=zone:web  soft=zone:1:web                            preferences
//! type  small cpu=2 zones=a,b price=1 family=x ebs=1 reserved=r1:2                             two left in r1
//! ```

use std::sync::Arc;

use model::budget::Budgets;
use model::ids::{PodName, ReservationId};
use model::instance::{InstanceType, Offering, Reservation};
use model::labels::{CAPACITY_TYPE, HOSTNAME, NODE_POOL, ZONE};
use model::node::{Node, Progress};
use model::plan::{Plan, PlannedClaim, Target};
use model::pod::{HostPort, Life, Owner, Pod, Protocol, Weighted};
use model::pool::{Limits, Pool, PoolKind, PoolState, Template};
use model::price::Price;
use model::requirements::{Operator, Requirement, Requirements};
use model::resources::Resources;
use model::snapshot::{Daemon, Snapshot};
use model::taints::{Effect, Match, Taint, Toleration};
use model::time::Instant;
use model::topology::{Namespaces, PodTerm, Policy, Selector, Spread, SpreadMode};
use model::volume::AttachLimits;
use model::why::Unplaced;

pub(crate) fn snapshot(nodes: &[&str], pods: &[&str]) -> Snapshot {
    let mut snapshot = Snapshot::empty(Instant::from_unix_seconds(0));
    snapshot.nodes = nodes.iter().map(|text| node(text)).map(|node| (node.name.clone(), Arc::new(node))).collect();
    snapshot.pods = pods.iter().map(|text| pod(text)).map(|pod| (pod.name.clone(), Arc::new(pod))).collect();
    snapshot
}

pub(crate) fn pod_name(name: &str) -> PodName {
    PodName::new("default", name)
}

/// A label key; the usual ones have short names.
pub(crate) fn key(short: &str) -> &str {
    match short {
        "zone" => ZONE,
        "host" => HOSTNAME,
        other => other,
    }
}

/// Splits `name key=value flag` into the name and pairs; a flag has an empty value.
fn words(text: &str) -> (&str, Vec<(&str, &str)>) {
    let mut parts = text.split_whitespace();
    let name = parts.next().unwrap();
    (name, parts.map(|word| word.split_once('=').unwrap_or((word, ""))).collect())
}

fn parts<const N: usize>(text: &str) -> [&str; N] {
    text.split(':').collect::<Vec<_>>().try_into().unwrap()
}

fn resource(resources: &mut Resources, key: &str, value: &str) -> bool {
    let amount = |value: &str| value.parse::<i64>().unwrap();
    *resources = match key {
        "cpu" => resources.clone().with("cpu", amount(value) * 1000),
        "memory" | "pods" | "gpu" => resources.clone().with(key, amount(value)),
        _ => return false,
    };
    true
}

pub(crate) fn one(short: &str, value: &str) -> Requirements {
    Requirements::default().with(key(short), Requirement::new(Operator::In, value.split(',')))
}

fn effect(name: &str) -> Effect {
    match name {
        "NoSchedule" => Effect::NoSchedule,
        "NoExecute" => Effect::NoExecute,
        _ => Effect::PreferNoSchedule,
    }
}

pub(crate) fn node(text: &str) -> Node {
    let (name, words) = words(text);
    let mut node = Node {
        name: name.into(),
        pool: None,
        labels: [(HOSTNAME.into(), name.into())].into(),
        taints: Vec::new(),
        capacity: Resources::default().with("cpu", 100_000).with("memory", 100_000_000_000).with("pods", 100),
        allocatable: Resources::default(),
        attach_limits: AttachLimits::new(),
        progress: Progress::Initialized,
        is_leaving: false,
        created: Instant::from_unix_seconds(0),
        tenure: None,
    };
    for (word, value) in words {
        match word {
            "leaving" => node.is_leaving = true,
            "unlabelled" => node.labels.clear(),
            "ebs" => drop(node.attach_limits.insert("ebs".into(), value.parse().unwrap())),
            "pool" => node.pool = Some(value.into()),
            "taint" => {
                let [taint, kind] = parts(value);
                node.taints.push(Taint::new(taint, "", effect(kind)));
            }
            _ if resource(&mut node.capacity, word, value) => {}
            _ => drop(node.labels.insert(key(word).into(), value.into())),
        }
    }
    node.allocatable = node.capacity.clone();
    node
}

fn selector(app: &str) -> Selector {
    Selector::Matching(one("app", app))
}

fn term(value: &str) -> PodTerm {
    let [label, app] = parts(value);
    let namespaces = Namespaces::Listed(["default".into()].into());
    PodTerm { key: key(label).into(), selector: selector(app), namespaces }
}

fn spread(value: &str, mode: SpreadMode) -> Spread {
    let [label, skew, app] = parts(value);
    Spread {
        key: key(label).into(),
        max_skew: skew.parse().unwrap(),
        min_domains: None,
        mode,
        selector: selector(app),
        node_affinity: Policy::Honor,
        node_taints: Policy::Ignore,
    }
}

fn weighted<T>(item: T) -> Weighted<T> {
    Weighted { weight: 1, item }
}

pub(crate) fn pod(text: &str) -> Pod {
    let (name, words) = words(text);
    let mut pod = Pod::pending("default", name, Resources::default());
    for (word, value) in words {
        pod_word(&mut pod, word, value);
    }
    pod
}

fn pod_word(pod: &mut Pod, word: &str, value: &str) {
    let wants = &mut pod.wants;
    match word {
        "on" => {
            pod.node = Some(value.into());
            pod.is_unschedulable = false;
        }
        "terminating" => pod.life = Life::Terminating,
        "ended" => pod.life = Life::Terminal,
        "daemon" => pod.owner = Owner::DaemonSet,
        "ns" => pod.name = PodName::new(value, &pod.name.name),
        "prio" => pod.priority = value.parse().unwrap(),
        "created" => pod.created = Instant::from_unix_seconds(value.parse().unwrap()),
        "port" => wants.ports.push(HostPort { ip: "".into(), port: value.parse().unwrap(), protocol: Protocol::Tcp }),
        "near" => wants.together.push(term(value)),
        "apart" => wants.apart.push(term(value)),
        "like" => wants.preferred_together.push(weighted(term(value))),
        "dislike" => wants.preferred_apart.push(weighted(term(value))),
        "spread" => wants.spread.push(spread(value, SpreadMode::DoNotSchedule)),
        "soft" => wants.spread.push(spread(value, SpreadMode::ScheduleAnyway)),
        "vol" => drop(wants.volumes.attached.entry("ebs".into()).or_default().insert(value.into())),
        "vzone" => wants.volumes.alternatives.push(one("zone", value)),
        _ if resource(&mut pod.requests, word, value) => {}
        _ => match word.split_at(1) {
            ("@", label) => wants.selector.add_all(&one(label, value)),
            ("?", label) => wants.terms.push(one(label, value)),
            ("~", label) => wants.preferred_nodes.push(weighted(one(label, value))),
            ("!", taint) => wants.tolerations.push(tolerate(taint)),
            _ => drop(pod.labels.insert(word.into(), value.into())),
        },
    }
}

pub(crate) fn tolerate(taint: &str) -> Toleration {
    Toleration { key: Some(taint.into()), matches: Match::Any, effect: None }
}

/// Adds a DaemonSet written like a pod.
pub(crate) fn add_daemon(snapshot: &mut Snapshot, text: &str) {
    let pod = pod(text);
    let daemon = Daemon {
        name: pod.name.clone(),
        labels: model::labels::Labels::clone(&pod.labels),
        requests: pod.requests,
        selector: pod.wants.selector.clone(),
        terms: pod.wants.terms.clone(),
        tolerations: pod.wants.tolerations.clone(),
        ports: pod.wants.ports.clone(),
        has_resource_claims: false,
    };
    snapshot.daemons.insert(pod.name, Arc::new(daemon));
}

fn offering(zone: &str, capacity_type: &str, price: i64) -> Offering {
    Offering {
        requirements: one("zone", zone).intersection(&one(CAPACITY_TYPE, capacity_type)),
        price: Price::from_pico(price),
        is_available: true,
        reservation: None,
        capacity_override: None,
        overhead_override: None,
        has_price_overlay: false,
    }
}

pub(crate) fn instance_type(text: &str) -> InstanceType {
    let (name, words) = words(text);
    let mut found = InstanceType {
        name: name.into(),
        requirements: Requirements::default(),
        capacity: Resources::default().with("memory", 100_000_000_000).with("pods", 100),
        overhead: Resources::default(),
        offerings: Vec::new(),
        attach_limits: AttachLimits::new(),
        has_capacity_overlay: false,
    };
    let find = |wanted: &str| words.iter().find(|(word, _)| *word == wanted).map(|(_, value)| *value);
    let price: i64 = find("price").map_or(1, |value| value.parse().unwrap());
    let zones: Vec<&str> = find("zones").unwrap_or("a").split(',').collect();
    found.offerings.extend(zones.iter().map(|zone| offering(zone, "on-demand", price)));
    for (word, value) in &words {
        match *word {
            "price" | "zones" => {}
            "ebs" => drop(found.attach_limits.insert("ebs".into(), value.parse().unwrap())),
            "reserved" => {
                let [id, left] = parts(value);
                let reservation = Reservation { id: ReservationId::from(id), left: left.parse().unwrap() };
                let reserved = offering(zones[0], "reserved", 0);
                found.offerings.push(Offering { reservation: Some(reservation), ..reserved });
            }
            word if resource(&mut found.capacity, word, value) => {}
            word => found.requirements.add_all(&one(word, value)),
        }
    }
    found
}

/// Adds a ready pool named `p`.
pub(crate) fn add_pool(snapshot: &mut Snapshot, types: &[&str], change: impl FnOnce(&mut Pool)) {
    let labels = [(NODE_POOL.into(), "p".into())].into();
    let mut pool = Pool {
        name: "p".into(),
        weight: 0,
        kind: PoolKind::Dynamic,
        state: PoolState::Ready,
        limits: Limits::default(),
        template: Template { requirements: Requirements::from_labels(&labels), labels, ..Template::default() },
        instance_types: types.iter().map(|text| Arc::new(instance_type(text))).collect(),
        budgets: Budgets::default(),
        consolidation: Default::default(),
    };
    change(&mut pool);
    snapshot.pools.insert(pool.name.clone(), Arc::new(pool));
}

/// A claim of pool `p` for these types, separated by spaces.
pub(crate) fn claim(types: &str) -> PlannedClaim {
    PlannedClaim {
        requirements: one(NODE_POOL, "p"),
        types: types.split_whitespace().map(Into::into).collect(),
        ..PlannedClaim::bare("p".into())
    }
}

/// A plan from `pod>node` words; a number is a claim, and `pod>` is left unplaced.
pub(crate) fn plan(placements: &str, mut claims: Vec<PlannedClaim>) -> Plan {
    let mut plan = Plan::default();
    for word in placements.split_whitespace() {
        let (pod, place) = word.split_once('>').unwrap();
        match place.parse::<usize>() {
            Ok(index) => {
                if let Some(claim) = claims.get_mut(index) {
                    claim.pods = claim.pods.iter().cloned().chain([pod_name(pod)]).collect();
                }
                plan.placements.push((pod_name(pod), Target::Claim(index)));
            }
            Err(_) if place.is_empty() => plan.unplaced.push(unplaced(pod)),
            Err(_) => plan.placements.push((pod_name(pod), Target::Node(place.into()))),
        }
    }
    plan.claims = claims;
    plan
}

fn unplaced(pod: &str) -> Unplaced {
    Unplaced { pod: pod_name(pod), nearest_node: None, pools: Vec::new(), closest_pool: None, general: Vec::new() }
}
