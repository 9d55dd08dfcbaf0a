//! What decisions and commands tell logs, metrics and people.

use std::collections::BTreeMap;
use std::time::Duration;

use api::NodeClaim;
use engine::disrupt::{Allowance, Decision, Dropped, Rejection};
use model::budget::Reason;
use model::disruption::{Decided, Disruption, Leaver, Method, PoolScore, Share, Stay, Staying, Verb, Verdict};
use model::ids::NodeName;
use model::instance::CapacityType;
use model::labels::CAPACITY_TYPE;
use model::plan::PlannedClaim;
use model::pool::ConsolidationPolicy as Policy;
use runtime::Note;
use serde_json::{Value, json};

use super::commands::Command;
use crate::ctx::Ctx;
use crate::disrupted;
use crate::events::disruption::{self as events, Pair};
use crate::events::listed;
use crate::metrics::{
    ByConsolidation, ByDecision, ByMethod, ByPoolDecision, ByPoolReason, ByReason, ConsolidationPolicy,
    DisruptedReason, DisruptionDecision, MoveDecision, Moved,
};

/// A decision was made: what may leave, what stays and why, and what is about to be done. Gives back what nodes that stay
/// could not be told now.
pub(super) fn decided(ctx: &Ctx, decision: &Decision, took: Duration) -> Vec<Note> {
    let metrics = &ctx.metrics.disruption;
    let mut eligible: BTreeMap<DisruptedReason, usize> = BTreeMap::new();
    for (method, nodes) in &decision.eligible {
        let labels = ByMethod { reason: reason_of(*method), consolidation_type: method.consolidation_type() };
        metrics.evaluation_duration.get_or_create(&labels).observe(took.as_secs_f64());
        let sum = eligible.entry(reason_of(*method)).or_default();
        // Static and other pools have drifted nodes of their own; consolidation of one and of many choose among the same.
        *sum = if method.reason() == Reason::Drifted { *sum + nodes } else { (*sum).max(*nodes) };
    }
    for (reason, nodes) in eligible {
        metrics.eligible_nodes.get_or_create(&ByReason { reason }).set(nodes as f64);
    }
    tell_allowances(ctx, &decision.allowances);
    decision.scores.iter().for_each(|score| count_score(ctx, score));
    for command in &decision.commands {
        tell_found(ctx, command);
    }
    let notes = |staying: &Staying| events::staying(pair_of(ctx, &staying.node), &staying.first);
    decision.staying.iter().flat_map(notes).filter_map(|note| ctx.recorder.try_publish(note)).collect()
}

fn tell_allowances(ctx: &Ctx, allowances: &[Allowance]) {
    let metrics = &ctx.metrics.disruption;
    metrics.allowed_disruptions.clear();
    metrics.nodes_consuming_budgets.clear();
    for allowance in allowances {
        let Some(reason) = budget_reason(allowance.reason) else { continue };
        let labels = ByPoolReason { nodepool: allowance.pool.to_string(), reason };
        metrics.allowed_disruptions.get_or_create(&labels).set(f64::from(allowance.allowed));
        metrics.nodes_consuming_budgets.get_or_create(&labels).set(f64::from(allowance.consuming));
        if allowance.nodes > 0 && allowance.allowed == 0 {
            let pool = ctx.store().node_pool(&allowance.pool).cloned();
            publish(ctx, pool.map(|pool| events::pool_blocked(&pool, allowance.reason)));
        } else if allowance.unready > 0 && allowance.left() == 0 {
            let pool = ctx.store().node_pool(&allowance.pool).cloned();
            publish(ctx, pool.map(|pool| events::pool_used_up(&pool, allowance.reason, allowance.unready)));
        }
    }
}

fn count_score(ctx: &Ctx, score: &PoolScore) {
    let decision = match score.verdict {
        Verdict::Approved => MoveDecision::Approved,
        Verdict::Rejected => MoveDecision::Rejected,
    };
    let policy = match score.policy {
        Policy::WhenEmpty => "WhenEmpty",
        Policy::WhenEmptyOrUnderutilized => "WhenEmptyOrUnderutilized",
        Policy::Balanced => "Balanced",
    };
    let labels = Moved { decision, nodepool: score.pool.to_string(), policy };
    ctx.metrics.disruption.moves.get_or_create(&labels).inc();
    if score.policy == Policy::Balanced {
        // Beyond all bounds or unknown: the one is worth any disturbance, the other none.
        let beyond = if score.verdict == Verdict::Approved { f64::INFINITY } else { 0.0 };
        let value = score.score().unwrap_or(beyond);
        ctx.metrics.disruption.scores.get_or_create(&labels).observe(value);
        tracing::debug!(
            nodepool = score.pool.as_str(),
            score = value,
            savings_fraction = score.savings.map(Share::fraction),
            disruption_fraction = score.disruption.map(Share::fraction),
            decision = decision.as_str(),
            "consolidation score"
        );
    }
}

