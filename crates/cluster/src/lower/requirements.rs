//! Demands on a node's labels, in the spellings of Kubernetes and of our own kinds.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::labels::normalized;
use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};
use model::labels::{HOSTNAME, Labels};
use model::requirements::{Operator, Requirement, Requirements};

/// Adds up demands on label keys.
///
/// Exclusions are held back to the end: joined one by one, ten thousand of them on one key would copy a growing set ten
/// thousand times.
#[derive(Default)]
pub(super) struct Builder<'a> {
    set: Requirements,
    excluded: BTreeMap<&'a str, Vec<&'a str>>,
}

impl<'a> Builder<'a> {
    /// An operator that nobody knows matches nothing.
    pub(super) fn add(&mut self, key: &'a str, operator: Option<Operator>, values: &'a [String]) {
        let values = values.iter().map(String::as_str);
        match operator {
            Some(Operator::NotIn) => self.excluded.entry(key).or_default().extend(values),
            Some(operator) => self.set.add(key, requirement(operator, values)),
            None => self.set.add(key, nothing()),
        }
    }

    pub(super) fn build(self) -> Requirements {
        let Self { mut set, excluded } = self;
        for (key, values) in excluded {
            set.add(key, Requirement::new(Operator::NotIn, values));
        }
        set
    }
}

fn requirement<'a>(operator: Operator, values: impl ExactSizeIterator<Item = &'a str>) -> Requirement {
    let is_bound = matches!(operator, Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte);
    if is_bound && values.len() != 1 { nothing() } else { Requirement::new(operator, values) }
}

/// What no node satisfies.
fn nothing() -> Requirement {
    Requirement::new(Operator::In, [])
}

/// A set that no node satisfies.
pub(super) fn impossible() -> Requirements {
    Requirements::default().with(HOSTNAME, nothing())
}

/// The operators that Kubernetes itself has. Those with "or equal" are ours alone, and no pod may use them.
pub(super) fn operator(text: &str) -> Option<Operator> {
    Operator::parse(text).filter(|operator| !matches!(operator, Operator::Gte | Operator::Lte))
}

/// The same operator as our own kinds spell it.
pub(super) fn to_api(operator: Operator) -> api::requirement::Operator {
    use api::requirement::Operator as Api;
    match operator {
        Operator::In => Api::In,
        Operator::NotIn => Api::NotIn,
        Operator::Exists => Api::Exists,
        Operator::DoesNotExist => Api::DoesNotExist,
        Operator::Gt => Api::Gt,
        Operator::Lt => Api::Lt,
        Operator::Gte => Api::Gte,
        Operator::Lte => Api::Lte,
    }
}

fn from_api(operator: api::requirement::Operator) -> Operator {
    use api::requirement::Operator as Api;
    match operator {
        Api::In => Operator::In,
        Api::NotIn => Operator::NotIn,
        Api::Exists => Operator::Exists,
        Api::DoesNotExist => Operator::DoesNotExist,
        Api::Gt => Operator::Gt,
        Api::Lt => Operator::Lt,
        Api::Gte => Operator::Gte,
        Api::Lte => Operator::Lte,
    }
}

/// The requirements of a pool, a claim or an overlay.
pub(super) fn of_list(list: &[api::requirement::Requirement]) -> Requirements {
    let mut set = Requirements::default();
    for wire in list {
        let values = wire.values.iter().map(String::as_str);
        let min_values = wire.min_values.map(|least| u32::try_from(least.max(0)).unwrap_or(u32::MAX));
        let requirement = requirement(from_api(wire.operator), values).with_min_values(min_values);
        set.add(normalized(&wire.key), requirement);
    }
    set
}

/// Each label as a demand for just its value.
pub(super) fn of_labels(labels: &Labels) -> Requirements {
    let entries = labels.iter().map(|(key, value)| (Arc::from(normalized(key)), Requirement::value(value.clone())));
    entries.collect()
}

pub(super) fn of_selector(selector: Option<&BTreeMap<String, String>>) -> Requirements {
    of_labels(&super::labels(selector))
}

/// Required terms, of which one must hold. An empty term selects nothing, and so does an empty list.
pub(super) fn of_required(selector: Option<&NodeSelector>) -> Vec<Requirements> {
    let Some(selector) = selector else { return Vec::new() };
    let terms: Vec<Requirements> = selector.node_selector_terms.iter().filter_map(of_term).collect();
    // No term at all would mean that nothing is asked.
    if terms.is_empty() { vec![impossible()] } else { terms }
}

/// A term's demands; `None` for a term that says nothing.
pub(super) fn of_term(term: &NodeSelectorTerm) -> Option<Requirements> {
    if is_silent(term) {
        return None;
    }
    let mut builder = Builder::default();
    for expression in term.match_expressions.iter().flatten() {
        builder.add(normalized(&expression.key), operator(&expression.operator), values(expression));
    }
    for field in term.match_fields.iter().flatten() {
        // The only field there is. A node's hostname is its name nearly everywhere, and a machine that does not exist
        // yet has neither.
        let operator = if field.key == "metadata.name" { operator(&field.operator) } else { None };
        builder.add(HOSTNAME, operator, values(field));
    }
    Some(builder.build())
}

pub(super) fn is_silent(term: &NodeSelectorTerm) -> bool {
    term.match_expressions.iter().chain(&term.match_fields).flatten().next().is_none()
}

pub(super) fn values(expression: &NodeSelectorRequirement) -> &[String] {
    expression.values.as_deref().unwrap_or_default()
}
