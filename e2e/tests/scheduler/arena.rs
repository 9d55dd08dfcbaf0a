//! A control plane in which the scheduler is the only one that acts.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use e2e::Cluster;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::draw::Draw;
use crate::extender::{Answer, Extender};
use crate::near::NAMESPACES;
use crate::pods::{Fate, Standing};
use crate::stage::{self, Stage, create};

/// Far more than any decision takes, even on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(3);

pub(crate) struct Arena {
    client: Client,
    extender: Extender,
    pub(crate) stage: Stage,
    /// How many pods have been named that need no name of their own.
    named: AtomicUsize,
    /// Kept for its drop, which ends the cluster.
    _cluster: Cluster,
    _config: TempDir,
}

/// What the scheduler said about a pod.
pub(crate) struct Decision {
    /// The pod as it was stored, before anyone decided.
    pub(crate) asked: Pod,
    /// And afterwards.
    pub(crate) decided: Pod,
    /// The nodes that all filters let through.
    pub(crate) feasible: BTreeSet<String>,
    /// Why it has no node, if it has none.
    pub(crate) message: String,
}

impl Decision {
    pub(crate) fn node(&self) -> Option<&str> {
        self.decided.spec.as_ref()?.node_name.as_deref()
    }
}

impl Arena {
    pub(crate) async fn open(draw: &mut Draw) -> Result<Self> {
        let extender = Extender::listen().await?;
        let config = tempfile::tempdir().context("making a directory for the scheduler's configuration")?;
        let path = config.path().join("scheduler.yaml");
        std::fs::write(&path, scheduler_config(&extender)).context("writing the scheduler's configuration")?;
        let cluster = Cluster::start_with(&[
            // No kubelet: pods stay as they are written, and one that is told to end stays until it is removed.
            "--kwok=false",
            // The only one that the start waits for. Others would taint nodes, evict pods and bind volumes as time goes by.
            "--controller-manager-arg=--controllers=serviceaccount-controller",
            // These write into objects what a controller has to take out again.
            "--apiserver-arg=--disable-admission-plugins=TaintNodesByCondition,StorageObjectInUseProtection,ServiceAccount",
            "--apiserver-arg=--feature-gates=TaintTolerationComparisonOperators=true",
            "--scheduler-arg=--feature-gates=TaintTolerationComparisonOperators=true",
            &format!("--scheduler-arg=--config={}", path.display()),
        ])?;
        let client = e2e::client(&cluster).await?;
        let stage = stage::set(&client, draw).await?;
        let arena = Self { client, extender, stage, named: AtomicUsize::new(0), _cluster: cluster, _config: config };
        arena.see_stage().await?;
        Ok(arena)
    }

    pub(crate) fn new_name(&self) -> String {
        format!("pod-{}", self.named.fetch_add(1, Ordering::Relaxed))
    }

    /// Creates nodes and returns when the scheduler has seen all of them.
    pub(crate) async fn raise(&self, nodes: &[Value]) -> Result<Vec<Node>> {
        let api: Api<Node> = Api::all(self.client.clone());
        let mut raised = Vec::new();
        for node in nodes {
            raised.push(create(&api, node.clone()).await?);
        }
        let last = raised.last().and_then(|node: &Node| node.metadata.name.as_deref()).context("a world has a node")?;
        self.see_node(last).await?;
        Ok(raised)
    }

    /// Puts a pod on its node without asking the scheduler, who sees it before any pod that is created later.
    pub(crate) async fn stand(&self, standing: &Standing) -> Result<Pod> {
        let api = self.pods(&standing.pod);
        let pod = create(&api, standing.pod.clone()).await?;
        let name = pod.metadata.name.clone().context("a pod has a name")?;
        let status = match &standing.fate {
            Fate::Runs => return Ok(pod),
            Fate::Ends => {
                let slowly = DeleteParams { grace_period_seconds: Some(3600), ..DeleteParams::default() };
                let ending = api.delete(&name, &slowly).await.with_context(|| format!("deleting pod {name}"))?;
                return ending.left().with_context(|| format!("pod {name} is gone at once"));
            }
            Fate::Ended(phase) => json!({"phase": phase}),
            Fate::Resized(status) => status.clone(),
        };
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status(&name, &PatchParams::default(), &patch).await.with_context(|| format!("patching pod {name}"))
    }

    /// Creates a pod that has no node and waits for the scheduler's decision.
    pub(crate) async fn ask(&self, pod: &Value, answer: Answer) -> Result<Decision> {
        let api = self.pods(pod);
        let name = pod["metadata"]["name"].as_str().context("a pod has a name")?;
        self.extender.expect(name, answer);
        let asked: Pod = create(&api, pod.clone()).await?;
        let begin = Instant::now();
        loop {
            let decided = api.get(name).await.with_context(|| format!("reading pod {name}"))?;
            if let Some(message) = decision_on(&decided)? {
                let feasible = self.extender.feasible(name).into_iter().collect();
                return Ok(Decision { asked, decided, feasible, message });
            }
            ensure!(begin.elapsed() < LIMIT, "the scheduler does not decide on pod {name}");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Removes the pods and nodes of a world, pods first: one that waits could otherwise be tried again.
    pub(crate) async fn clear(&self) -> Result<()> {
        let (now, all) = (DeleteParams::default().grace_period(0), ListParams::default());
        for (namespace, _) in NAMESPACES {
            let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
            pods.delete_collection(&now, &all).await.context("removing the pods of a world")?;
        }
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes.delete_collection(&now, &all).await.context("removing the nodes of a world")?;
        Ok(())
    }

    fn pods(&self, pod: &Value) -> Api<Pod> {
        Api::namespaced(self.client.clone(), pod["metadata"]["namespace"].as_str().unwrap_or("default"))
    }
}

/// The scheduler's own defaults, and an extender. It runs in the cluster's directory, where its kubeconfig is.
fn scheduler_config(extender: &Extender) -> String {
    let config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": false},
        "clientConnection": {"kubeconfig": "kube-scheduler.kubeconfig", "qps": 2000, "burst": 4000},
        "extenders": [{
            "urlPrefix": format!("http://{}", extender.address()),
            "filterVerb": "filter",
            // Names suffice, whole nodes need not be sent.
            "nodeCacheCapable": true,
            "httpTimeout": "30s",
        }],
    });
    config.to_string()
}

/// What the scheduler says once it has decided, which is nothing for a pod that has a node.
fn decision_on(pod: &Pod) -> Result<Option<String>> {
    if pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()) {
        return Ok(Some(String::new()));
    }
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let Some(condition) = conditions.find(|condition| condition.type_ == "PodScheduled") else {
        return Ok(None);
    };
    let message = condition.message.clone().unwrap_or_default();
    match condition.reason.as_deref() {
        Some("Unschedulable") => Ok(Some(message)),
        reason => bail!("the scheduler failed on pod {:?}: {reason:?}: {message}", pod.metadata.name),
    }
}
