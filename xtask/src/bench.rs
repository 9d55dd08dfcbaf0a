//! `cargo xtask bench`: our engine and the reference, on the same files, in one run.
//!
//! `generate` writes a workload per row, `solve` is our side and `bench/peer` the other, each in a process of its own; `contest` lets
//! them meet; `assess` holds both plans before the judge and prices them; `bound` says what no plan can be cheaper than; `targets`
//! knows what must be reached. bench/README.md is the contract, docs/benchmarks.md says how to read the numbers.

mod answer;
mod assess;
mod bound;
mod contest;
mod disrupt;
mod file;
mod generate;
mod lower;
mod machine;
mod memory;
mod menu;
mod page;
mod random;
mod results;
mod rows;
#[cfg(test)]
mod sample;
mod sha256;
mod solve;
mod targets;
#[cfg(test)]
mod tests;
mod trace;
mod wishes;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, ensure};
use clap::{Args, Subcommand};

use contest::Contest;
use results::{Quotient, Results};
use rows::{Kind, Row};
use targets::Outcome;

/// Where workloads, answers and results lie; not committed.
const OUT: &str = "bench/out";
const RESULTS: &str = "solve.json";
const DATA_VARIABLE: &str = "DOVETAIL_DATA";
const DATA_DEFAULT: &str = "../shared/data";
/// Runs of our side: never fewer.
const RUNS_MIN: usize = 5;
/// A machine that is busy with something else gives numbers that mean little.
const LOAD_MAX: f64 = 1.0;

#[derive(Args, Debug)]
pub struct Options {
    #[command(subcommand)]
    part: Option<Part>,
    /// Only rows of these names; `*` stands for anything
    #[arg(long, num_args = 1.., value_name = "PATTERN")]
    rows: Vec<String>,
    /// Only the small rows
    #[arg(long)]
    quick: bool,
    /// Measure everything anew, whatever is known from earlier runs
    #[arg(long)]
    fresh: bool,
    /// Leave the reference out, and judge and price our own plans only
    #[arg(long)]
    ours_only: bool,
    /// When to give up on a run of the reference, in seconds
    #[arg(long, default_value_t = 600)]
    cap: u64,
    /// Write the table of docs/benchmarks.md
    #[arg(long)]
    page: bool,
}

/// Parts that the benchmark runs as processes of their own, and those about disruption.
#[derive(Subcommand, Debug)]
enum Part {
    /// Solve one workload file with our engine
    Solve {
        #[arg(long)]
        workload: PathBuf,
        #[arg(long)]
        out: PathBuf,
        #[arg(long, default_value_t = RUNS_MIN)]
        runs: usize,
    },
    /// Decide which nodes of one workload file leave, with our engine
    Decide {
        #[arg(long)]
        workload: PathBuf,
        #[arg(long)]
        out: PathBuf,
        #[arg(long, default_value_t = RUNS_MIN)]
        runs: usize,
    },
    /// One full decision about clusters at rest, beside the reference's disruption loop
    Disrupt(disrupt::Options),
    /// What the scenario `openb` cost, beside planning anew at every event
    Trace(trace::Options),
}

/// Ends with one when a target is missed.
pub fn run(root: &Path, options: &Options) -> anyhow::Result<ExitCode> {
    match &options.part {
        Some(Part::Solve { workload, out, runs }) => {
            let answer = solve::run(workload, out, (*runs).max(1))?;
            say(format_args!("{} sha256 {} seconds {:?}", answer.workload, answer.sha256, answer.seconds))?;
            return Ok(ExitCode::SUCCESS);
        }
        Some(Part::Decide { workload, out, runs }) => {
            let answer = disrupt::decide_file(workload, out, (*runs).max(1))?;
            say(format_args!("sha256 {} seconds {:?} commands {}", answer.sha256, answer.seconds, answer.commands))?;
            return Ok(ExitCode::SUCCESS);
        }
        Some(Part::Disrupt(chosen)) => return disrupt::run(root, chosen),
        Some(Part::Trace(chosen)) => return trace::run(root, chosen),
        None => (),
    }
    if cfg!(debug_assertions) {
        return run_optimised(root);
    }
    let rows = rows::chosen(&options.rows, options.quick);
    ensure!(!rows.is_empty(), "no row is called {}", options.rows.join(" or "));
    let out = root.join(OUT);
    std::fs::create_dir_all(&out).with_context(|| format!("making {}", out.display()))?;
    let results = contests(root, &out, &rows, options)?;
    conclude(root, &results, &rows, options)
}

/// The same command by a binary of the release profile: what an unoptimised engine needs is nobody's business.
fn run_optimised(root: &Path) -> anyhow::Result<ExitCode> {
    let arguments = std::env::args_os().skip(1);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["run", "--quiet", "--locked", "--release", "--package", "xtask", "--"])
        .args(arguments)
        .current_dir(root);
    let status = command.status().context("building and running the release profile")?;
    Ok(u8::try_from(status.code().unwrap_or(1)).map_or(ExitCode::FAILURE, ExitCode::from))
}

