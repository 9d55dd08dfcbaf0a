//! How pods want to stand to other pods: spread out, together, apart.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ids::Namespace;
use crate::labels::Labels;
use crate::requirements::Requirements;

/// Which pods are meant, by their labels. `Nothing` selects no pod, an empty set of requirements every pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Selector {
    Nothing,
    Matching(Requirements),
}

impl Selector {
    pub fn selects(&self, labels: &Labels) -> bool {
        match self {
            Self::Nothing => false,
            Self::Matching(requirements) => requirements.iter().all(|(key, requirement)| match labels.get(key) {
                Some(value) => requirement.has(value),
                None => requirement.allows_absent(),
            }),
        }
    }
}

/// Which namespaces the pods are looked for in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Namespaces {
    All,
    Listed(BTreeSet<Namespace>),
}

impl Namespaces {
    pub fn contains(&self, namespace: &Namespace) -> bool {
        match self {
            Self::All => true,
            Self::Listed(names) => names.contains(namespace),
        }
    }
}

/// Keep the counts of matching pods in any two domains within a distance.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spread {
    /// The label whose values are the domains.
    pub key: Arc<str>,
    pub max_skew: i32,
    /// With fewer eligible domains than this, the least count is taken as zero.
    pub min_domains: Option<i32>,
    pub mode: SpreadMode,
    /// Counted in the pod's own namespace.
    pub selector: Selector,
    /// Whether nodes that the pod's own selector rules out are left out of the count.
    pub node_affinity: Policy,
    /// Whether nodes with taints that the pod does not tolerate are left out.
    pub node_taints: Policy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpreadMode {
    /// A pod that would break it stays pending.
    DoNotSchedule,
    /// A wish.
    ScheduleAnyway,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    Honor,
    Ignore,
}

/// Other pods, and the label in whose domain they count as near.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodTerm {
    pub key: Arc<str>,
    pub selector: Selector,
    pub namespaces: Namespaces,
}

impl PodTerm {
    pub fn selects(&self, namespace: &Namespace, labels: &Labels) -> bool {
        self.namespaces.contains(namespace) && self.selector.selects(labels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requirements::{Operator, Requirement};

    #[test]
    fn nothing_selects_no_pod_and_an_empty_selector_every_pod() {
        let labels: Labels = [("app".into(), "web".into())].into();
        assert!(!Selector::Nothing.selects(&labels));
        assert!(Selector::Matching(Requirements::default()).selects(&labels));
        let not_web = Requirements::default().with("app", Requirement::new(Operator::NotIn, ["web"]));
        assert!(!Selector::Matching(not_web.clone()).selects(&labels));
        assert!(Selector::Matching(not_web).selects(&Labels::new()), "NotIn selects pods without the label");
    }

    #[test]
    fn a_term_selects_pods_of_its_namespaces_that_its_selector_selects() {
        let labels: Labels = [("app".into(), "web".into())].into();
        let web = Requirements::default().with("app", Requirement::new(Operator::In, ["web"]));
        let term = |namespaces: Namespaces, selector: Selector| PodTerm { key: "k".into(), selector, namespaces };
        let own = || Namespaces::Listed(["own".into()].into());
        let selected = |term: PodTerm, namespace: &str| term.selects(&namespace.into(), &labels);
        assert!(selected(term(own(), Selector::Matching(web.clone())), "own"));
        assert!(!selected(term(own(), Selector::Matching(web.clone())), "other"));
        assert!(selected(term(Namespaces::All, Selector::Matching(web)), "other"));
        assert!(!selected(term(Namespaces::All, Selector::Nothing), "own"));
    }
}
