//! A claim and its Nodes while they are worked on: as they are, and as they shall be.

use std::sync::Arc;

use api::NodeClaim;
use api::conditions::{Condition, ConditionStatus, ConditionTypes, Conditions, READY};
use api::labels::TERMINATION_FINALIZER;
use cluster::lower::claim;
use cluster::store::Revision;
use engine::lifecycle::Said;
use k8s_openapi::api::core::v1::Node;
use model::alike::Common;
use model::claim::{ClaimLife, Status};
use model::ids::NodeName;

use crate::ctx::Ctx;
use crate::error::ControllerError;
use crate::{failpoint, write};

pub(super) const LAUNCHED: &str = "Launched";
pub(super) const REGISTERED: &str = "Registered";
pub(super) const INITIALIZED: &str = "Initialized";

pub(super) struct Desk {
    name: NodeName,
    /// Of what was found in the store.
    pub(super) revision: Option<Revision>,
    stored: Arc<NodeClaim>,
    /// The same as long as nobody changes it: most looks end without a change.
    pub(super) claim: Common<NodeClaim>,
    nodes: Vec<Sheet>,
    /// What has come about and is told once it is written: a conflict lets the same step be taken again.
    announcements: Vec<Announcement>,
    is_abandoned: bool,
}

/// What is told once it is true for everybody.
struct Announcement {
    about: About,
    tell: Tell,
}

type Tell = Box<dyn FnOnce(&Ctx, &NodeClaim) + Send>;

/// What must be written before something is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    Claim,
    /// The claim and its Node.
    Node,
}

/// One Node.
struct Sheet {
    stored: Arc<Node>,
    wanted: Common<Node>,
}

impl Desk {
    /// `None` when there is no such claim of ours.
    pub(super) fn open(ctx: &Ctx, name: &NodeName) -> Option<Self> {
        let store = ctx.store();
        let stored = store.claim(name)?;
        let id = stored.status.as_ref().and_then(|status| status.provider_id.as_deref()).unwrap_or_default();
        let nodes = store.nodes_with_id(id).filter_map(|name| store.node(name)).map(Sheet::of).collect();
        let claim = stored.clone().into();
        let (revision, announcements) = (store.revision_of_claim(name), Vec::new());
        Some(Self { name: name.clone(), revision, claim, stored, nodes, announcements, is_abandoned: false })
    }

    /// Tells logs, metrics and whoever else wants to know, once it is written.
    pub(super) fn announce(&mut self, about: About, tell: impl FnOnce(&Ctx, &NodeClaim) + Send + 'static) {
        self.announcements.push(Announcement { about, tell: Box::new(tell) });
    }

    pub(super) fn name(&self) -> &NodeName {
        &self.name
    }

    /// A machine that the claim has just learned of may have its Node already.
    pub(super) fn find_nodes(&mut self, ctx: &Ctx) {
        let store = ctx.store();
        let nodes = store.nodes_with_id(self.provider_id().unwrap_or_default());
        self.nodes = nodes.filter_map(|name| store.node(name)).map(Sheet::of).collect();
    }

    pub(super) fn life(&self) -> ClaimLife {
        claim::life(&self.claim, self.nodes.iter().map(|sheet| &*sheet.wanted)).value
    }

    /// The claim as it is written, whatever its Nodes say; nothing once it was given up.
    pub(super) fn stored_life(&self) -> Option<ClaimLife> {
        (!self.is_abandoned).then(|| claim::life(&self.stored, []).value)
    }

    /// Whether there is nothing to write.
    pub(super) fn is_as_stored(&self) -> bool {
        self.claim.is(&self.stored) && self.nodes.iter().all(|sheet| sheet.wanted.is(&sheet.stored))
    }

    pub(super) fn provider_id(&self) -> Option<&str> {
        self.claim.status.as_ref().and_then(|status| status.provider_id.as_deref()).filter(|id| !id.is_empty())
    }

    /// A Node as it shall be.
    pub(super) fn node_mut(&mut self, name: &NodeName) -> Option<&mut Node> {
        let is_it = |sheet: &&mut Sheet| sheet.stored.metadata.name.as_deref() == Some(name.as_str());
        self.nodes.iter_mut().find(is_it).map(|sheet| &mut *sheet.wanted)
    }

    /// A Node as it is.
    pub(super) fn stored_node(&self, name: &NodeName) -> Option<&Arc<Node>> {
        let is_it = |sheet: &&Sheet| sheet.stored.metadata.name.as_deref() == Some(name.as_str());
        self.nodes.iter().find(is_it).map(|sheet| &sheet.stored)
    }

