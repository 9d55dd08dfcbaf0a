//! PodDisruptionBudgets, as far as they decide whether pods can move.

use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use model::snapshot::PodBudget;
use model::topology::Selector;

use super::selector::selector;

pub fn budget(wire: &PodDisruptionBudget) -> PodBudget {
    let spec = wire.spec.as_ref();
    PodBudget {
        namespace: wire.metadata.namespace.as_deref().unwrap_or("default").into(),
        name: wire.metadata.name.as_deref().unwrap_or_default().into(),
        selector: spec.map_or(Selector::Nothing, |spec| selector(spec.selector.as_ref())),
        blocks_always: spec.is_some_and(blocks_always),
        disruptions_allowed: wire.status.as_ref().and_then(|status| status.disruptions_allowed).unwrap_or(0),
        lets_unhealthy_go: spec
            .is_some_and(|spec| spec.unhealthy_pod_eviction_policy.as_deref() == Some("AlwaysAllow")),
    }
}

/// Whether the terms never allow a disruption, however many pods there are and however well they are.
fn blocks_always(spec: &PodDisruptionBudgetSpec) -> bool {
    let lets_none_go = |most: &IntOrString| *most == IntOrString::Int(0) || percent(most) == Some(0);
    let keeps_all = |least: &IntOrString| percent(least).is_some_and(|percent| percent >= 100);
    spec.max_unavailable.as_ref().is_some_and(lets_none_go) || spec.min_available.as_ref().is_some_and(keeps_all)
}

fn percent(wire: &IntOrString) -> Option<u32> {
    match wire {
        IntOrString::Int(_) => None,
        IntOrString::String(text) => text.strip_suffix('%')?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(spec: Value, blocks_always: bool) {
        let wire = serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": spec.clone()})).unwrap();
        assert_eq!(budget(&wire).blocks_always, blocks_always, "{spec}");
    }

    #[test]
    fn a_budget_blocks_always_when_its_terms_can_never_be_met() {
        check(json!({"maxUnavailable": 0}), true);
        check(json!({"maxUnavailable": "0%"}), true);
        check(json!({"minAvailable": "100%"}), true);
        check(json!({"maxUnavailable": 1}), false);
        check(json!({"maxUnavailable": "1%"}), false);
        check(json!({"minAvailable": "99%"}), false);
        check(json!({"minAvailable": 100}), false);
        check(json!({"minAvailable": "all"}), false);
        check(json!({}), false);
    }

    #[test]
    fn a_budget_without_a_selector_selects_nothing_and_an_empty_one_everything() {
        let selector_of =
            |spec: Value| budget(&serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap()).selector;
        assert_eq!(selector_of(json!({})), Selector::Nothing);
        assert_eq!(selector_of(json!({"selector": {}})), Selector::Matching(Default::default()));
    }

    #[test]
    fn what_is_allowed_now_comes_from_the_status() {
        let wire = json!({
            "metadata": {"namespace": "a", "name": "web"},
            "spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"},
            "status": {"disruptionsAllowed": 2, "currentHealthy": 3, "desiredHealthy": 1, "expectedPods": 3},
        });
        let found = budget(&serde_json::from_value(wire).unwrap());
        assert_eq!((found.disruptions_allowed, found.lets_unhealthy_go), (2, true));
        assert_eq!((found.namespace.as_str(), &*found.name), ("a", "web"));
    }
}
