use std::fmt;
use std::sync::Arc;

use super::{ClaimReason, Obstacle, Place, PodProblem, TypeHad, Unplaced};
use crate::ids::{PodName, PoolName};
use crate::pod::{HostPort, Protocol};
use crate::pool::BrokenLimit;
use crate::requirements::{Clash, Requirement, Requirements};
use crate::resources::Resource;

/// More than this many of a kind are counted and not named.
const MOST_NAMED: usize = 5;

/// From this many thousandths of a core on, somebody wrote `M` and meant `m`.
const ABSURD_CPU_MILLI: i64 = 1_000_000_000;

impl Unplaced {
    /// What the pod is told by event. `None` while there is no verdict and the next pass will look at it again.
    pub fn failed_scheduling(&self) -> Option<String> {
        let is_open = |obstacle: &Obstacle| matches!(obstacle, Obstacle::Reserved | Obstacle::NotReached);
        (!self.general.iter().any(is_open)).then(|| failed_scheduling(self))
    }

    /// What somebody would have to do for the pod to be placed where it came closest.
    pub fn hints(&self) -> Vec<String> {
        let everywhere = self.general.iter().map(|obstacle| obstacle.hint(Place::Anywhere));
        let closest = self.closest().into_iter();
        let there =
            closest.flat_map(|(pool, obstacles)| obstacles.iter().map(|obstacle| obstacle.hint(Place::Pool(pool))));
        everywhere.chain(there).collect()
    }

    fn closest(&self) -> Option<(&PoolName, &[Obstacle])> {
        let closest = self.closest_pool.as_ref()?;
        self.pools.iter().find(|(pool, _)| pool == closest).map(|(pool, obstacles)| (pool, &obstacles[..]))
    }
}

/// What holds everywhere, then every pool in the order in which they were tried, the nearest node, and the remedy.
impl fmt::Display for Unplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = self.general.iter().map(general_text).collect();
        let blocked = self.pools.iter().filter(|(_, obstacles)| !obstacles.is_empty());
        parts.extend(blocked.map(|(pool, obstacles)| Place::Pool(pool).sentence(obstacles)));
        let node = self.nearest_node.iter().filter(|(_, obstacles)| !obstacles.is_empty());
        parts.extend(node.map(|(node, obstacles)| Place::Node(node).sentence(obstacles)));
        if parts.is_empty() {
            parts.push("nothing stands in the way any more, the next pass tries again".to_owned());
        }
        f.write_str(&parts.join("; "))?;
        let hints = self.hints().join("; ");
        match (hints.is_empty(), self.closest()) {
            (true, _) => Ok(()),
            (false, Some((pool, _))) => write!(f, "; closest is {}: {hints}", Place::Pool(pool)),
            (false, None) => write!(f, "; {hints}"),
        }
    }
}

impl PodProblem {
    /// What a pod with these problems is told by event. `None` when it has none, or wants nothing from us.
    pub fn failed_scheduling(problems: &[Self]) -> Option<String> {
        let is_ours = !problems.is_empty() && !problems.contains(&Self::WantsOtherNodes);
        let texts = || problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        is_ours.then(|| failed_scheduling(texts()))
    }
}

fn failed_scheduling(reason: impl fmt::Display) -> String {
    format!("Failed to schedule pod, {reason}")
}

/// A minimum that is unmet whatever the place was met until a claim's list of types was cut to its greatest length.
fn general_text(obstacle: &Obstacle) -> String {
    match obstacle {
        Obstacle::MinValues { .. } => {
            format!("pod didn't schedule because NodePool couldn't meet minValues requirements, {obstacle}")
        }
        other => other.to_string(),
    }
}

impl Place<'_> {
    /// The place, and everything that keeps a pod off it.
    pub fn sentence(self, obstacles: &[Obstacle]) -> String {
        let lack = matches!(self, Self::Pool(_)).then(|| TypesLack::of(obstacles)).flatten();
        let is_told = |obstacle: &&Obstacle| lack.is_some() && TypesLack::may_tell_of(obstacle);
        let others = obstacles.iter().filter(|obstacle| !is_told(obstacle)).map(ToString::to_string);
        let mut texts: Vec<String> = others.chain(lack.iter().map(ToString::to_string)).collect();
        if texts.is_empty() {
            texts.push("nothing stands in the way".to_owned());
        }
        match self {
            Self::Anywhere => texts.join(", and "),
            place => format!("{place}: {}", texts.join(", and ")),
        }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anywhere => f.write_str("the NodePool"),
            Self::Node(node) => write!(f, "node {:?}", node.as_str()),
            Self::Pool(pool) => write!(f, "NodePool {:?}", pool.as_str()),
        }
    }
}

