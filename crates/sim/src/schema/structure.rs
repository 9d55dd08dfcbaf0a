//! Checks of the structure: types, required fields, limits.

use std::sync::LazyLock;

use jiff::civil::Date;
use regex::Regex;
use serde_json::{Map, Number, Value};

use super::changes::{is_unchanged, old_entry, old_member};
use super::error::{FieldError, FieldErrorKind as Kind};
use super::node::{Format, Node, Type};
use super::path::Path;

/// The largest number up to which every whole one can be told from its neighbours in a float.
const LARGEST_EXACT: f64 = 9_007_199_254_740_991.0;

/// Reports everything wrong with a value. Faults of a value that an update leaves as it was are forgiven.
pub(super) fn check(node: &Node, value: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let before = errors.len();
    check_anew(node, value, old, path, errors);
    if errors.len() > before && old.is_some_and(|old| is_unchanged(node, value, old)) {
        errors.truncate(before);
    }
}

fn check_anew(node: &Node, value: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if let Some((expected, found)) = type_mismatch(node, value) {
        let detail = format!("{} in body must be of type {expected}: {found:?}", path.dotted());
        errors.push(FieldError::with_value(Kind::TypeInvalid, path.dotted_field(), &found.into(), &detail));
    }
    match value {
        Value::String(text) => check_text(node, text, value, path, errors),
        Value::Number(number) => check_number(node, number, value, path, errors),
        Value::Array(entries) => check_list(node, entries, old, path, errors),
        _ => {}
    }
    if !node.allowed.is_empty() && !node.allowed.contains(value) {
        let quoted = node.allowed.iter().map(|value| match value {
            Value::String(text) => format!("{text:?}"),
            other => format!("{:?}", other.to_string()),
        });
        let detail = format!("supported values: {}", quoted.collect::<Vec<_>>().join(", "));
        errors.push(FieldError::with_value(Kind::NotSupported, path.dotted_field(), value, &detail));
    }
    if let Value::Object(fields) = value {
        check_fields(node, fields, old, path, errors);
    }
}

/// The type that is asked for and the one that is there, if they differ. Where there is a format, it is named instead.
fn type_mismatch(node: &Node, value: &Value) -> Option<(String, &'static str)> {
    let names = node.kind.names();
    if names.is_empty() && node.format.is_none() {
        return None;
    }
    let (found, found_format) = match value {
        Value::Null if names.is_empty() || node.is_nullable => return None,
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
        Value::Number(number) if number.is_i64() => ("integer", "int64"),
        Value::Number(_) => ("number", "float64"),
    };
    let is_whole = value.as_f64().is_some_and(|number| number.fract() == 0.0 && number.abs() <= LARGEST_EXACT);
    let fits = names.contains(&found)
        || (found == "number" && is_whole && names.contains(&"integer"))
        || (found == "integer" && names.contains(&"number"));
    if fits {
        return None;
    }
    match node.format {
        // A quirk of the API server: it takes a list where a text with a format is asked for.
        Some(_) if matches!(found, "string" | "array") && !matches!(node.kind, Type::Integer | Type::Number) => None,
        Some(format) if !matches!(found, "string" | "array" | "null") => {
            Some((format.as_str().to_owned(), found_format))
        }
        _ => Some((names.join(","), found)),
    }
}

fn check_text(node: &Node, text: &str, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    // The first fault of a text hides the others.
    let too_long = |max: &usize| text.len() > *max && text.chars().count() > *max;
    if let Some(max) = node.max_length.filter(too_long) {
        let bytes = if max == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {max} {bytes}");
        errors.push(FieldError::new(Kind::TooLong, path.dotted_field(), &detail));
    } else if let Some(min) = node.min_length.filter(|min| text.chars().take(*min).count() < *min) {
        push_invalid(path, value, &format!("should be at least {min} chars long"), errors);
    } else if let Some(pattern) = node.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
        push_invalid(path, value, &format!("should match '{}'", pattern.text), errors);
    }
    if node.format == Some(Format::DateTime) && !is_date_time(text) {
        let detail = format!("{} in body must be of type date-time: {text:?}", path.dotted());
        errors.push(FieldError::with_value(Kind::TypeInvalid, path.dotted_field(), value, &detail));
    }
}

