//! The one place that makes claims.
//!
//! A claim is written down as a value first (`of_pool`, `of_plan`), and then created, once, by `create`. Its name is drawn
//! here and not by the API server, so that asking twice cannot make two; and it is born with our finalizer, so that there is
//! no moment at which a claim could vanish and leave its machine behind (decision 0032).

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::labels::{NODE_POOL, TERMINATION_FINALIZER, annotations, node_class_label};
use api::nodeclaim::{NodeClaimSpec, ResourceRequirements};
use api::requirement::{Operator, Requirement};
use api::{NodeClaim, NodePool};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Api;
use kube::api::PostParams;
use model::ids::{NodeName, ReservationId};
use model::instance::InstanceType;
use model::plan::PlannedClaim;
use model::requirements::Requirements;
use provider::quantities;

use crate::controller::TickId;
use crate::ctx::Ctx;
use crate::error::{ControllerError, Doing};
use crate::events::listed;
use crate::failpoint;
use crate::metrics::{ClaimCreated, CreateReason};

/// Names the look at the world that a claim, and later its node, came from; logs of that look carry the same id.
pub const DECISION: &str = "dovetail.sh/decision";

/// A claim with nothing but what its pool says: what the cloud then chooses is the cloud's business.
pub(crate) fn of_pool(pool: &NodePool, name: String, decision: &TickId) -> NodeClaim {
    let pool_name = pool.metadata.name.clone().unwrap_or_default();
    let template = &pool.spec.template;
    let class = &template.spec.node_class_ref;
    let mut labels = template.metadata.labels.clone();
    labels.insert(NODE_POOL.to_owned(), pool_name.clone());
    labels.insert(node_class_label(&class.group, &class.kind), class.name.clone());
    let mut notes = template.metadata.annotations.clone();
    // Of the pool as it was planned with: if it has changed since, its claims are drifted from the first moment on.
    notes.insert(annotations::NODE_POOL_HASH.to_owned(), api::hash::node_pool_hash(&pool.spec));
    notes.insert(annotations::NODE_POOL_HASH_VERSION.to_owned(), api::hash::NODE_POOL_HASH_VERSION.to_owned());
    notes.insert(DECISION.to_owned(), decision.to_string());
    let metadata = ObjectMeta {
        name: Some(name),
        generate_name: Some(format!("{pool_name}-")),
        labels: Some(labels),
        annotations: Some(notes),
        finalizers: Some(vec![TERMINATION_FINALIZER.to_owned()]),
        owner_references: Some(vec![owner(pool)]),
        ..ObjectMeta::default()
    };
    let spec = NodeClaimSpec {
        taints: template.spec.taints.clone(),
        startup_taints: template.spec.startup_taints.clone(),
        requirements: template.spec.requirements.clone(),
        resources: ResourceRequirements::default(),
        node_class_ref: class.clone(),
        termination_grace_period: template.spec.termination_grace_period,
        expire_after: template.spec.expire_after.clone(),
    };
    NodeClaim { metadata, spec, status: None }
}

/// What a plan wants to be bought, and where it is on sale.
#[derive(Clone, Copy)]
pub(crate) struct Planned<'a> {
    pub(crate) claim: &'a PlannedClaim,
    /// What the pool could buy when the plan was made.
    pub(crate) types: &'a [Arc<InstanceType>],
}

/// The claim that a plan asks for.
pub(crate) fn of_plan(pool: &NodePool, planned: Planned<'_>, name: String, decision: &TickId) -> NodeClaim {
    let mut claim = of_pool(pool, name, decision);
    let labels = claim.metadata.labels.get_or_insert_default();
    labels.extend(planned.claim.labels.iter().map(|(key, value)| (key.to_string(), value.to_string())));
    let notes = claim.metadata.annotations.get_or_insert_default();
    let is_relaxed = planned.claim.is_min_values_relaxed.to_string();
    notes.insert(annotations::MIN_VALUES_RELAXED.to_owned(), is_relaxed);
    notes.extend(overlay_notes(planned));
    let mut requirements = planned.claim.requirements.clone();
    if let Some((key, ids)) = reservations(planned) {
        requirements.add(key, model::requirements::Requirement::one_of(ids));
    }
    claim.spec.requirements = to_wire(&requirements);
    claim.spec.resources.requests = quantities::to_wire(&planned.claim.requests);
    claim
}

fn owner(pool: &NodePool) -> OwnerReference {
    OwnerReference {
        api_version: "karpenter.sh/v1".to_owned(),
        kind: "NodePool".to_owned(),
        name: pool.metadata.name.clone().unwrap_or_default(),
        uid: pool.metadata.uid.clone().unwrap_or_default(),
        block_owner_deletion: Some(true),
        controller: None,
    }
}

