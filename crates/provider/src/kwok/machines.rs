//! The machines that exist. The API server remembers them, so they outlive the process.
//!
//! ```text
//! launch ──no delay──────────────────▶ Node ──terminate──▶ gone
//!    └─────delay──▶ record ──time is up──▲
//! ```
//!
//! A machine is a Node, or a record in a ConfigMap while its Node has not come yet. Both have the same name, which follows from
//! the claim, so a launch that is repeated finds what the first one made.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::NodeClaim;
use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Client, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;

use super::claims::Claims;
use super::index::Index;
use super::keys::{PENDING, RECORD};
use super::node;
use crate::{Instance, ProviderError, ProviderId, Termination};

/// Objects per page of a list: a large cluster's nodes must not be in memory all at once.
const PAGE: u32 = 500;
/// Nodes that are registered at the same time.
const AT_ONCE: usize = 32;

/// Keys of a record.
const NODE: &str = "node";
const APPEARS_AT: &str = "appearsAt";

pub(super) struct Machines {
    nodes: Api<Node>,
    records: Api<ConfigMap>,
    claims: Api<NodeClaim>,
    /// The Nodes that are to come, by time and name. Only a memory of the records.
    schedule: Mutex<BTreeMap<(Timestamp, String), Node>>,
    is_resumed: AtomicBool,
    /// Machines that were ended while a finalizer still holds their Node.
    terminated: Mutex<BTreeSet<String>>,
    pub(super) index: Index,
    pub(super) known_claims: Claims,
    /// Keeps a machine from registering while it is ended.
    gate: tokio::sync::Mutex<()>,
    pub(super) wake: Notify,
}

impl Machines {
    pub(super) fn new(client: &Client, namespace: &str) -> Self {
        Self {
            nodes: Api::all(client.clone()),
            records: Api::namespaced(client.clone(), namespace),
            claims: Api::all(client.clone()),
            schedule: Mutex::default(),
            is_resumed: AtomicBool::new(false),
            terminated: Mutex::default(),
            index: Index::default(),
            known_claims: Claims::default(),
            gate: tokio::sync::Mutex::default(),
            wake: Notify::new(),
        }
    }

    /// Starts a machine that registers as this Node when the delay is over, or finds the one that is there already.
    pub(super) async fn start(&self, node: Node, delay: Duration, now: Timestamp) -> Result<Instance, ProviderError> {
        let name = node.name_any();
        locked(&self.terminated).remove(&name);
        if delay.is_zero() {
            return self.create_or_find(node).await;
        }
        if let Some(found) = self.find(&name).await? {
            return Ok(found);
        }
        let appears_at = SignedDuration::try_from(delay).ok().and_then(|delay| now.checked_add(delay).ok());
        let appears_at = appears_at.unwrap_or(Timestamp::MAX);
        let record = record(&name, appears_at, &node)?;
        match self.records.create(&PostParams::default(), &record).await {
            Ok(stored) => {
                locked(&self.schedule).insert((appears_at, name), node);
                self.wake.notify_one();
                recorded(&stored)
                    .map(|(_, node)| node)
                    .and_then(|node| node::instance(&node))
                    .ok_or_else(|| unreadable(&stored))
            }
            // Somebody asked for the same machine at the same time.
            Err(error) if has_code(&error, 409) => {
                let found = self.find(&record.name_any()).await?;
                found.ok_or_else(|| ProviderError::of_kube("recording a machine", error))
            }
            Err(error) => Err(ProviderError::of_kube(format!("recording machine {}", record.name_any()), error)),
        }
    }

    async fn create_or_find(&self, node: Node) -> Result<Instance, ProviderError> {
        let name = node.name_any();
        let created = match self.nodes.create(&PostParams::default(), &node).await {
            Err(error) if has_code(&error, 409) => self.nodes.get(&name).await,
            other => other,
        };
        let created = created.map_err(|error| ProviderError::of_kube(format!("creating node {name}"), error))?;
        let problem =
            || ProviderError::invalid(format!("creating node {name}"), "a node of that name is somebody else's");
        self.index.note(&created);
        node::instance(&created).ok_or_else(problem)
    }

    /// The machine that has, or will have, the Node of this name.
    pub(super) async fn find(&self, name: &str) -> Result<Option<Instance>, ProviderError> {
        let failed = |error| ProviderError::of_kube(format!("looking for machine {name}"), error);
        match self.nodes.get_opt(name).await.map_err(failed)? {
            Some(_) if locked(&self.terminated).contains(name) => Ok(None),
            Some(node) => Ok(node::instance(&node)),
            None => {
                let record = self.records.get_opt(name).await.map_err(failed)?;
                Ok(record.and_then(|record| node::instance(&recorded(&record)?.1)))
            }
        }
    }

