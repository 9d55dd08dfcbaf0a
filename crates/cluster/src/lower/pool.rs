//! NodePools with what the cloud offers them.

use std::sync::Arc;

use api::conditions::READY;
use api::labels::{NODE_POOL, node_class_label};
use api::nodepool::{Budget, ConsolidationPolicy as WirePolicy, Disruption, DisruptionReason, NodePoolSpec};
use api::{Condition, NodePool};
use model::budget::{self, BudgetText, Budgets, Reason};
use model::instance::InstanceType;
use model::pool::{Consolidation, ConsolidationPolicy, Limits, Pool, PoolKind, PoolState, Template};
use model::requirements::Requirements;
use model::resources::Resource;

use super::{labels, requirements, taints};

/// A pool. Budgets that cannot be understood stand beside the others, and stop its disruption.
pub fn pool(wire: &NodePool, instance_types: Vec<Arc<InstanceType>>) -> Pool {
    let spec = &wire.spec;
    let name = wire.metadata.name.as_deref().unwrap_or_default();
    Pool {
        name: name.into(),
        weight: spec.weight.unwrap_or(0),
        kind: spec.replicas.map_or(PoolKind::Dynamic, |replicas| PoolKind::Static { replicas }),
        state: state(wire),
        limits: limits(spec),
        template: template(name, spec),
        instance_types,
        budgets: budgets(&spec.disruption.budgets),
        consolidation: consolidation(&spec.disruption),
    }
}

/// What the pool asks of its nodes, without the labels that it gives them.
pub fn own_requirements(wire: &NodePool) -> Requirements {
    requirements::of_list(&wire.spec.template.spec.requirements)
}

fn state(wire: &NodePool) -> PoolState {
    let mut conditions = wire.status.iter().flat_map(|status| &status.conditions);
    if wire.metadata.deletion_timestamp.is_some() {
        PoolState::Deleting
    } else if conditions.any(|condition: &Condition| condition.type_ == READY && condition.is_true()) {
        PoolState::Ready
    } else {
        PoolState::NotReady
    }
}

fn limits(spec: &NodePoolSpec) -> Limits {
    let mut limits = Limits::default();
    for (name, quantity) in &spec.limits {
        match Resource::from_name(name) {
            Resource::Extended(extended) if extended.as_str() == "nodes" => limits.nodes = Some(quantity.units()),
            Resource::Cpu => limits.resources.push((Resource::Cpu, quantity.milli())),
            other => limits.resources.push((other, quantity.units())),
        }
    }
    limits
}

fn template(name: &str, spec: &NodePoolSpec) -> Template {
    let class = &spec.template.spec.node_class_ref;
    let mut node_labels = labels(Some(&spec.template.metadata.labels));
    node_labels.insert(NODE_POOL.into(), name.into());
    node_labels.insert(node_class_label(&class.group, &class.kind).into(), class.name.as_str().into());
    let mut all = requirements::of_list(&spec.template.spec.requirements);
    all.add_all(&requirements::of_labels(&node_labels));
    Template {
        labels: node_labels,
        requirements: all,
        taints: taints::of_list(&spec.template.spec.taints),
        startup_taints: taints::of_list(&spec.template.spec.startup_taints),
    }
}

fn consolidation(wire: &Disruption) -> Consolidation {
    let policy = match wire.consolidation_policy {
        WirePolicy::WhenEmpty => ConsolidationPolicy::WhenEmpty,
        WirePolicy::WhenEmptyOrUnderutilized => ConsolidationPolicy::WhenEmptyOrUnderutilized,
        WirePolicy::Balanced => ConsolidationPolicy::Balanced,
    };
    Consolidation { policy, after: wire.consolidate_after.value().map(api::Duration::to_std) }
}

fn budgets(wire: &[Budget]) -> Budgets {
    wire.iter().map(|budget| budget::Budget::parse(&text(budget))).collect()
}

fn text(budget: &Budget) -> BudgetText<'_> {
    BudgetText {
        nodes: &budget.nodes,
        reasons: budget.reasons.as_ref().map(|reasons| reasons.iter().map(|reason| word(*reason)).collect()),
        schedule: budget.schedule.as_deref(),
        duration: budget.duration.map(api::Duration::to_std),
    }
}

fn word(reason: DisruptionReason) -> &'static str {
    match reason {
        DisruptionReason::Underutilized => Reason::Underutilized,
        DisruptionReason::Empty => Reason::Empty,
        DisruptionReason::Drifted => Reason::Drifted,
        DisruptionReason::Unhealthy => Reason::Unhealthy,
    }
    .as_str()
}

#[cfg(test)]
mod tests {
    use model::resources::Resources;
    use model::time::Instant;
    use serde_json::{Value, json};

    use super::*;

