//! What plans cost, beside the least that any plan could cost.

use std::sync::Arc;

use model::instance::InstanceType;
use model::labels::{HOSTNAME, ZONE};
use model::pod::{HostPort, Pod, Protocol};
use model::price::Price;
use model::resources::Resource;
use model::snapshot::Snapshot;
use model::taints::{Effect, Taint};
use proptest::prelude::*;

use crate::fixture::*;
use crate::judged::answer;
use crate::random::draws;

/// A machine of a small menu: cpus, memory, and its price in thousandths of a dollar.
#[derive(Clone, Debug)]
struct Kind {
    cpu: i64,
    memory: i64,
    price: i64,
}

/// A pod of a small world.
#[derive(Clone, Debug, Default)]
struct Ask {
    cpu: i64,
    memory: i64,
    /// A zone that it must be in.
    zone: Option<usize>,
    /// An app whose pods keep apart.
    app: Option<usize>,
    /// Its part where only one of two minds the other.
    side: Option<Side>,
    /// Whether it stays where it was first seated, because it has a port of its own.
    stays: bool,
}

/// Who keeps away from others that do not mind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Avoids,
    Avoided,
}

const ZONES: [&str; 3] = ["test-zone-1", "test-zone-2", "test-zone-3"];

fn any_kind() -> impl Strategy<Value = Kind> {
    (1..16_i64, prop::sample::select(vec![1_i64, 2, 4, 8]), 70..140_i64).prop_map(|(cpu, ratio, percent)| Kind {
        cpu,
        memory: cpu * ratio,
        price: (cpu * 40 + cpu * ratio * 5) * percent / 100,
    })
}

fn any_ask() -> impl Strategy<Value = Ask> {
    let zone = prop::sample::select(vec![None, None, None, None, Some(0), Some(1)]);
    let app = prop::sample::select(vec![None, None, None, Some(0)]);
    let ask = |(cpu, memory, zone, app)| Ask { cpu, memory, zone, app, ..Ask::default() };
    (100..6000_i64, 100..12_000_i64, zone, app).prop_map(ask)
}

fn any_small(pods: usize, kinds: usize) -> impl Strategy<Value = (Vec<Kind>, Vec<Ask>)> {
    // The largest kind holds any pod, so that everybody can be placed.
    let largest = Kind { cpu: 16, memory: 64, price: 16 * 40 + 64 * 5 };
    let kinds = prop::collection::vec(any_kind(), 1..kinds).prop_map(move |mut kinds| {
        kinds.push(largest.clone());
        kinds
    });
    (kinds, prop::collection::vec(any_ask(), 1..=pods))
}

fn machine(number: usize, kind: &Kind) -> Arc<InstanceType> {
    let shape = shape(&format!("kind-{number}"))
        .with("cpu", kind.cpu * 1000)
        .with("memory", kind.memory * GI)
        .with("pods", 100);
    changed(shape, |built| {
        let price = Price::from_pico(kind.price * 1_000_000_000);
        built.offerings.iter_mut().for_each(|offering| offering.price = price);
    })
}

fn build(kinds: &[Kind], asks: &[Ask]) -> (Snapshot, Vec<Pod>) {
    let types = kinds.iter().enumerate().map(|(number, kind)| machine(number, kind)).collect();
    let sketch = |(number, ask): (usize, &Ask)| {
        let mut sketch = pod(&format!("pod-{number:03}")).asks("cpu", ask.cpu).asks("memory", ask.memory * MI);
        if let Some(zone) = ask.zone {
            sketch = sketch.selects(ZONE, &format!("In {}", ZONES[zone]));
        }
        if let Some(app) = ask.app {
            let app = format!("{app}");
            sketch = sketch.label("app", &app).apart(near(HOSTNAME, &[("app", &app)]));
        }
        match ask.side {
            Some(Side::Avoids) => sketch = sketch.apart(near(HOSTNAME, &[("side", "avoided")])),
            Some(Side::Avoided) => sketch = sketch.label("side", "avoided"),
            None => {}
        }
        if ask.stays {
            let port = HostPort { ip: "".into(), port: 1000 + number as u16, protocol: Protocol::Tcp };
            sketch = sketch.change(|pod| pod.wants.ports.push(port));
        }
        sketch.0
    };
    let pods: Vec<Pod> = asks.iter().enumerate().map(sketch).collect();
    let mut world = world(vec![pool("p").types(types)]);
    for pod in &pods {
        world.snapshot.pods.insert(pod.name.clone(), Arc::new(pod.clone()));
    }
    (world.snapshot, pods)
}

const FEE: i64 = 2;

