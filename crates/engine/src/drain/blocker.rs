//! What holds up a drain: for the claim's condition, and by its sort for metrics.

use std::fmt;
use std::sync::Arc;

use model::ids::PodName;
use model::time::Instant;

use super::{Holdup, NodeStep, Refusal};

/// What holds up a drain: the first of the sort that is hardest to get past, and how many others do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    pub what: Obstacle,
    pub others: usize,
}

/// One thing that holds up a drain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// A pod that does not want to be disturbed, for good or until then.
    Protected {
        pod: PodName,
        until: Option<Instant>,
    },
    Unread(PodName),
    Refused {
        pod: PodName,
        by: Refusal,
    },
    Stuck(PodName),
    /// A VolumeAttachment.
    Volume(Arc<str>),
}

/// The sorts of obstacles, few enough for a metric's label. Those that only a person removes come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    DoNotDisrupt,
    UnreadablePod,
    PodBudget,
    StuckPod,
    Volume,
}

/// What holds up a node at this step; nothing while it merely takes its time.
pub fn blocker(step: &NodeStep) -> Option<Blocker> {
    let mut found: Vec<Obstacle> = match step {
        NodeStep::Drain(drain) => {
            drain.waiting.iter().filter_map(|(pod, holdup)| obstacle(pod.clone(), *holdup)).collect()
        }
        NodeStep::AwaitVolumes { attachments, .. } => attachments.iter().cloned().map(Obstacle::Volume).collect(),
        NodeStep::Linger { .. } | NodeStep::Terminate { .. } => Vec::new(),
    };
    found.sort_by_cached_key(|obstacle| (obstacle.cause(), obstacle.name()));
    let others = found.len().checked_sub(1)?;
    found.into_iter().next().map(|what| Blocker { what, others })
}

fn obstacle(pod: PodName, holdup: Holdup) -> Option<Obstacle> {
    match holdup {
        Holdup::Protected(until) => Some(Obstacle::Protected { pod, until }),
        Holdup::Unread => Some(Obstacle::Unread(pod)),
        Holdup::Refused(by) => Some(Obstacle::Refused { pod, by }),
        Holdup::Stuck => Some(Obstacle::Stuck(pod)),
        Holdup::Ending | Holdup::Overdue | Holdup::Queued | Holdup::LaterTier => None,
    }
}

impl Obstacle {
    pub fn cause(&self) -> Cause {
        match self {
            Self::Protected { .. } => Cause::DoNotDisrupt,
            Self::Unread(_) => Cause::UnreadablePod,
            Self::Refused { .. } => Cause::PodBudget,
            Self::Stuck(_) => Cause::StuckPod,
            Self::Volume(_) => Cause::Volume,
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Protected { pod, .. } | Self::Unread(pod) | Self::Refused { pod, .. } | Self::Stuck(pod) => {
                pod.to_string()
            }
            Self::Volume(attachment) => attachment.to_string(),
        }
    }
}

impl Cause {
    pub const ALL: [Self; 5] = [Self::DoNotDisrupt, Self::UnreadablePod, Self::PodBudget, Self::StuckPod, Self::Volume];

    /// The reason of the claim's condition.
    pub fn reason(self) -> &'static str {
        match self {
            Self::DoNotDisrupt => "DoNotDisrupt",
            Self::UnreadablePod => "UnreadablePod",
            Self::PodBudget => "PodDisruptionBudget",
            Self::StuckPod => "PodNotEnding",
            Self::Volume => "VolumeAttached",
        }
    }

    /// The value of a metric's label.
    pub fn label(self) -> &'static str {
        match self {
            Self::DoNotDisrupt => "do_not_disrupt",
            Self::UnreadablePod => "unreadable_pod",
            Self::PodBudget => "pdb",
            Self::StuckPod => "pod_not_ending",
            Self::Volume => "volume",
        }
    }
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        if self.others == 0 { Ok(()) } else { write!(f, ", and {} other(s)", self.others) }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protected { pod, until: None } => {
                write!(f, "pod {pod} has the annotation karpenter.sh/do-not-disrupt")
            }
            Self::Protected { pod, until: Some(until) } => {
                write!(f, "pod {pod} has the annotation karpenter.sh/do-not-disrupt until {until}")
            }
            Self::Unread(pod) => write!(f, "pod {pod} cannot be read, so nobody knows whether it may go"),
            Self::Refused { pod, by: Refusal::Budget } => write!(f, "a PodDisruptionBudget keeps pod {pod}"),
            Self::Refused { pod, by: Refusal::SeveralBudgets } => {
                write!(f, "pod {pod} has more than one PodDisruptionBudget, so it cannot be evicted")
            }
            Self::Stuck(pod) => write!(f, "pod {pod} should have ended by now"),
            Self::Volume(attachment) => write!(f, "VolumeAttachment {attachment} is still there"),
        }
    }
}
