//! Why a node stays.

use std::sync::Arc;
use std::time::Duration;

use crate::budget::Reason;
use crate::ids::{NodeName, PodName, PoolName, TypeName};
use crate::price::Price;
use crate::time::Instant;
use crate::why::Unplaced;

/// One thing that keeps a node. What the reference has a text for says it letter by letter (`Display`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stay {
    /// Part of a command already.
    UnderWay,
    NotOurs,
    NoNode,
    NotInitialized,
    Leaving,
    /// Pods are on their way to it.
    Nominated,
    /// Disruption is stopped in the whole cluster; what the operator wrote about it.
    Stopped {
        note: Arc<str>,
    },
    /// An annotation of the Node, for good or until then.
    DoNotDisrupt {
        until: Option<Instant>,
    },
    NoPoolLabel,
    /// The pool is not there, or not ours, or offers nothing.
    NoPool(PoolName),
    /// A pod that does not want to be disturbed, for good or until then.
    PodDoNotDisrupt {
        pod: PodName,
        until: Option<Instant>,
    },
    /// A PodDisruptionBudget that lets nobody go now; and whether it ever will.
    PodBudget {
        pod: PodName,
        budget: PodName,
        is_for_good: bool,
    },
    SeveralPodBudgets {
        pod: PodName,
        budgets: Vec<PodName>,
    },
    /// Others of the same PodDisruptionBudget go first.
    PodBudgetInUse {
        budget: PodName,
    },
    /// Its pool never consolidates.
    ConsolidationDisabled(PoolName),
    /// Its pool removes empty nodes only.
    OnlyWhenEmpty(PoolName),
    /// It keeps room that a buffer asked for.
    BufferPods(NodeName),
    /// Pods that wait will go there.
    Awaited {
        pod: PodName,
    },
    UnknownType(TypeName),
    NoTypeLabel,
    MissingLabel(&'static str),
    /// Pods came or went too lately.
    NotConsolidatable {
        until: Option<Instant>,
    },
    /// One of its pods was moved to it a short while ago.
    MovedLately {
        pod: PodName,
        until: Instant,
    },
    /// The pool's budget for this reason is used up; and when time alone changes that.
    Budget {
        pool: PoolName,
        reason: Reason,
        allowed: u32,
        /// Of those who use it up, how many only because they are not ready.
        unready: u32,
        until: Option<Instant>,
    },
    /// Replacements in this pool failed; it is tried again later.
    PoolPaused {
        pool: PoolName,
        until: Instant,
    },
    /// Pods would stay without a place, seen without looking for the cause: the first of them, and how many more may.
    NoRoom {
        pod: PodName,
        others: usize,
    },
    /// A drifted node's pods that would stay without a place.
    CannotMove(Vec<Unplaced>),
    /// A pod would go to a machine that is not ready for it; it is waited for.
    Unready(Unready),
    /// The same for a pod of a drifted node.
    CannotMoveYet(Unready),
    /// It would take so many new nodes, which cost this together and are no cheaper.
    TooManyReplacements {
        count: usize,
        price: Price,
    },
    NotCheaper,
    SpotToSpotDisabled,
    SpotToSpotTooFew {
        found: usize,
    },
    /// A minimum number of values that the types which are cheaper do not have.
    MinValues {
        text: Arc<str>,
    },
    /// The plan holds only if the scheduler fills nodes as planned. It does not: it goes where most is left, this pod would be left
    /// over, and a machine for it would cost what was to be saved.
    TooTight {
        pod: PodName,
    },
    /// The saving would not pay for the disturbance in time.
    PaysBackLate {
        after: Duration,
    },
    /// A Balanced pool finds the saving too small for the disturbance; the score in millionths.
    Score {
        pool: PoolName,
        score: i64,
    },
    /// Others will have settled a moment later, and all of them are decided on together then.
    OthersSettle {
        until: Instant,
    },
    /// Other moves were better and would collide with its own; it is looked at again.
    OthersFirst,
    /// The static pool must lose nodes first, or has no permission for one more.
    StaticPool(PoolName),
    /// Nothing asks for its end.
    Wanted,
}

/// A pod, and the machine that is not ready for it: its claim and its Node, as far as they are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unready {
    pub pod: PodName,
    pub claim: Option<NodeName>,
    pub node: Option<NodeName>,
}

/// Why a node stays: what came first, and what would be easiest to lift.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staying {
    pub node: NodeName,
    pub first: Stay,
    pub easiest: Stay,
}

