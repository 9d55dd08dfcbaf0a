//! The benchmark of consolidation: how soon, how cheaply and with how many evictions a cluster comes to rest with our
//! controller and with the reference's.
//!
//! Each run has a control plane of its own. Both sides play the same story in every round, and who goes first alternates.
//! Results are written after every run, and a run of the same binary that is already there is not made again, so a contest
//! of hours may be stopped and gone on with.

mod cheapest;
pub mod churn;
mod following;
mod fragments;
mod kept;
mod measure;
mod objects;
mod report;
mod seen;
mod story;
mod watching;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use crate::Which;
pub use cheapest::Cheapest;
use measure::Turn;
pub use measure::{Bill, Run};
pub use report::{Report, Row, Verdict};
pub use story::Story;

/// What is played.
#[derive(Clone, Debug)]
pub struct Contest {
    pub stories: Vec<Story>,
    pub rounds: usize,
    pub sides: Vec<Which>,
    pub patience: Patience,
    /// Where results go, and where those of before lie.
    pub out: PathBuf,
    pub is_fresh: bool,
}

/// When a cluster is said to be at rest.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Nothing has come or gone for so long. More than the time from one move to the next: both sides wait for
    /// `consolidateAfter`, then 15 s for a second look, and then for a machine.
    pub quiet: Duration,
    /// Who is not at rest after this is given up; its time then is at least this.
    pub limit: Duration,
}

/// Who goes first alternates.
fn order(round: usize) -> [Which; 2] {
    match round % 2 {
        0 => [Which::Dovetail, Which::Reference],
        _ => [Which::Reference, Which::Dovetail],
    }
}

/// Plays everything that has not been played yet. `tell` hears of each run as it ends.
pub fn play(contest: &Contest, mut tell: impl FnMut(&Run)) -> Result<Report> {
    kept::make_folder(&contest.out)?;
    let mut runs = if contest.is_fresh { Vec::new() } else { kept::read(&contest.out)? };
    for story in &contest.stories {
        for round in 0..contest.rounds {
            for which in order(round).into_iter().filter(|which| contest.sides.contains(which)) {
                let binary = kept::fingerprint(&which.binary()?)?;
                let turn = Turn { story: *story, round, which };
                if runs.iter().any(|run| turn.is_of(run) && run.binary == binary) {
                    continue;
                }
                let run = measure::run(turn, contest, binary)?;
                tell(&run);
                runs.retain(|run| !turn.is_of(run));
                runs.push(run);
                kept::write(&contest.out, &Report::of(runs.clone(), Vec::new()))?;
            }
        }
    }
    let cheapest = cheapest::of_stories(&runs, &contest.out)?;
    let report = Report::of(runs, cheapest);
    kept::write(&contest.out, &report)?;
    Ok(report)
}
