//! Ratios of paired runs, and targets.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use super::Story;
use super::cheapest::Cheapest;
use super::measure::Run;
use crate::Which;

/// What `consolidateAfter` alone takes in every story.
const CONSOLIDATE_AFTER_SECONDS: f64 = 30.0;
/// What a floating-point sum of equal prices may be off by.
const ROUNDING: f64 = 1e-9;

/// A number that must be reached, and what it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    pub what: &'static str,
    pub found: f64,
    pub at_most: f64,
    pub is_met: bool,
}

impl Verdict {
    fn of(what: &'static str, found: Option<f64>, at_most: f64) -> Option<Self> {
        // What is no number is no success.
        found.map(|found| Self { what, found, at_most, is_met: found <= at_most + ROUNDING })
    }
}

/// All rounds of one story.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    pub story: Story,
    /// Rounds that both sides have played.
    pub pairs: usize,
    pub verdicts: Vec<Verdict>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    pub runs: Vec<Run>,
    pub cheapest: Vec<Cheapest>,
    pub rows: Vec<Row>,
}

impl Report {
    pub fn of(mut runs: Vec<Run>, cheapest: Vec<Cheapest>) -> Self {
        runs.sort_by_key(|run| (run.story, run.round, run.which));
        let stories: BTreeSet<Story> = runs.iter().map(|run| run.story).collect();
        let rows = stories.into_iter().map(|story| Row::of(story, &runs, &cheapest)).collect();
        Self { runs, cheapest, rows }
    }

    pub fn is_met(&self) -> bool {
        let is_met = |row: &Row| row.pairs > 0 && row.verdicts.iter().all(|verdict| verdict.is_met);
        !self.rows.is_empty() && self.rows.iter().all(is_met)
    }
}

impl Row {
    fn of(story: Story, runs: &[Run], cheapest: &[Cheapest]) -> Self {
        let of = |which: Which| runs.iter().filter(move |run| run.story == story && run.which == which);
        let pairs: Vec<(&Run, &Run)> = of(Which::Dovetail)
            .filter_map(|ours| Some((ours, of(Which::Reference).find(|theirs| theirs.round == ours.round)?)))
            .collect();
        // Both sides of a pair met the same moment of the machine, so they are divided first.
        let ratio = |number: fn(&Run) -> f64| median(pairs.iter().map(|(ours, theirs)| number(ours) / number(theirs)));
        let worst = |number: &dyn Fn(&Run) -> Option<f64>| of(Which::Dovetail).filter_map(number).reduce(f64::max);
        let above_cheapest = |run: &Run| {
            let known = cheapest.iter().find(|known| (known.story, known.round) == (run.story, run.round))?;
            Some(run.after.dollars_per_hour / known.dollars_per_hour)
        };
        let verdicts = match story {
            Story::ScaleDown { .. } => [
                Verdict::of("time to rest, of the reference's, median", ratio(|run| run.seconds), 0.6),
                Verdict::of(
                    "seconds to rest after the 30 s, worst",
                    worst(&|run| Some(run.seconds - CONSOLIDATE_AFTER_SECONDS)),
                    60.0,
                ),
                Verdict::of("price, of the cheapest, worst", worst(&above_cheapest), 1.02),
            ],
            Story::Fragmented => [
                Verdict::of("price, of the reference's, median", ratio(|run| run.after.dollars_per_hour), 0.97),
                Verdict::of(
                    "evictions per dollar saved, of the reference's, median",
                    ratio(|run| run.evictions as f64 / run.saved()),
                    1.0,
                ),
                // Reported, and worth nothing by itself: these pods were never meant to be bought for anew.
                None,
            ],
        };
        Self { story, pairs: pairs.len(), verdicts: verdicts.into_iter().flatten().collect() }
    }
}

