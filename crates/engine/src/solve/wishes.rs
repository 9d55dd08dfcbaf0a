//! What a pod asks for, from everything it would like down to what it insists on.
//!
//! Preferences hold like requirements until nothing takes the pod; then one is given up at a time, in the order that the
//! reference has made people used to: extra required terms, preferred company, preferred distance, preferred nodes, soft
//! spreads, and last the taints that only ask pods to stay away.

use model::pod::{Wants, Weighted};
use model::requirements::Requirements;
use model::snapshot::PreferencePolicy;
use model::topology::{PodTerm, Spread, SpreadMode};

/// Most preferences of one kind about other pods that are respected (decision 0045).
const MOST_ABOUT_OTHERS: usize = 250;

/// One rung of the ladder: what is asked at this point, all of it binding.
#[derive(Clone, Debug)]
pub(crate) struct Wish<'a> {
    /// What the node's labels must satisfy, the heaviest remaining preference included.
    pub(crate) labels: Requirements,
    pub(crate) spread: Vec<&'a Spread>,
    /// Company that is required; all terms together name the same pods.
    pub(crate) together: &'a [PodTerm],
    /// Company that is preferred, each term by itself.
    pub(crate) preferred_together: Vec<&'a PodTerm>,
    pub(crate) apart: Vec<&'a PodTerm>,
    pub(crate) tolerates_soft_taints: bool,
    pub(crate) domains: Domains,
}

/// Which domains a spread is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Domains {
    /// Those that are there, and those that a new machine could open for the pod: an empty one should be opened first.
    Reachable,
    /// Those that are there. The scheduler sees no others, and where the empty ones do not suit the pod for another reason,
    /// waiting for them helps nobody.
    Present,
}

/// Where a walk down the ladder stands.
struct Rungs<'a> {
    wants: &'a Wants,
    first_term: usize,
    together: Vec<&'a Weighted<PodTerm>>,
    apart: Vec<&'a Weighted<PodTerm>>,
    nodes: Vec<&'a Weighted<Requirements>>,
    spread: Vec<&'a Spread>,
    tolerates_soft_taints: bool,
}

/// Every rung, from the top. The last one is what the pod insists on; below it, a pod that spreads is content with the
/// domains that are there.
pub(crate) fn ladder(wants: &Wants, policy: PreferencePolicy, has_soft_taints: bool) -> Vec<Wish<'_>> {
    let respects = policy == PreferencePolicy::Respect;
    let mut rungs = Rungs {
        wants,
        first_term: 0,
        together: if respects { heaviest(&wants.preferred_together) } else { Vec::new() },
        apart: if respects { heaviest(&wants.preferred_apart) } else { Vec::new() },
        nodes: if respects { by_weight(&wants.preferred_nodes) } else { Vec::new() },
        spread: wants.spread.iter().filter(|spread| respects || spread.mode == SpreadMode::DoNotSchedule).collect(),
        tolerates_soft_taints: false,
    };
    let mut wishes = vec![rungs.wish()];
    while rungs.step_down(has_soft_taints) {
        wishes.push(rungs.wish());
    }
    if let Some(last) = wishes.last().filter(|last| !last.spread.is_empty()) {
        wishes.push(Wish { domains: Domains::Present, ..last.clone() });
    }
    wishes
}

/// Heaviest first; equal weights stay in the order in which they are written.
fn by_weight<T>(preferences: &[Weighted<T>]) -> Vec<&Weighted<T>> {
    let mut sorted: Vec<&Weighted<T>> = preferences.iter().collect();
    sorted.sort_by_key(|preference| std::cmp::Reverse(preference.weight));
    sorted
}

/// The heaviest preferences about other pods. Each rung holds all that are left, so thousands would be millions.
fn heaviest<T>(preferences: &[Weighted<T>]) -> Vec<&Weighted<T>> {
    let mut sorted = by_weight(preferences);
    sorted.truncate(MOST_ABOUT_OTHERS);
    sorted
}

impl<'a> Rungs<'a> {
    /// Gives up one thing; says whether there was one left.
    fn step_down(&mut self, has_soft_taints: bool) -> bool {
        if self.first_term + 1 < self.wants.terms.len() {
            self.first_term += 1;
            return true;
        }
        if !self.together.is_empty() {
            self.together.remove(0);
            return true;
        }
        if !self.apart.is_empty() {
            self.apart.remove(0);
            return true;
        }
        if !self.nodes.is_empty() {
            self.nodes.remove(0);
            return true;
        }
        if let Some(soft) = self.spread.iter().position(|spread| spread.mode == SpreadMode::ScheduleAnyway) {
            self.spread.swap_remove(soft);
            return true;
        }
        let may_relent = has_soft_taints && !self.tolerates_soft_taints;
        self.tolerates_soft_taints |= may_relent;
        may_relent
    }

