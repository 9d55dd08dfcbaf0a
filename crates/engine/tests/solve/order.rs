//! In which order pods are seated; a plan lists its placements in that order.

use std::sync::Arc;

use model::instance::InstanceType;
use model::price::Price;
use model::time::Instant;

use crate::fixture::*;

const HOST: &str = "kubernetes.io/hostname";

/// The names of placed pods, in the order in which they were seated.
fn order(answer: &Answer) -> Vec<String> {
    answer.plan.placements.iter().map(|(pod, _)| pod.name.to_string()).collect()
}

/// A type with so many cores and gibibytes, at a price in thousandths of a dollar.
fn machine(name: &str, cpu: i64, memory: i64, price: i64) -> Arc<InstanceType> {
    let shape = shape(name).with("cpu", 1000 * cpu).with("memory", memory * GI).with("pods", 100);
    changed(shape, |built| {
        built.offerings.iter_mut().for_each(|offering| offering.price = Price::from_pico(price * 1_000_000_000));
    })
}

/// Three pods that ask for much cpu, and three somewhat smaller ones that ask for much memory.
fn both_kinds() -> Vec<PodSketch> {
    let mut all = pods("cpu", 3, |sketch| sketch.asks("cpu", 3000).asks("memory", 4 * GI));
    all.extend(pods("memory", 3, |sketch| sketch.asks("cpu", 500).asks("memory", 8 * GI)));
    all
}

const IN_TURNS: [&str; 6] = ["cpu-000", "memory-000", "cpu-001", "memory-001", "cpu-002", "memory-002"];
const BY_SIZE: [&str; 6] = ["cpu-000", "cpu-001", "cpu-002", "memory-000", "memory-001", "memory-002"];

#[test]
fn kinds_of_pods_take_turns_only_where_one_shape_of_machine_is_bought() {
    let one = || machine("one", 16, 32, 1000);
    let lean = || machine("lean", 16, 32, 500);
    let rich = || machine("rich", 4, 64, 500);
    assert_eq!(order(&world(vec![pool("p").types(vec![one()])]).judged(both_kinds())), IN_TURNS);
    assert_eq!(order(&world(vec![pool("p").types(vec![lean(), rich()])]).judged(both_kinds())), BY_SIZE);
}

#[test]
fn the_important_come_first_then_who_needs_a_host_alone_then_the_large_the_old_and_the_first_by_id() {
    let alone = |name: &str| pod(name).label("app", "x").apart(near(HOST, &[("app", "x")]));
    let created = |seconds: i64| Instant::from_unix_seconds(seconds);
    let all = vec![
        pod("z-important").asks("cpu", 10).priority(1),
        alone("y-alone").asks("cpu", 10),
        pod("x-large").asks("cpu", 500),
        pod("w-old").asks("cpu", 20).change(|pod| pod.created = created(1)),
        pod("c-second").asks("cpu", 20).change(|pod| (pod.created, pod.uid) = (created(2), "00000000-b".into())),
        pod("b-third").asks("cpu", 20).change(|pod| (pod.created, pod.uid) = (created(2), "00000000-c".into())),
        pod("d-first").asks("cpu", 20).change(|pod| (pod.created, pod.uid) = (created(2), "00000000-a".into())),
        pod("a-small").asks("cpu", 10),
    ];
    let expected = ["z-important", "y-alone", "x-large", "w-old", "d-first", "c-second", "b-third", "a-small"];
    assert_eq!(order(&world(vec![pool("p")]).judged(all)), expected);
}

#[test]
fn a_share_of_what_is_scarce_makes_a_pod_large() {
    // A tenth of all memory and little cpu is more than a twentieth of all cpu.
    let mut all = pods("c", 20, |sketch| sketch.asks("cpu", 1000));
    all.extend(pods("m", 10, |sketch| sketch.asks("memory", GI).asks("cpu", 1)));
    let first = order(&world(Vec::new()).node("n", &[], 64_000).judged(all)).swap_remove(0);
    assert_eq!(first, "m-000");
}