fn check_number(node: &Node, number: &Number, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let is_out_of_range = node.kind == Type::Integer
        && node.format == Some(Format::Int32)
        && number.as_f64().is_some_and(|number| number > f64::from(i32::MAX) || number < f64::from(i32::MIN));
    if is_out_of_range {
        // The API server reports this one without a place.
        let detail = format!("Checked value must be of type integer with format int32 in {}", path.dotted());
        errors.push(FieldError::with_value(Kind::Invalid, Path::Root.dotted_field(), &"".into(), &detail));
    }
    if let Some(minimum) = node.minimum.as_ref().filter(|minimum| is_less(number, minimum)) {
        push_invalid(path, value, &format!("should be greater than or equal to {minimum}"), errors);
    }
    if let Some(maximum) = node.maximum.as_ref().filter(|maximum| is_less(maximum, number)) {
        push_invalid(path, value, &format!("should be less than or equal to {maximum}"), errors);
    }
}

fn is_less(left: &Number, right: &Number) -> bool {
    match (left.as_i64(), right.as_i64()) {
        (Some(left), Some(right)) => left < right,
        _ => left.as_f64() < right.as_f64(),
    }
}

fn check_list(node: &Node, entries: &[Value], old: Option<&Value>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if let Some(items) = node.items.as_deref() {
        for (index, entry) in entries.iter().enumerate() {
            check(items, entry, old_entry(node, entry, old), &path.index(index), errors);
        }
    }
    if let Some(min) = node.min_items.filter(|min| entries.len() < *min) {
        push_invalid(path, &entries.len().into(), &format!("should have at least {min} items"), errors);
    }
    if let Some(max) = node.max_items.filter(|max| entries.len() > *max) {
        push_too_many(path, entries.len(), max, errors);
    }
}

fn check_fields(
    node: &Node,
    fields: &Map<String, Value>,
    old: Option<&Value>,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if let Some(max) = node.max_properties.filter(|max| fields.len() > *max) {
        push_too_many(path, fields.len(), max, errors);
    }
    for (name, value) in fields {
        // Both objects were brought to one version, so a change of these two could not be seen.
        let is_own_name = matches!(path, Path::Root) && matches!(name.as_str(), "apiVersion" | "kind");
        let old = if is_own_name { None } else { old_member(old, name) };
        match (node.properties.get(name), node.entries.as_deref()) {
            (Some(property), _) => check(property, value, old, &path.field(name), errors),
            (None, Some(entries)) => check(entries, value, old, &path.key(name), errors),
            (None, None) => {}
        }
    }
    for name in node.required.iter().filter(|name| !fields.contains_key(*name)) {
        errors.push(FieldError::new(Kind::Required, path.field(name).dotted_field(), ""));
    }
}

fn push_invalid(path: &Path<'_>, value: &Value, fault: &str, errors: &mut Vec<FieldError>) {
    let detail = format!("{} in body {fault}", path.dotted());
    errors.push(FieldError::with_value(Kind::Invalid, path.dotted_field(), value, &detail));
}

fn push_too_many(path: &Path<'_>, count: usize, max: usize, errors: &mut Vec<FieldError>) {
    let items = if max == 1 { "item" } else { "items" };
    let detail = format!("must have at most {max} {items}");
    errors.push(FieldError::with_value(Kind::TooMany, path.dotted_field(), &count.into(), &detail));
}

/// What the API server takes for a date and time: a day of the calendar, and a time with a zone.
fn is_date_time(text: &str) -> bool {
    static TIME: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new("^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})$")
            .expect("the expression is a constant")
    });
    let text = text.to_ascii_lowercase();
    let mut parts = text.split('t');
    match (parts.next(), parts.next()) {
        (Some(date), Some(time)) => is_date(date) && TIME.is_match(time),
        _ => false,
    }
}

fn is_date(text: &str) -> bool {
    let mut parts = text.split('-').map(|part| part.bytes().all(|byte| byte.is_ascii_digit()).then_some(part));
    let (Some(Some(year)), Some(Some(month)), Some(Some(day)), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let (Ok(year_number), Ok(month_number), Ok(day_number)) = (year.parse(), month.parse(), day.parse()) else {
        return false;
    };
    (year.len(), month.len(), day.len()) == (4, 2, 2) && Date::new(year_number, month_number, day_number).is_ok()
}

#[cfg(test)]
mod tests;
