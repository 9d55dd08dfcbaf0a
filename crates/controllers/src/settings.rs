//! What an operator can choose, with the reference's defaults.

use std::time::Duration;

use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use model::snapshot::SchedulingPolicy;

#[derive(Clone, Debug)]
pub struct Settings {
    pub gates: Gates,
    /// The longest that pods are gathered before a pass.
    pub batch_max: Duration,
    /// How long nothing may arrive before a pass.
    pub batch_idle: Duration,
    /// In thousandths of a core; decides how much is done at a time.
    pub cpu_requests: u32,
    /// Whether watching starts before the process leads, so that a stand-by is ready sooner.
    pub watches_before_leading: bool,
    pub policy: SchedulingPolicy,
    /// Spreads for pods that name none of their own.
    pub default_spread: Vec<TopologySpreadConstraint>,
}

/// Parts that can be switched on or off.
#[derive(Clone, Copy, Debug)]
pub struct Gates {
    pub node_repair: bool,
    pub reserved_capacity: bool,
    pub spot_to_spot_consolidation: bool,
    pub node_overlay: bool,
    pub static_capacity: bool,
    pub capacity_buffer: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            gates: Gates::default(),
            batch_max: Duration::from_secs(10),
            batch_idle: Duration::from_secs(1),
            cpu_requests: 1000,
            watches_before_leading: false,
            policy: SchedulingPolicy::default(),
            default_spread: Vec::new(),
        }
    }
}

impl Default for Gates {
    fn default() -> Self {
        Self {
            node_repair: false,
            reserved_capacity: true,
            spot_to_spot_consolidation: false,
            node_overlay: false,
            static_capacity: false,
            capacity_buffer: false,
        }
    }
}
