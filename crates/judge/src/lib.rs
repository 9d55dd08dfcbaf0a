//! # judge
//!
//! Purpose: an obvious, slow referee that replays a plan pod by pod with kube-scheduler's rules and names every violation.
//! May touch: the model.
//! Must not touch: the engine, the lowering, anything that the judged plan was made with.
//! Invariants: it says yes only to what kube-scheduler would do; it prefers being obvious to being fast.
//!
//! The rules are those of kube-scheduler v1.36 with its default profile, restated plugin by plugin in `rules` (what may
//! be) and `score` (what is preferred). What the model has no words for is not judged: images, devices, volumes that only
//! one pod may use, preemption, and the spreading that kube-scheduler adds by itself to pods of a Service or controller.

mod claims;
mod crowd;
mod daemons;
mod limits;
mod machine;
mod replay;
mod rules;
mod schedule;
mod score;
mod settle;
mod shelf;
#[cfg(test)]
mod short;
mod violation;
mod world;

pub use replay::{Verdict, replay};
pub use rules::filter;
pub use schedule::{rank, schedule};
pub use violation::{ClaimFault, MachineFault, MachineName, NotWaiting, Refusal, Violation};
pub use world::{Node, World, bind};
