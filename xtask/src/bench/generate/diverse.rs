//! The pods of the reference's own benchmark: five kinds in equal parts, with sizes drawn from short lists.

use std::collections::BTreeMap;

use serde_json::json;

use super::draft::{Draft, HOSTNAME, PodShape, ZONE};
use crate::bench::random::Random;

const CPU_MILLI: [i64; 5] = [100, 250, 500, 1000, 1500];
const MEMORY_MIB: [i64; 6] = [100, 256, 512, 1024, 2048, 4096];
const LABEL_VALUES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

/// What a pod asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) cpu_milli: i64,
    pub(super) memory_mib: i64,
}

impl Size {
    pub(super) fn draw(random: &mut Random) -> Self {
        Self { cpu_milli: random.pick(&CPU_MILLI), memory_mib: random.pick(&MEMORY_MIB) }
    }

    pub(super) fn cpu(self) -> String {
        api::Quantity::from_milli(self.cpu_milli).to_string()
    }

    pub(super) fn memory(self) -> String {
        api::Quantity::from_bytes(self.memory_mib << 20).to_string()
    }
}

/// Generic pods, pods spread over zones, pods spread over hosts, pods that keep together in a zone, and pods of which no two share a
/// host. What does not divide by five is generic.
pub(super) fn add_pods(draft: &mut Draft, count: usize, random: &mut Random) {
    let part = count / 5;
    add_generic(draft, count - 4 * part, random);
    add_spread(draft, part, ("zonal", ZONE), random);
    add_spread(draft, part, ("hostly", HOSTNAME), random);
    add_together(draft, part, random);
    add_apart(draft, part, random);
}

pub(super) fn add_generic(draft: &mut Draft, count: usize, random: &mut Random) {
    for number in 0..count {
        let shape = PodShape::new(Size::draw(random));
        let labels = label("my-label", random.pick(&LABEL_VALUES));
        add(draft, &shape, &format!("generic-{number}"), labels);
    }
}

/// Whom a pod counts and what it is itself are drawn apart from each other, as in the reference.
fn add_spread(draft: &mut Draft, count: usize, (word, key): (&str, &str), random: &mut Random) {
    for number in 0..count {
        let size = Size::draw(random);
        let labels = label("my-label", random.pick(&LABEL_VALUES));
        let constraint = json!({
            "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"my-label": random.pick(&LABEL_VALUES)}},
        });
        let shape = PodShape::new(size).with("topologySpreadConstraints", json!([constraint]));
        add(draft, &shape, &format!("{word}-{number}"), labels);
    }
}

fn add_together(draft: &mut Draft, count: usize, random: &mut Random) {
    for number in 0..count {
        let size = Size::draw(random);
        let value = random.pick(&LABEL_VALUES);
        let term = json!({"labelSelector": {"matchLabels": {"my-affinity": value}}, "topologyKey": ZONE});
        let affinity = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
        let shape = PodShape::new(size).with("affinity", affinity);
        add(draft, &shape, &format!("together-{number}"), label("my-affinity", value));
    }
}

fn add_apart(draft: &mut Draft, count: usize, random: &mut Random) {
    let term = json!({"labelSelector": {"matchLabels": {"app": "apart"}}, "topologyKey": HOSTNAME});
    let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    for number in 0..count {
        let shape = PodShape::new(Size::draw(random)).with("affinity", affinity.clone());
        add(draft, &shape, &format!("apart-{number}"), label("app", "apart"));
    }
}

fn add(draft: &mut Draft, shape: &PodShape, name: &str, labels: BTreeMap<String, String>) {
    let template = draft.template(shape);
    draft.wait(template, name, Some(labels));
}

fn label(key: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(key.to_owned(), value.to_owned())])
}