impl TypeHad {
    /// Why none of these types will do. The sentences are the reference's, but for the three about two things that some
    /// type had together; those are ours.
    pub fn sentence(types: &[Self]) -> &'static str {
        let had = |what: fn(&Self) -> bool| types.iter().any(what);
        match (had(|it| it.requirements), had(|it| it.resources), had(|it| it.offering)) {
            (false, false, false) => {
                "no instance type met the scheduling requirements or had enough resources or had a required offering"
            }
            (false, false, true) => "no instance type met the scheduling requirements or had enough resources",
            (false, true, false) => "no instance type met the scheduling requirements or had a required offering",
            (true, false, false) => "no instance type had enough resources or had a required offering",
            (false, true, true) => "no instance type met all requirements",
            (true, false, true) => "no instance type has enough resources",
            (true, true, false) => "no instance type has the required offering",
            (true, true, true) if had(|it| it.requirements && it.resources) => {
                "no instance type that met all requirements with enough resources has the required offering"
            }
            (true, true, true) if had(|it| it.requirements && it.offering) => {
                "no instance type that met all requirements with the required offering has enough resources"
            }
            (true, true, true) if had(|it| it.resources && it.offering) => {
                "no instance type that has enough resources with the required offering met all requirements"
            }
            (true, true, true) => "no instance type met the requirements/resources/offering tuple",
        }
    }
}

/// What the instance types of a pool lack for a pod; the reference tells it in one sentence.
struct TypesLack<'a> {
    /// By key, what is wanted and what there is.
    labels: Vec<(&'a str, &'a Requirement, &'a Requirement)>,
    resources: Vec<(&'a Resource, i64, i64)>,
    is_on_sale: bool,
}

impl<'a> TypesLack<'a> {
    /// `None` when the types are not to blame: values that exclude each other clash with the pool whatever its types.
    fn of(obstacles: &'a [Obstacle]) -> Option<Self> {
        let labels: Vec<_> = obstacles.iter().filter_map(label_values).collect();
        let resources: Vec<_> = obstacles.iter().filter_map(shortage).collect();
        let is_on_sale = !obstacles.contains(&Obstacle::NoOffering);
        let is_in_pool = |(_, wanted, there): &(&str, &Requirement, &Requirement)| wanted.intersects(there);
        let is_to_blame = labels.iter().any(is_in_pool) || !resources.is_empty() || !is_on_sale;
        is_to_blame.then_some(Self { labels, resources, is_on_sale })
    }

    fn may_tell_of(obstacle: &Obstacle) -> bool {
        label_values(obstacle).is_some() || shortage(obstacle).is_some() || *obstacle == Obstacle::NoOffering
    }
}

fn label_values(obstacle: &Obstacle) -> Option<(&str, &Requirement, &Requirement)> {
    match obstacle {
        Obstacle::Label(Clash::NoCommonValue { key, incoming, existing })
        | Obstacle::VolumePlace(Clash::NoCommonValue { key, incoming, existing }) => Some((key, incoming, existing)),
        _ => None,
    }
}

fn shortage(obstacle: &Obstacle) -> Option<(&Resource, i64, i64)> {
    match obstacle {
        Obstacle::Resource { resource, wanted, available } => Some((resource, *wanted, *available)),
        _ => None,
    }
}

impl fmt::Display for TypesLack<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Were the obstacles lifted, some type would do. So it has everything that they do not speak of.
        let had = TypeHad {
            requirements: self.labels.is_empty(),
            resources: self.resources.is_empty() && self.is_on_sale,
            offering: self.is_on_sale,
        };
        f.write_str(TypeHad::sentence(&[had]))?;
        if self.resources.iter().any(|(resource, wanted, _)| is_absurd(resource, *wanted)) {
            f.write_str(" (cpu of 1M or more, m vs M typo?)")?;
        }
        if !self.labels.is_empty() {
            let wanted = demands(self.labels.iter().map(|(key, wanted, _)| (*key, *wanted)));
            let there = demands(self.labels.iter().map(|(key, _, there)| (*key, *there)));
            write!(f, ", requirements={wanted} (offered {there})")?;
        }
        if !self.resources.is_empty() {
            let wanted = amounts(self.resources.iter().map(|(resource, wanted, _)| (*resource, *wanted)));
            let most = amounts(self.resources.iter().map(|(resource, _, most)| (*resource, *most)));
            write!(f, ", resources={wanted} (at most {most})")?;
        }
        if self.is_on_sale { Ok(()) } else { f.write_str(" (no offering is available)") }
    }
}

