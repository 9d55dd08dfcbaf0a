//! What must be reached, as code.

use super::file::Preferences;
use super::results::{Quotient, Results, RowResult};
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

/// The rows that nobody has measured; their targets are open.
pub(super) fn absent(results: &Results) -> Vec<&'static str> {
    ROWS.iter().map(|row| row.name).filter(|name| results.row(name).is_none()).collect()
}

/// Wanted of rows in which no pod has a word about other pods.
const OVER_BOUND_MAX: f64 = 1.05;

fn of_row(row: &Row, result: &RowResult) -> Vec<Finding> {
    let find = |what: &'static str, limit: Limit, got: f64| finding(row.name, what, limit, Some(got));
    let mut found = Vec::new();
    if let Some(least) = speed(row) {
        found.push(of_speed(row, least, result));
    }
    let over_peer = Quotient::over_peer(&result.ours, result.peer.as_ref());
    found.push(of_price(row, "price ÷ the reference's", price(row.kind), over_peer));
    if row.kind == Kind::Existing {
        found.push(find("seconds", Limit::Below(1.0), result.ours.seconds));
        found.push(find("peak MB", Limit::Below(300.0), result.ours.peak_mb));
    }
    if row.kind.is_free_of_affinity() {
        let over_bound = Quotient::over_bound(&result.ours, result.lp_bound);
        found.push(of_price(row, "price ÷ LP bound", OVER_BOUND_MAX, over_bound));
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

/// A reference that was given up took longer than we know, so a ratio that is too small decides nothing.
fn of_speed(row: &Row, least: f64, result: &RowResult) -> Finding {
    let known = finding(row.name, "times the reference's pods per second", Limit::AtLeast(least), result.ratio);
    if !result.peer.as_ref().is_some_and(|peer| peer.capped) {
        return known;
    }
    let outcome = if known.outcome == Outcome::Missed { Outcome::Unknown } else { known.outcome };
    Finding { got: format!("more than {}", known.got), outcome, ..known }
}

fn of_price(row: &Row, what: &'static str, most: f64, quotient: Quotient) -> Finding {
    let find = |got: Option<f64>| finding(row.name, what, Limit::AtMost(most), got);
    match quotient {
        Quotient::Of(_) | Quotient::Unknown => find(quotient.number()),
        Quotient::BothNothing => Finding { got: quotient.to_string(), ..find(quotient.number()) },
        Quotient::OverNothing => Finding { got: quotient.to_string(), ..find(Some(f64::INFINITY)) },
    }
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
    let large = per_pod("generic-100000")?;
    let grown = per_pod("generic-10000").map(|small| large / small);
    Some(finding("generic-100000", "seconds per pod ÷ those at 10,000", Limit::AtMost(2.0), grown))
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
    use crate::bench::sample::row;

    fn all_rows() -> Results {
        Results { rows: ROWS.iter().map(|known| row(known.name)).collect(), ..Results::default() }
    }

    /// The only finding about this row and number.
    fn only(results: &Results, row: &str, what: &str) -> Finding {
        let mut found = findings(results).into_iter().filter(|finding| finding.row == row && finding.what == what);
        let one = found.next().unwrap_or_else(|| panic!("nothing about {what} of {row}"));
        assert_eq!(found.next(), None);
        one
    }

    const SPEED: &str = "times the reference's pods per second";
    const PRICE: &str = "price ÷ the reference's";
    const BOUND: &str = "price ÷ LP bound";
    const GROWTH: &str = "seconds per pod ÷ those at 10,000";

    #[test]
    fn targets_are_those_that_were_agreed() {
        let found = findings(&all_rows());
        let rows = |what: &str, wanted: &str| {
            let named = found.iter().filter(|finding| finding.what == what && finding.wanted == wanted);
            named.map(|finding| finding.row.as_str()).collect::<Vec<_>>().join(" ")
        };
        let names = |is_wanted: fn(&&Row) -> bool| {
            ROWS.iter().filter(is_wanted).map(|row| row.name).collect::<Vec<_>>().join(" ")
        };
        let tables = [
            (SPEED, "≥ 20", "diverse-1 diverse-50 diverse-100".to_owned()),
            (SPEED, "≥ 200", "diverse-500 diverse-1000 diverse-2000".to_owned()),
            (SPEED, "≥ 500", "diverse-5000 diverse-10000 diverse-20000 preference-respect-4000".to_owned()),
            (SPEED, "≥ 100", "preference-ignore-4000".to_owned()),
            (PRICE, "≤ 0.2", "ec2-plain-500 ec2-plain-2000".to_owned()),
            (PRICE, "≤ 0.97", "openb-8152".to_owned()),
            (PRICE, "≤ 1", names(|row| !row.name.starts_with("ec2-plain") && !row.name.starts_with("openb"))),
            (
                BOUND,
                "≤ 1.05",
                "ec2-plain-500 ec2-plain-2000 openb-8152 existing-10000 generic-10000 generic-100000".to_owned(),
            ),
            ("seconds", "< 1", "existing-10000".to_owned()),
            ("peak MB", "< 300", "existing-10000".to_owned()),
            (GROWTH, "≤ 2", "generic-100000".to_owned()),
            ("the row counts", "yes", names(|_| true)),
        ];
        for (what, wanted, expected) in &tables {
            assert_eq!(rows(what, wanted), *expected, "{what} {wanted}");
        }
        let listed: usize = tables.iter().map(|(.., rows)| rows.split(' ').count()).sum();
        assert_eq!(found.len(), listed, "and there are no others");
        assert!(found.iter().all(|finding| finding.outcome == Outcome::Met), "{found:?}");
    }

    #[test]
    fn a_reference_that_was_given_up_leaves_open_what_it_did_not_decide() {
        let outcomes = |ratio: f64| {
            let mut results = all_rows();
            let capped = results.rows.iter_mut().find(|row| row.workload == "diverse-20000").unwrap();
            capped.peer.as_mut().unwrap().capped = true;
            capped.ratio = Some(ratio);
            [SPEED, PRICE].map(|what| {
                let found = only(&results, "diverse-20000", what);
                (found.got, found.outcome)
            })
        };
        let price = ("nothing to compare with".to_owned(), Outcome::Unknown);
        assert_eq!(outcomes(600.0), [("more than 600.0".to_owned(), Outcome::Met), price.clone()]);
        assert_eq!(outcomes(400.0), [("more than 400.0".to_owned(), Outcome::Unknown), price]);
    }

    #[test]
    fn without_the_reference_its_targets_are_open() {
        let mut alone = row("diverse-500");
        (alone.peer, alone.ratio, alone.price_ratio) = (None, None, None);
        let results = Results { rows: vec![alone], ..Results::default() };
        for what in [SPEED, PRICE] {
            assert_eq!(only(&results, "diverse-500", what).outcome, Outcome::Unknown);
        }
    }

    #[test]
    fn buying_where_nothing_would_do_is_missed_and_buying_nothing_is_met() {
        let check = |own: f64, expected: (&str, Outcome)| {
            let mut existing = row("existing-10000");
            existing.ours.assessment.as_mut().unwrap().price_per_hour = own;
            existing.peer.as_mut().unwrap().assessment.as_mut().unwrap().price_per_hour = 0.0;
            existing.lp_bound = 0.0;
            let results = Results { rows: vec![existing], ..Results::default() };
            for what in [PRICE, BOUND] {
                let found = only(&results, "existing-10000", what);
                assert_eq!((found.got.as_str(), found.outcome), expected, "{what}");
            }
        };
        check(0.0, ("0 ÷ 0", Outcome::Met));
        check(0.1, ("∞", Outcome::Missed));
    }

    #[test]
    fn rows_that_are_absent_are_named_and_growth_needs_both_of_its_rows() {
        let mut results = all_rows();
        assert_eq!(absent(&results), Vec::<&str>::new());
        results.rows.retain(|row| !["openb-8152", "generic-10000"].contains(&row.workload.as_str()));
        assert_eq!(absent(&results), ["openb-8152", "generic-10000"]);
        assert_eq!(only(&results, "generic-100000", GROWTH).outcome, Outcome::Unknown);
        results.rows.retain(|row| row.workload != "generic-100000");
        assert!(findings(&results).iter().all(|finding| finding.what != GROWTH));
    }

    #[test]
    fn pods_that_take_more_than_twice_as_long_among_many_are_missed() {
        let growth = |seconds: f64| {
            let mut results = all_rows();
            results.rows.iter_mut().find(|row| row.workload == "generic-100000").unwrap().ours.seconds = seconds;
            only(&results, "generic-100000", GROWTH).outcome
        };
        // The row of 10,000 takes half a second.
        assert_eq!([growth(10.0), growth(10.1)], [Outcome::Met, Outcome::Missed]);
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
