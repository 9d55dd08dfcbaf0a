//! Nodes that no longer are what their pool or class says: replaced one by one, whatever that costs.

use std::collections::{BTreeMap, BTreeSet};

use model::disruption::{Method, Stay};
use model::ids::{NodeName, PodName, PoolName};
use model::plan::{Plan, PlannedClaim};
use model::pool::PoolKind;

use super::candidates::Candidate;
use super::deliberate::Deliberation;
use super::imagine::Taking;

/// Each needs a plan of its own, so one decision carries out only so many; the next one goes on.
const MOST_AT_ONCE: usize = 32;

/// Where so many have found no place but on nodes that are to leave as well, the others are asked once and not twice.
const MOST_IN_VAIN: usize = 8;

/// Drifted nodes, as far as a decision has come with them.
struct Round {
    /// Those that will leave sooner or later.
    leaving: BTreeSet<NodeName>,
    chosen: usize,
    in_vain: usize,
}

pub(super) fn replace_drifted(deliberation: &mut Deliberation<'_, '_>) {
    let (found, others) = deliberation.candidates_and_others(Method::Drift);
    let mut round = Round { leaving: sooner_or_later(deliberation, &found, &others), chosen: 0, in_vain: 0 };
    for candidate in in_turn(found) {
        let name = &candidate.node.name;
        match plan_for(deliberation, &candidate, &mut round) {
            Err(stay) => deliberation.stays(name, stay),
            Ok(plan) => {
                round.chosen += 1;
                deliberation.commit(Method::Drift, &[&candidate], plan, Vec::new());
            }
        }
    }
}

