//! # runtime
//!
//! Purpose: plumbing for a process that talks to an API server and has never heard of autoscaling. For now it connects
//! and compares documents; clock, queue, tasks, watches and lease come with the live controller.
//! May touch: kube's client, tokio, the file that names the cluster.
//! Must not touch: any other room, any autoscaling word.
//! Invariants: whatever is nondeterministic enters the process here and nowhere else; requests that we send have time limits.

pub mod connect;
pub mod patch;
