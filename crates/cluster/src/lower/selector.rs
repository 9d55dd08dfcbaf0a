//! Which pods, or namespaces, a label selector means.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use model::requirements::{Operator, Requirement, Requirements};
use model::topology::Selector;

use super::requirements::{Builder, operator};

/// A selector that is missing or makes no sense selects nothing; an empty one selects everything.
pub(super) fn selector(wire: Option<&LabelSelector>) -> Selector {
    wire.and_then(requirements).map_or(Selector::Nothing, Selector::Matching)
}

/// What the labels must satisfy; `None` when the selector makes no sense.
pub(super) fn requirements(wire: &LabelSelector) -> Option<Requirements> {
    let mut builder = Builder::default();
    for expression in wire.match_expressions.iter().flatten() {
        let values = expression.values.as_deref().unwrap_or_default();
        let operator = operator(&expression.operator)?;
        let is_sound = match operator {
            Operator::In | Operator::NotIn => !values.is_empty(),
            Operator::Exists | Operator::DoesNotExist => values.is_empty(),
            _ => false,
        };
        if !is_sound {
            return None;
        }
        builder.add(&expression.key, Some(operator), values);
    }
    let mut set = builder.build();
    for (key, value) in wire.match_labels.iter().flatten() {
        set.add(key.as_str(), Requirement::value(value.as_str().into()));
    }
    Some(set)
}