fn median(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied()
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<12} {} {:<9}  {} {:6.1} s; {:>3} nodes ${:6.3}/h -> {:>3} nodes ${:6.3}/h; {:>4} evictions, {:>3} claims made; cpu {:5.2} s, peak {:5.1} MB",
            self.story.to_string(),
            self.round,
            format!("{:?}", self.which).to_lowercase(),
            if self.is_at_rest { "at rest after" } else { "no rest after" },
            self.seconds,
            self.before.nodes,
            self.before.dollars_per_hour,
            self.after.nodes,
            self.after.dollars_per_hour,
            self.evictions,
            self.claims_made,
            self.cpu_seconds,
            self.peak_megabytes,
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.rows {
            writeln!(f, "{}, {} paired rounds:", row.story, row.pairs)?;
            for run in self.runs.iter().filter(|run| run.story == row.story) {
                writeln!(f, "  {run}")?;
            }
            for known in self.cheapest.iter().filter(|known| known.story == row.story) {
                writeln!(
                    f,
                    "  round {}: the engine names ${:.3}/h for these pods",
                    known.round, known.dollars_per_hour
                )?;
            }
            for verdict in &row.verdicts {
                let word = if verdict.is_met { "met" } else { "MISSED" };
                writeln!(f, "  {:<56} {:7.3}, at most {:5.2}: {word}", verdict.what, verdict.found, verdict.at_most)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::measure::Bill;
    use super::*;

    const STORY: Story = Story::ScaleDown { from: 500, to: 50 };

    fn run(story: Story, round: usize, which: Which, seconds: f64, price: f64) -> Run {
        Run {
            story,
            round,
            which,
            binary: String::new(),
            is_at_rest: true,
            seconds,
            before: Bill { nodes: 34, dollars_per_hour: 14.5 },
            after: Bill { nodes: 4, dollars_per_hour: price },
            evictions: 30,
            claims_made: 1,
            cpu_seconds: 1.0,
            peak_megabytes: 40.0,
        }
    }

    fn report(story: Story, ours: &[(f64, f64)], theirs: &[(f64, f64)]) -> Report {
        let side = |which: Which, of: &[(f64, f64)]| -> Vec<Run> {
            let number = |(round, (seconds, price)): (usize, &(f64, f64))| run(story, round, which, *seconds, *price);
            of.iter().enumerate().map(number).collect()
        };
        let runs = [side(Which::Reference, theirs), side(Which::Dovetail, ours)].concat();
        let cheapest = (0..3).map(|round| Cheapest { story, round, dollars_per_hour: 1.5 }).collect();
        Report::of(runs, cheapest)
    }

    #[test]
    fn pairs_are_divided_first_and_the_median_counts() {
        // The middle of 0.5, 0.9 and 0.1, where the medians of each side would give 0.6.
        let met = report(STORY, &[(40.0, 1.5), (54.0, 1.5), (60.0, 1.5)], &[(80.0, 2.0), (60.0, 2.0), (600.0, 2.0)]);
        assert!((met.rows[0].verdicts[0].found - 0.5).abs() < ROUNDING, "{met}");
        assert!(met.is_met(), "{met}");
    }

    #[test]
    fn one_slow_or_dear_run_is_a_miss_whatever_the_median() {
        let theirs = [(300.0, 2.0); 3];
        let slow = report(STORY, &[(40.0, 1.5), (91.0, 1.5), (40.0, 1.5)], &theirs);
        let dear = report(STORY, &[(40.0, 1.5), (40.0, 1.54), (40.0, 1.5)], &theirs);
        let missed = |report: &Report| -> Vec<usize> {
            let verdicts = report.rows[0].verdicts.iter().enumerate();
            verdicts.filter(|(_, verdict)| !verdict.is_met).map(|(number, _)| number).collect()
        };
        assert_eq!((missed(&slow), missed(&dear)), (vec![1], vec![2]));
        assert!(slow.to_string().contains("MISSED"));
    }

    #[test]
    fn fragments_are_judged_by_price_and_by_what_a_dollar_costs_in_evictions() {
        let dearer = report(Story::Fragmented, &[(40.0, 5.0)], &[(40.0, 5.0)]);
        assert_eq!(dearer.rows[0].verdicts.iter().map(|verdict| verdict.is_met).collect::<Vec<_>>(), [false, true]);
        let cheaper = report(Story::Fragmented, &[(40.0, 4.0)], &[(40.0, 5.0)]);
        assert!(cheaper.is_met(), "{cheaper}");
    }

    #[test]
    fn a_contest_without_an_opponent_is_not_won() {
        assert!(!report(STORY, &[(40.0, 1.5)], &[]).is_met());
        assert!(!Report::of(Vec::new(), Vec::new()).is_met());
    }
}