fn is_absurd(resource: &Resource, wanted: i64) -> bool {
    *resource == Resource::Cpu && wanted >= ABSURD_CPU_MILLI
}

fn demands<'a>(requirements: impl Iterator<Item = (&'a str, &'a Requirement)>) -> String {
    requirements.map(|(key, requirement)| demand(key, requirement)).collect::<Vec<_>>().join(", ")
}

fn demand(key: &str, requirement: &Requirement) -> String {
    let text = Requirements::default().with(key, requirement.clone()).to_string();
    // A set keeps silent about the hostname.
    if text.is_empty() { key.to_owned() } else { text }
}

fn amounts<'a>(amounts: impl Iterator<Item = (&'a Resource, i64)>) -> String {
    let entry = |(resource, amount)| format!("\"{resource}\":\"{}\"", Amount(resource, amount));
    format!("{{{}}}", amounts.map(entry).collect::<Vec<_>>().join(","))
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taint(taint) => write!(f, "taint {taint} is not tolerated"),
            Self::Label(clash) => clash.fmt(f),
            Self::VolumePlace(clash) => write!(f, "the pod's volumes are elsewhere, {clash}"),
            Self::Resource { resource, wanted, available } => {
                let (wanted, available) = (Amount(resource, *wanted), Amount(resource, *available));
                write!(f, "not enough {resource}, {wanted} wanted and {available} available")
            }
            Self::NoOffering => f.write_str("no instance type has the required offering"),
            Self::NoInstanceType => f.write_str("nodepool requirements filtered out all available instance types"),
            Self::Port { wanted, held } => write!(f, "host port {} clashes with {}", Port(wanted), Port(held)),
            Self::Attachments { driver, would_be, limit } => {
                write!(f, "{would_be} volumes of {driver} would be attached, the limit is {limit}")
            }
            Self::Spread { key, domains, .. } if domains.is_empty() => {
                write!(f, "topology spread over {key} has no domain, no node and no NodePool has that label")
            }
            Self::Spread { key, max_skew, least, domains } => {
                let counts = few(domains.iter().map(|(domain, count)| format!("{domain}={count}")));
                write!(f, "topology spread over {key} would exceed maxSkew {max_skew}, counted {counts}, least {least}")
            }
            Self::Together { key } => {
                write!(f, "required pod affinity over {key} finds nobody in any domain that is open to the pod")
            }
            Self::Apart { key, other } => {
                let other = other.as_ref().map_or_else(|| "somebody".to_owned(), |other| format!("pod {other}"));
                write!(f, "required pod anti-affinity over {key} finds {other} in every domain that is open to the pod")
            }
            Self::NewDomain { key } => {
                write!(f, "a new domain of {key} would break the topology spread of pods that are placed already")
            }
            Self::Limit(limit) => limit_text(limit, f),
            Self::MinValues { key, wanted, found } => write!(
                f,
                "minValues requirement is not met for label(s) (found={found}, label(s)=[{key}], minValues={wanted})"
            ),
            Self::Reserved => f.write_str("reserved capacity suits the pod, but is spoken for in this pass"),
            Self::ResourceClaims => {
                f.write_str("the pod asks for devices by spec.resourceClaims, which are not served")
            }
            Self::NoPool => f.write_str("no dynamic nodepools found"),
            Self::NotReached => f.write_str("the pass ended before the pod's turn"),
        }
    }
}

fn limit_text(limit: &BrokenLimit, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let text = match &*limit.resource {
        "nodes" => "node limits have been exhausted for nodepool",
        _ => "all available instance types exceed limits for nodepool",
    };
    let axis = Resource::from_name(&limit.resource);
    let (most, would_be) = (Amount(&axis, limit.limit), Amount(&axis, limit.would_be));
    write!(f, "{text} (limits.{axis}={most}, wouldBe={would_be})")
}

