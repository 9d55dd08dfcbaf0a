//! What admission cannot check, checked at run time; the result goes into the `ValidationSucceeded` condition.
//!
//! Every problem is reported, not only the first, and each names the field and the remedy.

use std::collections::BTreeSet;
use std::fmt;

use crate::labels::{self, LabelRules};
use crate::nodeoverlay::NodeOverlaySpec;
use crate::nodepool::NodePoolSpec;
use crate::requirement::{Operator, Requirement};
use crate::taint::Taint;

/// One thing that is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where, as a path that `kubectl explain` understands.
    pub field: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// Everything that is wrong with a NodePool.
pub fn node_pool(spec: &NodePoolSpec, rules: &LabelRules) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (key, value) in &spec.template.metadata.labels {
        let field = format!("spec.template.metadata.labels[{key}]");
        problems.extend(
            label_problems(key, value, rules).into_iter().map(|message| Problem { field: field.clone(), message }),
        );
    }
    problems.extend(taint_problems(&spec.template.spec.taints, &spec.template.spec.startup_taints));
    for (index, requirement) in spec.template.spec.requirements.iter().enumerate() {
        let field = format!("spec.template.spec.requirements[{index}]");
        let mut messages = requirement_problems(requirement, rules);
        if labels::normalized(&requirement.key) == labels::NODE_POOL {
            messages.push(format!("{} is set by the pool itself; remove the requirement", labels::NODE_POOL));
        }
        problems.extend(messages.into_iter().map(|message| Problem { field: field.clone(), message }));
    }
    problems
}

/// Everything that is wrong with a NodeOverlay.
pub fn node_overlay(spec: &NodeOverlaySpec, rules: &LabelRules) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, requirement) in spec.requirements.iter().enumerate() {
        let field = format!("spec.requirements[{index}]");
        let mut messages = requirement_problems(requirement, rules);
        if requirement.operator == Operator::NotIn && requirement.values.is_empty() {
            messages.push("operator NotIn needs at least one value".to_owned());
        }
        problems.extend(messages.into_iter().map(|message| Problem { field: field.clone(), message }));
    }
    for resource in ["cpu", "memory", "ephemeral-storage", "pods"] {
        if spec.capacity.contains_key(resource) {
            let message =
                format!("{resource} comes from the cloud and cannot be overlaid; name extended resources only");
            problems.push(Problem { field: format!("spec.capacity[{resource}]"), message });
        }
    }
    problems
}

/// What is wrong with one requirement; pods' own requirements are held to the same rules.
pub fn requirement_problems(requirement: &Requirement, rules: &LabelRules) -> Vec<String> {
    let Requirement { key, operator, values, min_values } = requirement;
    let key = labels::normalized(key);
    let mut problems = Vec::new();
    if rules.is_restricted(key) {
        problems.push(format!("label {key} is restricted; use a domain of your own"));
    }
    problems.extend(qualified_name_problem(key).map(|problem| format!("key {key:?} {problem}")));
    for value in values {
        problems.extend(label_value_problem(value).map(|problem| format!("value {value:?} of {key} {problem}")));
    }
    if *operator == Operator::In {
        problems.extend(in_problems(key, values, *min_values));
    }
    if operator.is_numeric() && !is_single_whole_number(values) {
        problems.push(format!("operator {operator:?} on {key} needs exactly one whole number, 0 or more"));
    }
    problems
}

fn in_problems(key: &str, values: &[String], min_values: Option<i64>) -> Vec<String> {
    if values.is_empty() {
        return vec![format!("operator In on {key} needs at least one value")];
    }
    let at_least = usize::try_from(min_values.unwrap_or(0)).unwrap_or(0);
    if values.len() < at_least {
        return vec![format!("minValues on {key} is {at_least}, but only {} values are listed", values.len())];
    }
    if key != labels::CAPACITY_TYPE {
        return Vec::new();
    }
    // An unknown capacity type beside a known one may be one that only a newer provider knows, so it is let through.
    let known = [labels::CAPACITY_TYPE_ON_DEMAND, labels::CAPACITY_TYPE_SPOT, labels::CAPACITY_TYPE_RESERVED];
    let known_values = values.iter().filter(|value| known.contains(&value.as_str())).count();
    if known_values == 0 {
        return vec![format!("none of the values {values:?} of {key} is known; use one of {}", known.join(", "))];
    }
    if known_values < at_least {
        return vec![format!("minValues on {key} is {at_least}, but only {known_values} of its values are known")];
    }
    Vec::new()
}

