//! Label keys and values as numbers, and requirements as sets of them.
//!
//! For each key the solver knows three kinds of states: the label is absent, it has one of the values that somebody named,
//! or it has some other value. A requirement is the set of states that it allows, so combining two is one `and`.
//!
//! Integer bounds cut the number line into pieces; each piece gets a value of its own to stand for the unnamed numbers in
//! it. With that a set of states is exact: two requirements agree just when their sets meet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::labels::{HOSTNAME, Labels};
use model::requirements::{Requirement, Requirements};

use super::bits::Bits;
use super::hash::Finder;

/// The label is not there.
pub(crate) const ABSENT: usize = 0;
/// The label has a value that nobody named.
pub(crate) const OTHER: usize = 1;
/// Named values follow.
pub(crate) const FIRST_VALUE: usize = 2;

pub(crate) type Key = usize;

/// Collects keys and values before they get their numbers.
#[derive(Default)]
pub(crate) struct Dictionary {
    base: Arc<Lexicon>,
    /// What keys of the base get beyond what they have.
    more: BTreeMap<Key, Seen>,
    keys: BTreeMap<Arc<str>, Seen>,
}

#[derive(Default)]
struct Seen {
    values: BTreeSet<Arc<str>>,
    /// Where a bound lets one number through and keeps its neighbour out: the first number above each cut.
    cuts: BTreeSet<i64>,
}

/// Words that stay as they are from question to question: those of everything on sale.
#[derive(Debug, Default)]
pub(crate) struct Lexicon {
    names: Vec<Arc<str>>,
    index: Finder,
    entries: Vec<Entry>,
}

#[derive(Debug, Default)]
struct Entry {
    /// Named values and stand-ins, in the order of their names.
    values: Vec<Arc<str>>,
    index: Finder,
    /// Those of them that nobody named.
    stand_ins: BTreeSet<Arc<str>>,
    cuts: BTreeSet<i64>,
}

/// Keys and values with their numbers: first those of a lexicon in the order of their names, then those that the question
/// brings, in the order of theirs. So what was worked out for the lexicon's numbers stays right.
pub(crate) struct Words {
    base: Arc<Lexicon>,
    names: Vec<Arc<str>>,
    index: BTreeMap<Arc<str>, Key>,
    /// By key, what the lexicon does not have.
    more: Vec<Vec<Arc<str>>>,
}