impl Obstacle {
    /// What a pool is told by event when this leaves it without any instance type, whatever the pod.
    pub fn no_compatible_instance_types(&self) -> Option<&'static str> {
        match self {
            Self::NoInstanceType => Some("NodePool requirements filtered out all compatible available instance types"),
            Self::MinValues { .. } => Some(
                "NodePool requirements filtered out all compatible available instance types due to minValues \
                 incompatibility",
            ),
            _ => None,
        }
    }

    /// What somebody would have to do to lift this. The reference leaves that to the reader.
    pub fn hint(&self, place: Place<'_>) -> String {
        match self {
            Self::Taint(taint) => format!("add a toleration for {taint} to the pod, or remove the taint from {place}"),
            Self::Label(clash) => label_hint(clash, place),
            Self::VolumePlace(clash) => volume_hint(clash, place),
            Self::Resource { resource, wanted, .. } if is_absurd(resource, *wanted) => {
                "write m and not M behind the pod's cpu request if thousandths of a core are meant".to_owned()
            }
            Self::Resource { resource, available, .. } => resource_hint(resource, *available, place),
            Self::NoOffering => format!(
                "allow more zones, capacity types or instance types in {place} or the pod, or wait until the cloud has \
                 capacity again"
            ),
            Self::NoInstanceType => {
                format!("loosen spec.template.spec.requirements of {place}, which no instance type meets")
            }
            Self::Port { wanted, held } => {
                format!("use another hostPort than {}, or free {} on {place}", Port(wanted), Port(held))
            }
            Self::Attachments { driver, limit, .. } => {
                format!("use fewer volumes of {driver} in the pod, {place} attaches no more than {limit}")
            }
            Self::Spread { key, domains, .. } if domains.is_empty() => {
                format!("give {place} the label {key}, or let the spread be ScheduleAnyway")
            }
            Self::Spread { key, max_skew, least, domains } => {
                let emptiest = emptiest(domains, *least);
                format!("raise maxSkew of the spread over {key} above {max_skew}, or make room in {emptiest}")
            }
            Self::Together { key } => {
                format!("start a pod that the required pod affinity over {key} selects, or make it preferred")
            }
            Self::Apart { key, .. } => {
                format!("open more domains of {key} to the pod, or make the required pod anti-affinity preferred")
            }
            Self::NewDomain { key } => {
                format!(
                    "raise maxSkew of the pods that spread over {key}, or open the same domains of {key} to all of them"
                )
            }
            Self::Limit(limit) => limit_hint(limit, place),
            Self::MinValues { key, found: 0, .. } => format!("remove minValues of {key} from {place}"),
            Self::MinValues { key, found, .. } => {
                format!("lower minValues of {key} in {place} to {found}, or set min-values-policy to BestEffort")
            }
            Self::Reserved | Self::NotReached => "nothing is to be done, the next pass tries again".to_owned(),
            Self::ResourceClaims => {
                "remove spec.resourceClaims from the pod, or give it a node without a NodePool".to_owned()
            }
            Self::NoPool => {
                "create a NodePool without replicas, or see why those that are there are not Ready".to_owned()
            }
        }
    }
}

fn label_hint(clash: &Clash, place: Place<'_>) -> String {
    match clash {
        Clash::Contradiction { key, .. } => format!("change what the pod asks of {key}, no value meets all of it"),
        Clash::UnknownKey { key, typo_of: Some(known) } => format!("write {known} for {key} in the pod"),
        Clash::UnknownKey { key, typo_of: None } => {
            format!("give {place} the label {key}, or let the pod ask nothing of it")
        }
        Clash::NoCommonValue { key, incoming, existing } if existing.is_contradiction() => {
            format!("let {place} have {}", demand(key, incoming))
        }
        Clash::NoCommonValue { key, incoming, existing } => {
            format!("let the pod take {}, or let {place} have {}", demand(key, existing), demand(key, incoming))
        }
    }
}

