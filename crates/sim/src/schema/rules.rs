//! Rules of a schema (`x-kubernetes-validations`), run on objects.

use serde_json::Value;

use super::cel::{EvaluationError, Expression, Subject};
use super::changes::{is_unchanged, old_entry, old_member};
use super::error::{FieldError, FieldErrorKind};
use super::node::Node;
use super::path::Path;

pub(super) struct Rule {
    expression: Expression,
    text: String,
    message: String,
    kind: FieldErrorKind,
    /// The field below that the rule points at.
    field: Option<String>,
}

impl Rule {
    /// Reads a rule of a node whose properties are known already.
    pub(super) fn read(rule: &Value, node: &Node) -> Result<Self, String> {
        let keywords = rule.as_object().ok_or("a rule is not an object")?;
        let known = ["rule", "message", "reason", "fieldPath"];
        if let Some(keyword) = keywords.keys().find(|keyword| !known.contains(&keyword.as_str())) {
            return Err(format!("`{keyword}` of a rule is not supported"));
        }
        let text = rule["rule"].as_str().ok_or("a rule has no text")?.trim().to_owned();
        let expression = Expression::compile(&text).map_err(|problem| format!("{problem}, in the rule {text:?}"))?;
        let field = rule["fieldPath"].as_str().map(|path| written_field(path, node)).transpose()?;
        let message = rule["message"].as_str().unwrap_or_default().trim().to_owned();
        Ok(Self { expression, text, message, kind: kind_for(rule["reason"].as_str())?, field })
    }

    /// How messages call it.
    fn name(&self) -> &str {
        if self.message.is_empty() { &self.text } else { &self.message }
    }

    fn broken(&self, node: &Node, value: &Value, path: &Path<'_>) -> FieldError {
        let mut field = path.bracketed_field();
        if let Some(below) = &self.field {
            field = if matches!(path, Path::Root) { below.clone() } else { format!("{field}.{below}") };
        }
        let detail = if self.message.is_empty() { format!("failed rule: {}", self.text) } else { self.message.clone() };
        match self.kind {
            FieldErrorKind::Invalid if !node.is_compound() => FieldError::with_value(self.kind, field, value, &detail),
            FieldErrorKind::Duplicate if node.is_compound() => FieldError::new(self.kind, field, ""),
            FieldErrorKind::Duplicate => FieldError::with_value(self.kind, field, value, ""),
            _ => FieldError::new(self.kind, field, &detail),
        }
    }

    fn failed(&self, error: &EvaluationError, node: &Node, path: &Path<'_>) -> FieldError {
        let detail = match error {
            EvaluationError::NoSuchOverload => format!(
                "'no such overload': call arguments did not match a supported operator, function or macro signature for \
                 rule: {}",
                self.name()
            ),
            EvaluationError::Other(problem) => format!("{problem} evaluating rule: {}", self.name()),
        };
        let kind = node.kind.names().first().copied().filter(|_| node.kind.names().len() == 1).unwrap_or_default();
        FieldError::with_value(FieldErrorKind::Invalid, path.bracketed_field(), &kind.into(), &detail)
    }
}

/// A value beside what it was before.
#[derive(Clone, Copy)]
struct Pair<'a> {
    node: &'a Node,
    value: &'a Value,
    old: &'a Value,
}

impl Pair<'_> {
    fn is_unchanged(&self) -> bool {
        is_unchanged(self.node, self.value, self.old)
    }
}

/// Runs every rule of an object.
pub(super) fn check(node: &Node, object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    Walk { errors }.visit(node, object, old, None, &Path::Root);
}

struct Walk<'e> {
    errors: &'e mut Vec<FieldError>,
}

