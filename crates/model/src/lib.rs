//! # model
//!
//! Purpose: the words every other room thinks in, as plain values that can be compared, copied and printed.
//! May touch: the standard library's values and collections, and nothing else.
//! Must not touch: IO, async, the clock, Kubernetes or cloud types, serialization, randomness.
//! Invariants: equal input gives equal output on every machine; `now` is always an argument; whatever can be iterated
//! has a fixed order; text from outside is parsed once, and a refusal says what is wrong, where, and what would help.

pub mod alike;
pub mod budget;
pub mod claim;
pub mod cron;
pub mod disruption;
pub mod drain;
pub mod eviction;
pub mod ids;
pub mod instance;
pub mod labels;
pub mod node;
pub mod overlay;
pub mod plan;
pub mod pod;
pub mod pool;
pub mod price;
pub mod requirements;
pub mod resources;
pub mod snapshot;
pub mod taints;
pub mod time;
pub mod topology;
pub mod volume;
pub mod why;
