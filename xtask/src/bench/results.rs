//! What a run of the benchmark found: `bench/out/solve.json`.

use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::answer::Answer;
use super::assess::Assessment;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Results {
    pub(super) machine: Machine,
    pub(super) rows: Vec<RowResult>,
}

/// Where it was measured. Numbers of two machines do not belong in one file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Machine {
    pub(super) processor: String,
    pub(super) cores: usize,
    #[serde(rename = "memoryMB")]
    pub(super) memory_mb: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RowResult {
    pub(super) workload: String,
    pub(super) pods: usize,
    pub(super) types: usize,
    pub(super) existing_nodes: usize,
    pub(super) sha256: String,
    pub(super) ours: Side,
    /// Absent when the reference was not asked.
    pub(super) peer: Option<Side>,
    /// The reference's time divided by ours; a lower bound when it was capped.
    pub(super) ratio: Option<f64>,
    /// The same with the lowering on both sides.
    pub(super) ratio_with_lowering: Option<f64>,
    /// Our price divided by the reference's; absent when that did not finish.
    pub(super) price_ratio: Option<f64>,
    /// Dollars per hour that no plan for the same pods can be below.
    pub(super) lp_bound: f64,
    pub(super) price_over_lp_bound: Option<f64>,
    /// Whether the row counts, and if not, why.
    pub(super) counts: bool,
    pub(super) reasons: Vec<String>,
    pub(super) measured: Measured,
}

/// What makes a result good for reuse, and for judging how far to trust it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Measured {
    /// The day.
    pub(super) date: String,
    /// Our commit, with a plus when files differ from it.
    pub(super) commit: String,
    /// The hash of the binary that solved and judged.
    pub(super) binary: String,
    /// The hash of the reference's harness.
    pub(super) peer_binary: String,
    /// Whether the reference's answer comes from an earlier run in the same folder.
    pub(super) is_peer_reused: bool,
    /// How many processes wanted to run when the row began, on average over a minute.
    pub(super) load: f64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Side {
    /// The median, or the cap.
    pub(super) seconds: f64,
    pub(super) lower_seconds: f64,
    /// The part of the lowering that is for what is on sale.
    #[serde(default)]
    pub(super) catalogue_seconds: f64,
    pub(super) pods_per_second: f64,
    #[serde(rename = "peakMB")]
    pub(super) peak_mb: f64,
    pub(super) runs: usize,
    /// The reference's best degree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parallelism: Option<u32>,
    /// Whether time ran out, so that it took longer than `seconds`.
    pub(super) capped: bool,
    /// Absent when there is no plan.
    #[serde(flatten)]
    pub(super) assessment: Option<Assessment>,
}

impl Side {
    pub(super) fn of(answer: &Answer, assessment: Option<Assessment>) -> Self {
        let seconds = answer.median_seconds();
        Self {
            seconds,
            lower_seconds: answer.lower_seconds,
            catalogue_seconds: answer.catalogue_seconds,
            pods_per_second: answer.pods as f64 / seconds,
            peak_mb: answer.peak_mb,
            runs: answer.seconds.len(),
            parallelism: (answer.parallelism > 0).then_some(answer.parallelism),
            capped: answer.capped,
            assessment,
        }
    }
}

/// Fewer open types than this are too few, wherever the reference leaves at least so many open.
const TYPES_PER_CLAIM: usize = 15;

/// Why a row does not count; nothing when it does.
pub(super) fn objections(ours: &Side, peer: Option<&Side>) -> Vec<String> {
    let mut found = Vec::new();
    let Some(own) = &ours.assessment else { return vec!["we have no plan".to_owned()] };
    if own.violations > 0 {
        found.push(format!("our plan has {} violations", own.violations));
    }
    let Some(other) = peer.and_then(|peer| peer.assessment.as_ref()) else { return found };
    if own.placed < other.placed {
        found.push(format!("we place {} pods and the reference {}", own.placed, other.placed));
    }
    if own.preferences_kept < other.preferences_kept {
        found
            .push(format!("we keep {} preferences and the reference {}", own.preferences_kept, other.preferences_kept));
    }
    let wanted = other.types_per_claim_min.min(TYPES_PER_CLAIM);
    if own.types_per_claim_min < wanted && own.nodes > 0 {
        found.push(format!("a claim leaves {} types open where {wanted} are wanted", own.types_per_claim_min));
    }
    found
}

