//! Keys and words of the simulated cloud.

pub(super) const SIZE: &str = "karpenter.kwok.sh/instance-size";
pub(super) const FAMILY: &str = "karpenter.kwok.sh/instance-family";
pub(super) const CPU: &str = "karpenter.kwok.sh/instance-cpu";
pub(super) const MEMORY: &str = "karpenter.kwok.sh/instance-memory";

/// Label and annotation by which kwok knows the nodes that it is to keep alive.
pub(super) const FAKE_NODE: &str = "kwok.x-k8s.io/node";
pub(super) const FAKE: &str = "fake";
/// Which of several kwok processes keeps the node alive. The reference has one, too.
pub(super) const PARTITION: &str = "kwok-partition";
pub(super) const ONLY_PARTITION: &str = "a";
/// What eks-node-viewer shows as the node's price.
pub(super) const PRICE: &str = "eks-node-viewer/instance-price";

/// On machines: the name and the uid of the claim that they were made for.
pub(super) const CLAIM: &str = "karpenter.kwok.sh/nodeclaim";
pub(super) const CLAIM_UID: &str = "karpenter.kwok.sh/nodeclaim-uid";
/// On machines: the image that they run.
pub(super) const IMAGE: &str = "karpenter.kwok.sh/image-id";
/// On Nodes of machines, written by whoever plays the cloud: this machine is taken back when so much time has passed.
pub(super) const NOTICE: &str = "karpenter.kwok.sh/interruption-notice";

/// On the records of machines whose Node has not come yet.
pub(super) const RECORD: &str = "karpenter.kwok.sh/instance";
pub(super) const PENDING: &str = "pending";

pub(super) const ID_PREFIX: &str = "kwok://";
