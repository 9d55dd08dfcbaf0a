//! Taints and tolerations, with Kubernetes' rules for when one meets the other.

use std::fmt;
use std::sync::Arc;

/// Keeps pods away from a node unless they tolerate it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Taint {
    pub key: Arc<str>,
    pub value: Arc<str>,
    pub effect: Effect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

/// A pod's consent to a taint. No key means every key, no effect every effect.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Toleration {
    pub key: Option<Arc<str>>,
    pub matches: Match,
    pub effect: Option<Effect>,
}

/// What a toleration says about the taint's value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Match {
    Any,
    Equal(Arc<str>),
    /// The taint's value is a number greater than this.
    Above(i64),
    /// The taint's value is a number less than this.
    Below(i64),
}

impl Taint {
    pub fn new(key: &str, value: &str, effect: Effect) -> Self {
        Self { key: key.into(), value: value.into(), effect }
    }

    /// Two taints of one key and effect are the same taint, whatever their values.
    pub fn is_same(&self, other: &Self) -> bool {
        self.key == other.key && self.effect == other.effect
    }
}

impl Toleration {
    pub fn tolerates(&self, taint: &Taint) -> bool {
        let key_matches = self.key.as_ref().is_none_or(|key| *key == taint.key);
        let effect_matches = self.effect.is_none_or(|effect| effect == taint.effect);
        key_matches && effect_matches && self.matches_value(&taint.value)
    }

    fn matches_value(&self, value: &str) -> bool {
        match &self.matches {
            Match::Any => true,
            // Without a key an Equal toleration is not valid in Kubernetes; it then matches only an equal value.
            Match::Equal(wanted) => **wanted == *value,
            Match::Above(bound) => canonical_integer(value).is_some_and(|number| number > *bound),
            Match::Below(bound) => canonical_integer(value).is_some_and(|number| number < *bound),
        }
    }
}

/// A number as Kubernetes wants it in a taint: no plus sign and no leading zeros.
pub fn canonical_integer(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// The first taint that no toleration meets.
pub fn first_untolerated<'a>(taints: &'a [Taint], tolerations: &[Toleration]) -> Option<&'a Taint> {
    untolerated(taints, tolerations).next()
}

/// Every such taint.
pub fn untolerated<'a>(taints: &'a [Taint], tolerations: &[Toleration]) -> impl Iterator<Item = &'a Taint> {
    taints.iter().filter(|taint| !tolerations.iter().any(|toleration| toleration.tolerates(taint)))
}

/// The first, without those that only ask pods to stay away.
pub fn first_hard_untolerated<'a>(taints: &'a [Taint], tolerations: &[Toleration]) -> Option<&'a Taint> {
    let hard = taints.iter().filter(|taint| taint.effect != Effect::PreferNoSchedule);
    hard.into_iter().find(|taint| !tolerations.iter().any(|toleration| toleration.tolerates(taint)))
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        })
    }
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let equals = if self.value.is_empty() { "" } else { "=" };
        write!(f, "{}{equals}{}:{}", self.key, self.value, self.effect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toleration(key: Option<&str>, matches: Match, effect: Option<Effect>) -> Toleration {
        Toleration { key: key.map(Into::into), matches, effect }
    }

    fn check(tolerated: &Toleration, taint: (&str, &str, Effect), expected: bool) {
        let taint = Taint::new(taint.0, taint.1, taint.2);
        assert_eq!(tolerated.tolerates(&taint), expected, "{tolerated:?} on {taint}");
    }

    #[test]
    fn a_toleration_meets_what_it_names_and_everything_it_leaves_open() {
        use Effect::{NoExecute, NoSchedule};
        let exact = toleration(Some("a"), Match::Equal("1".into()), Some(NoSchedule));
        check(&exact, ("a", "1", NoSchedule), true);
        check(&exact, ("a", "2", NoSchedule), false);
        check(&exact, ("a", "1", NoExecute), false);
        check(&exact, ("b", "1", NoSchedule), false);
        check(&toleration(Some("a"), Match::Any, None), ("a", "2", NoExecute), true);
        check(&toleration(None, Match::Any, None), ("b", "x", NoSchedule), true);
    }

    #[test]
    fn a_hard_taint_is_found_behind_soft_ones_and_tolerated_ones() {
        let taints = [
            Taint::new("soft", "", Effect::PreferNoSchedule),
            Taint::new("known", "", Effect::NoSchedule),
            Taint::new("hard", "", Effect::NoExecute),
        ];
        let known = [toleration(Some("known"), Match::Any, None)];
        assert_eq!(first_untolerated(&taints, &known), Some(&taints[0]));
        assert_eq!(first_hard_untolerated(&taints, &known), Some(&taints[2]));
        assert_eq!(first_hard_untolerated(&taints[..2], &known), None);
    }

    #[test]
    fn taints_of_one_key_and_effect_are_the_same_taint() {
        use Effect::{NoExecute, NoSchedule, PreferNoSchedule};
        let taint = Taint::new("a", "1", NoSchedule);
        assert!(taint.is_same(&Taint::new("a", "2", NoSchedule)));
        assert!(!taint.is_same(&Taint::new("b", "1", NoSchedule)) && !taint.is_same(&Taint::new("a", "1", NoExecute)));
        assert_eq!(taint.to_string(), "a=1:NoSchedule");
        assert_eq!(Taint::new("a", "", PreferNoSchedule).to_string(), "a:PreferNoSchedule");
        assert_eq!(Taint::new("a", "", NoExecute).to_string(), "a:NoExecute");
    }

    #[test]
    fn numbers_compare_as_numbers_and_only_in_canonical_form() {
        let above = toleration(Some("a"), Match::Above(10), None);
        check(&above, ("a", "11", Effect::NoSchedule), true);
        check(&above, ("a", "10", Effect::NoSchedule), false);
        check(&above, ("a", "011", Effect::NoSchedule), false);
        check(&above, ("a", "x", Effect::NoSchedule), false);
        let below = toleration(Some("a"), Match::Below(10), None);
        for (value, expected) in [("-3", true), ("9", true), ("10", false), ("11", false), ("09", false), ("", false)] {
            check(&below, ("a", value, Effect::NoSchedule), expected);
        }
        assert_eq!(["7", "-7", "+7", "07", "x"].map(canonical_integer), [Some(7), Some(-7), None, None, None]);
    }
}
