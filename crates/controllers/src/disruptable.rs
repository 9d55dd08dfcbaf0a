//! Keeps the marks by which claims are disrupted, `Drifted` and `Consolidatable`, and the time of the last pod event.
//!
//! What can be seen is written before the cloud is asked, so that a cloud without an answer holds up nothing else. Claims
//! that wait for the cloud at the same time are asked about in one call.

mod asking;
mod pod_events;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::conditions::{Condition, ConditionStatus, ConditionTypes, Conditions};
use api::labels::NODE_POOL;
use api::labels::annotations::{NODE_POOL_HASH, NODE_POOL_HASH_VERSION};
use api::{NodeClaim, NodePool};
use cluster::lower::claim::{labels_of, last_pod_event};
use cluster::lower::pool::own_requirements;
use cluster::{Duty, Store};
use engine::disruptable::{ASK_AGAIN, CloudSays, Consolidation, Drift, Restless, Stamp, Subject, Terms, next_marks};
use kube::ResourceExt;
use model::ids::{NodeName, PoolName};
use model::pool::Pool;
use model::time::Instant;
use provider::CloudProvider;
use runtime::Next;

use crate::controller::{About, Controller, TickId};
use crate::ctx::Ctx;
use crate::error::{ControllerError, Doing};
use crate::per_claim::PerClaim;
use crate::settings::{Settings, Workers};
use crate::write;
use asking::Asking;
pub(crate) use pod_events::PodEvents;

const DRIFTED: &str = "Drifted";
const CONSOLIDATABLE: &str = "Consolidatable";

#[derive(Debug, Default)]
pub(crate) struct Disruptable {
    memory: PerClaim<Remembered>,
    asking: Asking,
}

#[derive(Clone, Debug, Default)]
struct Remembered {
    type_found: Option<Instant>,
    cloud: Option<Answer>,
    last: Option<Last>,
}

/// What the last look at a claim found, and what it was made of besides the cloud's answer.
#[derive(Clone, Debug)]
struct Last {
    /// Of the claim, whose uid the memory knows.
    version: Option<Box<str>>,
    wire: Arc<NodePool>,
    pool: Arc<Pool>,
    marks: Marks,
}

/// What the cloud said of a machine.
#[derive(Clone, Debug)]
struct Answer {
    at: Instant,
    /// The state of the class that it was said about.
    class: Option<Arc<str>>,
    drifted: Option<String>,
}

/// A claim, and the marks that it should carry.
#[derive(Clone, Debug)]
struct Look {
    claim: Arc<NodeClaim>,
    marks: Marks,
}

#[derive(Clone, Debug)]
struct Marks {
    /// The state of the class that they were found with.
    class: Option<Arc<str>>,
    /// Nothing when what the claim says stands.
    drift: Option<Option<String>>,
    consolidation: Consolidation,
    awaits_cloud: bool,
    until: Option<Instant>,
}

impl Controller for Disruptable {
    type Key = NodeName;
    const NAME: &'static str = "nodeclaim.disruption";
    const ABOUT: Option<About> = Some(About { group: "karpenter.sh", kind: "NodeClaim" });
    const NEEDS_ALL_LISTED: bool = true;

    fn wakes_for(call: &Duty) -> Option<NodeName> {
        call.claim()
    }

    fn first_keys(&self, store: &Store) -> Vec<NodeName> {
        store.claims().names().cloned().collect()
    }

    // Those who wait for the cloud are asked about together, so there should be room for many of them.
    fn workers(settings: &Settings) -> usize {
        Workers::LIFECYCLE.at(settings.cpu_requests)
    }