fn volume_hint(clash: &Clash, place: Place<'_>) -> String {
    match clash {
        Clash::Contradiction { key, .. } => format!("move the pod's volumes together, no {key} reaches all of them"),
        Clash::UnknownKey { key, .. } => format!("give {place} the label {key}, by which the pod's volumes are found"),
        Clash::NoCommonValue { key, incoming, .. } => {
            format!("let {place} have {}, where the pod's volumes are, or move them", demand(key, incoming))
        }
    }
}

fn resource_hint(resource: &Resource, available: i64, place: Place<'_>) -> String {
    let left = Amount(resource, available);
    match (place, available > 0) {
        (Place::Node(_), true) => format!("{place} has {left} of {resource} left; ask for no more, or free some"),
        (Place::Node(_), false) => format!("{place} has no {resource} left; free some"),
        (_, true) => format!(
            "no instance type of {place} has more than {left} of {resource} for the pod; ask for no more, or allow \
             larger types"
        ),
        (_, false) => format!(
            "no instance type of {place} has any {resource} for the pod; ask for none, or allow types that have it"
        ),
    }
}

/// Where one pod more would do no harm. With fewer domains than `minDomains`, there is no such domain yet.
fn emptiest(domains: &[(Arc<str>, u32)], least: u32) -> String {
    let emptiest: Vec<&Arc<str>> =
        domains.iter().filter(|(_, count)| *count <= least).map(|(domain, _)| domain).collect();
    if emptiest.is_empty() { "more domains".to_owned() } else { few(emptiest.iter().map(ToString::to_string)) }
}

fn limit_hint(limit: &BrokenLimit, place: Place<'_>) -> String {
    let axis = Resource::from_name(&limit.resource);
    let (most, would_be) = (Amount(&axis, limit.limit), Amount(&axis, limit.would_be));
    format!("raise limits.{axis} of {place} above {most}, to {would_be} or more")
}

impl fmt::Display for ClaimReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "for {}", few(self.pods.iter().map(PodName::to_string)))?;
        if let Some(binding) = &self.binding {
            write!(f, ", on the nearest node {binding}")?;
        }
        if let Some(cheapest) = &self.cheapest {
            write!(f, "; {cheapest} is cheapest at {}", self.price)?;
        }
        self.runner_up.as_ref().map_or(Ok(()), |(name, price)| write!(f, ", then {name} at {price}"))
    }
}

impl fmt::Display for PodProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WantsOtherNodes => f.write_str("the pod wants no node of a NodePool"),
            Self::Requirement { text } => f.write_str(text),
            Self::MatchFields => f.write_str("node selector term with matchFields is not supported"),
            Self::Volume { volume, text } => write!(f, "volume {volume}: {text}"),
        }
    }
}

/// The first of them by name, the rest by number.
fn few(items: impl ExactSizeIterator<Item = String>) -> String {
    let others = items.len().saturating_sub(MOST_NAMED);
    let named = items.take(MOST_NAMED).collect::<Vec<_>>().join(", ");
    if others == 0 { named } else { format!("{named} and {others} others") }
}

/// An amount as Kubernetes writes it: exact, in the largest unit that leaves no rest.
struct Amount<'a>(&'a Resource, i64);

impl fmt::Display for Amount<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u32, &str); 6] = [(60, "Ei"), (50, "Pi"), (40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")];
        let Self(resource, amount) = self;
        match resource {
            Resource::Cpu if amount % 1000 == 0 => write!(f, "{}", amount / 1000),
            Resource::Cpu => write!(f, "{amount}m"),
            Resource::Memory | Resource::Disk if *amount != 0 => {
                let exact = UNITS.iter().find(|(bits, _)| amount.trailing_zeros() >= *bits);
                let (bits, unit) = exact.copied().unwrap_or((0, ""));
                write!(f, "{}{unit}", amount >> bits)
            }
            _ => write!(f, "{amount}"),
        }
    }
}

struct Port<'a>(&'a HostPort);

impl fmt::Display for Port<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HostPort { ip, port, protocol } = self.0;
        let protocol = match protocol {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
            Protocol::Sctp => "SCTP",
        };
        match (ip.is_empty(), ip.contains(':')) {
            (true, _) => write!(f, "{port}/{protocol}"),
            (false, true) => write!(f, "[{ip}]:{port}/{protocol}"),
            (false, false) => write!(f, "{ip}:{port}/{protocol}"),
        }
    }
}
