//! A cluster at rest: no node can leave, and no set of nodes can be had for less, as far as our engine knows.
//!
//! Apps of some size are planned for all at once, on the common machines of EC2. What can still be consolidated then is, again
//! and again, until a decision has nothing to say. From those machines as many are kept as the row has nodes, such that
//! they hold as many pods as the row has; where the smaller cluster finds a move, the nodes that would leave are changed for others.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use engine::disrupt::{Rules, decide};
use model::disruption::Disruption;
use model::instance::Offering;
use model::labels::ZONE;
use model::plan::{PlannedClaim, Target};
use model::snapshot::Snapshot;

use super::SEED;
use super::diverse::Size;
use super::draft::{Draft, PodShape};
use super::machine::{Machine, SETTLED};
use super::market::{self, Sold};
use crate::bench::disrupt::{DisruptRow, scene};
use crate::bench::file::{TypeEntry, Workload};
use crate::bench::random::Random;
use crate::bench::{lower, solve};

/// Sizes of apps.
const REPLICAS: [usize; 6] = [3, 6, 10, 15, 24, 40];
const CPU_MILLI: [i64; 7] = [200, 500, 500, 1000, 1000, 1500, 2500];
const MEMORY_MIB: [i64; 7] = [128, 256, 512, 1024, 2048, 4096, 6144];
/// How many more pods are planned for than the row has, in hundredths.
const SURPLUS: usize = 25;
/// The sizes that are tried first, in hundredths, and how many others may be.
const PERCENT: i64 = 60;
const SIZES_MAX: usize = 6;
/// How close to the row's pods per node the plan must come; the rest is a matter of choosing.
const NEAR: f64 = 0.02;
/// The largest machine that the pool may buy, so that a node has fifteen or twenty pods and not hundreds.
const CORES_MAX: u32 = 16;
/// Rounds of consolidation, and of changing nodes, after which there is no rest to be hoped for.
const ROUNDS_MAX: usize = 60;

/// The cluster of a row. The same engine gives the same bytes; a better one may find moves in a cluster that an older one left.
pub(in crate::bench) fn generate(row: &DisruptRow) -> anyhow::Result<Workload> {
    let wanted = row.pods as f64 / row.nodes as f64;
    let mut percent = PERCENT;
    let mut fleet = Fleet::planned(row, percent)?;
    // How many pods share a machine is for the engine to say; pods of another size share in another way.
    for _ in 0..SIZES_MAX {
        let found = fleet.homes.len() as f64 / fleet.machines.len() as f64;
        if (found / wanted - 1.0).abs() <= NEAR {
            break;
        }
        percent = (percent as f64 * found / wanted).round() as i64;
        fleet = Fleet::planned(row, percent)?;
    }
    fleet.consolidate()?;
    let workload = fleet.cut(row)?;
    workload.check()?;
    lower::check_lossless(&workload)?;
    Ok(workload)
}

/// Machines and who runs on them.
struct Fleet {
    /// Everything but machines; its pods run, and have no node yet.
    base: Workload,
    machines: BTreeMap<String, Machine>,
    /// The node of each pod, by its name.
    homes: BTreeMap<String, String>,
    bought: usize,
}

impl Fleet {
    /// All pods on the machines that a plan buys for them; their sizes in hundredths of those that are drawn.
    fn planned(row: &DisruptRow, percent: i64) -> anyhow::Result<Self> {
        let (mut waiting, mut running) = (draft(row)?, draft(row)?);
        let mut random = Random::new(SEED);
        let pods = row.pods + row.pods * SURPLUS / 100;
        let (mut made, mut app) = (0, 0);
        while made < pods {
            let size = Size {
                cpu_milli: random.pick(&CPU_MILLI) * percent / 100,
                memory_mib: random.pick(&MEMORY_MIB) * percent / 100,
            };
            let shape = PodShape::new(size).labelled("app", &format!("app-{app}"));
            let (as_waiting, as_running) = (waiting.template(&shape), running.running_template(&shape));
            for number in 0..random.pick(&REPLICAS) {
                let name = format!("app-{app}-{number}");
                waiting.wait(as_waiting, &name, None);
                running.run(as_running, &name, "");
                made += 1;
            }
            app += 1;
        }
        let snapshot = lower::lower(&waiting.finish())?.snapshot;
        let plan = solve::plan(&snapshot);
        ensure!(plan.unplaced.is_empty(), "{} pods have no place", plan.unplaced.len());
        let mut fleet = Self { base: running.finish(), machines: BTreeMap::new(), homes: BTreeMap::new(), bought: 0 };
        let names: Vec<String> =
            plan.claims.iter().map(|claim| fleet.buy(&snapshot, claim)).collect::<anyhow::Result<_>>()?;
        for (pod, target) in &plan.placements {
            let Target::Claim(claim) = target else { continue };
            fleet.homes.insert(pod.name.to_string(), names[*claim].clone());
        }
        Ok(fleet)
    }

