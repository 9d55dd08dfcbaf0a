use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::Requirement;
use crate::labels::{HOSTNAME, Labels, WellKnown};

/// Requirements by key. A key that is not here may be anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Requirements(BTreeMap<Arc<str>, Requirement>);

/// What a key means that one side asks for and the other does not define.
#[derive(Clone, Copy, Debug)]
pub enum Undefined<'a> {
    /// The label is not there, as on a real node.
    Absent,
    /// A well-known key is still open, as on a node that does not exist yet; any other is not there.
    OpenIfWellKnown(&'a WellKnown),
}

/// Why two sets of requirements cannot both hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clash {
    /// The demand contradicts itself.
    Contradiction { key: Arc<str>, requirement: Requirement },
    /// The other side does not have the label. A key that looks like the one that was meant may be named.
    UnknownKey { key: Arc<str>, typo_of: Option<Arc<str>> },
    /// Both sides have the label, but no value that suits both.
    NoCommonValue { key: Arc<str>, incoming: Requirement, existing: Requirement },
}

impl Clash {
    pub fn key(&self) -> &Arc<str> {
        match self {
            Self::Contradiction { key, .. } | Self::UnknownKey { key, .. } | Self::NoCommonValue { key, .. } => key,
        }
    }
}

impl Requirements {
    /// Each label as a requirement for just its value.
    pub fn from_labels(labels: &Labels) -> Self {
        Self(labels.iter().map(|(key, value)| (key.clone(), Requirement::value(value.clone()))).collect())
    }

    pub fn get(&self, key: &str) -> Option<&Requirement> {
        self.0.get(key)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Requirement)> {
        self.0.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a demand; a key that has one already must satisfy both.
    pub fn add(&mut self, key: impl Into<Arc<str>>, requirement: Requirement) {
        let key = key.into();
        let combined = match self.0.get(&key) {
            Some(present) => present.intersection(&requirement),
            None => requirement,
        };
        self.0.insert(key, combined);
    }

    /// The same with one demand added; for building.
    #[must_use]
    pub fn with(mut self, key: &str, requirement: Requirement) -> Self {
        self.add(key, requirement);
        self
    }

    /// Adds all demands of another set.
    pub fn add_all(&mut self, other: &Self) {
        for (key, requirement) in other.iter() {
            self.add(key.clone(), requirement.clone());
        }
    }

    /// What satisfies both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut both = self.clone();
        both.add_all(other);
        both
    }

    /// These together with each of several terms, of which one must hold. No term asks for nothing more.
    pub fn with_any_of(&self, terms: &[Self]) -> Vec<Self> {
        if terms.is_empty() {
            return vec![self.clone()];
        }
        terms.iter().map(|term| self.intersection(term)).collect()
    }

    /// Drops the demand on a key.
    pub fn remove(&mut self, key: &str) -> Option<Requirement> {
        self.0.remove(key)
    }

    /// The first demand of `incoming` that these requirements cannot meet.
    pub fn clash(&self, incoming: &Self, undefined: Undefined<'_>) -> Option<Clash> {
        incoming.iter().find_map(|(key, wanted)| {
            if wanted.is_contradiction() {
                return Some(Clash::Contradiction { key: key.clone(), requirement: wanted.clone() });
            }
            match self.get(key) {
                Some(existing) => value_clash(key, wanted, existing),
                None if wanted.allows_absent() => None,
                None => match undefined {
                    Undefined::OpenIfWellKnown(well_known) if well_known.contains(key) => None,
                    _ => Some(Clash::UnknownKey { key: key.clone(), typo_of: self.typo_of(key, undefined) }),
                },
            }
        })
    }

    pub fn is_compatible(&self, incoming: &Self, undefined: Undefined<'_>) -> bool {
        self.clash(incoming, undefined).is_none()
    }

    /// The first key that both sets name and cannot agree on. Keys that only one names do not count.
    pub fn overlap_clash(&self, incoming: &Self) -> Option<Clash> {
        incoming.iter().find_map(|(key, wanted)| value_clash(key, wanted, self.get(key)?))
    }

    pub fn overlaps(&self, incoming: &Self) -> bool {
        self.overlap_clash(incoming).is_none()
    }

    /// A known key that contains the unknown one, or ends like it.
    fn typo_of(&self, key: &str, undefined: Undefined<'_>) -> Option<Arc<str>> {
        let suffix = key.split_once('/').map_or(key, |(_, suffix)| suffix);
        let looks_like = |known: &&Arc<str>| known.contains(key) || known.ends_with(suffix);
        let well_known = match undefined {
            Undefined::OpenIfWellKnown(well_known) => well_known.iter().find(looks_like),
            Undefined::Absent => None,
        };
        well_known.or_else(|| self.0.keys().find(looks_like)).cloned()
    }
}

fn value_clash(key: &Arc<str>, wanted: &Requirement, existing: &Requirement) -> Option<Clash> {
    let may_be_absent = wanted.allows_absent() && existing.allows_absent();
    (!may_be_absent && !existing.intersects(wanted)).then(|| Clash::NoCommonValue {
        key: key.clone(),
        incoming: wanted.clone(),
        existing: existing.clone(),
    })
}

impl FromIterator<(Arc<str>, Requirement)> for Requirements {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, Requirement)>>(entries: I) -> Self {
        let mut set = Self::default();
        for (key, requirement) in entries {
            set.add(key, requirement);
        }
        set
    }
}

/// A requirement with its key, as it stands in events.
pub(super) struct Keyed<'a>(pub(super) &'a str, pub(super) &'a Requirement);

impl fmt::Display for Keyed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.0)?;
        self.1.describe(f)
    }
}

impl fmt::Display for Requirements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The hostname of a machine that does not exist yet is a placeholder and says nothing.
        let mut texts: Vec<String> =
            self.0.iter().filter(|(key, _)| ***key != *HOSTNAME).map(|(key, r)| Keyed(key, r).to_string()).collect();
        texts.sort();
        f.write_str(&texts.join(", "))
    }
}

impl fmt::Display for Clash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Contradiction { key, requirement } => {
                write!(f, "key {key}, {} allows no value", Keyed(key, requirement))
            }
            Self::UnknownKey { key, typo_of } => {
                write!(f, "label {key:?} does not have known values")?;
                typo_of.as_ref().map_or(Ok(()), |known| write!(f, " (typo of {known:?}?)"))
            }
            Self::NoCommonValue { key, incoming, existing } => {
                write!(f, "key {key}, {} not in {}", Keyed(key, incoming), Keyed(key, existing))
            }
        }
    }
}
