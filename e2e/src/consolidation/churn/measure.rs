//! One run: a fresh cluster, an autoscaler, and pods that are replaced one after the other.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};
use serde::Serialize;

use super::super::measure::{Bill, Stage, bill, fresh_cluster};
use super::super::watching::Watched;
use super::super::{Patience, kept, objects};
use super::Contest;
use super::scenario::{self, End, WORKLOADS};
use super::tally::{Level, Tally};
use crate::{Autoscaler, Which, client};

/// Longer than from one move to the next: 10 s between two looks, 15 s for the second look, and a machine.
const SETTLED: Patience = Patience { quiet: Duration::from_secs(30), limit: Duration::from_secs(600) };

/// What one run showed, from the first pod that ended until the time was over.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    pub which: Which,
    /// Tells one build from another.
    pub binary: String,
    pub pods_replaced: usize,
    pub evictions: usize,
    /// Claims that somebody wanted to go, whether they went or not.
    pub claims_disrupted: usize,
    pub nodes_made: usize,
    pub nodes_gone: usize,
    pub fewest_ready: usize,
    pub before: Bill,
    pub after: Bill,
    pub average_dollars_per_hour: f64,
    /// The controller's, in this time.
    pub cpu_seconds: f64,
    pub peak_megabytes: f64,
}

pub(super) fn run(which: Which, contest: &Contest) -> Result<Run> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting")?;
    runtime.block_on(measure(which, contest)).with_context(|| format!("{which:?} while pods are replaced"))
}

async fn measure(which: Which, contest: &Contest) -> Result<Run> {
    let binary = kept::fingerprint(&which.binary()?)?;
    let cluster = fresh_cluster()?;
    let client = client(&cluster).await?;
    let autoscaler = Autoscaler::start(&cluster, which)?;
    let mut watched = settle(&Stage { cluster: &cluster, client: &client }).await?;
    let before = bill(watched.seen());
    let used = autoscaler.usage()?;
    let pods = Api::namespaced(client, "default");
    let (replaced, tally, end) = churn(&mut watched, &pods, contest.length()).await?;
    let usage = autoscaler.usage()?;
    // The log goes with the cluster, and says why nodes went.
    let log = contest.out.with_extension(format!("{which:?}.log").to_lowercase());
    std::fs::write(&log, autoscaler.log()).with_context(|| format!("writing {}", log.display()))?;
    let seen = watched.seen();
    Ok(Run {
        which,
        binary,
        pods_replaced: replaced,
        evictions: seen.evictions(),
        claims_disrupted: seen.claims_disrupted(),
        nodes_made: seen.nodes_made(),
        nodes_gone: seen.nodes_gone(),
        fewest_ready: tally.fewest_ready(),
        before,
        after: bill(seen),
        average_dollars_per_hour: tally.average_dollars_per_hour(end),
        cpu_seconds: (usage.cpu - used.cpu).as_secs_f64(),
        peak_megabytes: usage.peak_bytes as f64 / 1e6,
    })
}

/// Brings in the pods and their machines, and waits as long as the scenario does, and at least until nothing moves any more.
async fn settle(stage: &Stage<'_>) -> Result<Watched> {
    stage.apply(&objects::class())?;
    stage.pool(scenario::CONSOLIDATE_AFTER)?;
    let mut watched = Watched::new(stage.client).await?;
    let begun = Instant::now();
    for (kind, replicas) in WORKLOADS {
        stage.apply(&kind.deployment(replicas))?;
    }
    let pods: usize = WORKLOADS.iter().map(|(_, replicas)| replicas).sum();
    let ending = watched.rest(pods, begun, &SETTLED).await?;
    ensure!(ending.is_at_rest, "the cluster did not settle before pods were replaced: {}", watched.seen().describe());
    watched.until(begun + scenario::SETTLE, |_, _| {}).await?;
    Ok(watched)
}

/// Ends pods for so long. Says how many, what the time came to, and when it was over.
async fn churn(watched: &mut Watched, pods: &Api<Pod>, length: Duration) -> Result<(usize, Tally, Instant)> {
    let begun = watched.begin();
    let end = begun + length;
    let mut tally = Tally::begin(begun, Level::of(watched.seen()));
    let mut replaced = 0;
    for next in scenario::ends(length) {
        watched.until(begun + next.at, |now, seen| tally.see(now, Level::of(seen))).await?;
        replaced += usize::from(end_one(pods, next).await?);
    }
    watched.until(end, |now, seen| tally.see(now, Level::of(seen))).await?;
    Ok((replaced, tally, end))
}

/// Ends a pod without evicting it; its owner brings another one. False if there was none to end.
async fn end_one(pods: &Api<Pod>, End { kind, .. }: End) -> Result<bool> {
    let of_kind = ListParams::default().labels(&format!("app={}", kind.name));
    let list = pods.list(&of_kind).await.with_context(|| format!("listing pods of {}", kind.name))?;
    let Some(oldest) = scenario::oldest(&list.items) else { return Ok(false) };
    match pods.delete(&oldest.name_any(), &DeleteParams::default()).await {
        Ok(_) => Ok(true),
        // Somebody evicted it at this very moment.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error).with_context(|| format!("ending a pod of {}", kind.name)),
    }
}