/// The event that tells of it, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StayEvent {
    DisruptionBlocked,
    Unconsolidatable,
}

impl Stay {
    /// What the reference publishes it as. What it is silent about has none.
    pub fn event(&self) -> Option<StayEvent> {
        match self {
            Self::NoNode
            | Self::NotInitialized
            | Self::Leaving
            | Self::Nominated
            | Self::Stopped { .. }
            | Self::DoNotDisrupt { .. }
            | Self::NoPoolLabel
            | Self::NoPool(_)
            | Self::PodDoNotDisrupt { .. }
            | Self::PodBudget { .. }
            | Self::SeveralPodBudgets { .. }
            | Self::CannotMove(_)
            | Self::CannotMoveYet(_) => Some(StayEvent::DisruptionBlocked),
            Self::ConsolidationDisabled(_)
            | Self::OnlyWhenEmpty(_)
            | Self::BufferPods(_)
            | Self::UnknownType(_)
            | Self::NoTypeLabel
            | Self::MissingLabel(_)
            | Self::NoRoom { .. }
            | Self::Unready(_)
            | Self::TooManyReplacements { .. }
            | Self::NotCheaper
            | Self::SpotToSpotDisabled
            | Self::SpotToSpotTooFew { .. }
            | Self::MinValues { .. } => Some(StayEvent::Unconsolidatable),
            Self::UnderWay
            | Self::NotOurs
            | Self::PodBudgetInUse { .. }
            | Self::Awaited { .. }
            | Self::NotConsolidatable { .. }
            | Self::MovedLately { .. }
            | Self::Budget { .. }
            | Self::PoolPaused { .. }
            | Self::TooTight { .. }
            | Self::PaysBackLate { .. }
            | Self::Score { .. }
            | Self::OthersSettle { .. }
            | Self::OthersFirst
            | Self::StaticPool(_)
            | Self::Wanted => None,
        }
    }

    /// When time alone lifts it, if it does and that is known.
    pub fn until(&self) -> Option<Instant> {
        match self {
            Self::PodDoNotDisrupt { until, .. }
            | Self::DoNotDisrupt { until }
            | Self::NotConsolidatable { until }
            | Self::Budget { until, .. } => *until,
            Self::MovedLately { until, .. } | Self::PoolPaused { until, .. } | Self::OthersSettle { until } => {
                Some(*until)
            }
            _ => None,
        }
    }

    /// Whether it goes by itself, or when others have had their turn.
    pub fn passes(&self) -> bool {
        self.hardness() <= 2
    }

    /// How hard it is to lift; the smallest is the easiest. What passes by itself comes first, then what somebody can change
    /// in one object, then what only another cluster would change.
    pub fn hardness(&self) -> u8 {
        match self {
            Self::OthersFirst
            | Self::OthersSettle { .. }
            | Self::Nominated
            | Self::UnderWay
            | Self::PodBudgetInUse { .. } => 0,
            Self::MovedLately { .. } | Self::PoolPaused { .. } | Self::Awaited { .. } | Self::Unready(_) => 1,
            Self::NotConsolidatable { .. } | Self::PodDoNotDisrupt { until: Some(_), .. } | Self::CannotMoveYet(_) => 1,
            Self::Budget { until: Some(_), .. } | Self::NotInitialized | Self::Leaving => 1,
            Self::DoNotDisrupt { until: Some(_) } => 1,
            Self::Budget { .. } | Self::PodBudget { is_for_good: false, .. } | Self::StaticPool(_) => 2,
            Self::PodDoNotDisrupt { .. } | Self::DoNotDisrupt { .. } | Self::SeveralPodBudgets { .. } => 3,
            Self::PodBudget { .. } | Self::BufferPods(_) | Self::Stopped { .. } => 3,
            Self::ConsolidationDisabled(_) | Self::OnlyWhenEmpty(_) | Self::SpotToSpotDisabled => 4,
            Self::TooTight { .. } | Self::PaysBackLate { .. } | Self::Score { .. } => 5,
            Self::NoRoom { .. } | Self::CannotMove(_) | Self::TooManyReplacements { .. } => 6,
            Self::NotCheaper | Self::SpotToSpotTooFew { .. } | Self::MinValues { .. } => 6,
            Self::NoPool(_) | Self::UnknownType(_) | Self::NoTypeLabel | Self::MissingLabel(_) => 7,
            Self::NoPoolLabel | Self::NoNode | Self::NotOurs | Self::Wanted => 8,
        }
    }
}
