//! The suite that every provider must pass, whatever cloud is behind it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use api::NodeClaim;
use api::labels::{CAPACITY_TYPE, INSTANCE_TYPE, NODE_POOL, ZONE};
use api::nodepool::NodeClassReference;
use model::instance::{CapacityType, InstanceType};
use serde_json::json;

use crate::faulty::{Fault, Faulty, Mishap};
use crate::{Catalog, ClaimName, CloudProvider, Instance, Method, OfferingKey, ProviderError, Termination};

/// How often a termination is repeated before the cloud counts as stuck.
const TRIES: u32 = 60;

/// A cloud to examine.
pub struct Subject {
    /// Makes a provider as a fresh process would. The machines of earlier ones must still be there.
    pub start: Box<dyn Fn() -> Arc<dyn CloudProvider> + Send + Sync>,
    /// A class that exists and is ready, and reaches some on-demand machine.
    pub class: NodeClassReference,
    /// Goes into the names of claims, so that two examinations of one cloud do not meet.
    pub run: String,
}

/// A promise that the cloud did not keep.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{promise}: {found}")]
pub struct Broken {
    pub promise: &'static str,
    pub found: String,
}

/// Examines a cloud. It leaves no machine behind, unless a promise is broken.
pub async fn check(subject: &Subject) -> Result<(), Broken> {
    let cloud = (subject.start)();
    let catalog = catalog_is_complete(&*cloud, &subject.class).await?;
    let maker = Maker::new(subject, &catalog)?;
    refusals_leave_nothing(&*cloud, &maker).await?;
    let first = launched_machine_is_as_claimed(&*cloud, &maker, &catalog).await?;
    let second = lost_reply_makes_no_second_machine(&cloud, &maker).await?;
    machines_outlive_the_process(subject, [&first, &second]).await?;
    fresh_machines_have_not_drifted(&*cloud, &maker, &first).await?;
    let machines = [(maker.claim("first"), first), (maker.claim("second"), second)];
    ends_are_final_and_touch_nobody_else(&*cloud, machines).await
}

async fn catalog_is_complete(cloud: &dyn CloudProvider, class: &NodeClassReference) -> Result<Catalog, Broken> {
    const PROMISE: &str = "a catalogue lists types by name, and each answers for every well-known key";
    let catalog = cloud.catalog(class).await.map_err(|error| broken(PROMISE, error))?;
    let again = cloud.catalog(class).await.map_err(|error| broken(PROMISE, error))?;
    let has_same_types = catalog.types.iter().map(|machine| &machine.name).eq(again.types.iter().map(|m| &m.name));
    ensure(catalog.version != again.version || has_same_types, PROMISE, "one version, two catalogues")?;
    ensure(catalog.types.is_sorted_by(|a, b| a.name < b.name), PROMISE, "the types are not in order")?;
    let kinds = cloud.node_class_kinds();
    ensure(kinds.iter().any(|kind| kind.is_of(class)), PROMISE, "the class is of no kind that is served")?;
    let well_known = cloud.label_keys().to_well_known();
    for machine in catalog.types.iter() {
        let unanswered = well_known.iter().find(|key| ***key != *NODE_POOL && machine.requirements.get(key).is_none());
        if let Some(key) = unanswered {
            return Err(broken(PROMISE, format!("{} says nothing about {key}", machine.name)));
        }
        let nameless = machine.offerings.iter().any(|offering| OfferingKey::of(&machine.name, offering).is_none());
        ensure(!nameless, PROMISE, format!("{} has an offering without zone or capacity type", machine.name))?;
    }
    Ok(catalog)
}

async fn refusals_leave_nothing(cloud: &dyn CloudProvider, maker: &Maker<'_>) -> Result<(), Broken> {
    const PROMISE: &str = "a launch that is refused says why and leaves nothing";
    let unknown_type = maker.claim_of("unknown-type", &maker.class.name, &["no-such-type"]);
    let missing_class = maker.claim_of("missing-class", "no-such-class", &maker.type_names());
    for claim in [&unknown_type, &missing_class] {
        match cloud.launch(claim).await {
            Err(ProviderError::InsufficientCapacity { .. }) => {}
            Err(other) => return Err(broken(PROMISE, format!("not a lack of capacity, but: {other}"))),
            Ok(machine) => return Err(broken(PROMISE, format!("it got {}", machine.id))),
        }
        let left = cloud.find(claim).await.map_err(|error| broken(PROMISE, error))?;
        ensure(left.is_none(), PROMISE, "the claim has a machine all the same")?;
    }
    Ok(())
}

