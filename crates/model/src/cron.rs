//! Cron schedules in UTC, in the language of the Go library robfig/cron v3 (`ParseStandard`), because that is what
//! people's manifests were written for. Its quirks are kept and marked; `tests/cron_table.txt` holds its own answers. Only
//! its `@every` is left out: the API's pattern refuses it, and a delay without a fixed start is no window.

mod calendar;
mod field;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::time::Instant;
use calendar::{Calendar, DayRule};

/// A recurring moment, parsed once and then asked often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron(Calendar);

/// Why a schedule was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CronError {
    /// Not five fields. An empty text has none.
    FieldCount { text: String, found: usize },
    /// One item of one field's list is at fault.
    Field { field: CronField, item: String, problem: FieldProblem },
    /// Starts with `@` and is none of the known shorthands. They are case-sensitive.
    Descriptor { text: String },
    /// A zone other than UTC. Schedules of one cluster should be comparable, so the API knows only one zone.
    Zone { zone: String },
}

/// The five fields in their order on the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CronField {
    Minute,
    Hour,
    DayOfMonth,
    Month,
    DayOfWeek,
}

/// What is wrong with an item such as `5`, `MON-FRI` or `*/15`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldProblem {
    /// Neither a number nor, where the field has names, a name.
    NotAValue(String),
    BelowMinimum(u64),
    AboveMaximum(u64),
    /// Ranges do not wrap around: `FRI-MON` must be written as `FRI-SAT,SUN-MON`.
    Reversed {
        start: u64,
        end: u64,
    },
    TooManyHyphens,
    TooManySlashes,
    /// Not a whole number of at least one.
    BadStep(String),
}

impl Cron {
    /// Reads five fields or a shorthand such as `@daily`, after an optional `TZ=UTC ` or `CRON_TZ=UTC `.
    pub fn parse(text: &str) -> Result<Cron, CronError> {
        let Some(after_prefix) = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) else {
            return parse_spec(text);
        };
        // Only a space ends the zone, and only behind a zone is the rest trimmed, as in the library.
        let (zone, spec) = after_prefix.split_once(' ').unwrap_or((after_prefix, ""));
        match zone {
            // To Go the zone without a name is UTC, too.
            "UTC" | "" => parse_spec(spec.trim()),
            _ => Err(CronError::Zone { zone: zone.to_owned() }),
        }
    }

    /// The first hit strictly after `after`, on a whole second. Nothing when none comes before the sixth year after
    /// `after` begins (as for 30 February, and for 29 February around 2100) or before [`Instant::MAX`].
    pub fn next_after(&self, after: Instant) -> Option<Instant> {
        self.0.next_after(after)
    }
}

impl CronField {
    /// Every field, in the order in which they are written.
    pub const ALL: [CronField; 5] =
        [CronField::Minute, CronField::Hour, CronField::DayOfMonth, CronField::Month, CronField::DayOfWeek];
}

impl fmt::Display for CronField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CronField::Minute => "minute",
            CronField::Hour => "hour",
            CronField::DayOfMonth => "day-of-month",
            CronField::Month => "month",
            CronField::DayOfWeek => "day-of-week",
        })
    }
}

impl fmt::Display for CronError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CronError::FieldCount { text, found } => write!(
                f,
                "schedule `{text}` has {found} fields instead of five; write minute, hour, day-of-month, month and \
                 day-of-week, or a shorthand such as `@daily`"
            ),
            CronError::Field { field, item, problem } => {
                write!(f, "{field} field `{item}`: ")?;
                problem.describe(*field, f)
            }
            CronError::Descriptor { text } => write!(
                f,
                "unknown shorthand `{text}`; use @yearly, @annually, @monthly, @weekly, @daily, @midnight or @hourly"
            ),
            CronError::Zone { zone } => {
                write!(
                    f,
                    "time zone `{zone}` is not supported; schedules are in UTC, convert the hours and leave it out"
                )
            }
        }
    }
}

impl std::error::Error for CronError {}

impl FieldProblem {
    fn describe(&self, field: CronField, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let use_values = field::hint(field);
        match self {
            FieldProblem::NotAValue(text) => write!(f, "`{text}` is not a value; {use_values}"),
            FieldProblem::BelowMinimum(value) => write!(f, "{value} is too low; {use_values}"),
            FieldProblem::AboveMaximum(value) => write!(f, "{value} is too high; {use_values}"),
            FieldProblem::Reversed { start, end } => write!(
                f,
                "beginning of range ({start}) beyond end of range ({end}); to wrap around, write two ranges with a \
                 comma"
            ),
            FieldProblem::TooManyHyphens => write!(f, "more than one `-`; write a range as `low-high`"),
            FieldProblem::TooManySlashes => write!(f, "more than one `/`; write a step as `range/step`"),
            FieldProblem::BadStep(text) => {
                write!(f, "`{text}` is not a step; write a whole number of at least 1 after the `/`")
            }
        }
    }
}

fn parse_spec(spec: &str) -> Result<Cron, CronError> {
    if spec.starts_with('@') {
        return parse_shorthand(spec);
    }
    let texts: Vec<&str> = spec.split_whitespace().collect();
    let texts: [&str; 5] = texts
        .try_into()
        .map_err(|texts: Vec<&str>| CronError::FieldCount { text: spec.to_owned(), found: texts.len() })?;
    parse_fields(texts)
}

fn parse_shorthand(spec: &str) -> Result<Cron, CronError> {
    match spec {
        "@yearly" | "@annually" => parse_fields(["0", "0", "1", "1", "*"]),
        "@monthly" => parse_fields(["0", "0", "1", "*", "*"]),
        "@weekly" => parse_fields(["0", "0", "*", "*", "0"]),
        "@daily" | "@midnight" => parse_fields(["0", "0", "*", "*", "*"]),
        "@hourly" => parse_fields(["0", "*", "*", "*", "*"]),
        _ => Err(CronError::Descriptor { text: spec.to_owned() }),
    }
}

fn parse_fields(texts: [&str; 5]) -> Result<Cron, CronError> {
    let [minute, hour, day, month, weekday] = texts;
    let minutes = field::parse(CronField::Minute, minute)?;
    let hours = field::parse(CronField::Hour, hour)?;
    let days = field::parse(CronField::DayOfMonth, day)?;
    let months = field::parse(CronField::Month, month)?;
    let weekdays = field::parse(CronField::DayOfWeek, weekday)?;
    Ok(Cron(Calendar {
        minutes: minutes.values,
        hours: hours.values,
        days: days.values,
        months: months.values,
        weekdays: weekdays.values,
        day_rule: if days.has_star || weekdays.has_star { DayRule::Both } else { DayRule::Either },
    }))
}
