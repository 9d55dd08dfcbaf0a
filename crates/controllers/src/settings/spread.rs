//! The scheduler configuration: spreads for pods that name none.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    #[serde(default)]
    pod_topology_spread: PodTopologySpread,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PodTopologySpread {
    #[serde(default)]
    default_constraints: Vec<Constraint>,
}

/// The wire type takes unknown fields; an operator's slip of the pen should not pass.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Constraint {
    max_skew: i32,
    topology_key: String,
    when_unsatisfiable: String,
    #[serde(default)]
    min_domains: Option<i32>,
    #[serde(default)]
    node_affinity_policy: Option<String>,
    #[serde(default)]
    node_taints_policy: Option<String>,
    #[serde(default)]
    label_selector: Option<LabelSelector>,
    #[serde(default)]
    match_label_keys: Option<Vec<String>>,
}

/// Reads YAML or JSON; nothing at all means no spreads.
pub(super) fn parse(text: &str) -> Result<Vec<TopologySpreadConstraint>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let document: Document = serde_saphyr::from_str(text)
        .map_err(|error| format!("is no scheduler configuration: {}", one_line(&error.to_string())))?;
    let constraints = document.pod_topology_spread.default_constraints;
    let mut seen = BTreeSet::new();
    for (index, constraint) in constraints.iter().enumerate() {
        let place = |problem: String| format!("podTopologySpread.defaultConstraints[{index}]: {problem}");
        if let Some(problem) = problem_of(constraint) {
            return Err(place(problem));
        }
        let Constraint { topology_key: key, when_unsatisfiable: action, .. } = constraint;
        if !seen.insert((key, action)) {
            return Err(place(format!("topologyKey {key:?} with {action} stands there twice; keep one")));
        }
    }
    Ok(constraints.into_iter().map(wire).collect())
}

fn problem_of(constraint: &Constraint) -> Option<String> {
    if constraint.label_selector.is_some() {
        return Some("labelSelector cannot be set, it is deduced from what a pod belongs to; remove it".to_owned());
    }
    if constraint.match_label_keys.as_ref().is_some_and(|keys| !keys.is_empty()) {
        return Some("matchLabelKeys cannot be set, for lack of a labelSelector; remove it".to_owned());
    }
    if constraint.max_skew <= 0 {
        return Some(format!("maxSkew is {}; use 1 or more", constraint.max_skew));
    }
    if let Some(problem) = api::validate::qualified_name_problem(&constraint.topology_key) {
        return Some(format!("topologyKey {:?} {problem}", constraint.topology_key));
    }
    if !["DoNotSchedule", "ScheduleAnyway"].contains(&constraint.when_unsatisfiable.as_str()) {
        let found = &constraint.when_unsatisfiable;
        return Some(format!("whenUnsatisfiable is {found:?}; use DoNotSchedule or ScheduleAnyway"));
    }
    if constraint.min_domains.is_some_and(|least| least <= 0) {
        return Some("minDomains must be 1 or more".to_owned());
    }
    let policies = [
        ("nodeAffinityPolicy", &constraint.node_affinity_policy),
        ("nodeTaintsPolicy", &constraint.node_taints_policy),
    ];
    policies.into_iter().find_map(|(field, policy)| {
        let policy = policy.as_deref().filter(|policy| !["Honor", "Ignore"].contains(policy))?;
        Some(format!("{field} is {policy:?}; use Honor or Ignore"))
    })
}

fn wire(constraint: Constraint) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        label_selector: None,
        match_label_keys: None,
        max_skew: constraint.max_skew,
        min_domains: constraint.min_domains,
        node_affinity_policy: constraint.node_affinity_policy,
        node_taints_policy: constraint.node_taints_policy,
        topology_key: constraint.topology_key,
        when_unsatisfiable: constraint.when_unsatisfiable,
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
