//! Points on the UTC time line, and the calendar that schedules are written in.
//!
//! Nothing here knows what time it is: `now` comes in with the snapshot, so a decision can be replayed.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

const NANOS_PER_SECOND: i128 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// A moment in UTC, in nanoseconds.
///
/// The range is the years 0000 to 9999, which is what RFC 3339 can write, so every instant can be shown and read back.
/// Sixty-four bits of nanoseconds would end in 2262 and start in 1677, too narrow for the odd timestamps people put
/// into objects. Arithmetic stops at the ends of the range instead of failing: "a very long time ago" is good enough
/// for every question asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(i128);

/// A day of the Gregorian calendar, extended backwards before its invention as RFC 3339 does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    pub year: i32,
    /// 1 is January.
    pub month: u32,
    pub day: u32,
}

/// An instant as a wall clock in UTC shows it. Leap seconds do not exist here, as they do not in Unix time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Civil {
    pub date: Date,
    pub hour: u32,
    pub minute: u32,
    pub second: u32,
}

/// A text that was to be an [`Instant`] and is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstantError {
    pub text: String,
}

impl Instant {
    /// 0000-01-01T00:00:00Z.
    pub const MIN: Instant = Instant(-62_167_219_200 * NANOS_PER_SECOND);
    /// The last nanosecond of the year 9999.
    pub const MAX: Instant = Instant(253_402_300_800 * NANOS_PER_SECOND - 1);

    /// The instant so many seconds after 1970-01-01T00:00:00Z, or the nearest one in range.
    pub fn from_unix_seconds(seconds: i64) -> Instant {
        Instant::from_unix_nanos(i128::from(seconds) * NANOS_PER_SECOND)
    }

    /// The instant so many nanoseconds after 1970-01-01T00:00:00Z, or the nearest one in range.
    pub fn from_unix_nanos(nanos: i128) -> Instant {
        Instant(nanos.clamp(Instant::MIN.0, Instant::MAX.0))
    }

    /// The whole second this instant lies in, counted from the epoch; earlier instants round down, not toward zero.
    pub fn unix_seconds(self) -> i64 {
        // Cannot truncate: the range of the type is some 2^38 seconds.
        self.0.div_euclid(NANOS_PER_SECOND) as i64
    }

    /// Nanoseconds from the epoch, exact.
    pub fn unix_nanos(self) -> i128 {
        self.0
    }

    /// This instant without its fraction of a second.
    pub fn floor_to_second(self) -> Instant {
        Instant::from_unix_seconds(self.unix_seconds())
    }

    /// Later by `duration`, or [`Instant::MAX`].
    #[must_use]
    pub fn plus(self, duration: Duration) -> Instant {
        self.checked_plus(duration).unwrap_or(Instant::MAX)
    }

    /// Later by `duration`, or nothing when that lies beyond the range; for callers that must not mistake the end of
    /// time for an answer.
    pub fn checked_plus(self, duration: Duration) -> Option<Instant> {
        let later = self.0 + nanos(duration);
        (later <= Instant::MAX.0).then_some(Instant(later))
    }

    /// Earlier by `duration`, or [`Instant::MIN`].
    #[must_use]
    pub fn minus(self, duration: Duration) -> Instant {
        Instant((self.0 - nanos(duration)).max(Instant::MIN.0))
    }

    /// How long ago `earlier` was; zero when it is not earlier, because clocks of different machines disagree and a
    /// negative age would be nonsense everywhere it is used.
    pub fn since(self, earlier: Instant) -> Duration {
        let nanos = (self.0 - earlier.0).max(0);
        // Cannot truncate: the seconds of the whole range fit 64 bits, a remainder below 10^9 fits 32.
        Duration::new((nanos / NANOS_PER_SECOND) as u64, (nanos % NANOS_PER_SECOND) as u32)
    }

    /// What a UTC clock shows at this instant, without the fraction of the second.
    pub fn civil(self) -> Civil {
        let seconds = self.unix_seconds();
        let second_of_day = seconds.rem_euclid(SECONDS_PER_DAY) as u32;
        Civil {
            date: Date::from_days_since_epoch(seconds.div_euclid(SECONDS_PER_DAY)),
            hour: second_of_day / 3600,
            minute: second_of_day / 60 % 60,
            second: second_of_day % 60,
        }
    }

    /// The instant at which a UTC clock shows `civil`; nothing when no clock ever shows that, or only out of range.
    pub fn from_civil(civil: Civil) -> Option<Instant> {
        let Civil { date, hour, minute, second } = civil;
        if !date.is_real() || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let second_of_day = i64::from(hour * 3600 + minute * 60 + second);
        Some(Instant::from_unix_seconds(date.days_since_epoch() * SECONDS_PER_DAY + second_of_day))
    }
}

