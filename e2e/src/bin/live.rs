//! Measures our controller beside the reference's on real control planes. `make bench` runs it; it exits with 1 when a target
//! is missed.
#![expect(clippy::print_stdout, reason = "a program for people to watch")]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use e2e::live;

#[derive(Parser)]
#[command(name = "live", about = "Our controller beside the reference's, from pods that wait to pods that are bound")]
struct Arguments {
    /// How many pods, one contest for each number
    #[arg(long, value_delimiter = ',', default_values_t = [500, 2000])]
    pods: Vec<usize>,
    /// Rounds of each contest; the median counts
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Where the results go
    #[arg(long, default_value = "bench/out/live.json")]
    out: PathBuf,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let report = live::contest(&arguments.pods, arguments.rounds, |run| println!("{run}"))?;
    if let Some(folder) = arguments.out.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    let text = serde_json::to_string_pretty(&report).context("writing the results")?;
    std::fs::write(&arguments.out, text + "\n").with_context(|| format!("writing {}", arguments.out.display()))?;
    print!("\n{report}");
    println!("results are in {}", arguments.out.display());
    Ok(if report.is_met() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
