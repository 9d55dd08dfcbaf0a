//! Our side, in a process of its own: reads a workload, solves it several times, and writes the answer.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::ensure;
use cluster::lower::eligible::is_provisionable;
use engine::solve::{Catalogue, FIRST_EFFORT, Question, solve_with};
use model::plan::Plan;
use model::pod::Pod;
use model::snapshot::Snapshot;

use super::answer::{Answer, PlanEntry};
use super::file::Workload;
use super::lower;
use super::memory::PeakWatch;

/// What the answer says was measured.
const NAME: &str = "dovetail";

/// Solves a file so many times and writes the answer.
pub(super) fn run(workload: &Path, answer: &Path, runs: usize) -> anyhow::Result<Answer> {
    let (workload, sha256) = Workload::read(workload)?;
    // The file stays in memory to the end: what is freed now would hide what the solve needs.
    let world = lower::lower(&workload)?;
    let started = Instant::now();
    // What is on sale changes by the day; the controller keeps it lowered from one question to the next.
    let catalogue = Catalogue::of(&world.snapshot);
    let catalogue_seconds = started.elapsed().as_secs_f64();
    let (plan, seconds, peak_mb) = measure(&catalogue, &world.snapshot, runs)?;
    let written = Answer {
        workload: workload.name.clone(),
        sha256,
        reference: format!("{NAME} {}", env!("CARGO_PKG_VERSION")),
        pods: workload.pods.len(),
        lower_seconds: world.seconds + catalogue_seconds,
        catalogue_seconds,
        parallelism: 0,
        capped: false,
        seconds,
        peak_mb,
        plan: Some(PlanEntry::of(&plan)),
    };
    written.write(answer)?;
    Ok(written)
}

/// The plan, the seconds of each run, and the most memory that a run added. The clock runs from the snapshot to the plan.
fn measure(catalogue: &Catalogue, snapshot: &Snapshot, runs: usize) -> anyhow::Result<(Plan, Vec<f64>, f64)> {
    let mut first: Option<Plan> = None;
    let mut seconds = Vec::new();
    let mut peak_mb = 0.0_f64;
    for _ in 0..runs {
        let watch = PeakWatch::start()?;
        let started = Instant::now();
        let plan = once(catalogue, snapshot);
        seconds.push(started.elapsed().as_secs_f64());
        peak_mb = peak_mb.max(watch.added_mb()?);
        ensure!(first.as_ref().is_none_or(|first| *first == plan), "two solves of one snapshot gave different plans");
        first.get_or_insert(plan);
    }
    Ok((first.unwrap_or_default(), seconds, peak_mb))
}

/// The plan for everybody who waits, without a clock.
pub(super) fn plan(snapshot: &Snapshot) -> Plan {
    once(&Catalogue::of(snapshot), snapshot)
}

/// The plan for everybody who waits, by a catalogue that is at hand.
pub(super) fn once(catalogue: &Catalogue, snapshot: &Snapshot) -> Plan {
    let pods: Vec<&Pod> = snapshot.pods.values().map(|pod| &**pod).filter(|pod| is_provisionable(pod)).collect();
    let question = Question { effort: FIRST_EFFORT, ..Question::about(pods) };
    solve_with(catalogue, snapshot, &question, &AtomicBool::new(false))
}