    fn wish(&self) -> Wish<'a> {
        let mut labels = self.wants.selector.clone();
        if let Some(term) = self.wants.terms.get(self.first_term) {
            labels.add_all(term);
        }
        if let Some(preferred) = self.nodes.first() {
            labels.add_all(&preferred.item);
        }
        let apart = self.wants.apart.iter().chain(self.apart.iter().map(|preferred| &preferred.item));
        Wish {
            labels,
            spread: self.spread.clone(),
            together: &self.wants.together,
            preferred_together: self.together.iter().map(|preferred| &preferred.item).collect(),
            apart: apart.collect(),
            tolerates_soft_taints: self.tolerates_soft_taints,
            domains: Domains::Reachable,
        }
    }
}

#[cfg(test)]
mod tests {
    use model::requirements::{Operator, Requirement};
    use model::topology::{Namespaces, Policy, Selector};

    use super::*;

    fn labels(value: &str) -> Requirements {
        Requirements::default().with("k", Requirement::new(Operator::In, [value]))
    }

    fn term(key: &str) -> PodTerm {
        PodTerm { key: key.into(), selector: Selector::Nothing, namespaces: Namespaces::All }
    }

    fn spread(key: &str, mode: SpreadMode) -> Spread {
        Spread {
            key: key.into(),
            max_skew: 1,
            min_domains: None,
            mode,
            selector: Selector::Nothing,
            node_affinity: Policy::Honor,
            node_taints: Policy::Ignore,
        }
    }

    fn weighted<T>(weight: i32, item: T) -> Weighted<T> {
        Weighted { weight, item }
    }

    /// A rung in short: labels, company, distance, spreads, soft taints.
    fn shown(wish: &Wish<'_>) -> String {
        let keys = |terms: &[&PodTerm]| terms.iter().map(|term| &*term.key).collect::<Vec<_>>().join("+");
        let spreads: Vec<&str> = wish.spread.iter().map(|spread| &*spread.key).collect();
        let soft = if wish.tolerates_soft_taints { " soft" } else { "" };
        let present = if wish.domains == Domains::Present { " present" } else { "" };
        let (together, apart) = (keys(&wish.preferred_together), keys(&wish.apart));
        format!("{} | {together} | {apart} | {}{soft}{present}", wish.labels, spreads.join("+"))
    }

    fn everything() -> Wants {
        Wants {
            terms: vec![labels("a"), labels("b")],
            preferred_nodes: vec![weighted(1, Requirements::default()), weighted(9, labels("b"))],
            preferred_together: vec![weighted(1, term("t1")), weighted(5, term("t5"))],
            apart: vec![term("x")],
            preferred_apart: vec![weighted(2, term("p"))],
            spread: vec![
                spread("s1", SpreadMode::ScheduleAnyway),
                spread("h", SpreadMode::DoNotSchedule),
                spread("s2", SpreadMode::ScheduleAnyway),
            ],
            ..Wants::default()
        }
    }

    // 01/PRF-01, 01/PRF-07
    #[test]
    fn one_thing_is_given_up_at_a_time_in_the_known_order() {
        let wants = everything();
        let rungs: Vec<String> = ladder(&wants, PreferencePolicy::Respect, true).iter().map(shown).collect();
        assert_eq!(
            rungs,
            [
                "k DoesNotExist | t5+t1 | x+p | s1+h+s2",
                "k In [b] | t5+t1 | x+p | s1+h+s2",
                "k In [b] | t1 | x+p | s1+h+s2",
                "k In [b] |  | x+p | s1+h+s2",
                "k In [b] |  | x | s1+h+s2",
                "k In [b] |  | x | s1+h+s2",
                "k In [b] |  | x | s1+h+s2",
                "k In [b] |  | x | s2+h",
                "k In [b] |  | x | h",
                "k In [b] |  | x | h soft",
                "k In [b] |  | x | h soft present",
            ]
        );
    }

    #[test]
    fn ignored_preferences_are_never_asked_for() {
        let wants = everything();
        let rungs: Vec<String> = ladder(&wants, PreferencePolicy::Ignore, false).iter().map(shown).collect();
        assert_eq!(rungs, ["k In [a] |  | x | h", "k In [b] |  | x | h", "k In [b] |  | x | h present"]);
    }
    // 01/PRF-07 differs: 0045
    #[test]
    fn of_very_many_soft_terms_about_others_the_heaviest_are_respected() {
        let many = |count: i32| (1..=count).map(|weight| weighted(weight, term(&format!("t{weight}")))).collect();
        let wants = Wants { preferred_together: many(260), preferred_apart: many(255), ..Wants::default() };
        let rungs = ladder(&wants, PreferencePolicy::Respect, false);
        let heaviest = |most: i32| (most - 249..=most).rev().map(|weight| format!("t{weight}")).collect::<Vec<_>>();
        assert_eq!(rungs[0].preferred_together.iter().map(|term| &*term.key).collect::<Vec<_>>(), heaviest(260));
        assert_eq!(rungs[0].apart.iter().map(|term| &*term.key).collect::<Vec<_>>(), heaviest(255));
        assert_eq!(rungs.len(), 250 + 250 + 1, "each is given up by itself");
    }
}
