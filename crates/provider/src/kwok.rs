//! A simulated cloud: machines are Nodes that kwok keeps alive. Decision 0019.
//!
//! It sells the reference's generic types, a list that a user wrote, or what EC2 sells in a region; in the last case it also
//! serves EC2NodeClasses, with simulated facts in the place of an account.

mod account;

mod choose;
mod claims;
mod classes;
mod draw;
mod facts;
mod index;
mod interruptions;
mod keys;
mod machines;
mod node;
mod shelf;
mod status;
pub mod types;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::NodeClaim;
use api::conditions::ConditionStatus;
use api::nodepool::NodeClassReference;
use k8s_openapi::api::core::v1::Node;
use kube::{Client, ResourceExt};
use model::labels::{INSTANCE_TYPE, WellKnown, ZONE};
use model::price::Price;
use runtime::{Clock, Rng};

use crate::ec2::{self, RESERVATION_ID, RESERVATION_INTERRUPTIBLE, RESERVATION_TYPE};
use crate::{
    Answer, Catalog, ClaimName, CloudProvider, DriftReasons, Duty, Instance, Interruption, LabelKeys, NodeClassKind,
    OfferingKey, ProviderError, ProviderId, Reaction, RepairPolicy, Termination,
};
use account::Region;
use choose::{Wish, choose};
use classes::{Class, Classes};
pub use facts::{Delays, Facts};
use interruptions::Interruptions;
use keys::NOTICE;
use machines::Machines;
use shelf::{Shelf, View};
use status::StatusKeeper;
use types::Menu;

pub const KWOK_KIND: NodeClassKind =
    NodeClassKind { group: api::kwok::DOMAIN, version: "v1alpha1", kind: "KWOKNodeClass", plural: "kwoknodeclasses" };

pub const EC2_KIND: NodeClassKind =
    NodeClassKind { group: api::aws::DOMAIN, version: "v1", kind: "EC2NodeClass", plural: "ec2nodeclasses" };

const COLLECT_EVERY: Duration = Duration::from_secs(120);

const REPAIR_POLICIES: [RepairPolicy; 2] = [
    RepairPolicy { condition: "Ready", status: ConditionStatus::False, toleration: Duration::from_secs(600) },
    RepairPolicy { condition: "Ready", status: ConditionStatus::Unknown, toleration: Duration::from_secs(600) },
];

#[derive(Clone, Debug)]
pub struct Settings {
    /// Where machines are recorded while their Node has not come yet.
    pub namespace: String,
    /// Its seed decides between offerings that are equally good.
    pub rng: Rng,
}

/// What is for sale.
#[derive(Clone, Debug)]
pub enum Assortment {
    /// Types by formula or from a user's list, for KWOKNodeClasses.
    Menu(Menu),
    /// What EC2 sells in a region, for EC2NodeClasses and for KWOKNodeClasses.
    Ec2 { region: String },
}

/// The simulated cloud.
#[derive(Clone)]
pub struct Kwok {
    cloud: Arc<Cloud>,
}

struct Cloud {
    client: Client,
    clock: Clock,
    rng: Rng,
    seed: u64,
    keys: LabelKeys,
    well_known: WellKnown,
    shelf: Shelf,
    facts: Arc<Facts>,
    classes: Classes,
    machines: Machines,
    interruptions: Interruptions,
    status: Option<StatusKeeper>,
}

