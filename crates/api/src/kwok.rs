//! `karpenter.kwok.sh/v1alpha1` KWOKNodeClass: settings of the simulated cloud.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::{Condition, ConditionStatus};
use crate::duration::Duration;
use crate::optional_spec::optional_spec;
use crate::schema;

/// The domain that only the simulated cloud may label with.
pub const DOMAIN: &str = "karpenter.kwok.sh";

/// Keys of the domain that users may require.
pub(crate) const LABELS: [&str; 5] = [
    "karpenter.kwok.sh/kwoknodeclass",
    "karpenter.kwok.sh/instance-cpu",
    "karpenter.kwok.sh/instance-memory",
    "karpenter.kwok.sh/instance-family",
    "karpenter.kwok.sh/instance-size",
];

/// How the simulated cloud behaves for nodes of this class.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.kwok.sh",
    version = "v1alpha1",
    kind = "KWOKNodeClass",
    plural = "kwoknodeclasses",
    shortname = "kwoknc",
    shortname = "kwokncs",
    category = "karpenter",
    status = "KWOKNodeClassStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "KWOKNodeClass holds the settings of the simulated cloud."
)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct KWOKNodeClassSpec {
    /// How long a launched machine takes until its Node appears.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = schema::DURATION))]
    pub node_registration_delay: Option<Duration>,
}

optional_spec!(KWOKNodeClassSpec);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KWOKNodeClassStatus {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::unkeyed_conditions")]
    pub conditions: Vec<Condition>,
}

impl Default for KWOKNodeClassStatus {
    /// A simulated cloud has nothing to wait for: every class is born ready, at a time that never changes.
    fn default() -> Self {
        let ready = Condition {
            type_: "Ready".to_owned(),
            status: ConditionStatus::True,
            observed_generation: None,
            last_transition_time: "2024-01-01T01:01:01Z".parse().map(Time).expect("the default is a time"),
            reason: "Ready".to_owned(),
            message: String::new(),
        };
        Self { conditions: vec![ready] }
    }
}