impl Walk<'_> {
    /// `nearest` is the closest value around this one that is known again after the change.
    fn visit(&mut self, node: &Node, value: &Value, old: Option<&Value>, nearest: Option<Pair<'_>>, path: &Path<'_>) {
        if value.is_null() || !node.leads_to_rules {
            return;
        }
        let old = old.filter(|old| !old.is_null());
        let nearest = old.map(|old| Pair { node, value, old }).or(nearest);
        for rule in &node.rules {
            self.run(rule, &Subject { node, value, old }, nearest, path);
        }
        match value {
            Value::Array(entries) => {
                let Some(items) = node.items.as_deref() else { return };
                for (index, entry) in entries.iter().enumerate() {
                    self.visit(items, entry, old_entry(node, entry, old), nearest, &path.index(index));
                }
            }
            Value::Object(fields) => {
                for (name, value) in fields {
                    let old = old_member(old, name);
                    match (node.properties.get(name), node.entries.as_deref()) {
                        (Some(property), _) => self.visit(property, value, old, nearest, &path.field(name)),
                        (None, Some(entries)) => self.visit(entries, value, old, nearest, &path.key(name)),
                        (None, None) => {}
                    }
                }
            }
            _ => {}
        }
    }

    fn run(&mut self, rule: &Rule, subject: &Subject<'_>, nearest: Option<Pair<'_>>, path: &Path<'_>) {
        // A rule about a change says nothing about what is new.
        if rule.expression.compares_with_old() && subject.old.is_none() {
            return;
        }
        match rule.expression.holds(subject) {
            Ok(true) => {}
            Ok(false) => {
                let is_about_change = rule.expression.compares_with_old();
                if is_about_change || !nearest.is_some_and(|pair| pair.is_unchanged()) {
                    self.errors.push(rule.broken(subject.node, subject.value, path));
                }
            }
            Err(error) => self.errors.push(rule.failed(&error, subject.node, path)),
        }
    }
}

/// The reason that a rule may ask for.
fn kind_for(reason: Option<&str>) -> Result<FieldErrorKind, String> {
    match reason {
        None | Some("FieldValueInvalid") => Ok(FieldErrorKind::Invalid),
        Some("FieldValueForbidden") => Ok(FieldErrorKind::Forbidden),
        Some("FieldValueRequired") => Ok(FieldErrorKind::Required),
        Some("FieldValueDuplicate") => Ok(FieldErrorKind::Duplicate),
        Some(other) => Err(format!("a rule cannot give the reason `{other}`")),
    }
}

