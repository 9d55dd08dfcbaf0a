use std::error::Error;

use super::*;

/// Reads a pool's budgets, one per line, as `<nodes> [for <reasons>] [at <schedule> during <duration>]`.
fn pool(budgets: &[&str]) -> Budgets {
    let read = |line: &&str| {
        let (line, duration) = split(line, " during ");
        let (line, schedule) = split(line, " at ");
        let (nodes, reasons) = split(line, " for ");
        let reasons = reasons.map(|reasons| reasons.split(',').filter(|reason| !reason.is_empty()).collect());
        let duration = duration.map(hours_and_minutes);
        Budget::parse(&BudgetText { nodes, reasons, schedule, duration })
    };
    budgets.iter().map(read).collect()
}

/// Reads `2h`, `30m` or `1h30m`.
fn hours_and_minutes(text: &str) -> Duration {
    let (hours, minutes) = text.split_once('h').unwrap_or(("0", text));
    let minutes = minutes.trim_end_matches("0s").trim_end_matches('m');
    let minutes: u64 = if minutes.is_empty() { 0 } else { minutes.parse().unwrap() };
    Duration::from_secs(hours.parse::<u64>().unwrap() * 3600 + minutes * 60)
}

fn split<'a>(line: &'a str, word: &str) -> (&'a str, Option<&'a str>) {
    line.split_once(word).map_or((line, None), |(head, tail)| (head, Some(tail)))
}

/// What a pool of `total_nodes` allows at `now`, for each reason in the order of [`Reason::ALL`].
fn check(budgets: &[&str], now: &str, total_nodes: u32, expected: [u32; 4]) {
    let pool = pool(budgets);
    let now = now.parse().unwrap();
    let actual = Reason::ALL.map(|reason| pool.allowed_disruptions(reason, now, total_nodes));
    assert_eq!(actual, expected, "{budgets:?} at {now}");
}

/// Whether a budget with this window limits anything at `now`.
fn check_active(window: &str, now: &str, is_active: bool) {
    check(&[&format!("0 at {window}")], now, 10, [if is_active { 0 } else { UNLIMITED }; 4]);
}

/// The only complaint about these budgets, with its causes; such a pool allows nothing for any reason.
fn check_invalid(budgets: &[&str], complaint: &str) {
    let pool = pool(budgets);
    let actual: Vec<String> = pool.invalid().iter().map(|invalid| with_causes(invalid)).collect();
    assert_eq!(actual, [complaint], "{budgets:?}");
    check(budgets, NOON, 100, [0; 4]);
}

fn with_causes(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", with_causes(cause)),
        None => error.to_string(),
    }
}

const NOON: &str = "2000-06-15T12:30:30Z";
const STOPPED: &str = "cannot be used and stops all disruption of its pool";

/// A mixture as people write it: three for all reasons, two for some, and one that is active on Sundays only.
const MIXED: [&str; 6] = [
    "10 at * * * * * during 1h",
    "100 at * * * * * during 1h",
    "100% at * * * * * during 1h",
    "15 for Drifted,Underutilized at * * * * * during 1h",
    "5 for Drifted at * * * * * during 1h",
    "0 for Underutilized,Drifted,Empty,Unhealthy at @weekly during 1h",
];

// 01/API-28, 02/BU1
#[test]
fn without_an_active_budget_disruption_is_unlimited() {
    check(&[], NOON, 100, [2_147_483_647; 4]);
    check(&["0 at @yearly during 1h", "5 for Drifted at @yearly during 1h"], NOON, 100, [2_147_483_647; 4]);
}

// 02/BU2
#[test]
fn an_active_zero_for_all_reasons_stops_all_reasons() {
    check(&["0"], NOON, 100, [0; 4]);
    check(&["10", "0 for Underutilized,Drifted,Empty,Unhealthy at * * * * * during 1h"], NOON, 100, [0; 4]);
}

// 02/BU3
#[test]
fn a_budget_for_some_reasons_counts_only_while_active() {
    check(&["10", "5 for Drifted at @yearly during 1h"], NOON, 100, [10; 4]);
    check(&["10", "5 for Drifted at @yearly during 1h"], "2000-01-01T00:59:59Z", 100, [10, 10, 5, 10]);
}

// 01/API-28, 02/BU4
#[test]
fn the_smallest_budget_that_covers_a_reason_decides() {
    check(&MIXED, NOON, 100, [10, 10, 5, 10]);
    check(&[&MIXED[..], &["4 for Empty"]].concat(), NOON, 100, [10, 4, 5, 10]);
    check(&["20 for Empty", "3"], NOON, 100, [3; 4]);
    check(&["20 for Empty"], NOON, 100, [UNLIMITED, 20, UNLIMITED, UNLIMITED]);
}

#[test]
fn an_empty_list_of_reasons_means_all_reasons() {
    check(&["3 for "], NOON, 100, [3; 4]);
    assert_eq!(pool(&["3 for "]).usable()[0].reasons, Some(BTreeSet::new()));
}

#[test]
fn a_percentage_rounds_up() {
    for (nodes, total_nodes, expected) in
        [("5%", 10, 1), ("10%", 1, 1), ("10%", 0, 0), ("0%", 10, 0), ("100%", 7, 7), ("33%", 10, 4), ("50%", 10, 5)]
    {
        check(&[nodes], NOON, total_nodes, [expected; 4]);
    }
    check(&["100%"], NOON, u32::MAX, [UNLIMITED; 4]);
    check(&["2147483647"], NOON, 1, [UNLIMITED; 4]);
}

