//! Stories about clusters: a file of manifests and one `Scenario`, read, rehearsed, played and told.
//!
//! ```text
//!   text ──read──▶ Story ──Play──▶ World (virtual time) ──every change──▶ Ledger ──▶ happenings, Report
//!            │                ▲
//!            └── rehearsed: what the API would refuse is refused before anything is played
//! ```
//!
//! The shape of the file is in `document`; what is wrong with a file is a [`Fault`], with its line and a remedy.

mod act;
mod blame;
mod cast;
mod comeback;
mod document;
mod expectation;
mod fault;
mod ledger;
mod lines;
mod play;
mod read;
mod rehearsal;
mod report;
mod sense;
mod steps;
#[cfg(test)]
mod tests;
mod trace;

pub use fault::Fault;
pub use ledger::{Happening, Sample};
pub use play::{Play, paused_runtime};
pub use read::{Open, Story};
pub use report::{Cost, DecisionReport, ExpectationReport, NodeReport, PodReport, Report};
