//! Commands that a process before us began. Their replacements say which claims they are to replace and how many of them
//! there are to be, so nothing else has to be written down anywhere (decision 0055).

use std::collections::BTreeMap;
use std::sync::Arc;

use api::NodeClaim;
use api::labels::{CAPACITY_TYPE, INSTANCE_TYPE};
use cluster::Store;
use kube::ResourceExt;
use model::disruption::{Disruption, Leaver, Method, Worth};
use model::eviction::{EvictionCost, is_reschedulable};
use model::ids::{NodeName, PoolName};
use model::instance::CapacityType;
use model::plan::PlannedClaim;
use model::price::Price;

use super::commands::{Begun, Commands, Expected, Number, Stage};
use super::start;
use crate::claims::DECISION;
use crate::controller::TickId;
use crate::ctx::{Ctx, instant};
use crate::disrupted::{disruption_reason, is_initialized, label_of, pool_of};

/// The claims that a replacement is for, by name.
pub const REPLACES: &str = "dovetail.sh/replaces";
/// How many replacements there are to be. Fewer mean that their command was never begun, or is being taken back.
const REPLACEMENTS: &str = "dovetail.sh/replacements";

/// What a replacement says about its command.
pub(super) fn notes(what: &Disruption) -> BTreeMap<String, String> {
    let claims: Vec<&str> = what.claims().map(NodeName::as_str).collect();
    let replaces = (REPLACES.to_owned(), claims.join(","));
    BTreeMap::from([replaces, (REPLACEMENTS.to_owned(), what.replacements.len().to_string())])
}

/// The replacements of a command that are there to stay.
pub(super) fn replacements(store: &Store, id: &TickId) -> Vec<NodeName> {
    let of_it = |claim: &NodeClaim| note(claim, REPLACES).is_some() && note(claim, DECISION) == Some(id.as_str());
    let found = store.claims().iter().filter(|(_, claim)| of_it(claim));
    found.filter(|(_, claim)| claim.metadata.deletion_timestamp.is_none()).map(|(name, _)| name.clone()).collect()
}

/// The claim of a replacement whose command is no more. A later command may be about the same claims, and whoever finds
/// both after a restart must not take the one for the other.
pub(super) fn without_notes(claim: &NodeClaim) -> NodeClaim {
    let mut plain = claim.clone();
    if let Some(annotations) = &mut plain.metadata.annotations {
        [REPLACES, REPLACEMENTS].into_iter().for_each(|key| drop(annotations.remove(key)));
    }
    plain
}

/// Replacements of one command.
struct Group {
    id: String,
    claims: Vec<Arc<NodeClaim>>,
}

/// Takes up every command that was begun, and gives up the others: what they have made is not needed.
pub(super) fn resume(ctx: &Ctx, commands: &Commands) -> Vec<Number> {
    let found: Vec<(TickId, Disruption, Stage)> = {
        let store = ctx.store();
        groups(&store).iter().filter_map(|group| command(&store, group)).collect()
    };
    let mut numbers = Vec::new();
    for (id, what, stage) in found {
        let nodes: Vec<&str> = what.nodes().map(NodeName::as_str).collect();
        let goes_on = matches!(stage, Stage::Begun(_));
        tracing::info!(command = %id, nodes = nodes.join(", "), "goes-on" = goes_on, "found a command of an earlier process");
        if goes_on {
            start::mark(ctx, &what);
        }
        numbers.push(commands.add(id, what, stage));
    }
    numbers
}

fn groups(store: &Store) -> Vec<Group> {
    let mut groups: BTreeMap<String, Vec<Arc<NodeClaim>>> = BTreeMap::new();
    for claim in store.claims().values() {
        let Some(id) = note(&claim, DECISION).filter(|_| note(&claim, REPLACES).is_some()) else { continue };
        groups.entry(id.to_owned()).or_default().push(claim);
    }
    groups.into_iter().map(|(id, claims)| Group { id, claims }).collect()
}