/// Drifted nodes, but for those that nothing but a person will ever let go. Decision 0079.
fn sooner_or_later(
    deliberation: &Deliberation<'_, '_>,
    found: &[Candidate<'_>],
    others: &[(NodeName, Stay)],
) -> BTreeSet<NodeName> {
    let nodes = &deliberation.scene.snapshot.nodes;
    let has_drifted = |name: &&NodeName| {
        let tenure = nodes.get(*name).and_then(|node| node.tenure.as_ref());
        tenure.is_some_and(|tenure| tenure.drifted.is_some())
    };
    let is_never = |stay: Stay| matches!(stay, Stay::Budget { allowed: 0, unready: 0, until: None, .. });
    let may_go =
        |candidate: &&Candidate<'_>| !deliberation.over_budget(candidate, Method::Drift.reason()).is_some_and(is_never);
    let found = found.iter().filter(may_go).map(|candidate| &candidate.node.name);
    let passing = others.iter().filter(|(_, stay)| stay.passes()).map(|(name, _)| name).filter(has_drifted);
    found.chain(passing).cloned().collect()
}

fn plan_for(
    deliberation: &mut Deliberation<'_, '_>,
    candidate: &Candidate<'_>,
    round: &mut Round,
) -> Result<Plan, Stay> {
    let name = &candidate.node.name;
    if let Some(until) = paused(deliberation, &candidate.pool.name) {
        return Err(until);
    }
    if let Some(stay) = deliberation.over_budget(candidate, Method::Drift.reason()) {
        return Err(stay);
    }
    if round.chosen >= MOST_AT_ONCE || deliberation.is_busy(name) {
        return Err(Stay::OthersFirst);
    }
    let pods = deliberation.pods_to_move(name);
    if let Some(stay) = waits_for_pod_budget(deliberation, candidate, &pods) {
        return Err(stay);
    }
    // Whoever goes to a node that is to leave as well moves twice, and keeps that node for as long as it takes to come there.
    let without = BTreeSet::from([name.clone()]);
    let is_choosy = round.leaving.len() > 1 && round.in_vain < MOST_IN_VAIN;
    let taking = if is_choosy { Taking::AllBut(&round.leaving) } else { Taking::All };
    let mut plan = deliberation.imagined.plan(&pods, &without, taking);
    let is_possible = plan.unplaced.is_empty()
        && deliberation.imagined.unready(&plan).is_none()
        && plan.claims.iter().all(|claim| paused(deliberation, &claim.pool).is_none());
    if is_choosy && !is_possible {
        round.in_vain += 1;
        plan = deliberation.imagined.plan(&pods, &without, Taking::All);
    }
    if !plan.unplaced.is_empty() {
        return Err(Stay::CannotMove(plan.unplaced));
    }
    if let Some(unready) = deliberation.imagined.unready(&plan) {
        return Err(Stay::CannotMoveYet(unready));
    }
    match plan.claims.iter().find_map(|claim| paused(deliberation, &claim.pool)) {
        Some(stay) => Err(stay),
        None => Ok(plan),
    }
}

/// Whether others of the same PodDisruptionBudget go first. With a deadline for the drain nobody waits for budgets.
fn waits_for_pod_budget(
    deliberation: &Deliberation<'_, '_>,
    candidate: &Candidate<'_>,
    pods: &[PodName],
) -> Option<Stay> {
    let budget = deliberation.ledger.exhausted(deliberation.scene.snapshot, pods)?;
    candidate.tenure.grace.is_none().then_some(Stay::PodBudgetInUse { budget })
}

/// Whether replacements in a pool failed lately.
pub(super) fn paused(deliberation: &Deliberation<'_, '_>, pool: &PoolName) -> Option<Stay> {
    let until = *deliberation.scene.paused.get(pool)?;
    (until > deliberation.scene.snapshot.now).then(|| Stay::PoolPaused { pool: pool.clone(), until })
}

/// Those without pods first, then those that drifted first; pools take turns, so that one in trouble does not hold up all.
fn in_turn(mut found: Vec<Candidate<'_>>) -> Vec<Candidate<'_>> {
    let since = |candidate: &Candidate<'_>| candidate.tenure.drifted.as_ref().map(|drifted| drifted.since);
    found.sort_by(|a, b| {
        let key = |one: &Candidate<'_>| (!one.pods.is_empty(), since(one));
        key(a).cmp(&key(b)).then_with(|| a.node.name.cmp(&b.node.name))
    });
    let mut turns: BTreeMap<(bool, &PoolName), usize> = BTreeMap::new();
    let mut keyed = Vec::with_capacity(found.len());
    for (place, candidate) in found.iter().enumerate() {
        let turn = turns.entry((!candidate.pods.is_empty(), &candidate.pool.name)).or_default();
        keyed.push((!candidate.pods.is_empty(), *turn, place));
        *turn += 1;
    }
    keyed.sort_unstable();
    let mut slots: Vec<Option<Candidate<'_>>> = found.into_iter().map(Some).collect();
    keyed.into_iter().filter_map(|(.., place)| slots[place].take()).collect()
}

/// Static pools replace node by node with what their template says now; no pod is asked.
pub(super) fn replace_static(deliberation: &mut Deliberation<'_, '_>) {
    let mut found = deliberation.candidates(Method::StaticDrift);
    found.sort_by(|a, b| {
        let since = |one: &Candidate<'_>| one.tenure.drifted.as_ref().map(|drifted| drifted.since);
        (since(a), &a.node.name).cmp(&(since(b), &b.node.name))
    });
    let mut begun: BTreeMap<PoolName, i64> = BTreeMap::new();
    for candidate in found {
        let (name, pool) = (&candidate.node.name, &candidate.pool.name);
        let count = deliberation.scene.static_pools.get(pool).copied().unwrap_or_default();
        let replicas = match candidate.pool.kind {
            PoolKind::Static { replicas } => replicas,
            PoolKind::Dynamic => 0,
        };
        let more = begun.entry(pool.clone()).or_default();
        let has_room = count.room.is_none_or(|room| *more < room);
        let stay = if count.active + count.replacing > replicas || !has_room {
            Some(Stay::StaticPool(pool.clone()))
        } else {
            paused(deliberation, pool)
                .or_else(|| deliberation.over_budget(&candidate, Method::StaticDrift.reason()))
                .or_else(|| waits_for_pod_budget(deliberation, &candidate, &deliberation.pods_to_move(name)))
        };
        match stay {
            Some(stay) => deliberation.stays(name, stay),
            None => {
                *more += 1;
                let template = &candidate.pool.template;
                let claim =
                    PlannedClaim { requirements: template.requirements.clone(), ..PlannedClaim::bare(pool.clone()) };
                let plan = Plan { claims: vec![claim], ..Plan::default() };
                deliberation.commit(Method::StaticDrift, &[&candidate], plan, Vec::new());
            }
        }
    }
}
