//! One run: a fresh cluster, an autoscaler, a story, and the wait for rest.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use api::NodeClaim;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, PostParams};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::fragments::{Fragments, KINDS};
use super::objects::{self, CONSOLIDATE_AFTER, POOL, WEB};
use super::seen::Seen;
use super::watching::Watched;
use super::{Contest, Patience, Story};
use crate::{Autoscaler, Cluster, Which, client};

/// Before a story comes to its point nothing may come or go for so long.
const SETTLED: Patience = Patience { quiet: Duration::from_secs(10), limit: Duration::from_secs(600) };
/// Objects that are created at a time.
const AT_ONCE: usize = 32;

/// What one run showed. Seconds are counted from the moment at which the cluster has too much.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    pub story: Story,
    pub round: usize,
    pub which: Which,
    /// Tells one build from another.
    pub binary: String,
    /// False if patience ended before the cluster rested.
    pub is_at_rest: bool,
    pub seconds: f64,
    pub before: Bill,
    pub after: Bill,
    pub evictions: usize,
    /// Claims that were made on the way.
    pub claims_made: usize,
    /// The controller's, on the way.
    pub cpu_seconds: f64,
    pub peak_megabytes: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bill {
    pub nodes: usize,
    pub dollars_per_hour: f64,
}

impl Run {
    pub fn saved(&self) -> f64 {
        self.before.dollars_per_hour - self.after.dollars_per_hour
    }
}

/// Which run it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) story: Story,
    pub(super) round: usize,
    pub(super) which: Which,
}

impl Turn {
    pub(super) fn is_of(self, run: &Run) -> bool {
        (run.story, run.round, run.which) == (self.story, self.round, self.which)
    }
}

pub(super) fn run(turn: Turn, contest: &Contest, binary: String) -> Result<Run> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting")?;
    let Turn { story, round, which } = turn;
    runtime.block_on(measure(turn, contest, binary)).with_context(|| format!("{which:?} in round {round} of {story}"))
}

async fn measure(turn: Turn, contest: &Contest, binary: String) -> Result<Run> {
    let Turn { story, round, which } = turn;
    let cluster = fresh_cluster()?;
    let client = client(&cluster).await?;
    let autoscaler = Autoscaler::start(&cluster, which)?;
    let stage = Stage { cluster: &cluster, client: &client };
    stage.apply(&objects::class())?;
    let mut watched = Watched::new(&client).await?;
    let pods = stage.prepare(story, round, &mut watched).await?;
    let before = bill(watched.seen());
    let used = autoscaler.usage()?;
    let start = watched.begin();
    stage.turn(story)?;
    let ending = watched.rest(pods, start, &contest.patience).await?;
    let usage = autoscaler.usage()?;
    // The log goes with the cluster, and says why it took so long.
    let log = contest.out.with_extension(format!("{story}-{round}-{which:?}.log").to_lowercase());
    std::fs::write(&log, autoscaler.log()).with_context(|| format!("writing {}", log.display()))?;
    Ok(Run {
        story,
        round,
        which,
        binary,
        is_at_rest: ending.is_at_rest,
        seconds: ending.at.duration_since(start).as_secs_f64(),
        before,
        after: bill(watched.seen()),
        evictions: watched.seen().evictions(),
        claims_made: watched.seen().claims_made(),
        cpu_seconds: (usage.cpu - used.cpu).as_secs_f64(),
        peak_megabytes: usage.peak_bytes as f64 / 1e6,
    })
}

/// Nodes must not be given up because a machine this busy is late with a heartbeat.
pub(super) fn fresh_cluster() -> Result<Cluster> {
    Cluster::start_with(&["--controller-manager-arg=--node-monitor-grace-period=300s"])
}

pub(super) fn bill(seen: &Seen) -> Bill {
    Bill { nodes: seen.nodes(), dollars_per_hour: seen.dollars_per_hour() }
}

pub(super) struct Stage<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) client: &'a Client,
}

