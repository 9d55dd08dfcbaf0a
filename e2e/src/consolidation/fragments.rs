//! A hundred nodes, filled to two fifths at random: the same for both sides, whoever would have bought what.

use serde_json::{Value, json};

use super::objects::{Kind, POOL, class_reference};

const NODES: usize = 100;
const PODS: usize = 1500;
const SIZES: [u64; 2] = [8, 16];
/// A letter, and gibibytes per core.
const FAMILIES: [(&str, u64); 3] = [("c", 2), ("s", 4), ("m", 8)];
/// A third of a core on average, 1,500 of which are two fifths of what a hundred nodes of 8 and 16 cores have.
pub(super) const KINDS: [Kind; 6] = [
    Kind { name: "tiny", cpu_milli: 100, memory_mib: 256 },
    Kind { name: "slim", cpu_milli: 200, memory_mib: 1024 },
    Kind { name: "plain", cpu_milli: 250, memory_mib: 512 },
    Kind { name: "wide", cpu_milli: 300, memory_mib: 2048 },
    Kind { name: "busy", cpu_milli: 500, memory_mib: 1024 },
    Kind { name: "large", cpu_milli: 600, memory_mib: 2048 },
];
/// What the system keeps of each machine.
const KEPT_CPU_MILLI: u64 = 100;
const KEPT_MEMORY_MIB: u64 = 10;

/// Which machines there are, and which pods are on each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fragments {
    pub(super) machines: Vec<Machine>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Machine {
    pub(super) name: String,
    family: &'static str,
    cores: u64,
    free_cpu_milli: u64,
    free_memory_mib: u64,
    pub(super) pods: Vec<Kind>,
}

impl Fragments {
    pub(super) fn draw(seed: u64) -> Self {
        let mut chance = Chance(seed);
        let mut machines: Vec<Machine> = (0..NODES).map(|number| Machine::draw(number, &mut chance)).collect();
        for _ in 0..PODS {
            let kind = *chance.one_of(&KINDS);
            // There is far more room than pods, so a place is found soon.
            while !machines[chance.below(NODES)].take(kind) {}
        }
        Self { machines }
    }

    pub(super) fn count(&self, kind: Kind) -> usize {
        self.machines.iter().flat_map(|machine| &machine.pods).filter(|pod| **pod == kind).count()
    }
}

impl Machine {
    fn draw(number: usize, chance: &mut Chance) -> Self {
        let (cores, (family, gib)) = (*chance.one_of(&SIZES), *chance.one_of(&FAMILIES));
        Self {
            name: format!("fragment-{number}"),
            family,
            cores,
            free_cpu_milli: cores * 1000 - KEPT_CPU_MILLI,
            free_memory_mib: cores * gib * 1024 - KEPT_MEMORY_MIB,
            pods: Vec::new(),
        }
    }

    fn take(&mut self, kind: Kind) -> bool {
        let left =
            self.free_cpu_milli.checked_sub(kind.cpu_milli).zip(self.free_memory_mib.checked_sub(kind.memory_mib));
        let Some((cpu, memory)) = left else { return false };
        (self.free_cpu_milli, self.free_memory_mib) = (cpu, memory);
        self.pods.push(kind);
        true
    }

    /// A claim of the pool for exactly this machine.
    pub(super) fn claim(&self) -> Value {
        let r#type = format!("{}-{}x-amd64-linux", self.family, self.cores);
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": self.name, "labels": {"karpenter.sh/nodepool": POOL}},
            "spec": {
                "nodeClassRef": class_reference(),
                "expireAfter": "Never",
                "requirements": [
                    {"key": "karpenter.sh/nodepool", "operator": "In", "values": [POOL]},
                    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [r#type]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                ],
                "resources": {"requests": {"cpu": "1"}},
            },
        })
    }
}

/// A small generator (splitmix64), so that equal seeds give equal clusters on every machine.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (mixed % bound as u64) as usize
    }

    fn one_of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_fills_two_fifths_and_nobody_more_than_wholly() {
        for seed in 0..5 {
            let drawn = Fragments::draw(seed);
            assert_eq!(drawn, Fragments::draw(seed));
            assert_eq!(KINDS.iter().map(|kind| drawn.count(*kind)).sum::<usize>(), PODS);
            let all: u64 = drawn.machines.iter().map(|machine| machine.cores * 1000 - KEPT_CPU_MILLI).sum();
            let free: u64 = drawn.machines.iter().map(|machine| machine.free_cpu_milli).sum();
            let share = (all - free) as f64 / all as f64;
            assert!((0.36..0.46).contains(&share), "{share}");
        }
    }
}