async fn launched_machine_is_as_claimed(
    cloud: &dyn CloudProvider,
    maker: &Maker<'_>,
    catalog: &Catalog,
) -> Result<Instance, Broken> {
    const PROMISE: &str =
        "a launched machine is one that the claim allows, and can be found by id, by claim and in the list";
    let failed = |error: ProviderError| broken(PROMISE, error);
    let claim = maker.claim("first");
    let machine = cloud.launch(&claim).await.map_err(failed)?;
    let label = |key: &str| machine.labels.get(key).cloned().unwrap_or_default();
    let (type_name, zone, way) = (label(INSTANCE_TYPE), label(ZONE), label(CAPACITY_TYPE));
    ensure(maker.type_names().contains(&type_name.as_str()), PROMISE, format!("it is a {type_name}"))?;
    ensure(way == CapacityType::OnDemand.as_str(), PROMISE, format!("it was bought as {way}"))?;
    let bought = catalog.types.iter().find(|machine| machine.name.as_str() == type_name);
    let offered = bought.into_iter().flat_map(|bought| &bought.offerings);
    let is_sold = offered.filter_map(|offering| offering.label(ZONE)).any(|sold| **sold == *zone);
    ensure(is_sold, PROMISE, format!("{type_name} is not sold in {zone}"))?;
    let is_enough = claim.spec.resources.requests.iter().all(|(name, wanted)| {
        let has = |list: &api::ResourceList| list.get(name).is_some_and(|amount| amount >= wanted);
        has(&machine.capacity) && has(&machine.allocatable)
    });
    ensure(is_enough, PROMISE, "it is too small for the claim")?;
    ensure(machine.claim == Some(ClaimName::of(&claim)), PROMISE, "it does not know its claim")?;
    let by_id = cloud.get(&machine.id).await.map_err(failed)?;
    let by_claim = cloud.find(&claim).await.map_err(failed)?;
    let listed = cloud.list().await.map_err(failed)?;
    ensure(by_id.id == machine.id && by_id.labels == machine.labels, PROMISE, "by id it is another one")?;
    ensure(by_claim.is_some_and(|found| found.id == machine.id), PROMISE, "its claim does not lead to it")?;
    ensure(listed.iter().any(|found| found.id == machine.id), PROMISE, "it is not in the list")?;
    ensure(listed.is_sorted_by(|a, b| a.id < b.id), PROMISE, "the list is not in order")?;
    Ok(machine)
}

async fn lost_reply_makes_no_second_machine(
    cloud: &Arc<dyn CloudProvider>,
    maker: &Maker<'_>,
) -> Result<Instance, Broken> {
    const PROMISE: &str = "a launch that is repeated after its reply was lost finds the same machine";
    let failed = |error: ProviderError| broken(PROMISE, error);
    let lost = ProviderError::Unavailable { doing: "launching".to_owned(), source: None };
    let fault = Fault { method: Method::Launch, call: 1, mishap: Mishap::LosesReply(lost) };
    let faulty = Faulty::new(cloud.clone(), vec![fault]);
    let claim = maker.claim("second");
    ensure(faulty.launch(&claim).await.is_err(), PROMISE, "the reply was not lost")?;
    let found = faulty.find(&claim).await.map_err(failed)?;
    let again = faulty.launch(&claim).await.map_err(failed)?;
    ensure(found.is_some_and(|found| found.id == again.id), PROMISE, "the machine is another one")?;
    let mine = ClaimName::of(&claim);
    let count = cloud.list().await.map_err(failed)?.iter().filter(|found| found.claim.as_ref() == Some(&mine)).count();
    ensure(count == 1, PROMISE, format!("the claim has {count} machines"))?;
    Ok(again)
}

async fn machines_outlive_the_process(subject: &Subject, machines: [&Instance; 2]) -> Result<(), Broken> {
    const PROMISE: &str = "a new process finds the machines of the one before";
    let listed = (subject.start)().list().await.map_err(|error| broken(PROMISE, error))?;
    let ids: BTreeSet<_> = listed.iter().map(|machine| &machine.id).collect();
    let missing = machines.into_iter().find(|machine| !ids.contains(&machine.id));
    missing.map_or(Ok(()), |machine| Err(broken(PROMISE, format!("{} is missing", machine.id))))
}

async fn fresh_machines_have_not_drifted(
    cloud: &dyn CloudProvider,
    maker: &Maker<'_>,
    machine: &Instance,
) -> Result<(), Broken> {
    const PROMISE: &str = "a machine that was just made is what its class asks for";
    let mut claim = maker.claim("first");
    claim.metadata.labels.get_or_insert_default().extend(machine.labels.clone());
    let status = claim.status.get_or_insert_default();
    status.provider_id = Some(machine.id.to_string());
    status.image_id.clone_from(&machine.image);
    let drifted = cloud.drift(&[&claim]).await.map_err(|error| broken(PROMISE, error))?;
    ensure(drifted.is_empty(), PROMISE, format!("{drifted:?}"))
}

