//! What a run of the benchmark found: `bench/out/solve.json`.

use std::fmt;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::answer::Answer;
use super::assess::Assessment;
use super::targets::significant;

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

/// How two prices compare.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Quotient {
    Of(f64),
    /// Nothing is bought on either side, which is as good as equal.
    BothNothing,
    /// Something is bought where nothing would have done.
    OverNothing,
    /// There are no two prices.
    Unknown,
}

impl Quotient {
    fn new(price: f64, other: f64) -> Self {
        match (price > 0.0, other > 0.0) {
            (false, false) => Self::BothNothing,
            (true, false) => Self::OverNothing,
            _ => Self::Of(price / other),
        }
    }

    /// Our price by that of a reference which came to its end: a plan that was cut short buys too little to compare with.
    pub(super) fn over_peer(ours: &Side, peer: Option<&Side>) -> Self {
        let finished = peer.filter(|peer| !peer.capped).and_then(|peer| peer.assessment.as_ref());
        match (&ours.assessment, finished) {
            (Some(own), Some(other)) => Self::new(own.price_per_hour, other.price_per_hour),
            _ => Self::Unknown,
        }
    }

    /// Our price by the one that no plan for the same pods can be below.
    pub(super) fn over_bound(ours: &Side, lp_bound: f64) -> Self {
        ours.assessment.as_ref().map_or(Self::Unknown, |own| Self::new(own.price_per_hour, lp_bound))
    }

    pub(super) fn number(self) -> Option<f64> {
        match self {
            Self::Of(number) => Some(number),
            Self::BothNothing => Some(1.0),
            Self::OverNothing | Self::Unknown => None,
        }
    }
}

impl fmt::Display for Quotient {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Of(number) => out.write_str(&significant(*number)),
            Self::BothNothing => out.write_str("0 ÷ 0"),
            Self::OverNothing => out.write_str("∞"),
            Self::Unknown => out.write_str("–"),
        }
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
    use crate::bench::sample::{row, side};

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
        let text = serde_json::to_value(row("diverse-1")).unwrap();
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
    #[test]
    fn prices_of_nothing_are_told_apart_from_equal_ones() {
        let check = |own: f64, other: f64, expected: &str, number: Option<f64>| {
            let priced = |price: f64| side(|plan| plan.price_per_hour = price);
            let found = Quotient::over_peer(&priced(own), Some(&priced(other)));
            assert_eq!((found.to_string().as_str(), found.number()), (expected, number));
            assert_eq!(Quotient::over_bound(&priced(own), other), found);
        };
        check(3.0, 3.0, "1.000", Some(1.0));
        check(0.0, 3.0, "0", Some(0.0));
        check(0.0, 0.0, "0 ÷ 0", Some(1.0));
        check(3.0, 0.0, "∞", None);
    }

    #[test]
    fn a_price_compares_only_with_a_plan_that_was_finished() {
        let ours = side(|_| ());
        let capped = Side { capped: true, ..side(|_| ()) };
        let planless = Side { assessment: None, ..side(|_| ()) };
        for peer in [None, Some(&capped), Some(&planless)] {
            assert_eq!(Quotient::over_peer(&ours, peer), Quotient::Unknown);
        }
        assert_eq!(Quotient::over_peer(&planless, Some(&ours)), Quotient::Unknown);
        assert_eq!(Quotient::over_bound(&planless, 0.0), Quotient::Unknown);
    }

    #[test]
    fn a_new_row_replaces_its_own_and_keeps_the_others_in_the_rows_order() {
        let mut results = Results::default();
        for name in ["generic-10000", "diverse-50", "diverse-1"] {
            results.put(row(name));
        }
        results.put(RowResult { pods: 7, ..row("diverse-50") });
        let found: Vec<(&str, usize)> = results.rows.iter().map(|row| (row.workload.as_str(), row.pods)).collect();
        assert_eq!(found, [("diverse-1", 1), ("diverse-50", 7), ("generic-10000", 10_000)]);
    }

    #[test]
    fn results_of_another_machine_are_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("solve.json");
        let here = Machine { processor: "here".to_owned(), cores: 2, memory_mb: 1024 };
        assert!(Results::read(&path, &here).rows.is_empty(), "there is no file");
        Results { machine: here.clone(), rows: vec![row("diverse-1")] }.write(&path).unwrap();
        assert_eq!(Results::read(&path, &here).rows.len(), 1);
        let elsewhere = [
            Machine { processor: "elsewhere".to_owned(), ..here.clone() },
            Machine { cores: 4, ..here.clone() },
            Machine { memory_mb: 2048, ..here.clone() },
        ];
        for machine in elsewhere {
            let read = Results::read(&path, &machine);
            assert!(read.rows.is_empty() && read.machine == machine, "{machine:?}");
        }
        std::fs::write(&path, "{\"machine\": ").unwrap();
        assert!(Results::read(&path, &here).rows.is_empty(), "what cannot be read is not believed");
    }

    /// Whoever holds the old file keeps all of it: the new one takes its name and not its bytes.
    #[test]
    fn a_file_is_replaced_in_one_step() {
        let folder = tempfile::tempdir().unwrap();
        let (path, held) = (folder.path().join("solve.json"), folder.path().join("held.json"));
        let mut results = Results::default();
        results.put(row("diverse-1"));
        results.write(&path).unwrap();
        std::fs::hard_link(&path, &held).unwrap();
        results.put(row("diverse-50"));
        results.write(&path).unwrap();
        let count = |path: &Path| Results::read(path, &Machine::default()).rows.len();
        assert_eq!((count(&path), count(&held)), (2, 1));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing half done is left");
    }
}
