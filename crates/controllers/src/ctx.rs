//! What every duty works with. Passed, never global, so that the simulator can swap each part.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::labels::annotations::DO_NOT_DISRUPT;
use cluster::lower::Oddity;
use cluster::lower::node::NodeClasses;
use cluster::record::{Choice, Decision, Journal, Origin};
use cluster::{Change, Milestone, News, Step, Store};
use jiff::Timestamp;
use kube::Client;
use model::ids::PodName;
use model::time::Instant;
use provider::CloudProvider;
use provider::metered::Metered;
use runtime::{Clock, Compute, Recorder, Rng};

use crate::apis::Apis;
use crate::buffers::Rooms;
use crate::catalogs::Catalogs;
use crate::controller::TickId;
use crate::events;
use crate::metrics::{Metrics, PodBound};
use crate::pools::health::RegistrationHealth;
use crate::settings::Settings;
use crate::wakers::Wakers;

pub struct Ctx {
    pub client: Client,
    pub clock: Clock,
    /// A duty takes `ctx.cloud.for_controller(NAME)`, so that its calls are counted under its name.
    pub cloud: Metered,
    pub recorder: Recorder,
    pub metrics: Arc<Metrics>,
    pub settings: Settings,
    /// Fork it for a purpose: `ctx.rng.fork("claims")`.
    pub rng: Rng,
    pub compute: Compute,
    /// Whether pools' machines become nodes.
    pub health: RegistrationHealth,
    /// Which of the APIs that a cluster may have are there.
    pub apis: Apis,
    pub(crate) wakers: Wakers,
    pub(crate) catalogs: Catalogs,
    /// Whether buffers have their room, as the last plan found it.
    pub(crate) rooms: Rooms,
    store: Mutex<Store>,
}

/// The parts that somebody must choose.
pub struct Parts {
    pub client: Client,
    pub clock: Clock,
    pub cloud: Metered,
    pub recorder: Recorder,
    pub metrics: Arc<Metrics>,
    pub settings: Settings,
    pub rng: Rng,
    pub compute: Compute,
}

impl Ctx {
    pub fn new(parts: Parts) -> Self {
        let Parts { client, clock, cloud, recorder, metrics, settings, rng, compute } = parts;
        let store = Store::new(store_settings(&settings, &cloud), instant(clock.now()));
        let (wakers, health, apis) = (Wakers::default(), RegistrationHealth::default(), Apis::default());
        let (catalogs, rooms, store) = (Catalogs::default(), Rooms::default(), Mutex::new(store));
        Self {
            client,
            clock,
            cloud,
            recorder,
            metrics,
            settings,
            rng,
            compute,
            health,
            apis,
            wakers,
            catalogs,
            rooms,
            store,
        }
    }

    /// The time for what is written into objects.
    pub fn timestamp(&self) -> Timestamp {
        self.clock.now()
    }

    /// The time for the store and the engine.
    pub fn now(&self) -> Instant {
        instant(self.clock.now())
    }

    /// The store, for reading. Let go of it before you wait for anything; the compiler insists.
    pub fn store(&self) -> MutexGuard<'_, Store> {
        // A panic elsewhere ends the process, and each method of the store leaves it whole.
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the store what we have just done or heard, and wakes whom that concerns.
    pub fn tell(&self, news: impl FnOnce(&mut Store, Instant) -> Change) {
        let now = self.now();
        let change = news(&mut self.store(), now);
        self.pass_on(News::Change(change));
    }

    /// A name for one look at one key, the same in logs, events and annotations.
    pub fn tick_id(&self) -> TickId {
        TickId::draw(&self.rng)
    }

    /// Writes down all that duties are told and all that they decide. Call it before anything runs.
    pub fn start_recording(&self, journal: Journal, origin: Origin) {
        self.store().record(journal, origin);
    }

    /// Notes a decision for those who want to see it made again. Without a recording it is not even put into words.
    pub(crate) fn record(&self, id: &TickId, choice: impl FnOnce() -> Choice) {
        if !self.store().is_recording() {
            return;
        }
        let decision = Decision::new(id.as_str(), choice());
        let now = self.now();
        self.store().note_decision(decision, now);
    }

    pub(crate) fn shared_store(&self) -> &Mutex<Store> {
        &self.store
    }

    /// What comes of a fact: somebody is woken, told or measured.
    pub(crate) fn pass_on(&self, news: News) {
        match news {
            News::Change(change) => {
                change.milestones.iter().for_each(|milestone| self.measure(milestone));
                change.wake.iter().for_each(|duty| self.wakers.wake(duty));
                for oddity in &change.oddities {
                    tracing::warn!(%oddity, "an object cannot be understood in full");
                    self.tell_odd_wish(oddity);
                }
            }
            News::Undecodable(object) => {
                tracing::warn!(object = %object.key, problem = %object.problem, "skipping an object that cannot be read");
                self.recorder.publish(events::undecodable(&object));
            }
        }
    }

    /// A pod has come a step further.
    fn measure(&self, milestone: &Milestone) {
        let dynamic_resources = {
            let store = self.store();
            store.pod(&milestone.pod).is_some_and(|(pod, _)| pod.wants.has_resource_claims)
        };
        let labels = PodBound { dynamic_resources };
        match milestone.step {
            Step::Bound => {
                let waited = milestone.waited.as_secs_f64();
                self.metrics.pods_bound_duration.get_or_create(&labels).observe(waited);
                if let Some(time) = milestone.since_placed {
                    let since = time.as_secs_f64();
                    self.metrics.pods_provisioning_bound_duration.get_or_create(&labels).observe(since);
                }
            }
            Step::Started => {
                self.metrics.pods_startup_duration.observe(&[], milestone.waited.as_secs_f64());
                if let Some(time) = milestone.since_placed {
                    self.metrics.pods_provisioning_startup_duration.observe(time.as_secs_f64());
                }
            }
        }
    }
}

impl Ctx {
    /// A wish not to be disturbed that makes no sense protects nothing, and the pod's owner should know.
    fn tell_odd_wish(&self, oddity: &Oddity) {
        if !oddity.field.contains(DO_NOT_DISRUPT) {
            return;
        }
        let Some((namespace, name)) = oddity.object.strip_prefix("Pod ").and_then(|name| name.split_once('/')) else {
            return;
        };
        let pod = self.store().pod(&PodName::new(namespace, name)).map(|(pod, _)| pod.clone());
        if let Some(pod) = pod {
            self.recorder.publish(events::invalid_do_not_disrupt(&pod, &oddity.text));
        }
    }
}

/// What the store must know of the operator's and the cloud's choices.
fn store_settings(settings: &Settings, cloud: &dyn CloudProvider) -> cluster::Settings {
    let keys = cloud.label_keys();
    let kinds = cloud.node_class_kinds().iter().map(|kind| (kind.group, kind.kind));
    cluster::Settings {
        classes: NodeClasses::new(kinds),
        rules: keys.to_rules(),
        well_known: Arc::new(keys.to_well_known()),
        policy: settings.policy,
        default_spread: settings.default_spread.clone(),
        nomination: settings.nomination(),
        ..cluster::Settings::default()
    }
}

/// The model knows no calendar library.
pub fn instant(time: Timestamp) -> Instant {
    Instant::from_unix_nanos(time.as_nanosecond())
}

/// The same moment as the API writes it.
pub fn timestamp(time: Instant) -> Timestamp {
    Timestamp::from_nanosecond(time.unix_nanos()).unwrap_or(Timestamp::MAX)
}
