//! What a test or a simulation decides about the simulated cloud while it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use model::price::Price;
use tokio::sync::Notify;

use crate::OfferingKey;

/// How long a cloud is not asked again for what it had just run out of.
const REMEMBERED: SignedDuration = SignedDuration::from_mins(3);

/// Facts that can be set. Everything else about the simulated cloud follows from its menu and its objects.
#[derive(Debug, Default)]
pub struct Facts {
    state: Mutex<State>,
    /// Woken when images change.
    pub(super) changed: Notify,
}

/// Prices that are no longer those of the menu.
pub(super) type Prices = Arc<BTreeMap<OfferingKey, Price>>;

/// How long the cloud takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// Until a launch is answered.
    pub launch: Duration,
    /// From then on until the machine's Node appears, for classes that say nothing about it.
    pub registration: Duration,
}

#[derive(Debug, Default)]
struct State {
    sold_out: BTreeSet<OfferingKey>,
    /// What launches have found out, and until when that is believed.
    noticed: BTreeMap<OfferingKey, Timestamp>,
    releases: BTreeMap<String, String>,
    prices: Prices,
    delays: Delays,
}

impl Facts {
    /// Takes an offering off the shelf. The catalogue shows it until a launch has failed to get it.
    pub fn sell_out(&self, key: OfferingKey) {
        self.state().sold_out.insert(key);
    }

    /// Puts an offering back on the shelf. The catalogue shows it again after three minutes, as a cloud's would.
    pub fn restock(&self, key: &OfferingKey) {
        self.state().sold_out.remove(key);
    }

    /// Publishes a new release of an image family, such as `al2023`. Machines of the release before have drifted.
    pub fn publish(&self, family: &str, release: &str) {
        self.state().releases.insert(family.to_owned(), release.to_owned());
        self.changed.notify_waiters();
    }

    /// Changes what an offering costs, for machines that run and for those to come.
    pub fn set_price(&self, key: OfferingKey, price: Price) {
        Arc::make_mut(&mut self.state().prices).insert(key, price);
    }

    /// Says how long launches and registrations take from now on.
    pub fn set_delays(&self, delays: Delays) {
        self.state().delays = delays;
    }

    pub(super) fn prices(&self) -> Prices {
        self.state().prices.clone()
    }

    pub(super) fn delays(&self) -> Delays {
        self.state().delays
    }

    /// The release that `latest` means.
    pub(super) fn release(&self, family: &str) -> Option<String> {
        self.state().releases.get(family).cloned()
    }

    /// Whether a machine can be had this way. A refusal is remembered.
    pub(super) fn is_open(&self, key: &OfferingKey, now: Timestamp) -> bool {
        let mut state = self.state();
        let is_open = !state.sold_out.contains(key);
        if !is_open {
            state.noticed.insert(key.clone(), now.saturating_add(REMEMBERED).unwrap_or(Timestamp::MAX));
        }
        is_open
    }

    /// What the catalogue should show as not available.
    pub(super) fn noticed(&self, now: Timestamp) -> BTreeSet<OfferingKey> {
        let mut state = self.state();
        state.noticed.retain(|_, until| *until > now);
        state.noticed.keys().cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
