//! The claims that there are, as a watch shows them: only their ids, to see whether a machine may have lost its claim.
//!
//! A watch may lag, so nothing is ended on its word: it only spares us a list of all claims while nothing is amiss.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::NodeClaim;
use futures::StreamExt;
use kube::Client;
use runtime::Rng;
use runtime::watch::{self, Event, Seen, Target};
use serde::Deserialize;

use crate::ProviderError;

#[derive(Default)]
pub(super) struct Claims {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By name.
    uids: BTreeMap<String, String>,
    is_complete: bool,
}

/// The little that is read of a claim.
#[derive(Deserialize)]
struct Named {
    metadata: Identity,
}

#[derive(Deserialize)]
struct Identity {
    name: String,
    #[serde(default)]
    uid: String,
}

impl Claims {
    /// Follows claims for as long as the watch lasts.
    pub(super) async fn round(&self, client: Client, rng: Rng) -> Result<(), ProviderError> {
        let _ended = Ended(self);
        let decode = |seen: Seen<'_>| serde_json::from_str::<Named>(&seen.json()).map(|claim| claim.metadata);
        let mut events = watch::watch(client, Target::of::<NodeClaim>(), watch::Settings::default(), rng, decode);
        while let Some(event) = events.next().await {
            let mut state = self.state();
            match event {
                Event::Restarted | Event::Absent => *state = State::default(),
                Event::Listed => state.is_complete = true,
                Event::Applied(claim) => drop(state.uids.insert(claim.name, claim.uid)),
                Event::Deleted(id) => drop(state.uids.remove(&id.name)),
                // Whoever cannot be read is there all the same.
                Event::Undecodable { id, .. } => drop(state.uids.insert(id.name, id.uid)),
            }
        }
        Ok(())
    }

    /// The ids of all claims; `None` when they are not known.
    pub(super) fn uids(&self) -> Option<BTreeSet<String>> {
        let state = self.state();
        state.is_complete.then(|| state.uids.values().cloned().collect())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whoever drops the round must not leave ids behind that nobody keeps up to date.
struct Ended<'a>(&'a Claims);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        *self.0.state() = State::default();
    }
}
