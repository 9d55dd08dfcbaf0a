//! One run: a fresh cluster, perhaps an autoscaler, and pods that wait.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use serde::Serialize;

use super::objects;
use crate::{Autoscaler, Cluster, Which, client};

/// What a node costs, as viewers of the simulated cloud read it; both sides write it.
const PRICE: &str = "eks-node-viewer/instance-price";
/// The slowest that was ever seen is a minute.
const BOUND_WITHIN: Duration = Duration::from_secs(600);
const READY_WITHIN: Duration = Duration::from_secs(120);
/// What is started settles before the pods come.
const SETTLE: Duration = Duration::from_secs(3);
/// The API server ends a watch after so long; before that we begin the next.
const WATCH_SECONDS: u32 = 280;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// Nodes that are there and ready before the pods come.
    Floor,
    Dovetail,
    Reference,
}

/// What one run showed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    pub subject: Subject,
    pub pods: usize,
    /// From the creation of the Deployment until the first pod has a node.
    pub first_bound_seconds: f64,
    /// The same for the last one.
    pub all_bound_seconds: f64,
    /// The controller's, from its start; nothing for the floor.
    pub cpu_seconds: f64,
    pub peak_megabytes: f64,
    pub nodes: usize,
    pub dollars_per_hour: f64,
}

pub fn run(subject: Subject, pods: usize) -> Result<Run> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting")?;
    runtime.block_on(measure(subject, pods)).with_context(|| format!("{subject:?} with {pods} pods"))
}

async fn measure(subject: Subject, pods: usize) -> Result<Run> {
    // Nodes must not be given up because a machine this busy is late with a heartbeat.
    let cluster = Cluster::start_with(&["--controller-manager-arg=--node-monitor-grace-period=300s"])?;
    let client = client(&cluster).await?;
    let autoscaler = prepare(&cluster, &client, subject, pods).await?;
    tokio::time::sleep(SETTLE).await;
    let deployment = objects::deployment(pods);
    let start = Instant::now();
    cluster.apply(&deployment)?;
    let (first, last) = wait_until_bound(&client, pods, start).await?;
    let usage = autoscaler.as_ref().map(Autoscaler::usage).transpose()?;
    let (nodes, dollars_per_hour) = nodes_and_price(&client).await?;
    Ok(Run {
        subject,
        pods,
        first_bound_seconds: first.as_secs_f64(),
        all_bound_seconds: last.as_secs_f64(),
        cpu_seconds: usage.map_or(0.0, |usage| usage.cpu.as_secs_f64()),
        peak_megabytes: usage.map_or(0.0, |usage| usage.peak_bytes as f64 / 1e6),
        nodes,
        dollars_per_hour,
    })
}

/// Brings in what must be there before the pods.
async fn prepare(cluster: &Cluster, client: &Client, subject: Subject, pods: usize) -> Result<Option<Autoscaler>> {
    let which = match subject {
        Subject::Floor => {
            let (count, nodes) = objects::nodes(pods);
            cluster.apply(&nodes)?;
            wait_until_ready(client, count).await?;
            return Ok(None);
        }
        Subject::Dovetail => Which::Dovetail,
        Subject::Reference => Which::Reference,
    };
    let autoscaler = Autoscaler::start(cluster, which)?;
    cluster.apply(objects::POOL)?;
    cluster.succeed(&["wait", "--for=condition=Ready", "nodepool/default", "--timeout=60s"])?;
    Ok(Some(autoscaler))
}

/// Polls, which is cheap for nodes and long before anything is measured.
async fn wait_until_ready(client: &Client, count: usize) -> Result<()> {
    let api: Api<Node> = Api::all(client.clone());
    let deadline = Instant::now() + READY_WITHIN;
    loop {
        let nodes = api.list(&ListParams::default()).await.context("listing nodes")?;
        let is_ready = |node: &&Node| {
            let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
            conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
        };
        if nodes.iter().filter(is_ready).count() >= count {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{count} nodes were not ready after {READY_WITHIN:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// When the first pod and when the last one had a node. It watches, because lists of so many pods would slow the server down.
async fn wait_until_bound(client: &Client, pods: usize, start: Instant) -> Result<(Duration, Duration)> {
    let api: Api<Pod> = Api::namespaced(client.clone(), "default");
    let (mut bound, mut first) = (BTreeSet::new(), None);
    let deadline = tokio::time::Instant::from_std(start + BOUND_WITHIN);
    loop {
        let params = WatchParams::default().labels(objects::SELECTOR).timeout(WATCH_SECONDS);
        // From version 0 the server sends what is there already, so nothing is missed between two watches.
        let events = api.watch(&params, "0").await.context("watching pods")?;
        let mut events = pin!(events);
        loop {
            let Ok(next) = tokio::time::timeout_at(deadline, events.try_next()).await else {
                bail!("only {} of {pods} pods had a node after {BOUND_WITHIN:?}", bound.len());
            };
            let pod = match next {
                Ok(Some(WatchEvent::Added(pod) | WatchEvent::Modified(pod))) => pod,
                Ok(Some(_)) => continue,
                Ok(None) | Err(_) => break,
            };
            if pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()) && bound.insert(pod.name_any()) {
                first.get_or_insert_with(|| start.elapsed());
            }
            if bound.len() >= pods {
                let last = start.elapsed();
                return Ok((first.unwrap_or(last), last));
            }
        }
    }
}

async fn nodes_and_price(client: &Client) -> Result<(usize, f64)> {
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await.context("listing nodes")?;
    let price = |node: &Node| node.labels().get(PRICE).and_then(|price| price.parse::<f64>().ok());
    Ok((nodes.items.len(), nodes.iter().filter_map(price).fold(0.0, |sum, price| sum + price)))
}