/// Nodes hear that they may be replaced, and that a Balanced pool finds it worth while.
fn tell_found(ctx: &Ctx, command: &Disruption) {
    if command.reason() != Reason::Underutilized {
        return;
    }
    if command.verb() == Verb::Replace {
        for leaver in &command.leaving {
            let pair = pair(ctx, &leaver.node, &leaver.claim);
            publish(ctx, events::consolidation_candidate(pair, command, &leaver.node));
        }
    }
    let is_approval = |score: &&PoolScore| score.policy == Policy::Balanced && score.verdict == Verdict::Approved;
    for score in command.worth.scores.iter().filter(is_approval) {
        match &*command.leaving {
            [only] => publish(ctx, events::consolidation_approved(pair(ctx, &only.node, &only.claim), score)),
            _ => {
                let pool = ctx.store().node_pool(&score.pool).cloned();
                publish(ctx, pool.map(|pool| events::pool_approved(&pool, score)));
            }
        }
    }
}

/// A command did not hold at its second look.
pub(super) fn rejected(ctx: &Ctx, command: &Command, why: Rejection, stays: &[(NodeName, Stay)]) {
    let what = &*command.what;
    // What the plan itself says is no fault of the nodes.
    if matches!(why, Rejection::Churn | Rejection::Budget) {
        count_invalid(ctx, what, what.leaving.len());
    }
    for leaver in what.leaving.iter().filter(|_| what.reason() == Reason::Underutilized) {
        let pair = pair(ctx, &leaver.node, &leaver.claim);
        publish(ctx, events::consolidation_rejected(pair, what, &leaver.node, why.as_str()));
    }
    let causes: Vec<String> = stays.iter().map(|(node, stay)| format!("{node}: {stay}")).collect();
    let (text, causes) = (logged(command), causes.join("; "));
    let message = match what.method {
        Method::Emptiness => "abandoning empty node consolidation attempt due to pod churn, command is no longer valid",
        _ => "abandoning consolidation attempt, command is no longer valid",
    };
    tracing::debug!(command = text, reason = why.as_str(), causes, "{message}");
}

/// Some of the empty nodes of a command that goes on have to stay.
pub(super) fn dropped(ctx: &Ctx, what: &Disruption, dropped: &[(NodeName, Dropped)]) {
    let is_counted = |dropped: &&(NodeName, Dropped)| matches!(dropped.1, Dropped::Nominated | Dropped::Budget);
    count_invalid(ctx, what, dropped.iter().filter(is_counted).count());
    for (node, why) in dropped {
        tracing::debug!(Node = %node, why = ?why, "not removed after all");
    }
}

fn count_invalid(ctx: &Ctx, what: &Disruption, nodes: usize) {
    if nodes > 0 {
        let labels = ByConsolidation { consolidation_type: what.method.consolidation_type() };
        ctx.metrics.disruption.failed_validations.get_or_create(&labels).inc_by(nodes as u64);
    }
}

/// A command is about to touch its nodes.
pub(super) fn begins(command: &Command) {
    let what = &*command.what;
    let pods: usize = what.leaving.iter().map(|leaver| leaver.pods.len()).sum();
    let nodes = Value::from(what.leaving.iter().map(of_leaver).collect::<Vec<_>>()).to_string();
    let replacements = of_replacements(&what.replacements).to_string();
    tracing::info!(
        command = logged(command),
        decision = what.verb().as_str(),
        "disrupted-node-count" = what.leaving.len(),
        "replacement-node-count" = what.replacements.len(),
        "pod-count" = pods,
        "disrupted-nodes" = nodes,
        "replacement-nodes" = replacements,
        why = what.why(),
        "disrupting node(s)"
    );
}

fn of_leaver(leaver: &Leaver) -> Value {
    json!({
        "Node": {"name": leaver.node.as_str()},
        "NodeClaim": {"name": leaver.claim.as_str()},
        "instance-type": leaver.instance_type.as_ref().map_or("", |name| name.as_str()),
        "capacity-type": leaver.capacity_type.map_or("", |capacity_type| capacity_type.as_str()),
    })
}