    /// Nodes as they shall be.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().map(|sheet| &*sheet.wanted)
    }

    /// Reads and sets conditions, by the rules that sum them up.
    pub(super) fn conditions<T>(&mut self, ctx: &Ctx, use_them: impl FnOnce(&mut Conditions<'_>) -> T) -> T {
        let NodeClaim { metadata, status, .. } = &mut *self.claim;
        let list = &mut status.get_or_insert_default().conditions;
        use_them(&mut Conditions::open(ConditionTypes::NODE_CLAIM, metadata, list, ctx.timestamp()))
    }

    /// Whether the claim says so already, of its present generation.
    pub(super) fn says(&self, type_: &str) -> bool {
        let conditions = self.claim.status.iter().flat_map(|status| &status.conditions);
        conditions.into_iter().any(|found| found.type_ == type_ && found.is_true() && self.is_of_now(found))
    }

    fn is_of_now(&self, condition: &Condition) -> bool {
        condition.observed_generation == self.claim.metadata.generation
    }

    pub(super) fn say(&mut self, ctx: &Ctx, said: &Said) {
        let status = match said.status {
            Status::True => ConditionStatus::True,
            Status::False => ConditionStatus::False,
            Status::Unknown => ConditionStatus::Unknown,
        };
        self.conditions(ctx, |conditions| conditions.set(said.condition, status, said.reason, &said.message));
    }

    /// Verdicts stand when the object has a new generation, as it has when its end is asked for; they are only seen anew.
    pub(super) fn follow_generation(&mut self, ctx: &Ctx) {
        let known = self.claim.status.as_ref().map(|status| &*status.conditions).unwrap_or_default();
        if !known.is_empty() && known.iter().all(|condition| self.is_of_now(condition)) {
            return;
        }
        self.conditions(ctx, |conditions| {
            for type_ in [LAUNCHED, REGISTERED, INITIALIZED] {
                let verdict = conditions.get(type_).filter(|found| found.status != ConditionStatus::Unknown).cloned();
                if let Some(found) = verdict {
                    conditions.set(type_, found.status, &found.reason, &found.message);
                }
            }
        });
    }

    /// Puts our finalizer on the claim, and waits until that is written: nothing may be launched before.
    pub(super) async fn adopt(&mut self, ctx: &Ctx) -> Result<(), ControllerError> {
        let mut held = NodeClaim::clone(&self.stored);
        held.metadata.finalizers.get_or_insert_default().push(TERMINATION_FINALIZER.to_owned());
        let written = write::claim(ctx, &self.stored, &held).await?;
        self.claim.metadata.finalizers = written.metadata.finalizers.clone();
        self.claim.metadata.resource_version = written.metadata.resource_version.clone();
        self.stored = Arc::new(written);
        Ok(())
    }

    /// Writes what differs: Nodes first, for the claim says what has happened to them. While a Node cannot be written, the
    /// claim keeps to itself what follows from it, and learns all the rest: whose machine it is, above all.
    pub(super) async fn write(&mut self, ctx: &Ctx) -> Result<(), ControllerError> {
        let nodes = self.write_nodes(ctx).await;
        if nodes.is_err() {
            self.take_back(ctx);
        }
        self.reach_failpoints();
        if !self.claim.is(&self.stored) {
            self.stored = Arc::new(write::claim(ctx, &self.stored, &self.claim).await?);
            self.claim = self.stored.clone().into();
        }
        for announcement in std::mem::take(&mut self.announcements) {
            (announcement.tell)(ctx, &self.stored);
        }
        nodes
    }

    async fn write_nodes(&mut self, ctx: &Ctx) -> Result<(), ControllerError> {
        for sheet in self.nodes.iter_mut().filter(|sheet| !sheet.wanted.is(&sheet.stored)) {
            sheet.stored = Arc::new(write::node(ctx, &sheet.stored, &sheet.wanted).await?);
            sheet.wanted = sheet.stored.clone().into();
        }
        Ok(())
    }

    /// The claim says no more of its Node than it said before.
    fn take_back(&mut self, ctx: &Ctx) {
        let before = self.stored.status.clone().unwrap_or_default();
        let status = self.claim.status.get_or_insert_default();
        status.node_name = before.node_name;
        let wanted = std::mem::replace(&mut status.conditions, before.conditions);
        let follows = |found: &Condition| found.is_true() && [REGISTERED, INITIALIZED].contains(&&*found.type_);
        self.conditions(ctx, |all| {
            for found in wanted.iter().filter(|found| found.type_ != READY && !follows(found)) {
                all.set(&found.type_, found.status, &found.reason, &found.message);
            }
        });
        self.announcements.retain(|announcement| announcement.about == About::Claim);
    }

    /// The Node says something that the claim does not say yet.
    fn reach_failpoints(&self) {
        if !cfg!(feature = "failpoints") {
            return;
        }
        let before = claim::life(&self.stored, []).value;
        let after = claim::life(&self.claim, []).value;
        if after.registered.is_true() && !before.registered.is_true() {
            failpoint::reach("node-registered");
        }
        if after.initialized.is_true() && !before.initialized.is_true() {
            failpoint::reach("node-initialized");
        }
    }

    pub(super) fn stored_status(&self) -> Option<api::nodeclaim::NodeClaimStatus> {
        self.stored.status.clone()
    }

    /// The claim is given up or gone, and there is nothing left to write.
    pub(super) fn abandon(&mut self) {
        self.claim = self.stored.clone().into();
        self.nodes.clear();
        self.is_abandoned = true;
    }
}

impl Sheet {
    fn of(node: Arc<Node>) -> Self {
        Self { stored: node.clone(), wanted: node.into() }
    }
}