impl Kwok {
    pub fn new(
        client: Client,
        clock: Clock,
        settings: &Settings,
        assortment: Assortment,
    ) -> Result<Self, ec2::CatalogError> {
        let facts = Arc::new(Facts::default());
        let (types, keys, region) = match assortment {
            Assortment::Menu(menu) => (menu.types.clone(), menu_keys(menu), None),
            Assortment::Ec2 { region: name } => {
                let zones = ec2::catalog().zones(&name)?.cloned().collect();
                (ec2::catalog().types(&name)?, ec2_keys(), Some(Region { name, zones }))
            }
        };
        let kinds = if region.is_some() { vec![EC2_KIND, KWOK_KIND] } else { vec![KWOK_KIND] };
        let keeper = |region| StatusKeeper::new(client.clone(), clock.clone(), &settings.rng, region, facts.clone());
        let status = region.map(keeper);
        let cloud = Cloud {
            rng: settings.rng.fork("kwok.machines"),
            seed: settings.rng.seed(),
            well_known: keys.to_well_known(),
            keys,
            shelf: Shelf::new(types),
            facts,
            classes: Classes::new(&client, kinds),
            machines: Machines::new(&client, &settings.namespace),
            interruptions: Interruptions::default(),
            status,
            clock,
            client,
        };
        Ok(Self { cloud: Arc::new(cloud) })
    }

    /// What a simulation may change while the cloud runs.
    pub fn facts(&self) -> &Facts {
        &self.cloud.facts
    }

    /// The families of images that EC2NodeClasses find here, as their aliases name them.
    pub fn image_families() -> impl Iterator<Item = &'static str> {
        account::families()
    }

    /// Everything that is ever sold, by type, with the prices of now.
    pub fn price_list(&self) -> impl Iterator<Item = (OfferingKey, Price)> {
        let prices = self.cloud.facts.prices();
        let offerings = self.cloud.shelf.menu().iter().flat_map(|machine| {
            machine
                .offerings
                .iter()
                .filter_map(|offering| OfferingKey::of(&machine.name, offering).zip(Some(offering.price)))
        });
        offerings.map(move |(key, price)| {
            let price = prices.get(&key).copied().unwrap_or(price);
            (key, price)
        })
    }

    /// Takes a machine back: it runs until the notice is over and is ended then, whatever has become of it.
    pub fn interrupt(&self, id: ProviderId, notice: Duration) {
        self.cloud.interruptions.announce(id, self.cloud.clock.now(), notice);
    }

    /// The machines that are to be taken back, and when each will be ended.
    pub fn announced(&self) -> Vec<(ProviderId, jiff::Timestamp)> {
        self.cloud.interruptions.announced()
    }
}

fn menu_keys(menu: Menu) -> LabelKeys {
    LabelKeys {
        well_known: menu.well_known.into_iter().collect(),
        domains: vec![api::kwok::DOMAIN.into()],
        reserved_only: Vec::new(),
    }
}

fn ec2_keys() -> LabelKeys {
    LabelKeys {
        well_known: ec2::WELL_KNOWN.map(Into::into).into(),
        domains: vec![api::aws::DOMAIN.into(), api::kwok::DOMAIN.into()],
        reserved_only: [RESERVATION_ID, RESERVATION_TYPE, RESERVATION_INTERRUPTIBLE].map(Into::into).into(),
    }
}

impl Cloud {
    async fn catalog(&self, reference: &NodeClassReference) -> Result<Catalog, ProviderError> {
        let zones = if EC2_KIND.is_of(reference) {
            let class = self.classes.get(reference).await?.ok_or_else(|| missing(reference))?;
            class.check_ready(reference)?;
            class.zones().cloned()
        } else {
            None
        };
        Ok(self.seen(zones))
    }

    fn seen(&self, zones: Option<BTreeSet<Arc<str>>>) -> Catalog {
        let (sold_out, prices) = (self.facts.noticed(self.clock.now()), self.facts.prices());
        self.shelf.catalog(View { zones, sold_out, prices })
    }

    async fn launch(&self, claim: &NodeClaim) -> Result<Instance, ProviderError> {
        let takes = self.facts.delays().launch;
        if !takes.is_zero() {
            tokio::time::sleep(takes).await;
        }
        match self.order(claim).await {
            Ok((node, delay)) => self.machines.start(node, delay, self.clock.now()).await,
            // A claim that is given up may have its machine from a launch whose reply was lost.
            Err(refusal) if refusal.reaction() == Reaction::PlanAgain => {
                let found = self.machines.find(&node::name(&ClaimName::of(claim))).await?;
                found.ok_or(refusal)
            }
            Err(error) => Err(error),
        }
    }

