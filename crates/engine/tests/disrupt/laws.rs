//! What holds for every cluster and every decision.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::disrupt::{Decision, StaticCount, decide};
use model::budget::{Budget, BudgetText, Reason};
use model::disruption::{Disruption, Method};
use model::eviction::{Blocking, blocked, is_charged_to};
use model::ids::{NodeName, PoolName};
use model::labels::{INSTANCE_TYPE, NODE_POOL};
use model::node::{Drifted, Node, Tenure};
use model::pod::{DoNotDisrupt, Readiness};
use model::pool::ConsolidationPolicy;
use model::price::Price;
use model::snapshot::Snapshot;
use proptest::prelude::*;
use proptest::sample::select;

use crate::cluster::{Cluster, NOW, at, carry_out, cluster};
use crate::random::{any_open_world, draws, seeded};

/// How a node of a random world is made ours.
#[derive(Clone, Copy, Debug)]
struct Made {
    is_ours: bool,
    is_kept: bool,
    is_drifted: bool,
    is_large: bool,
    /// Whether its drain has a deadline.
    has_grace: bool,
    /// Of the second pool, if there is one.
    is_second: bool,
}

fn any_made() -> impl Strategy<Value = Made> {
    let chances = (0..10_u8, 0..10_u8, 0..10_u8, 0..4_u8, 0..3_u8, any::<bool>());
    chances.prop_map(|(ours, kept, drifted, grace, second, is_large)| Made {
        is_ours: ours > 0,
        is_kept: kept == 0,
        is_drifted: drifted < 3,
        is_large,
        has_grace: grace == 0,
        is_second: second > 0,
    })
}

