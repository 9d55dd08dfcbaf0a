//! Durations as Go writes them, because that is what stands in every manifest.
//!
//! Two kinds live on the wire. A plain [`Duration`] is re-spelled whenever somebody writes it (`1h` comes back as
//! `1h0m0s`). A [`NillableDuration`] may be `Never` and keeps the user's own spelling, because GitOps tools compare text.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A signed span of time with Go's range and resolution: 64 bits of nanoseconds, about 292 years each way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(i64);

/// A duration, or `Never`. Remembers how it was spelled.
///
/// Two values are equal when they mean the same; the spelling does not count.
#[derive(Clone, Debug)]
pub struct NillableDuration {
    spelling: String,
    value: Option<Duration>,
}

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    #[error("{0:?} is not a duration: write a number and a unit, such as 30s, 10m or 1h30m")]
    Malformed(String),
    #[error("{0:?} is longer than a duration can be, about 292 years")]
    TooLong(String),
}

const NEVER: &str = "Never";

/// Unit names and their nanoseconds; a longer name stands before its prefix (`ms` before `m`).
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

impl Duration {
    pub const ZERO: Self = Self(0);

    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    pub const fn from_secs(secs: u32) -> Self {
        Self(secs as i64 * 1_000_000_000)
    }

    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// The same span for waiting and arithmetic; a negative one is no wait at all.
    pub fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_nanos(u64::try_from(self.0).unwrap_or(0))
    }
}

impl FromStr for Duration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let malformed = || DurationError::Malformed(text.to_owned());
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        if unsigned == "0" {
            return Ok(Self::ZERO);
        }
        if unsigned.is_empty() {
            return Err(malformed());
        }
        let mut rest = unsigned;
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let (nanos, tail) = take_term(rest).ok_or_else(malformed)?;
            let nanos = nanos.ok_or_else(|| DurationError::TooLong(text.to_owned()))?;
            total = total.checked_add(nanos).ok_or_else(|| DurationError::TooLong(text.to_owned()))?;
            rest = tail;
        }
        let magnitude = i128::from(total);
        i64::try_from(if negative { -magnitude } else { magnitude })
            .map(Self)
            .map_err(|_| DurationError::TooLong(text.to_owned()))
    }
}

/// Takes one `number unit` off the front. The outer `None` is bad grammar, the inner one overflow.
fn take_term(text: &str) -> Option<(Option<u64>, &str)> {
    let digits_end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (whole, mut rest) = text.split_at(digits_end);
    let mut fraction = "";
    if let Some(after_dot) = rest.strip_prefix('.') {
        let end = after_dot.find(|c: char| !c.is_ascii_digit()).unwrap_or(after_dot.len());
        (fraction, rest) = after_dot.split_at(end);
    }
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    // The unit runs to the next digit or dot, so that `1mx` is an unknown unit and not a minute and a rest.
    let unit_end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
    let (unit, tail) = rest.split_at(unit_end);
    let nanos_per_unit = UNITS.iter().find(|(name, _)| *name == unit)?.1;
    Some((term_nanos(whole, fraction, nanos_per_unit), tail))
}

fn term_nanos(whole: &str, fraction: &str, nanos_per_unit: u64) -> Option<u64> {
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut nanos = whole.checked_mul(nanos_per_unit)?;
    // Digits past the eighteenth are worth less than a nanosecond of the largest unit; like Go, they are cut off.
    let mut scale: u128 = 1;
    let mut numerator: u128 = 0;
    for digit in fraction.bytes().take(18) {
        numerator = numerator * 10 + u128::from(digit - b'0');
        scale *= 10;
    }
    let part = numerator * u128::from(nanos_per_unit) / scale;
    nanos = nanos.checked_add(u64::try_from(part).ok()?)?;
    Some(nanos)
}

impl fmt::Display for Duration {
    /// Go's own form: `0s`, `1.5ms`, `1h30m0s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = self.0.unsigned_abs();
        if magnitude == 0 {
            return f.write_str("0s");
        }
        if self.0 < 0 {
            f.write_str("-")?;
        }
        match magnitude {
            1..1_000 => write!(f, "{magnitude}ns"),
            1_000..1_000_000 => write!(f, "{}\u{b5}s", decimal(magnitude, 1_000)),
            1_000_000..1_000_000_000 => write!(f, "{}ms", decimal(magnitude, 1_000_000)),
            _ => {
                let (minutes, seconds) = (magnitude / 60_000_000_000, magnitude % 60_000_000_000);
                let (hours, minutes) = (minutes / 60, minutes % 60);
                if hours > 0 {
                    write!(f, "{hours}h")?;
                }
                if hours > 0 || minutes > 0 {
                    write!(f, "{minutes}m")?;
                }
                write!(f, "{}s", decimal(seconds, 1_000_000_000))
            }
        }
    }
}