/// The labels of a node, looked up among words that are not complete yet: names are long and begin alike, and one look at each is enough.
#[derive(Default)]
pub(crate) struct Reading<'l> {
    /// Keys and states of what the lexicon has.
    known: Vec<(Key, usize)>,
    /// Values that it does not have, of keys that it has.
    new_values: Vec<(Key, &'l Arc<str>)>,
    /// Names of keys that it does not have, and their values.
    new_keys: Vec<(&'l Arc<str>, &'l Arc<str>)>,
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
    /// One that goes on where a lexicon ends.
    pub(crate) fn over(base: Arc<Lexicon>) -> Self {
        Self { base, ..Self::default() }
    }

    fn entry(&mut self, key: &Arc<str>) -> &mut Seen {
        match self.base.key(key) {
            Some(known) => self.more.entry(known).or_default(),
            None => self.keys.entry(key.clone()).or_default(),
        }
    }

    pub(crate) fn add_key(&mut self, key: &Arc<str>) {
        if self.base.key(key).is_none() {
            self.keys.entry(key.clone()).or_default();
        }
    }

    pub(crate) fn add_value(&mut self, key: &Arc<str>, value: &Arc<str>) {
        if !self.base.names(key, value) {
            self.entry(key).values.insert(value.clone());
        }
    }

    pub(crate) fn add(&mut self, requirements: &Requirements) {
        for (key, requirement) in requirements.iter() {
            self.add_key(key);
            for value in requirement.listed().or(requirement.excluded()).into_iter().flatten() {
                self.add_value(key, value);
            }
            let (at_least, at_most) = requirement.bounds();
            if at_least.is_some() || at_most.is_some() {
                let seen = self.entry(key);
                seen.cuts.extend(at_least);
                seen.cuts.extend(at_most.and_then(|most| most.checked_add(1)));
            }
        }
    }

    /// The labels of a node that is there. A value matters only where somebody asks for its key, and the name of a host only where
    /// somebody asks for that one: hosts are told apart by their number.
    pub(crate) fn read<'l>(&mut self, labels: &'l Labels) -> Reading<'l> {
        let mut reading = Reading::default();
        for (name, value) in labels {
            let Some(key) = self.base.key(name) else {
                if let Some(seen) = self.keys.get_mut(name).filter(|_| **name != *HOSTNAME) {
                    seen.values.insert(value.clone());
                }
                reading.new_keys.push((name, value));
                continue;
            };
            let entry = &self.base.entries[key];
            let place = entry.find(value);
            let is_named = place.is_some() && !entry.stand_ins.contains(value);
            if !is_named && **name != *HOSTNAME {
                self.more.entry(key).or_default().values.insert(value.clone());
            }
            match place {
                Some(place) => reading.known.push((key, FIRST_VALUE + place)),
                None => reading.new_values.push((key, value)),
            }
        }
        reading
    }

    /// Gives out numbers that stay. Only for a dictionary that starts from nothing.
    pub(crate) fn lexicon(self) -> Lexicon {
        let mut lexicon = Lexicon::default();
        for (key, seen) in self.keys {
            lexicon.names.push(key);
            let stand_ins = stand_ins(&seen, &Entry::default());
            let values = seen.values.into_iter().chain(stand_ins.iter().cloned()).collect::<BTreeSet<_>>();
            let values: Vec<Arc<str>> = values.into_iter().collect();
            lexicon.entries.push(Entry { index: by_text(&values), values, stand_ins, cuts: seen.cuts });
        }
        lexicon.index = by_text(&lexicon.names);
        lexicon
    }

    /// Gives out the numbers.
    pub(crate) fn freeze(self) -> Words {
        let mut words = Words::of(self.base);
        for (key, seen) in self.more {
            words.more[key] = words.base.entries[key].lacking(seen);
        }
        for (key, seen) in self.keys {
            words.index.insert(key.clone(), words.key_count());
            words.names.push(key);
            words.more.push(Entry::default().lacking(seen));
        }
        words
    }
}

impl Lexicon {
    /// Whether somebody named this value of a key. A stand-in is nobody's until somebody names it.
    fn names(&self, key: &str, value: &str) -> bool {
        self.key(key).is_some_and(|key| self.entries[key].names(value))
    }

    fn key(&self, name: &str) -> Option<Key> {
        self.index.find(name, |place| *self.names[place] == *name)
    }
}

impl Entry {
    fn find(&self, value: &str) -> Option<usize> {
        self.index.find(value, |place| *self.values[place] == *value)
    }

    fn names(&self, value: &str) -> bool {
        self.find(value).is_some() && !self.stand_ins.contains(value)
    }

    /// What must be added to this, so that what was seen has its states too.
    fn lacking(&self, seen: Seen) -> Vec<Arc<str>> {
        let stand_ins = stand_ins(&seen, self);
        let mut lacking: BTreeSet<Arc<str>> = seen.values.into_iter().chain(stand_ins).collect();
        lacking.retain(|value| self.find(value).is_none());
        lacking.into_iter().collect()
    }
}

/// Words are asked for with every label of every node, and their texts are long.
fn by_text(words: &[Arc<str>]) -> Finder {
    Finder::new(words.iter().map(|word| &**word))
}

