//! The labels of our metrics. Where the reference has a closed list of values, it is an enum here.

use std::fmt::Write;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use provider::InterruptionKind;

use super::book::LabelSet;

macro_rules! words {
    ($($(#[$attribute:meta])* $name:ident { $($(#[$word_attribute:meta])* $word:ident = $text:literal,)+ })+) => {$(
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$word_attribute])* $word),+
        }

        impl $name {
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$word => $text),+
                }
            }
        }

        impl EncodeLabelValue for $name {
            fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
                encoder.write_str(self.as_str())
            }
        }
    )+};
}

macro_rules! label_sets {
    ($($(#[$attribute:meta])* $name:ident { $($label:ident: $type:ty,)+ })+) => {$(
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
        pub struct $name {
            $(pub $label: $type,)+
        }

        impl LabelSet for $name {
            fn names() -> Vec<&'static str> {
                // A keyword such as `type` is written with a mark in Rust, and without one everywhere else.
                [$(stringify!($label)),+].map(|label| label.trim_start_matches("r#")).to_vec()
            }
        }
    )+};
}

/// The name that a NodeClass's label has among the labels of metrics.
pub fn class_label_name(key: &str) -> String {
    key.replace(['.', '/', '-'], "_")
}

words! {
    /// Why a claim is made.
    CreateReason {
        Provisioned = "provisioned",
        Drifted = "drifted",
        Underutilized = "underutilized",
    }
    /// Why a claim is given up.
    DisruptedReason {
        Underutilized = "underutilized",
        Empty = "empty",
        Drifted = "drifted",
        Expired = "expired",
        Unhealthy = "unhealthy",
        GarbageCollected = "garbage_collected",
        InsufficientCapacity = "insufficient_capacity",
        NodeClassNotReady = "nodeclass_not_ready",
        LaunchTimeout = "launch_timeout",
        RegistrationTimeout = "registration_timeout",
        /// Its node registered and did not become ready for pods. The reference waits for ever.
        InitializationTimeout = "initialization_timeout",
        /// The cloud takes its machine away.
        SpotInterrupted = "spot_interrupted",
        RebalanceRecommendation = "rebalance_recommendation",
        ScheduledChange = "scheduled_change",
        InstanceStopped = "instance_stopped",
        InstanceTerminated = "instance_terminated",
        CapacityReservationInterrupted = "capacity_reservation_interrupted",
        InstanceUnhealthy = "instance_unhealthy",
    }
    /// How much time a claim's pods get when it goes.
    TerminationMode {
        /// As long as they need.
        Graceful = "graceful",
        /// None.
        Forceful = "forceful",
        /// As long as its termination grace period says.
        Eventual = "eventual",
    }
    /// The policy that a consolidation followed; nothing for other reasons.
    ConsolidationPolicy {
        None = "",
        WhenEmpty = "when_empty",
        WhenEmptyOrUnderutilized = "when_empty_or_underutilized",
        Balanced = "balanced",
    }
    /// What a command does with its nodes.
    DisruptionDecision {
        Delete = "delete",
        Replace = "replace",
    }
    /// What consolidation thinks of a move.
    MoveDecision {
        Approved = "approved",
        Rejected = "rejected",
    }
    /// How a tick of a duty ended, in the framework's words.
    TickResult {
        Success = "success",
        Error = "error",
        Requeue = "requeue",
        RequeueAfter = "requeue_after",
    }
    /// Who asked the scheduler.
    SchedulingController {
        Provisioner = "provisioner",
        Disruption = "disruption",
    }
}

impl From<InterruptionKind> for DisruptedReason {
    fn from(kind: InterruptionKind) -> Self {
        match kind {
            InterruptionKind::SpotInterrupted => Self::SpotInterrupted,
            InterruptionKind::RebalanceRecommendation => Self::RebalanceRecommendation,
            InterruptionKind::ScheduledChange => Self::ScheduledChange,
            InterruptionKind::InstanceStopped => Self::InstanceStopped,
            InterruptionKind::InstanceTerminated => Self::InstanceTerminated,
            InterruptionKind::CapacityReservationInterrupted => Self::CapacityReservationInterrupted,
            InterruptionKind::InstanceUnhealthy => Self::InstanceUnhealthy,
        }
    }
}

label_sets! {
    BuildInfo { version: &'static str, goversion: &'static str, goarch: &'static str, commit: &'static str, }
    ClaimCreated { reason: CreateReason, nodepool: String, min_values_relaxed: bool, }
    ClaimTerminated { nodepool: String, capacity_type: String, zone: String, }
    /// For claims, and for the pods on them.
    Disrupted {
        reason: DisruptedReason,
        nodepool: String,
        capacity_type: String,
        consolidation_policy: ConsolidationPolicy,
        termination_mode: TerminationMode,
    }
    UnhealthyDisrupted { condition: String, nodepool: String, capacity_type: String, image_id: String, }
    ByPool { nodepool: String, }
    NodeCounted { nodepool: String, zone: String, }
    EvictionCode { code: String, }
    /// Empty for a node that nobody disrupted.
    DrainReason { reason: String, }
    CloudCall { controller: String, method: &'static str, provider: String, }
    CloudError {
        controller: String,
        method: &'static str,
        provider: String,
        error: &'static str,
        nodepool: String,
    }
    ByScheduling { controller: SchedulingController, }
    SchedulingPass { controller: SchedulingController, scheduling_id: String, }
    /// A zone's name, or `flexible`, or `none`.
    EffectiveZone { controller: SchedulingController, zone: String, }
    /// How a command was found.
    ByMethod { reason: DisruptedReason, consolidation_type: &'static str, }
    ByDecision { decision: DisruptionDecision, reason: DisruptedReason, consolidation_type: &'static str, }
    ByPoolDecision {
        nodepool: String,
        decision: DisruptionDecision,
        reason: DisruptedReason,
        consolidation_type: &'static str,
    }
    ByReason { reason: DisruptedReason, }
    ByPoolReason { nodepool: String, reason: DisruptedReason, }
    ByConsolidation { consolidation_type: &'static str, }
    /// A move that was thought about, by the pool that it is about and the policy's name in the API.
    Moved { decision: MoveDecision, nodepool: String, policy: &'static str, }
    ByController { controller: &'static str, }
    Reconciled { controller: &'static str, result: TickResult, }
    LeaseHeld { name: String, }
    /// Whether the pod asks for devices by resource claim.
    PodBound { dynamic_resources: bool, }
}