/// The cheapest machine for these pods, if they can share one.
fn shared(kinds: &[Kind], asks: &[Ask], set: usize) -> Option<i64> {
    let chosen = || (0..asks.len()).filter(|pod| set & (1 << pod) != 0).map(|pod| &asks[pod]);
    let (cpu, memory) = chosen().fold((0, 0), |(cpu, memory), ask| (cpu + ask.cpu, memory + ask.memory));
    let mut zones: Vec<usize> = chosen().filter_map(|ask| ask.zone).collect();
    zones.dedup();
    let loners = chosen().filter(|ask| ask.app.is_some()).count();
    let has = |side: Side| chosen().any(|ask| ask.side == Some(side));
    let is_torn = has(Side::Avoids) && has(Side::Avoided);
    if zones.windows(2).any(|pair| pair[0] != pair[1]) || loners > 1 || is_torn {
        return None;
    }
    let holds = |kind: &&Kind| cpu <= kind.cpu * 1000 - 100 && memory <= kind.memory * 1024 - 10;
    kinds.iter().filter(holds).map(|kind| kind.price + FEE).min()
}

/// The least that any way to divide the pods costs.
fn optimum(kinds: &[Kind], asks: &[Ask]) -> i64 {
    let sets = 1_usize << asks.len();
    let costs: Vec<Option<i64>> = (0..sets).map(|set| shared(kinds, asks, set)).collect();
    let mut best = vec![i64::MAX; sets];
    best[0] = 0;
    for set in 1..sets {
        let mut part = set;
        while part != 0 {
            if let Some(cost) = costs[part].filter(|_| part & (set & set.wrapping_neg()) != 0) {
                best[set] = best[set].min(cost + best[set ^ part]);
            }
            part = (part - 1) & set;
        }
    }
    best[sets - 1]
}

/// What a plan costs, in thousandths of a dollar.
fn cost(plan: &model::plan::Plan) -> i64 {
    plan.price().pico() / 1_000_000_000 + FEE * plan.claims.len() as i64
}

/// Nothing is changed.
fn as_drawn(_: &mut [Ask]) {}

/// One pod of three stays where it was seated.
fn a_third_stays(asks: &mut [Ask]) {
    asks.iter_mut().skip(1).step_by(3).for_each(|ask| ask.stays = true);
}

/// A third keeps away from another third, which does not mind.
fn taking_sides(asks: &mut [Ask]) {
    let sides = [Some(Side::Avoids), Some(Side::Avoided), None];
    for (ask, side) in asks.iter_mut().zip(sides.into_iter().cycle()) {
        (ask.app, ask.side) = (None, side);
    }
}

/// The mean and the worst of what plans cost beyond the optimum, in parts of it.
fn gaps(pods: usize, kinds: usize, worlds: u32, change: impl Fn(&mut [Ask])) -> (f64, f64) {
    let mut gaps = Vec::new();
    for (kinds, mut asks) in draws(any_small(pods, kinds), worlds) {
        change(&mut asks);
        let (snapshot, pods) = build(&kinds, &asks);
        let plan = answer(&snapshot, &pods, u64::MAX);
        assert!(plan.unplaced.is_empty(), "{kinds:?} {asks:?}");
        let verdict = judge::replay(&snapshot, &plan);
        assert!(verdict.is_accepted(), "{verdict}");
        let least = optimum(&kinds, &asks);
        assert!(cost(&plan) >= least, "no plan is cheaper than the cheapest: {kinds:?} {asks:?}");
        gaps.push(cost(&plan) as f64 / least as f64 - 1.0);
    }
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    (mean, gaps.iter().copied().fold(0.0, f64::max))
}

#[test]
fn eight_pods_on_six_types_cost_hardly_more_than_they_must() {
    let (mean, worst) = gaps(8, 6, 300, as_drawn);
    println!("8 x 6: mean {mean:.5}, worst {worst:.5}");
    assert!(mean <= 0.0005 && worst <= 0.02, "mean {mean}, worst {worst}");
}

#[test]
fn twelve_pods_on_ten_types_cost_hardly_more_than_they_must() {
    let (mean, worst) = gaps(12, 10, 100, as_drawn);
    println!("12 x 10: mean {mean:.5}, worst {worst:.5}");
    assert!(mean <= 0.001 && worst <= 0.03, "mean {mean}, worst {worst}");
}

#[test]
fn pods_beside_others_that_stay_cost_little_more_than_they_must() {
    let (mean, worst) = gaps(9, 6, 200, a_third_stays);
    println!("9 x 6, a third stays: mean {mean:.5}, worst {worst:.5}");
    assert!(mean <= 0.03, "mean {mean}, worst {worst}");
}

