//! `karpenter.sh/v1` NodePool: what kind of nodes may be made, and when they may be taken away.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::Condition;
use crate::duration::{Duration, NillableDuration};
use crate::quantity::ResourceList;
use crate::requirement::Requirement;
use crate::schema::{self, rules};
use crate::taint::Taint;

/// What nodes of this pool look like, how many there may be, and how they are disrupted.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodePool",
    plural = "nodepools",
    category = "karpenter",
    status = "NodePoolStatus",
    derive = "PartialEq",
    doc = "NodePool describes a group of nodes that may be launched for pending pods.",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.nodes"),
    printcolumn(name = "NodeClass", type_ = "string", json_path = ".spec.template.spec.nodeClassRef.name"),
    printcolumn(name = "Nodes", type_ = "string", json_path = ".status.nodes"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Weight", type_ = "integer", json_path = ".spec.weight", priority = 1),
    printcolumn(name = "CPU", type_ = "string", json_path = ".status.resources.cpu", priority = 1),
    printcolumn(name = "Memory", type_ = "string", json_path = ".status.resources.memory", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "Cannot transition NodePool between static (replicas set) and dynamic (replicas unset) provisioning modes",
        "has(self.replicas) == has(oldSelf.replicas)",
    ),
    (
        "only 'limits.nodes' is supported on static NodePools",
        "!has(self.replicas) || (!has(self.limits) || size(self.limits) == 0 || (size(self.limits) == 1 && 'nodes' in self.limits))",
    ),
    ("'weight' is not supported on static NodePools", "!has(self.replicas) || !has(self.weight)"),
])))]
pub struct NodePoolSpec {
    /// What each node of the pool is made from.
    pub template: NodeClaimTemplate,
    /// When and how fast nodes may be replaced or removed.
    #[serde(default)]
    #[schemars(extend("default" = {"consolidateAfter": "0s"}))]
    pub disruption: Disruption,
    /// The most that all nodes of the pool together may have, by resource; `nodes` counts the nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: ResourceList,
    /// Pools of higher weight are tried first. Unset counts as 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub weight: Option<i32>,
    /// Alpha: makes the pool static, with just this many nodes whatever the pods ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i64>,
}

/// The NodeClaim that the pool makes when it needs a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeClaimTemplate {
    /// Labels and annotations that every node of the pool carries.
    #[serde(default, skip_serializing_if = "TemplateMetadata::is_empty")]
    pub metadata: TemplateMetadata,
    pub spec: NodeClaimTemplateSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TemplateMetadata {
    /// Labels of the nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend(
        "maxProperties" = 100,
        "additionalProperties" = {"type": "string", "maxLength": 63, "pattern": schema::LABEL_VALUE},
        "x-kubernetes-map-type" = "atomic",
        "x-kubernetes-validations" = rules(&[
            (
                "label domain \"karpenter.sh\" is restricted",
                r#"self.all(x, x in ["karpenter.sh/capacity-type", "karpenter.sh/nodepool"] || !x.find("^([^/]+)").endsWith("karpenter.sh"))"#,
            ),
            ("label \"karpenter.sh/nodepool\" is restricted", r#"self.all(x, x != "karpenter.sh/nodepool")"#),
            ("label \"kubernetes.io/hostname\" is restricted", r#"self.all(x, x != "kubernetes.io/hostname")"#),
        ]),
    ))]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-kubernetes-map-type" = "granular"))]
    pub annotations: BTreeMap<String, String>,
}

impl TemplateMetadata {
    fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplateSpec {
    /// Taints that stay on the nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub taints: Vec<Taint>,
    /// Taints that somebody else, such as a network plugin, removes when the node is ready for pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub startup_taints: Vec<Taint>,
    /// What the labels of a node must satisfy. May be empty.
    #[schemars(schema_with = "schema::pool_requirements")]
    pub requirements: Vec<Requirement>,
    /// The cloud's own settings for the nodes.
    #[schemars(extend("x-kubernetes-validations" = rules(&[
        ("nodeClassRef.group is immutable", "self.group == oldSelf.group"),
        ("nodeClassRef.kind is immutable", "self.kind == oldSelf.kind"),
    ])))]
    pub node_class_ref: NodeClassReference,
    /// How long a node may drain before what is left on it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = schema::DURATION))]
    pub termination_grace_period: Option<Duration>,
    /// How long a node may live before it is replaced, or `Never`.
    #[serde(default = "default_expire_after")]
    #[schemars(extend("pattern" = schema::DURATION_OR_NEVER))]
    pub expire_after: NillableDuration,
}

