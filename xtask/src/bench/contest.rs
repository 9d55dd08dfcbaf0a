//! One row: both sides solve the same file, each in a process of its own, and both plans are assessed.

#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, ensure};
use model::plan::Plan;
use model::snapshot::Snapshot;

use super::answer::Answer;
use super::assess::{self, Assessment};
use super::bound;
use super::file::Workload;
use super::results::{self, Measured, Quotient, RowResult, Side};
use super::rows::Row;
use super::{generate, lower, machine, say};

/// How many workers the reference is tried with. Where time allows no more than one try, the first must be a good guess.
const PARALLELISM: &str = "2,5,1";

/// Whom a row is run with.
pub(super) struct Contest<'a> {
    /// Where workloads and answers lie.
    pub(super) out: &'a Path,
    /// Where recorded traces lie.
    pub(super) data: &'a Path,
    /// The reference's harness and its hash.
    pub(super) peer: Option<(&'a Path, &'a str)>,
    pub(super) measured: &'a Measured,
    pub(super) runs: usize,
    pub(super) cap_seconds: u64,
    /// Whether answers of the reference from an earlier run in this folder must not be used.
    pub(super) is_fresh: bool,
    /// Runs a solver to its end.
    pub(super) run: &'a dyn Fn(&mut Command) -> io::Result<Output>,
}

/// A solver as a process of its own, whose complaints are seen at once.
pub(super) fn as_process(command: &mut Command) -> io::Result<Output> {
    command.stderr(Stdio::inherit()).output()
}

/// The file of a row, written and read back.
struct Prepared {
    path: PathBuf,
    workload: Workload,
    sha256: String,
}