/// Where there are bounds, one unnamed integer for each piece of the number line; those that are there already stay.
fn stand_ins(seen: &Seen, base: &Entry) -> BTreeSet<Arc<str>> {
    let starts: Vec<i64> = seen.cuts.union(&base.cuts).copied().collect();
    let is_unnamed = |number: &i64| {
        let text = number.to_string();
        !seen.values.contains(text.as_str()) && !base.names(&text)
    };
    let known: BTreeSet<i64> =
        base.stand_ins.iter().filter_map(|value| value.parse().ok()).filter(is_unnamed).collect();
    let mut found: BTreeSet<i64> = BTreeSet::new();
    for (index, start) in starts.iter().enumerate() {
        let end = starts.get(index + 1).map_or(i64::MAX, |next| next - 1);
        // A label has no sign, so there is no number below nothing.
        let start = (*start).max(0);
        if start <= end {
            found.extend(known.range(start..=end).next().copied().or_else(|| (start..=end).find(is_unnamed)));
        }
    }
    // The piece below the first cut has no first number; count down from the cut.
    if let Some(last) = starts.first().and_then(|first| first.checked_sub(1)) {
        let named = seen.values.len() + base.values.len();
        let below = (0..=named as i64).map(|step| last.saturating_sub(step)).take_while(|number| *number >= 0);
        found.extend(known.range(..=last).next_back().copied().or_else(|| below.into_iter().find(is_unnamed)));
    }
    found.iter().map(|number| Arc::from(number.to_string())).collect()
}

impl Words {
    /// Just the words of a lexicon.
    pub(crate) fn of(base: Arc<Lexicon>) -> Self {
        let more = vec![Vec::new(); base.names.len()];
        Self { base, names: Vec::new(), index: BTreeMap::new(), more }
    }

    pub(crate) fn key_count(&self) -> usize {
        self.more.len()
    }

    pub(crate) fn key(&self, name: &str) -> Option<Key> {
        self.base.key(name).or_else(|| self.index.get(name).copied())
    }

    pub(crate) fn key_name(&self, key: Key) -> &Arc<str> {
        self.base.names.get(key).unwrap_or_else(|| &self.names[key - self.base.names.len()])
    }

    /// Whether the question brings values of a key, or the key itself, that the lexicon does not have.
    pub(crate) fn exceeds_lexicon(&self, key: Key) -> bool {
        key >= self.base.names.len() || !self.more[key].is_empty()
    }

    fn known(&self, key: Key) -> &[Arc<str>] {
        self.base.entries.get(key).map_or(&[], |entry| &entry.values)
    }

    /// How many states a label of this key can be in.
    pub(crate) fn state_count(&self, key: Key) -> usize {
        FIRST_VALUE + self.known(key).len() + self.more[key].len()
    }

    /// The named value that a state stands for.
    pub(crate) fn value(&self, key: Key, state: usize) -> Option<&Arc<str>> {
        let (index, known) = (state.checked_sub(FIRST_VALUE)?, self.known(key));
        known.get(index).or_else(|| self.more[key].get(index.checked_sub(known.len())?))
    }

