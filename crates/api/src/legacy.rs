//! Kinds that the reference has dropped. Clusters that never migrated still hold them, so we still speak them.

mod awsnodetemplate;
mod provisioner;

pub use awsnodetemplate::{
    AWSNodeTemplate, AWSNodeTemplateSpec, AWSNodeTemplateStatus, LegacyAmi, LegacyBlockDevice,
    LegacyBlockDeviceMapping, LegacyMetadataOptions, LegacySubnet,
};
pub use provisioner::{
    Consolidation, KubeletConfiguration, LegacyCondition, LegacyRequirement, LegacyTaint, Limits, ProviderRef,
    Provisioner, ProvisionerSpec, ProvisionerStatus,
};