/// What is left of a command. Nothing when its claims are gone or going.
fn command(store: &Store, group: &Group) -> Option<(TickId, Disruption, Stage)> {
    let first = group.claims.first()?;
    let names = note(first, REPLACES)?.split(',').map(NodeName::from);
    let present = names.filter_map(|name| Some((store.claim(&name)?, name)));
    let staying: Vec<(Arc<NodeClaim>, NodeName)> =
        present.filter(|(claim, _)| claim.metadata.deletion_timestamp.is_none()).collect();
    let reasons: Vec<&str> = staying.iter().filter_map(|(claim, _)| Some(&*disruption_reason(claim)?.reason)).collect();
    let alive = || group.claims.iter().filter(|claim| claim.metadata.deletion_timestamp.is_none());
    if staying.is_empty() || (reasons.is_empty() && alive().next().is_none()) {
        return None;
    }
    let Some(reason) = reasons.first().copied() else {
        // Somebody has opened its nodes. Its replacements are nodes like others, and need not say any more what they were for.
        return Some((TickId::of(&group.id), nothing(), Stage::TakenBack { unused: Vec::new() }));
    };
    let leaving: Vec<Leaver> = staying.iter().filter_map(|(claim, name)| leaver(store, claim, name)).collect();
    let replacements: Vec<Expected> = alive()
        .map(|claim| Expected { claim: NodeName::from(claim.name_any()), has_come: is_initialized(claim) })
        .collect();
    let planned = group.claims.iter().map(|claim| PlannedClaim::bare(PoolName::from(pool_of(&**claim))));
    let is_static = leaving.iter().any(|leaver| store.pools().get(&leaver.pool).is_some_and(|pool| pool.is_static()));
    let method = match reason {
        "Drifted" if is_static => Method::StaticDrift,
        "Drifted" => Method::Drift,
        _ if leaving.len() > 1 => Method::MultiConsolidation,
        _ => Method::SingleConsolidation,
    };
    let is_whole = note(first, REPLACEMENTS).and_then(|count| count.parse().ok()) == Some(replacements.len());
    let is_begun = is_whole && reasons.len() == staying.len() && leaving.len() == staying.len();
    let what =
        Disruption { method, leaving, replacements: planned.collect(), moves: Vec::new(), worth: Worth::default() };
    let stage = if is_begun {
        let since = group.claims.iter().filter_map(|claim| claim.metadata.creation_timestamp.as_ref()).min();
        Stage::Begun(Begun { since: instant(since?.0), replacements })
    } else {
        Stage::TakenBack { unused: replacements.into_iter().map(|expected| expected.claim).collect() }
    };
    Some((TickId::of(&group.id), what, stage))
}

fn nothing() -> Disruption {
    let (leaving, replacements, moves) = (Vec::new(), Vec::new(), Vec::new());
    Disruption { method: Method::Drift, leaving, replacements, moves, worth: Worth::default() }
}

fn leaver(store: &Store, claim: &NodeClaim, name: &NodeName) -> Option<Leaver> {
    let node = store.machine_of_claim(name)?.node.name.clone();
    let instance_type = label_of(claim, INSTANCE_TYPE);
    let pods = store.pods_on(&node).filter(|(pod, _)| is_reschedulable(pod));
    let pods: Vec<_> = pods.map(|(pod, _)| (pod.name.clone(), EvictionCost::of(pod).floored())).collect();
    Some(Leaver {
        node,
        claim: name.clone(),
        pool: PoolName::from(pool_of(claim)),
        instance_type: Some(instance_type).filter(|name| !name.is_empty()).map(Into::into),
        capacity_type: CapacityType::parse(&label_of(claim, CAPACITY_TYPE)),
        price: Price::ZERO,
        cost: pods.iter().map(|(_, cost)| *cost).sum::<EvictionCost>() + EvictionCost::COMMON,
        pods: pods.into_iter().map(|(name, _)| name).collect(),
    })
}

fn note<'c>(claim: &'c NodeClaim, key: &str) -> Option<&'c str> {
    claim.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}