    /// All machines, in the order of ids.
    pub(super) async fn list(&self) -> Result<Vec<Instance>, ProviderError> {
        Ok(self.each(Instance::clone).await?.into_values().collect())
    }

    /// What is made of each machine, in the order of ids.
    async fn each<T>(&self, of: impl Fn(&Instance) -> T) -> Result<BTreeMap<ProviderId, T>, ProviderError> {
        // Records first: a Node that appears in between is then seen twice, and not missed.
        let pending = self.pending().await?;
        let pending = pending.iter().filter_map(|(_, node)| node::sketch(node));
        let mut found: BTreeMap<ProviderId, T> = pending.map(|machine| (machine.id.clone(), of(&machine))).collect();
        let mut add = |nodes: &BTreeMap<String, Instance>| {
            let mut terminated = locked(&self.terminated);
            terminated.retain(|name| nodes.contains_key(name));
            let running = nodes.iter().filter(|(name, _)| !terminated.contains(*name));
            found.extend(running.map(|(_, machine)| (machine.id.clone(), of(machine))));
        };
        if self.index.read(&mut add).is_none() {
            add(&self.listed_nodes().await?);
        }
        Ok(found)
    }

    async fn listed_nodes(&self) -> Result<BTreeMap<String, Instance>, ProviderError> {
        let mut found = BTreeMap::new();
        each_page(&self.nodes, &ListParams::default(), "listing nodes", |page: Vec<Node>| {
            found.extend(page.iter().filter_map(|node| Some((node.name_any(), node::sketch(node)?))));
        })
        .await?;
        Ok(found)
    }

    pub(super) async fn terminate(&self, id: &ProviderId) -> Result<Termination, ProviderError> {
        let doing = || format!("terminating machine {id}");
        let Some(name) = node::name_of(id) else {
            return Err(ProviderError::invalid(doing(), "it is not a machine of the simulated cloud"));
        };
        // Its Node was deleted already, and whoever holds it has been told that the machine is gone.
        if locked(&self.terminated).contains(name) || self.delete_node(name).await? {
            return Ok(Termination::Gone);
        }
        let _gate = self.gate.lock().await;
        locked(&self.schedule).retain(|(_, scheduled), _| scheduled != name);
        match self.records.delete(name, &DeleteParams::default()).await {
            Ok(_) => {}
            // No Node and no record, or the Node came in between.
            Err(error) if has_code(&error, 404) => drop(self.delete_node(name).await?),
            Err(error) => return Err(ProviderError::of_kube(doing(), error)),
        }
        Ok(Termination::Gone)
    }

    /// Deletes a machine's Node and says whether there was one. A finalizer may keep the object; the machine is gone all the same.
    async fn delete_node(&self, name: &str) -> Result<bool, ProviderError> {
        match self.nodes.delete(name, &DeleteParams::default()).await {
            Ok(_) => {
                locked(&self.terminated).insert(name.to_owned());
                Ok(true)
            }
            Err(error) if has_code(&error, 404) => {
                self.index.forget(name);
                Ok(false)
            }
            Err(error) => Err(ProviderError::of_kube(format!("deleting node {name}"), error)),
        }
    }

    /// Creates the Nodes whose time has come, and says when the next one is due.
    pub(super) async fn register_due(&self, now: Timestamp) -> Result<Option<Timestamp>, ProviderError> {
        if !self.is_resumed.load(Ordering::Acquire) {
            let pending = self.pending().await?;
            locked(&self.schedule).extend(pending.into_iter().map(|(at, node)| ((at, node.name_any()), node)));
            self.is_resumed.store(true, Ordering::Release);
        }
        let mut first_error = None;
        let _gate = self.gate.lock().await;
        let due: Vec<((Timestamp, String), Node)> = {
            let schedule = locked(&self.schedule);
            let due = schedule.iter().take_while(|((at, _), _)| *at <= now);
            due.map(|(key, node)| (key.clone(), node.clone())).collect()
        };
        for some in due.chunks(AT_ONCE) {
            let answers = join_all(some.iter().map(|(_, node)| self.register(node))).await;
            for ((key, _), answer) in some.iter().zip(answers) {
                match answer {
                    Ok(()) => drop(locked(&self.schedule).remove(key)),
                    Err(error) => first_error = first_error.or(Some(error)),
                }
            }
        }
        match first_error {
            Some(error) => Err(error),
            None => Ok(locked(&self.schedule).keys().next().map(|(at, _)| *at)),
        }
    }

