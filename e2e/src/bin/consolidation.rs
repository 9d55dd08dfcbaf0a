//! Measures consolidation beside the reference's on real control planes. `make bench-consolidation` runs it; it exits with 1
//! when a target is missed.
#![expect(clippy::print_stdout, reason = "a program for people to watch")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use e2e::Which;
use e2e::consolidation::{Contest, Patience, Story, play};

#[derive(Parser)]
#[command(name = "consolidation", about = "Our consolidation beside the reference's, until the cluster rests")]
struct Arguments {
    /// What is played: `fragmented`, or numbers of pods as in `500-to-50`
    #[arg(long, value_delimiter = ',', default_value = "500-to-50,2000-to-200,fragmented")]
    stories: Vec<Story>,
    /// Rounds of each; medians count
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Who plays
    #[arg(long, value_delimiter = ',', default_value = "ours,reference")]
    sides: Vec<Which>,
    /// Seconds without anything coming or going that make a rest
    #[arg(long, default_value_t = 90)]
    quiet: u64,
    /// Seconds after which a run is given up
    #[arg(long, default_value_t = 600)]
    limit: u64,
    /// Play everything anew, whatever was played before
    #[arg(long)]
    fresh: bool,
    /// Where the results go
    #[arg(long, default_value = "bench/out/consolidation.json")]
    out: PathBuf,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let contest = Contest {
        stories: arguments.stories,
        rounds: arguments.rounds,
        sides: arguments.sides,
        patience: Patience { quiet: Duration::from_secs(arguments.quiet), limit: Duration::from_secs(arguments.limit) },
        out: arguments.out,
        is_fresh: arguments.fresh,
    };
    let report = play(&contest, |run| println!("{run}"))?;
    print!("\n{report}");
    println!("results are in {}", contest.out.display());
    Ok(if report.is_met() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
