//! Kubernetes quantities: exact decimal numbers with a unit family that survives arithmetic and printing.
//!
//! Kubernetes prints a quantity in one canonical form (`1000m` becomes `1`, `1024Mi` becomes `1Gi`), keeping the family of
//! suffix that it was written with. Its test for "is canonical already" is a quick one and lets some other spellings through
//! unchanged, such as `1.125`. Ours prints the same bytes, so that an object that passes through us shows no diff.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::schema;

/// Resources by name, as in `limits`, `capacity` and `requests`.
pub type ResourceList = BTreeMap<String, Quantity>;

/// An exact number of billionths together with the family of suffix that it prints with.
///
/// Two quantities are equal when their numbers are; the suffix does not count.
///
/// Invariant: the magnitude never exceeds `i64::MAX` whole units; larger input is capped, as in Kubernetes.
#[derive(Clone, Debug)]
pub struct Quantity {
    nanos: i128,
    family: Family,
    /// How it was written, where Kubernetes would keep that.
    spelling: Option<Box<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// `Ki`, `Mi`, `Gi`, …
    Binary,
    /// `m`, nothing, `k`, `M`, …
    Decimal,
    /// `e3`, `e6`, …
    Exponent,
}

/// Why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a quantity: write a number with an optional suffix, such as 500m, 2 or 16Gi")]
pub struct QuantityError(String);

const NANOS_PER_UNIT: i128 = 1_000_000_000;
const CAP: i128 = i64::MAX as i128 * NANOS_PER_UNIT;

const BINARY_SUFFIXES: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
const DECIMAL_SUFFIXES: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

impl Quantity {
    pub const fn from_units(units: i64) -> Self {
        Self { nanos: units as i128 * NANOS_PER_UNIT, family: Family::Decimal, spelling: None }
    }

    pub const fn from_milli(milli: i64) -> Self {
        Self { nanos: milli as i128 * 1_000_000, family: Family::Decimal, spelling: None }
    }

    /// So many bytes, printed with a binary suffix.
    pub const fn from_bytes(bytes: i64) -> Self {
        Self { nanos: bytes as i128 * NANOS_PER_UNIT, family: Family::Binary, spelling: None }
    }

    /// Whole units, rounded away from zero as in Kubernetes: half a page of memory still needs a page.
    pub fn units(&self) -> i64 {
        self.scaled_up(NANOS_PER_UNIT)
    }

    /// Thousandths, rounded up likewise.
    pub fn milli(&self) -> i64 {
        self.scaled_up(1_000_000)
    }

