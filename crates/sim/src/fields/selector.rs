//! Label selectors and node selector terms.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::each;

/// What a label selector asks for, read once. Every requirement must be met; without any, everything is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    /// A selector that is missing means nothing.
    is_missing: bool,
    requirements: Vec<Requirement>,
}

/// What one label, or one field of a node, must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Requirement {
    pub(crate) key: String,
    pub(crate) wanted: Wanted,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    Absent,
    Above(i64),
    Below(i64),
    /// It cannot be understood, so nothing meets it.
    Never,
}

impl Selector {
    pub(crate) fn all(requirements: Vec<Requirement>) -> Self {
        Self { is_missing: false, requirements }
    }

    /// The structured form, `matchLabels` and `matchExpressions`.
    pub(crate) fn of(wire: &Value) -> Self {
        let labels = wire["matchLabels"].as_object().into_iter().flatten().map(|(key, value)| {
            let wanted = value.as_str().map_or(Wanted::Never, |value| Wanted::In(BTreeSet::from([value.to_owned()])));
            Requirement { key: key.clone(), wanted }
        });
        let expressions = each(&wire["matchExpressions"]).map(|wire| match Requirement::of(wire) {
            // Only nodes are selected by numbers.
            Requirement { key, wanted: Wanted::Above(_) | Wanted::Below(_) } => {
                Requirement { key, wanted: Wanted::Never }
            }
            requirement => requirement,
        });
        Self { is_missing: !wire.is_object(), requirements: labels.chain(expressions).collect() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether it means an object with these labels.
    pub(crate) fn matches(&self, labels: &Value) -> bool {
        !self.is_missing
            && self.requirements.iter().all(|requirement| requirement.is_met(labels[requirement.key.as_str()].as_str()))
    }
}

impl Requirement {
    fn of(wire: &Value) -> Self {
        let values = || each(&wire["values"]).filter_map(Value::as_str).map(str::to_owned).collect();
        let bound = || wire["values"][0].as_str().and_then(|text| text.parse().ok());
        let wanted = match wire["operator"].as_str().unwrap_or_default() {
            "In" => Wanted::In(values()),
            "NotIn" => Wanted::NotIn(values()),
            "Exists" => Wanted::Exists,
            "DoesNotExist" => Wanted::Absent,
            "Gt" => bound().map_or(Wanted::Never, Wanted::Above),
            "Lt" => bound().map_or(Wanted::Never, Wanted::Below),
            _ => Wanted::Never,
        };
        Self { key: wire["key"].as_str().unwrap_or_default().to_owned(), wanted }
    }

    fn is_met(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.wanted {
            Wanted::In(values) => value.is_some_and(|value| values.contains(value)),
            Wanted::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Wanted::Exists => value.is_some(),
            Wanted::Absent => value.is_none(),
            Wanted::Above(bound) => number().is_some_and(|number| number > *bound),
            Wanted::Below(bound) => number().is_some_and(|number| number < *bound),
            Wanted::Never => false,
        }
    }
}

/// Whether a node is meant by one of the terms. A term without any expression means no node, and neither does an empty list.
pub(crate) fn matches_node_terms(terms: &Value, node: &Value) -> bool {
    each(terms).any(|term| matches_term(term, node))
}

fn matches_term(term: &Value, node: &Value) -> bool {
    let mut expressions = each(&term["matchExpressions"]).map(Requirement::of).peekable();
    let mut fields = each(&term["matchFields"]).map(Requirement::of).peekable();
    if expressions.peek().is_none() && fields.peek().is_none() {
        return false;
    }
    let labels = node["metadata"]["labels"].as_object();
    let label = |key: &str| labels.and_then(|labels: &Map<String, Value>| labels.get(key)).and_then(Value::as_str);
    expressions.all(|expression| expression.is_met(label(&expression.key)))
        && fields.all(|field| field.key == "metadata.name" && field.is_met(node["metadata"]["name"].as_str()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_selector_means_what_all_its_parts_mean() {
        let labels = json!({"app": "a", "tier": "web", "rank": "2"});
        for (selector, expected) in [
            (json!({}), true),
            (Value::Null, false),
            (json!({"matchLabels": {"app": "a"}}), true),
            (json!({"matchLabels": {"app": "b"}}), false),
            (json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]}), true),
            (json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]}), false),
            (json!({"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}), true),
            (json!({"matchExpressions": [{"key": "zone", "operator": "Exists"}]}), false),
            (json!({"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}), true),
            (json!({"matchExpressions": [{"key": "app", "operator": "Like", "values": ["a"]}]}), false),
            (json!({"matchExpressions": [{"key": "rank", "operator": "Gt", "values": ["1"]}]}), false),
            (
                json!({"matchLabels": {"app": "a"}, "matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}),
                false,
            ),
        ] {
            assert_eq!(Selector::of(&selector).matches(&labels), expected, "{selector}");
        }
        assert!(!Selector::of(&json!({"matchLabels": {"app": "a"}})).matches(&Value::Null));
    }

    #[test]
    fn one_node_term_is_enough_and_an_empty_one_means_nothing() {
        let node = json!({"metadata": {"name": "n1", "labels": {"zone": "a", "size": "8"}}});
        let by_name = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]);
        let by_size = json!([{"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["4"]}]}]);
        let other = json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}, {}]);
        assert!(matches_node_terms(&by_name, &node) && matches_node_terms(&by_size, &node));
        assert!(!matches_node_terms(&other, &node) && !matches_node_terms(&json!([]), &node));
    }
}
