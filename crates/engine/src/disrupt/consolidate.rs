//! Fewer and cheaper nodes for the same pods: any number of nodes for any number of cheaper ones, or for none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::budget::Reason;
use model::disruption::{Leaver, Method, PoolScore, Stay, Verdict};
use model::ids::{NodeName, PodName, PoolName};
use model::instance::{CapacityType, InstanceType};
use model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use model::plan::{Plan, Target};
use model::pod::Pod;
use model::price::Price;

use super::candidates::Candidate;
use super::deliberate::{Deliberation, leaver};
use super::drift::paused;
use super::ground::{Company, Ground, Memory, Source};
use super::imagine::Taking;
use super::replace::{self, Leaving};
use super::score::scores;
use super::search::{Alone, Deletions, Group, minds_others, search_deletions};
use super::settling::{held_until, is_foreseen};
use super::worth::{cost_pico, least_saving, pays_back_after};

/// Groups that become commands, at most; what is left is found again by the next decision.
const MOST_GROUPS: usize = 24;

/// Groups that are planned in full, at most: those that are refused are refused again next time, and must not keep the others
/// from their turn.
const MOST_PLANS: usize = 4 * MOST_GROUPS;

/// From so many nodes on a second thread, which lowers the world once more for itself, is worth that.
const ENOUGH_FOR_THREADS: usize = 64;

pub(super) fn consolidate(deliberation: &mut Deliberation<'_, '_>, memory: &mut Memory) {
    // Both kinds choose from the same nodes.
    let found = deliberation.candidates(Method::MultiConsolidation);
    let mut sources = sources(deliberation, found);
    deliberation.note_eligible(Method::SingleConsolidation);
    if let Some(until) = held_until(deliberation.scene, &sources) {
        let held = |candidate: &&Candidate<'_>| is_foreseen(candidate);
        let held: Vec<NodeName> = sources.iter().filter(held).map(|candidate| candidate.node.name.clone()).collect();
        held.iter().for_each(|node| deliberation.stays(node, Stay::OthersSettle { until }));
        sources.retain(|candidate| !is_foreseen(candidate));
    }
    if sources.is_empty() {
        return;
    }
    deliberation.weigh(sources.iter().map(|candidate| candidate.node.name.clone()));
    let asked: Vec<Source> = sources.iter().map(|candidate| source(deliberation, candidate)).collect();
    let ground = ground(deliberation, asked);
    let asked = ground.sources.clone();
    let threads = if sources.len() < ENOUGH_FOR_THREADS { 1 } else { deliberation.rules.threads };
    let found = memory.search(ground, threads);
    deliberation.effort.questions += found.effort.questions;
    deliberation.effort.refused_at_sight += found.effort.refused_at_sight;
    // What is gained most by comes first. Where that is a group, deletions are looked for once more in what it leaves.
    let is_first = |group: &&Group| group.gain_pico > found.deletions.gain_pico;
    let first = found.groups.first().filter(is_first);
    match first.is_some_and(|group| replace_group(deliberation, &sources, group, &asked)) {
        true => delete(deliberation, &sources, &deletions_again(deliberation, &sources, &asked, &found.alone)),
        false => delete(deliberation, &sources, &found.deletions),
    }
    let (mut planned, mut accepted) = (0, 0);
    for group in found.groups.iter().skip(usize::from(first.is_some())) {
        let leaving = || group.sources.iter().map(|source| &sources[*source]);
        if planned == MOST_PLANS || accepted == MOST_GROUPS {
            break;
        }
        if leaving().any(|candidate| deliberation.is_busy(&candidate.node.name)) {
            continue;
        }
        if !deliberation.rules.spot_to_spot && leaving().all(would_come_as_spot) {
            leaving().for_each(|candidate| deliberation.stays(&candidate.node.name, Stay::SpotToSpotDisabled));
            continue;
        }
        planned += 1;
        accepted += usize::from(replace_group(deliberation, &sources, group, &asked));
    }
    explain(deliberation, &sources, &found.alone);
}

/// A spot node whose pool still sells spot: what comes instead of such nodes alone would be spot again.
fn would_come_as_spot(candidate: &Candidate<'_>) -> bool {
    let asked = candidate.pool.template.requirements.get(CAPACITY_TYPE);
    let sells_spot = |offered: &Arc<InstanceType>| {
        offered.offerings.iter().any(|one| one.is_available && one.capacity_type() == Some(CapacityType::Spot))
    };
    candidate.capacity_type == Some(CapacityType::Spot)
        && asked.is_none_or(|asked| asked.has(CapacityType::Spot.as_str()))
        && candidate.pool.instance_types.iter().any(sells_spot)
}