fn is_single_whole_number(values: &[String]) -> bool {
    matches!(values, [value] if value.parse::<i64>().is_ok_and(|number| number >= 0))
}

fn label_problems(key: &str, value: &str, rules: &LabelRules) -> Vec<String> {
    let mut problems = Vec::new();
    if key == labels::NODE_POOL {
        problems.push("the pool sets this label itself; remove it".to_owned());
    }
    if rules.is_restricted(key) {
        problems.push("the label is restricted; use a domain of your own".to_owned());
    }
    problems.extend(qualified_name_problem(key).map(|problem| format!("the key {problem}")));
    problems.extend(label_value_problem(value).map(|problem| format!("the value {value:?} {problem}")));
    problems
}

fn taint_problems(taints: &[Taint], startup_taints: &[Taint]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    let both = [("taints", taints), ("startupTaints", startup_taints)];
    for (list, taint, index) in
        both.iter().flat_map(|(list, taints)| taints.iter().enumerate().map(move |(i, t)| (list, t, i)))
    {
        let field = format!("spec.template.spec.{list}[{index}]");
        let mut complain = |message: String| problems.push(Problem { field: field.clone(), message });
        if let Some(problem) = qualified_name_problem(&taint.key) {
            complain(format!("key {:?} {problem}", taint.key));
        }
        if let Some(problem) = taint.value.as_deref().filter(|value| !value.is_empty()).and_then(qualified_name_problem)
        {
            complain(format!("value {:?} {problem}", taint.value.as_deref().unwrap_or_default()));
        }
        if !seen.insert((&taint.key, taint.effect)) {
            complain(format!("{}:{:?} stands twice among taints and startupTaints; keep one", taint.key, taint.effect));
        }
    }
    problems
}

/// Why a text is no qualified name: an optional DNS domain and a slash, then a name of up to 63 characters.
pub fn qualified_name_problem(text: &str) -> Option<&'static str> {
    let (domain, name) = match text.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, text),
    };
    if name.is_empty() || name.len() > 63 {
        return Some("needs a name of 1 to 63 characters after the slash");
    }
    if !is_label_text(name) {
        return Some("may hold letters, digits, '-', '_' and '.', and begins and ends with a letter or digit");
    }
    match domain {
        Some(domain) if domain.len() > 253 || !is_dns_subdomain(domain) => {
            Some("needs a DNS domain before the slash: lower-case letters, digits, '-' and '.'")
        }
        _ => None,
    }
}

fn label_value_problem(text: &str) -> Option<&'static str> {
    if text.len() > 63 {
        return Some("is longer than 63 characters");
    }
    (!text.is_empty() && !is_label_text(text))
        .then_some("may hold letters, digits, '-', '_' and '.', and begins and ends with a letter or digit")
}

fn is_label_text(text: &str) -> bool {
    let is_edge = |byte: Option<u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric());
    is_edge(text.bytes().next())
        && is_edge(text.bytes().last())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

