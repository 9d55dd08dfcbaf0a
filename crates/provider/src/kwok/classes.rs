//! What NodeClasses say: as a watch shows them, or read from the API server when that is not enough.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use api::aws::{Ami, EC2NodeClass};
use api::conditions::{Condition, ConditionStatus, READY};
use api::kwok::KWOKNodeClass;
use api::nodepool::NodeClassReference;
use futures::StreamExt;
use futures::future::join_all;
use kube::core::ObjectMeta;
use kube::{Api, Client, ResourceExt};
use model::instance::InstanceType;
use model::requirements::{Operator, Requirement, Requirements, Undefined};
use runtime::Rng;
use runtime::watch::{self, Event, Seen, Target};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::account::TENANCY;
use super::{EC2_KIND, KWOK_KIND};
use crate::{NodeClassKind, ProviderError};

/// A burst of launches reads a class once, and a change to it counts a moment later.
const FRESH: Duration = Duration::from_secs(1);

/// A class as the simulated cloud needs it.
#[derive(Clone, Debug)]
pub(super) struct Class {
    readiness: Readiness,
    /// How long a machine takes until its Node appears, if the class says so.
    pub(super) registration_delay: Option<Duration>,
    /// What an EC2NodeClass was resolved to.
    account: Option<Account>,
}

#[derive(Clone, Debug)]
enum Readiness {
    Ready,
    NotReady(String),
    Unknown(String),
}

#[derive(Clone, Debug)]
struct Account {
    zones: BTreeSet<Arc<str>>,
    /// In the order of the status; the first one that fits a machine is its image.
    images: Vec<(String, Requirements)>,
}

impl Class {
    /// Refuses for a class that machines must not be made for now.
    pub(super) fn check_ready(&self, reference: &NodeClassReference) -> Result<(), ProviderError> {
        match &self.readiness {
            Readiness::Ready => Ok(()),
            Readiness::NotReady(message) => {
                Err(ProviderError::NodeClassNotReady { class: reference.name.clone(), message: message.clone() })
            }
            Readiness::Unknown(message) => Err(ProviderError::Create {
                reason: "NodeClassReadinessUnknown".to_owned(),
                message: format!("whether node class {} is ready is not known yet: {message}", reference.name),
                source: None,
            }),
        }
    }

    /// The zones that machines of the class can be in; `None` for all.
    pub(super) fn zones(&self) -> Option<&BTreeSet<Arc<str>>> {
        self.account.as_ref().map(|account| &account.zones)
    }

    pub(super) fn image_of(&self, machine: &InstanceType) -> Option<&str> {
        let images = &self.account.as_ref()?.images;
        let fits = |requirements: &Requirements| machine.requirements.is_compatible(requirements, Undefined::Absent);
        images.iter().find(|(_, requirements)| fits(requirements)).map(|(id, _)| id.as_str())
    }

    /// Fills in labels for which a type has several values and the cloud takes its own default.
    pub(super) fn settle(&self, labels: &mut BTreeMap<String, String>, machine: &InstanceType) {
        if machine.requirements.get(TENANCY).is_some_and(|tenancy| tenancy.has("default")) {
            labels.entry(TENANCY.to_owned()).or_insert_with(|| "default".to_owned());
        }
    }
}

/// What was found under a name, and when.
struct Read {
    at: Instant,
    class: Option<Arc<Class>>,
}

/// Classes, each remembered for a moment.
pub(super) struct Classes {
    kwok: Api<KWOKNodeClass>,
    ec2: Api<EC2NodeClass>,
    kinds: Vec<NodeClassKind>,
    read: Mutex<BTreeMap<NodeClassReference, Read>>,
    /// By kind and name, while somebody watches.
    shown: std::sync::Mutex<BTreeMap<&'static str, BTreeMap<String, Arc<Class>>>>,
}

impl Classes {
    pub(super) fn new(client: &Client, kinds: Vec<NodeClassKind>) -> Self {
        let (kwok, ec2) = (Api::all(client.clone()), Api::all(client.clone()));
        Self { kwok, ec2, kinds, read: Mutex::default(), shown: std::sync::Mutex::default() }
    }

    /// Follows all classes for as long as the watches last.
    pub(super) async fn round(&self, client: &Client, rng: &Rng) -> Result<(), ProviderError> {
        let _ended = Ended(self);
        join_all(self.kinds.iter().map(|kind| self.follow(*kind, client.clone(), rng.fork(kind.kind)))).await;
        Ok(())
    }

    async fn follow(&self, kind: NodeClassKind, client: Client, rng: Rng) {
        let target = if kind == EC2_KIND { Target::of::<EC2NodeClass>() } else { Target::of::<KWOKNodeClass>() };
        let decode = move |seen: Seen<'_>| decode(kind, &seen.json());
        let mut events = watch::watch(client, target, watch::Settings::default(), rng, decode);
        while let Some(event) = events.next().await {
            let mut shown = self.shown();
            let classes = shown.entry(kind.kind).or_default();
            match event {
                Event::Restarted | Event::Absent => classes.clear(),
                Event::Applied((name, Some(class))) => drop(classes.insert(name, Arc::new(class))),
                Event::Applied((name, None)) => drop(classes.remove(&name)),
                Event::Deleted(id) | Event::Undecodable { id, .. } => drop(classes.remove(&id.name)),
                Event::Listed => {}
            }
        }
    }