// 01/API-28, 02/BU6
#[test]
fn a_budget_is_active_from_each_hit_until_its_duration_has_passed() {
    for (now, is_active) in [
        ("2024-01-07T06:29:59.999999999Z", false),
        ("2024-01-07T06:30:00Z", true),
        ("2024-01-07T09:00:00Z", true),
        ("2024-01-07T12:29:59.999999999Z", true),
        ("2024-01-07T12:30:00Z", false),
    ] {
        check_active("30 6 * * SUN during 6h", now, is_active);
    }
    check_active("@yearly during 24h", "1000-01-01T12:00:00Z", true);
    check_active("@yearly during 1h", NOON, false);
    // Midnight in a zone that is one hour ahead is no midnight to us.
    check_active("@daily during 30m", "2000-05-30T23:00:00Z", false);
}

// 01/API-28, 02/BU6
#[test]
fn a_window_longer_than_the_recurrence_never_closes() {
    check_active("@daily during 48h", "2024-01-07T00:00:00Z", true);
    check_active("@daily during 24h", "2024-01-06T23:59:59.999999999Z", true);
    check_active("* * * * * during 1h", NOON, true);
}

#[test]
fn odd_windows_are_as_active_as_upstream_has_them() {
    // A schedule that never comes is always on; a window of no length never is.
    check_active("0 0 30 2 * during 1h", NOON, true);
    check_active("* * * * * during 0s", "2024-01-07T00:00:00Z", false);
    check_active(" @daily  during 48h", NOON, true);
}

// 01/API-28, 02/BU5
#[test]
fn one_invalid_budget_stops_every_reason() {
    check_invalid(
        &["10", "5 for Drifted at 0 0 * * tue-mon during 6h"],
        &format!(
            "budgets[1] {STOPPED}: schedule `0 0 * * tue-mon` is not a cron expression: day-of-week field `tue-mon`: \
             beginning of range (2) beyond end of range (1); to wrap around, write two ranges with a comma"
        ),
    );
    check_invalid(
        &["1000a% for Empty"],
        &format!(
            "budgets[0] {STOPPED}: nodes `1000a%` is neither a count up to 2147483647 nor a percentage; write it like \
             `5` or `10%`"
        ),
    );
    let two = pool(&["x", "5", "5 at @wrongly during 1h"]);
    assert_eq!(two.invalid().iter().map(|invalid| invalid.index).collect::<Vec<_>>(), [0, 2]);
    assert_eq!(two.usable().len(), 1);
}

#[test]
fn a_refusal_says_what_would_help() {
    let [unset, hit] = ["or set neither", "say how long the budget is active after each hit"];
    for (budget, complaint) in [
        ("5 for expired", "unknown reason `expired`; use Underutilized, Empty, Drifted or Unhealthy".to_owned()),
        ("5 for empty", "unknown reason `empty`; use Underutilized, Empty, Drifted or Unhealthy".to_owned()),
        ("5 at @daily", format!("schedule without duration; {hit}, {unset}")),
        ("5 during 1h", format!("duration without schedule; say when the budget becomes active, {unset}")),
        (
            "5 at TZ=UTC 0 0 * * * during 1h",
            "schedule `TZ=UTC 0 0 * * *` names a time zone; budgets are always in UTC, leave the zone out".to_owned(),
        ),
    ] {
        check_invalid(&[budget], &format!("budgets[0] {STOPPED}: {complaint}"));
    }
}

#[test]
fn nodes_are_a_count_or_a_percentage_and_nothing_else() {
    for (text, expected) in [
        ("0", BudgetNodes::Count(0)),
        ("007", BudgetNodes::Count(7)),
        ("2147483647", BudgetNodes::Count(UNLIMITED)),
        ("0%", BudgetNodes::Percent(0)),
        ("05%", BudgetNodes::Percent(5)),
        ("100%", BudgetNodes::Percent(100)),
    ] {
        assert_eq!(BudgetNodes::parse(text), Ok(expected));
    }
    for text in ["", "%", "-1", "+1", "-1%", "101%", "010%", "0100%", "1.5", "5 ", " 5", "10%%", "2147483648", "ten"] {
        assert_eq!(BudgetNodes::parse(text), Err(BudgetError::Nodes { text: text.to_owned() }));
    }
}

#[test]
fn a_window_says_when_it_opens_and_when_it_closes() {
    let check = |schedule: &str, minutes: u64, now: &str, expected: Option<&str>| {
        let window = Window::parse(schedule, Duration::from_secs(60 * minutes)).unwrap();
        let found = window.next_change(now.parse().unwrap());
        assert_eq!(found, expected.map(|time| time.parse().unwrap()), "{schedule} for {minutes} minutes at {now}");
    };
    check("0 6 * * *", 60, "2024-01-07T05:00:00Z", Some("2024-01-07T06:00:00Z"));
    check("0 6 * * *", 60, "2024-01-07T06:00:00Z", Some("2024-01-07T07:00:00Z"));
    check("0 6 * * *", 60, "2024-01-07T06:59:59Z", Some("2024-01-07T07:00:00Z"));
    check("0 6 * * *", 60, "2024-01-07T07:00:00Z", Some("2024-01-08T06:00:00Z"));
    check("0 6,7 * * *", 90, "2024-01-07T06:10:00Z", Some("2024-01-07T08:30:00Z"));
    check("0 6,7 * * *", 60, "2024-01-07T06:10:00Z", Some("2024-01-07T08:00:00Z"));
    // After very many windows in a row it is time to ask again.
    check("* * * * *", 5, "2024-01-07T06:10:00Z", Some("2024-01-08T15:31:00Z"));
    check("0 0 30 2 *", 5, "2024-01-07T06:10:00Z", None);
}
