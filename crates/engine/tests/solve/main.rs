//! The solver on small worlds, item by item of the checklist.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod affinity;
mod again;
mod causes;
mod claims;
mod crowds;
mod daemons;
mod existing;
mod fixture;
mod gone;
mod hosts;
mod judged;
mod kept;
mod labels;
mod large;
mod mixed;
mod odd;
mod owed;
mod packing;
mod paid;
mod pools;
mod preferences;
mod prices;
mod random;
mod reasons;
mod reckoned;
mod reserved;
mod spread;
mod survives;
mod tiny;
mod truthful;
mod volumes;
