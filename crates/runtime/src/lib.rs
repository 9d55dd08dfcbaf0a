//! # runtime
//!
//! Purpose: plumbing for a controller process that has never heard of autoscaling: connecting, watching, leading, queueing
//! work, running tasks, computing, telling time, drawing lots, recording events, logging, and answering probes and scrapes.
//! May touch: kube's client, tokio, signals, the file that names the cluster, files for logs, /proc, the wall clock, entropy.
//! Must not touch: any other room, any autoscaling word.
//! Invariants: whatever is nondeterministic enters the process here and nowhere else; on one thread with a paused clock, a
//! seed and an in-memory server, everything here but `http` and the signals behaves the same on every run; requests that we
//! send have time limits; queues and caches have bounds.

pub mod backoff;
pub mod clock;
pub mod compute;
pub mod connect;
pub mod error;
pub mod http;
pub mod lease;
pub mod limit;
pub mod log;
pub mod metrics;
pub mod patch;
pub mod queue;
pub mod recorder;
pub mod rng;
pub mod tasks;
pub mod watch;

#[cfg(test)]
mod fake_server;
#[cfg(test)]
mod tests;

pub use backoff::Backoff;
pub use clock::Clock;
pub use compute::{Cancel, Compute};
pub use error::{BoxError, RuntimeError};
pub use lease::{Election, LeaseSettings};
pub use limit::Rate;
pub use queue::{Next, Queue};
pub use recorder::{Note, Recorder};
pub use rng::Rng;
pub use tasks::{Stop, Tasks};
