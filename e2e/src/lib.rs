//! # e2e
//!
//! Purpose: run what we build against a real Kubernetes control plane, with kwok in the place of kubelets.
//! May touch: processes, loopback ports, the wall clock, the directory `e2e` of our cache, and, to compare with, modules of
//! the reference that the Go command fetches.
//! Must not touch: any other network, a cluster it did not start, the user's kubeconfig.
//! Invariants: a cluster never outlives its owner, not even a killed one; two clusters share nothing.

pub mod account;
pub mod admission;
mod cluster;
mod dovetail;
pub mod reference;
mod supervisor;

pub use cluster::{Cluster, client};
pub use dovetail::Dovetail;