/// `nanos / unit` with as many decimals as it takes and no trailing zeros.
fn decimal(nanos: u64, unit: u64) -> String {
    let (whole, part) = (nanos / unit, nanos % unit);
    if part == 0 {
        return whole.to_string();
    }
    let width = unit.ilog10() as usize;
    let digits = format!("{part:0width$}");
    format!("{whole}.{}", digits.trim_end_matches('0'))
}

impl NillableDuration {
    pub fn never() -> Self {
        Self { spelling: NEVER.to_owned(), value: None }
    }

    /// The span, or `None` for `Never`.
    pub fn value(&self) -> Option<Duration> {
        self.value
    }
}

impl From<Duration> for NillableDuration {
    fn from(value: Duration) -> Self {
        Self { spelling: value.to_string(), value: Some(value) }
    }
}

impl FromStr for NillableDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let value = if text == NEVER { None } else { Some(text.parse()?) };
        Ok(Self { spelling: text.to_owned(), value })
    }
}

impl fmt::Display for NillableDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.spelling)
    }
}

impl PartialEq for NillableDuration {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Eq for NillableDuration {}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl Serialize for NillableDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.spelling)
    }
}

impl<'de> Deserialize<'de> for NillableDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Duration {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}

impl JsonSchema for NillableDuration {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "NillableDuration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, nanos: i64, printed: &str) {
        let parsed: Duration = text.parse().unwrap();
        assert_eq!(parsed.as_nanos(), nanos, "{text}");
        assert_eq!(parsed.to_string(), printed, "{text}");
    }

    #[test]
    fn durations_read_and_print_as_in_go() {
        const S: i64 = 1_000_000_000;
        check("0", 0, "0s");
        check("0s", 0, "0s");
        check("720h", 720 * 3600 * S, "720h0m0s");
        check("1h30m", 5400 * S, "1h30m0s");
        check("1h30m5s", 5405 * S, "1h30m5s");
        check("90m", 5400 * S, "1h30m0s");
        check("1.5h", 5400 * S, "1h30m0s");
        check(".5s", S / 2, "500ms");
        check("1.s", S, "1s");
        check("-1m", -60 * S, "-1m0s");
        check("+5s", 5 * S, "5s");
        check("1us", 1_000, "1\u{b5}s");
        check("1500\u{3bc}s", 1_500_000, "1.5ms");
        check("1.000000001s", S + 1, "1.000000001s");
        check("-9223372036854775808ns", i64::MIN, "-2562047h47m16.854775808s");
    }

    #[test]
    fn what_go_refuses_is_refused() {
        for text in ["", "-", "1", "1hr", "FooNever", "s", ".s", "1h-5m", " 1h", "1d", "--1s", "1mx"] {
            assert!(matches!(text.parse::<Duration>(), Err(DurationError::Malformed(_))), "{text}");
        }
        for text in ["9223372036854775808ns", "3000000h", "99999999999999999999s"] {
            assert!(matches!(text.parse::<Duration>(), Err(DurationError::TooLong(_))), "{text}");
        }
    }

    #[test]
    fn a_nillable_duration_keeps_its_spelling_and_compares_by_meaning() {
        for text in ["720h", "Never", "1h30m", "60m", "0s"] {
            let wire = serde_json::Value::from(text);
            let value: NillableDuration = serde_json::from_value(wire.clone()).unwrap();
            assert_eq!(serde_json::to_value(&value).unwrap(), wire);
        }
        assert_eq!("60m".parse::<NillableDuration>(), "1h".parse());
        assert_ne!("60m".parse::<NillableDuration>().unwrap(), NillableDuration::never());
    }

    proptest! {
        #[test]
        fn every_duration_survives_its_own_text(nanos: i64) {
            let duration = Duration::from_nanos(nanos);
            prop_assert_eq!(duration.to_string().parse::<Duration>().unwrap(), duration);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[-+0-9.hmsuµn ]{0,24}") {
            let _ = text.parse::<Duration>();
        }
    }
}