    /// The Node that the claim's machine will register as, and how long it takes until then.
    async fn order(&self, claim: &NodeClaim) -> Result<(Node, Duration), ProviderError> {
        let reference = &claim.spec.node_class_ref;
        let class = self.classes.get(reference).await?.ok_or_else(|| ProviderError::InsufficientCapacity {
            message: format!("there is no {} {}", reference.kind, reference.name),
            exhausted: Vec::new(),
            source: Some(Arc::new(missing(reference))),
        })?;
        class.check_ready(reference)?;
        let catalog = self.seen(class.zones().cloned());
        let wish = Wish::of(claim, self.seed);
        let now = self.clock.now();
        let choice = choose(&catalog.types, &wish, &self.well_known, |key| self.facts.is_open(key, now))?;
        let delay = class.registration_delay.unwrap_or_else(|| self.facts.delays().registration);
        Ok((node::node(claim, &choice, &class), delay))
    }

    async fn get(&self, id: &ProviderId) -> Result<Instance, ProviderError> {
        let found = match node::name_of(id) {
            Some(name) => self.machines.find(name).await?,
            None => None,
        };
        found.ok_or_else(|| ProviderError::NotFound { what: format!("machine {id}") })
    }

    /// A machine has drifted when its class would boot another image, or no longer reaches its zone.
    async fn drift(&self, claims: &[&NodeClaim]) -> Result<DriftReasons, ProviderError> {
        let mut reasons = DriftReasons::new();
        for claim in claims.iter().filter(|claim| EC2_KIND.is_of(&claim.spec.node_class_ref)) {
            let Some(class) = self.classes.get(&claim.spec.node_class_ref).await? else { continue };
            if let Some(reason) = self.drift_of(claim, &class) {
                reasons.insert(claim.metadata.name.clone().unwrap_or_default(), reason.to_owned());
            }
        }
        Ok(reasons)
    }

    fn drift_of(&self, claim: &NodeClaim, class: &Class) -> Option<&'static str> {
        let label = |key: &str| claim.metadata.labels.as_ref()?.get(key);
        let types = self.shelf.menu();
        let place =
            types.binary_search_by(|found| found.name.as_str().cmp(label(INSTANCE_TYPE).map_or("", String::as_str)));
        let wanted = place.ok().and_then(|place| class.image_of(&types[place]));
        let runs = claim.status.as_ref().and_then(|status| status.image_id.as_deref());
        if wanted.zip(runs).is_some_and(|(wanted, runs)| wanted != runs) {
            return Some("AMIDrift");
        }
        let reached = class.zones().filter(|zones| !zones.is_empty())?;
        label(ZONE).filter(|zone| !reached.contains(zone.as_str())).map(|_| "SubnetDrift")
    }

    /// Registers machines whose delay is over, and waits for the next.
    async fn register(&self) -> Result<(), ProviderError> {
        let next = self.machines.register_due(self.clock.now()).await?;
        interruptions::until(next, &self.machines.wake, &self.clock).await;
        Ok(())
    }

    /// On a real control plane nobody can call [`Kwok::interrupt`], so a Node may say itself that its machine is taken back.
    fn hear(&self, node: &Node) {
        let notice = node.annotations().get(NOTICE).filter(|_| node.metadata.deletion_timestamp.is_none());
        let notice = notice.and_then(|text| text.parse::<api::Duration>().ok());
        let machine = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).map(ProviderId::from);
        if let Some((notice, id)) = notice.zip(machine.filter(|id| node::name_of(id).is_some())) {
            self.interruptions.announce(id, self.clock.now(), notice.to_std());
        }
    }

    /// Ends machines whose notice is over, and waits for the next.
    async fn take_back(&self) -> Result<(), ProviderError> {
        let mut end = Ok(());
        for id in self.interruptions.due(self.clock.now()) {
            match self.machines.terminate(&id).await {
                // What was never a machine of ours cannot be ended, and must not keep the others.
                Ok(_) | Err(ProviderError::Invalid { .. } | ProviderError::NotFound { .. }) => {
                    self.interruptions.settle(&id);
                }
                Err(error) => end = end.and(Err(error)),
            }
        }
        end?;
        self.interruptions.next(&self.clock).await;
        Ok(())
    }
}