/// Nodes that may be asked about at all.
fn sources<'a>(deliberation: &mut Deliberation<'_, 'a>, found: Vec<Candidate<'a>>) -> Vec<Candidate<'a>> {
    let mut sources = Vec::with_capacity(found.len());
    for candidate in found {
        match kept(deliberation, &candidate) {
            Some(stay) => deliberation.stays(&candidate.node.name, stay),
            None => sources.push(candidate),
        }
    }
    sources
}

fn kept(deliberation: &Deliberation<'_, '_>, candidate: &Candidate<'_>) -> Option<Stay> {
    let (now, cooldown) = (deliberation.scene.snapshot.now, deliberation.rules.pod_move_cooldown);
    let when = &deliberation.scene.moved;
    let moved = |pod: &&Pod| when.get(&pod.name).map(|moved| (moved.rests_until(cooldown), pod.name.clone()));
    if let Some((until, pod)) = candidate.pods.iter().filter_map(moved).filter(|(until, _)| *until > now).max() {
        return Some(Stay::MovedLately { pod, until });
    }
    if let Some(stay) = deliberation.over_budget(candidate, Reason::Underutilized) {
        return Some(stay);
    }
    let pods: Vec<PodName> = candidate.pods.iter().map(|pod| pod.name.clone()).collect();
    if let Some(budget) = deliberation.ledger.exhausted(deliberation.scene.snapshot, &pods) {
        return Some(Stay::PodBudgetInUse { budget });
    }
    None
}

/// Whether a node may leave alone. If even its deletion would not be approved, nothing else will be; but a saving that others
/// bring may be worth its disturbance, too.
fn company(deliberation: &mut Deliberation<'_, '_>, candidate: &Candidate<'_>) -> Company {
    let scores = score(deliberation, &[leaver(candidate)], Price::ZERO);
    let Some(stay) = rejected(&scores) else { return Company::Any };
    deliberation.scores.extend(scores);
    deliberation.stays(&candidate.node.name, stay);
    Company::Needed
}

fn source(deliberation: &mut Deliberation<'_, '_>, candidate: &Candidate<'_>) -> Source {
    let company = company(deliberation, candidate);
    let label = |key: &str| candidate.node.labels.get(key).map(|value| value.to_string()).unwrap_or_default();
    let mut kind = vec![candidate.pool.name.to_string(), label(INSTANCE_TYPE), label(ZONE), label(CAPACITY_TYPE)];
    kind.extend(candidate.node.taints.iter().map(ToString::to_string));
    kind.push(format!("{:?}", candidate.node.allocatable));
    Source {
        node: candidate.node.name.clone(),
        pool: candidate.pool.name.clone(),
        price: candidate.price,
        cost: candidate.pods.iter().map(|pod| deliberation.cost_of(pod)).sum(),
        trouble: candidate.cost,
        kind,
        company,
    }
}

fn ground(deliberation: &Deliberation<'_, '_>, sources: Vec<Source>) -> Ground {
    let allowed = |pool: &PoolName| deliberation.purse.left(pool, Reason::Underutilized);
    Ground::new(&deliberation.imagined, sources, allowed, deliberation.rules.payback)
}

