//! Machines and who runs on them, while a cluster is brought to rest.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::Context;
use engine::disrupt::{Decision, Rules, decide};
use model::disruption::Disruption;
use model::instance::Offering;
use model::labels::ZONE;
use model::plan::{PlannedClaim, Target};
use model::snapshot::Snapshot;

use super::machine::{Machine, SETTLED};
use crate::bench::disrupt::scene;
use crate::bench::file::{TypeEntry, Workload};
use crate::bench::lower;

/// Rounds of consolidation after which there is no rest to be hoped for.
pub(super) const ROUNDS_MAX: usize = 60;

pub(in crate::bench) struct Fleet {
    /// Everything but machines; its pods run, and have no node yet.
    base: Workload,
    pub(super) machines: BTreeMap<String, Machine>,
    /// The node of each pod, by its name.
    pub(super) homes: BTreeMap<String, String>,
    bought: usize,
}

impl Fleet {
    /// Without a machine. Pods that get no home are in none of its clusters.
    pub(super) fn new(base: Workload) -> Self {
        Self { base, machines: BTreeMap::new(), homes: BTreeMap::new(), bought: 0 }
    }

    /// The cheapest machine that a claim may become; of equal ones, zones take turns.
    pub(super) fn buy(&mut self, snapshot: &Snapshot, claim: &PlannedClaim) -> anyhow::Result<String> {
        let pool = snapshot.pools.get(&claim.pool).context("a claim has a pool")?;
        let suits = |sold: &&Offering| sold.is_available && claim.requirements.overlaps(&sold.requirements);
        let kinds = claim.types.iter().filter_map(|name| pool.instance_type(name.as_str()));
        let sold = kinds.flat_map(|kind| kind.offerings.iter().filter(suits).map(move |sold| (sold.price, kind, sold)));
        let sold: Vec<_> = sold.collect();
        let least = sold.iter().map(|(price, ..)| *price).min().context("a claim can be bought")?;
        let (_, first, _) = sold.iter().find(|(price, ..)| *price == least).context("the least is there")?;
        let zones: Vec<&Offering> = sold
            .iter()
            .filter(|(price, kind, _)| *price == least && kind.name == first.name)
            .map(|(.., one)| *one)
            .collect();
        let zone = zones[self.bought % zones.len()].label(ZONE).context("an offering has a zone")?.to_string();
        self.stand(first.name.as_str(), &zone)
    }

    /// One more machine of a type, in a zone.
    pub(super) fn stand(&mut self, type_name: &str, zone: &str) -> anyhow::Result<String> {
        let entry = self.type_entry(type_name)?;
        let machine = machine(self.bought, entry, zone);
        self.bought += 1;
        let name = machine.name();
        self.machines.insert(name.clone(), machine);
        Ok(name)
    }

    pub(super) fn type_entry(&self, name: &str) -> anyhow::Result<&TypeEntry> {
        let found = self.base.types.iter().find(|entry| entry.name == name);
        found.with_context(|| format!("{name} is not in the file"))
    }

    /// Decides and carries out until a decision has nothing to say; each is told, with the time that it took.
    pub(in crate::bench) fn come_to_rest(&mut self, mut told: impl FnMut(&Decision, Duration)) -> anyhow::Result<()> {
        for _ in 0..ROUNDS_MAX {
            let snapshot = lower::lower(&self.whole())?.snapshot;
            let started = Instant::now();
            let decision = decide(&scene(&snapshot), &Rules::default());
            told(&decision, started.elapsed());
            if decision.commands.is_empty() {
                return Ok(());
            }
            for command in &decision.commands {
                self.carry_out(&snapshot, command)?;
            }
        }
        anyhow::bail!("no rest after {ROUNDS_MAX} rounds")
    }

    /// As clouds and schedulers would do it if they did what was planned.
    fn carry_out(&mut self, snapshot: &Snapshot, command: &Disruption) -> anyhow::Result<()> {
        let names: Vec<String> =
            command.replacements.iter().map(|claim| self.buy(snapshot, claim)).collect::<anyhow::Result<_>>()?;
        for (pod, target) in &command.moves {
            let home = match target {
                Target::Node(node) => node.to_string(),
                Target::Claim(claim) => names[*claim].clone(),
            };
            self.homes.insert(pod.name.to_string(), home);
        }
        command.nodes().for_each(|node| drop(self.machines.remove(node.as_str())));
        Ok(())
    }

    /// The file of all machines.
    pub(in crate::bench) fn whole(&self) -> Workload {
        self.part(&self.machines.keys().cloned().collect())
    }

    /// The file of some of the machines and those who run on them.
    pub(super) fn part(&self, kept: &BTreeSet<String>) -> Workload {
        let mut workload = self.base.clone();
        let machines = || kept.iter().filter_map(|name| self.machines.get(name));
        workload.node_claims = machines().map(Machine::claim).collect();
        workload.nodes = machines().map(Machine::node).collect();
        workload.bound_pods.retain_mut(|entry| {
            entry.node = self.homes.get(&entry.name).cloned();
            entry.node.as_ref().is_some_and(|node| kept.contains(node))
        });
        workload
    }

    /// What all machines cost per hour, in dollars.
    pub(in crate::bench) fn price(&self) -> anyhow::Result<f64> {
        let own = |machine: &Machine| {
            let mut sold = self.type_entry(&machine.type_name)?.offerings.iter();
            let bought = sold.find(|one| one.zone == machine.zone && one.capacity_type == "on-demand");
            let price = &bought.context("a machine was bought on demand")?.price;
            price.parse::<f64>().with_context(|| format!("{price} is no price"))
        };
        self.machines.values().map(own).sum()
    }
}

/// What is left of a type for pods.
pub(super) fn allocatable(entry: &TypeEntry) -> api::ResourceList {
    let zero = api::Quantity::from_units(0);
    let less = |(name, amount): (&String, &api::Quantity)| {
        let taken = entry.overhead.get(name).unwrap_or(&zero);
        let left = api::Quantity::from_milli(amount.milli() - taken.milli());
        (name.clone(), left)
    };
    entry.capacity.iter().map(less).collect()
}

fn machine(number: usize, entry: &TypeEntry, zone: &str) -> Machine {
    let of_the_type = entry.requirements.iter().filter(|asked| asked.values.len() == 1);
    Machine {
        number,
        type_name: entry.name.clone(),
        zone: zone.to_owned(),
        capacity: amounts(&entry.capacity),
        allocatable: amounts(&allocatable(entry)),
        labels: of_the_type.map(|asked| (asked.key.clone(), asked.values[0].clone())).collect(),
        conditions: &SETTLED,
    }
}

fn amounts(list: &api::ResourceList) -> serde_json::Value {
    list.iter()
        .map(|(name, amount)| (name.clone(), serde_json::json!(amount.to_string())))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