fn missing(reference: &NodeClassReference) -> ProviderError {
    ProviderError::NotFound { what: format!("{} {}", reference.kind, reference.name) }
}

impl CloudProvider for Kwok {
    fn name(&self) -> &str {
        "kwok"
    }

    fn node_class_kinds(&self) -> &[NodeClassKind] {
        self.cloud.classes.kinds()
    }

    fn label_keys(&self) -> &LabelKeys {
        &self.cloud.keys
    }

    fn catalog<'a>(&'a self, class: &'a NodeClassReference) -> Answer<'a, Catalog> {
        Box::pin(self.cloud.catalog(class))
    }

    fn launch<'a>(&'a self, claim: &'a NodeClaim) -> Answer<'a, Instance> {
        Box::pin(self.cloud.launch(claim))
    }

    fn find<'a>(&'a self, claim: &'a NodeClaim) -> Answer<'a, Option<Instance>> {
        Box::pin(async move { self.cloud.machines.find(&node::name(&ClaimName::of(claim))).await })
    }

    fn get<'a>(&'a self, id: &'a ProviderId) -> Answer<'a, Instance> {
        Box::pin(self.cloud.get(id))
    }

    fn list(&self) -> Answer<'_, Vec<Instance>> {
        Box::pin(self.cloud.machines.list())
    }

    fn terminate<'a>(&'a self, id: &'a ProviderId) -> Answer<'a, Termination> {
        Box::pin(self.cloud.machines.terminate(id))
    }

    fn drift<'a>(&'a self, claims: &'a [&'a NodeClaim]) -> Answer<'a, DriftReasons> {
        Box::pin(self.cloud.drift(claims))
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        &REPAIR_POLICIES
    }

    fn interruptions(&self) -> Answer<'_, Vec<Interruption>> {
        Box::pin(async { Ok(self.cloud.interruptions.notices().await) })
    }

    fn acknowledge<'a>(&'a self, handled: &'a [Interruption]) -> Answer<'a, ()> {
        self.cloud.interruptions.acknowledge(handled);
        Box::pin(async { Ok(()) })
    }

    fn duties(&self) -> Vec<Duty> {
        let duty = |name, cloud: &Arc<Cloud>, round: fn(Arc<Cloud>) -> Answer<'static, ()>| {
            let cloud = cloud.clone();
            Duty::new(name, move || round(cloud.clone()))
        };
        let mut duties = vec![
            duty("kwok.registration", &self.cloud, |cloud| Box::pin(async move { cloud.register().await })),
            duty("kwok.machines", &self.cloud, |cloud| {
                Box::pin(async move {
                    let (client, rng) = (cloud.client.clone(), cloud.rng.clone());
                    cloud.machines.index.round(client, rng, |node| cloud.hear(node)).await
                })
            }),
            duty("kwok.classes", &self.cloud, |cloud| {
                let rng = cloud.rng.fork("classes");
                Box::pin(async move { cloud.classes.round(&cloud.client, &rng).await })
            }),
            duty("kwok.claims", &self.cloud, |cloud| {
                let rng = cloud.rng.fork("claims");
                Box::pin(async move { cloud.machines.known_claims.round(cloud.client.clone(), rng).await })
            }),
            duty("kwok.interruption", &self.cloud, |cloud| Box::pin(async move { cloud.take_back().await })),
            duty("kwok.collection", &self.cloud, |cloud| {
                Box::pin(async move {
                    tokio::time::sleep(COLLECT_EVERY).await;
                    cloud.machines.collect().await
                })
            }),
        ];
        if self.cloud.status.is_some() {
            duties.push(duty("kwok.nodeclass", &self.cloud, |cloud| {
                Box::pin(async move {
                    match &cloud.status {
                        Some(keeper) => keeper.round().await,
                        None => Ok(()),
                    }
                })
            }));
        }
        duties
    }
}
