//! Pods as the scheduler sees them, with everything that decides where they may run.

use std::sync::Arc;

use crate::alike::Common;
use crate::ids::{Namespace, NodeName, PodName, Uid};
use crate::labels::Labels;
use crate::requirements::Requirements;
use crate::resources::Resources;
use crate::taints::{Effect, Match, Toleration};
use crate::time::Instant;
use crate::topology::{PodTerm, Spread};
use crate::volume::Volumes;
use crate::why::PodProblem;

/// One pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    pub name: PodName,
    pub uid: Uid,
    pub labels: Common<Labels>,
    pub priority: i32,
    pub created: Instant,
    /// What the scheduler counts for it, its own place among the node's pods included.
    pub requests: Resources,
    pub wants: Common<Wants>,
    pub life: Life,
    pub owner: Owner,
    /// The node that it runs on.
    pub node: Option<NodeName>,
    /// Whether the scheduler has said that it finds no place.
    pub is_unschedulable: bool,
    /// Whether somebody keeps it from the scheduler for now.
    pub is_gated: bool,
    /// Whether the scheduler is making room for it by preemption.
    pub is_nominated: bool,
    /// What makes the pod unfit for us; such a pod is reported and left alone.
    pub problems: Vec<PodProblem>,
    /// Until when nobody may disturb it.
    pub do_not_disrupt: DoNotDisrupt,
    pub is_ready: Readiness,
    /// Stands for room that a buffer keeps; no such pod exists.
    pub is_virtual: bool,
    /// What its author says about how sad its end would be, among its equals; nothing said is zero.
    pub deletion_cost: i64,
}

/// What a pod asks of its node. Replicas ask alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Wants {
    /// The node selector.
    pub selector: Requirements,
    /// Required node affinity: one of these, or nothing asked.
    pub terms: Vec<Requirements>,
    pub preferred_nodes: Vec<Weighted<Requirements>>,
    pub tolerations: Vec<Toleration>,
    pub spread: Vec<Spread>,
    /// Required pod affinity and anti-affinity.
    pub together: Vec<PodTerm>,
    pub apart: Vec<PodTerm>,
    pub preferred_together: Vec<Weighted<PodTerm>>,
    pub preferred_apart: Vec<Weighted<PodTerm>>,
    pub ports: Vec<HostPort>,
    pub volumes: Volumes,
    /// Whether it asks for devices by resource claims.
    pub has_resource_claims: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Weighted<T> {
    pub weight: i32,
    pub item: T,
}

/// A port that the pod takes on its node's own address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// Empty for every address.
    pub ip: Arc<str>,
    pub port: u16,
    pub protocol: Protocol,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    Active,
    /// Told to end.
    Terminating,
    /// Succeeded or failed.
    Terminal,
}

/// What kind of thing made the pod, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    DaemonSet,
    StatefulSet,
    /// The kubelet itself: a mirror of a static pod.
    Node,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoNotDisrupt {
    No,
    Always,
    /// A protection that runs out.
    Until(Instant),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    NotReady,
    Unknown,
}

impl HostPort {
    /// Whether two pods cannot both have these ports on one node.
    pub fn conflicts_with(&self, other: &Self) -> bool {
        let is_any = |ip: &str| ip.is_empty() || ip == "0.0.0.0" || ip == "::";
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || is_any(&self.ip) || is_any(&other.ip))
    }
}

impl Pod {
    /// A pod that is waiting for a place; tests and virtual pods start from it.
    pub fn pending(namespace: &str, name: &str, requests: Resources) -> Self {
        Self {
            name: PodName::new(namespace, name),
            uid: Uid::from(format!("{namespace}/{name}")),
            labels: Common::default(),
            priority: 0,
            created: Instant::from_unix_seconds(0),
            requests: requests.with("pods", 1),
            wants: Common::default(),
            life: Life::Active,
            owner: Owner::Other,
            node: None,
            is_unschedulable: true,
            is_gated: false,
            is_nominated: false,
            problems: Vec::new(),
            do_not_disrupt: DoNotDisrupt::No,
            is_ready: Readiness::Unknown,
            is_virtual: false,
            deletion_cost: 0,
        }
    }

