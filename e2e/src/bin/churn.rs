//! Measures what becomes of a steady load beside the reference on real control planes. `make bench-churn` runs it; it fails
//! only when a run could not be played.
#![expect(clippy::print_stdout, reason = "a program for people to watch")]

use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;
use e2e::Which;
use e2e::consolidation::churn::{Contest, play};

#[derive(Parser)]
#[command(name = "churn", about = "Our controller beside the reference's while pods are replaced")]
struct Arguments {
    /// For how long pods are replaced; half an hour is the day of scenarios/steady-churn.yaml
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    minutes: u64,
    /// Who plays
    #[arg(long, value_delimiter = ',', default_value = "ours,reference")]
    sides: Vec<Which>,
    /// Where the results go
    #[arg(long, default_value = "bench/out/churn.json")]
    out: PathBuf,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let contest = Contest { sides: arguments.sides, minutes: arguments.minutes, out: arguments.out };
    let report = play(&contest, |run| println!("{run}"))?;
    print!("\n{report}");
    println!("results are in {}", contest.out.display());
    Ok(())
}
