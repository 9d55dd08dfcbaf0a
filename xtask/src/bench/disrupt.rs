//! `cargo xtask bench disrupt`: one full decision about which nodes leave, ours and the reference's, on the same files.
//!
//! A row is a cluster at rest (`generate::resting`): whoever decides must look at everything and finds nothing. `decide` is our
//! side and `bench/peer disrupt` the other, each in a process of its own; `results` knows what must be reached. bench/README.md is
//! the contract, docs/benchmarks.md says how to read the numbers. `loose` follows our side through clusters that are far from rest.

mod decide;
mod loose;
mod results;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, ensure};
use clap::Args;
use engine::disrupt::Scene;
use model::snapshot::Snapshot;
use serde::de::DeserializeOwned;

use super::file::Workload;
use super::targets::{Outcome, significant};
use super::{LOAD_MAX, OUT, generate, lower, machine, run_optimised, say};
pub(super) use decide::run as decide_file;
pub(super) use loose::{LooseRow, Mix};
use results::{Ours, Peer, Results, RowResult, findings};

const RESULTS: &str = "disrupt.json";
/// Runs of our side.
const RUNS: usize = 7;

#[derive(Args, Debug)]
pub(super) struct Options {
    /// Only these rows
    #[arg(long, num_args = 1.., value_name = "NAME")]
    rows: Vec<String>,
    /// Make the clusters and measure everything anew, whatever is known from earlier runs
    #[arg(long)]
    fresh: bool,
    /// Leave the reference out
    #[arg(long)]
    ours_only: bool,
}

/// A cluster at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DisruptRow {
    pub(super) name: &'static str,
    pub(super) nodes: usize,
    pub(super) pods: usize,
}

pub(super) const ROWS: [DisruptRow; 2] = [
    DisruptRow { name: "rest-1000", nodes: 1_000, pods: 15_000 },
    DisruptRow { name: "rest-5000", nodes: 5_000, pods: 100_000 },
];

/// Nobody waits, nothing is under way, nothing has moved lately.
pub(super) fn scene(snapshot: &Snapshot) -> Scene<'_> {
    Scene {
        snapshot,
        settled_by: snapshot.now,
        pending: Vec::new(),
        promised: BTreeMap::new(),
        nominated: BTreeSet::new(),
        moved: BTreeMap::new(),
        under_way: Vec::new(),
        paused: BTreeMap::new(),
        static_pools: BTreeMap::new(),
    }
}

/// Ends with one when a target is missed.
pub(super) fn run(root: &Path, options: &Options) -> anyhow::Result<ExitCode> {
    if cfg!(debug_assertions) {
        return run_optimised(root);
    }
    let is_wanted = |name: &str| options.rows.is_empty() || options.rows.iter().any(|wanted| wanted == name);
    let rows: Vec<&DisruptRow> = ROWS.iter().filter(|row| is_wanted(row.name)).collect();
    let loose: Vec<&LooseRow> = loose::ROWS.iter().filter(|row| is_wanted(row.name)).collect();
    ensure!(!rows.is_empty() || !loose.is_empty(), "no row is called {}", options.rows.join(" or "));
    let out = root.join(OUT);
    std::fs::create_dir_all(&out).with_context(|| format!("making {}", out.display()))?;
    let peer = match options.ours_only || rows.is_empty() {
        true => None,
        false => Some(PathBuf::from(machine::command(root, "hack/bench-peer.sh", &[])?)),
    };
    if machine::load() > LOAD_MAX {
        say(format_args!("the machine is busy (load {:.1}): times will be too long on both sides", machine::load()))?;
    }
    let mut results = Results { machine: machine::machine()?, rows: Vec::new() };
    for row in rows {
        let found =
            meet(root, &out, row, peer.as_deref(), options.fresh).with_context(|| format!("row {}", row.name))?;
        results.rows.push(found);
        // What was found without the reference must not push out what was found with it.
        results.write(&out.join(if options.ours_only { "disrupt-ours.json" } else { RESULTS }))?;
    }
    for row in loose {
        loose::follow(row).with_context(|| format!("row {}", row.name))?;
    }
    conclude(&results)
}