    pub(super) fn kinds(&self) -> &[NodeClassKind] {
        &self.kinds
    }

    /// A class, or `None` when there is none of the name, or not for long any more.
    ///
    /// A watch may be behind: that a class is ready is believed, anything else is asked for.
    pub(super) async fn get(&self, reference: &NodeClassReference) -> Result<Option<Arc<Class>>, ProviderError> {
        let kind = self.kinds.iter().find(|kind| kind.is_of(reference)).map_or("", |kind| kind.kind);
        let shown = self.shown().get(kind).and_then(|classes| classes.get(&reference.name)).cloned();
        if let Some(class) = shown.filter(|class| matches!(class.readiness, Readiness::Ready)) {
            return Ok(Some(class));
        }
        // The lock is held while reading, so that many who ask at once cause one request.
        let mut read = self.read.lock().await;
        read.retain(|_, read| read.at.elapsed() < FRESH);
        if let Some(found) = read.get(reference) {
            return Ok(found.class.clone());
        }
        let class = self.read(reference).await?.map(Arc::new);
        read.insert(reference.clone(), Read { at: Instant::now(), class: class.clone() });
        Ok(class)
    }

    async fn read(&self, reference: &NodeClassReference) -> Result<Option<Class>, ProviderError> {
        let doing = || format!("reading {} {}", reference.kind, reference.name);
        let served = self.kinds.iter().find(|kind| kind.is_of(reference));
        match served {
            Some(kind) if *kind == KWOK_KIND => {
                let found = self.kwok.get_opt(&reference.name).await;
                Ok(found.map_err(|error| ProviderError::of_kube(doing(), error))?.and_then(of_kwok))
            }
            Some(kind) if *kind == EC2_KIND => {
                let found = self.ec2.get_opt(&reference.name).await;
                Ok(found.map_err(|error| ProviderError::of_kube(doing(), error))?.and_then(of_ec2))
            }
            _ => Err(ProviderError::invalid(
                doing(),
                format!("kind {}/{} is not served here", reference.group, reference.kind),
            )),
        }
    }
}

impl Classes {
    fn shown(&self) -> MutexGuard<'_, BTreeMap<&'static str, BTreeMap<String, Arc<Class>>>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whoever drops the round must not leave classes behind that nobody keeps up to date.
struct Ended<'a>(&'a Classes);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.shown().clear();
    }
}

fn decode(kind: NodeClassKind, text: &str) -> Result<(String, Option<Class>), serde_json::Error> {
    if kind == EC2_KIND {
        return serde_json::from_str::<EC2NodeClass>(text).map(|class| (class.name_any(), of_ec2(class)));
    }
    serde_json::from_str::<KWOKNodeClass>(text).map(|class| (class.name_any(), of_kwok(class)))
}

fn of_kwok(class: KWOKNodeClass) -> Option<Class> {
    if class.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let conditions = class.status.unwrap_or_default().conditions;
    let readiness = match conditions.iter().find(|condition| condition.type_ == READY) {
        Some(ready) if ready.status == ConditionStatus::False => Readiness::NotReady(ready.message.clone()),
        _ => Readiness::Ready,
    };
    let delay = class.spec.node_registration_delay.map(|delay| delay.to_std());
    Some(Class { readiness, registration_delay: delay, account: None })
}

fn of_ec2(class: EC2NodeClass) -> Option<Class> {
    if class.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let status = class.status.unwrap_or_default();
    let account = Account {
        zones: status.subnets.iter().map(|subnet| subnet.zone.as_str().into()).collect(),
        images: status.amis.iter().map(|ami| (ami.id.clone(), requirements(ami))).collect(),
    };
    let readiness = ec2_readiness(&class.metadata, &status.conditions);
    Some(Class { readiness, registration_delay: None, account: Some(account) })
}

/// A verdict about an older spec is none.
fn ec2_readiness(metadata: &ObjectMeta, conditions: &[Condition]) -> Readiness {
    let Some(ready) = conditions.iter().find(|condition| condition.type_ == READY) else {
        return Readiness::Unknown("it has not been looked at".to_owned());
    };
    match ready.status {
        ConditionStatus::False => Readiness::NotReady(ready.message.clone()),
        ConditionStatus::Unknown => Readiness::Unknown(ready.message.clone()),
        ConditionStatus::True if ready.observed_generation != metadata.generation => {
            Readiness::NotReady("its newest spec has not been looked at".to_owned())
        }
        ConditionStatus::True => Readiness::Ready,
    }
}

fn requirements(ami: &Ami) -> Requirements {
    let mut set = Requirements::default();
    for wire in &ami.requirements {
        let values = wire.values.iter().map(String::as_str);
        // What nobody can read fits no machine.
        let requirement = match Operator::parse(&wire.operator) {
            Some(operator) => Requirement::new(operator, values),
            None => Requirement::new(Operator::In, []),
        };
        set.add(wire.key.as_str(), requirement);
    }
    set
}
