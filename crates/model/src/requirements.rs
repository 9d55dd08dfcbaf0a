//! What a label may be, and how such demands combine.
//!
//! A requirement on one key allows a set of values and perhaps the absence of the label. Kubernetes writes that with eight
//! operators; here all of them are one shape, so that any two combine exactly:
//!
//! ```text
//! In V          V                       absent: no
//! NotIn V       everything but V        absent: yes
//! Exists        everything              absent: no
//! DoesNotExist  nothing                 absent: yes
//! Gte n, Lte n  the integers in bounds  absent: no      (Gt n is Gte n+1, Lt n is Lte n-1)
//! ```
//!
//! Integers are those that a label can have, so none is negative: `Lt 0` allows nothing.
//!
//! The reference takes an empty combination for `DoesNotExist`, and so places pods that no scheduler can place. Here a
//! combination that allows neither a value nor absence is a contradiction and compatible with nothing.

mod set;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

pub use set::{Clash, Requirements, Undefined};

/// How a requirement is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Gt,
    Lt,
    Gte,
    Lte,
}

impl Operator {
    pub const ALL: [Self; 8] =
        [Self::In, Self::NotIn, Self::Exists, Self::DoesNotExist, Self::Gt, Self::Lt, Self::Gte, Self::Lte];

    /// Reads the API's word, in exactly its spelling.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operator| operator.to_string() == text)
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The states that one label may be in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// Whether `values` are the excluded ones.
    complement: bool,
    /// Shared, because lists of instance types are long and copied often.
    values: Arc<BTreeSet<Arc<str>>>,
    at_least: Option<i64>,
    at_most: Option<i64>,
    allows_absent: bool,
    /// How many different values the instance types of one node must leave open.
    pub min_values: Option<u32>,
}