/// Both sides decide about one row.
fn meet(root: &Path, out: &Path, row: &DisruptRow, peer: Option<&Path>, is_fresh: bool) -> anyhow::Result<RowResult> {
    say(format_args!("{}: {} nodes, {} pods", row.name, row.nodes, row.pods))?;
    let (path, is_old) = prepare(out, row, is_fresh)?;
    let load = machine::load();
    let mut ours: Ours = decided(out, row, &path)?;
    if is_old && ours.commands > 0 {
        say(format_args!("  the engine has learned to improve on the cluster of an earlier run: making a new one"))?;
        prepare(out, row, true)?;
        ours = decided(out, row, &path)?;
    }
    say(format_args!(
        "  ours       {} s, {} commands, {} questions ({} refused at sight), {} plans",
        significant(ours.median_seconds()),
        ours.commands,
        ours.questions,
        ours.refused_at_sight,
        ours.plans
    ))?;
    let peer = peer.map(|binary| answered_by_peer(out, row, &path, binary, &ours.sha256, is_fresh)).transpose()?;
    if let Some(peer) = &peer {
        say(format_args!(
            "  reference  {} s as it was, {} of {} candidates evaluated, {} s for all of them, {} commands",
            significant(peer.seconds_raw),
            peer.evaluated,
            peer.candidates,
            significant(peer.seconds),
            peer.commands
        ))?;
    }
    let measured = super::results::Measured { load, ..machine::measured(root)? };
    let found = RowResult::new(row.name, ours, peer, measured);
    if let Some(ratio) = found.ratio {
        say(format_args!("  ratio {}", significant(ratio)))?;
    }
    Ok(found)
}

/// The file of a row, and whether it is from an earlier run. Bringing a cluster to rest takes long, and whether it still is at
/// rest shows when it is measured.
fn prepare(out: &Path, row: &DisruptRow, is_fresh: bool) -> anyhow::Result<(PathBuf, bool)> {
    let path = out.join(format!("{}.workload.json", row.name));
    let fits = |known: &Workload| known.nodes.len() == row.nodes && known.bound_pods.len() == row.pods;
    if !is_fresh && Workload::read(&path).is_ok_and(|(known, _)| fits(&known)) {
        return Ok((path, true));
    }
    say(format_args!("  bringing a cluster to rest"))?;
    let text = generate::resting::generate(row)?.text()?;
    std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    let (workload, _) = Workload::read(&path)?;
    workload
        .check()
        .and_then(|()| lower::check_lossless(&workload))
        .with_context(|| format!("checking {}", path.display()))?;
    Ok((path, false))
}

fn decided(out: &Path, row: &DisruptRow, workload: &Path) -> anyhow::Result<Ours> {
    let path = out.join(format!("{}.ours.json", row.name));
    let mut command = Command::new(std::env::current_exe().context("finding our own binary")?);
    command.args(["bench", "decide", "--workload"]).arg(workload).arg("--out").arg(&path);
    let answer: Ours = answered(command.args(["--runs", &RUNS.to_string()]), &path)?;
    let (_, sha256) = Workload::read(workload)?;
    ensure!(answer.sha256 == sha256, "we decided about another file than {}", workload.display());
    Ok(answer)
}

fn answered_by_peer(
    out: &Path,
    row: &DisruptRow,
    workload: &Path,
    binary: &Path,
    sha256: &str,
    is_fresh: bool,
) -> anyhow::Result<Peer> {
    // The name tells which harness answered which file.
    let hash = machine::hash(binary)?;
    let path = out.join(format!("{}.{}.{hash}.peer.json", row.name, &sha256[..16]));
    let read = |path: &Path| serde_json::from_slice::<Peer>(&std::fs::read(path).ok()?).ok();
    if let Some(known) = read(&path).filter(|known| !is_fresh && known.sha256 == sha256) {
        say(format_args!("  reference  from an earlier run in this folder"))?;
        return Ok(known);
    }
    say(format_args!("  reference  up to four minutes"))?;
    let mut command = Command::new(binary);
    command.args(["disrupt", "--workload"]).arg(workload).arg("--out").arg(&path);
    let answer: Peer = answered(&mut command, &path)?;
    ensure!(answer.sha256 == sha256, "the reference decided about another file than {}", workload.display());
    Ok(answer)
}

/// Runs one side and reads its answer, whose hash it must have printed.
fn answered<T: DeserializeOwned>(command: &mut Command, path: &Path) -> anyhow::Result<T> {
    let _ = std::fs::remove_file(path);
    let output = command.stderr(Stdio::inherit()).output().context("starting one side")?;
    ensure!(output.status.success(), "{command:?} failed: {}", output.status);
    let text = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let value: serde_json::Value =
        serde_json::from_slice(&text).with_context(|| format!("decoding {}", path.display()))?;
    let sha256 = value["sha256"].as_str().unwrap_or("nothing");
    ensure!(String::from_utf8_lossy(&output.stdout).contains(sha256), "{command:?} did not print {sha256}");
    serde_json::from_value(value).with_context(|| format!("decoding {}", path.display()))
}

fn conclude(results: &Results) -> anyhow::Result<ExitCode> {
    let findings = findings(results);
    for finding in &findings {
        let word = if finding.outcome == Outcome::Met { "met" } else { "MISSED" };
        say(format_args!(
            "{word:<8} {:<12} {} {} (wanted {})",
            finding.row, finding.what, finding.got, finding.wanted
        ))?;
    }
    let is_missed = findings.iter().any(|finding| finding.outcome == Outcome::Missed);
    Ok(if is_missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
