//! One demand on a node's labels, as NodePools, NodeClaims and NodeOverlays write it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{self, rules};

/// A label key, an operator, and the values that the operator compares with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// The label that the requirement applies to.
    #[schemars(extend(
        "maxLength" = 316,
        "pattern" = schema::QUALIFIED_NAME,
        "x-kubernetes-validations" = rules(&[
            (
                "label domain \"karpenter.sh\" is restricted",
                r#"self in ["karpenter.sh/capacity-type", "karpenter.sh/nodepool"] || !self.find("^([^/]+)").endsWith("karpenter.sh")"#,
            ),
            ("label \"kubernetes.io/hostname\" is restricted", r#"self != "kubernetes.io/hostname""#),
        ]),
    ))]
    pub key: String,
    /// How the label's value relates to `values`. Gt, Lt, Gte and Lte compare integers.
    pub operator: Operator,
    /// One integer for Gt, Lt, Gte and Lte; at least one value for In; none for Exists and DoesNotExist.
    // The limits below apply to text, so on this list they never fire. They stand here because they stand in the
    // reference; each value is checked at run time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend(
        "maxLength" = 63,
        "pattern" = schema::LABEL_VALUE,
        "x-kubernetes-list-type" = "atomic",
    ))]
    pub values: Vec<String>,
    /// Alpha: the least number of different values of the key among the instance types that a NodeClaim lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::min_values")]
    pub min_values: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Gt,
    Lt,
    Gte,
    Lte,
}

impl Operator {
    /// Gt, Lt, Gte and Lte take exactly one whole number.
    pub fn is_numeric(self) -> bool {
        matches!(self, Self::Gt | Self::Lt | Self::Gte | Self::Lte)
    }
}
