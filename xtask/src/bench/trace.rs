//! `cargo xtask bench trace`: what thirty days of a recorded cluster cost, beside what they would cost if machines came and went at
//! no time and pods moved at will: all pods that are there are planned anew at every event, onto nothing that stands. The LP bound of
//! the same pods lies under that. docs/benchmarks.md says how to read the numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use clap::Args;
use engine::solve::Catalogue;
use model::pod::Pod;
use model::snapshot::Snapshot;
use serde::{Deserialize, Serialize};

use super::generate::{self, TracedPod};
use super::menu::Kitchen;
use super::{DATA_DEFAULT, DATA_VARIABLE, OUT, bound, lower, run_optimised, say, solve};

/// What `hack/bench-scenarios.sh` writes.
const REPORT: &str = "scenario-openb.json";
const RESULTS: &str = "trace.json";
/// The window of `scenarios/openb.yaml`.
const FROM: u64 = 10_300_000;
const TO: u64 = 12_900_000;
/// The bound takes longer than the plan, so it is taken at every so manyth event.
const BOUND_EVERY: usize = 16;
/// What the played days may cost, in units of those planned anew at every event.
const MOST: f64 = 1.25;

#[derive(Args, Debug)]
pub(super) struct Options {
    /// The report of the scenario `openb`
    #[arg(long)]
    report: Option<PathBuf>,
}

/// What is of use here of a scenario's report.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    virtual_seconds: f64,
    cost: Cost,
    expectations: Vec<Expectation>,
}

/// Whoever leaves pods waiting pays less; so a story that went wrong is not compared.
#[derive(Debug, Deserialize)]
struct Expectation {
    ok: bool,
    message: String,
}

#[derive(Debug, Deserialize)]
struct Cost {
    total: f64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    virtual_seconds: f64,
    events: usize,
    played: f64,
    resolved: f64,
    ratio: f64,
    /// By every sixteenth event.
    resolved_over_bound: f64,
    seconds: f64,
}

/// Dollars of some moments together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sums {
    resolved: f64,
    /// Of the moments that have a bound.
    bounded: f64,
    bound: f64,
}

impl Sums {
    fn plus(self, other: Self) -> Self {
        Self {
            resolved: self.resolved + other.resolved,
            bounded: self.bounded + other.bounded,
            bound: self.bound + other.bound,
        }
    }
}

