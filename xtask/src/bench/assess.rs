//! What a plan is worth: what the judge finds wrong with it, what it costs, and what it keeps open.

use std::collections::BTreeMap;

use model::ids::{NodeName, PodName};
use model::plan::{Plan, Target};
use model::snapshot::Snapshot;
use serde::{Deserialize, Serialize};

use super::menu::{Kitchen, Possible};
use super::wishes::{self, KnownLabels, Neighbourhood};

/// The same numbers for both sides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Assessment {
    pub(super) placed: usize,
    /// What the judge counts.
    pub(super) violations: usize,
    /// The first few of them, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) violation_samples: Vec<String>,
    /// New claims.
    pub(super) nodes: usize,
    pub(super) price_per_hour: f64,
    pub(super) worst_launch_price_per_hour: f64,
    /// The fewest types that a claim leaves open; zero when there is no claim.
    pub(super) types_per_claim_min: usize,
    pub(super) preferences_kept: usize,
    pub(super) preferences: usize,
}

const SAMPLES: usize = 5;

pub(super) fn assess(snapshot: &Snapshot, plan: &Plan) -> Assessment {
    let verdict = judge::replay(snapshot, plan);
    let mut kitchen = Kitchen::new(snapshot, wishes::keys(snapshot));
    let menus: Vec<_> = plan.claims.iter().map(|claim| kitchen.menu(claim)).collect();
    let sum = |pico: &mut dyn Iterator<Item = i64>| pico.map(i128::from).sum::<i128>() as f64 / 1e12;
    let known = || menus.iter().flatten();
    let (kept, all) =
        count_wishes(snapshot, plan, menus.iter().map(|menu| menu.as_ref().map(|menu| menu.labels.clone())));
    Assessment {
        placed: plan.placements.len(),
        violations: verdict.violations.len(),
        violation_samples: verdict.violations.iter().take(SAMPLES).map(ToString::to_string).collect(),
        nodes: plan.claims.len(),
        price_per_hour: sum(&mut known().map(|menu| menu.cheapest.pico())),
        worst_launch_price_per_hour: sum(&mut known().map(|menu| menu.worst.pico())),
        types_per_claim_min: menus.iter().map(|menu| menu.as_ref().map_or(0, |menu| menu.types)).min().unwrap_or(0),
        preferences_kept: kept,
        preferences: all,
    }
}

fn count_wishes(snapshot: &Snapshot, plan: &Plan, claims: impl Iterator<Item = Option<KnownLabels>>) -> (usize, usize) {
    let mut nodes: Vec<KnownLabels> = Vec::new();
    let mut standing: BTreeMap<&NodeName, usize> = BTreeMap::new();
    for node in snapshot.nodes.values() {
        standing.insert(&node.name, nodes.len());
        nodes.push(node.labels.iter().map(|(key, value)| (key.clone(), Possible::just(value.clone()))).collect());
    }
    let first_claim = nodes.len();
    nodes.extend(claims.map(Option::unwrap_or_default));
    let last = nodes.len();
    let mut all = Neighbourhood::new(nodes);
    let planned: BTreeMap<&PodName, &Target> = plan.placements.iter().map(|(pod, target)| (pod, target)).collect();
    for pod in snapshot.pods.values() {
        let target = planned.get(&pod.name);
        let place = match target {
            Some(Target::Claim(index)) => Some(first_claim + index).filter(|place| *place < last),
            Some(Target::Node(name)) => standing.get(name).copied(),
            None => pod.node.as_ref().and_then(|name| standing.get(name).copied()),
        };
        if let Some(place) = place {
            all.seat(pod, place, target.is_some());
        }
    }
    all.count()
}
