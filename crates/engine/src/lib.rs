//! # engine
//!
//! Purpose: every answer to "what next?". Pure functions from a snapshot to a decision.
//! May touch: the model.
//! Must not touch: IO, async, a clock, a log, randomness, any other room.
//! Invariants: equal input gives an equal answer, byte for byte; every refusal carries its reason; no panic on any
//! input.

pub mod disrupt;
pub mod disruptable;
pub mod drain;
pub mod lifecycle;
pub mod overlay;
pub mod repair;
pub mod solve;
pub mod statics;
