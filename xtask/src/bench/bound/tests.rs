mod optimum;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use engine::solve::{Question, solve};
use model::budget::Budgets;
use model::ids::PodName;
use model::instance::{InstanceType, Offering};
use model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use model::node::{Node, Progress};
use model::pod::Pod;
use model::pool::{Limits, Pool, PoolKind, PoolState, Template};
use model::price::Price;
use model::requirements::{Requirement, Requirements};
use model::resources::Resources;
use model::snapshot::Snapshot;
use model::time::Instant;
use model::volume::AttachLimits;
use proptest::prelude::*;

use super::*;

/// A machine: cores, gigabytes, cents per hour.
type Shape = (i64, i64, i64);

fn kind(name: String, (cores, gigabytes, cents): Shape) -> Arc<InstanceType> {
    let label = |value: &str| Requirement::value(value.into());
    let offering = Offering {
        requirements: Requirements::default().with(ZONE, label("z")).with(CAPACITY_TYPE, label("on-demand")),
        price: Price::from_pico(cents * 10_000_000_000),
        is_available: true,
        reservation: None,
        capacity_override: None,
        overhead_override: None,
        has_price_overlay: false,
    };
    Arc::new(InstanceType {
        requirements: offering.requirements.clone().with(INSTANCE_TYPE, label(&name)),
        name: name.into(),
        capacity: amounts(cores * 1000, gigabytes).with("pods", 8),
        overhead: Resources::default(),
        offerings: vec![offering],
        attach_limits: AttachLimits::new(),
        has_capacity_overlay: false,
    })
}

fn amounts(milli: i64, gigabytes: i64) -> Resources {
    Resources::default().with("cpu", milli).with("memory", gigabytes << 30)
}

fn world(shapes: &[Shape], pods: &[(i64, i64)]) -> Snapshot {
    let mut snapshot = Snapshot::empty(Instant::from_unix_seconds(0));
    let pool = Pool {
        name: "default".into(),
        weight: 0,
        kind: PoolKind::Dynamic,
        state: PoolState::Ready,
        limits: Limits::default(),
        template: Template::default(),
        instance_types: shapes.iter().enumerate().map(|(index, shape)| kind(format!("t{index}"), *shape)).collect(),
        budgets: Budgets::default(),
        consolidation: Default::default(),
    };
    snapshot.pools.insert(pool.name.clone(), Arc::new(pool));
    for (index, (milli, gigabytes)) in pods.iter().enumerate() {
        let pod = Pod::pending("default", &format!("p{index}"), amounts(*milli, *gigabytes));
        snapshot.pods.insert(pod.name.clone(), Arc::new(pod));
    }
    snapshot
}

fn add_node(snapshot: &mut Snapshot, (cores, gigabytes): (i64, i64)) {
    let amounts = amounts(cores * 1000, gigabytes).with("pods", 8);
    let node = Node {
        name: "standing".into(),
        pool: None,
        labels: [("kubernetes.io/hostname".into(), "standing".into())].into(),
        taints: Vec::new(),
        capacity: amounts.clone(),
        allocatable: amounts,
        attach_limits: AttachLimits::new(),
        progress: Progress::Initialized,
        is_leaving: false,
        created: Instant::from_unix_seconds(0),
        tenure: None,
    };
    snapshot.nodes.insert(node.name.clone(), Arc::new(node));
}

fn bound(snapshot: &Snapshot) -> i128 {
    let all: BTreeSet<&PodName> = snapshot.pods.keys().collect();
    lower_bound_pico(snapshot, &all)
}

/// The bound in cents, for worlds where it is known.
fn check(snapshot: &Snapshot, expected_cents: f64) {
    let cents = bound(snapshot) as f64 / 1e10;
    assert!((cents - expected_cents).abs() <= 1e-4 * expected_cents.max(1.0), "{cents} is not {expected_cents}");
    assert!(cents <= expected_cents, "{cents} is above {expected_cents}");
}