/// A path such as `.spec.tags['a']` as fields of errors are written: `spec.tags[a]`.
fn written_field(path: &str, node: &Node) -> Result<String, String> {
    let wrong = || format!("the field path {path:?} leads nowhere");
    let mut written = String::new();
    let mut node = node;
    let mut rest = path;
    while !rest.is_empty() {
        let (name, after) = if let Some(after) = rest.strip_prefix('.') {
            after.split_at(after.find(['.', '[']).unwrap_or(after.len()))
        } else {
            rest.strip_prefix("['").and_then(|after| after.split_once("']")).ok_or_else(wrong)?
        };
        if node.properties.contains_key(name) {
            written.push_str(if written.is_empty() { "" } else { "." });
            written.push_str(name);
        } else {
            written.push_str(&format!("[{name}]"));
        }
        node = node.member(name).ok_or_else(wrong)?;
        rest = after;
    }
    if written.is_empty() { Err(wrong()) } else { Ok(written) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(schema: &Value, old: Option<&Value>, object: &Value) -> Vec<String> {
        let mut errors = Vec::new();
        check(&Node::read(schema, "").unwrap(), object, old, &mut errors);
        errors.iter().map(|error| format!("{} {error}", error.kind.reason())).collect()
    }

    fn rule(rule: &str, message: &str) -> Value {
        json!([{"rule": rule, "message": message}])
    }

    #[test]
    fn every_broken_rule_is_reported_where_it_stands() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "string", "x-kubernetes-validations": [
                {"rule": "self != 'x'", "message": "not x"}, {"rule": "self.size() == 2"},
            ]},
            "m": {"type": "object", "additionalProperties": {"type": "string", "x-kubernetes-validations": rule("self != ''", "not empty")}},
            "l": {"type": "array", "x-kubernetes-validations": rule("self.all(x, x > 0)", "all positive"), "items": {"type": "integer"}},
        }});
        assert_eq!(
            errors(&schema, None, &json!({"a": "x", "m": {"k": ""}, "l": [0, 1]})),
            [
                "FieldValueInvalid a: Invalid value: \"x\": not x",
                "FieldValueInvalid a: Invalid value: \"x\": failed rule: self.size() == 2",
                "FieldValueInvalid l: Invalid value: all positive",
                "FieldValueInvalid m[k]: Invalid value: \"\": not empty",
            ]
        );
        assert_eq!(errors(&schema, None, &json!({})), [""; 0]);
    }

    #[test]
    fn a_rule_gives_its_own_reason_and_field() {
        let schema = |reason: &str| {
            json!({"type": "object", "properties": {"s": {"type": "object",
                "properties": {"a": {"type": "object", "additionalProperties": {"type": "string"}}},
                "x-kubernetes-validations": [{"rule": "has(self.a)", "message": "a is needed", "reason": reason, "fieldPath": ".a['b']"}],
            }}})
        };
        let error = |reason: &str| errors(&schema(reason), None, &json!({"s": {}})).remove(0);
        assert_eq!(error("FieldValueRequired"), "FieldValueRequired s.a[b]: Required value: a is needed");
        assert_eq!(error("FieldValueForbidden"), "FieldValueForbidden s.a[b]: Forbidden: a is needed");
        assert_eq!(error("FieldValueDuplicate"), "FieldValueDuplicate s.a[b]: Duplicate value");
        assert!(Node::read(&schema("Because"), "").is_err());
    }

    #[test]
    fn a_rule_that_cannot_be_run_is_broken() {
        let schema = json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-validations": rule("self[0] == 'a'", "begins with a")});
        let schema = json!({"type": "object", "properties": {"l": schema}});
        assert_eq!(
            errors(&schema, None, &json!({"l": []})),
            ["FieldValueInvalid l: Invalid value: \"array\": index out of bounds: 0 evaluating rule: begins with a"]
        );
    }

    #[test]
    fn a_rule_about_a_change_runs_where_something_was_before() {
        let keyed = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {
            "type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
            "x-kubernetes-validations": rule("self.v >= oldSelf.v", "only up"),
        }});
        let schema = json!({"type": "object", "properties": {"l": keyed}});
        let old = json!({"l": [{"k": "a", "v": 1}, {"k": "b", "v": 5}]});
        let new = json!({"l": [{"k": "b", "v": 4}, {"k": "c", "v": 0}, {"k": "a", "v": 2}]});
        assert_eq!(errors(&schema, Some(&old), &new), ["FieldValueInvalid l[0]: Invalid value: only up"]);
        assert_eq!(errors(&schema, None, &new), [""; 0]);
    }

    #[test]
    fn a_broken_rule_is_forgiven_where_nothing_changed() {
        let schema = json!({"type": "object", "properties": {
            "l": {"type": "array", "items": {"type": "integer", "x-kubernetes-validations": rule("self > 0", "positive")}},
            "n": {"type": "integer", "x-kubernetes-validations": rule("self > 0", "positive")},
            "t": {"type": "integer", "x-kubernetes-validations": rule("self > oldSelf", "grows")},
        }});
        let old = json!({"l": [0, 1], "n": 0, "t": 0});
        assert_eq!(errors(&schema, Some(&old), &old), ["FieldValueInvalid t: Invalid value: 0: grows"]);
        assert_eq!(
            errors(&schema, Some(&old), &json!({"l": [0, 2], "n": -1})),
            ["FieldValueInvalid l[0]: Invalid value: 0: positive", "FieldValueInvalid n: Invalid value: -1: positive"]
        );
    }
}
