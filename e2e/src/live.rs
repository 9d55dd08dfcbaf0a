//! The live benchmark: how long pods wait for their nodes with our controller, with the reference's, and with neither.
//!
//! Each run has a control plane of its own, and the order changes from round to round, so that a busy moment of the machine
//! does not always hit the same side. What counts is the median, and what the floor takes is taken off both sides.

mod measure;
mod objects;
mod report;

use anyhow::Result;

pub use measure::{Run, Subject, run};
pub use report::{Report, Row, TARGETS, Target};

/// One round for each: the order rotates, so that nobody is always first.
pub fn order(round: usize) -> [Subject; 3] {
    match round % 2 {
        0 => [Subject::Floor, Subject::Dovetail, Subject::Reference],
        _ => [Subject::Floor, Subject::Reference, Subject::Dovetail],
    }
}

/// All runs of all sizes. `tell` hears of each as it ends.
pub fn contest(sizes: &[usize], rounds: usize, mut tell: impl FnMut(&Run)) -> Result<Report> {
    let mut runs = Vec::new();
    for pods in sizes {
        for round in 0..rounds {
            for subject in order(round) {
                let done = run(subject, *pods)?;
                tell(&done);
                runs.push(done);
            }
        }
    }
    Ok(Report::of(runs))
}
