//! What holds for every cluster and every decision.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::disrupt::{Decision, allowances, decide};
use model::budget::{Budget, BudgetText, Reason};
use model::eviction::{Blocking, blocked, is_evictable, is_over};
use model::ids::{NodeName, PoolName};
use model::labels::{INSTANCE_TYPE, NODE_POOL};
use model::node::Tenure;
use model::pod::{DoNotDisrupt, Pod};
use model::pool::ConsolidationPolicy;
use model::price::Price;
use model::snapshot::{PodBudget, Snapshot};
use proptest::prelude::*;
use proptest::sample::select;

use crate::cluster::{Cluster, NOW, at, cluster};
use crate::fixture::selector;
use crate::random::{any_open_world, seeded};

/// How a node of a random world is made ours.
#[derive(Clone, Copy, Debug)]
struct Made {
    is_ours: bool,
    is_kept: bool,
    is_drifted: bool,
    is_large: bool,
}

fn any_made() -> impl Strategy<Value = Made> {
    (0..10_u8, 0..10_u8, 0..10_u8, any::<bool>()).prop_map(|(ours, kept, drifted, is_large)| Made {
        is_ours: ours > 0,
        is_kept: kept == 0,
        is_drifted: drifted < 2,
        is_large,
    })
}

fn any_cluster() -> impl Strategy<Value = Cluster> {
    let budgets = proptest::collection::vec(select(vec!["0", "1", "2", "50%", "100%", "10%"]), 0..3);
    let policy = select(vec![ConsolidationPolicy::WhenEmptyOrUnderutilized, ConsolidationPolicy::Balanced]);
    let pdbs = proptest::collection::vec((select(vec!["x", "y"]), 0..3_i32), 0..2);
    let made = proptest::collection::vec(any_made(), 8);
    let marks = proptest::collection::vec(0..12_u8, 24);
    (any_open_world(), made, budgets, policy, pdbs, marks).prop_map(
        |((snapshot, pending), made, budgets, policy, pdbs, marks)| {
            build(snapshot, pending, &made, &budgets, policy, &pdbs, &marks)
        },
    )
}

fn build(
    snapshot: Snapshot,
    pending: Vec<Pod>,
    made: &[Made],
    budgets: &[&str],
    policy: ConsolidationPolicy,
    pdbs: &[(&str, i32)],
    marks: &[u8],
) -> Cluster {
    let mut built = cluster(Vec::new());
    built.snapshot = snapshot;
    built.snapshot.now = at(NOW);
    built.pending = pending;
    built.rules.spot_to_spot = true;
    let pool: PoolName = "p".into();
    let text = |nodes: &&str| Budget::parse(&BudgetText { nodes, reasons: None, schedule: None, duration: None });
    for pool in built.snapshot.pools.values_mut() {
        let pool = Arc::make_mut(pool);
        pool.budgets = budgets.iter().map(text).collect();
        pool.consolidation.policy = policy;
    }
    for (number, node) in built.snapshot.nodes.values_mut().enumerate() {
        let (node, made) = (Arc::make_mut(node), made[number % made.len()]);
        if !made.is_ours {
            continue;
        }
        let type_name = if made.is_large { "arm-instance-type" } else { "default-instance-type" };
        node.pool = Some(pool.clone());
        node.labels.insert(NODE_POOL.into(), "p".into());
        node.labels.insert(INSTANCE_TYPE.into(), type_name.into());
        let drifted = made.is_drifted.then(|| model::node::Drifted { since: at(NOW - 9), reason: "x".into() });
        node.tenure = Some(Tenure {
            do_not_disrupt: made.is_kept,
            initialized: Some(at(NOW - 500)),
            consolidatable: Some(at(NOW - 400)),
            drifted,
            ..Tenure::of(format!("claim-{}", node.name).into())
        });
    }
    for (number, pod) in built.snapshot.pods.values_mut().filter(|pod| pod.node.is_some()).enumerate() {
        if marks[number % marks.len()] == 0 {
            Arc::make_mut(pod).do_not_disrupt = DoNotDisrupt::Always;
        }
    }
    for (app, allowed) in pdbs {
        built.snapshot.disruption_budgets.push(Arc::new(PodBudget {
            namespace: "default".into(),
            name: (*app).into(),
            selector: selector(&[("app", app)]),
            blocks_always: *allowed == 0,
            disruptions_allowed: *allowed,
            lets_unhealthy_go: false,
        }));
    }
    built
}

