//! The rules of a schema, by name, and which of them an object puts to the test.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

/// One thing that a schema demands, at one place.
///
/// Its text is how tables name it: the path, then the keyword, as in `spec.weight maximum`,
/// `spec.template.spec.requirements[].key pattern`, `spec.template required` or `spec: 'weight' is not supported …`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    pub path: String,
    pub check: Check,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    Keyword(&'static str, String),
    Required,
    /// A CEL rule: its message, and whether it compares with the old object.
    Expression {
        message: String,
        is_transition: bool,
    },
}

/// Keywords with the words that the API server uses when they are violated; `{}` stands for the keyword's value.
const KEYWORDS: [(&str, &str); 9] = [
    ("pattern", "should match '{}'"),
    ("enum", "Unsupported value"),
    ("minimum", "should be greater than or equal to {}"),
    ("maximum", "should be less than or equal to {}"),
    ("minLength", "should be at least {} chars long"),
    ("maxLength", "may not be more than {} bytes"),
    ("minItems", "should have at least {} items"),
    ("maxItems", "must have at most {} items"),
    ("maxProperties", "must have at most {} items"),
];

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.check {
            Check::Keyword(keyword, _) => write!(f, "{} {keyword}", self.path),
            Check::Required => write!(f, "{} required", self.path),
            Check::Expression { message, .. } => write!(f, "{}: {message}", self.path),
        }
    }
}

impl Rule {
    /// Whether one cause of a refusal is this rule's: it stands at the rule's field and gives the rule's own reason.
    pub fn explains(&self, field: &str, message: &str) -> bool {
        let field = without_indices(field);
        let is_here = match &self.check {
            // A duplicate is reported at the entry, not at the list.
            Check::Keyword("unique", _) => field.strip_suffix("[]") == Some(self.path.as_str()),
            _ => match self.path.split_once("[*]") {
                None => field == self.path,
                Some((map, below)) => {
                    field.strip_prefix(map).is_some_and(|rest| rest.len() > 1 && rest.ends_with(below))
                }
            },
        };
        is_here && message.contains(&self.reason())
    }

    /// What the API server says when the rule is violated.
    pub fn reason(&self) -> String {
        match &self.check {
            Check::Keyword("unique", _) => "Duplicate value".to_owned(),
            Check::Keyword(keyword, value) => {
                let words = KEYWORDS.iter().find(|(name, _)| name == keyword).map_or("", |(_, words)| words);
                words.replace("{}", value)
            }
            Check::Required => "Required value".to_owned(),
            Check::Expression { message, .. } => message.clone(),
        }
    }
}

/// `a[0].b[12]` as `a[].b[]`.
fn without_indices(field: &str) -> String {
    let mut plain = String::new();
    let mut rest = field;
    while let Some((before, after)) = rest.split_once('[') {
        plain.push_str(before);
        let (index, tail) = after.split_once(']').unwrap_or((after, ""));
        let is_index = !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit());
        plain.push_str(&if is_index { "[]".to_owned() } else { format!("[{index}]") });
        rest = tail;
    }
    plain + rest
}

/// Every rule of a definition's only version.
pub fn rules_of(definition: &Value) -> BTreeSet<Rule> {
    let mut found = BTreeSet::new();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    visit(schema, None, "", &mut |rule| {
        found.insert(rule);
    });
    found
}

/// The rules that an accepted object has passed: those of every field that it has.
///
/// Rules about a change count only when there was one.
pub fn exercised(definition: &Value, object: &Value, is_update: bool) -> BTreeSet<Rule> {
    let mut found = BTreeSet::new();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    visit(schema, Some(object), "", &mut |rule| {
        if is_update || !matches!(rule.check, Check::Expression { is_transition: true, .. }) {
            found.insert(rule);
        }
    });
    found
}

/// Walks a schema, along an object if there is one, and reports the rules on the way.
fn visit(schema: &Value, object: Option<&Value>, path: &str, report: &mut dyn FnMut(Rule)) {
    // An empty list satisfies every rule about its entries without putting one to the test.
    let is_empty = object.is_some_and(|object| {
        object.as_array().is_some_and(Vec::is_empty) || object.as_object().is_some_and(serde_json::Map::is_empty)
    });
    if !is_empty {
        rules_here(schema, path, report);
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let member = object.map(|object| object.get(name));
        let is_required = schema["required"].as_array().is_some_and(|required| required.iter().any(|r| r == name));
        if is_required && member != Some(None) {
            report(Rule { path: below.clone(), check: Check::Required });
        }
        match member {
            None => visit(property, None, &below, report),
            Some(Some(member)) => visit(property, Some(member), &below, report),
            Some(None) => {}
        }
    }
    for (keyword, mark) in [("items", "[]"), ("additionalProperties", "[*]")] {
        let Some(inner) = schema.get(keyword) else { continue };
        let below = format!("{path}{mark}");
        match object {
            None => visit(inner, None, &below, report),
            Some(Value::Array(items)) => items.iter().for_each(|item| visit(inner, Some(item), &below, report)),
            Some(Value::Object(members)) => {
                members.values().for_each(|value| visit(inner, Some(value), &below, report))
            }
            Some(_) => {}
        }
    }
}