    pub fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    fn scaled_up(&self, unit: i128) -> i64 {
        let magnitude = self.nanos.abs() / unit + i128::from(self.nanos % unit != 0);
        let whole = magnitude * self.nanos.signum();
        i64::try_from(whole).unwrap_or(if whole < 0 { i64::MIN } else { i64::MAX })
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

/// How a suffix scales the number before it.
enum Scale {
    Shift(u32),
    Tens(i32, Family),
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        parse(text).ok_or_else(|| QuantityError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Quantity> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let number_end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(number_end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let scale = parse_suffix(suffix)?;
    let (magnitude, mut family) = match scale {
        Scale::Shift(bits) => (scale_up(&Digits::read(whole, fraction, 20), bits, 0), Family::Binary),
        Scale::Tens(tens, family) => (scale_up(&Digits::read(whole, fraction, 28), 0, tens), family),
    };
    // Less than one binary unit cannot print with a binary suffix without losing its fraction.
    if family == Family::Binary && magnitude < NANOS_PER_UNIT && magnitude > 0 {
        family = Family::Decimal;
    }
    let spelling = keeps_its_spelling(whole, fraction, &scale).then(|| text.into());
    Some(Quantity { nanos: if negative { -magnitude } else { magnitude }, family, spelling })
}

/// Kubernetes' own test for "prints as it is written". It looks at digits and never at the value, so that it is fast.
fn keeps_its_spelling(whole: &str, fraction: &str, scale: &Scale) -> bool {
    let whole = whole.trim_start_matches('0');
    let digits = format!("{whole}{fraction}");
    match scale {
        Scale::Shift(bits) => {
            let fits = fraction.is_empty() && whole.len() + (*bits as usize * 3 / 10) < 15;
            fits && digits.parse::<i64>().is_ok_and(|value| value % 8 != 0)
        }
        Scale::Tens(tens, _) => {
            let last = tens - i32::try_from(fraction.len()).unwrap_or(i32::MAX);
            let is_short = digits.len() <= 18 && last >= -9 && last % 3 == 0;
            is_short && !whole.is_empty() && !digits.ends_with("000")
        }
    }
}

fn parse_suffix(suffix: &str) -> Option<Scale> {
    if let Some((_, bits)) = BINARY_SUFFIXES.iter().find(|(name, _)| *name == suffix) {
        return Some(Scale::Shift(*bits));
    }
    if let Some((_, tens)) = DECIMAL_SUFFIXES.iter().find(|(name, _)| *name == suffix) {
        return Some(Scale::Tens(*tens, Family::Decimal));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if unsigned.is_empty() || !unsigned.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // Any exponent past a few dozen is capped or rounded to one billionth anyway.
    let tens: i32 = unsigned.parse().unwrap_or(10_000).min(10_000);
    Some(Scale::Tens(if exponent.starts_with('-') { -tens } else { tens }, Family::Exponent))
}

/// The leading significant digits of a number, where the decimal point is, and whether anything was cut off.
struct Digits {
    mantissa: i128,
    exponent: i32,
    has_more: bool,
}

impl Digits {
    fn read(whole: &str, fraction: &str, most: usize) -> Self {
        let exponent_of_last = -i32::try_from(fraction.len()).unwrap_or(i32::MAX);
        let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).skip_while(|b| *b == b'0').collect();
        let kept = digits.len().min(most);
        let cut = &digits[kept..];
        Self {
            mantissa: digits[..kept].iter().fold(0, |sum, digit| sum * 10 + i128::from(digit - b'0')),
            exponent: exponent_of_last.saturating_add(i32::try_from(cut.len()).unwrap_or(i32::MAX)),
            has_more: cut.iter().any(|b| *b != b'0'),
        }
    }
}

/// Billionths of `digits × 2^bits × 10^tens`, rounded up to the next billionth and capped.
fn scale_up(digits: &Digits, bits: u32, tens: i32) -> i128 {
    if digits.mantissa == 0 {
        return 0;
    }
    let Some(binary) = digits.mantissa.checked_mul(1 << bits) else { return CAP };
    let tens = tens.saturating_add(digits.exponent).saturating_add(9);
    let nanos = match 10_i128.checked_pow(tens.unsigned_abs()) {
        Some(power) if tens >= 0 => binary.checked_mul(power).unwrap_or(CAP),
        Some(power) => binary / power + i128::from(binary % power != 0 || digits.has_more),
        None if tens >= 0 => CAP,
        None => 1,
    };
    nanos.min(CAP)
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(spelling) = &self.spelling {
            return f.write_str(spelling);
        }
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let is_whole = self.nanos % NANOS_PER_UNIT == 0;
        if self.family == Family::Binary && is_whole && self.nanos.abs() >= 1024 * NANOS_PER_UNIT {
            let (mut units, mut steps) = (self.nanos / NANOS_PER_UNIT, 0);
            while units % 1024 == 0 && steps < BINARY_SUFFIXES.len() {
                units /= 1024;
                steps += 1;
            }
            let suffix = if steps == 0 { "" } else { BINARY_SUFFIXES[steps - 1].0 };
            return write!(f, "{units}{suffix}");
        }
        let (mut mantissa, mut step) = (self.nanos, 0);
        while mantissa % 1000 == 0 && step + 1 < DECIMAL_SUFFIXES.len() {
            mantissa /= 1000;
            step += 1;
        }
        let (suffix, tens) = DECIMAL_SUFFIXES[step];
        match self.family {
            Family::Exponent if tens == 0 => write!(f, "{mantissa}"),
            Family::Exponent => write!(f, "{mantissa}e{tens}"),
            _ => write!(f, "{mantissa}{suffix}"),
        }
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity, such as 500m, 2 or 16Gi")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_i64<E: de::Error>(self, units: i64) -> Result<Quantity, E> {
                Ok(Quantity::from_units(units))
            }

            fn visit_u64<E: de::Error>(self, units: u64) -> Result<Quantity, E> {
                Ok(Quantity::from_units(i64::try_from(units).unwrap_or(i64::MAX)))
            }

            fn visit_f64<E: de::Error>(self, units: f64) -> Result<Quantity, E> {
                units.to_string().parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for Quantity {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schema::quantity()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, printed: &str) {
        let quantity: Quantity = text.parse().unwrap();
        assert_eq!(quantity.to_string(), printed, "{text}");
    }

    #[test]
    fn quantities_print_in_canonical_form() {
        for (text, printed) in [
            ("0", "0"),
            ("0Ki", "0"),
            ("1", "1"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("5.", "5."),
            ("1.125", "1.125"),
            ("1.5", "1500m"),
            ("1.5Gi", "1536Mi"),
            ("1024Mi", "1Gi"),
            ("1023Ki", "1023Ki"),
            ("512", "512"),
            ("0.5Ki", "512"),
            ("2Ki", "2Ki"),
            ("0.1Ki", "102400m"),
            ("1000", "1k"),
            ("1500", "1500"),
            ("1e3", "1e3"),
            ("12e2", "1200"),
            ("1E", "1E"),
            ("1E3", "1E3"),
            ("1E4", "10e3"),
            ("0.1n", "1n"),
            ("1e-100", "1e-9"),
            ("1e100", "9223372036854775807"),
            ("10Ei", "9223372036854775807"),
            ("-3", "-3"),
            ("-2Gi", "-2Gi"),
            ("+7k", "+7k"),
            ("0001", "0001"),
            ("0.125", "125m"),
        ] {
            check(text, printed);
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in
            ["", " ", ".", "m", "Ki", "1ki", "1K", "1 Gi", "1..2", "1.2.3", "e3", "1e", "1e+", "--1", "0x10", "1Gib"]
        {
            assert!(text.parse::<Quantity>().is_err(), "{text}");
        }
    }

    #[test]
    fn fractions_round_up_to_whole_units() {
        let quantity: Quantity = "1500m".parse().unwrap();
        assert_eq!((quantity.units(), quantity.milli()), (2, 1500));
        let quantity: Quantity = "-1500m".parse().unwrap();
        assert_eq!(quantity.units(), -2);
    }

    #[test]
    fn a_number_on_the_wire_is_a_quantity_too() {
        let list: ResourceList = serde_json::from_str(r#"{"cpu": 4, "memory": "8Gi", "x": 0.5}"#).unwrap();
        assert_eq!(serde_json::to_string(&list).unwrap(), r#"{"cpu":"4","memory":"8Gi","x":"500m"}"#);
    }

    proptest! {
        #[test]
        fn a_canonical_text_is_a_fixed_point(text in "[-+]?([0-9]{1,24}(\\.[0-9]{0,12})?|\\.[0-9]{1,12})(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][-+]?[0-9]{1,2})?") {
            let first: Quantity = text.parse().unwrap();
            let second: Quantity = first.to_string().parse().unwrap();
            prop_assert_eq!(first.nanos, second.nanos);
            prop_assert_eq!(first.to_string(), second.to_string());
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[-+0-9.KMGTPEiemnuk ]{0,40}") {
            let _ = text.parse::<Quantity>();
        }
    }
}