impl Date {
    /// Whether the calendar has this day and [`Instant`] can reach it.
    pub fn is_real(self) -> bool {
        let in_range = (0..=9999).contains(&self.year) && (1..=12).contains(&self.month);
        in_range && (1..=days_in_month(self.year, self.month)).contains(&self.day)
    }

    /// Days from 1970-01-01 to this day; negative before it.
    pub fn days_since_epoch(self) -> i64 {
        // Years that begin in March put the leap day last, so that the months before it have fixed lengths.
        let (year, month) = (i64::from(self.year), i64::from(self.month));
        let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
        let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
        year * 365 + leap_days + day_of_march_year(month) + i64::from(self.day) - 1 - MARCH_YEAR_ZERO_TO_EPOCH
    }

    /// The day that many days after 1970-01-01.
    fn from_days_since_epoch(days: i64) -> Date {
        const DAYS_PER_400_YEARS: i64 = 146_097;
        let days = days + MARCH_YEAR_ZERO_TO_EPOCH;
        let cycle = days.div_euclid(DAYS_PER_400_YEARS);
        let day_of_cycle = days.rem_euclid(DAYS_PER_400_YEARS);
        // Taking out the leap days met so far (one in 1461 days, but not in 36525, yet in 146097) leaves years of 365.
        let leap_days = day_of_cycle / 1460 - day_of_cycle / 36_524 + day_of_cycle / 146_096;
        let year_of_cycle = (day_of_cycle - leap_days) / 365;
        let new_year = year_of_cycle * 365 + year_of_cycle / 4 - year_of_cycle / 100;
        let day_of_year = day_of_cycle - new_year;
        let march_month = (5 * day_of_year + 2) / 153;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        let year = cycle * 400 + year_of_cycle + i64::from(month <= 2);
        let day = day_of_year - day_of_march_year(march_month) + 1;
        // Cannot truncate: the days of an instant lie in the years 0 to 9999.
        Date { year: year as i32, month: month as u32, day: day as u32 }
    }

    /// The day of the week, with Sunday as 0 as in cron.
    pub fn weekday(self) -> u32 {
        const EPOCH_WAS_A_THURSDAY: i64 = 4;
        (self.days_since_epoch() + EPOCH_WAS_A_THURSDAY).rem_euclid(7) as u32
    }
}

/// The length of a month; `month` is 1 to 12.
pub fn days_in_month(year: i32, month: u32) -> u32 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Shows the instant as RFC 3339 in UTC, with a fraction only when there is one.
impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Civil { date: Date { year, month, day }, hour, minute, second } = self.civil();
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        let fraction = format!("{:09}", self.0.rem_euclid(NANOS_PER_SECOND));
        match fraction.trim_end_matches('0') {
            "" => write!(f, "Z"),
            digits => write!(f, ".{digits}Z"),
        }
    }
}

/// Reads back what `Display` shows, and no other zone than `Z`.
impl FromStr for Instant {
    type Err = InstantError;

    fn from_str(text: &str) -> Result<Instant, InstantError> {
        parse(text).ok_or_else(|| InstantError { text: text.to_owned() })
    }
}

impl fmt::Display for InstantError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a UTC time; write it like `2024-01-07T06:30:00Z`", self.text)
    }
}

impl std::error::Error for InstantError {}

/// From 0000-03-01 to 1970-01-01.
const MARCH_YEAR_ZERO_TO_EPOCH: i64 = 719_468;

/// Days from the first of March to the first of the `month`-th month after it. The lengths 31, 30, 31, 30, 31 repeat
/// every five months, 153 days, and integer division happens to spread them right.
fn day_of_march_year(month: i64) -> i64 {
    (153 * month + 2) / 5
}

fn nanos(duration: Duration) -> i128 {
    // Cannot truncate: even the longest duration is below 2^94 nanoseconds.
    duration.as_nanos() as i128
}

fn parse(text: &str) -> Option<Instant> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    let date = Date { year: i32::try_from(year).ok()?, month, day };
    let start = Instant::from_civil(Civil { date, hour, minute, second })?;
    let [nanos] = numbers(&format!("{fraction:0<9}"), '.', [9])?;
    (!fraction.is_empty()).then(|| start.plus(Duration::from_nanos(u64::from(nanos))))
}

