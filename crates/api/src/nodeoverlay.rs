//! `karpenter.sh/v1alpha1` NodeOverlay: corrections to the prices and capacities that a cloud reports.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::Condition;
use crate::quantity::ResourceList;
use crate::requirement::Requirement;
use crate::schema::{self, rules};

/// Which instance types are corrected, and how.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.sh",
    version = "v1alpha1",
    kind = "NodeOverlay",
    plural = "nodeoverlays",
    shortname = "overlays",
    category = "karpenter",
    status = "NodeOverlayStatus",
    derive = "PartialEq",
    doc = "NodeOverlay corrects prices and adds capacity to the instance types that match it.",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Weight", type_ = "integer", json_path = ".spec.weight", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "cannot set both 'price' and 'priceAdjustment'",
    "!has(self.price) || !has(self.priceAdjustment)",
)])))]
pub struct NodeOverlaySpec {
    /// Which instance types and offerings the overlay applies to.
    #[schemars(schema_with = "schema::overlay_requirements")]
    pub requirements: Vec<Requirement>,
    /// Added to the price: a signed number of dollars per hour, or a signed percentage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "pattern" = r"^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$",
    ))]
    pub price_adjustment: Option<String>,
    /// The price itself, in dollars per hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = r"^\d+(\.\d+)?$"))]
    pub price: Option<String>,
    /// Extended resources that the machines have beyond what the cloud reports.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-kubernetes-validations" = rules(&[(
        "invalid resource restricted",
        "self.all(x, !(x in ['cpu', 'memory', 'ephemeral-storage', 'pods']))",
    )])))]
    pub capacity: ResourceList,
    /// Where overlays disagree, the heavier one wins. Unset counts as 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10000))]
    pub weight: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeOverlayStatus {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}
