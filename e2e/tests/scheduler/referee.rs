//! The judge's opinion, formed from the same objects that the scheduler sees.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use api::labels::LabelRules;
use cluster::lower::node::{NodeClasses, Parts};
use cluster::lower::pod::Surroundings;
use cluster::lower::{Lowered, node, pod};
use judge::{Refusal, Violation, World};
use k8s_openapi::api::core::v1;
use model::ids::NodeName;
use model::pod::Pod;
use model::snapshot::Snapshot;
use model::time::Instant;
use model::why::PodProblem;
use serde::Deserialize;
use serde_json::Value;

use crate::compare::{OUT_OF_REACH, TAINTED, TOO_SMALL};
use crate::stage::Stage;

pub(crate) struct Referee<'a> {
    stage: &'a Stage,
    nodes: Vec<v1::Node>,
    world: World,
}

/// What the judge says to a pod on each node: nothing, or why not.
pub(crate) type Opinion = BTreeMap<String, Option<Objection>>;

#[derive(Clone, Debug)]
pub(crate) struct Objection {
    /// The words that the scheduler has for it.
    pub(crate) words: &'static str,
    /// Finer than the scheduler's words, to see what a sample holds.
    pub(crate) kind: String,
    pub(crate) text: String,
}

impl<'a> Referee<'a> {
    pub(crate) fn new(stage: &'a Stage, nodes: Vec<v1::Node>, standing: &[Value]) -> Result<Self> {
        let mut snapshot = Snapshot::empty(Instant::from_unix_seconds(0));
        for wire in &nodes {
            let csi = wire.metadata.name.as_ref().and_then(|name| stage.drivers.get(name));
            let parts = Parts { node: Some(wire), claim: None, csi, pool: None, is_marked: false };
            let lowered = node::node(parts, &NodeClasses::default()).context("a node without a claim is a node")?;
            let lowered = understood(lowered)?;
            snapshot.nodes.insert(lowered.name.clone(), Arc::new(lowered));
        }
        for wire in standing {
            let lowered = lower(stage, &read(wire)?)?;
            snapshot.pods.insert(lowered.name.clone(), Arc::new(lowered));
        }
        Ok(Self { stage, nodes, world: World::new(&snapshot) })
    }

    /// The judge of a world with the same nodes and other pods.
    pub(crate) fn among(&self, standing: &[Value]) -> Result<Self> {
        Self::new(self.stage, self.nodes.clone(), standing)
    }

    pub(crate) fn opinion(&self, wire: &v1::Pod) -> Result<Opinion> {
        let pod = lower(self.stage, wire)?;
        let unusable = pod.problems.iter().find_map(|problem| match problem {
            PodProblem::Volume { volume, text } => {
                Some(Objection { words: UNUSABLE, kind: UNUSABLE.to_owned(), text: format!("volume {volume}: {text}") })
            }
            // The scheduler knows nothing of what a pod may ask of nodes of ours.
            PodProblem::WantsOtherNodes | PodProblem::Requirement { .. } | PodProblem::MatchFields => None,
        });
        let mut opinion = Opinion::new();
        for node in self.world.nodes() {
            let objection = match judge::filter(&self.world, &pod, &node.name) {
                Ok(()) => unusable.clone(),
                Err(Violation::Refused { refusal, .. }) => {
                    Some(Objection { words: words(&refusal), kind: kind(&refusal), text: refusal.to_string() })
                }
                Err(other) => bail!("the judge does not speak of a place: {other}"),
            };
            opinion.insert(node.name.as_str().to_owned(), objection);
        }
        Ok(opinion)
    }

    /// Follows the scheduler.
    pub(crate) fn bind(&mut self, wire: &v1::Pod, node: &str) -> Result<()> {
        let pod = lower(self.stage, wire)?;
        judge::bind(&mut self.world, &Arc::new(pod), &NodeName::from(node)).map_err(|problem| anyhow!("{problem}"))
    }
}

pub(crate) fn read(pod: &Value) -> Result<v1::Pod> {
    v1::Pod::deserialize(pod).context("reading a pod")
}

fn lower(stage: &Stage, wire: &v1::Pod) -> Result<Pod> {
    let around = Surroundings {
        rules: &LabelRules::default(),
        namespaces: &stage.namespaces,
        storage: &stage.storage,
        workloads: &BTreeMap::new(),
        default_spread: &[],
    };
    understood(pod::pod(wire, &around))
}

/// Worlds are drawn valid, so there is nothing odd about them.
fn understood<T>(lowered: Lowered<T>) -> Result<T> {
    ensure!(lowered.oddities.is_empty(), "{:?}", lowered.oddities);
    Ok(lowered.value)
}

/// All kinds of refusal that a sample should hold.
pub(crate) const KINDS: [&str; 19] = [
    "TaintToleration",
    "node selector",
    "node affinity",
    "NodePorts",
    "resource cpu",
    "resource memory",
    "resource ephemeral-storage",
    "resource pods",
    "resource example.com/gpu",
    "resource hugepages-2Mi",
    "NodeVolumeLimits",
    "VolumeBinding",
    UNUSABLE,
    "PodTopologySpread",
    "spread without label",
    "affinity without label",
    "affinity",
    "anti-affinity",
    "anti-affinity of others",
];
const UNUSABLE: &str = "unusable volume";

fn kind(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Resource { resource, .. } => format!("resource {resource}"),
        Refusal::Selector { .. } => "node selector".to_owned(),
        Refusal::Terms { .. } => "node affinity".to_owned(),
        Refusal::SpreadLabel { .. } => "spread without label".to_owned(),
        Refusal::AffinityLabel { .. } => "affinity without label".to_owned(),
        Refusal::Together { .. } => "affinity".to_owned(),
        Refusal::Apart { .. } => "anti-affinity".to_owned(),
        Refusal::ApartFrom { .. } => "anti-affinity of others".to_owned(),
        other => other.rule().to_owned(),
    }
}

fn words(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Leaving | Refusal::ResourceClaims => "not drawn here",
        Refusal::Taint(_) => TAINTED,
        Refusal::Selector { .. } | Refusal::Terms { .. } => "node(s) didn't match Pod's node affinity/selector",
        Refusal::Port { .. } => "node(s) didn't have free ports for the requested pod ports",
        Refusal::Resource { .. } => TOO_SMALL,
        Refusal::Attachments { .. } => "node(s) exceed max volume count",
        Refusal::VolumePlace { .. } => OUT_OF_REACH,
        Refusal::SpreadLabel { .. } => "node(s) didn't match pod topology spread constraints (missing required label)",
        Refusal::Spread { .. } => "node(s) didn't match pod topology spread constraints",
        Refusal::AffinityLabel { .. } | Refusal::Together { .. } => "node(s) didn't match pod affinity rules",
        Refusal::Apart { .. } => "node(s) didn't match pod anti-affinity rules",
        Refusal::ApartFrom { .. } => "node(s) didn't satisfy existing pods anti-affinity rules",
    }
}