    /// The cheapest machine that a claim may become; of equal ones, zones take turns.
    fn buy(&mut self, snapshot: &Snapshot, claim: &PlannedClaim) -> anyhow::Result<String> {
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
        let zone = zones[self.bought % zones.len()].label(ZONE).context("an offering has a zone")?;
        let entry = self.base.types.iter().find(|entry| entry.name == first.name.as_str());
        let machine = machine(self.bought, entry.context("a type is in the file")?, zone);
        self.bought += 1;
        let name = machine.name();
        self.machines.insert(name.clone(), machine);
        Ok(name)
    }

    /// Until a decision has nothing to say.
    fn consolidate(&mut self) -> anyhow::Result<()> {
        let all: BTreeSet<String> = self.machines.keys().cloned().collect();
        let mut workload = self.workload(&all);
        for _ in 0..ROUNDS_MAX {
            let snapshot = lower::lower(&workload)?.snapshot;
            let decision = decide(&scene(&snapshot), &Rules::default());
            if decision.commands.is_empty() {
                return Ok(());
            }
            for command in &decision.commands {
                self.carry_out(&snapshot, command)?;
            }
            workload = self.workload(&self.machines.keys().cloned().collect());
        }
        anyhow::bail!("no rest after {ROUNDS_MAX} rounds")
    }

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

    /// A part of the fleet that has the row's numbers and is at rest by itself.
    fn cut(&self, row: &DisruptRow) -> anyhow::Result<Workload> {
        let mut counts: BTreeMap<String, usize> = self.machines.keys().map(|name| (name.clone(), 0)).collect();
        for home in self.homes.values() {
            *counts.entry(home.clone()).or_default() += 1;
        }
        for _ in 0..ROUNDS_MAX {
            let kept = pick(&counts, row.nodes, row.pods)?;
            let workload = self.workload(&kept);
            let snapshot = lower::lower(&workload)?.snapshot;
            let decision = decide(&scene(&snapshot), &Rules::default());
            if decision.commands.is_empty() {
                return Ok(workload);
            }
            for node in decision.commands.iter().flat_map(|command| command.nodes()) {
                counts.remove(node.as_str());
            }
        }
        anyhow::bail!("no part of {} machines is at rest", self.machines.len())
    }

    /// The file of some of the machines and those who run on them.
    fn workload(&self, kept: &BTreeSet<String>) -> Workload {
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
}

fn draft(row: &DisruptRow) -> anyhow::Result<Draft> {
    let mut draft = market::draft(row.name, Sold::Common { cores_max: CORES_MAX })?;
    draft.set_default_budget();
    Ok(draft)
}

fn machine(number: usize, entry: &TypeEntry, zone: &str) -> Machine {
    let zero = api::Quantity::from_units(0);
    let less = |(name, amount): (&String, &api::Quantity)| {
        let taken = entry.overhead.get(name).unwrap_or(&zero);
        let left = api::Quantity::from_milli(amount.milli() - taken.milli());
        (name.clone(), left)
    };
    let allocatable: api::ResourceList = entry.capacity.iter().map(less).collect();
    let of_the_type = entry.requirements.iter().filter(|asked| asked.values.len() == 1);
    Machine {
        number,
        type_name: entry.name.clone(),
        zone: zone.to_owned(),
        capacity: amounts(&entry.capacity),
        allocatable: amounts(&allocatable),
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

/// So many machines with exactly so many pods: the first ones, with some changed for others.
fn pick(counts: &BTreeMap<String, usize>, nodes: usize, pods: usize) -> anyhow::Result<BTreeSet<String>> {
    ensure!(counts.len() >= nodes, "{} machines are too few for {nodes}", counts.len());
    let (mut kept, mut spare): (Vec<_>, Vec<_>) = counts.iter().enumerate().partition(|(at, _)| *at < nodes);
    loop {
        let sum: usize = kept.iter().map(|(_, (_, count))| **count).sum();
        if sum == pods {
            return Ok(kept.into_iter().map(|(_, (name, _))| name.clone()).collect());
        }
        // The change that comes closest without going beyond.
        let mut best: Option<(usize, usize, usize)> = None;
        for (inside, (_, (_, own))) in kept.iter().enumerate() {
            for (outside, (_, (_, other))) in spare.iter().enumerate() {
                let gain = if sum < pods { other.checked_sub(**own) } else { own.checked_sub(**other) };
                let gain = gain.filter(|gain| *gain > 0 && *gain <= sum.abs_diff(pods)).unwrap_or(0);
                if gain > best.map_or(0, |(best, ..)| best) {
                    best = Some((gain, inside, outside));
                }
            }
        }
        let (_, inside, outside) = best.with_context(|| {
            let average = counts.values().sum::<usize>() as f64 / counts.len() as f64;
            format!("no {nodes} machines hold {pods} pods: they have {sum}, {average:.2} on average")
        })?;
        std::mem::swap(&mut kept[inside], &mut spare[outside]);
    }
}