/// What is said of all nodes of a pool.
#[derive(Clone, Debug)]
pub(crate) struct Policies {
    budgets: Vec<&'static str>,
    policy: ConsolidationPolicy,
    /// PodDisruptionBudgets: over which pods, and how many they let go.
    pdbs: Vec<(&'static str, i32)>,
    /// One pod of twelve may not be disturbed.
    marks: Vec<u8>,
    /// Whether the second pool has a fixed number of nodes.
    is_static: bool,
}

/// Under budgets like these.
pub(crate) fn any_policies(budgets: &[&'static str]) -> impl Strategy<Value = Policies> + use<> {
    let budgets = proptest::collection::vec(select(budgets.to_vec()), 0..3);
    let policy = select(vec![ConsolidationPolicy::WhenEmptyOrUnderutilized, ConsolidationPolicy::Balanced]);
    let pdbs = proptest::collection::vec((select(vec!["x", "y"]), 0..3_i32), 0..2);
    let marks = proptest::collection::vec(0..12_u8, 24);
    (budgets, policy, pdbs, marks, any::<bool>()).prop_map(|(budgets, policy, pdbs, marks, is_static)| Policies {
        budgets,
        policy,
        pdbs,
        marks,
        is_static,
    })
}

fn any_cluster() -> impl Strategy<Value = Cluster> {
    let made = proptest::collection::vec(any_made(), 8);
    let budgets = ["0", "1", "2", "50%", "100%", "10%"];
    (any_open_world(), made, any_policies(&budgets)).prop_map(|((snapshot, pending), made, policies)| {
        let mut built = Cluster { snapshot, pending, ..cluster(Vec::new()) };
        built.snapshot.now = at(NOW);
        for (number, node) in built.snapshot.nodes.values_mut().enumerate() {
            make(Arc::make_mut(node), made[number % made.len()], built.snapshot.pools.len());
        }
        governed(built, &policies)
    })
}

/// Makes a node ours, of the first pool or of the second.
fn make(node: &mut Node, made: Made, pools: usize) {
    if !made.is_ours {
        return;
    }
    let pool = if made.is_second && pools > 1 { "q" } else { "p" };
    let type_name = if made.is_large { "arm-instance-type" } else { "default-instance-type" };
    node.pool = Some(pool.into());
    node.labels.insert(NODE_POOL.into(), pool.into());
    node.labels.insert(INSTANCE_TYPE.into(), type_name.into());
    let drifted = made.is_drifted.then(|| Drifted { since: at(NOW - 9), reason: "x".into() });
    node.tenure = Some(Tenure {
        do_not_disrupt: if made.is_kept { DoNotDisrupt::Always } else { DoNotDisrupt::No },
        initialized: Some(at(NOW - 500)),
        consolidatable: Some(at(NOW - 400)),
        grace: made.has_grace.then_some(Duration::from_secs(60)),
        drifted,
        ..Tenure::of(format!("claim-{}", node.name).into())
    });
}

/// A cluster whose pools and pods are under these policies.
pub(crate) fn governed(mut cluster: Cluster, policies: &Policies) -> Cluster {
    cluster.rules.spot_to_spot = true;
    let snapshot = &mut cluster.snapshot;
    let text = |nodes: &&str| Budget::parse(&BudgetText { nodes, reasons: None, schedule: None, duration: None });
    for pool in snapshot.pools.values_mut() {
        let pool = Arc::make_mut(pool);
        pool.budgets = policies.budgets.iter().map(text).collect();
        pool.consolidation.policy = policies.policy;
    }
    for (number, pod) in snapshot.pods.values_mut().filter(|pod| pod.node.is_some()).enumerate() {
        if policies.marks[number % policies.marks.len()] == 0 {
            Arc::make_mut(pod).do_not_disrupt = DoNotDisrupt::Always;
        }
    }
    let second = PoolName::from("q");
    let active = snapshot.nodes.values().filter(|node| node.tenure.is_some() && node.pool.as_ref() == Some(&second));
    let active = active.count() as i64;
    if policies.is_static && snapshot.pools.contains_key(&second) {
        cluster = cluster.replicas("q", active, StaticCount { active, ..StaticCount::default() });
    }
    policies.pdbs.iter().fold(cluster, |cluster, (app, allowed)| cluster.pdb(app, *allowed, |_| {}))
}

/// How many nodes may leave, for which reasons, and the window in which that counts.
type Limit = (&'static str, Option<Vec<&'static str>>, Option<(&'static str, Duration)>);

/// What is odd about a cluster beside that.
#[derive(Clone, Debug)]
struct Odd {
    /// Which nodes are not ready, and which are leaving already: one of ten each.
    nodes: Vec<(u8, u8)>,
    /// One pod of six is not ready.
    pods: Vec<u8>,
    limits: Vec<Limit>,
    /// Whether PodDisruptionBudgets let pods go that are not ready.
    lets_unhealthy_go: bool,
}

fn any_odd() -> impl Strategy<Value = Odd> {
    let nodes = select(vec!["0", "1", "2", "50%", "100%", "10%"]);
    let reasons = select(vec![
        None,
        None,
        Some(vec!["Underutilized"]),
        Some(vec!["Empty"]),
        Some(vec!["Drifted", "Underutilized"]),
        Some(vec!["Drifted"]),
    ]);
    // It is 13:46 in these clusters.
    let (open, closed) = (("40 13 * * *", Duration::from_secs(600)), ("0 3 * * *", Duration::from_secs(3600)));
    let limit = (nodes, reasons, select(vec![None, None, Some(open), Some(closed)]));
    let nodes = proptest::collection::vec((0..10_u8, 0..10_u8), 8);
    let pods = proptest::collection::vec(0..6_u8, 24);
    (nodes, pods, proptest::collection::vec(limit, 0..4), any::<bool>())
        .prop_map(|(nodes, pods, limits, lets_unhealthy_go)| Odd { nodes, pods, limits, lets_unhealthy_go })
}

fn any_odd_cluster() -> impl Strategy<Value = Cluster> {
    (any_cluster(), any_odd()).prop_map(|(mut cluster, odd)| {
        let snapshot = &mut cluster.snapshot;
        for (node, (ready, leaving)) in snapshot.nodes.values_mut().zip(odd.nodes.iter().cycle()) {
            let node = Arc::make_mut(node);
            node.is_leaving = *leaving == 0;
            node.tenure.iter_mut().for_each(|tenure| tenure.is_ready = *ready > 0);
        }
        for (pod, _) in snapshot.pods.values_mut().zip(odd.pods.iter().cycle()).filter(|(_, odd)| **odd == 0) {
            Arc::make_mut(pod).is_ready = Readiness::NotReady;
        }
        for pool in snapshot.pools.values_mut() {
            let text = odd.limits.iter().map(|(nodes, reasons, window)| {
                let (schedule, duration) = window.unzip();
                Budget::parse(&BudgetText { nodes, reasons: reasons.clone(), schedule, duration })
            });
            Arc::make_mut(pool).budgets = text.collect();
        }
        for budget in &mut snapshot.disruption_budgets {
            Arc::make_mut(budget).lets_unhealthy_go = odd.lets_unhealthy_go;
        }
        cluster
    })
}

/// Nothing that anybody asked to be left alone is touched, and no budget is overdrawn.
pub(crate) fn check_promises(cluster: &Cluster, decision: &Decision) {
    let snapshot = &cluster.snapshot;
    let mut taken: BTreeMap<PoolName, u32> = BTreeMap::new();
    let mut leaving = Vec::new();
    for command in &decision.commands {
        for leaver in &command.leaving {
            let node = &snapshot.nodes[&leaver.node];
            assert!(!node.tenure.as_ref().unwrap().do_not_disrupt.holds(snapshot.now));
            assert!(!leaving.contains(&leaver.node), "a node leaves once");
            leaving.push(leaver.node.clone());
            // Whoever was taken for another reason before counts as leaving, too.
            let (pool, reason) = (&leaver.pool, command.reason());
            *taken.entry(pool.clone()).or_default() += 1;
            let allowed = left_by_hand(snapshot, pool, reason);
            assert!(taken[pool] <= allowed, "{} of {pool} leave, {allowed} may for {reason:?}", taken[pool]);
            let has_deadline = !command.method.is_graceful() && node.tenure.as_ref().unwrap().grace.is_some();
            let pods = snapshot.pods.values().filter(|pod| pod.node.as_ref() == Some(&leaver.node));
            for pod in pods.filter(|_| !has_deadline) {
                assert!(!pod.is_protected(snapshot.now), "{} is protected", pod.name);
                assert_eq!(blocked(pod, &snapshot.disruption_budgets, Blocking::Now, snapshot.now), None);
            }
        }
    }
    for budget in &snapshot.disruption_budgets {
        let of = |command: &Disruption| {
            let pods =
                command.leaving.iter().flat_map(|leaver| &leaver.pods).filter_map(|name| snapshot.pods.get(name));
            pods.filter(|pod| is_charged_to(budget, pod, snapshot.now)).count()
        };
        let has_deadline = |command: &Disruption| {
            let mut nodes = command.nodes().map(|name| snapshot.nodes[name].tenure.as_ref().unwrap());
            !command.method.is_graceful() && nodes.any(|tenure| tenure.grace.is_some())
        };
        let mut before = 0;
        for command in decision.commands.iter().filter(|command| of(command) > 0) {
            let allowed = usize::try_from(budget.disruptions_allowed).unwrap().max(1);
            assert!(before < allowed || has_deadline(command), "{} has nothing left for {command:#?}", budget.name);
            before += of(command);
        }
    }
    let stays: Vec<&NodeName> = decision.staying.iter().map(|staying| &staying.node).collect();
    for name in snapshot.nodes.keys() {
        assert!(leaving.contains(name) != stays.contains(&name), "{name} either leaves or has a reason to stay");
    }
}

/// How many more nodes of a pool may leave, counted here once more: of those that have come, who leaves or is not ready counts.
fn left_by_hand(snapshot: &Snapshot, pool: &PoolName, reason: Reason) -> u32 {
    let of_pool = snapshot.nodes.values().filter(|node| node.pool.as_ref() == Some(pool));
    let here: Vec<_> = of_pool.filter(|node| node.is_initialized() && node.tenure.is_some()).collect();
    let gone = here.iter().filter(|node| node.is_leaving || !node.tenure.as_ref().unwrap().is_ready).count();
    let allowed = snapshot.pools[pool].budgets.allowed_disruptions(reason, snapshot.now, here.len() as u32);
    allowed.saturating_sub(gone as u32)
}

/// What every move lowers: the price of all nodes, and at equal price their number. Decision 0052.
fn potential(snapshot: &Snapshot) -> (Price, usize) {
    (price(snapshot), snapshot.nodes.len())
}

/// Nobody waits: what is left to do is decided by the cluster alone.
pub(crate) fn settled(mut cluster: Cluster) -> Cluster {
    cluster.pending.clear();
    cluster.snapshot.pods.retain(|_, pod| pod.node.is_some());
    cluster
}

/// What all nodes of ours cost.
pub(crate) fn price(snapshot: &Snapshot) -> Price {
    let own = |node: &Node| {
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
    fn no_decision_breaks_a_budget_or_a_protection(cluster in any_odd_cluster()) {
        let decision = decide(&cluster.scene(), &cluster.rules);
        check_promises(&cluster, &decision);
    }

    /// `decide` of the fixture holds every command before the judge, one after the other, and compares threads.
    #[test]
    fn no_decision_breaks_a_rule_of_the_scheduler(cluster in any_cluster()) {
        let cluster = settled(cluster);
        check_promises(&cluster, &cluster.decide());
    }

    #[test]
    fn a_cluster_that_nobody_changes_comes_to_rest_and_never_gets_dearer(cluster in any_cluster()) {
        come_to_rest_lawfully(cluster);
    }
}

/// Each move lowers the potential by itself and pays for itself in time, and there are only so many.
pub(crate) fn come_to_rest_lawfully(cluster: Cluster) {
    let mut cluster = settled(cluster);
    for node in cluster.snapshot.nodes.values_mut() {
        if let Some(tenure) = &mut Arc::make_mut(node).tenure {
            tenure.drifted = None;
        }
    }
    let (mut moves, most) = (0, 2 * cluster.snapshot.nodes.len());
    loop {
        let decision = cluster.decide();
        check_promises(&cluster, &decision);
        if decision.commands.is_empty() {
            return;
        }
        for (number, command) in decision.commands.iter().enumerate() {
            let before = potential(&cluster.snapshot);
            cluster.snapshot = carry_out(&cluster.snapshot, command, number);
            let after = potential(&cluster.snapshot);
            assert!(after < before, "{before:?} -> {after:?}");
            let payback = command.worth.pays_back_after;
            let pays = command.replacements.is_empty() || payback.is_some_and(|after| after <= cluster.rules.payback);
            assert!(pays, "{payback:?}");
            moves += 1;
        }
        assert!(moves <= most, "{moves} moves of {most}: it does not come to rest");
        cluster.snapshot.now = cluster.snapshot.now.plus(Duration::from_secs(600));
    }
}

/// How many commands of each method are decided on in these clusters.
pub(crate) fn counted(clusters: &[Cluster]) -> BTreeMap<&'static str, usize> {
    let mut counted = BTreeMap::new();
    for cluster in clusters {
        for command in decide(&cluster.scene(), &cluster.rules).commands {
            *counted.entry(name_of(command.method)).or_default() += 1;
        }
    }
    counted
}

fn name_of(method: Method) -> &'static str {
    match method {
        Method::Emptiness => "empty",
        Method::StaticDrift => "static",
        Method::Drift => "drift",
        Method::MultiConsolidation => "multi",
        Method::SingleConsolidation => "single",
    }
}

/// Laws about commands say nothing where there are none.
#[test]
fn the_clusters_of_the_laws_give_commands_of_every_kind() {
    let counted = counted(&draws(any_cluster(), 300));
    println!("{counted:?}");
    for (method, least) in [("empty", 20), ("static", 5), ("drift", 20), ("single", 10)] {
        assert!(counted.get(method).is_some_and(|count| *count >= least), "{method}: {counted:?}");
    }
}
