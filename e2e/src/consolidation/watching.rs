//! What comes, goes and moves in a cluster, seen through watches: lists of so many pods would slow the API server down.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use api::NodeClaim;
use futures::stream::{self, LocalBoxStream, Stream, StreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::Patience;
use super::objects::SELECTOR;

/// What a node costs, as viewers of the simulated cloud read it; both sides write it.
const PRICE: &str = "eks-node-viewer/instance-price";
const DISRUPTED: &str = "karpenter.sh/disrupted";
/// The API server ends a watch after so long; before that we begin the next.
const WATCH_SECONDS: u32 = 280;

/// A cluster, as the watches tell it.
pub(super) struct Watched {
    changes: LocalBoxStream<'static, Result<Change>>,
    claims: BTreeMap<String, Presence>,
    nodes: BTreeMap<String, (Presence, f64)>,
    pods: BTreeMap<String, Place>,
    /// By uid: a pod that is evicted twice is the same eviction.
    evicted: BTreeSet<String>,
    /// When a claim or a node last came or went.
    last_change: Instant,
    /// When a pod last got its node.
    last_bound: Instant,
    claims_made: usize,
}

#[expect(clippy::large_enum_variant, reason = "one lives at a time")]
enum Change {
    Claim(WatchEvent<NodeClaim>),
    Node(WatchEvent<Node>),
    Pod(WatchEvent<Pod>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Stays,
    /// It is on its way out, or closed to new pods because somebody wants it to go.
    Leaves,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Waiting,
    Running,
    Leaving,
}

/// How a wait for rest ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ending {
    pub(super) is_at_rest: bool,
    /// When the last thing happened, or when patience ended.
    pub(super) at: Instant,
}

impl Watched {
    pub(super) async fn new(client: &Client) -> Result<Self> {
        let of_pods = ListParams::default().labels(SELECTOR);
        let (claims, claim_changes) = follow::<NodeClaim>(client, ListParams::default()).await?;
        let (nodes, node_changes) = follow::<Node>(client, ListParams::default()).await?;
        let (pods, pod_changes) = follow::<Pod>(client, of_pods).await?;
        let changes = stream::select_all([
            claim_changes.map(|event| event.map(Change::Claim)).boxed_local(),
            node_changes.map(|event| event.map(Change::Node)).boxed_local(),
            pod_changes.map(|event| event.map(Change::Pod)).boxed_local(),
        ]);
        let now = Instant::now();
        let mut watched = Self {
            changes: Box::pin(changes),
            claims: BTreeMap::new(),
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            evicted: BTreeSet::new(),
            last_change: now,
            last_bound: now,
            claims_made: 0,
        };
        claims.into_iter().for_each(|claim| watched.see_claim(&claim));
        nodes.into_iter().for_each(|node| watched.see_node(&node));
        pods.into_iter().for_each(|pod| watched.see_pod(&pod));
        Ok(watched)
    }

    /// Counts from here on.
    pub(super) fn begin(&mut self) -> Instant {
        self.evicted.clear();
        self.claims_made = 0;
        let now = Instant::now();
        (self.last_change, self.last_bound) = (now, now);
        now
    }

    pub(super) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn dollars_per_hour(&self) -> f64 {
        // In the order of the names, so that equal nodes give equal sums.
        self.nodes.values().map(|(_, price)| price).sum()
    }

    pub(super) fn evictions(&self) -> usize {
        self.evicted.len()
    }

    pub(super) fn claims_made(&self) -> usize {
        self.claims_made
    }

    /// Waits until so many pods run, none waits or leaves, no node or claim is about to go, and nothing has come or gone for a
    /// while. The time of rest is that of the last thing that came, went or was bound, not that of our being sure of it.
    pub(super) async fn rest(&mut self, pods: usize, since: Instant, patience: &Patience) -> Result<Ending> {
        let limit = since + patience.limit;
        loop {
            let last = self.last_change.max(self.last_bound);
            // A wait is over when it has been quiet; a place that is not settled yet waits for its next change.
            let sure = last + patience.quiet;
            let is_settled = self.is_settled(pods);
            let now = Instant::now();
            if is_settled && now >= sure {
                return Ok(Ending { is_at_rest: true, at: last });
            }
            if last >= limit || (now >= limit && !is_settled) || now >= limit + patience.quiet {
                return Ok(Ending { is_at_rest: false, at: limit });
            }
            let until = if is_settled { sure } else { limit };
            let next = tokio::time::timeout_at(until.into(), self.changes.next()).await;
            match next {
                Ok(Some(change)) => self.see(change?)?,
                Ok(None) => bail!("the watches have ended"),
                Err(_) => {}
            }
        }
    }

    fn is_settled(&self, pods: usize) -> bool {
        let stays = |presence: &Presence| *presence == Presence::Stays;
        self.pods.len() == pods
            && self.pods.values().all(|place| *place == Place::Running)
            && self.claims.values().all(stays)
            && self.nodes.values().all(|(presence, _)| stays(presence))
            && self.claims.len() == self.nodes.len()
    }

    /// For people, when something does not come to rest.
    pub(super) fn describe(&self) -> String {
        let count = |wanted: Place| self.pods.values().filter(|place| **place == wanted).count();
        let leaving = self.nodes.values().filter(|(presence, _)| *presence == Presence::Leaves).count();
        format!(
            "{} claims, {} nodes of which {leaving} are leaving, pods: {} run, {} wait, {} leave",
            self.claims.len(),
            self.nodes.len(),
            count(Place::Running),
            count(Place::Waiting),
            count(Place::Leaving)
        )
    }

    fn see(&mut self, change: Change) -> Result<()> {
        match change {
            Change::Claim(WatchEvent::Added(claim) | WatchEvent::Modified(claim)) => self.see_claim(&claim),
            Change::Claim(WatchEvent::Deleted(claim)) => {
                self.claims.remove(&claim.name_any());
                self.last_change = Instant::now();
            }
            Change::Node(WatchEvent::Added(node) | WatchEvent::Modified(node)) => self.see_node(&node),
            Change::Node(WatchEvent::Deleted(node)) => {
                self.nodes.remove(&node.name_any());
                self.last_change = Instant::now();
            }
            Change::Pod(WatchEvent::Added(pod) | WatchEvent::Modified(pod)) => self.see_pod(&pod),
            Change::Pod(WatchEvent::Deleted(pod)) => {
                self.see_pod(&pod);
                self.pods.remove(&pod.name_any());
            }
            Change::Claim(WatchEvent::Error(error))
            | Change::Node(WatchEvent::Error(error))
            | Change::Pod(WatchEvent::Error(error)) => bail!("a watch was ended: {}", error.message),
            _ => {}
        }
        Ok(())
    }

    fn see_claim(&mut self, claim: &NodeClaim) {
        let presence = presence_of(claim);
        if self.claims.insert(claim.name_any(), presence).is_none() {
            self.last_change = Instant::now();
            self.claims_made += 1;
        }
    }

    fn see_node(&mut self, node: &Node) {
        let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        let is_closed = taints.into_iter().any(|taint| taint.key == DISRUPTED);
        let presence = if is_closed { Presence::Leaves } else { presence_of(node) };
        let price = node.labels().get(PRICE).and_then(|price| price.parse().ok()).unwrap_or_default();
        if self.nodes.insert(node.name_any(), (presence, price)).is_none() {
            self.last_change = Instant::now();
        }
    }

    fn see_pod(&mut self, pod: &Pod) {
        let conditions = || pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let holds = |type_: &str| conditions().any(|condition| condition.type_ == type_ && condition.status == "True");
        // The API server says so of every pod that was evicted through it.
        if holds("DisruptionTarget") {
            self.evicted.extend(pod.uid());
        }
        let place = match (pod.metadata.deletion_timestamp.is_some(), holds("Ready")) {
            (true, _) => Place::Leaving,
            (false, true) => Place::Running,
            (false, false) => Place::Waiting,
        };
        let before = self.pods.insert(pod.name_any(), place);
        if place == Place::Running && before != Some(Place::Running) {
            self.last_bound = Instant::now();
        }
    }
}

fn presence_of(object: &impl ResourceExt) -> Presence {
    if object.meta().deletion_timestamp.is_some() { Presence::Leaves } else { Presence::Stays }
}

/// What is there, and all that happens from then on.
async fn follow<K>(
    client: &Client,
    of: ListParams,
) -> Result<(Vec<K>, impl Stream<Item = Result<WatchEvent<K>>> + use<K>)>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + 'static,
{
    let api: Api<K> = Api::all(client.clone());
    let list = api.list(&of).await.with_context(|| format!("listing {}", K::plural(&())))?;
    let version = list.metadata.resource_version.clone().context("a list without a version")?;
    let mut params = WatchParams::default().timeout(WATCH_SECONDS);
    params.label_selector = of.label_selector;
    let state = Following { api, params, version, events: None };
    let events = stream::try_unfold(state, async |mut state| Ok(Some((state.next().await?, state))));
    Ok((list.items, events))
}

struct Following<K> {
    api: Api<K>,
    params: WatchParams,
    version: String,
    events: Option<LocalBoxStream<'static, kube::Result<WatchEvent<K>>>>,
}

impl<K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + 'static> Following<K> {
    async fn next(&mut self) -> Result<WatchEvent<K>> {
        let mut tries = 0;
        loop {
            let Some(events) = &mut self.events else {
                let events = self.api.watch(&self.params, &self.version).await;
                self.events = Some(Box::pin(events.context("watching")?));
                continue;
            };
            match events.next().await {
                Some(Ok(event)) => {
                    self.note(&event);
                    return Ok(event);
                }
                Some(Err(error)) => {
                    tries += 1;
                    ensure!(tries < 5, "a watch fails again and again: {error}");
                    self.events = None;
                }
                None => self.events = None,
            }
        }
    }

    /// The next watch begins where this one is.
    fn note(&mut self, event: &WatchEvent<K>) {
        let version = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                object.resource_version()
            }
            WatchEvent::Bookmark(bookmark) => Some(bookmark.metadata.resource_version.clone()),
            WatchEvent::Error(_) => None,
        };
        self.version = version.unwrap_or_else(|| std::mem::take(&mut self.version));
    }
}
