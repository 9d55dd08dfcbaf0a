//! # e2e
//!
//! Purpose: run what we build against a real Kubernetes control plane, with kwok in the place of kubelets, and measure it there
//! beside the reference's controller.
//! May touch: processes, loopback ports, the wall clock, the directory `e2e` of our cache, and, to compare with, modules of
//! the reference that the Go command fetches, and its controller that `hack/reference.sh` builds.
//! Must not touch: any other network, a cluster it did not start, the user's kubeconfig.
//! Invariants: a cluster never outlives its owner, not even a killed one; two clusters share nothing.

pub mod account;
mod autoscaler;
mod cluster;
pub mod consolidation;
pub mod dovetail;
pub mod live;
pub mod reference;
pub mod replica;
pub mod scrape;
mod supervisor;

pub use autoscaler::{Autoscaler, Usage, Which};
pub use cluster::{Cluster, client};
pub use dovetail::Dovetail;
pub use replica::Replica;