    pub fn namespace(&self) -> &Namespace {
        &self.name.namespace
    }

    /// Whether the pod would put up with being disrupted where it stands: it tolerates the disruption taint.
    pub fn tolerates_disruption(&self) -> bool {
        let taint = crate::taints::Taint::new("karpenter.sh/disrupted", "", Effect::NoSchedule);
        self.wants.tolerations.iter().any(|toleration| toleration.tolerates(&taint))
    }

    pub fn is_protected(&self, now: Instant) -> bool {
        self.do_not_disrupt.holds(now)
    }
}

impl DoNotDisrupt {
    /// Whether it protects at this moment.
    pub fn holds(self, now: Instant) -> bool {
        match self {
            Self::No => false,
            Self::Always => true,
            Self::Until(end) => now < end,
        }
    }

    /// When it runs out, if it does.
    pub fn until(self) -> Option<Instant> {
        match self {
            Self::Until(end) => Some(end),
            Self::No | Self::Always => None,
        }
    }
}

/// The consent that relaxation adds last: any taint that only asks pods to stay away.
pub fn soft_taint_toleration() -> Toleration {
    Toleration { key: None, matches: Match::Any, effect: Some(Effect::PreferNoSchedule) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(ip: &str, port: u16, protocol: Protocol) -> HostPort {
        HostPort { ip: ip.into(), port, protocol }
    }

    #[test]
    fn a_pod_is_protected_until_its_time_is_over() {
        let at = Instant::from_unix_seconds;
        let mut pod = Pod::pending("a", "b", Resources::default());
        assert!(!pod.is_protected(at(5)));
        pod.do_not_disrupt = DoNotDisrupt::Always;
        assert!(pod.is_protected(at(5)));
        pod.do_not_disrupt = DoNotDisrupt::Until(at(5));
        assert_eq!([4, 5, 6].map(|now| pod.is_protected(at(now))), [true, false, false]);
    }

    #[test]
    fn only_who_tolerates_the_disruption_taint_puts_up_with_it() {
        let toleration =
            |key: &str, effect: Effect| Toleration { key: Some(key.into()), matches: Match::Any, effect: Some(effect) };
        let mut pod = Pod::pending("a", "b", Resources::default());
        assert!(!pod.tolerates_disruption());
        pod.wants.tolerations =
            vec![toleration("other", Effect::NoSchedule), toleration("karpenter.sh/disrupted", Effect::NoExecute)];
        assert!(!pod.tolerates_disruption());
        pod.wants.tolerations.push(toleration("karpenter.sh/disrupted", Effect::NoSchedule));
        assert!(pod.tolerates_disruption());
    }

    #[test]
    fn ports_conflict_when_number_protocol_and_address_overlap() {
        use Protocol::{Tcp, Udp};
        let any = port("", 80, Tcp);
        for (other, expected) in [
            (port("", 80, Tcp), true),
            (port("10.0.0.1", 80, Tcp), true),
            (port("::", 80, Tcp), true),
            (port("", 81, Tcp), false),
            (port("", 80, Udp), false),
        ] {
            assert_eq!(any.conflicts_with(&other), expected, "{other:?}");
            assert_eq!(other.conflicts_with(&any), expected, "{other:?}");
        }
        assert!(!port("10.0.0.1", 80, Tcp).conflicts_with(&port("10.0.0.2", 80, Tcp)));
        for any in ["", "0.0.0.0", "::"] {
            assert!(port("10.0.0.1", 80, Tcp).conflicts_with(&port(any, 80, Tcp)), "{any}");
            assert!(!port("10.0.0.1", 80, Tcp).conflicts_with(&port(any, 80, Udp)), "{any}");
        }
        assert!(port("10.0.0.1", 80, Tcp).conflicts_with(&port("10.0.0.1", 80, Tcp)));
    }
}