/// Ends with one when the target is missed.
pub(super) fn run(root: &Path, options: &Options) -> anyhow::Result<ExitCode> {
    if cfg!(debug_assertions) {
        return run_optimised(root);
    }
    let data = std::env::var_os(DATA_VARIABLE).map_or_else(|| root.join(DATA_DEFAULT), PathBuf::from);
    let path = options.report.clone().unwrap_or_else(|| root.join(OUT).join(REPORT));
    let text = std::fs::read(&path)
        .with_context(|| format!("reading {}: play it first, with `make bench-scenarios`", path.display()))?;
    let report: Report = serde_json::from_slice(&text).with_context(|| format!("decoding {}", path.display()))?;
    if let Some(failed) = report.expectations.iter().find(|expectation| !expectation.ok) {
        bail!("{} tells of a story that went wrong: {}; play it again", path.display(), failed.message);
    }
    let started = Instant::now();
    let seconds = report.virtual_seconds as u64;
    let window = Window::of(generate::read_trace(&data)?, FROM, TO.min(FROM + seconds))?;
    say(format_args!("planning anew at {} events", window.moments.len()))?;
    let Sums { resolved, bounded, bound } = window.costs();
    let played = report.cost.total;
    let found = Found {
        virtual_seconds: report.virtual_seconds,
        events: window.moments.len(),
        played,
        resolved,
        ratio: played / resolved,
        resolved_over_bound: bounded / bound,
        seconds: started.elapsed().as_secs_f64(),
    };
    say(format_args!("played               ${played:.2}"))?;
    say(format_args!("anew at every event  ${resolved:.2}, played ÷ this {:.4} (wanted ≤ {MOST})", found.ratio))?;
    say(format_args!("anew ÷ LP bound      {:.4}, by every {BOUND_EVERY}th event", found.resolved_over_bound))?;
    let text = serde_json::to_string_pretty(&found).context("encoding the result")?;
    std::fs::write(root.join(OUT).join(RESULTS), text).context("writing the result")?;
    Ok(if found.ratio <= MOST { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Who is there when.
struct Window {
    /// Everybody who is ever there, and what is sold.
    world: Snapshot,
    /// From a moment until the next one nothing changes.
    moments: Vec<Moment>,
}

struct Moment {
    starts: u64,
    ends: u64,
    there: Vec<Arc<Pod>>,
}

impl Window {
    fn of(pods: Vec<TracedPod>, from: u64, to: u64) -> anyhow::Result<Self> {
        let is_there = |pod: &TracedPod| pod.comes < to && pod.leaves > pod.comes.max(from);
        let pods: Vec<TracedPod> = pods.into_iter().filter(is_there).collect();
        ensure!(!pods.is_empty(), "the trace has no pods between {from} and {to}");
        let mut world = lower::lower(&generate::openb_scenario(&pods)?)?.snapshot;
        let lowered: BTreeMap<String, Arc<Pod>> =
            std::mem::take(&mut world.pods).into_values().map(|pod| (pod.name.name.to_string(), pod)).collect();
        let cut = |time: u64| time.clamp(from, to);
        let times: BTreeSet<u64> =
            pods.iter().flat_map(|pod| [cut(pod.comes), cut(pod.leaves)]).chain([from, to]).collect();
        let times: Vec<u64> = times.into_iter().collect();
        let moments = times.windows(2).map(|pair| {
            let there = pods.iter().filter(|pod| pod.comes <= pair[0] && pod.leaves > pair[0]);
            let there = there.filter_map(|pod| lowered.get(&pod.name)).cloned().collect();
            Moment { starts: pair[0], ends: pair[1], there }
        });
        Ok(Self { moments: moments.collect(), world })
    }

    fn costs(&self) -> Sums {
        let catalogue = Catalogue::of(&self.world);
        let (next, workers) = (AtomicUsize::new(0), std::thread::available_parallelism().map_or(1, usize::from));
        let work = || {
            let mut kitchen = Kitchen::new(&self.world, BTreeSet::new());
            let mut found = Vec::new();
            loop {
                let number = next.fetch_add(1, Relaxed);
                let Some(moment) = self.moments.get(number) else { break found };
                found.push((number, self.sums(moment, number % BOUND_EVERY == 0, &catalogue, &mut kitchen)));
            }
        };
        let mut found: Vec<(usize, Sums)> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            workers
                .into_iter()
                .flat_map(|worker| match worker.join() {
                    Ok(found) => found,
                    Err(panic) => std::panic::resume_unwind(panic),
                })
                .collect()
        });
        // Sums of floats depend on their order.
        found.sort_by_key(|(number, _)| *number);
        found.into_iter().fold(Sums::default(), |sum, (_, own)| sum.plus(own))
    }

    fn sums(&self, moment: &Moment, has_bound: bool, catalogue: &Catalogue, kitchen: &mut Kitchen<'_>) -> Sums {
        let mut snapshot = self.world.clone();
        snapshot.pods = moment.there.iter().map(|pod| (pod.name.clone(), pod.clone())).collect();
        let plan = solve::once(catalogue, &snapshot);
        let prices = plan.claims.iter().filter_map(|claim| kitchen.menu(claim)).map(|menu| menu.cheapest.pico());
        let hours = (moment.ends - moment.starts) as f64 / 3600.0;
        let resolved = prices.map(i128::from).sum::<i128>() as f64 / 1e12 * hours;
        match has_bound {
            false => Sums { resolved, ..Sums::default() },
            true => Sums { resolved, bounded: resolved, bound: bound::lower_bound(&snapshot, &plan) * hours },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "name,cpu_milli,memory_mib,num_gpu,creation_time,deletion_time\n\
                         early,1000,1024,0,5,90\nbefore,1000,1024,0,5,10\nlate,2000,2048,0,30,200\n";

    #[test]
    fn every_moment_is_paid_for_by_a_plan_for_whoever_is_there_then() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("openb")).unwrap();
        std::fs::write(folder.path().join(generate::TRACE), TRACE).unwrap();
        let window = Window::of(generate::read_trace(folder.path()).unwrap(), 20, 100).unwrap();
        let told: Vec<_> =
            window.moments.iter().map(|moment| (moment.starts, moment.ends, moment.there.len())).collect();
        assert_eq!(told, [(20, 30, 1), (30, 90, 2), (90, 100, 1)]);
        let sums = window.costs();
        assert!(sums.bound > 0.0 && sums.bound <= sums.bounded, "{sums:?}");
        assert!(sums.bounded < sums.resolved, "only the first moment has a bound: {sums:?}");
    }
}
