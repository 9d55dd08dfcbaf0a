//! Label keys and values as numbers, and requirements as sets of them.
//!
//! For each key the solver knows three kinds of states: the label is absent, it has one of the values that somebody named,
//! or it has some other value. A requirement is the set of states that it allows, so combining two is one `and`.
//!
//! Integer bounds cut the number line into pieces; each piece gets a value of its own to stand for the unnamed numbers in
//! it. With that a set of states is exact: two requirements agree just when their sets meet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::labels::Labels;
use model::requirements::{Requirement, Requirements};

use super::bits::Bits;

/// The label is not there.
pub(crate) const ABSENT: usize = 0;
/// The label has a value that nobody named.
pub(crate) const OTHER: usize = 1;
/// Named values follow.
const FIRST_VALUE: usize = 2;

pub(crate) type Key = usize;

/// Collects keys and values before they get their numbers.
#[derive(Default)]
pub(crate) struct Dictionary {
    keys: BTreeMap<Arc<str>, Seen>,
}

#[derive(Default)]
struct Seen {
    values: BTreeSet<Arc<str>>,
    /// Where a bound lets one number through and keeps its neighbour out: the first number above each cut.
    cuts: BTreeSet<i64>,
}

/// Keys and values with their numbers, in the order of their names.
pub(crate) struct Words {
    names: Vec<Arc<str>>,
    index: BTreeMap<Arc<str>, Key>,
    values: Vec<Vec<Arc<str>>>,
}

/// What one label may be: the key, and the set of states.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Mask {
    pub(crate) key: Key,
    pub(crate) states: Bits,
}

impl Mask {
    /// Whether it holds whatever the labels come to.
    pub(crate) fn holds_surely(&self, states: &[Bits]) -> bool {
        states[self.key].is_subset(&self.states)
    }

    /// Whether it can still hold.
    pub(crate) fn may_hold(&self, states: &[Bits]) -> bool {
        states[self.key].intersects(&self.states)
    }
}

/// Whether all of these hold whatever the labels come to.
pub(crate) fn hold_surely(masks: &[Mask], states: &[Bits]) -> bool {
    masks.iter().all(|mask| mask.holds_surely(states))
}

/// Whether each of these can still hold.
pub(crate) fn may_hold(masks: &[Mask], states: &[Bits]) -> bool {
    masks.iter().all(|mask| mask.may_hold(states))
}

impl Dictionary {
    pub(crate) fn add_key(&mut self, key: &Arc<str>) {
        self.keys.entry(key.clone()).or_default();
    }

    pub(crate) fn add_value(&mut self, key: &Arc<str>, value: &Arc<str>) {
        self.keys.entry(key.clone()).or_default().values.insert(value.clone());
    }

    pub(crate) fn add(&mut self, requirements: &Requirements) {
        for (key, requirement) in requirements.iter() {
            let seen = self.keys.entry(key.clone()).or_default();
            seen.values.extend(requirement.listed().or(requirement.excluded()).into_iter().flatten().cloned());
            let (at_least, at_most) = requirement.bounds();
            seen.cuts.extend(at_least);
            seen.cuts.extend(at_most.and_then(|most| most.checked_add(1)));
        }
    }

    pub(crate) fn has_key(&self, key: &str) -> bool {
        self.keys.contains_key(key)
    }

    /// Gives out the numbers.
    pub(crate) fn freeze(self) -> Words {
        let mut words = Words { names: Vec::new(), index: BTreeMap::new(), values: Vec::new() };
        for (number, (key, seen)) in self.keys.into_iter().enumerate() {
            words.index.insert(key.clone(), number);
            words.names.push(key);
            words.values.push(with_stand_ins(seen));
        }
        words
    }
}

/// The named values and, where there are bounds, one unnamed integer for each piece of the number line.
fn with_stand_ins(seen: Seen) -> Vec<Arc<str>> {
    let mut values = seen.values;
    let starts: Vec<i64> = seen.cuts.iter().copied().collect();
    for (index, start) in starts.iter().enumerate() {
        let end = starts.get(index + 1).map_or(i64::MAX, |next| next - 1);
        let unnamed = (*start..=end).find(|number| !values.contains(number.to_string().as_str()));
        values.extend(unnamed.map(|number| Arc::from(number.to_string().as_str())));
    }
    // The piece below the first cut has no first number; count down from the cut.
    if let Some(first) = starts.first().filter(|first| **first > i64::MIN) {
        let below = (0..).map(|step| first.saturating_sub(1).saturating_sub(step));
        let unnamed = below.take(values.len() + 2).find(|number| !values.contains(number.to_string().as_str()));
        values.extend(unnamed.map(|number| Arc::from(number.to_string().as_str())));
    }
    values.into_iter().collect()
}