impl Requirement {
    pub fn new<'a>(operator: Operator, values: impl IntoIterator<Item = &'a str>) -> Self {
        let values: BTreeSet<Arc<str>> = values.into_iter().map(Into::into).collect();
        // Admission lets exactly one integer through; anything else that gets here matches nothing.
        let bound = || values.iter().next().and_then(|text| text.parse::<i64>().ok());
        match operator {
            Operator::In => Self::of(false, values, false),
            Operator::NotIn => Self::of(true, values, true),
            Operator::Exists => Self::exists(),
            Operator::DoesNotExist => Self::does_not_exist(),
            Operator::Gt => bound().and_then(|n| n.checked_add(1)).map_or_else(Self::nothing, Self::from),
            Operator::Lt => bound().and_then(|n| n.checked_sub(1)).map_or_else(Self::nothing, Self::up_to),
            Operator::Gte => bound().map_or_else(Self::nothing, Self::from),
            Operator::Lte => bound().map_or_else(Self::nothing, Self::up_to),
        }
    }

    /// Exactly this value.
    pub fn value(value: Arc<str>) -> Self {
        Self::of(false, BTreeSet::from([value]), false)
    }

    /// Any of these values.
    pub fn one_of(values: impl IntoIterator<Item = Arc<str>>) -> Self {
        Self::of(false, values.into_iter().collect(), false)
    }

    pub fn exists() -> Self {
        Self::of(true, BTreeSet::new(), false)
    }

    pub fn does_not_exist() -> Self {
        Self::of(false, BTreeSet::new(), true)
    }

    /// What no node satisfies.
    fn nothing() -> Self {
        Self::of(false, BTreeSet::new(), false)
    }

    fn from(least: i64) -> Self {
        Self { at_least: Some(least), ..Self::exists() }
    }

    fn up_to(most: i64) -> Self {
        Self { at_most: Some(most), ..Self::exists() }
    }

    fn of(complement: bool, values: BTreeSet<Arc<str>>, allows_absent: bool) -> Self {
        let values = Arc::new(values);
        Self { complement, values, at_least: None, at_most: None, allows_absent, min_values: None }
    }

    #[must_use]
    pub fn with_min_values(mut self, min_values: Option<u32>) -> Self {
        self.min_values = min_values;
        self
    }

    /// The operator that this would be written with. A contradiction is written as `DoesNotExist`, like in the reference.
    pub fn operator(&self) -> Operator {
        match (self.complement, self.values.is_empty()) {
            (true, false) => Operator::NotIn,
            (true, true) => Operator::Exists,
            (false, false) => Operator::In,
            (false, true) => Operator::DoesNotExist,
        }
    }

    /// Whether a node without the label satisfies this.
    pub fn allows_absent(&self) -> bool {
        self.allows_absent
    }

    /// The allowed values, if they are a list and not "all but".
    pub fn listed(&self) -> Option<&BTreeSet<Arc<str>>> {
        (!self.complement).then_some(&self.values)
    }

    /// The excluded values of an "all but".
    pub fn excluded(&self) -> Option<&BTreeSet<Arc<str>>> {
        self.complement.then_some(&self.values)
    }

    /// The integer bounds, both inclusive.
    pub fn bounds(&self) -> (Option<i64>, Option<i64>) {
        (self.at_least, self.at_most)
    }

    /// Whether a label of this value satisfies this. Under a bound, what is no integer does not.
    pub fn has(&self, value: &str) -> bool {
        self.values.contains(value) != self.complement && self.is_in_bounds(value)
    }

    fn is_in_bounds(&self, value: &str) -> bool {
        if self.at_least.is_none() && self.at_most.is_none() {
            return true;
        }
        let Ok(number) = value.parse::<i64>() else { return false };
        self.at_least.is_none_or(|least| number >= least) && self.at_most.is_none_or(|most| number <= most)
    }

    /// Whether some value satisfies this.
    ///
    /// An "all but" always leaves a value open, except where bounds leave only excluded integers.
    pub fn allows_a_value(&self) -> bool {
        if !self.complement {
            return !self.values.is_empty();
        }
        self.at_most.is_none() || self.any().is_some()
    }

    /// Whether no node can satisfy this, labelled or not.
    pub fn is_contradiction(&self) -> bool {
        !self.allows_absent && !self.allows_a_value()
    }

    /// What satisfies both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let min_values = self.min_values.max(other.min_values);
        let at_least = self.at_least.max(other.at_least);
        let at_most = match (self.at_most, other.at_most) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let allows_absent = self.allows_absent && other.allows_absent;
        let has_crossed = at_least.zip(at_most).is_some_and(|(least, most)| least > most);
        if has_crossed {
            return Self { min_values, allows_absent, ..Self::nothing() };
        }
        let both = Self { at_least, at_most, ..Self::exists() };
        let complement = self.complement && other.complement;
        let values: BTreeSet<Arc<str>> = match (self.complement, other.complement) {
            (true, true) => self.values.union(&other.values).cloned().collect(),
            (true, false) => other.values.difference(&self.values).filter(|v| both.is_in_bounds(v)).cloned().collect(),
            (false, true) => self.values.difference(&other.values).filter(|v| both.is_in_bounds(v)).cloned().collect(),
            (false, false) => {
                self.values.intersection(&other.values).filter(|v| both.is_in_bounds(v)).cloned().collect()
            }
        };
        // A list is bounded by being a list.
        let (at_least, at_most) = if complement { (at_least, at_most) } else { (None, None) };
        Self { complement, values: Arc::new(values), at_least, at_most, allows_absent, min_values }
    }

    /// Whether some value satisfies both. Mostly asked of lists, and by far more often than what the intersection is.
    pub fn intersects(&self, other: &Self) -> bool {
        let (few, many) = match (self.complement, other.complement) {
            (true, true) => return self.intersection(other).allows_a_value(),
            (false, true) => (self, other),
            (true, false) => (other, self),
            (false, false) if self.values.len() <= other.values.len() => (self, other),
            (false, false) => (other, self),
        };
        few.values.iter().any(|value| many.has(value) && few.is_in_bounds(value))
    }

    /// A value that satisfies this, always the same one; `None` when there is none.
    ///
    /// Deterministic where the reference rolls dice: the least listed value, or the least integer that is not excluded.
    pub fn any(&self) -> Option<Arc<str>> {
        if !self.complement {
            return self.values.iter().next().cloned();
        }
        // No label is below nothing: a value begins with a letter or a digit.
        let least = self.at_least.unwrap_or(0).max(0);
        let most = self.at_most.unwrap_or(i64::MAX);
        // Each excluded value can block at most one integer, so the search is short.
        (least..=most).map(|number| Arc::from(number.to_string().as_str())).find(|text: &Arc<str>| self.has(text))
    }

    /// As the API writes it: two bounds take two entries.
    pub fn entries(&self) -> Vec<(Operator, Vec<Arc<str>>)> {
        let number = |n: i64| vec![Arc::from(n.to_string().as_str())];
        let bounds: Vec<(Operator, Vec<Arc<str>>)> = [
            self.at_least.map(|least| (Operator::Gte, number(least))),
            self.at_most.map(|most| (Operator::Lte, number(most))),
        ]
        .into_iter()
        .flatten()
        .collect();
        let values: Vec<Arc<str>> = self.values.iter().cloned().collect();
        match self.operator() {
            // Unlike the reference, exclusions survive beside bounds.
            Operator::NotIn => bounds.into_iter().chain([(Operator::NotIn, values)]).collect(),
            Operator::Exists if !bounds.is_empty() => bounds,
            operator => vec![(operator, values)],
        }
    }

    /// `Op [v1 v2] >=n <=m minValues k`, as it stands in events. At most five values are named.
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 5;
        write!(f, "{}", self.operator())?;
        if matches!(self.operator(), Operator::In | Operator::NotIn) {
            let named: Vec<&str> = self.values.iter().take(MOST).map(|value| &**value).collect();
            write!(f, " [{}", named.join(" "))?;
            if self.values.len() > MOST {
                write!(f, " and {} others", self.values.len() - MOST)?;
            }
            write!(f, "]")?;
        }
        if let Some(least) = self.at_least {
            write!(f, " >={least}")?;
        }
        if let Some(most) = self.at_most {
            write!(f, " <={most}")?;
        }
        match self.min_values {
            Some(min_values) => write!(f, " minValues {min_values}"),
            None => Ok(()),
        }
    }
}