/// Nothing that anybody asked to be left alone is touched, and no budget is overdrawn.
fn check_promises(cluster: &Cluster, decision: &Decision) {
    let snapshot = &cluster.snapshot;
    let mut by_pool: BTreeMap<(PoolName, Reason), u32> = BTreeMap::new();
    let mut leaving = Vec::new();
    for command in &decision.commands {
        for leaver in &command.leaving {
            let node = &snapshot.nodes[&leaver.node];
            assert!(!node.tenure.as_ref().unwrap().do_not_disrupt);
            assert!(!leaving.contains(&leaver.node), "a node leaves once");
            leaving.push(leaver.node.clone());
            *by_pool.entry((leaver.pool.clone(), command.reason())).or_default() += 1;
            for pod in snapshot.pods.values().filter(|pod| pod.node.as_ref() == Some(&leaver.node)) {
                assert!(!pod.is_protected(snapshot.now), "{} is protected", pod.name);
                assert_eq!(blocked(pod, &snapshot.disruption_budgets, Blocking::Now, snapshot.now), None);
            }
        }
    }
    let all: BTreeMap<&PoolName, u32> = by_pool.iter().fold(BTreeMap::new(), |mut sums, ((pool, _), count)| {
        *sums.entry(pool).or_default() += count;
        sums
    });
    for allowance in allowances(&cluster.scene()) {
        if by_pool.contains_key(&(allowance.pool.clone(), allowance.reason)) {
            assert!(all[&allowance.pool] <= allowance.left(), "{allowance:?}");
        }
    }
    for budget in &snapshot.disruption_budgets {
        let asks = |pod: &Pod| is_over(budget, pod) && is_evictable(pod, snapshot.now);
        let of = |command: &model::disruption::Disruption| {
            let pods =
                command.leaving.iter().flat_map(|leaver| &leaver.pods).filter_map(|name| snapshot.pods.get(name));
            pods.filter(|pod| asks(pod)).count()
        };
        let asked: Vec<usize> = decision.commands.iter().map(of).filter(|count| *count > 0).collect();
        let before_last: usize = asked.iter().take(asked.len().saturating_sub(1)).sum();
        assert!(asked.is_empty() || before_last < usize::try_from(budget.disruptions_allowed).unwrap().max(1));
    }
    let stays: Vec<&NodeName> = decision.staying.iter().map(|staying| &staying.node).collect();
    for name in snapshot.nodes.keys() {
        assert!(leaving.contains(name) != stays.contains(&name), "{name} either leaves or has a reason to stay");
    }
}

/// What all nodes of ours cost.
pub(crate) fn price(snapshot: &Snapshot) -> Price {
    let own = |node: &model::node::Node| {
        let pool = snapshot.pools.get(node.pool.as_ref()?)?;
        let offered = pool.instance_type(node.labels.get(INSTANCE_TYPE)?)?;
        let same = offered.offerings.iter().find(|one| {
            one.requirements.iter().all(|(key, asked)| node.labels.get(key).is_some_and(|value| asked.has(value)))
        });
        same.map(|one| one.price)
    };
    snapshot.nodes.values().filter_map(|node| own(node)).fold(Price::ZERO, Price::plus)
}

proptest! {
    #![proptest_config(seeded(300))]

    #[test]
    fn no_decision_breaks_a_budget_or_a_protection(cluster in any_cluster()) {
        let decision = decide(&cluster.scene(), &cluster.rules);
        check_promises(&cluster, &decision);
    }

    /// `decide` of the fixture holds every command before the judge, one after the other, and compares threads.
    #[test]
    fn no_decision_breaks_a_rule_of_the_scheduler(cluster in any_cluster()) {
        let mut cluster = cluster;
        cluster.pending.clear();
        cluster.snapshot.pods.retain(|_, pod| pod.node.is_some());
        check_promises(&cluster, &cluster.decide());
    }

    #[test]
    fn a_cluster_that_nobody_changes_comes_to_rest_and_never_gets_dearer(cluster in any_cluster()) {
        let mut cluster = cluster;
        cluster.pending.clear();
        cluster.snapshot.pods.retain(|_, pod| pod.node.is_some());
        for node in cluster.snapshot.nodes.values_mut() {
            if let Some(tenure) = &mut Arc::make_mut(node).tenure {
                tenure.drifted = None;
            }
        }
        let mut rounds = 0;
        loop {
            let before = price(&cluster.snapshot);
            let decision = cluster.decide();
            if decision.commands.is_empty() {
                break;
            }
            let nodes = cluster.snapshot.nodes.len();
            cluster.snapshot = cluster.carried_out(&decision);
            cluster.snapshot.now = cluster.snapshot.now.plus(std::time::Duration::from_secs(600));
            let after = price(&cluster.snapshot);
            prop_assert!(after < before || (after == before && cluster.snapshot.nodes.len() < nodes), "{before} -> {after}");
            rounds += 1;
            prop_assert!(rounds <= 20, "it does not come to rest");
        }
    }
}
