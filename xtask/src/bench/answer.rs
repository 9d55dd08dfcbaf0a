//! A solver's answer as a file, in the words of bench/README.md; both sides write the same, so one judge reads both.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, ensure};
use model::ids::{NodeName, PodName};
use model::plan::{Plan, PlannedClaim, Target};
use model::requirements::{Operator, Requirements};
use model::resources::{Resource, Resources};
use model::snapshot::Snapshot;
use model::why::Unplaced;
use serde::{Deserialize, Serialize};

use super::file::RequirementEntry;
use super::lower;

/// The part of an answer that both sides share. The peer's has more, which is left unread.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    pub(super) workload: String,
    pub(super) sha256: String,
    /// What was measured.
    pub(super) reference: String,
    pub(super) pods: usize,
    /// From objects of the API to what the clock starts with, the catalogue included.
    pub(super) lower_seconds: f64,
    /// The part of that for what is on sale; the peer does not tell it apart.
    #[serde(default)]
    pub(super) catalogue_seconds: f64,
    #[serde(default)]
    pub(super) parallelism: u32,
    #[serde(default)]
    pub(super) capped: bool,
    /// One number per run.
    pub(super) seconds: Vec<f64>,
    #[serde(rename = "peakMB")]
    pub(super) peak_mb: f64,
    pub(super) plan: Option<PlanEntry>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PlanEntry {
    placements: Vec<PlacementEntry>,
    claims: Vec<ClaimEntry>,
    unplaced: Vec<UnplacedEntry>,
}

/// Has either a node or a claim.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct PlacementEntry {
    pod: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    claim: Option<usize>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct ClaimEntry {
    pool: String,
    types: Vec<String>,
    requirements: Vec<RequirementEntry>,
    labels: BTreeMap<String, String>,
    pods: Vec<String>,
    requests: api::ResourceList,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct UnplacedEntry {
    pod: String,
    error: String,
}

impl Answer {
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("decoding {}", path.display()))
    }

    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_vec(self).context("encoding an answer")?;
        std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
    }

    /// The middle one of the runs, or the mean of the two in the middle.
    pub(super) fn median_seconds(&self) -> f64 {
        median(&self.seconds)
    }
}

pub(super) fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => sorted[count / 2],
        count => f64::midpoint(sorted[count / 2 - 1], sorted[count / 2]),
    }
}

impl PlanEntry {
    /// A plan in the words of the file. Reservations are requirements on the reservation label already.
    pub(super) fn of(plan: &Plan) -> Self {
        let placements = plan.placements.iter().map(|(pod, target)| match target {
            Target::Node(name) => PlacementEntry { pod: pod.to_string(), node: Some(name.to_string()), claim: None },
            Target::Claim(index) => PlacementEntry { pod: pod.to_string(), node: None, claim: Some(*index) },
        });
        let unplaced =
            plan.unplaced.iter().map(|out| UnplacedEntry { pod: out.pod.to_string(), error: out.to_string() });
        Self {
            placements: placements.collect(),
            claims: plan.claims.iter().map(ClaimEntry::of).collect(),
            unplaced: unplaced.collect(),
        }
    }

    /// The plan that a judge can replay. What a claim costs is not taken from the answer.
    pub(super) fn plan(&self, snapshot: &Snapshot) -> anyhow::Result<Plan> {
        let placements = self.placements.iter().map(|entry| {
            let target = match (&entry.node, entry.claim) {
                (Some(node), None) => Target::Node(NodeName::from(node.as_str())),
                (None, Some(claim)) => Target::Claim(claim),
                _ => anyhow::bail!("pod {} has not exactly one of a node and a claim", entry.pod),
            };
            Ok((pod_name(&entry.pod)?, target))
        });
        let unplaced = self.unplaced.iter().map(|entry| {
            let pod = pod_name(&entry.pod)?;
            Ok(Unplaced { pod, nearest_node: None, pools: Vec::new(), closest_pool: None, general: Vec::new() })
        });
        Ok(Plan {
            placements: placements.collect::<anyhow::Result<_>>()?,
            claims: self.claims.iter().map(|claim| claim.planned(snapshot)).collect::<anyhow::Result<_>>()?,
            unplaced: unplaced.collect::<anyhow::Result<_>>()?,
            steps: 0,
        })
    }
}

impl ClaimEntry {
    fn of(claim: &PlannedClaim) -> Self {
        Self {
            pool: claim.pool.to_string(),
            types: claim.types.iter().map(ToString::to_string).collect(),
            requirements: requirement_entries(&claim.requirements),
            labels: claim.labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
            pods: claim.pods.iter().map(ToString::to_string).collect(),
            requests: amounts(&claim.requests),
        }
    }

    fn planned(&self, snapshot: &Snapshot) -> anyhow::Result<PlannedClaim> {
        let requirements = lower::requirements(&self.requirements)?;
        Ok(PlannedClaim {
            types: self.types.iter().map(|name| name.as_str().into()).collect(),
            pods: self.pods.iter().map(|pod| pod_name(pod)).collect::<anyhow::Result<_>>()?,
            requests: cluster::lower::resources::of_list(&self.requests),
            labels: self.labels.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect(),
            reservations: reservations(snapshot, &requirements),
            requirements,
            ..PlannedClaim::bare(self.pool.as_str().into())
        })
    }
}

/// The reservations that a claim's requirements name.
fn reservations(snapshot: &Snapshot, requirements: &Requirements) -> Vec<model::ids::ReservationId> {
    let wants_reserved = requirements
        .get(model::labels::CAPACITY_TYPE)
        .and_then(|requirement| requirement.listed())
        .is_some_and(|values| values.len() == 1 && values.contains("reserved"));
    if !wants_reserved {
        return Vec::new();
    }
    let types = snapshot.pools.values().flat_map(|pool| &pool.instance_types);
    let offerings =
        types.flat_map(|kind| &kind.offerings).filter(|offering| requirements.overlaps(&offering.requirements));
    let mut ids: Vec<_> = offerings.filter_map(|offering| Some(offering.reservation.as_ref()?.id.clone())).collect();
    ids.sort();
    ids.dedup();
    ids
}

fn requirement_entries(requirements: &Requirements) -> Vec<RequirementEntry> {
    let mut entries = Vec::new();
    for (key, requirement) in requirements.iter() {
        for (operator, values) in requirement.entries() {
            let has_values = !matches!(operator, Operator::Exists | Operator::DoesNotExist);
            entries.push(RequirementEntry {
                key: key.to_string(),
                operator: operator.to_string(),
                values: if has_values { values.iter().map(|value| value.to_string()).collect() } else { Vec::new() },
                min_values: requirement.min_values,
            });
        }
    }
    entries
}

fn amounts(resources: &Resources) -> api::ResourceList {
    let quantity = |resource: &Resource, amount: i64| match resource {
        Resource::Cpu => api::Quantity::from_milli(amount),
        _ => api::Quantity::from_units(amount),
    };
    resources.amounts().map(|(resource, amount)| (resource.name().to_owned(), quantity(&resource, amount))).collect()
}

fn pod_name(text: &str) -> anyhow::Result<PodName> {
    let (namespace, name) = text.split_once('/').with_context(|| format!("{text:?} is no namespace and name"))?;
    ensure!(!namespace.is_empty() && !name.is_empty(), "{text:?} is no namespace and name");
    Ok(PodName::new(namespace, name))
}