#[test]
fn pods_that_keep_away_from_others_who_do_not_mind_cost_hardly_more_than_they_must() {
    let (mean, worst) = gaps(9, 6, 200, taking_sides);
    println!("9 x 6, taking sides: mean {mean:.5}, worst {worst:.5}");
    assert!(mean <= 0.001 && worst <= 0.03, "mean {mean}, worst {worst}");
}

/// A menu of three families, eight sizes each.
fn families() -> Vec<Kind> {
    let sizes = [1_i64, 2, 4, 8, 16, 32, 48, 64];
    let family = |ratio: i64, dear: i64| {
        sizes.iter().map(move |cpu| Kind { cpu: *cpu, memory: cpu * ratio, price: cpu * dear }).collect::<Vec<_>>()
    };
    [family(2, 42), family(4, 48), family(8, 63)].concat()
}

/// A pod of so much cpu and memory that minds nothing else.
fn plain((cpu, memory): &(i64, i64)) -> Ask {
    Ask { cpu: *cpu, memory: *memory, ..Ask::default() }
}

/// The least that fractions of machines cost that have so much cpu and memory in all: a bound for every plan.
fn fractional(kinds: &[Kind], cpu: f64, memory: f64) -> f64 {
    let rows: Vec<(f64, f64, f64)> = kinds
        .iter()
        .map(|kind| ((kind.cpu * 1000 - 100) as f64, (kind.memory * 1024 - 10) as f64, (kind.price + FEE) as f64))
        .collect();
    let mut corners: Vec<(f64, f64)> = Vec::new();
    for (i, a) in rows.iter().enumerate() {
        corners.extend([(a.2 / a.0, 0.0), (0.0, a.2 / a.1)]);
        for b in &rows[i + 1..] {
            let determinant = a.0 * b.1 - b.0 * a.1;
            if determinant.abs() > 1e-9 {
                corners.push(((a.2 * b.1 - b.2 * a.1) / determinant, (a.0 * b.2 - b.0 * a.2) / determinant));
            }
        }
    }
    let is_allowed = |(u, v): &&(f64, f64)| {
        *u >= -1e-12 && *v >= -1e-12 && rows.iter().all(|row| u * row.0 + v * row.1 <= row.2 * (1.0 + 1e-9))
    };
    corners.iter().filter(is_allowed).map(|(u, v)| u * cpu + v * memory).fold(0.0, f64::max)
}

#[test]
fn hundreds_of_pods_cost_little_more_than_fractions_of_machines_would() {
    let kinds = families();
    for count in [40, 200, 1000] {
        let asks = prop::collection::vec((100..4000_i64, 100..12_000_i64), count);
        let mut ratios = Vec::new();
        for asks in draws(asks, 6) {
            let asks: Vec<Ask> = asks.iter().map(plain).collect();
            let (snapshot, pods) = build(&kinds, &asks);
            let plan = answer(&snapshot, &pods, u64::MAX);
            assert!(plan.unplaced.is_empty() && judge::replay(&snapshot, &plan).is_accepted());
            let sum = |pick: fn(&Ask) -> i64| asks.iter().map(pick).sum::<i64>() as f64;
            let bound = fractional(&kinds, sum(|ask| ask.cpu), sum(|ask| ask.memory));
            assert!(cost(&plan) as f64 >= bound * (1.0 - 1e-9), "a bound is not above a plan");
            ratios.push(cost(&plan) as f64 / bound);
        }
        println!("{count} pods: {ratios:.4?}");
        // Few pods cannot fill whole machines, however they are packed.
        let most = if count < 100 { 1.036 } else { 1.019 };
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        assert!(mean <= most, "{count} pods: {mean}, {ratios:?}");
    }
}

/// Worlds of forty pods on a menu of three families, and what each costs after a change.
fn costs_of_forty(change: impl Fn(&mut Snapshot)) -> Vec<i64> {
    let asks = prop::collection::vec((100..4000_i64, 100..12_000_i64), 40);
    let cost_of = |asks: Vec<(i64, i64)>| {
        let (mut snapshot, pods) = build(&families(), &asks.iter().map(plain).collect::<Vec<_>>());
        change(&mut snapshot);
        let plan = answer(&snapshot, &pods, u64::MAX);
        assert!(plan.unplaced.is_empty() && judge::replay(&snapshot, &plan).is_accepted());
        cost(&plan)
    };
    draws(asks, 8).into_iter().map(cost_of).collect()
}