    /// The state of a label with this value.
    pub(crate) fn state(&self, key: Key, value: &str) -> usize {
        let known = self.base.entries.get(key).and_then(|entry| entry.find(value));
        let find = |values: &[Arc<str>]| values.binary_search_by(|other| (**other).cmp(value)).ok();
        let index = known.or_else(|| find(&self.more[key]).map(|index| self.known(key).len() + index));
        index.map_or(OTHER, |index| FIRST_VALUE + index)
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
        for (index, value) in self.known(key).iter().chain(&self.more[key]).enumerate() {
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

    /// The state of every key on an object whose labels were read like this.
    pub(crate) fn states_of(&self, reading: &Reading<'_>) -> Vec<usize> {
        let mut states = vec![ABSENT; self.key_count()];
        reading.known.iter().for_each(|(key, state)| states[*key] = *state);
        reading.new_values.iter().for_each(|(key, value)| states[*key] = self.state(*key, value));
        for (name, value) in &reading.new_keys {
            if let Some(key) = self.index.get(*name) {
                states[*key] = self.state(*key, value);
            }
        }
        states
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

    /// Words for all of these, of which some come with the lexicon, and the state of a node with these labels.
    fn read(in_lexicon: &[Requirement], asked: &[Requirement], labels: &Labels) -> (Words, usize) {
        let set = |one: &Requirement| Requirements::default().with("k", one.clone());
        let mut lexicon = Dictionary::default();
        in_lexicon.iter().for_each(|one| lexicon.add(&set(one)));
        let mut dictionary = Dictionary::over(Arc::new(lexicon.lexicon()));
        dictionary.add_key(&"k".into());
        asked.iter().for_each(|one| dictionary.add(&set(one)));
        let reading = dictionary.read(labels);
        let words = dictionary.freeze();
        let state = words.states_of(&reading)[0];
        (words, state)
    }

    fn words(in_lexicon: &[Requirement], asked: &[Requirement]) -> Words {
        read(in_lexicon, asked, &Labels::new()).0
    }

    #[test]
    fn the_name_of_a_host_counts_only_where_somebody_asks_for_it() {
        let mut dictionary = Dictionary::default();
        dictionary.add(&Requirements::default().with(HOSTNAME, Requirement::new(Operator::In, ["asked-for"])));
        let labels = |name: &str| Labels::from([(HOSTNAME.into(), name.into()), ("nobody-asks".into(), "a".into())]);
        let (asked_for, other) = (labels("asked-for"), labels("other"));
        let readings = [dictionary.read(&asked_for), dictionary.read(&other)];
        let words = dictionary.freeze();
        assert_eq!(words.state_count(0), FIRST_VALUE + 1);
        assert_eq!(readings.map(|reading| words.states_of(&reading)), [vec![FIRST_VALUE], vec![OTHER]]);
    }

    #[test]
    fn below_a_bound_there_is_a_number_that_nobody_named() {
        let not = |values: &[&str]| Requirement::new(Operator::NotIn, values.iter().copied());
        let below = Requirement::new(Operator::Lt, ["5"]);
        for (in_lexicon, asked) in [
            (vec![], vec![not(&["4", "3", "2", "1"]), below.clone()]),
            (vec![not(&["4"])], vec![not(&["3", "2", "1"]), below.clone()]),
            (vec![not(&["4", "3", "2", "1"]), below.clone()], vec![]),
        ] {
            let words = words(&in_lexicon, &asked);
            let mut left = words.everything(0);
            in_lexicon.iter().chain(&asked).for_each(|one| left.keep(&words.states(0, one)));
            let values: Vec<&str> =
                left.iter().filter_map(|state| words.value(0, state)).map(|value| &**value).collect();
            assert_eq!(values, ["0"], "{in_lexicon:?} {asked:?}");
        }
    }

    proptest! {
        #[test]
        fn sets_of_states_meet_just_when_requirements_agree(all in proptest::collection::vec(requirement(), 1..5), split in 0..5_usize) {
            let (in_lexicon, asked) = all.split_at(split.min(all.len()));
            let words = words(in_lexicon, asked);
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
        fn a_label_is_allowed_just_when_its_state_is(all in proptest::collection::vec(requirement(), 1..4), split in 0..4_usize, label in proptest::sample::select(&["a", "b", "0", "1", "3", "5", "7", "z"][..])) {
            let (in_lexicon, asked) = all.split_at(split.min(all.len()));
            let (words, state) = read(in_lexicon, asked, &Labels::from([("k".into(), label.into())]));
            for one in &all {
                prop_assert_eq!(words.states(0, one).contains(state), one.has(label));
            }
            prop_assert_eq!(words.value(0, state).map(|value| &**value), Some(label));
            prop_assert_eq!(words.state(0, label), state);
            prop_assert_eq!(read(in_lexicon, asked, &Labels::from([("other".into(), label.into())])).1, ABSENT);
        }

        #[test]
        fn what_a_question_brings_changes_no_number_of_the_lexicon(first in proptest::collection::vec(requirement(), 1..4), more in proptest::collection::vec(requirement(), 0..4)) {
            let (before, after) = (words(&first, &[]), words(&first, &more));
            for state in 0..before.state_count(0) {
                prop_assert_eq!(before.value(0, state), after.value(0, state));
            }
            for one in &first {
                let known: Vec<usize> = after.states(0, one).iter().filter(|state| *state < before.state_count(0)).collect();
                prop_assert_eq!(before.states(0, one).iter().collect::<Vec<_>>(), known);
            }
        }
    }
}