fn contests(root: &Path, out: &Path, rows: &[Row], options: &Options) -> anyhow::Result<Results> {
    let peer =
        if options.ours_only { None } else { Some(PathBuf::from(machine::command(root, "hack/bench-peer.sh", &[])?)) };
    let peer_hash = peer.as_deref().map(machine::hash).transpose()?.unwrap_or_default();
    let data = std::env::var_os(DATA_VARIABLE).map_or_else(|| root.join(DATA_DEFAULT), PathBuf::from);
    let measured = machine::measured(root)?;
    let contest = Contest {
        out,
        data: &data,
        peer: peer.as_deref().map(|path| (path, peer_hash.as_str())),
        measured: &measured,
        runs: RUNS_MIN,
        cap_seconds: options.cap,
        is_fresh: options.fresh,
        run: &contest::as_process,
    };
    // What was found without the reference must not push out what was found with it.
    let file = out.join(if options.ours_only { "ours.json" } else { RESULTS });
    let mut results = Results::read(&file, &machine::machine()?);
    if machine::load() > LOAD_MAX {
        say(format_args!("the machine is busy (load {:.1}): times will be too long on both sides", machine::load()))?;
    }
    for (index, row) in rows.iter().enumerate() {
        say(format_args!("{}/{} {}", index + 1, rows.len(), row.name))?;
        if row.kind == Kind::Openb && !data.join(generate::TRACE).exists() {
            say(format_args!("  skipped: {} is not there; set {DATA_VARIABLE}", data.join(generate::TRACE).display()))?;
            continue;
        }
        let found = contest.row(row, results.row(row.name)).with_context(|| format!("row {}", row.name))?;
        say_row(&found)?;
        results.put(found);
        results.write(&file)?;
    }
    results.rows.retain(|known| rows.iter().any(|row| row.name == known.workload) || options.page);
    say(format_args!("results: {}", file.display()))?;
    Ok(results)
}

fn say_row(row: &results::RowResult) -> anyhow::Result<()> {
    let side = |name: &str, side: &results::Side| match &side.assessment {
        Some(known) => say(format_args!(
            "  {name:<10} {} of {} placed, {} violations, {} nodes, ${:.4}/h (worst ${:.2}), ≥ {} types, {} of {} preferences",
            known.placed,
            row.pods,
            known.violations,
            known.nodes,
            known.price_per_hour,
            known.worst_launch_price_per_hour,
            known.types_per_claim_min,
            known.preferences_kept,
            known.preferences
        )),
        None => say(format_args!("  {name:<10} no plan")),
    };
    side("ours", &row.ours)?;
    if let Some(peer) = &row.peer {
        side("reference", peer)?;
    }
    let number = |number: Option<f64>| number.map_or_else(|| "–".to_owned(), targets::significant);
    say(format_args!(
        "  ratio {} (with lowering {}), price ratio {}, price ÷ LP bound {}",
        number(row.ratio),
        number(row.ratio_with_lowering),
        Quotient::over_peer(&row.ours, row.peer.as_ref()),
        Quotient::over_bound(&row.ours, row.lp_bound)
    ))?;
    let samples = row.ours.assessment.iter().flat_map(|known| &known.violation_samples);
    samples.into_iter().try_for_each(|sample| say(format_args!("  ours: {sample}")))?;
    row.reasons.iter().try_for_each(|reason| say(format_args!("  does not count: {reason}")))
}

/// Tells which targets are met, and writes the page if that is asked for.
fn conclude(root: &Path, results: &Results, rows: &[Row], options: &Options) -> anyhow::Result<ExitCode> {
    let findings = targets::findings(results);
    for finding in &findings {
        let word = match finding.outcome {
            Outcome::Met => "met",
            Outcome::Missed => "MISSED",
            Outcome::Unknown => "unknown",
        };
        say(format_args!(
            "{word:<8} {:<24} {} {} (wanted {})",
            finding.row, finding.what, finding.got, finding.wanted
        ))?;
    }
    for row in rows.iter().filter(|row| results.row(row.name).is_none()) {
        say(format_args!("{:<8} {:<24} was not measured: its targets are open", "unknown", row.name))?;
    }
    if options.page {
        let path = root.join(page::PAGE);
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let renewed = page::renewed(&text, results, &findings)?;
        std::fs::write(&path, renewed).with_context(|| format!("writing {}", path.display()))?;
        say(format_args!("wrote {}", page::PAGE))?;
    }
    let is_missed = findings.iter().any(|finding| finding.outcome == Outcome::Missed);
    Ok(if is_missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn say(line: std::fmt::Arguments<'_>) -> anyhow::Result<()> {
    writeln!(std::io::stdout().lock(), "{line}").context("writing to the terminal")
}
