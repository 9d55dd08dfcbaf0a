//! What is decided pod by pod. Pods with ports of their own stay where they were first seated, so that nothing is packed anew.

use std::sync::Arc;

use model::ids::PodName;
use model::instance::InstanceType;
use model::pod::{HostPort, Protocol};
use model::pool::BrokenLimit;
use model::price::Price;
use model::why::Obstacle;

use crate::fixture::*;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const APP: [(&str, &str); 1] = [("app", "x")];

/// Gives each pod a port that nobody else wants.
fn staying(pods: Vec<PodSketch>) -> Vec<PodSketch> {
    let with_port = |(number, sketch): (usize, PodSketch)| {
        let port = HostPort { ip: "".into(), port: 1000 + number as u16, protocol: Protocol::Tcp };
        sketch.change(|pod| pod.wants.ports.push(port))
    };
    pods.into_iter().enumerate().map(with_port).collect()
}

#[test]
fn a_claim_grows_where_that_is_cheaper_than_a_new_one() {
    let world = world(vec![pool("p").types(series(8))]);
    let bound = || pod("b").asks("cpu", 600).selects(ZONE, "In test-zone-1");
    let answer = world.judged(staying(vec![pod("a").asks("cpu", 1500).priority(1), bound()]));
    assert_eq!((answer.claims(), answer.types("a").swap_remove(0)), (1, "fake-it-2".to_owned()));
}

#[test]
fn a_new_claim_is_opened_where_growing_would_cost_more() {
    let dear = |name: &str, cpu: i64, dollars: f64| {
        changed(shape(name).with("cpu", 1000 * cpu).with("memory", 64 * GI).with("pods", 100), |built| {
            let price = Price::from_dollars(dollars).unwrap();
            built.offerings.iter_mut().for_each(|offering| offering.price = price);
        })
    };
    let world = world(vec![pool("p").types(vec![dear("small", 2, 1.0), dear("large", 4, 5.0)])]);
    let all = vec![pod("a").asks("cpu", 1500).priority(1), pod("b").asks("cpu", 1000).selects(ZONE, "In test-zone-1")];
    let answer = world.judged(staying(all));
    assert_eq!((answer.claims(), answer.claim("b").price), (2, Price::from_dollars(1.0).unwrap()));
}

#[test]
fn of_pools_that_cost_the_same_the_first_in_their_order_is_used() {
    let answer = world(vec![pool("p"), pool("q"), pool("o")]).judged(vec![pod("a")]);
    assert_eq!(answer.claim("a").pool.as_str(), "q");
}

#[test]
fn a_claim_is_opened_for_the_pods_that_still_wait() {
    let waiting = |count: usize| staying(pods("a", count, |sketch| sketch.asks("cpu", 900).asks("memory", GI)));
    let world = world(vec![pool("p").types(series(16))]);
    for count in [1, 4, 10, 16] {
        assert_eq!(world.judged(waiting(count)).claims(), 1, "{count}");
    }
    assert_eq!(world.judged(waiting(30)).claims(), 2);
}

/// Pods that are all alike and stay where they are seated, because they share a volume.
fn anchored(count: usize, make: impl Fn(PodSketch) -> PodSketch) -> Vec<PodSketch> {
    let anchor = |pod: &mut model::pod::Pod| {
        pod.wants.volumes.attached.entry("any".into()).or_default().insert("shared".into());
    };
    pods("a", count, |sketch| make(sketch.asks("cpu", 900)).change(anchor))
}

/// The steps that a plan takes.
fn steps(world: &World, pods: Vec<PodSketch>) -> u64 {
    let count = pods.len();
    let answer = world.solve(pods);
    assert_eq!(answer.placed(), count);
    answer.plan.steps
}

#[test]
fn twice_as_many_pods_take_twice_as_many_steps() {
    let is_linear = |name: &str, world: &World, make: &dyn Fn(usize) -> Vec<PodSketch>| {
        let (once, twice) = (steps(world, make(100)), steps(world, make(200)));
        assert!(twice * 10 <= once * 22, "{name}: {once} and {twice}");
        assert!(twice <= 200 * 12, "{name}: {twice} are too many for 200");
    };
    let open = world(vec![pool("p")]);
    let shy = |sketch: PodSketch| sketch.label("app", "x").apart(near(HOST, &APP));
    is_linear("alike", &open, &|count| anchored(count, |sketch| sketch));
    is_linear("shy", &open, &|count| anchored(count, shy));
    is_linear("spread over hosts", &open, &|count| {
        anchored(count, |sketch| sketch.label("app", "x").spread(spread_over(HOST, 1, &APP)))
    });
    let beside = (0..50).fold(world(vec![pool("p")]), |world, number| world.node(&format!("n-{number}"), &[], 4000));
    is_linear("beside others' nodes", &beside, &|count| {
        anchored(count, |sketch| sketch.selects("kubernetes.io/arch", "In amd64"))
    });
}

