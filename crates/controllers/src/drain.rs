//! The end of a Node of ours: taint, drain, volumes, machine, and then the Node itself.
//!
//! The engine says what is next; pods are made to leave by the eviction queue, so that one stubborn pod does not hold up the
//! look at its node.

mod evict;
mod queue;
mod release;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::NodeClaim;
use api::conditions::{ConditionStatus, ConditionTypes, Conditions};
use api::labels::{EXCLUDE_BALANCERS, TERMINATION_FINALIZER};
use cluster::lower::claim::{deadline_of, is_ready};
use cluster::{Duty, Store};
use engine::drain::{Blocker, Drain, Holdup, Leaving, NodeStep, Volumes, blocker, next_step};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use model::ids::NodeName;
use model::time::Instant;
use provider::{CloudProvider, ProviderId, Termination};
use runtime::{Backoff, Next, Queue};

pub(crate) use queue::{EvictionQueue, Evictions};

use crate::controller::{About, Controller, TickId};
use crate::ctx::{Ctx, instant, timestamp};
use crate::disrupted::pool_of;
use crate::error::{ControllerError, Doing};
use crate::lifecycle::{ASK_AGAIN, INSTANCE_TERMINATING};
use crate::metrics::ByPool;
use crate::settings::{Settings, Workers};
use crate::{disrupted, events, write};

const DRAINED: &str = "Drained";
const VOLUMES_DETACHED: &str = "VolumesDetached";
/// Names what holds up the drain, and since when something does. The reference has no such condition. Decision 0068.
pub(crate) const DRAIN_BLOCKED: &str = "DrainBlocked";
/// Pods, attachments and claims wake their node when they change; this is for changes that nobody tells us of.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

pub(crate) struct NodeTermination {
    evictions: Arc<Evictions>,
    queue: Queue<engine::drain::Order>,
}

impl NodeTermination {
    pub(crate) fn new(evictions: Arc<Evictions>, queue: Queue<engine::drain::Order>) -> Self {
        Self { evictions, queue }
    }
}

/// A Node that is to go, and its claim, as they are and as the claim shall be.
struct Parting {
    node: Arc<Node>,
    stored: Option<Arc<NodeClaim>>,
    claim: Option<NodeClaim>,
    /// It has just been found empty, which counts once it is written down.
    is_newly_drained: bool,
}

impl Controller for NodeTermination {
    type Key = NodeName;
    const NAME: &'static str = "node.termination";
    const ABOUT: Option<About> = Some(About { group: "", kind: "Node" });
    const NEEDS_ALL_LISTED: bool = true;

    fn wakes_for(call: &Duty) -> Option<NodeName> {
        call.node()
    }

    fn first_keys(&self, store: &Store) -> Vec<NodeName> {
        let leaving = store.nodes().iter().filter(|(_, node)| node.metadata.deletion_timestamp.is_some());
        leaving.map(|(name, _)| name.clone()).collect()
    }

    fn workers(settings: &Settings) -> usize {
        Workers::TERMINATION.at(settings.cpu_requests)
    }

    fn backoff() -> Backoff {
        Backoff::new(Duration::from_millis(100), Duration::from_secs(10))
    }

    async fn tick(&self, ctx: &Ctx, name: &NodeName, _id: &TickId) -> Result<Next, ControllerError> {
        let Some(mut parting) = Parting::open(ctx, name) else { return Ok(Next::OnChange) };
        parting.end_claim(ctx).await?;
        if parting.has_lost_its_machine(ctx).await? {
            return release::release(ctx, &parting).await;
        }
        let deadline = parting.deadline(ctx);
        parting.close(ctx).await?;
        let end = self.part(ctx, &mut parting, deadline).await;
        if let Ok(Next::OnChange) = end {
            // The Node is gone, and its claim looks after itself.
            return end;
        }
        let written = parting.write(ctx).await;
        let next = end?;
        written?;
        Ok(next)
    }
}

impl NodeTermination {
    async fn part(&self, ctx: &Ctx, parting: &mut Parting, deadline: Option<Instant>) -> Result<Next, ControllerError> {
        let now = ctx.now();
        let leaving = parting.leaving(ctx, &self.evictions, deadline);
        let step = next_step(&leaving, now);
        parting.note_blocker(ctx, blocker(&step).as_ref());
        match step {
            NodeStep::Drain(drain) => {
                parting.say(ctx, DRAINED, ConditionStatus::Unknown, "Draining", "");
                self.order(ctx, parting, &drain, deadline);
                Ok(look_again(drain.until, now))
            }
            NodeStep::Linger { until } => {
                parting.say(ctx, DRAINED, ConditionStatus::Unknown, "Draining", "");
                Ok(Next::After(until.since(now)))
            }
            NodeStep::AwaitVolumes { attachments, until } => {
                parting.note_drained(ctx);
                let names: Vec<&str> = attachments.iter().map(|name| &**name).collect();
                ctx.recorder.publish(events::awaiting_volume_detachment(&parting.node, &names));
                let reason = "AwaitingVolumeDetachment";
                parting.say(ctx, VOLUMES_DETACHED, ConditionStatus::Unknown, reason, "");
                Ok(look_again(until, now))
            }
            NodeStep::Terminate { volumes } => {
                parting.note_drained(ctx);
                parting.note_volumes(ctx, volumes);
                parting.terminate(ctx).await
            }
        }
    }

