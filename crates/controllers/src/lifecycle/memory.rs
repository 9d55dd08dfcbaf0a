//! What is remembered of claims between looks. All of it can be lost: it is asked for again.

use api::NodeClaim;
use cluster::store::Revision;
use model::ids::NodeName;
use model::time::Instant;
use runtime::Next;

use crate::per_claim::PerClaim;

#[derive(Debug, Default)]
pub(super) struct Memory(PerClaim<Entry>);

#[derive(Clone, Debug, Default)]
struct Entry {
    checked: Option<Instant>,
    /// The state in which the machine's shape was compared last.
    compared: Option<Revision>,
    /// Whether the cloud has said that the machine is no more.
    is_gone: bool,
    /// How often in a row hooks have asked for more time without saying how much.
    hook_waits: u32,
    rest: Option<Rest>,
}

/// A state in which there was nothing to do.
#[derive(Clone, Debug)]
struct Rest {
    revision: Revision,
    /// When time alone changes that.
    until: Option<Instant>,
}

impl Memory {
    pub(super) fn checked(&self, claim: &NodeClaim) -> Option<Instant> {
        self.0.read(claim, |entry| entry.checked)
    }

    pub(super) fn note_check(&self, claim: &NodeClaim, revision: Option<Revision>, now: Instant) {
        self.0.write(claim, |entry| (entry.checked, entry.compared) = (Some(now), revision));
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

    /// There is nothing to do for a claim in this state until then, and nothing to compare again if it was so in this state.
    pub(super) fn note_rest(&self, claim: &NodeClaim, revision: Revision, until: Option<Instant>) {
        self.0.write(claim, |entry| {
            entry.rest = (entry.compared.as_ref() == Some(&revision)).then_some(Rest { revision, until });
        });
    }

    /// How long there is nothing to do for a claim in this state; nothing when nobody knows.
    pub(super) fn rests(&self, claim: &NodeName, revision: &Revision, now: Instant) -> Option<Next> {
        let rest = self.0.read_named(claim, |entry| entry.rest.clone().filter(|rest| rest.revision == *revision))?;
        match rest.until {
            None => Some(Next::OnChange),
            Some(until) => (now < until).then(|| Next::After(until.since(now))),
        }
    }

    pub(super) fn forget(&self, claim: &NodeName) {
        self.0.forget(claim);
    }
}
