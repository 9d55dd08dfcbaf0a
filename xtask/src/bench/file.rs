//! The workload file: one row's world, as bytes that both sides read. bench/README.md is the contract.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::sha256;

pub(super) const FORMAT: u32 = 1;

/// Keys stand in the order in which the file has them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Workload {
    pub(super) format: u32,
    pub(super) name: String,
    pub(super) policy: Policy,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) well_known_labels: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) reservation_id_label: String,
    pub(super) types: Vec<TypeEntry>,
    pub(super) pools: Vec<Value>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) pool_types: BTreeMap<String, Vec<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) namespaces: Vec<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) node_claims: Vec<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) nodes: Vec<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) daemon_sets: Vec<Value>,
    pub(super) pod_templates: Vec<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) bound_pods: Vec<PodEntry>,
    pub(super) pods: Vec<PodEntry>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Policy {
    pub(super) preferences: Preferences,
    pub(super) min_values: MinValues,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Preferences {
    Respect,
    Ignore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum MinValues {
    Strict,
    BestEffort,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TypeEntry {
    pub(super) name: String,
    pub(super) requirements: Vec<RequirementEntry>,
    pub(super) capacity: api::ResourceList,
    pub(super) overhead: api::ResourceList,
    pub(super) offerings: Vec<OfferingEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RequirementEntry {
    pub(super) key: String,
    pub(super) operator: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) values: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) min_values: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct OfferingEntry {
    pub(super) zone: String,
    pub(super) capacity_type: String,
    /// Dollars per hour.
    pub(super) price: String,
    pub(super) available: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) reservation_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reservation_capacity: Option<u32>,
}

/// A pod by its template: a hundred thousand of them differ in little more than their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PodEntry {
    pub(super) template: usize,
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) uid: String,
    /// Present, even empty: all labels of the pod. Absent: those of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) labels: Option<BTreeMap<String, String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<String>,
}

impl Workload {
    /// The file's text. Equal workloads give equal bytes.
    pub(super) fn text(&self) -> anyhow::Result<String> {
        let mut text = serde_json::to_string(self).context("writing a workload")?;
        text.push('\n');
        Ok(text)
    }

    /// Reads a file that was checked when it was written, and says which bytes were read.
    pub(super) fn read(path: &Path) -> anyhow::Result<(Self, String)> {
        let text = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        let workload: Self = serde_json::from_slice(&text).with_context(|| format!("decoding {}", path.display()))?;
        Ok((workload, sha256::hex(&text)))
    }

    /// What the contract asks for beyond shapes.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        ensure!(self.format == FORMAT, "format {} is not {FORMAT}", self.format);
        ensure!(!self.name.is_empty(), "the workload has no name");
        for (index, template) in self.pod_templates.iter().enumerate() {
            let has = |pointer: &str| template.pointer(pointer).is_some();
            if has("/metadata/name") || has("/metadata/uid") || has("/spec/nodeName") {
                bail!("podTemplates[{index}] has a name, uid or node, which only its pods can have");
            }
        }
        let nodes: BTreeSet<&str> =
            self.nodes.iter().filter_map(|node| node.pointer("/metadata/name")?.as_str()).collect();
        let mut names = BTreeSet::new();
        let mut uids = BTreeSet::new();
        for entry in self.bound_pods.iter().chain(&self.pods) {
            let name = format!("{}/{}", entry.namespace, entry.name);
            let is_named = ![&entry.name, &entry.namespace, &entry.uid].iter().any(|text| text.is_empty());
            ensure!(is_named, "pod {name} lacks a name, namespace or uid");
            ensure!(
                entry.template < self.pod_templates.len(),
                "pod {name} has template {}, which is not there",
                entry.template
            );
            let is_new = names.insert((&entry.namespace, &entry.name)) && uids.insert(&entry.uid);
            ensure!(is_new, "pod {name} shares its name or uid with another one");
        }
        for entry in &self.bound_pods {
            let node = entry.node.as_deref().unwrap_or_default();
            ensure!(
                nodes.contains(node),
                "pod {}/{} is bound to {node:?}, which is no node",
                entry.namespace,
                entry.name
            );
        }
        if let Some(entry) = self.pods.iter().find(|entry| entry.node.is_some()) {
            bail!("pod {}/{} waits and has a node", entry.namespace, entry.name);
        }
        Ok(())
    }
}
