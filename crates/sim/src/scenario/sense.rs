//! Whether values make sense: times, counts, prices, names.

use std::time::Duration;

use model::price::Price;
use serde_saphyr::Spanned;

use super::document::Names;
use super::fault::Flaw;
use crate::apiserver::is_subdomain;

pub(super) fn not_negative(time: &Spanned<api::Duration>) -> Result<Duration, Flaw> {
    match time.value < api::Duration::ZERO {
        true => Err(Flaw::new(line(time), "the time is negative", "write a time such as 30s, 10m or 1h30m")),
        false => Ok(time.value.to_std()),
    }
}

pub(super) fn positive(time: &Spanned<api::Duration>, problem: &str) -> Result<Duration, Flaw> {
    match not_negative(time)? {
        Duration::ZERO => Err(Flaw::new(line(time), problem, "write a time such as 30s, 10m or 1h30m")),
        time => Ok(time),
    }
}

/// How many are meant; one, if nothing is said.
pub(super) fn count(given: Option<&Spanned<u32>>) -> Result<usize, Flaw> {
    match given {
        None => Ok(1),
        Some(none) if none.value == 0 => {
            Err(Flaw::new(line(none), "a count of 0 strikes nobody", "write at least 1, or leave the step out"))
        }
        Some(some) => Ok(some.value as usize),
    }
}

pub(super) fn price(dollars: &Spanned<f64>) -> Result<Price, Flaw> {
    Price::from_dollars(dollars.value)
        .map_err(|error| Flaw::new(line(dollars), error.to_string(), "write dollars per hour"))
}

/// The names, none of them if nothing is said.
pub(super) fn names(given: Option<&Names>) -> Result<&[Spanned<String>], Flaw> {
    match given {
        None => Ok(&[]),
        Some(none) if none.value.is_empty() => {
            Err(Flaw::new(line(none), "the list is empty", "write names, or leave the field out, which means all"))
        }
        Some(some) => Ok(&some.value),
    }
}

/// A name that an object can have.
pub(super) fn name(given: &Spanned<String>) -> Result<&str, Flaw> {
    match is_subdomain(&given.value) {
        true => Ok(&given.value),
        false => {
            let problem = format!("{:?} is no name of an object", given.value);
            Err(Flaw::new(line(given), problem, "use lower case letters, digits, '-' and '.'"))
        }
    }
}

pub(super) fn line<T>(value: &Spanned<T>) -> u64 {
    value.referenced.line()
}