/// Which of the listed types overlays have changed.
fn overlay_notes(planned: Planned<'_>) -> BTreeMap<String, String> {
    let listed: BTreeSet<&str> = planned.claim.types.iter().map(|name| name.as_str()).collect();
    let types = || planned.types.iter().filter(|found| listed.contains(found.name.as_str()));
    let has_capacity = types().any(|found| found.has_capacity_overlay);
    let has_price = types().any(|found| found.offerings.iter().any(|offering| offering.has_price_overlay));
    let notes =
        [(annotations::CAPACITY_OVERLAY_APPLIED, has_capacity), (annotations::PRICE_OVERLAY_APPLIED, has_price)];
    let applied = notes.into_iter().filter(|(_, is_applied)| *is_applied);
    applied.map(|(key, _)| (key.to_owned(), "true".to_owned())).collect()
}

/// The reservations that the claim must use, under the label by which the cloud tells them apart.
fn reservations(planned: Planned<'_>) -> Option<(Arc<str>, Vec<Arc<str>>)> {
    let ids = &planned.claim.reservations;
    let first: &ReservationId = ids.first()?;
    let offerings = planned.types.iter().flat_map(|found| &found.offerings);
    let mut of_first =
        offerings.filter(|offering| offering.reservation.as_ref().is_some_and(|reservation| reservation.id == *first));
    let names_it = |value: &Arc<str>| **value == *first.as_str();
    let key = of_first.find_map(|offering| {
        let keys = offering.requirements.iter().map(|(key, _)| key);
        keys.into_iter().find(|key| offering.label(key).is_some_and(names_it)).cloned()
    })?;
    Some((key, ids.iter().map(ReservationId::shared).collect()))
}

fn to_wire(requirements: &Requirements) -> Vec<Requirement> {
    let mut list = Vec::new();
    for (key, requirement) in requirements.iter() {
        for (operator, values) in requirement.entries() {
            list.push(Requirement {
                key: key.to_string(),
                operator: operator_to_wire(operator),
                values: values.iter().map(ToString::to_string).collect(),
                min_values: requirement.min_values.map(i64::from),
            });
        }
    }
    list
}

fn operator_to_wire(operator: model::requirements::Operator) -> Operator {
    use model::requirements::Operator as Model;
    match operator {
        Model::In => Operator::In,
        Model::NotIn => Operator::NotIn,
        Model::Exists => Operator::Exists,
        Model::DoesNotExist => Operator::DoesNotExist,
        Model::Gt => Operator::Gt,
        Model::Lt => Operator::Lt,
        Model::Gte => Operator::Gte,
        Model::Lte => Operator::Lte,
    }
}

/// Creates a claim, and tells the store, so that the next pass counts on it before any watch shows it.
pub(crate) async fn create(ctx: &Ctx, claim: NodeClaim, reason: CreateReason) -> Result<NodeName, ControllerError> {
    let name = claim.metadata.name.clone().unwrap_or_default();
    let api: Api<NodeClaim> = Api::all(ctx.client.clone());
    let made = api.create(&PostParams::default(), &claim).await.doing(format!("creating nodeclaim {name}"))?;
    failpoint::reach("claim-created");
    ctx.tell(|store, now| store.assume_claim(made, now));
    let label = |key: &str| claim.metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned();
    let note = |key: &str| claim.metadata.annotations.as_ref().and_then(|notes| notes.get(key)).cloned();
    let node_pool = label(NODE_POOL).unwrap_or_default();
    let min_values_relaxed = note(annotations::MIN_VALUES_RELAXED).is_some_and(|value| value == "true");
    let labels = ClaimCreated { reason, nodepool: node_pool.clone(), min_values_relaxed };
    ctx.metrics.claims_created.get_or_create(&labels).inc();
    let requests = serde_json::to_string(&claim.spec.resources.requests).unwrap_or_default();
    let types = types_of(&claim);
    tracing::info!(
        NodePool.name = node_pool,
        NodeClaim.name = name,
        requests,
        "instance-types" = types,
        "created nodeclaim"
    );
    Ok(NodeName::from(name))
}

/// The first few instance types, and how many more there are.
fn types_of(claim: &NodeClaim) -> String {
    let is_type = |requirement: &&Requirement| requirement.key == api::labels::INSTANCE_TYPE;
    let Some(requirement) = claim.spec.requirements.iter().find(is_type) else { return String::new() };
    listed(&requirement.values.iter().map(String::as_str).collect::<Vec<_>>())
}
