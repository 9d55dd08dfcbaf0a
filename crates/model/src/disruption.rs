//! Decisions to take nodes away on purpose: which, by what method, what comes instead, what that is worth, and for every
//! node that stays, why.

mod stay;
#[cfg(test)]
mod tests;
mod text;

use std::time::Duration;

use crate::budget::Reason;
use crate::eviction::EvictionCost;
use crate::ids::{NodeName, PodName, PoolName, TypeName};
use crate::instance::CapacityType;
use crate::plan::{PlannedClaim, Target};
use crate::pool::ConsolidationPolicy;
use crate::price::Price;
use crate::time::Instant;

pub use stay::{Stay, StayEvent, Staying, Unready};
pub use text::Decided;

/// One command: these nodes leave together, once what comes instead is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disruption {
    pub method: Method,
    /// In the order of their names.
    pub leaving: Vec<Leaver>,
    pub replacements: Vec<PlannedClaim>,
    /// Where each pod that needs a place would find one: nodes that are there, or replacements by their number. The plan of a
    /// static pool's drift has none, since its nodes take no part in placing.
    pub moves: Vec<(PodName, Target)>,
    pub worth: Worth,
}

/// That a pod stands in the place of one that we moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// When it came.
    pub when: Instant,
    /// How often whoever stood in its place has been moved by now.
    pub times: u32,
}

impl Moved {
    /// How often its rest is doubled, at most.
    const MOST_DOUBLED: u32 = 6;

    /// Until when it is left alone: every further move is followed by twice the rest. Decision 0066.
    pub fn rests_until(self, first_rest: Duration) -> Instant {
        let doubled = self.times.saturating_sub(1).min(Self::MOST_DOUBLED);
        self.when.plus(first_rest.saturating_mul(1 << doubled))
    }

    /// How many times dearer than the first its next move is. What must pay for itself within this time has as long only as the
    /// last move has lasted: nobody knows better how long the next one will. Rounded up to a power of two, so that it changes a few
    /// times only. Decisions 0077 and 0081.
    pub fn dearer(self, now: Instant, within: Duration) -> i64 {
        let lasted = now.since(self.when).as_secs().max(1);
        let times = (within.as_secs() / lasted).max(1);
        times.checked_next_power_of_two().and_then(|times| i64::try_from(times).ok()).unwrap_or(i64::MAX)
    }

    /// When its next move is half as dear, if it is dearer than the first now.
    pub fn half_as_dear_at(self, now: Instant, within: Duration) -> Option<Instant> {
        let half = u64::try_from(self.dearer(now, within) / 2).ok().filter(|half| *half > 0)?;
        Some(self.when.plus(Duration::from_secs(within.as_secs() / (half + 1) + 1)))
    }
}

/// A node that is to leave, as it was when that was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaver {
    pub node: NodeName,
    pub claim: NodeName,
    pub pool: PoolName,
    pub instance_type: Option<TypeName>,
    pub capacity_type: Option<CapacityType>,
    /// What it costs now; zero when nobody knows.
    pub price: Price,
    /// Pods that lose their place.
    pub pods: Vec<PodName>,
    /// What that costs them, a node's own share included: what the reference calls reschedule disruption cost.
    pub cost: EvictionCost,
}

/// The ways to choose nodes, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    Emptiness,
    /// Drift of pools that keep their number of nodes.
    StaticDrift,
    Drift,
    /// Several nodes for fewer or cheaper ones.
    MultiConsolidation,
    SingleConsolidation,
}

/// What a command does, as logs and metrics have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    Delete,
    Replace,
}

/// Why a command is worth it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Worth {
    /// What all leavers cost.
    pub before: Price,
    /// What all replacements cost, each at its cheapest.
    pub after: Price,
    /// What they cost at worst, whichever of their types the cloud picks.
    pub after_at_most: Price,
    /// How many pods are evicted, and what that costs them, more for those that were moved lately (decision 0077).
    pub evicted: usize,
    pub cost: EvictionCost,
    /// After this time the saving has paid for the disruption; `None` where money is not the reason.
    pub pays_back_after: Option<Duration>,
    /// How pools with the policy Balanced score it.
    pub scores: Vec<PoolScore>,
}

/// How much of a pool's money a command saves for how much of its peace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolScore {
    pub pool: PoolName,
    pub policy: ConsolidationPolicy,
    /// Unknown totals have no shares, and approve of nothing.
    pub savings: Option<Share>,
    pub disruption: Option<Share>,
    pub verdict: Verdict,
}

/// A part of a whole, exactly: in a pool of thousands of nodes the shares of one are small. It is rounded where it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    pub part: i128,
    /// More than nothing.
    pub whole: i128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Approved,
    Rejected,
}

impl Method {
    pub const ALL: [Self; 5] =
        [Self::Emptiness, Self::StaticDrift, Self::Drift, Self::MultiConsolidation, Self::SingleConsolidation];

    /// What budgets, events and conditions call it.
    pub fn reason(self) -> Reason {
        match self {
            Self::Emptiness => Reason::Empty,
            Self::StaticDrift | Self::Drift => Reason::Drifted,
            Self::MultiConsolidation | Self::SingleConsolidation => Reason::Underutilized,
        }
    }

    /// The value of the metrics' label `consolidation_type`.
    pub fn consolidation_type(self) -> &'static str {
        match self {
            Self::Emptiness => "empty",
            Self::StaticDrift | Self::Drift => "",
            Self::MultiConsolidation => "multi",
            Self::SingleConsolidation => "single",
        }
    }

    /// Whether pods that may not be disturbed keep their node even where its drain would end in time: such a method is
    /// graceful, the others are eventual.
    pub fn is_graceful(self) -> bool {
        !matches!(self, Self::StaticDrift | Self::Drift)
    }

    /// Whether its commands wait and are looked at again before they begin.
    pub fn is_validated(self) -> bool {
        self.is_graceful()
    }
}

impl Disruption {
    pub fn verb(&self) -> Verb {
        if self.replacements.is_empty() { Verb::Delete } else { Verb::Replace }
    }

    pub fn reason(&self) -> Reason {
        self.method.reason()
    }

    pub fn claims(&self) -> impl Iterator<Item = &NodeName> {
        self.leaving.iter().map(|leaver| &leaver.claim)
    }

    pub fn nodes(&self) -> impl Iterator<Item = &NodeName> {
        self.leaving.iter().map(|leaver| &leaver.node)
    }

    /// The nodes that are to take pods; they are left alone meanwhile.
    pub fn destinations(&self) -> impl Iterator<Item = &NodeName> {
        self.moves.iter().filter_map(|(_, target)| match target {
            Target::Node(node) => Some(node),
            Target::Claim(_) => None,
        })
    }
}

impl Worth {
    /// What it saves per hour at the prices that the plan counts with; negative where it costs more.
    pub fn saved_pico(&self) -> i64 {
        self.before.pico().saturating_sub(self.after.pico())
    }
}

impl Share {
    pub fn fraction(self) -> f64 {
        self.part as f64 / self.whole as f64
    }
}

impl PoolScore {
    /// The share of money by the share of peace; `None` when it is beyond all bounds or unknown.
    pub fn score(&self) -> Option<f64> {
        let (savings, disruption) = (self.savings?, self.disruption?);
        if savings.part <= 0 {
            return Some(0.0);
        }
        (disruption.part > 0).then(|| savings.fraction() / disruption.fraction())
    }
}
