//! Plans for random worlds, before the judge.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use engine::solve::{Question, solve};
use model::pod::{HostPort, Pod, Protocol, Weighted};
use model::snapshot::Snapshot;
use model::taints::Effect;
use model::topology::{Policy, SpreadMode};
use proptest::prelude::*;
use proptest::sample::select;

use crate::fixture::*;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const CAPACITY: &str = "karpenter.sh/capacity-type";

fn any_pool(name: &'static str) -> impl Strategy<Value = PoolSketch> {
    let zones = select(vec!["Exists", "In test-zone-1", "In test-zone-1 test-zone-2", "NotIn test-zone-2"]);
    let taint = select(vec![None, None, None, Some(Effect::NoSchedule), Some(Effect::PreferNoSchedule)]);
    let limit = select(vec![None, None, Some(("cpu", 6000)), Some(("nodes", 2)), Some(("memory", 12 * GI))]);
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
enum Twist {
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

fn any_twist() -> impl Strategy<Value = Twist> {
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
    let twists = proptest::collection::vec(any_twist(), 0..3);
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
fn any_world() -> impl Strategy<Value = (Snapshot, Vec<Pod>)> {
    let pools = (any_pool("p"), proptest::option::of(any_pool("q")));
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

fn answer(snapshot: &Snapshot, pods: &[Pod], effort: u64) -> model::plan::Plan {
    let question = Question { pods: pods.iter().collect(), without: BTreeSet::new(), effort };
    solve(snapshot, &question, &AtomicBool::new(false))
}

/// Spreads reckon with domains that could still be opened, where the scheduler sees only those that are there; a pod that
/// we leave out for the sake of such a domain may fit now.
fn spreads(pod: &Pod) -> bool {
    pod.wants.spread.iter().any(|spread| spread.mode == SpreadMode::DoNotSchedule)
}

proptest! {
    // The same worlds on every run; whoever looks for new ones changes the seed.
    #![proptest_config(ProptestConfig {
        cases: 1000,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_judge_accepts_every_plan((snapshot, pods) in any_world()) {
        let plan = answer(&snapshot, &pods, u64::MAX);
        let verdict = judge::replay(&snapshot, &plan);
        prop_assert!(verdict.is_accepted(), "{}\n{plan:#?}", verdict);
        prop_assert_eq!(plan.placements.len() + plan.unplaced.len(), pods.len());
    }

    #[test]
    fn the_order_of_the_question_changes_nothing((snapshot, pods) in any_world()) {
        let mut reversed = pods.clone();
        reversed.reverse();
        prop_assert_eq!(answer(&snapshot, &pods, u64::MAX), answer(&snapshot, &reversed, u64::MAX));
    }

    #[test]
    fn the_steps_that_a_plan_took_give_the_same_plan_again((snapshot, pods) in any_world()) {
        let plan = answer(&snapshot, &pods, u64::MAX);
        prop_assert_eq!(answer(&snapshot, &pods, plan.steps), plan);
    }

    #[test]
    fn nobody_is_left_out_who_would_fit_on_a_node_that_is_there((snapshot, pods) in any_world()) {
        let plan = answer(&snapshot, &pods, u64::MAX);
        let world = judge::replay(&snapshot, &plan).world;
        for unplaced in &plan.unplaced {
            let pod = &snapshot.pods[&unplaced.pod];
            for node in snapshot.nodes.keys().filter(|_| !spreads(pod)) {
                prop_assert!(judge::filter(&world, pod, node).is_err(), "{} would fit on {node}", unplaced.pod);
            }
        }
    }

    #[test]
    fn nobody_has_a_place_that_a_more_important_pod_is_left_out_for((snapshot, pods) in any_world()) {
        let plan = answer(&snapshot, &pods, u64::MAX);
        for unplaced in &plan.unplaced {
            let pod = &snapshot.pods[&unplaced.pod];
            // Who waits for company may have it only because of lesser pods, so taking those away proves nothing.
            let mut without = plan.clone();
            without.placements.retain(|(placed, _)| snapshot.pods[placed].priority >= pod.priority);
            let world = judge::replay(&snapshot, &without).world;
            for node in snapshot.nodes.keys().filter(|_| !spreads(pod) && pod.wants.together.is_empty()) {
                prop_assert!(judge::filter(&world, pod, node).is_err(), "{} would fit on {node} without lesser pods", unplaced.pod);
            }
        }
    }

    #[test]
    fn the_judge_accepts_a_second_pass_over_machines_that_have_not_come((snapshot, pods) in any_world()) {
        let first = Answer { plan: answer(&snapshot, &pods, u64::MAX) };
        let placed: Vec<Pod> = pods.iter().filter(|pod| first.is_placed(&pod.name.name)).cloned().collect();
        let world = World { snapshot }.asked_for(&first);
        let second = answer(&world.snapshot, &placed, u64::MAX);
        let verdict = judge::replay(&world.snapshot, &second);
        prop_assert!(verdict.is_accepted(), "{}", verdict);
    }
}
