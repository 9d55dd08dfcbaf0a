//! Which objects a list or a watch is about: namespace, labels and fields.

use std::collections::BTreeSet;

use serde_json::Value;

use super::denial::Denial;
use super::store::EventKind;
use super::{Change, meta};
use crate::fields::{Requirement, Selector, Wanted};
use crate::kinds::Kind;

/// What a list or a watch shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Selection {
    /// Empty for all namespaces.
    pub(super) namespace: String,
    pub(super) labels: Selector,
    pub(super) fields: Vec<FieldRule>,
}

/// A field that must, or must not, have a value. A field that is absent counts as empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FieldRule {
    path: Vec<String>,
    value: String,
    is_equal: bool,
}

impl Selection {
    pub(super) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// The node whose pods alone are shown, if there is one.
    pub(super) fn node(&self) -> Option<&str> {
        let is_node = |rule: &&FieldRule| rule.is_equal && rule.path == ["spec", "nodeName"] && !rule.value.is_empty();
        self.fields.iter().find(is_node).map(|rule| rule.value.as_str())
    }

    pub(super) fn matches(&self, object: &Value) -> bool {
        (self.namespace.is_empty() || meta::namespace(object) == self.namespace)
            && self.labels.matches(&object["metadata"]["labels"])
            && self.fields.iter().all(|rule| rule.matches(object))
    }

    /// What a change looks like to somebody who sees only this selection: an object that leaves it is gone.
    pub(super) fn sees(&self, change: &Change) -> Option<EventKind> {
        let was = change.before.as_ref().is_some_and(|object| self.matches(object));
        let is = change.after.as_ref().is_some_and(|object| self.matches(object));
        match (was, is) {
            (false, true) => Some(EventKind::Added),
            (true, true) => Some(EventKind::Modified),
            (true, false) => Some(EventKind::Deleted),
            (false, false) => None,
        }
    }
}

impl FieldRule {
    fn matches(&self, object: &Value) -> bool {
        let found = self.path.iter().fold(object, |value, member| &value[member.as_str()]);
        let is_same = match found {
            Value::String(text) => *text == self.value,
            Value::Null => self.value.is_empty() || self.is_absent_the_same(),
            Value::Bool(truth) => self.value == if *truth { "true" } else { "false" },
            Value::Number(number) => self.value.parse().is_ok_and(|wanted: serde_json::Number| wanted == *number),
            Value::Array(_) | Value::Object(_) => false,
        };
        is_same == self.is_equal
    }

    /// Some fields that are absent stand for a value.
    fn is_absent_the_same(&self) -> bool {
        matches!(self.path.last().map(String::as_str), Some("unschedulable" | "hostNetwork")) && self.value == "false"
    }
}

/// Label selectors: `a=b,c!=d,e in (x,y),f notin (z),g,!h`.
pub(super) fn parse_labels(text: &str) -> Result<Selector, Denial> {
    let mut requirements = Vec::new();
    for part in split_outside_brackets(text) {
        let part = part.trim();
        if part.is_empty() {
            continue;
        }
        let requirement = parse_requirement(part).ok_or_else(|| unreadable(text, part))?;
        if !super::validate::is_qualified_name(&requirement.key) {
            return Err(unreadable(text, part));
        }
        requirements.push(requirement);
    }
    Ok(Selector::all(requirements))
}

/// Field selectors: `a.b=c,d.e!=f`. Only fields that the API server knows for the kind.
pub(super) fn parse_fields(kind: Kind, text: &str) -> Result<Vec<FieldRule>, Denial> {
    let mut rules = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (path, value, is_equal) = match (part.split_once("!="), part.split_once("=")) {
            (Some((path, value)), _) => (path, value, false),
            (None, Some((path, value))) => (path, value.strip_prefix('=').unwrap_or(value), true),
            (None, None) => {
                return Err(Denial::bad_request(format!("invalid selector: '{text}'; can't understand '{part}'")));
            }
        };
        if !is_selectable(kind, path) {
            return Err(Denial::bad_request(format!("field label not supported: {path}")));
        }
        let path = path.split('.').map(str::to_owned).collect();
        rules.push(FieldRule { path, value: value.to_owned(), is_equal });
    }
    Ok(rules)
}