    /// Hands the pods that are to go to the eviction queue, and says how many are waited for.
    fn order(&self, ctx: &Ctx, parting: &Parting, drain: &Drain, deadline: Option<Instant>) {
        for order in &drain.orders {
            // A pod that is on the list already waits for its turn: whoever was refused is asked again later and later,
            // however often somebody looks at the node.
            if self.evictions.add(order, &parting.name(), deadline) {
                self.queue.push(order.clone());
            }
        }
        for (pod, _) in drain.waiting.iter().filter(|(_, holdup)| *holdup == Holdup::Unread) {
            ctx.recorder.publish(events::unreadable_pod(&parting.node, pod));
        }
        let why = format!("{} pods are waiting to be evicted", drain.waiting.len());
        tracing::debug!(Node = %parting.name(), waiting = ?drain.waiting, "draining");
        ctx.recorder.publish(events::failed_draining(&parting.node, &why));
    }
}

impl Parting {
    /// `None` unless the Node is ours, on its way out and held by us.
    fn open(ctx: &Ctx, name: &NodeName) -> Option<Self> {
        let store = ctx.store();
        let node = store.node(name)?;
        let is_held = node.finalizers().iter().any(|name| name == TERMINATION_FINALIZER);
        let is_ours = store.settings().classes.owns_node(&node);
        if node.metadata.deletion_timestamp.is_none() || !is_held || !is_ours {
            return None;
        }
        let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).unwrap_or_default();
        let claims: Vec<&NodeName> = store.claims_with_id(id).collect();
        // Two claims of one machine: nobody knows which of them means it, so neither is touched.
        let stored = match *claims {
            [only] => store.claim(only),
            _ => None,
        };
        Some(Self { node, claim: stored.as_deref().cloned(), stored, is_newly_drained: false })
    }

    fn name(&self) -> NodeName {
        NodeName::from(self.node.name_any())
    }

    fn provider_id(&self) -> Option<ProviderId> {
        let id = self.node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref());
        id.filter(|id| !id.is_empty()).map(ProviderId::from)
    }

    /// Who deletes a Node means the machine; its claim goes with it.
    async fn end_claim(&mut self, ctx: &Ctx) -> Result<(), ControllerError> {
        let Some(claim) = self.stored.as_ref().filter(|claim| claim.metadata.deletion_timestamp.is_none()) else {
            return Ok(());
        };
        write::delete(ctx, &**claim).await?;
        let name = NodeName::from(claim.name_any());
        self.stored = ctx.store().claim(&name);
        self.claim = self.stored.as_deref().cloned();
        Ok(())
    }

    /// A machine that is no more cannot be drained. While the kubelet reports, no list of a cloud says otherwise.
    async fn has_lost_its_machine(&self, ctx: &Ctx) -> Result<bool, ControllerError> {
        let Some(id) = self.provider_id().filter(|_| !is_ready(&self.node)) else { return Ok(false) };
        match ctx.cloud.for_controller(NodeTermination::NAME).get(&id).await {
            Ok(_) => Ok(false),
            Err(error) if error.reaction() == provider::Reaction::AlreadyGone => Ok(true),
            Err(error) => Err(error).doing(format!("asking for the machine of node {}", self.name())),
        }
    }

    fn deadline(&self, ctx: &Ctx) -> Option<Instant> {
        let found = deadline_of(self.claim.as_ref()?);
        for oddity in &found.oddities {
            tracing::warn!(%oddity, "an object cannot be understood in full");
        }
        if let Some(deadline) = found.value {
            let note = events::node_termination_grace_period_expiring(&self.node, timestamp(deadline));
            ctx.recorder.publish(note);
        }
        found.value
    }

    /// Keeps pods and the load balancers' traffic from coming.
    async fn close(&mut self, ctx: &Ctx) -> Result<(), ControllerError> {
        let mut closed = Node::clone(&self.node);
        let is_new = disrupted::add_taint(&mut closed);
        closed.labels_mut().entry(EXCLUDE_BALANCERS.to_owned()).or_insert_with(|| "karpenter".to_owned());
        self.node = Arc::new(write::node(ctx, &self.node, &closed).await?);
        if is_new {
            let claim = self.claim.as_ref().map(NodeClaim::name_any);
            disrupted::log_tainted(self.name().as_str(), claim.as_deref());
        }
        Ok(())
    }

    fn leaving(&mut self, ctx: &Ctx, evictions: &Evictions, deadline: Option<Instant>) -> Leaving {
        let now = ctx.now();
        let draining_since = self.claim.as_ref().and_then(|claim| {
            let conditions = claim.status.iter().flat_map(|status| &status.conditions);
            match conditions.into_iter().find(|condition| condition.type_ == DRAINED) {
                // Not said yet, so it begins now.
                None => Some(now),
                Some(said) if said.status == ConditionStatus::Unknown => Some(instant(said.last_transition_time.0)),
                Some(_) => None,
            }
        });
        let (store, name) = (ctx.store(), self.name());
        let (guests, unread) = (store.guests_on(&name), store.unread_on(&name));
        let (attached, refused) = (store.attached_to(&name), evictions.refusals(&guests));
        Leaving { guests, unread, attached, refused, deadline, draining_since }
    }

    /// A claim says who holds up its node, as long as somebody does.
    fn note_blocker(&mut self, ctx: &Ctx, blocker: Option<&Blocker>) {
        match blocker {
            Some(blocker) => {
                let (reason, message) = (blocker.what.cause().reason(), blocker.to_string());
                self.say(ctx, DRAIN_BLOCKED, ConditionStatus::True, reason, &message);
            }
            None => {
                let status = self.claim.as_mut().and_then(|claim| claim.status.as_mut());
                status.into_iter().for_each(|status| status.conditions.retain(|it| it.type_ != DRAIN_BLOCKED));
            }
        }
    }

    fn conditions<T>(&mut self, ctx: &Ctx, use_them: impl FnOnce(&mut Conditions<'_>) -> T) -> Option<T> {
        let NodeClaim { metadata, status, .. } = self.claim.as_mut()?;
        let list = &mut status.get_or_insert_default().conditions;
        Some(use_them(&mut Conditions::open(ConditionTypes::NODE_CLAIM, metadata, list, ctx.timestamp())))
    }

    fn say(&mut self, ctx: &Ctx, type_: &str, status: ConditionStatus, reason: &str, message: &str) {
        self.conditions(ctx, |all| all.set(type_, status, reason, message));
    }

    fn note_drained(&mut self, ctx: &Ctx) {
        let is_news = self.conditions(ctx, |all| {
            let was_true = all.is_true(DRAINED);
            all.set_true(DRAINED);
            !was_true
        });
        // Without a claim there is nowhere to write it down, and it is counted when the Node goes.
        self.is_newly_drained |= is_news == Some(true);
    }

    fn count_drained(&self, ctx: &Ctx) {
        ctx.metrics.nodes_drained.get_or_create(&ByPool { nodepool: pool_of(&*self.node) }).inc();
    }

    fn note_volumes(&mut self, ctx: &Ctx, volumes: Volumes) {
        self.conditions(ctx, |all| match volumes {
            Volumes::Detached => all.set_true(VOLUMES_DETACHED),
            Volumes::GivenUp => {
                let reason = "TerminationGracePeriodElapsed";
                all.set(VOLUMES_DETACHED, ConditionStatus::False, reason, "")
            }
        });
    }

    /// Ends the machine, and then lets go of the Node. Without a claim the machine is left to the cloud's own collection.
    async fn terminate(&mut self, ctx: &Ctx) -> Result<Next, ControllerError> {
        let id = self.provider_id().filter(|_| self.claim.is_some());
        if let Some(id) = id {
            let cloud = ctx.cloud.for_controller(NodeTermination::NAME);
            let answer = match cloud.terminate(&id).await {
                Err(error) if error.reaction() == provider::Reaction::AlreadyGone => Ok(Termination::Gone),
                other => other,
            };
            let answer = answer.doing(format!("terminating the machine of node {}", self.name()))?;
            self.conditions(ctx, |all| all.set_true(INSTANCE_TERMINATING));
            if answer == Termination::Going {
                return Ok(Next::After(ASK_AGAIN));
            }
            self.write(ctx).await?;
            return release::release(ctx, self).await;
        }
        let next = release::release(ctx, self).await?;
        self.count_drained(ctx);
        Ok(next)
    }

    async fn write(&mut self, ctx: &Ctx) -> Result<(), ControllerError> {
        let (Some(stored), Some(claim)) = (&self.stored, &self.claim) else { return Ok(()) };
        match write::claim(ctx, stored, claim).await {
            Ok(written) => {
                self.stored = Some(Arc::new(written));
                self.claim = self.stored.as_deref().cloned();
            }
            Err(error) if error.is_gone() => {}
            Err(error) => return Err(error),
        }
        if std::mem::take(&mut self.is_newly_drained) {
            self.count_drained(ctx);
        }
        Ok(())
    }
}

fn look_again(until: Option<Instant>, now: Instant) -> Next {
    Next::After(until.map_or(LOOK_AGAIN, |until| until.since(now).min(LOOK_AGAIN)))
}
