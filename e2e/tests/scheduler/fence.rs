//! Waiting until the scheduler has seen what was created.
//!
//! It watches every kind of object by itself. It sees objects of one kind in the order of their creation, but a pod may reach
//! it before an older node does. So the last object of a kind is asked about, by a pod that nothing else could keep away or
//! let through, as often as it takes. Pods need no fence: those that stand are seen before those that are asked for later.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::arena::{Arena, LIMIT};
use crate::extender::Answer;
use crate::nodes::HOSTNAME;
use crate::pods::{Fate, REQUIRED, Standing};
use crate::stage::{self, FENCE, LAST_NAMESPACE};

impl Arena {
    /// Returns when the scheduler knows this node, and with it all that were created before.
    pub(crate) async fn see_node(&self, node: &str) -> Result<()> {
        self.ask_until(&pinned(node, &[]), node, Expected::Accepted)
            .await
            .with_context(|| format!("waiting for node {node}"))
    }

    /// Returns when the scheduler knows everything that stays.
    pub(crate) async fn see_stage(&self) -> Result<()> {
        let amounts = json!({"cpu": "1", "pods": "9"});
        let node = json!({
            "metadata": {"name": FENCE, "labels": {HOSTNAME: FENCE}},
            "status": {"capacity": amounts, "allocatable": amounts},
        });
        self.raise(&[node]).await?;
        let mut companion = pinned(FENCE, &[]);
        companion["metadata"]["name"] = "companion".into();
        companion["metadata"]["labels"] = json!({"fence": "yes"});
        companion["spec"]["nodeName"] = FENCE.into();
        self.stand(&Standing { pod: companion, fate: Fate::Runs }).await?;

        let mut with_company = pinned(FENCE, &[stage::LAST_BOUND]);
        with_company["spec"]["affinity"]["podAffinity"] = json!({REQUIRED: [{
            "topologyKey": HOSTNAME,
            "labelSelector": {"matchLabels": {"fence": "yes"}},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": LAST_NAMESPACE}},
        }]});
        self.ask_until(&with_company, FENCE, Expected::Accepted).await.context("waiting for namespaces and volumes")?;
        let late = pinned(FENCE, &[stage::LAST_CLAIM]);
        self.ask_until(&late, FENCE, Expected::Accepted).await.context("waiting for claims and classes")?;
        // Either volume has a place there, as was just seen; both have not, once the node's limit is known.
        let both = pinned(FENCE, &[stage::LAST_BOUND, stage::LAST_CLAIM]);
        self.ask_until(&both, FENCE, Expected::Refused).await.context("waiting for the limits of drivers")?;
        self.clear().await
    }

    async fn ask_until(&self, pod: &Value, node: &str, expected: Expected) -> Result<()> {
        let begin = Instant::now();
        loop {
            let mut pod = pod.clone();
            pod["metadata"]["name"] = self.new_name().into();
            // A pod whose volume is not known yet is an error to the scheduler.
            let is_accepted = match self.ask(&pod, Answer::Hold).await {
                Ok(decision) => decision.feasible.contains(node),
                Err(problem) if begin.elapsed() > LIMIT => return Err(problem),
                Err(_) => continue,
            };
            if is_accepted == (expected == Expected::Accepted) {
                return Ok(());
            }
            ensure!(begin.elapsed() < LIMIT, "the scheduler does not see it");
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    Accepted,
    Refused,
}

/// A pod that asks for nothing but one node and some volumes, and puts up with all taints.
fn pinned(node: &str, claims: &[&str]) -> Value {
    let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": LAST_NAMESPACE},
        "spec": {
            "containers": [{"name": "c0", "image": "none"}],
            "tolerations": [{"operator": "Exists"}],
            "affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [field]}]}}},
            "volumes": stage::volumes(claims),
        },
    })
}