fn is_selectable(kind: Kind, path: &str) -> bool {
    if path == "metadata.name" || (path == "metadata.namespace" && (kind.is_namespaced() || !kind.is_custom())) {
        return true;
    }
    let own: &[&str] = match kind {
        Kind::Pod => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        Kind::Node => &["spec.unschedulable"],
        Kind::Namespace => &["status.phase"],
        Kind::Event => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "type",
        ],
        Kind::ReplicaSet => &["status.replicas"],
        Kind::Service => &["spec.clusterIP", "spec.type"],
        _ => &[],
    };
    own.contains(&path)
}

fn parse_requirement(part: &str) -> Option<Requirement> {
    let rule = |key: &str, wanted| Some(Requirement { key: key.trim().to_owned(), wanted });
    let one = |value: &str| BTreeSet::from([value.trim().to_owned()]);
    if let Some(key) = part.strip_prefix('!') {
        return rule(key, Wanted::Absent);
    }
    if let Some(inner) = part.strip_suffix(')') {
        let (head, values) = inner.split_once('(')?;
        let values: BTreeSet<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        let head = head.trim_end();
        return match (head.strip_suffix(" notin"), head.strip_suffix(" in")) {
            (Some(key), _) => rule(key, Wanted::NotIn(values)),
            (None, Some(key)) => rule(key, Wanted::In(values)),
            (None, None) => None,
        };
    }
    if let Some((key, value)) = part.split_once("!=") {
        return rule(key, Wanted::NotIn(one(value)));
    }
    if let Some((key, value)) = part.split_once('=') {
        return rule(key, Wanted::In(one(value.strip_prefix('=').unwrap_or(value))));
    }
    rule(part, Wanted::Exists)
}

fn split_outside_brackets(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_i32, 0);
    for (place, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..place]);
                start = place + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn unreadable(text: &str, part: &str) -> Denial {
    Denial::bad_request(format!("unable to parse requirement: {part:?} in label selector {text:?}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(selector: &str, matching: &[Value], others: &[Value]) {
        let labels = parse_labels(selector).unwrap();
        matching.iter().for_each(|object| assert!(labels.matches(object), "{selector} and {object}"));
        others.iter().for_each(|object| assert!(!labels.matches(object), "{selector} and {object}"));
    }

    #[test]
    fn label_selectors_know_equality_and_sets() {
        check("", &[json!({}), json!(null)], &[]);
        check("a=b", &[json!({"a": "b"})], &[json!({"a": "c"}), json!({}), json!(null)]);
        check("a==b,c", &[json!({"a": "b", "c": ""})], &[json!({"a": "b"})]);
        check("a!=b", &[json!({}), json!({"a": "c"})], &[json!({"a": "b"})]);
        check("a in (b, c),!d", &[json!({"a": "c"})], &[json!({"a": "d"}), json!({"a": "b", "d": "x"})]);
        check("a notin (b,c)", &[json!({}), json!({"a": "x"})], &[json!({"a": "b"})]);
        check("example.com/a=", &[json!({"example.com/a": ""})], &[json!({})]);
        assert!(["a b (c)", "a in b", "=b", "a,/b"].iter().all(|selector| parse_labels(selector).is_err()));
    }

    #[test]
    fn field_selectors_are_those_of_the_kind() {
        let rules = parse_fields(Kind::Pod, "spec.nodeName=,status.phase!=Failed").unwrap();
        let matches = |object: Value| rules.iter().all(|rule| rule.matches(&object));
        assert!(matches(json!({"spec": {}, "status": {"phase": "Running"}})));
        assert!(!matches(json!({"spec": {"nodeName": "n"}, "status": {"phase": "Running"}})));
        assert!(!matches(json!({"spec": {}, "status": {"phase": "Failed"}})));
        assert!(parse_fields(Kind::Pod, "spec.image=x").is_err());
        assert!(parse_fields(Kind::NodeClaim, "spec.nodeClassRef.name=x").is_err());
    }
}
