use std::fmt;
use std::sync::Arc;

use model::pod::{HostPort, Protocol};
use model::pool::PoolState;

use super::{ClaimFault, MachineFault, MachineName, NotWaiting, Refusal, Violation};

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { pod, node, refusal } => {
                write!(f, "pod {pod} may not run on node {node}: {} ({})", refusal, refusal.rule())
            }
            Self::UnknownPod { pod } => write!(f, "pod {pod} is in the plan but not in the cluster"),
            Self::UnknownNode { pod, node } => write!(f, "pod {pod} is placed on node {node}, which is not there"),
            Self::UnknownClaim { pod, claim } => {
                write!(f, "pod {pod} is placed on claim {claim}, which the plan does not have")
            }
            Self::PlacedTwice { pod } => write!(f, "pod {pod} is placed more than once"),
            Self::PlacedAndUnplaced { pod } => write!(f, "pod {pod} is placed and reported as unplaced too"),
            Self::NotWaiting { pod, state } => write!(f, "pod {pod} is placed although {state}"),
            Self::Claim { claim, pool, fault } => write!(f, "claim {claim} of pool {pool}: {fault}"),
            Self::Unlaunched { node, fault } => write!(f, "claim {node}, not launched yet: {fault}"),
            Self::ReservationOverused { id, claims, left } => {
                write!(f, "{claims} claims may use reservation {id}, which has {left} left")
            }
            Self::Limit { pool, limit } => {
                let (resource, most, would_be) = (&limit.resource, limit.limit, limit.would_be);
                write!(f, "pool {pool} would have {would_be} of {resource}, its limit is {most}")
            }
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leaving => f.write_str("the node is leaving"),
            Self::Taint(taint) => write!(f, "it does not tolerate {taint}"),
            Self::Selector { key, value } => {
                write!(f, "its node selector wants another {}", Label(key, value.as_ref()))
            }
            Self::Terms { tried } => write!(f, "none of its {tried} required node terms holds"),
            Self::Port { wanted, holder: Some(pod) } => write!(f, "its port {} is taken by pod {pod}", Port(wanted)),
            Self::Port { wanted, holder: None } => write!(f, "its port {} will be taken by a daemon", Port(wanted)),
            Self::Resource { resource, wanted, free, allocatable } => {
                write!(f, "it wants {wanted} of {resource}, and {free} of {allocatable} is free")
            }
            Self::Attachments { driver, would_be, limit } => {
                write!(f, "{would_be} volumes of {driver} would be attached, the limit is {limit}")
            }
            Self::VolumePlace { alternatives } => {
                write!(f, "its volumes cannot be reached from there by any of {alternatives} alternatives")
            }
            Self::SpreadLabel { key } => write!(f, "it spreads over {key}, a label that the node does not have"),
            Self::Spread { key, domain, would_be, least, max_skew, domains } => write!(
                f,
                "{key}={domain} would have {would_be} pods and the emptiest of {domains} domains counts {least}, which \
                 is further apart than {max_skew}"
            ),
            Self::AffinityLabel { key } => {
                write!(f, "it must be near others by {key}, a label that the node does not have")
            }
            Self::Together { key, domain } => write!(f, "nobody that it must be near is in {key}={domain}"),
            Self::Apart { key, domain, other } => write!(f, "it must be away from pod {other} in {key}={domain}"),
            Self::ApartFrom { key, domain, other } => write!(f, "pod {other} in {key}={domain} wants it away"),
            Self::ResourceClaims => f.write_str("it asks for devices, which cannot be judged"),
        }
    }
}

impl fmt::Display for NotWaiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running(node) => write!(f, "it runs on node {node}, which stays"),
            Self::Ending => f.write_str("it is ending or has ended"),
            Self::Problem(problem) => write!(f, "it cannot be placed: {problem}"),
        }
    }
}

impl fmt::Display for ClaimFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPool => f.write_str("there is no such pool"),
            Self::StaticPool => f.write_str("a static pool gets no claims for pods"),
            Self::PoolState(PoolState::Deleting) => f.write_str("the pool is being deleted"),
            Self::PoolState(_) => f.write_str("the pool is not ready"),
            Self::UnknownType(name) => write!(f, "the pool has no instance type {name}"),
            Self::UnknownReservation(id) => write!(f, "none of its types is sold under reservation {id}"),
            Self::NoMachine => f.write_str("no machine on sale satisfies it"),
            Self::PodsDiffer { listed, placed } => {
                write!(f, "it lists the pods {listed:?}, but {placed:?} are placed on it")
            }
            Self::MinValues { key, wanted, found } => {
                write!(f, "its types have {found} values of {key}, the pool asks for {wanted}")
            }
            Self::Machine(fault) => fault.fmt(f),
        }
    }
}

impl fmt::Display for MachineFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refuses { machine, pod, refusal } => {
                write!(f, "were it {machine}, pod {pod} could not run on it: {refusal} ({})", refusal.rule())
            }
            Self::Daemons { machine, resource, wanted, allocatable } => {
                write!(
                    f,
                    "were it {machine}, its daemons would want {wanted} of {} and it has {allocatable}",
                    resource.name()
                )
            }
            Self::OutsidePool { machine, key, value } => {
                write!(
                    f,
                    "were it {machine}, it would not suit the pool, which wants another {}",
                    Label(key, value.as_ref())
                )
            }
        }
    }
}

impl fmt::Display for MachineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.type_name)?;
        if let Some(capacity_type) = &self.capacity_type {
            write!(f, ", {capacity_type}")?;
        }
        self.zone.as_ref().map_or(Ok(()), |zone| write!(f, ", in {zone}"))
    }
}

/// A label as a node has it, or its lack.
struct Label<'a>(&'a str, Option<&'a Arc<str>>);

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Some(value) => write!(f, "{} than {value}", self.0),
            None => write!(f, "{} than none", self.0),
        }
    }
}

struct Port<'a>(&'a HostPort);

impl fmt::Display for Port<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match self.0.protocol {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
            Protocol::Sctp => "SCTP",
        };
        write!(f, "{}:{}/{protocol}", self.0.ip, self.0.port)
    }
}
