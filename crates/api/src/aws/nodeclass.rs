use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::devices::{BlockDeviceMapping, ConnectionTracking, CpuOptions, MetadataOptions, NetworkInterface};
use super::selectors::{
    AmiSelectorTerm, CapacityReservationSelectorTerm, PlacementGroupSelector, SecurityGroupSelectorTerm,
    SubnetSelectorTerm,
};
use super::status::EC2NodeClassStatus;
use crate::optional_spec::optional_spec;
use crate::schema::{self, rules};

/// How machines are made on AWS: image, network, identity, disks.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.k8s.aws",
    version = "v1",
    kind = "EC2NodeClass",
    plural = "ec2nodeclasses",
    shortname = "ec2nc",
    shortname = "ec2ncs",
    category = "karpenter",
    status = "EC2NodeClassStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "EC2NodeClass holds what AWS needs to know to launch a machine.",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Role", type_ = "string", json_path = ".spec.role", priority = 1)
)]
#[serde(rename_all = "camelCase", remote = "Self")]
#[schemars(extend("x-kubernetes-validations" = spec_rules()))]
pub struct EC2NodeClassSpec {
    /// Subnets to launch into. Terms are alternatives; what one term says must all hold.
    #[schemars(extend("maxItems" = 30, "x-kubernetes-validations" = rules(&[
        ("subnetSelectorTerms cannot be empty", "self.size() != 0"),
        ("expected at least one, got none, ['tags', 'id']", "self.all(x, has(x.tags) || has(x.id))"),
        (
            "'id' is mutually exclusive, cannot be set with a combination of other fields in a subnet selector term",
            "!self.all(x, has(x.id) && has(x.tags))",
        ),
    ])))]
    pub subnet_selector_terms: Vec<SubnetSelectorTerm>,
    /// Security groups of the machines.
    #[schemars(extend("maxItems" = 30, "x-kubernetes-validations" = rules(&[
        ("securityGroupSelectorTerms cannot be empty", "self.size() != 0"),
        ("expected at least one, got none, ['tags', 'id', 'name']", "self.all(x, has(x.tags) || has(x.id) || has(x.name))"),
        (
            "'id' is mutually exclusive, cannot be set with a combination of other fields in a security group selector term",
            "!self.all(x, has(x.id) && (has(x.tags) || has(x.name)))",
        ),
        (
            "'name' is mutually exclusive, cannot be set with a combination of other fields in a security group selector term",
            "!self.all(x, has(x.name) && (has(x.tags) || has(x.id)))",
        ),
    ])))]
    pub security_group_selector_terms: Vec<SecurityGroupSelectorTerm>,
    /// Capacity reservations that machines may use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = 30, "x-kubernetes-validations" = rules(&[
        (
            "expected at least one, got none, ['tags', 'id', 'instanceMatchCriteria']",
            "self.all(x, has(x.tags) || has(x.id) || has(x.instanceMatchCriteria))",
        ),
        (
            "'id' is mutually exclusive, cannot be set along with other fields in a capacity reservation selector term",
            "!self.all(x, has(x.id) && (has(x.tags) || has(x.ownerID) || has(x.instanceMatchCriteria)))",
        ),
    ])))]
    pub capacity_reservation_selector_terms: Vec<CapacityReservationSelectorTerm>,
    /// The placement group to launch into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement_group_selector: Option<PlacementGroupSelector>,
    /// Gives each machine a public address, or none; unset leaves it to the subnet.
    #[serde(default, rename = "associatePublicIPAddress", skip_serializing_if = "Option::is_none")]
    pub associate_public_ip_address: Option<bool>,
    /// How many address prefixes the primary network interface gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ip_prefix_count: Option<i32>,
    /// Images to boot from.
    #[schemars(extend("minItems" = 1, "maxItems" = 30, "x-kubernetes-validations" = ami_list_rules()))]
    pub ami_selector_terms: Vec<AmiSelectorTerm>,
    /// How user data is written and which defaults apply. Follows from an alias when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ami_family: Option<AmiFamily>,
    /// Merged with, or passed beside, the user data that joins the machine to the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
    /// IAM role of the machines. Exactly one of `role` and `instanceProfile`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = rules(&[("role cannot be empty", "self != ''")])))]
    pub role: Option<String>,
    /// Instance profile of the machines. Exactly one of `role` and `instanceProfile`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = rules(&[("instanceProfile cannot be empty", "self != ''")])))]
    pub instance_profile: Option<String>,
    /// Tags for everything that is created on AWS.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-kubernetes-validations" = tag_rules()))]
    pub tags: BTreeMap<String, String>,
    /// Settings of the kubelet, passed on as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub kubelet: Option<BTreeMap<String, Value>>,
    /// Disks of the machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = 50, "x-kubernetes-validations" = rules(&[(
        "must have only one blockDeviceMappings with rootVolume",
        "self.filter(x, has(x.rootVolume)?x.rootVolume==true:false).size() <= 1",
    )])))]
    pub block_device_mappings: Vec<BlockDeviceMapping>,
    /// What is done with local disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_store_policy: Option<InstanceStorePolicy>,
    /// All network interfaces, the primary one (card 0, device 0) included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = 150, "x-kubernetes-validations" = rules(&[
        (
            "networkInterfaces must include a primary interface with interfaceType='interface'",
            "self.size() == 0 || self.exists(x, x.deviceIndex == 0 && x.networkCardIndex == 0 && x.interfaceType == 'interface')",
        ),
        (
            "networkInterfaces must not have duplicate networkCardIndex and deviceIndex pairs, and can have at most one efa device per network card",
            "self.all(x, self.filter(y, x.networkCardIndex == y.networkCardIndex && x.deviceIndex == y.deviceIndex).size() == 1 && (x.interfaceType != 'efa-only' || self.filter(y, x.networkCardIndex == y.networkCardIndex && y.interfaceType == 'efa-only').size() == 1))",
        ),
    ])))]
    pub network_interfaces: Vec<NetworkInterface>,
    /// Detailed CloudWatch monitoring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detailed_monitoring: Option<bool>,
    /// How machines may reach the instance metadata service.
    #[serde(default)]
    pub metadata_options: MetadataOptions,
    /// Idle timeouts of tracked connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_tracking: Option<ConnectionTracking>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_options: Option<CpuOptions>,
    /// Passed to CreateFleet as its context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
}

