//! What is remembered of claims between looks. All of it can be lost: it is asked for again.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::NodeClaim;
use kube::ResourceExt;
use model::ids::NodeName;
use model::time::Instant;

/// By claim. A name may be used again, so each entry knows whose it is.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<BTreeMap<String, Entry>>);

#[derive(Clone, Debug, Default)]
struct Entry {
    uid: Option<String>,
    checked: Option<Instant>,
    /// Whether the cloud has said that the machine is no more.
    is_gone: bool,
    /// How often in a row hooks have asked for more time without saying how much.
    hook_waits: u32,
}

impl Memory {
    pub(super) fn checked(&self, claim: &NodeClaim) -> Option<Instant> {
        self.read(claim, |entry| entry.checked)
    }

    pub(super) fn note_check(&self, claim: &NodeClaim, now: Instant) {
        self.write(claim, |entry| entry.checked = Some(now));
    }

    pub(super) fn is_gone(&self, claim: &NodeClaim) -> bool {
        self.read(claim, |entry| entry.is_gone)
    }

    pub(super) fn note_gone(&self, claim: &NodeClaim) {
        self.write(claim, |entry| entry.is_gone = true);
    }

    /// Counts one more wait for hooks, and says which it is.
    pub(super) fn next_hook_wait(&self, claim: &NodeClaim) -> u32 {
        self.write(claim, |entry| {
            entry.hook_waits = entry.hook_waits.saturating_add(1);
            entry.hook_waits
        })
    }

    pub(super) fn forget(&self, claim: &NodeName) {
        self.lock().remove(claim.as_str());
    }

    fn read<T: Default>(&self, claim: &NodeClaim, of: impl FnOnce(&Entry) -> T) -> T {
        let entries = self.lock();
        let entry = entries.get(&claim.name_any()).filter(|entry| entry.uid == claim.uid());
        entry.map(of).unwrap_or_default()
    }

    fn write<T>(&self, claim: &NodeClaim, change: impl FnOnce(&mut Entry) -> T) -> T {
        let mut entries = self.lock();
        let entry = entries.entry(claim.name_any()).or_default();
        if entry.uid != claim.uid() {
            *entry = Entry { uid: claim.uid(), ..Entry::default() };
        }
        change(entry)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
