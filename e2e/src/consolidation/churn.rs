//! The benchmark of a steady load: what becomes of a cluster in which pods are replaced all the time and nothing else happens.
//!
//! It plays `scenarios/steady-churn.yaml` on real control planes, 48 times as fast. What waits by itself, such as the second
//! look at a command, is as shipped on both sides. Numbers are reported, and nothing is demanded of them.

mod measure;
mod report;
mod scenario;
mod tally;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use super::kept;
use crate::Which;
pub use measure::Run;
pub use report::Report;

/// What is played.
#[derive(Clone, Debug)]
pub struct Contest {
    pub sides: Vec<Which>,
    /// For so long pods are replaced.
    pub minutes: u64,
    /// Where results go.
    pub out: PathBuf,
}

impl Contest {
    fn length(&self) -> Duration {
        Duration::from_secs(self.minutes * 60)
    }
}

/// One run of each side. `tell` hears of each as it ends.
pub fn play(contest: &Contest, mut tell: impl FnMut(&Run)) -> Result<Report> {
    kept::make_folder(&contest.out)?;
    let mut report = Report { minutes: contest.minutes, runs: Vec::new() };
    for which in &contest.sides {
        let run = measure::run(*which, contest)?;
        tell(&run);
        report.runs.push(run);
        kept::write(&contest.out, &report)?;
    }
    Ok(report)
}
