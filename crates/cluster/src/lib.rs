//! # cluster
//!
//! Purpose: our memory of the world. Takes watched objects in, lowers them from wire shape to the model's, remembers what we
//! have just asked for but not yet seen, and hands out cheap immutable snapshots.
//! May touch: the model, the wire types of `api` and `k8s-openapi`; `feed` alone waits, for a stream of facts.
//! Must not touch: a client, a clock, the engine.
//! Invariants: lowering is a pure function of wire objects; what cannot be understood is named, with its object and field, and
//! stops nothing else; the store is synchronous, and equal newest states give equal snapshots, in whatever order they came;
//! pods are never kept whole; whatever is assumed runs out; equal calls in equal order make equal stores, so that a recording
//! of the calls is one of the store.

mod assume;
pub mod feed;
pub mod lower;
pub mod object;
pub mod record;
pub mod store;
mod synced;
pub mod wake;

pub use feed::{Fact, News, Undecodable, feed};
pub use object::{Gone, Key, Kind, Object, Version};
pub use store::{Settings, Store};
pub use wake::{Change, Duty, Milestone, Step};
