//! The label keys that EC2 types answer for, beside those that every cloud has.

/// The zone under the name that means the same zone in every account.
pub const ZONE_ID: &str = "topology.k8s.aws/zone-id";

pub(super) const CATEGORY: &str = "karpenter.k8s.aws/instance-category";
pub(super) const FAMILY: &str = "karpenter.k8s.aws/instance-family";
pub(super) const GENERATION: &str = "karpenter.k8s.aws/instance-generation";
pub(super) const SIZE: &str = "karpenter.k8s.aws/instance-size";
pub(super) const FLEX: &str = "karpenter.k8s.aws/instance-capability-flex";
pub(super) const CPU: &str = "karpenter.k8s.aws/instance-cpu";
pub(super) const CPU_MAKER: &str = "karpenter.k8s.aws/instance-cpu-manufacturer";
pub(super) const CPU_CLOCK: &str = "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz";
pub(super) const MEMORY: &str = "karpenter.k8s.aws/instance-memory";
pub(super) const EBS_BANDWIDTH: &str = "karpenter.k8s.aws/instance-ebs-bandwidth";
pub(super) const NETWORK_BANDWIDTH: &str = "karpenter.k8s.aws/instance-network-bandwidth";
pub(super) const LOCAL_NVME: &str = "karpenter.k8s.aws/instance-local-nvme";
pub(super) const GPU_NAME: &str = "karpenter.k8s.aws/instance-gpu-name";
pub(super) const GPU_MAKER: &str = "karpenter.k8s.aws/instance-gpu-manufacturer";
pub(crate) const GPU_COUNT: &str = "karpenter.k8s.aws/instance-gpu-count";
pub(super) const GPU_MEMORY: &str = "karpenter.k8s.aws/instance-gpu-memory";
pub(super) const ACCELERATOR_NAME: &str = "karpenter.k8s.aws/instance-accelerator-name";
pub(super) const ACCELERATOR_MAKER: &str = "karpenter.k8s.aws/instance-accelerator-manufacturer";
pub(crate) const ACCELERATOR_COUNT: &str = "karpenter.k8s.aws/instance-accelerator-count";
pub(super) const HYPERVISOR: &str = "karpenter.k8s.aws/instance-hypervisor";
pub(super) const ENCRYPTION: &str = "karpenter.k8s.aws/instance-encryption-in-transit-supported";
pub(super) const NITRO_SANDBOX: &str = "karpenter.k8s.aws/nitro-sandbox";
pub(crate) const TENANCY: &str = "karpenter.k8s.aws/instance-tenancy";
pub(crate) const RESERVATION_ID: &str = "karpenter.k8s.aws/capacity-reservation-id";
pub(crate) const RESERVATION_TYPE: &str = "karpenter.k8s.aws/capacity-reservation-type";
pub(crate) const RESERVATION_INTERRUPTIBLE: &str = "karpenter.k8s.aws/capacity-reservation-interruptible";
pub(super) const PLACEMENT_GROUP: &str = "karpenter.k8s.aws/placement-group-id";
pub(super) const PLACEMENT_PARTITION: &str = "karpenter.k8s.aws/placement-group-partition";

/// For `model::labels::WellKnown::with_provider`: every type here has a requirement for each of them.
pub const WELL_KNOWN: [&str; 29] = [
    ZONE_ID,
    CATEGORY,
    FAMILY,
    GENERATION,
    SIZE,
    FLEX,
    CPU,
    CPU_MAKER,
    CPU_CLOCK,
    MEMORY,
    EBS_BANDWIDTH,
    NETWORK_BANDWIDTH,
    LOCAL_NVME,
    GPU_NAME,
    GPU_MAKER,
    GPU_COUNT,
    GPU_MEMORY,
    ACCELERATOR_NAME,
    ACCELERATOR_MAKER,
    ACCELERATOR_COUNT,
    HYPERVISOR,
    ENCRYPTION,
    NITRO_SANDBOX,
    TENANCY,
    RESERVATION_ID,
    RESERVATION_TYPE,
    RESERVATION_INTERRUPTIBLE,
    PLACEMENT_GROUP,
    PLACEMENT_PARTITION,
];
