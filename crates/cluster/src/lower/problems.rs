//! What a pod's author asks of nodes and no node of ours can give.

use api::labels::LabelRules;
use api::validate::requirement_problems;
use k8s_openapi::api::core::v1::{NodeSelectorRequirement, PodSpec};
use model::labels::NODE_POOL;
use model::pod::Wants;
use model::requirements::Requirements;
use model::why::PodProblem;

use super::{requirements, wants};

/// Nobody reads more, and a pod can hold ten thousand.
const MOST: usize = 8;

/// Whether the pod asks for a node without a pool: by its selector, or by every one of its required terms.
///
/// The reference also leaves pods alone that merely prefer such nodes. A preference is no refusal, so we serve them.
pub(super) fn wants_other_nodes(wants: &Wants) -> bool {
    let refuses_pools = |set: &Requirements| {
        set.get(NODE_POOL).is_some_and(|requirement| requirement.allows_absent() && !requirement.allows_a_value())
    };
    refuses_pools(&wants.selector) || (!wants.terms.is_empty() && wants.terms.iter().all(refuses_pools))
}

/// What is wrong with the node selector and the required terms. Preferences may say what they like.
pub(super) fn of_spec(spec: &PodSpec, rules: &LabelRules) -> Vec<PodProblem> {
    let mut problems: Vec<PodProblem> = selector_problems(spec, rules).take(MOST).collect();
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let Some(required) = affinity.and_then(wants::required) else { return problems };
    let terms = &required.node_selector_terms;
    if terms.iter().any(|term| term.match_fields.as_ref().is_some_and(|fields| !fields.is_empty())) {
        problems.push(PodProblem::MatchFields);
    }
    if terms.iter().all(requirements::is_silent) {
        problems.push(problem("required node affinity", "no term selects anything; add an expression or remove it"));
    }
    let in_terms = terms.iter().enumerate().flat_map(|(index, term)| {
        let place = format!("required node affinity term {index}");
        let expressions = term.match_expressions.iter().flatten();
        expressions
            .flat_map(|expression| expression_problems(expression, rules))
            .map(move |text| problem(&place, &text))
    });
    problems.extend(in_terms.take(MOST));
    problems
}

fn selector_problems<'a>(spec: &'a PodSpec, rules: &'a LabelRules) -> impl Iterator<Item = PodProblem> + 'a {
    spec.node_selector.iter().flatten().flat_map(|(key, value)| {
        let requirement = api::requirement::Requirement {
            key: key.clone(),
            operator: api::requirement::Operator::In,
            values: vec![value.clone()],
            min_values: None,
        };
        requirement_problems(&requirement, rules).into_iter().map(|text| problem("node selector", &text))
    })
}

fn expression_problems(expression: &NodeSelectorRequirement, rules: &LabelRules) -> Vec<String> {
    let Some(operator) = requirements::operator(&expression.operator) else {
        return vec![format!("operator {:?} on {} is not known", expression.operator, expression.key)];
    };
    let requirement = api::requirement::Requirement {
        key: expression.key.clone(),
        operator: requirements::to_api(operator),
        values: requirements::values(expression).to_vec(),
        min_values: None,
    };
    requirement_problems(&requirement, rules)
}

fn problem(place: &str, text: &str) -> PodProblem {
    PodProblem::Requirement { text: format!("{place}: {text}").into() }
}