/// Keywords that shape a value, or that the structural rules of the API server make sure of. Any other keyword must be
/// given a meaning here, or it would go unchecked.
const SHAPE: [&str; 14] = [
    "type",
    "format",
    "description",
    "default",
    "properties",
    "required",
    "items",
    "additionalProperties",
    "anyOf",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
];

fn rules_here(schema: &Value, path: &str, report: &mut dyn FnMut(Rule)) {
    for keyword in schema.as_object().into_iter().flat_map(|members| members.keys()) {
        let is_known = SHAPE.contains(&keyword.as_str())
            || KEYWORDS.iter().any(|(name, _)| name == keyword)
            || keyword == "x-kubernetes-validations";
        assert!(is_known, "{path}: the keyword {keyword} has no rule");
    }
    for (keyword, _) in KEYWORDS {
        if let Some(value) = schema.get(keyword) {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            report(Rule { path: path.to_owned(), check: Check::Keyword(keyword, value) });
        }
    }
    if matches!(schema["x-kubernetes-list-type"].as_str(), Some("set" | "map")) {
        report(Rule { path: path.to_owned(), check: Check::Keyword("unique", String::new()) });
    }
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        let text = |name: &str| rule[name].as_str().unwrap_or_default().to_owned();
        let check = Check::Expression { message: text("message"), is_transition: text("rule").contains("oldSelf") };
        report(Rule { path: path.to_owned(), check });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition() -> Value {
        json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": {
            "type": "object",
            "required": ["spec"],
            "properties": {"spec": {
                "type": "object",
                "x-kubernetes-validations": [{"message": "no change", "rule": "self == oldSelf"}],
                "properties": {
                    "weight": {"type": "integer", "minimum": 1},
                    "list": {"type": "array", "maxItems": 3, "items": {
                        "type": "object", "required": ["key"], "properties": {"key": {"type": "string", "pattern": "^x$"}},
                    }},
                    "map": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 2}},
                },
            }},
        }}}]}})
    }

    fn texts(rules: &BTreeSet<Rule>) -> Vec<String> {
        rules.iter().map(Rule::to_string).collect()
    }

    #[test]
    fn every_rule_has_a_name() {
        assert_eq!(
            texts(&rules_of(&definition())),
            [
                "spec required",
                "spec: no change",
                "spec.list maxItems",
                "spec.list[].key pattern",
                "spec.list[].key required",
                "spec.map[*] maxLength",
                "spec.weight minimum",
            ]
        );
    }

    #[test]
    fn an_object_exercises_the_rules_of_the_fields_that_it_has() {
        let object = json!({"spec": {"list": [{"key": "x"}]}});
        assert_eq!(
            texts(&exercised(&definition(), &object, false)),
            ["spec required", "spec.list maxItems", "spec.list[].key pattern", "spec.list[].key required"]
        );
        assert!(texts(&exercised(&definition(), &object, true)).contains(&"spec: no change".to_owned()));
    }

    #[test]
    fn a_refusal_belongs_to_the_rule_whose_field_and_reason_it_gives() {
        let rules = rules_of(&definition());
        let rule = |name: &str| rules.iter().find(|rule| rule.to_string() == name).unwrap();
        let message = "Invalid value: \"y\": spec.list[2].key in body should match '^x$'";
        assert!(rule("spec.list[].key pattern").explains("spec.list[2].key", message));
        assert!(!rule("spec.list[].key pattern").explains("spec.list[2].key", "Required value"));
        assert!(!rule("spec.list[].key pattern").explains("spec.other[2].key", message));
        assert!(rule("spec.map[*] maxLength").explains("spec.map.a", "Too long: may not be more than 2 bytes"));
        assert!(!rule("spec.map[*] maxLength").explains("spec.map", "Too long: may not be more than 2 bytes"));
    }
}
