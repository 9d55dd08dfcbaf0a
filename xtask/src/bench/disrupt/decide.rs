//! Our side, in a process of its own: reads a cluster, decides several times, and writes the answer.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, ensure};
use engine::disrupt::{Decision, Rules, decide};

use super::results::Ours;
use super::scene;
use crate::bench::file::Workload;
use crate::bench::lower;
use crate::bench::memory::PeakWatch;

/// The clock runs from the snapshot to the decision, with nothing prepared before, not even the catalogue.
pub(in crate::bench) fn run(workload: &Path, answer: &Path, runs: usize) -> anyhow::Result<Ours> {
    let (workload, sha256) = Workload::read(workload)?;
    let world = lower::lower(&workload)?;
    let mut first: Option<Decision> = None;
    let (mut seconds, mut peak_mb) = (Vec::new(), 0.0_f64);
    for _ in 0..runs {
        let scene = scene(&world.snapshot);
        let watch = PeakWatch::start()?;
        let started = Instant::now();
        let decision = decide(&scene, &Rules::default());
        seconds.push(started.elapsed().as_secs_f64());
        peak_mb = peak_mb.max(watch.added_mb()?);
        ensure!(first.as_ref().is_none_or(|first| *first == decision), "two decisions about one snapshot differ");
        first.get_or_insert(decision);
    }
    let decision = first.context("there is at least one run")?;
    let written = Ours {
        sha256,
        nodes: world.snapshot.nodes.len(),
        pods: world.snapshot.pods.len(),
        types: workload.types.len(),
        lower_seconds: world.seconds,
        seconds,
        peak_mb,
        eligible: decision.eligible.iter().map(|(_, count)| *count).max().unwrap_or(0),
        commands: decision.commands.len(),
        leaving: decision.commands.iter().map(|command| command.leaving.len()).sum(),
        questions: decision.effort.questions,
        refused_at_sight: decision.effort.refused_at_sight,
        plans: decision.effort.plans,
    };
    let text = serde_json::to_string_pretty(&written).context("encoding an answer")?;
    std::fs::write(answer, text).with_context(|| format!("writing {}", answer.display()))?;
    Ok(written)
}
