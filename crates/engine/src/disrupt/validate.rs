//! The second look at a command, when it has waited for a while: is it still right?

use std::collections::BTreeSet;
use std::sync::Arc;

use model::disruption::{Disruption, Method, Stay, Worth};
use model::ids::{NodeName, PodName};
use model::plan::{Plan, Target};
use model::price::Price;

use super::budgets::{Purse, allowances};
use super::candidates::{Candidate, Candidates, candidates_among, pods_by_node};
use super::emptiness::follow;
use super::imagine::{Arriving, Imagined, Taking};
use super::replace::at_most;
use super::worth::{cost_pico, least_saving};
use super::{Dropped, Memory, Rejection, Rules, Scene, Validity};
use crate::solve::Catalogue;

/// Whether a command that was decided a while ago is still right. It must not be among those that are under way, or it is
/// taken out of them.
pub fn still_holds(scene: &Scene<'_>, rules: &Rules, command: &Disruption) -> Validity {
    still_holds_with(&mut Memory::default(), scene, rules, command)
}

/// The same with what was kept of earlier decisions.
pub fn still_holds_with(memory: &mut Memory, scene: &Scene<'_>, rules: &Rules, command: &Disruption) -> Validity {
    let catalogue = &memory.catalogue(scene.snapshot);
    let mut scene = scene.clone();
    scene.under_way.retain(|other| !other.nodes().any(|node| command.nodes().any(|own| own == node)));
    match command.method {
        Method::Emptiness => emptiness_holds(&scene, command, catalogue),
        _ => consolidation_holds(&scene, rules, command, catalogue),
    }
}

/// Empty nodes are dropped one by one; the others still go.
fn emptiness_holds(scene: &Scene<'_>, command: &Disruption, catalogue: &Arc<Catalogue>) -> Validity {
    let found = candidates_of(scene, command);
    let mut purse = Purse::new(&allowances(scene));
    let mut imagined = Imagined::new(scene, catalogue);
    let (mut left, mut dropped) = (command.clone(), Vec::new());
    left.leaving.clear();
    left.moves.clear();
    for leaver in &command.leaving {
        let why = match found.may_leave.iter().find(|candidate| candidate.node.name == leaver.node) {
            None if is_nominated(&found, &leaver.node) => Some(Dropped::Nominated),
            None if scene.snapshot.stopped.is_some() => Some(Dropped::Budget),
            None => Some(Dropped::Churn),
            Some(_) if imagined.buffered.contains(&leaver.node) => Some(Dropped::Nominated),
            Some(candidate) if purse.left(&candidate.pool.name, command.reason()) == 0 => Some(Dropped::Budget),
            // Somebody may wait by now who needs just this node.
            Some(_) => match imagined.relieve(&leaver.node) {
                Err(_) => Some(Dropped::Nominated),
                Ok(places) => {
                    follow(&mut left.moves, places);
                    None
                }
            },
        };
        match why {
            Some(why) => dropped.push((leaver.node.clone(), why)),
            None => {
                purse.take(&leaver.pool);
                left.leaving.push(leaver.clone());
            }
        }
    }
    if left.leaving.is_empty() {
        let why = match dropped.iter().any(|(_, why)| *why != Dropped::Churn) {
            true => Rejection::Budget,
            false => Rejection::Churn,
        };
        return Validity::Fails { why, stays: stays(&found, command) };
    }
    let evicted = left.leaving.iter().map(|leaver| leaver.pods.len()).sum();
    left.worth = Worth { before: total(&left), evicted, ..left.worth };
    Validity::Holds { command: left, dropped }
}

fn consolidation_holds(scene: &Scene<'_>, rules: &Rules, command: &Disruption, catalogue: &Arc<Catalogue>) -> Validity {
    let found = candidates_of(scene, command);
    let fails = |why: Rejection| Validity::Fails { why, stays: stays(&found, command) };
    let mut purse = Purse::new(&allowances(scene));
    for leaver in &command.leaving {
        let Some(candidate) = found.may_leave.iter().find(|candidate| candidate.node.name == leaver.node) else {
            let is_held = is_nominated(&found, &leaver.node) || scene.snapshot.stopped.is_some();
            return fails(if is_held { Rejection::Budget } else { Rejection::Churn });
        };
        if !still_hosts(candidate, &leaver.pods) {
            return fails(Rejection::Churn);
        }
        if purse.left(&leaver.pool, command.reason()) == 0 {
            return fails(Rejection::Budget);
        }
        purse.take(&leaver.pool);
    }
    if !prices_hold(scene, rules, command, &found) || !places_hold(scene, command, catalogue) {
        return fails(Rejection::Scheduling);
    }
    Validity::Holds { command: command.clone(), dropped: Vec::new() }
}

