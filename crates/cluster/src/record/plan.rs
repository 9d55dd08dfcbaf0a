//! Decisions as recordings hold them.

use std::collections::BTreeMap;

use api::record::{self, Choice, Placement, Provisioning, ProvisioningQuestion};
use model::ids::{PodName, TypeName};
use model::plan::{Plan, PlannedClaim, Target};

use super::catalog::{write_amounts, write_requirements};

/// The choice of places for pods that wait. Equal plans give equal documents, and unequal ones unequal documents, up to what
/// the texts of reasons leave out.
pub fn provisioning(question: ProvisioningQuestion, plan: &Plan) -> Choice {
    let mut lists = TypeLists::default();
    let claims = plan.claims.iter().map(|claim| write_claim(claim, &mut lists)).collect();
    let unplaced = plan
        .unplaced
        .iter()
        .map(|unplaced| record::Unplaced { pod: unplaced.pod.to_string(), why: unplaced.to_string() });
    let plan = record::Plan {
        placements: plan.placements.iter().map(write_placement).collect(),
        claims,
        unplaced: unplaced.collect(),
        type_lists: lists.in_order,
        steps: plan.steps,
    };
    Choice::Provisioning(Provisioning { question, plan })
}

pub(super) fn write_placement((pod, target): &(PodName, Target)) -> Placement {
    let (node, claim) = match target {
        Target::Node(node) => (Some(node.to_string()), None),
        Target::Claim(number) => (None, Some(*number)),
    };
    Placement { pod: pod.to_string(), node, claim }
}

pub(super) fn write_claim<'a>(claim: &'a PlannedClaim, lists: &mut TypeLists<'a>) -> record::PlannedClaim {
    let labels = claim.labels.iter().map(|(key, value)| (key.to_string(), value.to_string()));
    record::PlannedClaim {
        pool: claim.pool.to_string(),
        requirements: write_requirements(&claim.requirements),
        types: lists.place_of(&claim.types),
        pods: claim.pods.iter().map(ToString::to_string).collect(),
        requests: write_amounts(&claim.requests),
        labels: labels.collect(),
        reservations: claim.reservations.iter().map(ToString::to_string).collect(),
        min_values_relaxed: claim.is_min_values_relaxed,
        full: claim.is_full,
        price: claim.price.pico(),
        why: claim.reason.to_string(),
    }
}

/// Lists of hundreds of types, which many claims share.
#[derive(Default)]
pub(super) struct TypeLists<'a> {
    places: BTreeMap<&'a [TypeName], usize>,
    pub(super) in_order: Vec<Vec<String>>,
}

impl<'a> TypeLists<'a> {
    fn place_of(&mut self, types: &'a [TypeName]) -> usize {
        *self.places.entry(types).or_insert_with(|| {
            self.in_order.push(types.iter().map(ToString::to_string).collect());
            self.in_order.len() - 1
        })
    }
}
