//! Replaces nodes that the cloud's own rules call broken. Nobody is asked: a machine that does not work protects no pod.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::conditions::ConditionStatus;
use api::labels::{CAPACITY_TYPE, NODE_POOL};
use api::{NodeClaim, NodePool};
use cluster::{Duty, Store};
use engine::repair::{Policy, Symptom, Ward, ailment, is_epidemic};
use k8s_openapi::api::core::v1::Node;
use kube::{Resource, ResourceExt};
use model::claim::{Status, Verdict};
use model::ids::{NodeName, PoolName};
use model::time::Instant;
use provider::CloudProvider;
use runtime::Next;

use crate::controller::{About, Controller, TickId};
use crate::ctx::{Ctx, instant};
use crate::disrupted::{self, label_of, pool_of};
use crate::ending::{end_by, pods_to_move};
use crate::error::ControllerError;
use crate::events::{self, Epidemic};
use crate::metrics::{DisruptedReason, UnhealthyDisrupted};
use crate::settings::{Settings, Workers};

/// How often it is looked whether so many nodes are broken still.
const AFTER_EPIDEMIC: Duration = Duration::from_secs(300);

pub(crate) struct Repair;

/// A node that is broken, and everything of the same moment that decides what becomes of it.
struct Patient {
    node: Arc<Node>,
    claim: Arc<NodeClaim>,
    pool: Option<Arc<NodePool>>,
    condition: String,
    due: Instant,
    epidemic: Option<Epidemic>,
}

impl Controller for Repair {
    type Key = NodeName;
    const NAME: &'static str = "node.health";
    const ABOUT: Option<About> = Some(About { group: "", kind: "Node" });
    const NEEDS_ALL_LISTED: bool = true;

    fn wakes_for(call: &Duty) -> Option<NodeName> {
        call.node()
    }

    fn first_keys(&self, store: &Store) -> Vec<NodeName> {
        let ours = store.nodes().iter().filter(|(_, node)| store.settings().classes.owns_node(node));
        ours.map(|(name, _)| name.clone()).collect()
    }

    fn workers(settings: &Settings) -> usize {
        Workers::POOLS.at(settings.cpu_requests)
    }

    async fn tick(&self, ctx: &Ctx, name: &NodeName, _id: &TickId) -> Result<Next, ControllerError> {
        let now = ctx.now();
        let policies = policies(ctx);
        let Some(patient) = patient(&ctx.store(), name, &policies, now) else { return Ok(Next::OnChange) };
        if now < patient.due {
            return Ok(Next::After(patient.due.since(now)));
        }
        if let Some(epidemic) = patient.epidemic {
            tell_blocked(ctx, &patient, epidemic);
            return Ok(Next::After(AFTER_EPIDEMIC));
        }
        let pods = pods_to_move(ctx, &patient.claim);
        end_by(ctx, &patient.claim, Some(now)).await?;
        count(ctx, &patient, pods);
        tracing::info!(
            NodeClaim.name = patient.claim.name_any(),
            condition = patient.condition,
            "deleting unhealthy node"
        );
        Ok(Next::OnChange)
    }
}

fn policies(ctx: &Ctx) -> Vec<Policy<'static>> {
    let policies = ctx.cloud.repair_policies().iter();
    policies
        .map(|policy| Policy {
            condition: policy.condition,
            status: match policy.status {
                ConditionStatus::True => Status::True,
                ConditionStatus::False => Status::False,
                ConditionStatus::Unknown => Status::Unknown,
            },
            toleration: policy.toleration,
        })
        .collect()
}

/// `None` for a node that is well, is going already, or whose claim nobody knows.
fn patient(store: &Store, name: &NodeName, policies: &[Policy<'_>], now: Instant) -> Option<Patient> {
    let node = store.node(name).filter(|node| node.metadata.deletion_timestamp.is_none())?;
    let claim = store.claim_of_node(name).filter(|claim| claim.metadata.deletion_timestamp.is_none())?;
    let symptoms = symptoms(&node, now);
    let ailment = ailment(&symptoms, policies)?;
    let pool = claim.labels().get(NODE_POOL);
    Some(Patient {
        condition: ailment.condition.to_owned(),
        due: ailment.due,
        epidemic: (now >= ailment.due).then(|| epidemic(store, pool, policies, now)).flatten(),
        pool: pool.and_then(|pool| store.node_pool(&PoolName::from(pool.as_str()))).cloned(),
        node: node.clone(),
        claim: claim.clone(),
    })
}

/// Whether too many nodes are broken: of the claim's pool, or of the whole cluster for a claim that stands alone.
fn epidemic(store: &Store, pool: Option<&String>, policies: &[Policy<'_>], now: Instant) -> Option<Epidemic> {
    let is_near = |node: &Arc<Node>| pool.is_none_or(|pool| node.labels().get(NODE_POOL) == Some(pool));
    let mut ward = Ward { broken: 0, all: 0 };
    for node in store.nodes().values().filter(is_near) {
        ward.all += 1;
        ward.broken += usize::from(ailment(&symptoms(&node, now), policies).is_some());
    }
    let kind = if pool.is_some() { Epidemic::InPool } else { Epidemic::InCluster };
    is_epidemic(ward).then_some(kind)
}

fn symptoms(node: &Node, now: Instant) -> Vec<Symptom<'_>> {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let symptom = |condition: &'_ k8s_openapi::api::core::v1::NodeCondition| {
        let status = match condition.status.as_str() {
            "True" => Status::True,
            "False" => Status::False,
            _ => Status::Unknown,
        };
        // Who does not say since when gets all the time there is.
        let since = condition.last_transition_time.as_ref().map_or(now, |time| instant(time.0));
        Verdict { status, since }
    };
    conditions.map(|it| Symptom { condition: &it.type_, verdict: symptom(it) }).collect()
}

/// Everybody whom it concerns is told, each once. The reference tells the node three times.
fn tell_blocked(ctx: &Ctx, patient: &Patient, epidemic: Epidemic) {
    let pool = patient.pool.as_ref().map(|pool| pool.object_ref(&()));
    let regarding = [patient.node.object_ref(&()), patient.claim.object_ref(&())].into_iter().chain(pool);
    for object in regarding {
        ctx.recorder.publish(events::node_repair_blocked(object, epidemic));
    }
}

fn count(ctx: &Ctx, patient: &Patient, pods: usize) {
    let claim = &patient.claim;
    disrupted::count_claim(ctx, claim, DisruptedReason::Unhealthy);
    disrupted::count_pods(ctx, claim, DisruptedReason::Unhealthy, pods);
    let labels = UnhealthyDisrupted {
        condition: snake_case(&patient.condition),
        nodepool: pool_of(&**claim),
        capacity_type: label_of(&**claim, CAPACITY_TYPE),
        image_id: claim.status.as_ref().and_then(|status| status.image_id.clone()).unwrap_or_default(),
    };
    ctx.metrics.claims_unhealthy_disrupted.get_or_create(&labels).inc();
}

/// `KernelDeadlock` as metrics write it: `kernel_deadlock`; a run of capitals is one word.
fn snake_case(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut text = String::new();
    for (place, letter) in letters.iter().enumerate() {
        let before = place.checked_sub(1).and_then(|place| letters.get(place));
        let follows_word = before.is_some_and(|before| before.is_lowercase() || before.is_ascii_digit());
        let ends_capitals = before.is_some_and(|before| before.is_uppercase())
            && letters.get(place + 1).is_some_and(|after| after.is_lowercase());
        if letter.is_uppercase() && (follows_word || ends_capitals) {
            text.push('_');
        }
        text.extend(letter.to_lowercase());
    }
    text
}