optional_spec!(EC2NodeClassSpec);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AmiFamily {
    AL2,
    AL2023,
    Bottlerocket,
    Custom,
    Windows2019,
    Windows2022,
    Windows2025,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum InstanceStorePolicy {
    RAID0,
}

/// An alias names a family, and so may `amiFamily`; they must not name two different ones.
fn spec_rules() -> Value {
    let families = ["AL2", "AL2023", "Bottlerocket", "Windows2019", "Windows2022", "Windows2025"];
    let mut pairs = vec![(
        "must specify exactly one of ['role', 'instanceProfile']".to_owned(),
        "(has(self.role) && !has(self.instanceProfile)) || (!has(self.role) && has(self.instanceProfile))".to_owned(),
    )];
    for family in families {
        let article = if family.starts_with('A') { "an" } else { "a" };
        let alias = family.to_lowercase();
        pairs.push((
            format!("if set, amiFamily must be '{family}' or 'Custom' when using {article} {family} alias"),
            format!(
                "!has(self.amiFamily) || (self.amiSelectorTerms.exists(x, has(x.alias) && x.alias.find('^[^@]+') == '{alias}') ? (self.amiFamily == 'Custom' || self.amiFamily == '{family}') : true)"
            ),
        ));
    }
    pairs.push((
        "must specify amiFamily if amiSelectorTerms does not contain an alias".to_owned(),
        "self.amiSelectorTerms.exists(x, has(x.alias)) ? true : has(self.amiFamily)".to_owned(),
    ));
    let pairs: Vec<(&str, &str)> = pairs.iter().map(|(message, rule)| (message.as_str(), rule.as_str())).collect();
    rules(&pairs)
}

fn ami_list_rules() -> Value {
    rules(&[
        (
            "expected at least one, got none, ['tags', 'id', 'name', 'alias', 'ssmParameter']",
            "self.all(x, has(x.tags) || has(x.id) || has(x.name) || has(x.alias) || has(x.ssmParameter))",
        ),
        (
            "'id' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms",
            "!self.exists(x, has(x.id) && (has(x.alias) || has(x.tags) || has(x.name) || has(x.owner)))",
        ),
        (
            "'alias' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms",
            "!self.exists(x, has(x.alias) && (has(x.id) || has(x.tags) || has(x.name) || has(x.owner)))",
        ),
        (
            "'alias' is mutually exclusive, cannot be set with a combination of other amiSelectorTerms",
            "!(self.exists(x, has(x.alias)) && self.size() != 1)",
        ),
    ])
}

/// Tags by which machines are found again belong to the autoscaler alone.
fn tag_rules() -> Value {
    rules(&[
        ("empty tag keys aren't supported", "self.all(k, k != '')"),
        ("tag contains a restricted tag matching eks:eks-cluster-name", "self.all(k, k !='eks:eks-cluster-name')"),
        (
            "tag contains a restricted tag matching kubernetes.io/cluster/",
            "self.all(k, !k.startsWith('kubernetes.io/cluster') )",
        ),
        ("tag contains a restricted tag matching karpenter.sh/nodepool", "self.all(k, k != 'karpenter.sh/nodepool')"),
        ("tag contains a restricted tag matching karpenter.sh/nodeclaim", "self.all(k, k !='karpenter.sh/nodeclaim')"),
        (
            "tag contains a restricted tag matching karpenter.k8s.aws/ec2nodeclass",
            "self.all(k, k !='karpenter.k8s.aws/ec2nodeclass')",
        ),
    ])
}
