//! What is remembered of claims between looks. All of it can be lost: it is asked for again.

use api::NodeClaim;
use model::ids::NodeName;
use model::time::Instant;

use crate::per_claim::PerClaim;

#[derive(Debug, Default)]
pub(super) struct Memory(PerClaim<Entry>);

#[derive(Clone, Debug, Default)]
struct Entry {
    checked: Option<Instant>,
    /// Whether the cloud has said that the machine is no more.
    is_gone: bool,
    /// How often in a row hooks have asked for more time without saying how much.
    hook_waits: u32,
}

impl Memory {
    pub(super) fn checked(&self, claim: &NodeClaim) -> Option<Instant> {
        self.0.read(claim, |entry| entry.checked)
    }

    pub(super) fn note_check(&self, claim: &NodeClaim, now: Instant) {
        self.0.write(claim, |entry| entry.checked = Some(now));
    }

    pub(super) fn is_gone(&self, claim: &NodeClaim) -> bool {
        self.0.read(claim, |entry| entry.is_gone)
    }

    pub(super) fn note_gone(&self, claim: &NodeClaim) {
        self.0.write(claim, |entry| entry.is_gone = true);
    }

    /// Counts one more wait for hooks, and says which it is.
    pub(super) fn next_hook_wait(&self, claim: &NodeClaim) -> u32 {
        self.0.write(claim, |entry| {
            entry.hook_waits = entry.hook_waits.saturating_add(1);
            entry.hook_waits
        })
    }

    pub(super) fn forget(&self, claim: &NodeName) {
        self.0.forget(claim);
    }
}