pub(super) fn of_replacements(planned: &[PlannedClaim]) -> Value {
    let of = |claim: &PlannedClaim| {
        let asked = claim.requirements.get(CAPACITY_TYPE);
        let is_allowed = |kind: &CapacityType| asked.is_some_and(|asked| asked.has(kind.as_str()));
        // What a launch would take: the first of them that it may have.
        let first = CapacityType::ALL.into_iter().find(is_allowed).map_or("", CapacityType::as_str);
        let mut described = json!({"capacity-type": first});
        if planned.len() == 1 {
            let names: Vec<&str> = claim.types.iter().map(|name| name.as_str()).collect();
            described["instance-types"] = listed(&names).into();
        }
        described
    };
    planned.iter().map(of).collect::<Vec<_>>().into()
}

/// A command has been begun.
pub(super) fn begun(ctx: &Ctx, what: &Disruption) {
    let metrics = &ctx.metrics.disruption;
    let labels = labels_of(what);
    metrics.decisions.get_or_create(&labels).inc();
    let ByDecision { decision, reason, consolidation_type } = labels;
    for pool in super::commands::pools_of(what) {
        let labels = ByPoolDecision { nodepool: pool.to_string(), decision, reason, consolidation_type };
        metrics.decisions_by_pool.get_or_create(&labels).inc();
    }
}

/// A claim of a command was deleted.
pub(super) fn deleted(ctx: &Ctx, what: &Disruption, leaver: &Leaver, claim: &NodeClaim) {
    let policy = match what.reason() {
        Reason::Drifted | Reason::Unhealthy => ConsolidationPolicy::None,
        Reason::Empty | Reason::Underutilized => {
            let policy = ctx.store().pools().get(&leaver.pool).map(|pool| pool.consolidation.policy);
            policy.map_or(ConsolidationPolicy::None, |policy| match policy {
                Policy::WhenEmpty => ConsolidationPolicy::WhenEmpty,
                Policy::WhenEmptyOrUnderutilized => ConsolidationPolicy::WhenEmptyOrUnderutilized,
                Policy::Balanced => ConsolidationPolicy::Balanced,
            })
        }
    };
    disrupted::count_chosen(ctx, claim, reason_of(what.method), policy, leaver.pods.len());
}

pub(super) fn succeeded(command: &Command) {
    tracing::debug!(command = logged(command), "command succeeded");
}

/// A command is taken back.
pub(super) fn failed(ctx: &Ctx, command: &Command, why: &str, count: usize) {
    ctx.metrics.disruption.queue_failures.get_or_create(&labels_of(&command.what)).inc_by(count as u64);
    tracing::error!(
        command = logged(command),
        decision = command.what.verb().as_str(),
        error = why,
        "failed terminating nodes while executing a disruption command"
    );
}

fn logged(command: &Command) -> String {
    Decided::Logged { command: &command.what, id: command.id.as_str() }.to_string()
}

fn labels_of(what: &Disruption) -> ByDecision {
    let decision = match what.verb() {
        Verb::Delete => DisruptionDecision::Delete,
        Verb::Replace => DisruptionDecision::Replace,
    };
    ByDecision { decision, reason: reason_of(what.method), consolidation_type: what.method.consolidation_type() }
}

fn reason_of(method: Method) -> DisruptedReason {
    match method {
        Method::Emptiness => DisruptedReason::Empty,
        Method::StaticDrift | Method::Drift => DisruptedReason::Drifted,
        Method::MultiConsolidation | Method::SingleConsolidation => DisruptedReason::Underutilized,
    }
}

fn budget_reason(reason: Reason) -> Option<DisruptedReason> {
    match reason {
        Reason::Empty => Some(DisruptedReason::Empty),
        Reason::Drifted => Some(DisruptedReason::Drifted),
        Reason::Underutilized => Some(DisruptedReason::Underutilized),
        Reason::Unhealthy => None,
    }
}

/// A machine under the name that snapshots have it under.
fn pair_of(ctx: &Ctx, name: &NodeName) -> Pair {
    let store = ctx.store();
    let claim = store.machines().get(name).and_then(|machine| store.claim(machine.claim.as_ref()?));
    Pair::new(store.node(name).as_deref(), claim.as_deref())
}

pub(super) fn pair(ctx: &Ctx, node: &NodeName, claim: &NodeName) -> Pair {
    let store = ctx.store();
    Pair::new(store.node(node).as_deref(), store.claim(claim).as_deref())
}

fn publish(ctx: &Ctx, notes: impl IntoIterator<Item = Note>) {
    notes.into_iter().for_each(|note| ctx.recorder.publish(note));
}
