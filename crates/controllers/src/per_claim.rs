//! What a duty remembers of claims between looks. All of it can be lost: it is asked for again.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::NodeClaim;
use kube::ResourceExt;
use model::ids::NodeName;

/// By claim. A name may be used again, so each entry knows whose it is.
#[derive(Debug)]
pub(crate) struct PerClaim<T>(Mutex<BTreeMap<String, Entry<T>>>);

#[derive(Debug)]
struct Entry<T> {
    uid: Option<String>,
    value: T,
}

impl<T> Default for PerClaim<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Default> PerClaim<T> {
    /// What is remembered; of a claim that is new, nothing.
    pub(crate) fn read<R: Default>(&self, claim: &NodeClaim, of: impl FnOnce(&T) -> R) -> R {
        let entries = self.lock();
        let entry = entries.get(&claim.name_any()).filter(|entry| entry.uid == claim.uid());
        entry.map(|entry| of(&entry.value)).unwrap_or_default()
    }

    /// What is remembered under a name, whoever bears it now.
    pub(crate) fn read_named<R>(&self, claim: &NodeName, of: impl FnOnce(&T) -> Option<R>) -> Option<R> {
        self.lock().get(claim.as_str()).and_then(|entry| of(&entry.value))
    }

    pub(crate) fn write<R>(&self, claim: &NodeClaim, change: impl FnOnce(&mut T) -> R) -> R {
        let mut entries = self.lock();
        let new = || Entry { uid: claim.uid(), value: T::default() };
        let entry = entries.entry(claim.name_any()).or_insert_with(new);
        if entry.uid != claim.uid() {
            *entry = new();
        }
        change(&mut entry.value)
    }

    pub(crate) fn forget(&self, claim: &NodeName) {
        self.lock().remove(claim.as_str());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
