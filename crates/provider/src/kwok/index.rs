//! The Nodes of our machines as a watch shows them, so that nobody has to list them all every time.
//!
//! While the watch has not shown everything, or has ended, the index says that it does not know, and Nodes are listed.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::{Client, ResourceExt};
use runtime::Rng;
use runtime::watch::{self, Event, Seen, Target};

use super::node;
use crate::{Instance, ProviderError};

#[derive(Default)]
pub(super) struct Index {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    machines: BTreeMap<String, Instance>,
    is_complete: bool,
}

impl Index {
    /// Follows Nodes for as long as the watch lasts; each that comes or changes is told.
    pub(super) async fn round(&self, client: Client, rng: Rng, told: impl Fn(&Node)) -> Result<(), ProviderError> {
        // Whoever drops this future must not leave an index behind that nobody keeps up to date.
        let _ended = Ended(self);
        let decode = |seen: Seen<'_>| serde_json::from_str::<Node>(&seen.json());
        let mut events = watch::watch(client, Target::of::<Node>(), watch::Settings::default(), rng, decode);
        while let Some(event) = events.next().await {
            if let Event::Applied(node) = &event {
                told(node);
            }
            let mut state = self.state();
            match event {
                Event::Restarted | Event::Absent => *state = State::default(),
                Event::Listed => state.is_complete = true,
                Event::Applied(node) => state.put(&node),
                Event::Deleted(id) | Event::Undecodable { id, .. } => drop(state.machines.remove(&id.name)),
            }
        }
        Ok(())
    }

    /// What we have written ourselves is known before the watch shows it.
    pub(super) fn note(&self, node: &Node) {
        self.state().put(node);
    }

    /// There is no Node of this name, whatever was noted.
    pub(super) fn forget(&self, name: &str) {
        self.state().machines.remove(name);
    }

    /// What is made of the machines, by the names of their Nodes; `None` when they are not known.
    pub(super) fn read<T>(&self, read: impl FnOnce(&BTreeMap<String, Instance>) -> T) -> Option<T> {
        let state = self.state();
        state.is_complete.then(|| read(&state.machines))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn put(&mut self, node: &Node) {
        match node::sketch(node) {
            Some(instance) => drop(self.machines.insert(node.name_any(), instance)),
            None => drop(self.machines.remove(&node.name_any())),
        }
    }
}

struct Ended<'a>(&'a Index);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        *self.0.state() = State::default();
    }
}
