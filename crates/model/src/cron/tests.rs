use std::collections::BTreeSet;
use std::time::Duration;

use proptest::collection::btree_set;
use proptest::prelude::*;

use super::*;
use crate::time::Civil;

/// The next hit as text, or the message of the refusal.
fn check(spec: &str, after: &str, expected: Result<&str, &str>) {
    let after = after.parse().unwrap();
    let actual = Cron::parse(spec).map(|cron| cron.next_after(after).map_or("never".to_owned(), |hit| hit.to_string()));
    let expected = expected.map(str::to_owned).map_err(str::to_owned);
    assert_eq!(actual.map_err(|error| error.to_string()), expected, "{spec} after {after}");
}

fn check_next(spec: &str, after: &str, expected: &str) {
    check(spec, after, Ok(expected));
}

fn check_refused(spec: &str, message: &str) {
    check(spec, "2024-01-01T00:00:00Z", Err(message));
}

#[test]
fn a_hit_is_never_the_moment_asked_about() {
    check_next("0 0 * * *", "2024-01-07T00:00:00Z", "2024-01-08T00:00:00Z");
    check_next("0 0 * * *", "2024-01-06T23:59:59.999999999Z", "2024-01-07T00:00:00Z");
    check_next("* * * * *", "2024-01-07T00:00:00.5Z", "2024-01-07T00:01:00Z");
    check_next("59 23 31 12 *", "2023-12-31T23:59:00Z", "2024-12-31T23:59:00Z");
}

#[test]
fn two_restricted_day_fields_are_alternatives_and_a_star_makes_the_other_one_decide() {
    check_next("0 0 13 * FRI", "2024-06-08T00:00:00Z", "2024-06-13T00:00:00Z");
    check_next("0 0 13 * FRI", "2024-06-13T00:00:00Z", "2024-06-14T00:00:00Z");
    check_next("0 0 13 * *", "2024-06-13T00:00:00Z", "2024-07-13T00:00:00Z");
    check_next("0 0 ? * FRI", "2024-06-08T00:00:00Z", "2024-06-14T00:00:00Z");
    check_next("0 0 */2 * FRI", "2024-06-08T00:00:00Z", "2024-06-09T00:00:00Z");
    check_next("0 0 */1 * FRI", "2024-06-08T00:00:00Z", "2024-06-14T00:00:00Z");
}

#[test]
fn the_search_ends_with_the_fifth_year() {
    check_next("0 0 30 2 *", "2024-01-01T00:00:00Z", "never");
    check_next("0 0 , * *", "2024-01-01T00:00:00Z", "never");
    check_next("0 0 29 2 *", "2096-02-29T00:00:00Z", "never");
    check_next("0 0 29 2 *", "2098-12-31T23:59:58Z", "never");
    // The search begins one second later, in the next year, and so ends one year later.
    check_next("0 0 29 2 *", "2098-12-31T23:59:59Z", "2104-02-29T00:00:00Z");
    check_next("@yearly", "9999-01-01T00:00:00Z", "never");
    check_next("* * * * *", "9999-12-31T23:59:30Z", "never");
}

#[test]
fn only_the_zone_utc_may_be_named() {
    check_next("TZ=UTC 0 6 * * *", "2024-01-01T00:00:00Z", "2024-01-01T06:00:00Z");
    check_next("CRON_TZ=UTC  @daily ", "2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z");
    let refusal = "is not supported; schedules are in UTC, convert the hours and leave it out";
    check_refused("TZ=Asia/Tokyo 0 6 * * *", &format!("time zone `Asia/Tokyo` {refusal}"));
    check_refused("CRON_TZ=Local @daily", &format!("time zone `Local` {refusal}"));
}

