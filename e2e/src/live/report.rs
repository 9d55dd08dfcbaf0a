//! Medians, ratios and targets.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use super::measure::{Run, Subject};

/// A ratio of ours to the reference's that must be reached.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    pub what: &'static str,
    pub at_most: f64,
}

/// In the order of the ratios of a row.
pub const TARGETS: [Target; 4] = [
    Target { what: "(time to all bound - floor)", at_most: 0.4 },
    Target { what: "cpu", at_most: 0.2 },
    Target { what: "peak memory", at_most: 0.25 },
    Target { what: "price", at_most: 1.0 },
];

/// What a floating-point sum of equal prices may be off by.
const ROUNDING: f64 = 1e-9;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    pub runs: Vec<Run>,
    pub rows: Vec<Row>,
}

/// All rounds with one number of pods.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    pub pods: usize,
    pub floor: Run,
    pub ours: Run,
    pub reference: Run,
    /// Ours divided by the reference's, in the order of the targets.
    pub ratios: [f64; 4],
    pub missed: Vec<Target>,
}

impl Report {
    pub fn of(runs: Vec<Run>) -> Self {
        let sizes: BTreeSet<usize> = runs.iter().map(|run| run.pods).collect();
        let rows = sizes.into_iter().filter_map(|pods| Row::of(&runs, pods)).collect();
        Self { runs, rows }
    }

    pub fn is_met(&self) -> bool {
        !self.rows.is_empty() && self.rows.iter().all(|row| row.missed.is_empty())
    }
}

impl Row {
    fn of(runs: &[Run], pods: usize) -> Option<Self> {
        let median_of = |subject: Subject| {
            let of_subject: Vec<&Run> = runs.iter().filter(|run| run.pods == pods && run.subject == subject).collect();
            medians(&of_subject)
        };
        let (floor, ours, reference) =
            (median_of(Subject::Floor)?, median_of(Subject::Dovetail)?, median_of(Subject::Reference)?);
        let above_floor = |run: &Run| run.all_bound_seconds - floor.all_bound_seconds;
        let ratios = [
            // Nobody is faster than the floor but by chance.
            above_floor(&ours).max(0.0) / above_floor(&reference),
            ours.cpu_seconds / reference.cpu_seconds,
            ours.peak_megabytes / reference.peak_megabytes,
            ours.dollars_per_hour / reference.dollars_per_hour,
        ];
        let is_missed = |(target, ratio): &(Target, f64)| !(0.0..=target.at_most + ROUNDING).contains(ratio);
        let missed = TARGETS.into_iter().zip(ratios).filter(is_missed).map(|(target, _)| target).collect();
        Some(Self { pods, floor, ours, reference, ratios, missed })
    }
}

/// The median of each number by itself.
fn medians(runs: &[&Run]) -> Option<Run> {
    let first = *runs.first()?;
    let median = |number: fn(&Run) -> f64| {
        let mut numbers: Vec<f64> = runs.iter().map(|run| number(run)).collect();
        numbers.sort_by(f64::total_cmp);
        numbers[numbers.len() / 2]
    };
    Some(Run {
        subject: first.subject,
        pods: first.pods,
        first_bound_seconds: median(|run| run.first_bound_seconds),
        all_bound_seconds: median(|run| run.all_bound_seconds),
        cpu_seconds: median(|run| run.cpu_seconds),
        peak_megabytes: median(|run| run.peak_megabytes),
        nodes: median(|run| run.nodes as f64) as usize,
        dollars_per_hour: median(|run| run.dollars_per_hour),
    })
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>5} pods, {:<9}  first bound {:6.2} s, all {:6.2} s; cpu {:6.2} s, peak {:6.1} MB; {:>4} nodes, ${:.2}/h",
            self.pods,
            format!("{:?}", self.subject).to_lowercase(),
            self.first_bound_seconds,
            self.all_bound_seconds,
            self.cpu_seconds,
            self.peak_megabytes,
            self.nodes,
            self.dollars_per_hour,
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.rows {
            writeln!(f, "{} pods, medians:", row.pods)?;
            for run in [&row.floor, &row.ours, &row.reference] {
                writeln!(f, "  {run}")?;
            }
            for (target, ratio) in TARGETS.iter().zip(row.ratios) {
                let verdict = if row.missed.contains(target) { "MISSED" } else { "met" };
                writeln!(
                    f,
                    "  {:<28} {ratio:6.3} of the reference's, at most {:4.2}: {verdict}",
                    target.what, target.at_most
                )?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(subject: Subject, all: f64, cpu: f64, peak: f64, price: f64) -> Run {
        let (pods, nodes, first_bound_seconds) = (500, 34, 1.0);
        Run {
            subject,
            pods,
            first_bound_seconds,
            all_bound_seconds: all,
            cpu_seconds: cpu,
            peak_megabytes: peak,
            nodes,
            dollars_per_hour: price,
        }
    }

    #[test]
    fn the_median_counts_and_the_floor_is_taken_off() {
        let runs = [4.0, 5.0, 3.0].map(|all| run(Subject::Floor, all, 0.0, 0.0, 0.0)).into_iter();
        let ours = [6.0, 5.0, 30.0].map(|all| run(Subject::Dovetail, all, 0.3, 20.0, 14.0));
        let theirs = [10.0, 9.0, 14.0].map(|all| run(Subject::Reference, all, 3.0, 120.0, 14.0));
        let report = Report::of(runs.chain(ours).chain(theirs).collect());
        let row = &report.rows[0];
        assert!((row.ratios[0] - 2.0 / 6.0).abs() < 1e-9, "{row:?}");
        assert!((row.ratios[1] - 0.1).abs() < 1e-9, "{row:?}");
        assert!(report.is_met(), "{report}");
    }

    #[test]
    fn every_miss_is_named_and_nothing_measured_is_a_miss() {
        let with = |ours: Run| {
            let floor = run(Subject::Floor, 4.0, 0.0, 0.0, 0.0);
            Report::of(vec![floor, ours, run(Subject::Reference, 10.0, 3.0, 100.0, 14.0)])
        };
        let report = with(run(Subject::Dovetail, 9.0, 0.9, 30.0, 14.1));
        assert_eq!(report.rows[0].missed, TARGETS);
        assert!(report.to_string().contains("MISSED"));
        assert!(with(run(Subject::Dovetail, 3.5, 0.1, 10.0, 14.0)).is_met(), "faster than the floor by chance");
        assert!(!Report::of(Vec::new()).is_met());
    }
}