impl Words {
    pub(crate) fn key_count(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn key(&self, name: &str) -> Option<Key> {
        self.index.get(name).copied()
    }

    pub(crate) fn key_name(&self, key: Key) -> &Arc<str> {
        &self.names[key]
    }

    /// How many states a label of this key can be in.
    pub(crate) fn state_count(&self, key: Key) -> usize {
        FIRST_VALUE + self.values[key].len()
    }

    /// The named value that a state stands for.
    pub(crate) fn value(&self, key: Key, state: usize) -> Option<&Arc<str>> {
        self.values[key].get(state.checked_sub(FIRST_VALUE)?)
    }

    /// The state of a label with this value.
    pub(crate) fn state(&self, key: Key, value: &str) -> usize {
        self.values[key].binary_search_by(|known| (**known).cmp(value)).map_or(OTHER, |index| index + FIRST_VALUE)
    }

    pub(crate) fn everything(&self, key: Key) -> Bits {
        Bits::full(self.state_count(key))
    }

    pub(crate) fn just(&self, key: Key, state: usize) -> Bits {
        let mut states = Bits::empty(self.state_count(key));
        states.insert(state);
        states
    }

    /// Every state that is a named value.
    pub(crate) fn named(&self, key: Key) -> Bits {
        let mut states = self.everything(key);
        states.remove(ABSENT);
        states.remove(OTHER);
        states
    }

    pub(crate) fn states(&self, key: Key, requirement: &Requirement) -> Bits {
        let mut states = Bits::empty(self.state_count(key));
        if requirement.allows_absent() {
            states.insert(ABSENT);
        }
        // A list is looked up value by value; lists are short, and a key can have a thousand values.
        if let Some(listed) = requirement.listed() {
            let named = listed.iter().filter(|value| requirement.has(value)).map(|value| self.state(key, value));
            named.filter(|state| *state != OTHER).for_each(|state| states.insert(state));
            return states;
        }
        // Under a bound every integer has a named stand-in, so "other" is text, which no bound lets through.
        if requirement.excluded().is_some() && requirement.bounds() == (None, None) {
            states.insert(OTHER);
        }
        for (index, value) in self.values[key].iter().enumerate() {
            if requirement.has(value) {
                states.insert(FIRST_VALUE + index);
            }
        }
        states
    }

    /// A set of requirements, key by key. Keys that nobody collected cannot matter and are left out.
    pub(crate) fn masks(&self, requirements: &Requirements) -> Vec<Mask> {
        let mask = |(key, requirement): (&Arc<str>, &Requirement)| {
            let key = self.key(key)?;
            Some(Mask { key, states: self.states(key, requirement) })
        };
        requirements.iter().filter_map(mask).collect()
    }

    /// The state of every key on an object with these labels.
    pub(crate) fn states_of(&self, labels: &Labels) -> Vec<usize> {
        let state = |(key, name): (Key, &Arc<str>)| labels.get(name).map_or(ABSENT, |value| self.state(key, value));
        self.names.iter().enumerate().map(state).collect()
    }
}

#[cfg(test)]
mod tests {
    use model::requirements::Operator;
    use proptest::prelude::*;

    use super::*;

    const VALUES: [&str; 6] = ["a", "b", "0", "1", "5", "9"];

    fn requirement() -> impl Strategy<Value = Requirement> {
        let values = || proptest::collection::vec(proptest::sample::select(&VALUES[..]), 0..4);
        let number = || proptest::sample::select(&["0", "1", "4", "5", "9"][..]);
        prop_oneof![
            values().prop_map(|v| Requirement::new(Operator::In, v)),
            values().prop_map(|v| Requirement::new(Operator::NotIn, v)),
            Just(Requirement::exists()),
            Just(Requirement::does_not_exist()),
            number().prop_map(|n| Requirement::new(Operator::Gt, [n])),
            number().prop_map(|n| Requirement::new(Operator::Lt, [n])),
        ]
    }

    proptest! {
        #[test]
        fn sets_of_states_meet_just_when_requirements_agree(all in proptest::collection::vec(requirement(), 1..5)) {
            let mut dictionary = Dictionary::default();
            for one in &all {
                dictionary.add(&Requirements::default().with("k", one.clone()));
            }
            let words = dictionary.freeze();
            let mut together = words.everything(0);
            let mut combined = all[0].clone();
            for one in &all {
                together.keep(&words.states(0, one));
                combined = combined.intersection(one);
            }
            prop_assert_eq!(together.is_empty(), combined.is_contradiction());
            prop_assert_eq!(together.contains(ABSENT), combined.allows_absent());
        }

        #[test]
        fn a_label_is_allowed_just_when_its_state_is(all in proptest::collection::vec(requirement(), 1..4), label in proptest::sample::select(&["a", "b", "0", "1", "3", "5", "7", "z"][..])) {
            let mut dictionary = Dictionary::default();
            let key: Arc<str> = "k".into();
            dictionary.add_value(&key, &label.into());
            for one in &all {
                dictionary.add(&Requirements::default().with("k", one.clone()));
            }
            let words = dictionary.freeze();
            for one in &all {
                prop_assert_eq!(words.states(0, one).contains(words.state(0, label)), one.has(label));
            }
        }
    }
}
