//! What a cluster does by itself, one part at a time.

use jiff::Timestamp;

use crate::apiserver::{ApiServer, Change};

/// A part of the cluster that reacts to changes. All of them run in one task, one after the other, so what one writes the next one
/// hears of in order. Acting takes no time; what takes time in a real cluster waits for a `wake`.
pub trait StandIn: Send {
    fn name(&self) -> &'static str;

    /// Hears of one change. Changes come in the order in which they were made, its own included. Whoever has much to do for a
    /// change had better note it here and do it once in `settle`.
    fn heed(&mut self, change: &Change, server: &ApiServer);

    /// All changes so far have been heard: time to act on what was noted.
    fn settle(&mut self, _server: &ApiServer) {}

    /// When it wants to be woken although nothing changes.
    fn next(&self) -> Option<Timestamp>;

    /// Its time has come. Called with the time of the server's clock, never before `next`.
    fn wake(&mut self, now: Timestamp, server: &ApiServer);
}
