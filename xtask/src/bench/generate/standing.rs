//! A cluster that is busy: nodes of many sizes, each with twenty pods, and some room left.

use serde_json::json;

use super::diverse::{Size, add_generic};
use super::draft::{Draft, PodShape};
use super::machine::{CAME, Machine};
use super::series;
use crate::bench::random::Random;

pub(super) const NODES: usize = 5_000;
const PODS_PER_NODE: usize = 20;
/// How full a node is at most, in hundredths of what pods can have.
const FULL_PERCENT: i64 = 85;

pub(super) fn add_cluster(draft: &mut Draft, nodes: usize, waiting: usize, random: &mut Random) {
    for number in 0..nodes {
        add_node(draft, number, random);
    }
    add_generic(draft, waiting, random);
}

/// The node is the smallest that its pods leave some room on.
fn add_node(draft: &mut Draft, number: usize, random: &mut Random) {
    let sizes: Vec<Size> = (0..PODS_PER_NODE).map(|_| Size::draw(random)).collect();
    let cpu: i64 = sizes.iter().map(|size| size.cpu_milli).sum();
    let memory: i64 = sizes.iter().map(|size| size.memory_mib).sum();
    let holds = |cores: &i64| {
        let (free_cpu, free_memory) = (cores * 1000 - 100, cores * 2048 - 10);
        cpu * 100 <= free_cpu * FULL_PERCENT && memory * 100 <= free_memory * FULL_PERCENT
    };
    let cores = (1..=400).find(holds).unwrap_or(400);
    let machine = machine(number, cores);
    draft.stand(machine.claim(), machine.node());
    for (index, size) in sizes.iter().enumerate() {
        let template = draft.running_template(&PodShape::new(*size).labelled("app", "resident"));
        draft.run(template, &format!("resident-{number}-{index}"), &machine.name());
    }
}

fn machine(number: usize, cores: i64) -> Machine {
    let (_, bytes, pods) = series::amounts(cores);
    let amounts = |cpu_milli: i64, bytes: i64| {
        let (cpu, memory) = (api::Quantity::from_milli(cpu_milli), api::Quantity::from_bytes(bytes));
        json!({"cpu": cpu.to_string(), "memory": memory.to_string(), "pods": pods.to_string()})
    };
    let own = series::labels(cores).into_iter().map(|(key, value)| (key.to_owned(), value));
    let region = ("topology.kubernetes.io/region".to_owned(), series::REGION.to_owned());
    Machine {
        number,
        type_name: series::type_name(cores),
        zone: series::ZONES[number % series::ZONES.len()].to_owned(),
        capacity: amounts(cores * 1000, bytes),
        allocatable: amounts(cores * 1000 - 100, bytes - (10 << 20)),
        labels: own.chain([region]).collect(),
        conditions: &CAME,
    }
}