#[test]
fn neither_limits_nor_soft_taints_keep_pods_from_being_packed_for_their_price() {
    let free = costs_of_forty(|_| {});
    // More than is needed, and so little that the largest machine would be too much at the end.
    let limited = costs_of_forty(|snapshot| {
        let pool = snapshot.pools.values_mut().next().expect("there is one");
        Arc::make_mut(pool).limits.resources = vec![(Resource::Cpu, 150_000)];
    });
    assert_eq!(limited, free);
    // A soft taint gives every pod another wish that it could give up.
    let tainted = costs_of_forty(|snapshot| {
        let full = world(vec![]).node("full", &[], 0).change_node("full", |node| {
            node.taints = vec![Taint::new("keep", "", Effect::PreferNoSchedule)];
        });
        snapshot.nodes.extend(full.snapshot.nodes);
    });
    assert_eq!(tainted, free);
}

/// Machines that are full to the last core and byte: a kind of the menu, how its room is cut into pods, and how many there are.
#[derive(Clone, Debug)]
struct Planted {
    kind: usize,
    /// Where cpu and memory are cut, in hundredths.
    cuts: Vec<(i64, i64)>,
    copies: usize,
}

fn any_planted(kinds: usize) -> impl Strategy<Value = Planted> {
    let cuts = prop::collection::vec((5..95_i64, 5..95_i64), 1..4);
    (0..kinds, cuts, 10..60_usize).prop_map(|(kind, cuts, copies)| Planted { kind, cuts, copies })
}

/// Parts between cuts.
fn parts(mut cuts: Vec<i64>, whole: i64) -> Vec<i64> {
    cuts.sort_unstable();
    let mut places: Vec<i64> = cuts.iter().map(|cut| whole * cut / 100).collect();
    places.insert(0, 0);
    places.push(whole);
    places.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn many_pods_of_few_kinds_cost_hardly_more_than_a_packing_that_is_known() {
    let kinds = families();
    let mut ratios = Vec::new();
    for planted in draws(prop::collection::vec(any_planted(kinds.len()), 2..6), 12) {
        let (mut asks, mut known) = (Vec::new(), 0);
        for planted in &planted {
            let kind = &kinds[planted.kind];
            let cpu = parts(planted.cuts.iter().map(|cut| cut.0).collect(), kind.cpu * 1000 - 100);
            let memory = parts(planted.cuts.iter().map(|cut| cut.1).collect(), kind.memory * 1024 - 10);
            for _ in 0..planted.copies {
                asks.extend(cpu.iter().zip(&memory).map(|(cpu, memory)| plain(&(*cpu, *memory))));
                known += kind.price + FEE;
            }
        }
        let (snapshot, pods) = build(&kinds, &asks);
        let plan = answer(&snapshot, &pods, u64::MAX);
        assert!(plan.unplaced.is_empty() && judge::replay(&snapshot, &plan).is_accepted());
        ratios.push(cost(&plan) as f64 / known as f64);
    }
    println!("few kinds: {ratios:.4?}");
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    let worst = ratios.iter().copied().fold(0.0, f64::max);
    assert!(mean <= 1.0 && worst <= 1.04, "mean {mean}, {ratios:?}");
}

/// The mean of what plans for mixed crowds cost, in parts of what fractions of machines would.
fn mixed(count: usize, worlds: u32, change: impl Fn(&mut [Ask])) -> f64 {
    let kinds = families();
    let mut ratios = Vec::new();
    for mut asks in draws(prop::collection::vec(any_ask(), count), worlds) {
        change(&mut asks);
        // Pods that keep apart need a machine each, so they are few.
        asks.iter_mut().skip(8).for_each(|ask| ask.app = None);
        let (snapshot, pods) = build(&kinds, &asks);
        let plan = answer(&snapshot, &pods, u64::MAX);
        assert!(plan.unplaced.is_empty() && judge::replay(&snapshot, &plan).is_accepted());
        let sum = |pick: fn(&Ask) -> i64| asks.iter().map(pick).sum::<i64>() as f64;
        ratios.push(cost(&plan) as f64 / fractional(&kinds, sum(|ask| ask.cpu), sum(|ask| ask.memory)));
    }
    ratios.iter().sum::<f64>() / ratios.len() as f64
}

#[test]
fn crowds_with_zones_and_distance_cost_little_more_than_fractions_of_machines_would() {
    let (free, beside) = (mixed(50, 30, as_drawn), mixed(50, 30, a_third_stays));
    println!("50 pods with zones and distance: {free:.4}, a third stays: {beside:.4}");
    assert!(free <= 1.026, "{free}");
    assert!(beside <= 1.035, "{beside}");
}

#[test]
fn crowds_of_which_some_keep_away_from_others_cost_little_more_than_fractions_of_machines_would() {
    let sides = mixed(60, 20, taking_sides);
    println!("60 pods taking sides: {sides:.4}");
    assert!(sides <= 1.045, "{sides}");
}