/// Deletions among the nodes that nobody has spoken for yet, on the world as it is now.
fn deletions_again(
    deliberation: &Deliberation<'_, '_>,
    sources: &[Candidate<'_>],
    all: &[Source],
    alone: &[Option<Alone>],
) -> Deletions {
    let is_hopeful =
        |number: &usize| alone[*number] == Some(Alone::Fits) && !deliberation.is_busy(&sources[*number].node.name);
    let free: Vec<usize> = (0..sources.len()).filter(is_hopeful).collect();
    if free.is_empty() {
        return Deletions::default();
    }
    let asked: Vec<Source> = free.iter().map(|number| all[*number].clone()).collect();
    let mut found = search_deletions(&ground(deliberation, asked));
    found.sources.iter_mut().for_each(|number| *number = free[*number]);
    found
}

/// Deletes nodes whose pods all fit elsewhere, each by a command of its own.
fn delete(deliberation: &mut Deliberation<'_, '_>, sources: &[Candidate<'_>], deletions: &Deletions) {
    let found: Vec<&Candidate<'_>> = deletions.sources.iter().map(|source| &sources[*source]).collect();
    for candidate in firm(deliberation, found) {
        let name = &candidate.node.name;
        let pods = deliberation.pods_to_move(name);
        let mut places: Vec<_> = pods.iter().filter_map(|pod| Some((deletions.moves.get(pod)?, pod))).collect();
        places.sort_unstable();
        let places = places.into_iter().map(|((_, node), pod)| (pod.clone(), Target::Node(node.clone())));
        let plan = Plan { placements: places.collect(), ..Plan::default() };
        let stay = if plan.placements.len() < pods.len() {
            Some(Stay::OthersFirst)
        } else if let Some(budget) = deliberation.ledger.exhausted(deliberation.scene.snapshot, &pods) {
            Some(Stay::PodBudgetInUse { budget })
        } else {
            deliberation.over_budget(candidate, Reason::Underutilized)
        };
        match stay {
            Some(stay) => deliberation.stays(name, stay),
            None => {
                let scores = score(deliberation, &[leaver(candidate)], Price::ZERO);
                deliberation.scores.extend(scores.clone());
                deliberation.commit(Method::SingleConsolidation, &[candidate], plan, scores);
            }
        }
    }
}

/// Those of these nodes whose deletion holds even if the scheduler puts their pods elsewhere than planned. Nodes with pods that
/// would be left over stay, unless machines for these pods cost less than the nodes do.
fn firm<'c, 'a>(deliberation: &mut Deliberation<'_, '_>, mut nodes: Vec<&'c Candidate<'a>>) -> Vec<&'c Candidate<'a>> {
    loop {
        let names: BTreeSet<NodeName> = nodes.iter().map(|candidate| candidate.node.name.clone()).collect();
        let pods: Vec<PodName> = names.iter().flat_map(|name| deliberation.pods_to_move(name)).collect();
        let Some(left) = deliberation.imagined.left_over(&pods, &names, &[]) else { return nodes };
        let (mut stuck, mut free) = (Vec::new(), Vec::new());
        for candidate in &nodes {
            let mut own = deliberation.pods_to_move(&candidate.node.name).into_iter();
            match own.find(|pod| left.pods.contains(pod)) {
                Some(pod) => stuck.push((*candidate, pod)),
                None => free.push(*candidate),
            }
        }
        let saved = stuck.iter().fold(Price::ZERO, |sum, (candidate, _)| sum.plus(candidate.price));
        if left.price.is_some_and(|price| price < saved) {
            return nodes;
        }
        stuck.into_iter().for_each(|(candidate, pod)| deliberation.stays(&candidate.node.name, Stay::TooTight { pod }));
        nodes = free;
    }
}

/// Makes commands of a group, or of what is left of it without those who may not leave alone: where they disturb too much the
/// others still go. Says whether there were any.
fn replace_group(
    deliberation: &mut Deliberation<'_, '_>,
    sources: &[Candidate<'_>],
    group: &Group,
    asked: &[Source],
) -> bool {
    let of = |numbers: &[usize]| numbers.iter().map(|number| &sources[*number]).collect::<Vec<_>>();
    if replace_all(deliberation, &of(&group.sources)) {
        return true;
    }
    let may_go_alone = |number: &usize| asked[*number].company == Company::Any;
    let fewer: Vec<usize> = group.sources.iter().copied().filter(may_go_alone).collect();
    !fewer.is_empty() && fewer.len() < group.sources.len() && replace_all(deliberation, &of(&fewer))
}

/// Plans a group in full and makes commands of the parts that hang together. Says whether there were any.
fn replace_all(deliberation: &mut Deliberation<'_, '_>, leaving: &[&Candidate<'_>]) -> bool {
    if leaving.iter().any(|candidate| deliberation.is_busy(&candidate.node.name)) {
        return false;
    }
    let names: BTreeSet<NodeName> = leaving.iter().map(|candidate| candidate.node.name.clone()).collect();
    let mut pods = Vec::new();
    let mut home: BTreeMap<PodName, NodeName> = BTreeMap::new();
    for name in &names {
        let own = deliberation.pods_to_move(name);
        home.extend(own.iter().map(|pod| (pod.clone(), name.clone())));
        pods.extend(own);
    }
    let Some(plan) = places_for(deliberation, &pods, &names) else { return false };
    let parts = parts(&plan, &home, &names);
    // Whoever minds where others are was planned for a world in which all of them have moved. A part must hold without the others.
    let minds = |pod: &PodName| deliberation.imagined.snapshot.pods.get(pod).is_some_and(|pod| minds_others(pod));
    let minds_others = parts.len() > 1 && pods.iter().any(minds);
    let mut has_any = false;
    for part in parts {
        let leaving: Vec<&Candidate<'_>> =
            leaving.iter().copied().filter(|candidate| part.nodes.contains(&candidate.node.name)).collect();
        // A part that was planned once more may have moved pods to nodes of this one.
        if part.nodes.iter().any(|node| deliberation.is_busy(node)) {
            leaving.iter().for_each(|candidate| deliberation.stays(&candidate.node.name, Stay::OthersFirst));
            continue;
        }
        let plan = if minds_others {
            let own: Vec<PodName> = pods.iter().filter(|pod| part.nodes.contains(&home[*pod])).cloned().collect();
            places_for(deliberation, &own, &part.nodes)
        } else {
            Some(part.plan)
        };
        let Some(plan) = plan else { continue };
        match worthy(deliberation, &leaving, plan) {
            Err(stay) => leaving.iter().for_each(|candidate| deliberation.stays(&candidate.node.name, stay.clone())),
            Ok((plan, scores)) => {
                has_any = true;
                let method = if leaving.len() > 1 { Method::MultiConsolidation } else { Method::SingleConsolidation };
                deliberation.scores.extend(scores.clone());
                deliberation.commit(method, &leaving, plan, scores);
            }
        }
    }
    has_any
}

/// Where all of these would go if these nodes left, if each has a place that is there or can be had.
fn places_for(deliberation: &mut Deliberation<'_, '_>, pods: &[PodName], without: &BTreeSet<NodeName>) -> Option<Plan> {
    let plan = deliberation.imagined.plan(pods, without, Taking::Settled);
    (plan.unplaced.is_empty() && deliberation.imagined.unready(&plan).is_none()).then_some(plan)
}

/// Whether a part of a plan is worth it, with what is cheaper of its machines.
fn worthy(
    deliberation: &mut Deliberation<'_, '_>,
    leaving: &[&Candidate<'_>],
    mut plan: Plan,
) -> Result<(Plan, Vec<PoolScore>), Stay> {
    let snapshot = deliberation.scene.snapshot;
    let mut purse = deliberation.purse.clone();
    for candidate in leaving {
        purse.blocking(&candidate.pool.name, Reason::Underutilized).map_or(Ok(()), Err)?;
        purse.take(&candidate.pool.name);
    }
    let leavers: Vec<Leaver> = leaving.iter().map(|candidate| leaver(candidate)).collect();
    let pods: Vec<PodName> = leavers.iter().flat_map(|leaver| leaver.pods.clone()).collect();
    if let Some(budget) = deliberation.ledger.exhausted(snapshot, &pods) {
        return Err(Stay::PodBudgetInUse { budget });
    }
    if let Some(stay) = plan.claims.iter().find_map(|claim| paused(deliberation, &claim.pool)) {
        return Err(stay);
    }
    let before = leavers.iter().fold(Price::ZERO, |sum, leaver| sum.plus(leaver.price));
    if !plan.claims.is_empty() {
        // A replacement must pay for its own disturbance in time, whichever of its types comes.
        let cost = cost_pico(deliberation.evicted_cost(&leavers), plan.price());
        let most_pico = before.pico().saturating_sub(least_saving(cost, deliberation.rules.payback)).saturating_add(1);
        if plan.price() < before && plan.price().pico() >= most_pico {
            let saved = before.pico() - plan.price().pico();
            return Err(Stay::PaysBackLate { after: pays_back_after(cost, saved).unwrap_or_default() });
        }
        let nodes = leavers.iter().map(|one| (one.instance_type.as_ref(), one.capacity_type, one.price)).collect();
        let leaving = Leaving { nodes, most_pico, spot_to_spot: deliberation.rules.spot_to_spot };
        plan.claims = replace::cheaper(snapshot, &plan.claims, &leaving)?;
        // What is left of the types may be dearer than the plan, and costs more while old and new ones both run.
        let cost = cost_pico(deliberation.evicted_cost(&leavers), plan.price());
        let saved = before.pico().saturating_sub(replace::at_most(snapshot, &plan.claims).pico());
        if saved < least_saving(cost, deliberation.rules.payback) {
            return Err(Stay::PaysBackLate { after: pays_back_after(cost, saved).unwrap_or_default() });
        }
    }
    let names: BTreeSet<NodeName> = leavers.iter().map(|leaver| leaver.node.clone()).collect();
    let moving: Vec<PodName> = plan.placements.iter().map(|(pod, _)| pod.clone()).collect();
    if let Some(left) = deliberation.imagined.left_over(&moving, &names, &plan.claims) {
        let more = left.price.unwrap_or(Price::MAX);
        let cost = cost_pico(deliberation.evicted_cost(&leavers), plan.price().plus(more));
        let saved = before.pico().saturating_sub(plan.price().plus(more).pico());
        if saved <= 0 || saved < least_saving(cost, deliberation.rules.payback) {
            return Err(Stay::TooTight { pod: left.pods[0].clone() });
        }
    }
    let scores = score(deliberation, &leavers, plan.price());
    match rejected(&scores) {
        Some(stay) => {
            deliberation.scores.extend(scores);
            Err(stay)
        }
        None => Ok((plan, scores)),
    }
}

fn score(deliberation: &Deliberation<'_, '_>, leavers: &[Leaver], after: Price) -> Vec<PoolScore> {
    scores(deliberation.scene.snapshot, &deliberation.totals, leavers, after)
}

fn rejected(scores: &[PoolScore]) -> Option<Stay> {
    let rejected = scores.iter().find(|score| score.verdict == Verdict::Rejected)?;
    let millionths = rejected.score().map_or(0, |score| (score * 1e6) as i64);
    Some(Stay::Score { pool: rejected.pool.clone(), score: millionths })
}

/// Nodes of a plan that hang together by the machines that they share.
struct Part {
    nodes: BTreeSet<NodeName>,
    plan: Plan,
}

/// Splits a plan into parts that can be carried out apart. Nodes whose pods share a new machine go together; those who need
/// none go each for itself.
fn parts(plan: &Plan, home: &BTreeMap<PodName, NodeName>, names: &BTreeSet<NodeName>) -> Vec<Part> {
    let numbers: BTreeMap<&NodeName, usize> = names.iter().zip(0..).collect();
    let mut leader: Vec<usize> = (0..names.len() + plan.claims.len()).collect();
    fn find(leader: &mut [usize], mut one: usize) -> usize {
        while leader[one] != one {
            leader[one] = leader[leader[one]];
            one = leader[one];
        }
        one
    }
    for (pod, target) in &plan.placements {
        if let (Target::Claim(claim), Some(node)) = (target, home.get(pod).and_then(|node| numbers.get(node))) {
            let (a, b) = (find(&mut leader, *node), find(&mut leader, names.len() + claim));
            leader[a.max(b)] = a.min(b);
        }
    }
    let mut parts: BTreeMap<usize, Part> = BTreeMap::new();
    for (name, number) in &numbers {
        let own = find(&mut leader, *number);
        let part = parts.entry(own).or_insert_with(|| Part { nodes: BTreeSet::new(), plan: Plan::default() });
        part.nodes.insert((*name).clone());
    }
    let mut renumbered = vec![0; plan.claims.len()];
    for (number, claim) in plan.claims.iter().enumerate() {
        if let Some(part) = parts.get_mut(&find(&mut leader, names.len() + number)) {
            renumbered[number] = part.plan.claims.len();
            part.plan.claims.push(claim.clone());
        }
    }
    for (pod, target) in &plan.placements {
        let Some(number) = home.get(pod).and_then(|node| numbers.get(node)) else { continue };
        let target = match target {
            Target::Node(node) => Target::Node(node.clone()),
            Target::Claim(claim) => Target::Claim(renumbered[*claim]),
        };
        if let Some(part) = parts.get_mut(&find(&mut leader, *number)) {
            part.plan.placements.push((pod.clone(), target));
        }
    }
    parts.into_values().collect()
}

/// Why each node that stays does.
fn explain(deliberation: &mut Deliberation<'_, '_>, sources: &[Candidate<'_>], alone: &[Option<Alone>]) {
    for (candidate, alone) in sources.iter().zip(alone) {
        let stay = match alone {
            // Nobody has come to plan for it this time.
            None | Some(Alone::Fits | Alone::Cheaper { .. }) => Stay::OthersFirst,
            Some(Alone::Stuck { pod, others }) => Stay::NoRoom { pod: pod.clone(), others: *others },
            Some(Alone::TooDear { machines: 0 | 1, .. }) => Stay::NotCheaper,
            Some(Alone::TooDear { machines, price }) => Stay::TooManyReplacements { count: *machines, price: *price },
            Some(Alone::Late { after, .. }) => Stay::PaysBackLate { after: *after },
            Some(Alone::Unready { pod, node }) => Stay::Unready(deliberation.imagined.unready_for(pod, node)),
        };
        if !deliberation.has_reason(&candidate.node.name) {
            deliberation.stays(&candidate.node.name, stay);
        }
    }
}
