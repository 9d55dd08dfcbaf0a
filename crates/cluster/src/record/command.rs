//! Commands to take nodes away, between the model's shape and that of recordings.

use std::sync::Arc;
use std::time::Duration;

use api::record::{self, Command, Placement};
use model::disruption::{Disruption, Leaver, Method, Worth};
use model::eviction::EvictionCost;
use model::ids::{NodeName, PodName, TypeName};
use model::instance::CapacityType;
use model::plan::{PlannedClaim, Target};
use model::price::Price;

use super::catalog::{read_amounts, read_requirements};
use super::plan::{TypeLists, write_claim, write_placement};

pub fn write_command(command: &Disruption) -> Command {
    let mut lists = TypeLists::default();
    let replacements = command.replacements.iter().map(|claim| write_claim(claim, &mut lists)).collect();
    let worth = &command.worth;
    Command {
        method: write_method(command.method),
        leaving: command.leaving.iter().map(write_leaver).collect(),
        replacements,
        type_lists: lists.in_order,
        moves: command.moves.iter().map(write_placement).collect(),
        worth: record::Worth {
            before: worth.before.pico(),
            after: worth.after.pico(),
            after_at_most: worth.after_at_most.pico(),
            evicted: worth.evicted,
            cost: worth.cost.parts(),
            pays_back_after: worth.pays_back_after.map(write_duration),
        },
        why: command.why(),
    }
}

/// A command as far as later decisions depend on it. The words for why each replacement is needed, and how pools score it, are not
/// read again.
pub fn read_command(command: &Command) -> Disruption {
    let worth = &command.worth;
    Disruption {
        method: read_method(command.method),
        leaving: command.leaving.iter().map(read_leaver).collect(),
        replacements: command.replacements.iter().map(|claim| read_claim(claim, &command.type_lists)).collect(),
        moves: command.moves.iter().filter_map(read_placement).collect(),
        worth: Worth {
            before: Price::from_pico(worth.before),
            after: Price::from_pico(worth.after),
            after_at_most: Price::from_pico(worth.after_at_most),
            evicted: worth.evicted,
            cost: EvictionCost::from_parts(worth.cost),
            pays_back_after: worth.pays_back_after.map(api::Duration::to_std),
            scores: Vec::new(),
        },
    }
}

/// A pod by what it is called in recordings. No namespace has a slash in its name.
pub fn read_pod(text: &str) -> PodName {
    let (namespace, name) = text.split_once('/').unwrap_or(("", text));
    PodName::new(namespace, name)
}

fn write_duration(duration: Duration) -> api::Duration {
    api::Duration::from_nanos(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
}

fn write_leaver(leaver: &Leaver) -> record::Leaver {
    record::Leaver {
        node: leaver.node.to_string(),
        claim: leaver.claim.to_string(),
        pool: leaver.pool.to_string(),
        instance_type: leaver.instance_type.as_ref().map(ToString::to_string),
        capacity_type: leaver.capacity_type.map(|capacity_type| capacity_type.as_str().to_owned()),
        price: leaver.price.pico(),
        pods: leaver.pods.iter().map(ToString::to_string).collect(),
        cost: leaver.cost.parts(),
    }
}

fn read_leaver(leaver: &record::Leaver) -> Leaver {
    Leaver {
        node: leaver.node.as_str().into(),
        claim: leaver.claim.as_str().into(),
        pool: leaver.pool.as_str().into(),
        instance_type: leaver.instance_type.as_deref().map(Into::into),
        capacity_type: leaver.capacity_type.as_deref().and_then(CapacityType::parse),
        price: Price::from_pico(leaver.price),
        pods: leaver.pods.iter().map(|pod| read_pod(pod)).collect(),
        cost: EvictionCost::from_parts(leaver.cost),
    }
}

fn read_claim(claim: &record::PlannedClaim, lists: &[Vec<String>]) -> PlannedClaim {
    let types: Arc<[TypeName]> =
        lists.get(claim.types).into_iter().flatten().map(|name| name.as_str().into()).collect();
    let pods: Arc<[PodName]> = claim.pods.iter().map(|pod| read_pod(pod)).collect();
    let labels = claim.labels.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into()));
    PlannedClaim {
        requirements: read_requirements(&claim.requirements),
        types,
        pods,
        requests: read_amounts(&claim.requests),
        labels: labels.collect(),
        reservations: claim.reservations.iter().map(|id| id.as_str().into()).collect(),
        is_min_values_relaxed: claim.min_values_relaxed,
        is_full: claim.full,
        price: Price::from_pico(claim.price),
        ..PlannedClaim::bare(claim.pool.as_str().into())
    }
}

/// Nothing for a place that is neither a node nor a replacement, which nobody writes.
fn read_placement(placement: &Placement) -> Option<(PodName, Target)> {
    let on_node = placement.node.as_deref().map(|node| Target::Node(NodeName::from(node)));
    let target = on_node.or(placement.claim.map(Target::Claim))?;
    Some((read_pod(&placement.pod), target))
}

fn write_method(method: Method) -> record::Method {
    match method {
        Method::Emptiness => record::Method::Emptiness,
        Method::StaticDrift => record::Method::StaticDrift,
        Method::Drift => record::Method::Drift,
        Method::MultiConsolidation => record::Method::MultiConsolidation,
        Method::SingleConsolidation => record::Method::SingleConsolidation,
    }
}

fn read_method(method: record::Method) -> Method {
    match method {
        record::Method::Emptiness => Method::Emptiness,
        record::Method::StaticDrift => Method::StaticDrift,
        record::Method::Drift => Method::Drift,
        record::Method::MultiConsolidation => Method::MultiConsolidation,
        record::Method::SingleConsolidation => Method::SingleConsolidation,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_read_as_it_was_written() {
        let planned = PlannedClaim {
            types: Arc::from([TypeName::from("m"), "n".into()]),
            pods: Arc::from([PodName::new("shop", "web")]),
            price: Price::from_pico(7),
            is_full: true,
            ..PlannedClaim::bare("general".into())
        };
        for method in Method::ALL {
            let command = Disruption {
                method,
                leaving: vec![Leaver {
                    node: "n".into(),
                    claim: "c".into(),
                    pool: "general".into(),
                    instance_type: Some("m".into()),
                    capacity_type: Some(CapacityType::Spot),
                    price: Price::from_pico(9),
                    pods: vec![PodName::new("shop", "web"), PodName::new("shop", "db")],
                    cost: EvictionCost::COMMON,
                }],
                replacements: vec![planned.clone(), planned.clone()],
                moves: vec![
                    (PodName::new("shop", "web"), Target::Claim(1)),
                    (PodName::new("shop", "db"), Target::Node("o".into())),
                ],
                worth: Worth {
                    before: Price::from_pico(9),
                    after: Price::from_pico(7),
                    after_at_most: Price::from_pico(8),
                    evicted: 2,
                    cost: EvictionCost::COMMON,
                    pays_back_after: Some(Duration::from_secs(90)),
                    scores: Vec::new(),
                },
            };
            let written = write_command(&command);
            assert_eq!(written.type_lists.len(), 1, "a list that two share stands there once");
            assert_eq!(read_command(&written), command);
        }
    }
}