/// Pods that are new on a node were not part of the plan.
fn still_hosts(candidate: &Candidate<'_>, planned: &[PodName]) -> bool {
    candidate.pods.iter().all(|pod| planned.contains(&pod.name))
}

/// Everything that was to be bought is still for sale, and still saves enough.
fn prices_hold(scene: &Scene<'_>, rules: &Rules, command: &Disruption, found: &Candidates<'_>) -> bool {
    if command.replacements.is_empty()
        || !matches!(command.method, Method::MultiConsolidation | Method::SingleConsolidation)
    {
        return true;
    }
    let is_sold = |claim: &model::plan::PlannedClaim| {
        let pool = scene.snapshot.pools.get(&claim.pool);
        claim.types.iter().all(|name| {
            let offered = pool.and_then(|pool| pool.instance_type(name.as_str()));
            offered.is_some_and(|offered| super::replace::worst_price(offered, &claim.requirements).is_some())
        })
    };
    let names: BTreeSet<&NodeName> = command.nodes().collect();
    let leaving = found.may_leave.iter().filter(|candidate| names.contains(&candidate.node.name));
    let before = leaving.fold(Price::ZERO, |sum, candidate| sum.plus(candidate.price));
    let after = at_most(scene.snapshot, &command.replacements);
    let least = least_saving(cost_pico(command.worth.cost, command.worth.after), rules.payback);
    command.replacements.iter().all(is_sold) && before.pico().saturating_sub(after.pico()) >= least
}

/// All pods find a place on what is there and on what was planned, and nothing more need be bought.
fn places_hold(scene: &Scene<'_>, command: &Disruption, catalogue: &Arc<Catalogue>) -> bool {
    let mut imagined = Imagined::new(scene, catalogue);
    let names: BTreeSet<NodeName> = command.nodes().cloned().collect();
    let pods: Vec<PodName> = names.iter().flat_map(|node| imagined.movable(node)).map(|pod| pod.name.clone()).collect();
    // The machines come first, with nobody on them; then everybody looks for a place.
    let arriving = Plan { claims: command.replacements.clone(), ..Plan::default() };
    imagined.carry_out(&[], &arriving, Arriving::Open);
    let taking = if command.method.is_graceful() { Taking::Settled } else { Taking::All };
    let plan = imagined.plan(&pods, &names, taking);
    let is_placed = plan.unplaced.is_empty() && plan.claims.is_empty() && imagined.unready(&plan).is_none();
    is_placed || holds_as_planned(&mut imagined, command, &pods, &names, taking)
}

/// Whether everybody fits when pods that were planned for new machines are held to them.
fn holds_as_planned(
    imagined: &mut Imagined,
    command: &Disruption,
    pods: &[PodName],
    names: &BTreeSet<NodeName>,
    taking: Taking<'_>,
) -> bool {
    let on_new = |pod: &PodName| command.moves.iter().any(|(name, to)| name == pod && matches!(to, Target::Claim(_)));
    let rest: Vec<PodName> = pods.iter().filter(|pod| !on_new(pod)).cloned().collect();
    if rest.len() == pods.len() || command.replacements.is_empty() {
        return false;
    }
    let plan = imagined.plan(&rest, names, taking);
    plan.unplaced.is_empty() && plan.claims.is_empty() && imagined.unready(&plan).is_none()
}

fn candidates_of<'a>(scene: &Scene<'a>, command: &Disruption) -> Candidates<'a> {
    candidates_among(scene, &pods_by_node(scene.snapshot), command.method)
}

fn is_nominated(found: &Candidates<'_>, node: &NodeName) -> bool {
    found.staying.iter().any(|(name, stay)| name == node && *stay == Stay::Nominated)
}

fn stays(found: &Candidates<'_>, command: &Disruption) -> Vec<(NodeName, Stay)> {
    found.staying.iter().filter(|(name, _)| command.nodes().any(|own| own == name)).cloned().collect()
}

fn total(command: &Disruption) -> Price {
    command.leaving.iter().fold(Price::ZERO, |sum, leaver| sum.plus(leaver.price))
}
