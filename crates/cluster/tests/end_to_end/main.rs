//! From objects on the wire to a plan that the judge accepts.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod buffers;
mod daemons;
mod defaults;
mod fixture;
mod machines;
mod revisions;
mod setaside;