    fn lower(spec: Value, rest: Value) -> Pool {
        let mut wire = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
            "spec": {"template": {
                "metadata": {"labels": {"team": "a", "beta.kubernetes.io/os": "linux"}},
                "spec": {
                    "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "small"},
                    "requirements": [
                        {"key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": 2},
                        {"key": "node.kubernetes.io/instance-type", "operator": "NotIn", "values": ["x"], "minValues": 3},
                        {"key": "failure-domain.beta.kubernetes.io/zone", "operator": "In", "values": ["a", "b"]},
                    ],
                    "taints": [{"key": "dedicated", "value": "a", "effect": "NoSchedule"}],
                    "startupTaints": [{"key": "cni", "effect": "NoExecute"}],
                },
            }},
        });
        for (key, value) in spec.as_object().unwrap() {
            wire["spec"][key] = value.clone();
        }
        if let Some(time) = rest.get("deletionTimestamp") {
            wire["metadata"]["deletionTimestamp"] = time.clone();
        }
        if let Some(status) = rest.get("ready") {
            wire["status"] = json!({"nodes": 0, "conditions": [
                {"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"},
            ]});
        }
        pool(&serde_json::from_value(wire).unwrap(), Vec::new())
    }

    #[test]
    fn requirements_are_the_pools_own_and_all_labels_of_its_nodes() {
        let pool = lower(json!({}), json!({}));
        let expected = [
            "karpenter.kwok.sh/kwoknodeclass In [small]",
            "karpenter.sh/nodepool In [default]",
            "kubernetes.io/os In [linux]",
            "node.kubernetes.io/instance-type NotIn [x] minValues 3",
            "team In [a]",
            "topology.kubernetes.io/zone In [a b]",
        ];
        assert_eq!(pool.template.requirements.to_string(), expected.join(", "));
        assert_eq!(pool.template.labels.len(), 4);
        assert_eq!(pool.template.taints[0].to_string(), "dedicated=a:NoSchedule");
        assert_eq!(pool.template.startup_taints[0].to_string(), "cni:NoExecute");
        assert_eq!((pool.weight, pool.kind), (0, PoolKind::Dynamic));
    }

    #[test]
    fn limits_count_nodes_apart_and_zero_is_a_limit() {
        let limits = lower(json!({"limits": {"cpu": "1500m", "nodes": "2", "example.com/gpu": "0"}}), json!({})).limits;
        assert_eq!(limits.nodes, Some(2));
        assert_eq!(limits.first_broken(2, &Resources::default().with("cpu", 1500)), None);
        assert_eq!(limits.first_broken(2, &Resources::default().with("cpu", 1501)).unwrap().limit, 1500);
        assert!(limits.first_broken(2, &Resources::default().with("example.com/gpu", 1)).is_some());
        assert!(limits.first_broken(3, &Resources::default()).is_some());
        assert!(lower(json!({}), json!({})).limits.is_empty());
    }

    #[test]
    fn a_pool_is_ready_when_it_says_so_and_is_not_going() {
        assert_eq!(lower(json!({}), json!({})).state, PoolState::NotReady);
        assert_eq!(lower(json!({}), json!({"ready": "Unknown"})).state, PoolState::NotReady);
        assert_eq!(lower(json!({}), json!({"ready": "True"})).state, PoolState::Ready);
        let going = json!({"ready": "True", "deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert_eq!(lower(json!({}), going).state, PoolState::Deleting);
        assert_eq!(lower(json!({"replicas": 3}), json!({})).kind, PoolKind::Static { replicas: 3 });
    }

    #[test]
    fn consolidation_has_the_apis_defaults_and_never_is_never() {
        assert_eq!(lower(json!({}), json!({})).consolidation, Consolidation::default());
        let of = |policy: &str, after: &str| {
            let disruption = json!({"consolidationPolicy": policy, "consolidateAfter": after});
            let found = lower(json!({"disruption": disruption}), json!({})).consolidation;
            (found.policy, found.after.map(|after| after.as_secs()))
        };
        assert_eq!(of("WhenEmpty", "30s"), (ConsolidationPolicy::WhenEmpty, Some(30)));
        assert_eq!(of("Balanced", "Never"), (ConsolidationPolicy::Balanced, None));
        assert_eq!(of("WhenEmptyOrUnderutilized", "0s"), (ConsolidationPolicy::WhenEmptyOrUnderutilized, Some(0)));
    }

    #[test]
    fn budgets_keep_their_reasons_and_windows_and_the_broken_ones() {
        let now = Instant::from_unix_seconds(0);
        let default = lower(json!({}), json!({})).budgets;
        assert_eq!(default.allowed_disruptions(Reason::Empty, now, 20), 2);
        let of = |budgets: Value| lower(json!({"disruption": {"budgets": budgets}}), json!({})).budgets;
        let by_reason = of(json!([{"nodes": "1", "reasons": ["Drifted"]}, {"nodes": "50%"}]));
        assert_eq!(by_reason.allowed_disruptions(Reason::Drifted, now, 20), 1);
        assert_eq!(by_reason.allowed_disruptions(Reason::Unhealthy, now, 20), 10);
        let nightly = of(json!([{"nodes": "0", "schedule": "0 12 * * *", "duration": "1h"}]));
        assert_eq!(nightly.allowed_disruptions(Reason::Empty, now, 20), model::budget::UNLIMITED);
        let broken = of(json!([{"nodes": "0", "schedule": "soon", "duration": "1h"}]));
        assert_eq!((broken.invalid().len(), broken.allowed_disruptions(Reason::Empty, now, 20)), (1, 0));
    }
}