/// What `expireAfter` means when nobody wrote it, on pools and on claims.
pub(crate) fn default_expire_after() -> NillableDuration {
    "720h".parse().expect("the default is a duration")
}

/// Names the cloud's settings by group, kind and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct NodeClassReference {
    /// API group of the NodeClass, such as `karpenter.k8s.aws`.
    #[schemars(extend(
        "pattern" = "^[^/]*$",
        "x-kubernetes-validations" = rules(&[("group may not be empty", "self != ''")]),
    ))]
    pub group: String,
    /// Kind of the NodeClass, such as `EC2NodeClass`.
    #[schemars(extend("x-kubernetes-validations" = rules(&[("kind may not be empty", "self != ''")])))]
    pub kind: String,
    /// Name of the NodeClass.
    #[schemars(extend("x-kubernetes-validations" = rules(&[("name may not be empty", "self != ''")])))]
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// How long a node must be free of pod events before it may be consolidated, or `Never`.
    #[serde(default = "Disruption::default_consolidate_after")]
    #[schemars(extend("pattern" = schema::DURATION_OR_NEVER))]
    pub consolidate_after: NillableDuration,
    /// Which nodes consolidation may touch.
    #[serde(default)]
    pub consolidation_policy: ConsolidationPolicy,
    /// How many nodes may be disrupted at once. The smallest budget that applies wins.
    #[serde(default = "Disruption::default_budgets")]
    #[schemars(extend(
        "maxItems" = 50,
        "x-kubernetes-list-type" = "atomic",
        "x-kubernetes-validations" = rules(&[(
            "'schedule' must be set with 'duration'",
            "self.all(x, has(x.schedule) == has(x.duration))",
        )]),
    ))]
    pub budgets: Vec<Budget>,
}

impl Disruption {
    fn default_consolidate_after() -> NillableDuration {
        "0s".parse().expect("the default is a duration")
    }

    fn default_budgets() -> Vec<Budget> {
        vec![Budget::default()]
    }
}

impl Default for Disruption {
    fn default() -> Self {
        Self {
            consolidate_after: Self::default_consolidate_after(),
            consolidation_policy: ConsolidationPolicy::default(),
            budgets: Self::default_budgets(),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConsolidationPolicy {
    WhenEmpty,
    #[default]
    WhenEmptyOrUnderutilized,
    Balanced,
}

/// The most nodes of the pool that may be disrupted at once, for some reasons and at some times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["nodes"]))]
pub struct Budget {
    /// A number of nodes, or a percentage of the pool's nodes, rounded up.
    #[serde(default = "Budget::default_nodes")]
    #[schemars(extend("pattern" = r"^((100|[0-9]{1,2})%|[0-9]+)$"))]
    pub nodes: String,
    /// Reasons that the budget applies to. Unset means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxItems" = 50, "x-kubernetes-list-type" = "set"))]
    pub reasons: Option<Vec<DisruptionReason>>,
    /// When the budget starts to apply: a cron expression in UTC, or a macro such as `@daily`. Needs `duration`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "pattern" = r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$",
    ))]
    pub schedule: Option<String>,
    /// How long the budget applies after each start, in hours and minutes. Needs `schedule`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = r"^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$"))]
    pub duration: Option<Duration>,
}

impl Budget {
    fn default_nodes() -> String {
        "10%".to_owned()
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self { nodes: Self::default_nodes(), reasons: None, schedule: None, duration: None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum DisruptionReason {
    Underutilized,
    Empty,
    Drifted,
    Unhealthy,
}

/// What the pool has now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolStatus {
    /// What all nodes of the pool have together.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: ResourceList,
    /// How many nodes the pool has.
    #[serde(default)]
    pub nodes: i64,
    /// The generation of the NodeClass that registration health was last judged for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_class_observed_generation: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}