    async fn register(&self, node: &Node) -> Result<(), ProviderError> {
        let name = node.name_any();
        let failed = |error| ProviderError::of_kube(format!("registering node {name}"), error);
        match self.nodes.create(&PostParams::default(), node).await {
            Ok(created) => self.index.note(&created),
            Err(error) if has_code(&error, 409) => {}
            Err(error) => return Err(failed(error)),
        }
        match self.records.delete(&name, &DeleteParams::default()).await {
            Err(error) if !has_code(&error, 404) => Err(failed(error)),
            _ => Ok(()),
        }
    }

    /// Ends machines whose claim is gone: their launch was never heard of, or their end was cut short.
    pub(super) async fn collect(&self) -> Result<(), ProviderError> {
        // Machines first: a claim is older than its machine, so one that is missing from the later list is gone.
        let machines = self.each(|machine| machine.claim.as_ref().map(|claim| claim.uid.clone())).await?;
        let orphans = |claims: &BTreeSet<String>| {
            let is_orphan = |claim: &Option<String>| claim.as_ref().is_some_and(|uid| !claims.contains(uid));
            let orphans = machines.iter().filter(|(_, claim)| is_orphan(claim));
            orphans.map(|(id, _)| id.clone()).collect::<Vec<ProviderId>>()
        };
        if self.known_claims.uids().is_some_and(|claims| orphans(&claims).is_empty()) {
            return Ok(());
        }
        for orphan in orphans(&self.listed_claims().await?) {
            self.terminate(&orphan).await?;
        }
        Ok(())
    }

    /// The ids of all claims that there are.
    async fn listed_claims(&self) -> Result<BTreeSet<String>, ProviderError> {
        let mut claims = BTreeSet::new();
        let mut continued = None;
        loop {
            let page = self.claims.list_metadata(&page_params(&ListParams::default(), continued.as_deref())).await;
            let page = page.map_err(|error| ProviderError::of_kube("listing node claims", error))?;
            claims.extend(page.items.iter().filter_map(|claim| claim.metadata.uid.clone()));
            continued = page.metadata.continue_.filter(|token| !token.is_empty());
            if continued.is_none() {
                return Ok(claims);
            }
        }
    }

    /// The Nodes that are to come.
    async fn pending(&self) -> Result<Vec<(Timestamp, Node)>, ProviderError> {
        let params = ListParams::default().labels(&format!("{RECORD}={PENDING}"));
        let mut found = Vec::new();
        each_page(&self.records, &params, "listing records of machines", |page: Vec<ConfigMap>| {
            found.extend(page.iter().filter_map(recorded));
        })
        .await?;
        Ok(found)
    }
}

async fn each_page<K>(
    api: &Api<K>,
    params: &ListParams,
    doing: &str,
    mut take: impl FnMut(Vec<K>),
) -> Result<(), ProviderError>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut continued = None;
    loop {
        let page = api.list(&page_params(params, continued.as_deref())).await;
        let page = page.map_err(|error| ProviderError::of_kube(doing, error))?;
        take(page.items);
        continued = page.metadata.continue_.filter(|token| !token.is_empty());
        if continued.is_none() {
            return Ok(());
        }
    }
}

fn page_params(params: &ListParams, continued: Option<&str>) -> ListParams {
    let params = params.clone().limit(PAGE);
    match continued {
        Some(token) => params.continue_token(token),
        None => params,
    }
}

fn record(name: &str, appears_at: Timestamp, node: &Node) -> Result<ConfigMap, ProviderError> {
    let text = serde_json::to_string(node)
        .map_err(|error| ProviderError::invalid(format!("recording machine {name}"), error))?;
    Ok(ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([(RECORD.to_owned(), PENDING.to_owned())].into()),
            ..ObjectMeta::default()
        },
        data: Some([(NODE.to_owned(), text), (APPEARS_AT.to_owned(), appears_at.to_string())].into()),
        ..ConfigMap::default()
    })
}

/// What a record says; `None` when somebody has made it unreadable. The machine has existed since the record was written.
fn recorded(record: &ConfigMap) -> Option<(Timestamp, Node)> {
    let data = record.data.as_ref()?;
    let mut node: Node = serde_json::from_str(data.get(NODE)?).ok()?;
    node.metadata.creation_timestamp = record.metadata.creation_timestamp.clone();
    Some((data.get(APPEARS_AT)?.parse().ok()?, node))
}

fn unreadable(record: &ConfigMap) -> ProviderError {
    ProviderError::invalid(format!("recording machine {}", record.name_any()), "the record came back changed")
}

fn has_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
