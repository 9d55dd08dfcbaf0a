//! # cluster
//!
//! Purpose: our memory of the world. For now the pure lowering from wire objects to the model; the store comes with the live controller.
//! May touch: the model, the wire types of `api` and `k8s-openapi`.
//! Must not touch: a client, a clock, the engine.
//! Invariants: lowering is a pure function of wire objects; what cannot be understood is named, with its object and field, and stops nothing else.

pub mod lower;
