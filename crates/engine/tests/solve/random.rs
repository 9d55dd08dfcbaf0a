//! Random worlds: pools, nodes with pods on them, and pods that wait.

use std::sync::Arc;

use model::pod::{HostPort, Pod, Protocol, Weighted};
use model::snapshot::Snapshot;
use model::taints::Effect;
use model::topology::{Policy, SpreadMode};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngSeed, TestRunner};

use crate::fixture::*;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const CAPACITY: &str = "karpenter.sh/capacity-type";

/// A resource, and how much of it a pool may have.
type Limit = Option<(&'static str, i64)>;

fn any_pool(name: &'static str, limit: impl Strategy<Value = Limit>) -> impl Strategy<Value = PoolSketch> {
    let zones = select(vec!["Exists", "In test-zone-1", "In test-zone-1 test-zone-2", "NotIn test-zone-2"]);
    let taint = select(vec![None, None, None, Some(Effect::NoSchedule), Some(Effect::PreferNoSchedule)]);
    let team = select(vec![None, Some("a"), Some("b")]);
    (zones, taint, limit, team, select(vec![0, 0, 10])).prop_map(move |(zones, taint, limit, team, weight)| {
        let mut sketch = pool(name).requires(ZONE, zones).weight(weight);
        if let Some(effect) = taint {
            sketch = sketch.taint("reserved", effect);
        }
        if let Some((resource, amount)) = limit {
            sketch = sketch.limit(resource, amount);
        }
        match team {
            Some(team) => sketch.label("team", team),
            None => sketch,
        }
    })
}

/// One oddity of a pod.
#[derive(Clone, Debug)]
pub(crate) enum Twist {
    Select(&'static str, &'static str),
    Spread(&'static str, i32, bool, Option<i32>, bool),
    Apart(&'static str, &'static str),
    Together(&'static str, &'static str),
    PreferApart(&'static str),
    PreferZone(&'static str),
    Tolerate,
    Port(u16),
    Terms,
}

pub(crate) fn any_twist() -> impl Strategy<Value = Twist> {
    let key = || select(vec![ZONE, HOST, CAPACITY]);
    let app = || select(vec!["x", "y"]);
    prop_oneof![
        select(vec![
            (ZONE, "In test-zone-1"),
            (ZONE, "NotIn test-zone-1"),
            (CAPACITY, "In spot"),
            ("team", "In a"),
            ("team", "NotIn a"),
            ("team", "Exists"),
            ("kubernetes.io/arch", "In arm64"),
            ("integer", "Gt 3"),
        ])
        .prop_map(|(key, text)| Twist::Select(key, text)),
        (key(), 1..3_i32, any::<bool>(), select(vec![None, None, Some(2), Some(3)]), any::<bool>())
            .prop_map(|(key, skew, hard, least, taints)| Twist::Spread(key, skew, hard, least, taints)),
        (key(), app()).prop_map(|(key, app)| Twist::Apart(key, app)),
        (key(), app()).prop_map(|(key, app)| Twist::Together(key, app)),
        app().prop_map(Twist::PreferApart),
        select(vec!["In test-zone-2", "In nowhere"]).prop_map(Twist::PreferZone),
        Just(Twist::Tolerate),
        (80..82_u16).prop_map(Twist::Port),
        Just(Twist::Terms),
    ]
}

fn twisted(sketch: PodSketch, app: &str, twist: &Twist) -> PodSketch {
    match twist {
        Twist::Select(key, text) => sketch.selects(key, text),
        Twist::Spread(key, skew, is_hard, least, honors_taints) => {
            let mut spread = spread_over(key, *skew, &[("app", app)]);
            spread.mode = if *is_hard { SpreadMode::DoNotSchedule } else { SpreadMode::ScheduleAnyway };
            spread.min_domains = least.filter(|_| *is_hard);
            spread.node_taints = if *honors_taints { Policy::Honor } else { Policy::Ignore };
            sketch.spread(spread)
        }
        Twist::Apart(key, app) => sketch.apart(near(key, &[("app", app)])),
        Twist::Together(key, app) => sketch.together(near(key, &[("app", app)])),
        Twist::PreferApart(app) => {
            let term = Weighted { weight: 5, item: near(HOST, &[("app", app)]) };
            sketch.change(|pod| pod.wants.preferred_apart.push(term))
        }
        Twist::PreferZone(text) => {
            let preferred = Weighted { weight: 5, item: reqs(&[(ZONE, text)]) };
            sketch.change(|pod| pod.wants.preferred_nodes.push(preferred))
        }
        Twist::Tolerate => sketch.tolerates("reserved"),
        Twist::Port(port) => {
            let port = HostPort { ip: "".into(), port: *port, protocol: Protocol::Tcp };
            sketch.change(|pod| pod.wants.ports.push(port))
        }
        Twist::Terms => sketch
            .change(|pod| pod.wants.terms = vec![reqs(&[(ZONE, "In nowhere")]), reqs(&[(ZONE, "NotIn test-zone-3")])]),
    }
}

fn any_pods(prefix: &'static str, most: usize) -> impl Strategy<Value = Vec<PodSketch>> {
    pods_with(prefix, most, proptest::collection::vec(any_twist(), 0..3))
}

/// Up to so many groups of pods that are alike, each with oddities like these.
pub(crate) fn pods_with(
    prefix: &'static str,
    most: usize,
    twists: impl Strategy<Value = Vec<Twist>>,
) -> impl Strategy<Value = Vec<PodSketch>> {
    let group = (1..4_usize, select(vec!["x", "y"]), select(vec![100, 900, 1800, 3500]), select(vec![0, 0, 5]), twists);
    proptest::collection::vec(group, 0..most).prop_map(move |groups| {
        let sketches = groups.iter().enumerate().flat_map(|(number, (count, app, cpu, priority, twists))| {
            pods(&format!("{prefix}-{number}"), *count, |sketch| {
                let plain = sketch.label("app", app).asks("cpu", *cpu).asks("memory", 100 * MI).priority(*priority);
                twists.iter().fold(plain, |sketch, twist| twisted(sketch, app, twist))
            })
        });
        sketches.collect()
    })
}

/// A world and the pods that wait in it.
pub(crate) fn any_world() -> impl Strategy<Value = (Snapshot, Vec<Pod>)> {
    world_with(select(vec![None, None, Some(("cpu", 6000)), Some(("nodes", 2)), Some(("memory", 12 * GI))]))
}

/// A world whose pools have no limits.
pub(crate) fn any_open_world() -> impl Strategy<Value = (Snapshot, Vec<Pod>)> {
    world_with(Just(None))
}

fn world_with(limit: impl Strategy<Value = Limit> + Clone) -> impl Strategy<Value = (Snapshot, Vec<Pod>)> {
    let pools = (any_pool("p", limit.clone()), proptest::option::of(any_pool("q", limit)));
    let node = (
        select(vec!["test-zone-1", "test-zone-2", "test-zone-3"]),
        select(vec!["spot", "on-demand"]),
        select(vec![1000, 4000]),
        any::<bool>(),
    );
    let nodes = proptest::collection::vec((node, any_pods("old", 2)), 0..4);
    (pools, nodes, any_pods("new", 6)).prop_map(|((first, second), nodes, waiting)| {
        let mut built = world(std::iter::once(first).chain(second).collect());
        for (number, ((zone, capacity, cpu, has_team), running)) in nodes.into_iter().enumerate() {
            let name = format!("node-{number}");
            let mut labels = vec![(ZONE, zone), (CAPACITY, capacity), ("kubernetes.io/arch", "amd64")];
            if has_team {
                labels.push(("team", "a"));
            }
            let renamed = running.into_iter().map(|sketch| {
                sketch.change(|pod| {
                    pod.name = model::ids::PodName::new("default", &format!("{}-{number}", pod.name.name))
                })
            });
            built = built.node(&name, &labels, cpu).running(&name, renamed.collect());
        }
        let waiting: Vec<Pod> = waiting.into_iter().map(|sketch| sketch.0).collect();
        for pod in &waiting {
            built.snapshot.pods.insert(pod.name.clone(), Arc::new(pod.clone()));
        }
        (built.snapshot, waiting)
    })
}

/// How many worlds a property looks at. Whoever looks for trouble sets `DOVETAIL_CASES`, whoever is in a hurry `DOVETAIL_MOST_CASES`.
pub(crate) fn cases(usual: u32) -> u32 {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    number("DOVETAIL_CASES").unwrap_or_else(|| number("DOVETAIL_MOST_CASES").map_or(usual, |most: u32| usual.min(most)))
}

/// The same worlds on every run, unless `DOVETAIL_SEED` says otherwise.
pub(crate) fn seeded(usual: u32) -> ProptestConfig {
    let seed = std::env::var("DOVETAIL_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    ProptestConfig {
        cases: cases(usual),
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(seed),
        ..ProptestConfig::default()
    }
}

pub(crate) fn draws<T>(worlds: impl Strategy<Value = T>, usual: u32) -> Vec<T> {
    let mut runner = TestRunner::new(seeded(usual));
    (0..cases(usual)).map(|_| worlds.new_tree(&mut runner).unwrap().current()).collect()
}