async fn ends_are_final_and_touch_nobody_else(
    cloud: &dyn CloudProvider,
    machines: [(NodeClaim, Instance); 2],
) -> Result<(), Broken> {
    const PROMISE: &str = "a machine that was ended is gone for every question, and no other is";
    let failed = |error: ProviderError| broken(PROMISE, error);
    let [(_, first), (_, second)] = &machines;
    for (claim, machine) in &machines {
        let mut tries = 0;
        while cloud.terminate(&machine.id).await.map_err(failed)? != Termination::Gone {
            tries += 1;
            ensure(tries < TRIES, PROMISE, format!("{} is not gone after {tries} tries", machine.id))?;
        }
        let is_gone = matches!(cloud.get(&machine.id).await, Err(ProviderError::NotFound { .. }));
        ensure(is_gone, PROMISE, format!("{} can still be had by id", machine.id))?;
        let by_claim = cloud.find(claim).await.map_err(failed)?;
        ensure(by_claim.is_none(), PROMISE, format!("{} can still be had by its claim", machine.id))?;
        let listed = cloud.list().await.map_err(failed)?;
        ensure(listed.iter().all(|found| found.id != machine.id), PROMISE, format!("{} is listed", machine.id))?;
        let is_other_there = machine.id != first.id || listed.iter().any(|found| found.id == second.id);
        ensure(is_other_there, PROMISE, format!("{} is gone, too", second.id))?;
        let again = cloud.terminate(&machine.id).await.map_err(failed)?;
        ensure(again == Termination::Gone, PROMISE, format!("{} came back", machine.id))?;
    }
    Ok(())
}

/// Makes the suite's claims.
struct Maker<'a> {
    class: &'a NodeClassReference,
    run: &'a str,
    types: Vec<&'a InstanceType>,
}

impl<'a> Maker<'a> {
    /// Few cheap types, so that an examination of a real cloud costs little.
    fn new(subject: &'a Subject, catalog: &'a Catalog) -> Result<Self, Broken> {
        const MOST: usize = 5;
        let price = |machine: &InstanceType| {
            let on_demand = machine
                .offerings
                .iter()
                .filter(|offering| offering.is_available && offering.capacity_type() == Some(CapacityType::OnDemand));
            on_demand.map(|offering| offering.price).min()
        };
        let is_linux =
            |machine: &InstanceType| machine.requirements.get("kubernetes.io/os").is_some_and(|os| os.has("linux"));
        let has_room = |machine: &InstanceType| {
            let allocatable = machine.allocatable();
            allocatable.cpu_milli >= 100 && allocatable.memory_bytes >= 128 << 20
        };
        let mut types: Vec<&InstanceType> = catalog
            .types
            .iter()
            .map(|machine| &**machine)
            .filter(|machine| is_linux(machine) && has_room(machine))
            .collect();
        types.retain(|machine| price(machine).is_some());
        types.sort_by_key(|machine| (price(machine), machine.name.clone()));
        types.truncate(MOST);
        ensure(!types.is_empty(), "the class reaches some on-demand machine", "the catalogue has none")?;
        Ok(Self { class: &subject.class, run: &subject.run, types })
    }

    fn type_names(&self) -> Vec<&'a str> {
        self.types.iter().map(|machine| machine.name.as_str()).collect()
    }

    fn claim(&self, name: &str) -> NodeClaim {
        self.claim_of(name, &self.class.name, &self.type_names())
    }

    fn claim_of(&self, name: &str, class: &str, types: &[&str]) -> NodeClaim {
        let name = format!("conformance-{}-{name}", self.run);
        let document = json!({
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "metadata": {"name": name, "uid": format!("uid-of-{name}"), "labels": {NODE_POOL: "conformance"}},
            "spec": {
                "nodeClassRef": {"group": self.class.group, "kind": self.class.kind, "name": class},
                "requirements": [
                    {"key": INSTANCE_TYPE, "operator": "In", "values": types},
                    {"key": CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
                ],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
            },
        });
        serde_json::from_value(document).expect("the document above is a claim")
    }
}

fn broken(promise: &'static str, found: impl fmt::Display) -> Broken {
    Broken { promise, found: found.to_string() }
}

fn ensure(holds: bool, promise: &'static str, found: impl fmt::Display) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err(broken(promise, found)) }
}
