//! What was found, `bench/out/disrupt.json`, and what must be reached.

use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::bench::answer::median;
use crate::bench::results::{Machine, Measured};
use crate::bench::targets::{Finding, Limit, finding};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Results {
    pub(super) machine: Machine,
    pub(super) rows: Vec<RowResult>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RowResult {
    pub(super) workload: String,
    pub(super) nodes: usize,
    pub(super) pods: usize,
    pub(super) types: usize,
    pub(super) sha256: String,
    pub(super) ours: Side,
    /// Absent when the reference was not asked.
    pub(super) peer: Option<Peer>,
    /// The reference's time for all candidates divided by ours.
    pub(super) ratio: Option<f64>,
    pub(super) measured: Measured,
}

/// Our answer as its process writes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::bench) struct Ours {
    pub(in crate::bench) sha256: String,
    pub(super) nodes: usize,
    pub(super) pods: usize,
    pub(super) types: usize,
    pub(super) lower_seconds: f64,
    /// One number per run.
    pub(in crate::bench) seconds: Vec<f64>,
    #[serde(rename = "peakMB")]
    pub(super) peak_mb: f64,
    /// Nodes that could be chosen from.
    pub(super) eligible: usize,
    pub(in crate::bench) commands: usize,
    /// Nodes that would leave by them.
    pub(super) leaving: usize,
    pub(super) questions: u64,
    pub(super) refused_at_sight: u64,
    pub(super) plans: u64,
}

impl Ours {
    pub(super) fn median_seconds(&self) -> f64 {
        median(&self.seconds)
    }
}

/// Our answer in the results.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Side {
    /// The median.
    pub(super) seconds: f64,
    pub(super) runs: Vec<f64>,
    pub(super) lower_seconds: f64,
    #[serde(rename = "peakMB")]
    pub(super) peak_mb: f64,
    pub(super) candidates: usize,
    pub(super) commands: usize,
    pub(super) questions: u64,
    pub(super) refused_at_sight: u64,
    pub(super) plans: u64,
}

/// The reference's answer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Peer {
    pub(super) sha256: String,
    /// Module and version.
    pub(super) reference: String,
    /// As it was: it gives up after one minute and after three.
    pub(super) seconds_raw: f64,
    /// Of consolidation of single nodes.
    pub(super) candidates: usize,
    pub(super) evaluated: usize,
    /// Had it gone through all candidates.
    pub(super) seconds: f64,
    pub(super) commands: usize,
    /// One entry per method, as bench/README.md has it.
    #[serde(default)]
    pub(super) methods: serde_json::Value,
}

impl RowResult {
    pub(super) fn new(workload: &str, ours: Ours, peer: Option<Peer>, measured: Measured) -> Self {
        let seconds = ours.median_seconds();
        Self {
            workload: workload.to_owned(),
            nodes: ours.nodes,
            pods: ours.pods,
            types: ours.types,
            sha256: ours.sha256,
            ratio: peer.as_ref().map(|peer| peer.seconds / seconds),
            peer,
            ours: Side {
                seconds,
                runs: ours.seconds,
                lower_seconds: ours.lower_seconds,
                peak_mb: ours.peak_mb,
                candidates: ours.eligible,
                commands: ours.commands,
                questions: ours.questions,
                refused_at_sight: ours.refused_at_sight,
                plans: ours.plans,
            },
            measured,
        }
    }
}

impl Results {
    /// In one step, so that a run that is stopped leaves whole rows.
    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self).context("encoding results")?;
        let partial = path.with_extension("partial");
        std::fs::write(&partial, text).with_context(|| format!("writing {}", partial.display()))?;
        std::fs::rename(&partial, path).with_context(|| format!("writing {}", path.display()))
    }
}

/// Every target that the rows speak of.
pub(super) fn findings(results: &Results) -> Vec<Finding> {
    results.rows.iter().flat_map(of_row).collect()
}

fn of_row(row: &RowResult) -> Vec<Finding> {
    let find = |what: &'static str, limit: Limit, got: f64| finding(&row.workload, what, limit, Some(got));
    let mut found = vec![
        find("seconds", Limit::Below(seconds_max(row.nodes)), row.ours.seconds),
        // Otherwise it is another question that was answered.
        find("commands", Limit::AtMost(0.0), row.ours.commands as f64),
        find(
            "nodes that no candidate was made of",
            Limit::AtMost(0.0),
            (row.nodes - row.ours.candidates.min(row.nodes)) as f64,
        ),
    ];
    if let Some(ratio) = row.ratio.filter(|_| row.nodes <= SMALL) {
        found.push(find("times the reference's speed", Limit::AtLeast(100.0), ratio));
    }
    found
}

/// Up to so many nodes a decision takes less than a second, and the reference a hundred times as long.
const SMALL: usize = 1_000;

fn seconds_max(nodes: usize) -> f64 {
    if nodes <= SMALL { 1.0 } else { 10.0 }
}