#[test]
fn a_limit_that_is_just_met_is_not_the_one_that_is_broken() {
    let four = || vec![shape("four").build()];
    let told = |sketch: PoolSketch, cpu: i64| {
        let answer = world(vec![sketch.types(four())]).judged(vec![pod("a").asks("cpu", cpu)]);
        answer.plan.unplaced[0].pools[0].1.clone()
    };
    let broken = |resource: &str, limit: i64, would_be: i64| {
        vec![Obstacle::Limit(BrokenLimit { resource: resource.into(), limit, would_be })]
    };
    assert_eq!(told(pool("p").limit("cpu", 4000).limit("memory", 3 * GI), 100), broken("memory", 3 * GI, 4 * GI));
    assert_eq!(told(pool("p").limit("nodes", 1).limit("cpu", 3000), 100), broken("cpu", 3000, 4000));
    assert_eq!(told(pool("p").limit("nodes", 0), 100), broken("nodes", 0, 1));
}

#[test]
fn a_machine_that_is_not_chosen_yet_takes_the_most_that_it_may_be_of_a_limit() {
    let fresh = || world(vec![pool("p").types(series(4)).limit("cpu", 6000)]);
    let first = fresh().judged(vec![pod("first").asks("cpu", 500)]);
    assert_eq!(first.types("first").len(), 4);
    let second = fresh().asked_for(&first).solve(vec![pod("second").asks("cpu", 1500)]);
    assert_eq!(second.types("second"), ["fake-it-1"]);
}

#[test]
fn who_is_in_the_way_on_a_node_is_not_looked_for_on_claims() {
    let there = vec![pod("there").label("app", "x")];
    let world = world(vec![pool("p").types(vec![shape("four").build()]).limit("nodes", 2)])
        .node("n", &[], 100)
        .running("n", there);
    let mut all = pods("aa", 2, |sketch| sketch.label("app", "x").asks("cpu", 3000).priority(1));
    all.push(pod("shy").asks("cpu", 50).apart(near(HOST, &APP)));
    let answer = world.judged(all);
    let (node, obstacles) = answer.plan.unplaced[0].nearest_node.clone().unwrap();
    let apart = Obstacle::Apart { key: HOST.into(), other: Some(PodName::new("default", "there")) };
    assert_eq!((node.as_str(), obstacles), ("n", vec![apart]));
}

/// A menu of two families, six sizes each.
fn families() -> Vec<Arc<InstanceType>> {
    let of = |family: &str, ratio: i64, cpu: i64, dollars: f64| {
        let shape = shape(&format!("{family}-{cpu:02}")).with("cpu", 1000 * cpu).with("memory", cpu * ratio * GI);
        changed(shape.with("pods", 250), |built| {
            let price = Price::from_dollars(dollars * cpu as f64).unwrap();
            built.offerings.iter_mut().for_each(|offering| offering.price = price);
        })
    };
    let sizes = [1_i64, 2, 4, 8, 16, 32];
    sizes.iter().flat_map(|cpu| [of("lean", 2, *cpu, 0.04), of("rich", 8, *cpu, 0.07)]).collect()
}

#[test]
fn pods_that_stay_where_they_are_seated_cost_little_more_than_they_must() {
    let sizes = [(300, 3), (1700, 1), (700, 9), (2500, 6), (100, 1), (1100, 14)];
    let all = (0..120_usize).map(|number| {
        let (cpu, memory) = sizes[number * 7 % sizes.len()];
        pod(&format!("a-{number:03}")).asks("cpu", cpu + number as i64).asks("memory", memory * GI)
    });
    let all: Vec<PodSketch> = all.collect();
    let sum = |pick: fn(&PodSketch) -> i64| all.iter().map(pick).sum::<i64>() as f64;
    let (cpu, memory) =
        (sum(|sketch| sketch.0.requests.cpu_milli) / 1000.0, sum(|sketch| sketch.0.requests.memory_bytes) / GI as f64);
    // A core is worth 0.03 and a gibibyte 0.005 where both families are bought; no plan is cheaper than that.
    let least = 0.03 * cpu + 0.005 * memory;
    let answer = world(vec![pool("p").types(families())]).judged(staying(all));
    let ratio = answer.plan.price().dollars() / least;
    println!("greedy alone: {ratio:.4} with {} claims", answer.claims());
    assert!((1.0..1.25).contains(&ratio), "{ratio}");
}
