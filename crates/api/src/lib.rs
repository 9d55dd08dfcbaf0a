//! # api
//!
//! Purpose: what is on the wire. The Karpenter-compatible custom resources, their label and annotation keys, their
//! conditions, and the custom resource definitions that an API server validates them with; and the documents of recordings.
//! May touch: serde, schemars, kube's derive, `k8s-openapi`.
//! Must not touch: a client, a clock, the network, any other room.
//! Invariants: an object that an API server with these definitions hands out decodes here and encodes back to the same
//! meaning; each CRD is
//! printed from the type that decodes it, so the two cannot disagree; every function is pure.

pub mod aws;
pub mod capacitybuffer;
pub mod catalog;
pub mod conditions;
pub mod crd;
pub mod duration;
pub mod hash;
pub mod kwok;
pub mod labels;
pub mod legacy;
pub mod nodeclaim;
pub mod nodeoverlay;
pub mod nodepool;
mod optional_spec;
pub mod quantity;
pub mod record;
pub mod requirement;
mod schema;
pub mod taint;
pub mod validate;

pub use capacitybuffer::CapacityBuffer;
pub use conditions::Condition;
pub use duration::{Duration, NillableDuration};
pub use nodeclaim::NodeClaim;
pub use nodeoverlay::NodeOverlay;
pub use nodepool::NodePool;
pub use quantity::{Quantity, ResourceList};