    async fn tick(&self, ctx: &Ctx, name: &NodeName, _id: &TickId) -> Result<Next, ControllerError> {
        let Some(mut look) = self.look(ctx, name) else { return Ok(Next::OnChange) };
        write(ctx, &look).await?;
        let now = ctx.now();
        let mut due =
            self.memory.read(&look.claim, |known| known.cloud.as_ref().map(|answer| answer.due(&look.marks.class)));
        if look.marks.awaits_cloud && due.is_none_or(|due| due <= now) {
            let cloud = ctx.cloud.for_controller(Self::NAME);
            let said = self.asking.ask(&cloud, &look.claim).await;
            let drifted = said.doing(format!("asking whether the machine of nodeclaim {name} has drifted"))?;
            let answer = Answer { at: ctx.now(), class: look.marks.class.clone(), drifted };
            due = Some(answer.due(&look.marks.class));
            self.memory.write(&look.claim, |known| {
                let says = |answer: &Option<Answer>| answer.as_ref().map(|answer| answer.drifted.clone());
                let before = says(&known.cloud);
                known.cloud = Some(answer);
                if before != says(&known.cloud) {
                    known.last = None;
                }
            });
            match self.look(ctx, name) {
                Some(fresh) => look = fresh,
                None => return Ok(Next::OnChange),
            }
            write(ctx, &look).await?;
        }
        let now = ctx.now();
        // What nobody tells of is looked at as often as the cloud is asked.
        let due = due.filter(|_| look.marks.awaits_cloud).map_or(ASK_AGAIN, |due| due.since(now));
        Ok(Next::After(look.marks.until.map_or(due, |until| until.since(now).min(due)).max(Duration::from_millis(1))))
    }
}

impl Disruptable {
    /// `None` when there is nothing to be said about the claim: it is going, or its pool is not there.
    fn look(&self, ctx: &Ctx, name: &NodeName) -> Option<Look> {
        let now = ctx.now();
        let store = ctx.store();
        let claim = store.claim(name).filter(|claim| claim.metadata.deletion_timestamp.is_none());
        let Some(claim) = claim else {
            self.memory.forget(name);
            return None;
        };
        let pool_name = PoolName::from(claim.labels().get(NODE_POOL)?.as_str());
        let (wire, pool) = (store.node_pool(&pool_name)?, store.pools().get(&pool_name)?);
        let class = store.class_named(&claim.spec.node_class_ref).and_then(|class| class.revision.clone());
        // While nothing has changed, time alone changes nothing before `until`.
        let unchanged = self.memory.read(&claim, |known| {
            let is_same = |last: &&Last| last.version.is_some() && last.version.as_deref() == version_of(&claim);
            let last = known.last.as_ref().filter(is_same);
            let last = last.filter(|last| Arc::ptr_eq(&last.wire, wire) && Arc::ptr_eq(&last.pool, pool));
            let marks = last.map(|last| &last.marks).filter(|marks| marks.class == class);
            marks.filter(|marks| marks.until.is_none_or(|until| now < until)).cloned()
        });
        if let Some(marks) = unchanged {
            return Some(Look { claim, marks });
        }
        let life = store.claim_life(name)?.value;
        let known = self.memory.read(&claim, Clone::clone);
        let (labels, requirements) = (labels_of(&claim), own_requirements(wire));
        let subject = Subject {
            created: life.created,
            launched: life.launched,
            initialized: life.initialized,
            labels: &labels,
            stamp: stamp_of(&*claim),
            last_pod_event: last_pod_event(&claim),
            type_found: known.type_found,
            cloud: known.cloud.as_ref().map_or(CloudSays::Nothing, Answer::said),
        };
        let terms = Terms {
            kind: pool.kind,
            stamp: stamp_of::<NodePool>(wire),
            requirements: &requirements,
            consolidate_after: wire.spec.disruption.consolidate_after.value().map(api::Duration::to_std),
            types: &pool.instance_types,
            well_known: &store.settings().well_known,
            reserved_only: &ctx.cloud.label_keys().reserved_only,
        };
        let marks = next_marks(&subject, &terms, now);
        if marks.has_found_type {
            self.memory.write(&claim, |known| known.type_found = Some(now));
        }
        let drift = match marks.drift {
            Drift::Unknown => None,
            Drift::No => Some(None),
            Drift::Because(reason) => Some(Some(reason.to_owned())),
        };
        let (consolidation, awaits_cloud, until) = (marks.consolidation, marks.awaits_cloud, marks.until);
        let marks = Marks { class, drift, consolidation, awaits_cloud, until };
        let version = version_of(&claim).map(Into::into);
        let last = Last { version, wire: wire.clone(), pool: pool.clone(), marks: marks.clone() };
        self.memory.write(&claim, |known| known.last = Some(last));
        Some(Look { claim, marks })
    }
}

