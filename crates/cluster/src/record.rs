//! Facts on disk: everything that the store is told and asked, as lines of text, and a store made from such lines.
//!
//! The store itself writes down what it is told, so that nobody can tell it something that a recording lacks. A recording that
//! is read into a fresh store makes the same calls in the same order, and equal calls make equal stores: the snapshot of every
//! decision can be had again, and the decision with it. Nothing here opens a file; lines go to and come from the caller.
//!
//! Left out is what no decision depends on: how long pods have waited for their first decision, which is only measured.

mod catalog;
mod command;
mod journal;
mod plan;
mod replay;
mod settings;
#[cfg(test)]
mod tests;

pub use api::record::{
    Choice, Decision, DecisionKind, Disruption, DisruptionQuestion, Header, MovedPod, Origin, Outcome,
    ProvisioningQuestion, SecondLook, StaticCount, Staying,
};
pub use command::{read_command, read_pod, write_command};
pub use journal::Journal;
pub(crate) use journal::{gone, name, raw};
pub use plan::provisioning;
pub use replay::{Decided, Problem, RecordError, Replay};
