//! One field of a schedule: a list of values, ranges and steps, lowered to a set of bits.

use super::{CronError, CronField, FieldProblem};

/// What a field allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    /// Bit `n` is set when the value `n` is allowed.
    pub(super) values: u64,
    /// Whether a bare star is among the items. It decides how the two day fields combine; see `DayRule`.
    pub(super) has_star: bool,
}

/// Reads a whole field. Empty items are skipped, so `,` alone is accepted and allows nothing: the library does so.
pub(super) fn parse(field: CronField, text: &str) -> Result<Field, CronError> {
    let mut all = Field { values: 0, has_star: false };
    for item in text.split(',').filter(|item| !item.is_empty()) {
        let one =
            parse_item(field, item).map_err(|problem| CronError::Field { field, item: item.to_owned(), problem })?;
        all = Field { values: all.values | one.values, has_star: all.has_star || one.has_star };
    }
    Ok(all)
}

/// Which values a person may write, as the end of an error message.
pub(super) fn hint(field: CronField) -> String {
    let Bounds { min, max, names } = bounds(field);
    match (names.first(), names.last()) {
        (Some(first), Some(last)) => {
            let sunday = if field == CronField::DayOfWeek { " (Sunday is 0)" } else { "" };
            format!("use {min} to {max}{sunday} or {first} to {last}")
        }
        _ => format!("use {min} to {max}"),
    }
}

struct Bounds {
    min: u64,
    max: u64,
    /// Names for the values from `min` on.
    names: &'static [&'static str],
}

fn bounds(field: CronField) -> Bounds {
    match field {
        CronField::Minute => Bounds { min: 0, max: 59, names: &[] },
        CronField::Hour => Bounds { min: 0, max: 23, names: &[] },
        CronField::DayOfMonth => Bounds { min: 1, max: 31, names: &[] },
        CronField::Month => Bounds {
            min: 1,
            max: 12,
            names: &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
        },
        CronField::DayOfWeek => Bounds { min: 0, max: 6, names: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"] },
    }
}

fn parse_item(field: CronField, item: &str) -> Result<Field, FieldProblem> {
    let bounds = bounds(field);
    let (range, step) = match item.split_once('/') {
        Some((_, step)) if step.contains('/') => return Err(FieldProblem::TooManySlashes),
        Some((range, step)) => (range, Some(parse_step(step)?)),
        None => (item, None),
    };
    let (low, high) = match range.split_once('-') {
        Some((low, high)) => (low, Some(high)),
        None => (range, None),
    };
    // Whatever follows the hyphen of `*-5` is ignored by the library, so it is here.
    let is_star = matches!(low, "*" | "?");
    let (start, mut end) = if is_star { (bounds.min, bounds.max) } else { parse_range(&bounds, low, high)? };
    if step.is_some() && high.is_none() {
        // `5/10` is short for `5-59/10`.
        end = bounds.max;
    }
    if start < bounds.min {
        return Err(FieldProblem::BelowMinimum(start));
    }
    if start > bounds.max || end > bounds.max {
        return Err(FieldProblem::AboveMaximum(start.max(end)));
    }
    if start > end {
        return Err(FieldProblem::Reversed { start, end });
    }
    let step = step.unwrap_or(1);
    let values = (start..=end).step_by(step).fold(0, |values, value| values | 1 << value);
    // A star with a real step restricts its field like a list does; `*/1` is still a star.
    Ok(Field { values, has_star: is_star && step == 1 })
}

fn parse_range(bounds: &Bounds, low: &str, high: Option<&str>) -> Result<(u64, u64), FieldProblem> {
    let start = parse_value(bounds, low)?;
    match high {
        None => Ok((start, start)),
        Some(high) if high.contains('-') => Err(FieldProblem::TooManyHyphens),
        Some(high) => Ok((start, parse_value(bounds, high)?)),
    }
}

fn parse_value(bounds: &Bounds, text: &str) -> Result<u64, FieldProblem> {
    let named = (bounds.min..).zip(bounds.names).find(|(_, name)| name.eq_ignore_ascii_case(text));
    match named {
        Some((value, _)) => Ok(value),
        None => parse_number(text).ok_or_else(|| FieldProblem::NotAValue(text.to_owned())),
    }
}

fn parse_step(text: &str) -> Result<usize, FieldProblem> {
    let step = parse_number(text).filter(|step| *step > 0);
    let step = step.ok_or_else(|| FieldProblem::BadStep(text.to_owned()))?;
    // A step beyond the field leaves only its first value, however far beyond it is.
    Ok(usize::try_from(step).unwrap_or(usize::MAX))
}

/// Go's `Atoi` without negatives: a plus sign and leading zeros are fine, 64 signed bits are the limit.
fn parse_number(text: &str) -> Option<u64> {
    text.parse::<i64>().ok().and_then(|number| u64::try_from(number).ok())
}