fn is_dns_subdomain(text: &str) -> bool {
    text.split('.').all(|part| {
        let is_edge = |byte: Option<u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        is_edge(part.bytes().next())
            && is_edge(part.bytes().last())
            && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(template: Value, expected: &[&str]) {
        let mut spec = json!({
            "nodeClassRef": {"group": "g", "kind": "K", "name": "n"},
            "requirements": [],
        });
        let mut metadata = json!({});
        for (name, value) in template.as_object().unwrap() {
            let part = if name == "labels" { &mut metadata } else { &mut spec };
            part[name] = value.clone();
        }
        let pool: NodePoolSpec =
            serde_json::from_value(json!({"template": {"metadata": metadata, "spec": spec}})).unwrap();
        let found: Vec<String> = node_pool(&pool, &LabelRules::default()).iter().map(Problem::to_string).collect();
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.contains(expected), "{found} should contain {expected}");
        }
    }

    fn requirement(key: &str, operator: &str, values: &[&str]) -> Value {
        json!({"requirements": [{"key": key, "operator": operator, "values": values}]})
    }

    // 01/API-21
    #[test]
    fn a_capacity_type_must_know_at_least_one_of_its_values() {
        check(requirement(labels::CAPACITY_TYPE, "In", &["hourly"]), &["requirements[0]: none of the values"]);
        check(requirement(labels::CAPACITY_TYPE, "In", &["hourly", "spot"]), &[]);
        check(requirement(labels::CAPACITY_TYPE, "NotIn", &["hourly"]), &[]);
        let with_minimum =
            json!([{"key": labels::CAPACITY_TYPE, "operator": "In", "values": ["spot", "hourly"], "minValues": 2}]);
        check(json!({"requirements": with_minimum}), &["only 1 of its values are known"]);
    }

    #[test]
    fn a_sound_pool_has_no_problems() {
        check(
            json!({
                "labels": {"example.com/team": "a", "plain": ""},
                "taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}],
                "startupTaints": [{"key": "b", "value": "x", "effect": "NoSchedule"}],
                "requirements": [
                    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                    {"key": "beta.kubernetes.io/os", "operator": "Exists"},
                    {"key": "example.com/cores", "operator": "Gte", "values": ["0"]},
                    {"key": "example.com/any", "operator": "NotIn"},
                ],
            }),
            &[],
        );
    }

    // 01/API-07
    #[test]
    fn a_taint_stands_once_among_both_lists_and_its_key_is_not_too_long() {
        check(
            json!({
                "taints": [{"key": "a", "effect": "NoSchedule"}],
                "startupTaints": [{"key": "a", "value": "other", "effect": "NoSchedule"}],
            }),
            &["startupTaints[0]: a:NoSchedule stands twice"],
        );
        check(json!({"taints": [{"key": "a".repeat(64), "effect": "NoSchedule"}]}), &["1 to 63 characters"]);
    }

    // 01/API-08
    #[test]
    fn a_key_whose_name_is_too_long_is_found_at_run_time() {
        check(requirement(&format!("example.com/{}", "a".repeat(64)), "Exists", &[]), &["1 to 63 characters"]);
        check(requirement(labels::NODE_POOL, "Exists", &[]), &["set by the pool itself"]);
    }

    #[test]
    fn every_problem_is_named_at_once() {
        check(
            json!({
                "labels": {"karpenter.sh/mine": "not valid!", "kubernetes.io/hostname": "x"},
                "requirements": [
                    {"key": "example.com/a", "operator": "In"},
                    {"key": "example.com/b", "operator": "Gt", "values": ["-1"]},
                    {"key": "example.com/c", "operator": "Lt", "values": ["1", "2"]},
                    {"key": "example.com/d", "operator": "In", "values": ["x"], "minValues": 2},
                    {"key": "UPPER.example.com/e", "operator": "Exists"},
                    {"key": "example.com/f", "operator": "In", "values": ["-bad"]},
                ],
            }),
            &[
                "labels[karpenter.sh/mine]: the label is restricted",
                "labels[karpenter.sh/mine]: the value \"not valid!\"",
                "labels[kubernetes.io/hostname]: the label is restricted",
                "requirements[0]: operator In on example.com/a",
                "requirements[1]: value \"-1\"",
                "requirements[1]: operator Gt",
                "requirements[2]: operator Lt",
                "requirements[3]: minValues on example.com/d is 2",
                "requirements[4]: key \"UPPER.example.com/e\" needs a DNS domain",
                "requirements[5]: value \"-bad\"",
            ],
        );
    }

    // 01/API-19
    #[test]
    fn an_overlay_may_not_replace_what_the_cloud_reports() {
        let spec: NodeOverlaySpec = serde_json::from_value(json!({
            "requirements": [{"key": "example.com/a", "operator": "NotIn"}],
            "capacity": {"cpu": "1", "example.com/x": "1"},
        }))
        .unwrap();
        let found: Vec<String> = node_overlay(&spec, &LabelRules::default()).iter().map(Problem::to_string).collect();
        assert_eq!(found.len(), 2);
        assert!(found[0].starts_with("spec.requirements[0]: operator NotIn needs"));
        assert!(found[1].starts_with("spec.capacity[cpu]: cpu comes from the cloud"));
    }
}