/// How two prices compare; equal when both are nothing.
pub(super) fn price_ratio(price: f64, other: f64) -> Option<f64> {
    match (price > 0.0, other > 0.0) {
        (false, false) => Some(1.0),
        (true, false) => None,
        _ => Some(price / other),
    }
}

impl Results {
    /// The results of an earlier run in the same folder on the same machine; none when there are none that can be read.
    pub(super) fn read(path: &Path, machine: &Machine) -> Self {
        let known = std::fs::read(path).ok().and_then(|text| serde_json::from_slice::<Self>(&text).ok());
        let known = known.filter(|results| results.machine == *machine).unwrap_or_default();
        Self { machine: machine.clone(), rows: known.rows }
    }

    /// In one step, so that a run that is stopped leaves whole rows.
    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self).context("encoding results")?;
        let partial = path.with_extension("partial");
        std::fs::write(&partial, text).with_context(|| format!("writing {}", partial.display()))?;
        std::fs::rename(&partial, path).with_context(|| format!("writing {}", path.display()))
    }

    pub(super) fn row(&self, workload: &str) -> Option<&RowResult> {
        self.rows.iter().find(|row| row.workload == workload)
    }

    pub(super) fn put(&mut self, row: RowResult) {
        let place = |name: &str| super::rows::ROWS.iter().position(|row| row.name == name).unwrap_or(usize::MAX);
        self.rows.retain(|known| known.workload != row.workload);
        self.rows.push(row);
        self.rows.sort_by_key(|row| place(&row.workload));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(change: impl FnOnce(&mut Assessment)) -> Side {
        let mut assessment =
            Assessment { placed: 10, nodes: 2, types_per_claim_min: 20, preferences_kept: 4, ..Assessment::default() };
        change(&mut assessment);
        Side {
            seconds: 1.0,
            lower_seconds: 0.0,
            catalogue_seconds: 0.0,
            pods_per_second: 10.0,
            peak_mb: 0.0,
            runs: 5,
            parallelism: None,
            capped: false,
            assessment: Some(assessment),
        }
    }

    #[test]
    fn a_row_counts_only_when_nothing_was_given_up_for_speed() {
        let peer = side(|_| ());
        let check = |change: fn(&mut Assessment), expected: &str| {
            assert_eq!(objections(&side(change), Some(&peer)).join("; "), expected);
        };
        check(|_| (), "");
        check(|own| own.violations = 1, "our plan has 1 violations");
        check(|own| own.placed = 9, "we place 9 pods and the reference 10");
        check(|own| own.preferences_kept = 3, "we keep 3 preferences and the reference 4");
        check(|own| own.types_per_claim_min = 15, "");
        check(|own| own.types_per_claim_min = 14, "a claim leaves 14 types open where 15 are wanted");
        let strict_peer = side(|other| other.types_per_claim_min = 3);
        assert!(objections(&side(|own| own.types_per_claim_min = 3), Some(&strict_peer)).is_empty());
    }

    #[test]
    fn the_file_has_the_agreed_names() {
        let row = RowResult {
            workload: "diverse-1".to_owned(),
            pods: 1,
            types: 400,
            existing_nodes: 0,
            sha256: String::new(),
            ours: side(|_| ()),
            peer: Some(side(|_| ())),
            ratio: Some(1.0),
            ratio_with_lowering: Some(1.0),
            price_ratio: Some(1.0),
            lp_bound: 0.0,
            price_over_lp_bound: None,
            counts: true,
            reasons: Vec::new(),
            measured: Measured::default(),
        };
        let text = serde_json::to_value(&row).unwrap();
        for key in ["workload", "pods", "types", "existingNodes", "sha256", "ratio", "priceRatio"] {
            assert!(text.get(key).is_some(), "{key}");
        }
        for side in ["ours", "peer"] {
            for key in [
                "seconds",
                "lowerSeconds",
                "podsPerSecond",
                "placed",
                "violations",
                "nodes",
                "pricePerHour",
                "worstLaunchPricePerHour",
                "typesPerClaimMin",
                "preferencesKept",
                "peakMB",
            ] {
                assert!(text[side].get(key).is_some(), "{side}.{key}");
            }
        }
        let back: RowResult = serde_json::from_value(text).unwrap();
        assert_eq!(back.ours.assessment.map(|known| known.placed), Some(10));
    }
}