impl Answer {
    fn said(&self) -> CloudSays<'_> {
        self.drifted.as_deref().map_or(CloudSays::Fine, CloudSays::Drifted)
    }

    /// When the cloud is to be asked again: after a while, and at once when the class is another one than it was.
    fn due(&self, class: &Option<Arc<str>>) -> Instant {
        if self.class == *class { self.at.plus(ASK_AGAIN) } else { self.at }
    }
}

fn version_of(claim: &NodeClaim) -> Option<&str> {
    claim.metadata.resource_version.as_deref()
}

fn stamp_of<K: ResourceExt>(object: &K) -> Option<Stamp<'_>> {
    let note = |key: &str| object.annotations().get(key).map(String::as_str);
    Some(Stamp { hash: note(NODE_POOL_HASH)?, version: note(NODE_POOL_HASH_VERSION)? })
}

/// Writes what differs, in one patch. Marks that do not apply any more are removed, not set to false.
async fn write(ctx: &Ctx, look: &Look) -> Result<(), ControllerError> {
    let held = |type_: &str| {
        let conditions = look.claim.status.as_ref().map(|status| &*status.conditions).unwrap_or_default();
        conditions.iter().find(|condition| condition.type_ == type_)
    };
    let says =
        |found: Option<&Condition>, reason: &str| found.is_some_and(|found| found.is_true() && found.reason == reason);
    let drift = look.marks.drift.as_ref().filter(|wanted| match wanted {
        Some(reason) => !says(held(DRIFTED), reason),
        None => held(DRIFTED).is_some(),
    });
    let is_allowed = look.marks.consolidation == Consolidation::Allowed;
    let has_news =
        if is_allowed { !says(held(CONSOLIDATABLE), CONSOLIDATABLE) } else { held(CONSOLIDATABLE).is_some() };
    if drift.is_none() && !has_news {
        return Ok(());
    }
    let mut claim = NodeClaim::clone(&look.claim);
    let NodeClaim { metadata, status, .. } = &mut claim;
    let list = &mut status.get_or_insert_default().conditions;
    let mut all = Conditions::open(ConditionTypes::NODE_CLAIM, metadata, list, ctx.timestamp());
    if let Some(Some(reason)) = drift {
        all.set(DRIFTED, ConditionStatus::True, reason, reason);
    }
    if has_news && is_allowed {
        all.set_true(CONSOLIDATABLE);
    }
    let stale = [(DRIFTED, drift == Some(&None)), (CONSOLIDATABLE, has_news && !is_allowed)];
    list.retain(|condition| !stale.contains(&(condition.type_.as_str(), true)));
    write::claim(ctx, &look.claim, &claim).await?;
    tell(look, drift, has_news);
    Ok(())
}

fn tell(look: &Look, drift: Option<&Option<String>>, has_news: bool) {
    let name = look.claim.name_any();
    match drift {
        Some(Some(reason)) => tracing::debug!(NodeClaim.name = name, reason, "marking drifted"),
        Some(None) => tracing::debug!(NodeClaim.name = name, "removing drifted status condition, not drifted"),
        None => {}
    }
    match look.marks.consolidation {
        _ if !has_news => {}
        Consolidation::Allowed => tracing::debug!(NodeClaim.name = name, "marking consolidatable"),
        Consolidation::Not(why) => {
            let reason = why_not(why);
            tracing::debug!(NodeClaim.name = name, reason, "removing consolidatable status condition");
        }
    }
}

fn why_not(why: Restless) -> &'static str {
    match why {
        Restless::StaticPool => "its nodepool is static",
        Restless::Never => "consolidation is disabled",
        Restless::NotInitialized => "it is not initialized",
        Restless::Until(_) => "a pod came or left a short time ago",
    }
}