#[test]
fn where_pods_fill_machines_the_bound_is_the_price() {
    check(&world(&[(4, 100, 100)], &[(1000, 1); 8]), 200.0);
    // Six pods take a machine and a half.
    check(&world(&[(4, 100, 100)], &[(1000, 1); 6]), 150.0);
    // Whole pods only: the third core of a machine is of no use to pods of a core and a half.
    check(&world(&[(4, 100, 100)], &[(1500, 1); 6]), 300.0);
}

#[test]
fn pods_that_complement_each_other_share_machines() {
    // One pod of each kind fills a machine of both resources; alone, each kind would need one for itself.
    let pods = [(3999, 1), (3999, 1), (1, 7), (1, 7)];
    check(&world(&[(4, 8, 100)], &pods), 200.0);
    // Pods that fit only on the dear machine pay for it, though the small one is cheaper by the core.
    check(&world(&[(1, 1, 10), (100, 100, 2000)], &[(2000, 1); 8]), 2000.0);
}

#[test]
fn places_for_pods_count_like_any_resource() {
    check(&world(&[(100, 100, 80)], &[(1, 0); 16]), 160.0);
}

#[test]
fn room_on_standing_nodes_is_free() {
    let mut snapshot = world(&[(4, 100, 100)], &[(1000, 1); 8]);
    add_node(&mut snapshot, (4, 100));
    check(&snapshot, 100.0);
    add_node(&mut snapshot, (100, 1000));
    check(&snapshot, 0.0);
}

/// A plan that nobody would make: pods in the given order, each on the machine in use if it fits, else on a new one of its choice.
fn careless_price(snapshot: &Snapshot, shapes: &[Shape], pods: &[(i64, i64)], choices: &[usize]) -> Option<i128> {
    let pool = snapshot.pools.values().next()?;
    let mut total = 0;
    let mut open: Option<Resources> = None;
    for (index, (milli, gigabytes)) in pods.iter().enumerate() {
        let asked = amounts(*milli, *gigabytes).with("pods", 1);
        if let Some(left) = open.as_mut().filter(|left| asked.fits_in(left)) {
            *left = left.minus(&asked);
            continue;
        }
        let suiting: Vec<usize> =
            (0..shapes.len()).filter(|shape| asked.fits_in(&pool.instance_types[*shape].allocatable())).collect();
        let chosen = *suiting.get(choices.get(index)? % suiting.len().max(1))?;
        total += i128::from(pool.instance_types[chosen].offerings[0].price.pico());
        open = Some(pool.instance_types[chosen].allocatable().minus(&asked));
    }
    Some(total)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn no_plan_is_below_the_bound(
        shapes in proptest::collection::vec((1..17_i64, 1..33_i64, 1..200_i64), 1..6),
        pods in proptest::collection::vec((1..6000_i64, 0..12_i64), 1..10),
        choices in proptest::collection::vec(0..6_usize, 10),
        node in proptest::option::of((1..9_i64, 1..17_i64)),
    ) {
        let mut snapshot = world(&shapes, &pods);
        let careless = careless_price(&snapshot, &shapes, &pods, &choices);
        if let Some(price) = careless {
            prop_assert!(bound(&snapshot) <= price);
        }
        node.into_iter().for_each(|node| add_node(&mut snapshot, node));
        let question = Question::about(snapshot.pods.values().map(|pod| &**pod).collect());
        let plan = solve(&snapshot, &question, &AtomicBool::new(false));
        let placed: BTreeSet<&PodName> = plan.placements.iter().map(|(pod, _)| pod).collect();
        let price: i128 = plan.claims.iter().map(|claim| i128::from(claim.price.pico())).sum();
        let bound = lower_bound_pico(&snapshot, &placed);
        prop_assert!(bound <= price, "bound {} price {}", bound, price);
        // And it is not idle: machines are paid for by what is on them.
        if snapshot.nodes.is_empty() && !placed.is_empty() {
            prop_assert!(bound > 0);
        }
    }
}
