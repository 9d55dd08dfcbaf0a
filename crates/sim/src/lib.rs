//! # sim
//!
//! Purpose: a whole cluster in one thread under virtual time: an API server in memory, stand-ins for what a cluster does by itself
//! (scheduler, kubelets, workload controllers, volumes, node lifecycle), scenarios, and a recording of what came of them.
//! May touch: every room but a concrete cloud; tokio's paused clock.
//! Must not touch: sockets, files while time is paused, the wall clock, unseeded chance.
//! Invariants: one seed gives one run, byte for byte; what the API server in memory says, a real one says too (one suite holds both
//! to it); a kind that is not served is refused by name.

pub mod admission;
pub mod apiserver;
pub mod binder;
pub mod budgets;
mod fields;
pub mod kinds;
pub mod kubelet;
pub mod node_lifecycle;
pub mod replay;
pub mod scenario;
pub mod schema;
pub mod standin;
pub mod standins;
pub mod suite;
pub mod tables;
#[cfg(test)]
mod testing;
pub mod volumes;
pub mod workload;
pub mod world;

pub use apiserver::{ApiServer, At, Change, Deletion, Refusal};
pub use kinds::Kind;
pub use standin::StandIn;
pub use standins::StandIns;
pub use world::{Beginning, World};
