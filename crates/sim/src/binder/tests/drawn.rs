//! Small worlds that touch every rule, drawn by chance.

use std::sync::Arc;

use model::ids::PodName;
use model::labels::{HOSTNAME, Labels, ZONE};
use model::node::{Node, Progress};
use model::pod::{HostPort, Life, Pod, Protocol, Weighted};
use model::requirements::{Operator, Requirement, Requirements};
use model::resources::Resources;
use model::taints::{Effect, Match, Taint, Toleration};
use model::time::Instant;
use model::topology::{Namespaces, PodTerm, Policy, Selector, Spread, SpreadMode};
use proptest::prelude::*;
use proptest::sample::select;

fn one(key: &str, values: &[&str]) -> Requirements {
    Requirements::default().with(key, Requirement::new(Operator::In, values.iter().copied()))
}

fn key(short: &str) -> &str {
    match short {
        "zone" => ZONE,
        "host" => HOSTNAME,
        other => other,
    }
}

fn app(name: &str) -> Selector {
    Selector::Matching(if name == "all" { Requirements::default() } else { one("app", &[name]) })
}

fn term(text: &str) -> PodTerm {
    let (label, name) = text.split_once(':').unwrap();
    let namespaces = if name == "v" { Namespaces::All } else { Namespaces::Listed(["a".into()].into()) };
    PodTerm { key: key(label).into(), selector: app(name), namespaces }
}

fn spread(text: &str, mode: SpreadMode) -> Spread {
    let parts: Vec<&str> = text.split(':').collect();
    Spread {
        key: key(parts[0]).into(),
        max_skew: parts[1].parse().unwrap(),
        min_domains: (parts[1] == "2").then_some(3),
        mode,
        selector: app(parts[2]),
        node_affinity: if parts[0] == "host" { Policy::Ignore } else { Policy::Honor },
        node_taints: if parts[2] == "v" { Policy::Honor } else { Policy::Ignore },
    }
}

fn weighted<T>(weight: i32, item: T) -> Weighted<T> {
    Weighted { weight, item }
}

/// One wish of a pod, in a short form.
fn wish(pod: &mut Pod, text: &str) {
    let wants = &mut pod.wants;
    let (word, value) = text.split_once('=').unwrap();
    match word {
        "tolerate" => {
            wants.tolerations.push(Toleration { key: Some(value.into()), matches: Match::Any, effect: None });
        }
        "on" => wants.selector.add_all(&one(ZONE, &[value])),
        "either" => wants.terms.extend([one(ZONE, &[value]), one("arch", &["arm"])]),
        "prefer" => wants.preferred_nodes.push(weighted(3, one(ZONE, &[value]))),
        "near" => wants.together.push(term(value)),
        "apart" => wants.apart.push(term(value)),
        "like" => wants.preferred_together.push(weighted(7, term(value))),
        "dislike" => wants.preferred_apart.push(weighted(2, term(value))),
        "hard" => wants.spread.push(spread(value, SpreadMode::DoNotSchedule)),
        "soft" => wants.spread.push(spread(value, SpreadMode::ScheduleAnyway)),
        "port" => wants.ports.push(HostPort { ip: value.into(), port: 80, protocol: Protocol::Tcp }),
        "volume" => drop(wants.volumes.attached.entry("ebs".into()).or_default().insert(value.into())),
        "reach" => wants.volumes.alternatives.push(one(ZONE, &[value])),
        "gpu" => pod.requests = pod.requests.clone().with("gpu", 1),
        "ends" => pod.life = Life::Terminating,
        _ => unreachable!("{word}"),
    }
}

const WISHES: [&str; 34] = [
    "tolerate=x",
    "tolerate=x",
    "tolerate=y",
    "on=a",
    "either=b",
    "prefer=a",
    "prefer=c",
    "near=zone:w",
    "near=host:v",
    "near=rack:w",
    "apart=zone:w",
    "apart=host:w",
    "apart=host:v",
    "like=zone:w",
    "like=host:v",
    "dislike=zone:v",
    "dislike=host:w",
    "hard=zone:1:w",
    "hard=zone:2:v",
    "hard=host:1:v",
    "hard=rack:1:w",
    "hard=zone:1:all",
    "soft=zone:1:w",
    "soft=zone:2:v",
    "soft=host:1:w",
    "soft=host:3:v",
    "soft=rack:1:w",
    "port=",
    "port=10.0.0.1",
    "volume=1",
    "volume=2",
    "reach=a",
    "gpu=1",
    "ends=now",
];

pub(super) fn node() -> impl Strategy<Value = Node> {
    let zone = select(vec!["a", "b", "c", ""]);
    let taint = select(vec!["", "", "x:NoSchedule", "y:PreferNoSchedule", "z:PreferNoSchedule"]);
    (1..6_i64, 1..4_i64, zone, taint, any::<bool>(), select(vec!["", "arm"])).prop_map(
        |(cpu, memory, zone, taint, has_more, arch)| {
            let mut labels = Labels::new();
            for (key, value) in [(ZONE, zone), ("arch", arch), ("rack", if has_more { "r" } else { "" })] {
                if !value.is_empty() {
                    labels.insert(key.into(), value.into());
                }
            }
            let effect = if taint.ends_with(":NoSchedule") { Effect::NoSchedule } else { Effect::PreferNoSchedule };
            let taints = taint.split_once(':').map(|(key, _)| Taint::new(key, "", effect)).into_iter().collect();
            let amounts = Resources::default().with("cpu", cpu * 1000).with("memory", memory << 30).with("pods", 4);
            let amounts = if has_more { amounts.with("gpu", 1) } else { amounts };
            Node {
                name: "".into(),
                pool: None,
                labels,
                taints,
                capacity: amounts.clone(),
                allocatable: amounts,
                attach_limits: if has_more { [("ebs".into(), 1)].into() } else { [].into() },
                progress: Progress::Initialized,
                is_leaving: false,
                created: Instant::from_unix_seconds(0),
                tenure: None,
            }
        },
    )
}

pub(super) fn named(mut node: Node, number: usize) -> Node {
    node.name = format!("n{number}").into();
    node.labels.insert(HOSTNAME.into(), format!("n{number}").into());
    node
}

pub(super) fn pod() -> impl Strategy<Value = Pod> {
    let wishes = prop::collection::vec(select(WISHES.to_vec()), 0..5);
    (0..3_i64, 0..3_i64, select(vec!["v", "w"]), select(vec!["a", "a", "b"]), wishes).prop_map(
        |(cpu, memory, app, namespace, wishes)| {
            let requests = Resources::default().with("cpu", cpu * 700).with("memory", memory << 28);
            let mut pod = Pod::pending(namespace, "", requests);
            pod.labels.insert("app".into(), app.into());
            wishes.iter().for_each(|text| wish(&mut pod, text));
            pod
        },
    )
}

pub(super) fn called(mut pod: Pod, number: usize) -> Arc<Pod> {
    pod.name = PodName { namespace: pod.name.namespace.clone(), name: format!("p{number}").into() };
    Arc::new(pod)
}