/// Exactly `N` unsigned numbers of the given widths, parted by `separator`.
fn numbers<const N: usize>(text: &str, separator: char, widths: [usize; N]) -> Option<[u32; N]> {
    let mut parts = text.split(separator);
    let mut numbers = [0; N];
    for (number, width) in numbers.iter_mut().zip(widths) {
        let part = parts.next().filter(|part| part.len() == width && part.bytes().all(|b| b.is_ascii_digit()))?;
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Both ways between text and seconds since the epoch.
    fn check(text: &str, unix_seconds: i64) {
        let instant: Instant = text.parse().unwrap();
        assert_eq!(instant.unix_seconds(), unix_seconds, "{text}");
        assert_eq!(Instant::from_civil(instant.civil()), Some(instant.floor_to_second()), "{text}");
        assert_eq!(instant.to_string(), text);
    }

    #[test]
    fn known_dates_have_their_known_distance_from_the_epoch() {
        check("1970-01-01T00:00:00Z", 0);
        check("1969-12-31T23:59:59Z", -1);
        check("1969-12-31T23:59:59.5Z", -1);
        check("2000-02-29T12:00:00Z", 951_825_600);
        check("2024-02-29T23:59:59.000000001Z", 1_709_251_199);
        check("2038-01-19T03:14:08Z", 1 << 31);
        check("0001-01-01T00:00:00Z", -62_135_596_800);
        check(&Instant::MIN.to_string(), -62_167_219_200);
        check(&Instant::MAX.to_string(), 253_402_300_799);
    }

    #[test]
    fn what_is_not_a_utc_time_is_refused() {
        for text in [
            "",
            "Z",
            "2024-01-07",
            "2024-01-07T00:00:00",
            "2024-01-07T00:00:00+01:00",
            "2024-01-07T00:00:00.Z",
            "2024-01-07T00:00:00.1234567890Z",
            "2024-1-07T00:00:00Z",
            "+024-01-07T00:00:00Z",
            "2024-01-07T24:00:00Z",
            "2024-01-07T00:00:60Z",
            "2024-00-07T00:00:00Z",
            "2023-02-29T00:00:00Z",
            "1900-02-29T00:00:00Z",
        ] {
            assert_eq!(text.parse::<Instant>(), Err(InstantError { text: text.to_owned() }));
        }
    }

    #[test]
    fn a_clock_that_cannot_be_is_no_instant() {
        let date = Date { year: 2024, month: 3, day: 1 };
        let midnight = Civil { date, hour: 0, minute: 0, second: 0 };
        for impossible in [
            Civil { hour: u32::MAX, ..midnight },
            Civil { minute: 60, ..midnight },
            Civil { second: 60, ..midnight },
            Civil { date: Date { day: 0, ..date }, ..midnight },
            Civil { date: Date { month: u32::MAX, ..date }, ..midnight },
            Civil { date: Date { year: 10_000, ..date }, ..midnight },
        ] {
            assert_eq!(Instant::from_civil(impossible), None);
        }
        assert_eq!(Date { day: 0, ..date }.weekday(), Date { month: 2, day: 29, ..date }.weekday());
    }

    #[test]
    fn arithmetic_stops_at_the_ends_of_time() {
        let [early, late] = [Instant::from_unix_seconds(10), Instant::from_unix_seconds(13)];
        assert_eq!(early.plus(Duration::from_secs(3)), late);
        assert_eq!(late.minus(Duration::from_secs(3)), early);
        assert_eq!(late.since(early), Duration::from_secs(3));
        assert_eq!(early.since(late), Duration::ZERO);
        assert_eq!(late.plus(Duration::MAX), Instant::MAX);
        assert_eq!(late.checked_plus(Duration::MAX), None);
        assert_eq!(late.minus(Duration::MAX), Instant::MIN);
        assert_eq!(Instant::from_unix_seconds(i64::MAX), Instant::MAX);
        assert_eq!(Instant::from_unix_nanos(i128::MIN), Instant::MIN);
        assert_eq!(Instant::MIN.plus(Instant::MAX.since(Instant::MIN)), Instant::MAX);
    }

    #[test]
    fn every_day_of_four_centuries_follows_the_day_before() {
        let mut expected = Date { year: 1800, month: 1, day: 1 };
        let first = expected.days_since_epoch();
        for days in first..first + 146_097 {
            assert_eq!(Date::from_days_since_epoch(days), expected);
            assert_eq!((expected.days_since_epoch(), expected.is_real()), (days, true));
            assert_eq!(i64::from(expected.weekday()), (days - first + 3) % 7, "1800 began on a Wednesday");
            expected.day += 1;
            if expected.day > days_in_month(expected.year, expected.month) {
                expected = Date { month: expected.month + 1, day: 1, ..expected };
            }
            if expected.month > 12 {
                expected = Date { year: expected.year + 1, month: 1, day: 1 };
            }
        }
    }

    proptest! {
        #[test]
        fn civil_and_text_lead_back_to_the_instant(nanos in Instant::MIN.0..=Instant::MAX.0) {
            let instant = Instant::from_unix_nanos(nanos);
            prop_assert_eq!(Instant::from_civil(instant.civil()), Some(instant.floor_to_second()));
            prop_assert_eq!(instant.to_string().parse(), Ok(instant));
        }

        #[test]
        fn since_undoes_plus(nanos in Instant::MIN.0..=0, age in 0..=i64::MAX as u64) {
            let (start, age) = (Instant::from_unix_nanos(nanos), Duration::from_nanos(age));
            prop_assert_eq!(start.plus(age).since(start), age);
            prop_assert_eq!(start.plus(age).minus(age), start);
        }
    }
}
