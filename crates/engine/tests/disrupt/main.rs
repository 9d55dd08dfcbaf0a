//! Which nodes leave, item by item of the checklist, and the laws that every decision keeps.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod balanced;
mod candidates;
mod cluster;
mod consolidation;
mod drift;
mod emptiness;
mod exhaustive;
#[path = "../solve/fixture.rs"]
#[expect(dead_code, reason = "the solver's tests use the rest of it")]
mod fixture;
mod flaws;
mod fragmented;
mod laws;
mod many;
mod paying;
#[path = "../solve/random.rs"]
#[expect(dead_code, reason = "the solver's tests use the rest of it")]
mod random;
mod remembering;
mod settling;
mod validation;
