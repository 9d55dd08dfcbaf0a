//! A cluster that wastes most of what it has: machines of three types, each filled at random to two fifths of its cpu.

use anyhow::ensure;
use serde_json::json;

use super::SEED;
use super::diverse::Size;
use super::draft::{Draft, HOSTNAME, PodShape, ZONE};
use super::fleet::{Fleet, allocatable};
use super::market::{self, Sold};
use crate::bench::disrupt::{LooseRow, Mix};
use crate::bench::random::Random;

/// Machines of so much cpu, so that about six of the drawn pods share one before, and fifteen after.
const TYPES: [&str; 3] = ["m6i.2xlarge", "c6i.2xlarge", "r6i.2xlarge"];
const CORES_MAX: u32 = 8;
/// More than fit on any machine to two fifths.
const PODS_PER_NODE: usize = 40;
const REPLICAS: usize = 50;

/// A pod that is to be placed.
struct Drawn {
    name: String,
    cpu_milli: i64,
    template: usize,
}

/// The same on every machine and on every day; all nodes may leave at once.
pub(in crate::bench) fn generate(row: &LooseRow) -> anyhow::Result<Fleet> {
    let mut draft = market::draft(row.name, Sold::Common { cores_max: CORES_MAX })?;
    draft.set_budget("100%");
    let mut random = Random::new(SEED);
    let drawn = draw_pods(&mut draft, row.nodes * PODS_PER_NODE, row.mix, &mut random);
    for pod in &drawn {
        draft.run(pod.template, &pod.name, "");
    }
    let mut fleet = Fleet::new(draft.finish());
    let mut drawn = drawn.into_iter();
    for number in 0..row.nodes {
        let entry = fleet.type_entry(random.pick(&TYPES))?;
        let cpu = allocatable(entry).get("cpu").map_or(0, api::Quantity::milli);
        let mut left = cpu * 2 / 5;
        let sold: Vec<_> = entry.offerings.iter().filter(|one| one.capacity_type == "on-demand").collect();
        ensure!(!sold.is_empty(), "{} is not sold on demand", entry.name);
        let (name, zone) = (entry.name.clone(), sold[number % sold.len()].zone.clone());
        let node = fleet.stand(&name, &zone)?;
        for pod in drawn.by_ref() {
            if pod.cpu_milli > left {
                break;
            }
            left -= pod.cpu_milli;
            fleet.homes.insert(pod.name, node.clone());
        }
    }
    Ok(fleet)
}

fn draw_pods(draft: &mut Draft, count: usize, mix: Mix, random: &mut Random) -> Vec<Drawn> {
    let mut pods: Vec<Drawn> = Vec::with_capacity(count);
    for number in 0..count {
        let (cpu_milli, template) = match mix {
            Mix::Sizes => {
                let cpu_milli = 100 * (1 + random.below(10) as i64);
                let memory_mib = cpu_milli * (1000 + random.below(2500) as i64) / 1024;
                (cpu_milli, draft.running_template(&PodShape::new(Size { cpu_milli, memory_mib })))
            }
            Mix::Apps if number % REPLICAS == 0 => {
                let cpu_milli = 50 * (2 + random.below(19) as i64);
                let memory_mib = (cpu_milli / 50) * (64 + 16 * random.below(8) as i64);
                (cpu_milli, draft.running_template(&app(Size { cpu_milli, memory_mib }, number / REPLICAS)))
            }
            Mix::Apps => {
                let first = &pods[number / REPLICAS * REPLICAS];
                (first.cpu_milli, first.template)
            }
        };
        pods.push(Drawn { name: format!("p-{number:06}"), cpu_milli, template });
    }
    // Whoever comes next on a machine is of any app.
    for place in (1..pods.len()).rev() {
        pods.swap(place, random.below(place + 1));
    }
    pods
}

fn app(size: Size, number: usize) -> PodShape {
    let name = format!("app-{number}");
    let selector = json!({"matchLabels": {"app": name}});
    let shape = PodShape::new(size).labelled("app", &name);
    match number % 10 {
        0..3 => {
            let spread = json!({
                "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector,
            });
            shape.with("topologySpreadConstraints", json!([spread]))
        }
        3 => {
            let term = json!({"labelSelector": selector, "topologyKey": HOSTNAME});
            shape.with(
                "affinity",
                json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}),
            )
        }
        _ => shape,
    }
}
