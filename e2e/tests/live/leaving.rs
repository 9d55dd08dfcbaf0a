//! What is told of nodes while others try to take them away: how many leave at the same time, and how many there are.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use e2e::Cluster;
use futures::TryStreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};

/// Watches the nodes of one pool for as long as it lives; no moment between two looks is missed.
pub(crate) struct Nodes {
    seen: Arc<Mutex<Seen>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// The nodes that are there, and whether each is on its way out.
    pub(crate) nodes: BTreeMap<String, bool>,
    /// The instance types of those that are there.
    pub(crate) types: BTreeMap<String, String>,
    /// When each that ever left began to.
    pub(crate) began: BTreeMap<String, Timestamp>,
    /// All that ever were.
    pub(crate) ever: BTreeSet<String>,
    pub(crate) most_at_once: usize,
    pub(crate) most_leaving: usize,
    /// The fewest that were ready and not being deleted, from the first moment at which as many as asked for were.
    pub(crate) fewest_serving: Option<usize>,
}

impl Nodes {
    /// `serving` says from how many ready nodes on the fewest are counted. Nodes that are there already are seen at once.
    pub(crate) fn watch(cluster: &Cluster, pool: &str, serving: usize) -> Self {
        let (seen, ends) = (Arc::<Mutex<Seen>>::default(), Arc::<AtomicBool>::default());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = runtime.block_on(e2e::client(cluster)).unwrap();
        let selector = format!("karpenter.sh/nodepool={pool}");
        let mut watch = Watch { api: Api::all(client), selector, serving, states: BTreeMap::new(), told: seen.clone() };
        let version = runtime.block_on(watch.list());
        let until = ends.clone();
        let thread = std::thread::spawn(move || runtime.block_on(watch.follow(version, &until)));
        Self { seen, ends, thread: Some(thread) }
    }

    pub(crate) fn seen(&self) -> Seen {
        assert!(self.thread.as_ref().is_some_and(|thread| !thread.is_finished()), "the watch has ended");
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

struct Watch {
    api: Api<Node>,
    selector: String,
    serving: usize,
    states: BTreeMap<String, State>,
    told: Arc<Mutex<Seen>>,
}

impl Watch {
    /// What is there now, and the version of the list.
    async fn list(&mut self) -> String {
        let list = self.api.list(&ListParams::default().labels(&self.selector)).await.unwrap();
        self.states = list.iter().map(|node| (node.name_any(), State::of(node))).collect();
        self.tell();
        list.metadata.resource_version.unwrap()
    }

    async fn follow(mut self, mut version: String, ends: &AtomicBool) {
        let params = WatchParams::default().labels(&self.selector).timeout(290);
        while !ends.load(Ordering::Relaxed) {
            let mut events = pin!(self.api.watch(&params, &version).await.unwrap());
            while !ends.load(Ordering::Relaxed) {
                let next = tokio::time::timeout(Duration::from_millis(200), events.try_next()).await;
                let Ok(next) = next else { continue };
                // The server ends a watch after a while; the next one goes on where this one was.
                let Some(event) = next.unwrap() else { break };
                match event {
                    WatchEvent::Added(node) | WatchEvent::Modified(node) => {
                        version = node.resource_version().unwrap();
                        self.states.insert(node.name_any(), State::of(&node));
                    }
                    WatchEvent::Deleted(node) => {
                        version = node.resource_version().unwrap();
                        self.states.remove(&node.name_any());
                    }
                    WatchEvent::Bookmark(mark) => version = mark.metadata.resource_version,
                    WatchEvent::Error(error) => panic!("the watch of nodes was ended: {}", error.message),
                }
                self.tell();
            }
        }
    }

    fn tell(&self) {
        let (states, mut seen) = (&self.states, self.told.lock().unwrap());
        seen.nodes = states.iter().map(|(name, state)| (name.clone(), state.is_leaving)).collect();
        seen.types = states.iter().map(|(name, state)| (name.clone(), state.type_name.clone())).collect();
        let now = Timestamp::now();
        for (name, _) in states.iter().filter(|(_, state)| state.is_leaving) {
            seen.began.entry(name.clone()).or_insert(now);
        }
        seen.ever.extend(states.keys().cloned());
        seen.most_at_once = seen.most_at_once.max(states.len());
        seen.most_leaving = seen.most_leaving.max(states.values().filter(|state| state.is_leaving).count());
        let served = states.values().filter(|state| state.is_serving).count();
        if seen.fewest_serving.is_some() || served >= self.serving {
            seen.fewest_serving = Some(seen.fewest_serving.unwrap_or(usize::MAX).min(served));
        }
    }
}

struct State {
    /// Pods on it run, whether or not it takes new ones.
    is_serving: bool,
    is_leaving: bool,
    type_name: String,
}

impl State {
    fn of(node: &Node) -> Self {
        let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let mut taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        let is_ready = conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
        let is_deleted = node.metadata.deletion_timestamp.is_some();
        let is_closed = taints.any(|taint| taint.key == "karpenter.sh/disrupted");
        let type_name = node.labels().get("node.kubernetes.io/instance-type").cloned().unwrap_or_default();
        Self { is_serving: is_ready && !is_deleted, is_leaving: is_deleted || is_closed, type_name }
    }
}