impl Contest<'_> {
    /// The row's result, or the known one when nothing has changed that it depends on.
    pub(super) fn row(&self, row: &Row, known: Option<&RowResult>) -> anyhow::Result<RowResult> {
        let prepared = self.prepare(row)?;
        if let Some(known) = known.filter(|known| !self.is_fresh && self.is_current(known, &prepared.sha256)) {
            say(format_args!("  done already: same file, same binaries"))?;
            return Ok(known.clone());
        }
        let load = machine::load();
        let ours = self.solve_ours(row, &prepared)?;
        let peer = self.peer.map(|(binary, hash)| self.solve_peer(row, &prepared, binary, hash)).transpose()?;
        say(format_args!("  judging"))?;
        let world = lower::lower(&prepared.workload)?;
        let (own_plan, own) = assessed(&world.snapshot, &ours)?;
        let bound = own_plan.map_or(0.0, |plan| bound::lower_bound(&world.snapshot, &plan));
        let is_peer_reused = peer.as_ref().is_some_and(|(_, is_reused)| *is_reused);
        let peer = match &peer {
            Some((answer, _)) => Some(Side::of(answer, assessed(&world.snapshot, answer)?.1)),
            None => None,
        };
        let ours = Side::of(&ours, own);
        let peer_binary = self.peer.map(|(_, hash)| hash.to_owned()).unwrap_or_default();
        let measured = Measured { load, is_peer_reused, peer_binary, ..self.measured.clone() };
        Ok(compared(&prepared, ours, peer, bound, measured))
    }

    fn prepare(&self, row: &Row) -> anyhow::Result<Prepared> {
        let path = self.out.join(format!("{}.workload.json", row.name));
        let text = generate::generate(row, self.data)?.text()?;
        // The one before is left alone when it is the same, so that its age tells something.
        if std::fs::read(&path).ok().as_deref() != Some(text.as_bytes()) {
            std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        }
        let (workload, sha256) = Workload::read(&path)?;
        workload
            .check()
            .and_then(|()| lower::check_lossless(&workload))
            .with_context(|| format!("checking {}", path.display()))?;
        Ok(Prepared { path, workload, sha256 })
    }

    fn is_current(&self, known: &RowResult, sha256: &str) -> bool {
        let has_peer = known.peer.is_some() == self.peer.is_some();
        let same_peer = self.peer.is_none_or(|(_, hash)| known.measured.peer_binary == hash);
        let is_patient = known.peer.as_ref().is_none_or(|peer| self.is_patient(peer.capped, peer.seconds));
        known.sha256 == sha256 && known.measured.binary == self.measured.binary && has_peer && same_peer && is_patient
    }

    /// Whether the reference had at least as much time as it would get now. Who was given up earlier may come to its end.
    fn is_patient(&self, is_capped: bool, seconds: f64) -> bool {
        !is_capped || seconds >= self.cap_seconds as f64
    }

    fn solve_ours(&self, row: &Row, prepared: &Prepared) -> anyhow::Result<Answer> {
        let path = self.out.join(format!("{}.ours.json", row.name));
        let binary = std::env::current_exe().context("finding our own binary")?;
        let mut command = Command::new(binary);
        command.args(["bench", "solve", "--workload"]).arg(&prepared.path).arg("--out").arg(&path);
        let answer = self.solved(command.args(["--runs", &self.runs.to_string()]), &path, prepared)?;
        say(format_args!(
            "  ours       {:>11.6} s, lowering {:.3} s, peak {:.0} MB",
            answer.median_seconds(),
            answer.lower_seconds,
            answer.peak_mb
        ))?;
        Ok(answer)
    }

    /// The reference's answer, and whether it is from an earlier run.
    fn solve_peer(&self, row: &Row, prepared: &Prepared, binary: &Path, hash: &str) -> anyhow::Result<(Answer, bool)> {
        // The name tells which harness answered which file; an answer under another name is not for this row.
        let path = self.out.join(format!("{}.{}.{hash}.peer.json", row.name, &prepared.sha256[..16]));
        let is_good = |answer: &Answer| {
            answer.sha256 == prepared.sha256 && self.is_patient(answer.capped, answer.median_seconds())
        };
        let reused = Answer::read(&path).ok().filter(|answer| !self.is_fresh && is_good(answer));
        let is_reused = reused.is_some();
        let answer = match reused {
            Some(answer) => answer,
            None => {
                let mut command = Command::new(binary);
                command.args(["solve", "--workload"]).arg(&prepared.path).arg("--out").arg(&path);
                command.args(["--parallelism", PARALLELISM]);
                self.solved(command.args(["--cap", &format!("{}s", self.cap_seconds)]), &path, prepared)?
            }
        };
        let more = if answer.capped { "more than " } else { "" };
        let from = if is_reused { ", from an earlier run in this folder" } else { "" };
        let (seconds, runs) = (answer.median_seconds(), answer.seconds.len());
        say(format_args!("  reference  {more}{seconds:.6} s, {runs} runs, parallelism {}{from}", answer.parallelism))?;
        Ok((answer, is_reused))
    }

    /// Runs a solver and reads its answer. Both sides must have read the bytes that we wrote.
    fn solved(&self, command: &mut Command, path: &Path, prepared: &Prepared) -> anyhow::Result<Answer> {
        let _ = std::fs::remove_file(path);
        let output = (self.run)(command).context("starting a solver")?;
        ensure!(output.status.success(), "{command:?} failed: {}", output.status);
        let printed = String::from_utf8_lossy(&output.stdout);
        ensure!(
            printed.contains(&prepared.sha256),
            "{command:?} did not print the hash of {}",
            prepared.path.display()
        );
        let answer = Answer::read(path)?;
        ensure!(answer.sha256 == prepared.sha256, "{command:?} solved another file than {}", prepared.path.display());
        Ok(answer)
    }
}

fn assessed(snapshot: &Snapshot, answer: &Answer) -> anyhow::Result<(Option<Plan>, Option<Assessment>)> {
    let Some(entry) = &answer.plan else { return Ok((None, None)) };
    let plan = entry.plan(snapshot).with_context(|| format!("reading the plan of {}", answer.reference))?;
    let assessment = assess::assess(snapshot, &plan);
    Ok((Some(plan), Some(assessment)))
}

fn compared(prepared: &Prepared, ours: Side, peer: Option<Side>, lp_bound: f64, measured: Measured) -> RowResult {
    let workload = &prepared.workload;
    let reasons = results::objections(&ours, peer.as_ref());
    RowResult {
        workload: workload.name.clone(),
        pods: workload.pods.len(),
        types: workload.types.len(),
        existing_nodes: workload.nodes.len(),
        sha256: prepared.sha256.clone(),
        ratio: peer.as_ref().map(|peer| peer.seconds / ours.seconds),
        ratio_with_lowering: peer
            .as_ref()
            .map(|peer| (peer.seconds + peer.lower_seconds) / (ours.seconds + ours.lower_seconds)),
        price_ratio: Quotient::over_peer(&ours, peer.as_ref()).number(),
        lp_bound,
        price_over_lp_bound: Quotient::over_bound(&ours, lp_bound).number(),
        counts: reasons.is_empty(),
        reasons,
        ours,
        peer,
        measured,
    }
}