#[test]
fn a_refusal_says_what_is_wrong_and_where_and_what_would_help() {
    let five = "fields instead of five; write minute, hour, day-of-month, month and day-of-week, or a shorthand such \
                as `@daily`";
    check_refused("", &format!("schedule `` has 0 {five}"));
    check_refused("0 0 * *", &format!("schedule `0 0 * *` has 4 {five}"));
    check_refused("TZ=UTC", &format!("schedule `` has 0 {five}"));
    check_refused(
        "@wrongly",
        "unknown shorthand `@wrongly`; use @yearly, @annually, @monthly, @weekly, @daily, @midnight or @hourly",
    );
    check_refused(
        "@every 1h",
        "unknown shorthand `@every 1h`; use @yearly, @annually, @monthly, @weekly, @daily, @midnight or @hourly",
    );
    check_refused("60 * * * *", "minute field `60`: 60 is too high; use 0 to 59");
    check_refused("* 22-24 * * *", "hour field `22-24`: 24 is too high; use 0 to 23");
    check_refused("* * 1,0 * *", "day-of-month field `0`: 0 is too low; use 1 to 31");
    check_refused("* * * JANUARY *", "month field `JANUARY`: `JANUARY` is not a value; use 1 to 12 or JAN to DEC");
    check_refused("* * * * 7", "day-of-week field `7`: 7 is too high; use 0 to 6 (Sunday is 0) or SUN to SAT");
    check_refused(
        "0 0 * * tue-mon",
        "day-of-week field `tue-mon`: beginning of range (2) beyond end of range (1); to wrap around, write two ranges \
         with a comma",
    );
    check_refused("1-2-3 * * * *", "minute field `1-2-3`: more than one `-`; write a range as `low-high`");
    check_refused("1/2/3 * * * *", "minute field `1/2/3`: more than one `/`; write a step as `range/step`");
    check_refused(
        "*/0 * * * *",
        "minute field `*/0`: `0` is not a step; write a whole number of at least 1 after the `/`",
    );
}

/// A schedule as sets of numbers; nothing stands for a star.
#[derive(Clone, Debug)]
struct Sets([Option<BTreeSet<u32>>; 5]);

impl Sets {
    fn spec(&self) -> String {
        let field = |set: &Option<BTreeSet<u32>>| match set {
            None => "*".to_owned(),
            Some(set) => set.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
        };
        self.0.each_ref().map(field).join(" ")
    }

    /// The definition of cron, one minute at a time.
    fn holds(&self, at: Instant) -> bool {
        let Civil { date, hour, minute, second } = at.civil();
        let [minutes, hours, days, months, weekdays] =
            self.0.each_ref().map(|set| move |value: u32| set.as_ref().is_none_or(|set| set.contains(&value)));
        let [by_day, by_weekday] = [days(date.day), weekdays(date.weekday())];
        let day = match (&self.0[2], &self.0[4]) {
            (Some(_), Some(_)) => by_day || by_weekday,
            _ => by_day && by_weekday,
        };
        second == 0 && minutes(minute) && hours(hour) && months(date.month) && day
    }
}

fn sets() -> impl Strategy<Value = Sets> {
    let field = |min: u32, max: u32| proptest::option::of(btree_set(min..=max, 1..4));
    (field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 6))
        .prop_map(|(minute, hour, day, month, weekday)| Sets([minute, hour, day, month, weekday]))
}

fn moments() -> impl Strategy<Value = Instant> {
    let [first, last] = ["1890-01-01T00:00:00Z", "2110-01-01T00:00:00Z"].map(|text| text.parse::<Instant>().unwrap());
    (first.unix_nanos()..last.unix_nanos()).prop_map(Instant::from_unix_nanos)
}

const MINUTE: Duration = Duration::from_secs(60);

proptest! {
    #[test]
    fn a_hit_is_strictly_later_and_matches_every_field(sets in sets(), after in moments()) {
        if let Some(hit) = Cron::parse(&sets.spec()).unwrap().next_after(after) {
            prop_assert!(hit > after && sets.holds(hit), "{} after {after} gave {hit}", sets.spec());
        }
    }

    #[test]
    fn no_hit_of_the_next_days_is_skipped(sets in sets(), after in moments()) {
        const MINUTES: usize = 60 * 24 * 20;
        let first = Instant::from_unix_seconds(after.unix_seconds().div_euclid(60) * 60).plus(MINUTE);
        let minutes = std::iter::successors(Some(first), |minute| Some(minute.plus(MINUTE)));
        let expected = minutes.take(MINUTES).find(|minute| sets.holds(*minute));
        let horizon = first.plus(MINUTE * (MINUTES - 1) as u32);
        let actual = Cron::parse(&sets.spec()).unwrap().next_after(after).filter(|hit| *hit <= horizon);
        prop_assert_eq!(actual, expected, "{} after {}", sets.spec(), after);
    }
}
