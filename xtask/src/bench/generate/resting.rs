//! A cluster at rest: no node can leave, and no set of nodes can be had for less, as far as our engine knows.
//!
//! Apps of some size are planned for all at once, on the common machines of EC2. What can still be consolidated then is, again
//! and again, until a decision has nothing to say. From those machines as many are kept as the row has nodes, such that
//! they hold as many pods as the row has; where the smaller cluster finds a move, the nodes that would leave are changed for others.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use engine::disrupt::{Rules, decide};
use model::plan::Target;

use super::SEED;
use super::diverse::Size;
use super::draft::{Draft, PodShape};
use super::fleet::{Fleet, ROUNDS_MAX};
use super::market::{self, Sold};
use crate::bench::disrupt::{DisruptRow, scene};
use crate::bench::file::Workload;
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

/// The cluster of a row. The same engine gives the same bytes; a better one may find moves in a cluster that an older one left.
pub(in crate::bench) fn generate(row: &DisruptRow) -> anyhow::Result<Workload> {
    let wanted = row.pods as f64 / row.nodes as f64;
    let mut percent = PERCENT;
    let mut fleet = planned(row, percent)?;
    // How many pods share a machine is for the engine to say; pods of another size share in another way.
    for _ in 0..SIZES_MAX {
        let found = fleet.homes.len() as f64 / fleet.machines.len() as f64;
        if (found / wanted - 1.0).abs() <= NEAR {
            break;
        }
        percent = (percent as f64 * found / wanted).round() as i64;
        fleet = planned(row, percent)?;
    }
    fleet.come_to_rest(|_, _| ())?;
    let workload = cut(&fleet, row)?;
    workload.check()?;
    lower::check_lossless(&workload)?;
    Ok(workload)
}

/// All pods on the machines that a plan buys for them; their sizes in hundredths of those that are drawn.
fn planned(row: &DisruptRow, percent: i64) -> anyhow::Result<Fleet> {
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
    let mut fleet = Fleet::new(running.finish());
    let names: Vec<String> =
        plan.claims.iter().map(|claim| fleet.buy(&snapshot, claim)).collect::<anyhow::Result<_>>()?;
    for (pod, target) in &plan.placements {
        let Target::Claim(claim) = target else { continue };
        fleet.homes.insert(pod.name.to_string(), names[*claim].clone());
    }
    Ok(fleet)
}

/// A part of the fleet that has the row's numbers and is at rest by itself.
fn cut(fleet: &Fleet, row: &DisruptRow) -> anyhow::Result<Workload> {
    let mut counts: BTreeMap<String, usize> = fleet.machines.keys().map(|name| (name.clone(), 0)).collect();
    for home in fleet.homes.values() {
        *counts.entry(home.clone()).or_default() += 1;
    }
    for _ in 0..ROUNDS_MAX {
        let kept = pick(&counts, row.nodes, row.pods)?;
        let workload = fleet.part(&kept);
        let snapshot = lower::lower(&workload)?.snapshot;
        let decision = decide(&scene(&snapshot), &Rules::default());
        if decision.commands.is_empty() {
            return Ok(workload);
        }
        for node in decision.commands.iter().flat_map(|command| command.nodes()) {
            counts.remove(node.as_str());
        }
    }
    anyhow::bail!("no part of {} machines is at rest", fleet.machines.len())
}

fn draft(row: &DisruptRow) -> anyhow::Result<Draft> {
    let mut draft = market::draft(row.name, Sold::Common { cores_max: CORES_MAX })?;
    // What a pool gets that names none, as an API server would fill it in.
    draft.set_budget("10%");
    Ok(draft)
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