impl Stage<'_> {
    pub(super) fn apply(&self, object: &Value) -> Result<()> {
        self.cluster.apply(&object.to_string())
    }

    /// Brings a cluster to where the story turns. Says how many pods run when it has ended.
    async fn prepare(&self, story: Story, round: usize, watched: &mut Watched) -> Result<usize> {
        match story {
            Story::ScaleDown { from, to } => {
                self.pool(CONSOLIDATE_AFTER)?;
                self.apply(&WEB.deployment(from))?;
                settle(watched, from).await?;
                Ok(to)
            }
            Story::Fragmented => {
                self.pool("Never")?;
                let drawn = Fragments::draw(round as u64);
                self.fill(&drawn, watched).await?;
                Ok(KINDS.iter().map(|kind| drawn.count(*kind)).sum())
            }
        }
    }

    /// From here on the cluster has too much, and may be consolidated.
    fn turn(&self, story: Story) -> Result<()> {
        match story {
            Story::ScaleDown { to, .. } => {
                let replicas = format!("--replicas={to}");
                self.cluster.succeed(&["scale", "deployment", WEB.name, &replicas]).map(drop)
            }
            Story::Fragmented => {
                let patch = json!({"spec": {"disruption": {"consolidateAfter": CONSOLIDATE_AFTER}}}).to_string();
                self.cluster.succeed(&["patch", "nodepool", POOL, "--type=merge", "--patch", &patch]).map(drop)
            }
        }
    }

    pub(super) fn pool(&self, consolidate_after: &str) -> Result<()> {
        self.apply(&objects::pool(consolidate_after))?;
        self.cluster.succeed(&["wait", "--for=condition=Ready", "nodepool/default", "--timeout=60s"]).map(drop)
    }

    /// Machines by claims of our own, pods put where the draw says. Pods belong to nobody at first, and are taken over by sets
    /// that match them; so a pod that is evicted comes back, wherever the scheduler then puts it.
    async fn fill(&self, drawn: &Fragments, watched: &mut Watched) -> Result<()> {
        self.create::<NodeClaim>(Api::all(self.client.clone()), drawn.machines.iter().map(|machine| machine.claim()))
            .await?;
        settle(watched, 0).await?;
        let initialized = ["wait", "--for=condition=Initialized", "nodeclaims", "--all", "--timeout=120s"];
        self.cluster.succeed(&initialized)?;
        let node_of = [
            "get",
            "nodeclaims",
            "--output=jsonpath={range .items[*]}{.metadata.name} {.status.nodeName}{\"\\n\"}{end}",
        ];
        let nodes = self.cluster.succeed(&node_of)?;
        let mut pods = Vec::new();
        for machine in &drawn.machines {
            let line = nodes.lines().find_map(|line| line.strip_prefix(&format!("{} ", machine.name)));
            let node = line.with_context(|| format!("{} has no node", machine.name))?;
            for kind in &machine.pods {
                let mut spec = kind.pod_spec();
                spec["nodeName"] = node.into();
                let name = format!("{}-{}", kind.name, pods.len());
                pods.push(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": kind.labels()}, "spec": spec}));
            }
        }
        let count = pods.len();
        self.create::<Pod>(Api::namespaced(self.client.clone(), "default"), pods.into_iter()).await?;
        settle(watched, count).await?;
        for kind in KINDS {
            self.apply(&kind.replica_set(drawn.count(kind)))?;
        }
        settle(watched, count).await
    }

    async fn create<K>(&self, api: Api<K>, objects: impl Iterator<Item = Value>) -> Result<()>
    where
        K: Clone + std::fmt::Debug + serde::de::DeserializeOwned + Serialize,
    {
        let made = stream::iter(objects).map(|object| async {
            let object: K = serde_json::from_value(object).context("an object of the story")?;
            api.create(&PostParams::default(), &object).await.map(drop).context("creating what the story needs")
        });
        made.buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await.map(drop)
    }
}

async fn settle(watched: &mut Watched, pods: usize) -> Result<()> {
    let ending = watched.rest(pods, Instant::now(), &SETTLED).await?;
    ensure!(ending.is_at_rest, "the cluster did not settle before the story began: {}", watched.seen().describe());
    Ok(())
}
