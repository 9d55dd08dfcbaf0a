//! What must be reached, as code.

use super::file::Preferences;
use super::results::{Results, RowResult};
use super::rows::{Kind, ROWS, Row};

/// One number that was asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Finding {
    pub(super) row: String,
    pub(super) what: &'static str,
    pub(super) wanted: String,
    pub(super) got: String,
    pub(super) outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Met,
    Missed,
    /// There is nothing to compare with.
    Unknown,
}

#[derive(Clone, Copy)]
pub(super) enum Limit {
    AtLeast(f64),
    AtMost(f64),
    Below(f64),
}

impl Limit {
    fn allows(self, number: f64) -> bool {
        match self {
            Self::AtLeast(limit) => number >= limit,
            // What prints as the limit has reached it: prices are sums of many roundings.
            Self::AtMost(limit) => number <= limit + 1e-9,
            Self::Below(limit) => number < limit,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(limit) => format!("≥ {limit}"),
            Self::AtMost(limit) => format!("≤ {limit}"),
            Self::Below(limit) => format!("< {limit}"),
        }
    }
}

/// Every target that the rows speak of, in the order of the rows.
pub(super) fn findings(results: &Results) -> Vec<Finding> {
    let known =
        results.rows.iter().filter_map(|result| Some((ROWS.iter().find(|row| row.name == result.workload)?, result)));
    let mut found: Vec<Finding> = known.flat_map(|(row, result)| of_row(row, result)).collect();
    found.extend(growth(results));
    found
}

fn of_row(row: &Row, result: &RowResult) -> Vec<Finding> {
    let find = |what: &'static str, limit: Limit, got: Option<f64>| finding(row.name, what, limit, got);
    let mut found = Vec::new();
    if result.peer.is_some() {
        if let Some(least) = speed(row) {
            found.push(find("times the reference's pods per second", Limit::AtLeast(least), result.ratio));
        }
        found.push(find("price ÷ the reference's", Limit::AtMost(price(row.kind)), result.price_ratio));
    }
    if row.kind == Kind::Existing {
        found.push(find("seconds", Limit::Below(1.0), Some(result.ours.seconds)));
        found.push(find("peak MB", Limit::Below(300.0), Some(result.ours.peak_mb)));
    }
    if row.kind.is_free_of_affinity() {
        found.push(find("price ÷ LP bound", Limit::AtMost(1.05), result.price_over_lp_bound));
    }
    found.push(Finding {
        row: row.name.to_owned(),
        what: "the row counts",
        wanted: "yes".to_owned(),
        got: if result.counts { "yes".to_owned() } else { result.reasons.join("; ") },
        outcome: if result.counts { Outcome::Met } else { Outcome::Missed },
    });
    found
}

/// How many times the reference's pods per second.
fn speed(row: &Row) -> Option<f64> {
    match row.kind {
        Kind::Diverse if row.pods >= 5_000 => Some(500.0),
        Kind::Diverse if row.pods >= 500 => Some(200.0),
        Kind::Diverse => Some(20.0),
        Kind::Preference(Preferences::Respect) => Some(500.0),
        Kind::Preference(Preferences::Ignore) => Some(100.0),
        _ => None,
    }
}

fn price(kind: Kind) -> f64 {
    match kind {
        Kind::Openb => 0.97,
        Kind::Ec2Plain => 0.20,
        _ => 1.00,
    }
}

/// Ten times the pods must not take much more than ten times as long.
fn growth(results: &Results) -> Option<Finding> {
    let per_pod = |name: &str| results.row(name).map(|row| row.ours.seconds / row.pods as f64);
    let (large, small) = (per_pod("generic-100000")?, per_pod("generic-10000")?);
    let what = "seconds per pod ÷ those at 10,000";
    Some(finding("generic-100000", what, Limit::AtMost(2.0), Some(large / small)))
}

pub(super) fn finding(row: &str, what: &'static str, limit: Limit, got: Option<f64>) -> Finding {
    Finding {
        row: row.to_owned(),
        what,
        wanted: limit.text(),
        got: got.map_or_else(|| "nothing to compare with".to_owned(), significant),
        outcome: match got {
            Some(number) if limit.allows(number) => Outcome::Met,
            Some(_) => Outcome::Missed,
            None => Outcome::Unknown,
        },
    }
}

/// Four digits, whatever the size.
pub(super) fn significant(number: f64) -> String {
    let places = if number == 0.0 || !number.is_finite() {
        0
    } else {
        (3 - number.abs().log10().floor() as i32).max(0) as usize
    };
    format!("{number:.places$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_those_of_the_work_order() {
        let speeds: Vec<(&str, f64)> = ROWS.iter().filter_map(|row| Some((row.name, speed(row)?))).collect();
        let expected = [
            ("diverse-1", 20.0),
            ("diverse-50", 20.0),
            ("diverse-100", 20.0),
            ("diverse-500", 200.0),
            ("diverse-1000", 200.0),
            ("diverse-2000", 200.0),
            ("diverse-5000", 500.0),
            ("diverse-10000", 500.0),
            ("diverse-20000", 500.0),
            ("preference-respect-4000", 500.0),
            ("preference-ignore-4000", 100.0),
        ];
        assert_eq!(speeds, expected);
        let bounded: Vec<&str> = ROWS.iter().filter(|row| row.kind.is_free_of_affinity()).map(|row| row.name).collect();
        let free =
            ["ec2-plain-500", "ec2-plain-2000", "openb-8152", "existing-10000", "generic-10000", "generic-100000"];
        assert_eq!(bounded, free);
    }

    #[test]
    fn limits_are_met_missed_or_unknown() {
        let check = |limit: Limit, got: Option<f64>, expected: Outcome| {
            assert_eq!(finding("row", "what", limit, got).outcome, expected);
        };
        check(Limit::AtLeast(500.0), Some(500.0), Outcome::Met);
        check(Limit::AtLeast(500.0), Some(499.0), Outcome::Missed);
        check(Limit::AtMost(1.0), Some(1.0 + 1e-12), Outcome::Met);
        check(Limit::AtMost(1.0), Some(1.001), Outcome::Missed);
        check(Limit::Below(1.0), Some(1.0), Outcome::Missed);
        check(Limit::AtMost(1.0), None, Outcome::Unknown);
    }

    #[test]
    fn numbers_keep_four_digits() {
        assert_eq!(
            [123_456.7, 1234.6, 12.346, 0.001_234_6, 0.0].map(significant),
            ["123457", "1235", "12.35", "0.001235", "0"]
        );
    }
}
