//! Word from a cloud that it is going to take a machine away.

use std::fmt;
use std::sync::Arc;

use model::time::Instant;

use crate::ProviderId;

/// What a cloud says about one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interruption {
    /// Tells this notice from others when it is acknowledged.
    pub id: Arc<str>,
    pub machine: ProviderId,
    pub kind: InterruptionKind,
    /// When the machine will be gone, where the cloud says so.
    pub deadline: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InterruptionKind {
    /// The cloud wants a spot machine back.
    SpotInterrupted,
    /// It may want it back soon. Nothing is done about that.
    RebalanceRecommendation,
    /// Work on the hardware is planned.
    ScheduledChange,
    /// Somebody stopped the machine.
    InstanceStopped,
    /// Somebody ended it.
    InstanceTerminated,
    /// Its reservation is taken back.
    CapacityReservationInterrupted,
    /// The cloud's own checks have failed.
    InstanceUnhealthy,
}

impl InterruptionKind {
    pub const ALL: [Self; 7] = [
        Self::SpotInterrupted,
        Self::RebalanceRecommendation,
        Self::ScheduledChange,
        Self::InstanceStopped,
        Self::InstanceTerminated,
        Self::CapacityReservationInterrupted,
        Self::InstanceUnhealthy,
    ];

    /// The word in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SpotInterrupted => "spot_interrupted",
            Self::RebalanceRecommendation => "rebalance_recommendation",
            Self::ScheduledChange => "scheduled_change",
            Self::InstanceStopped => "instance_stopped",
            Self::InstanceTerminated => "instance_terminated",
            Self::CapacityReservationInterrupted => "capacity_reservation_interrupted",
            Self::InstanceUnhealthy => "instance_unhealthy",
        }
    }

    /// Whether the machine will be gone, so that its pods should move while they can.
    pub fn ends_machine(self) -> bool {
        self != Self::RebalanceRecommendation
    }
}

impl fmt::Display for InterruptionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
