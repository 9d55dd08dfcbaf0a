//! Which machines a claim may become. The cloud may pick any of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::ids::{ReservationId, TypeName};
use model::instance::{InstanceType, Offering};
use model::labels::{CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, Labels, WellKnown, ZONE};
use model::node::Progress;
use model::plan::PlannedClaim;
use model::price::Price;
use model::requirements::{Requirement, Requirements};
use model::resources::Resources;
use model::snapshot::Snapshot;
use model::volume::AttachLimits;

/// What the cloud is asked for.
pub(crate) struct Order<'a> {
    pub(crate) types: Vec<&'a InstanceType>,
    requirements: &'a Requirements,
    reserved: Reserved<'a>,
    well_known: &'a WellKnown,
}

/// Which reserved capacity may be used.
enum Reserved<'a> {
    /// Whatever the requirements allow.
    Any,
    Never,
    /// These reservations, and no capacity that is not reserved.
    Only(&'a [ReservationId]),
}

/// One machine that could come.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) type_name: TypeName,
    pub(crate) zone: Option<Arc<str>>,
    pub(crate) capacity_type: Option<Arc<str>>,
    pub(crate) price: Price,
    /// What the cloud says about it under well-known keys, the type's name included.
    pub(crate) labels: Labels,
    /// Well-known keys that may still have any of several values; `labels` holds the first.
    open: Vec<(Arc<str>, Vec<Arc<str>>)>,
    pub(crate) capacity: Resources,
    pub(crate) allocatable: Resources,
    pub(crate) attach_limits: AttachLimits,
}

impl<'a> Order<'a> {
    /// What a planned claim asks for, of these types.
    pub(crate) fn of_claim(snapshot: &'a Snapshot, claim: &'a PlannedClaim, types: Vec<&'a InstanceType>) -> Self {
        Self {
            types,
            requirements: &claim.requirements,
            // A claim that holds no reservation must not eat into one: others may count on it.
            reserved: if claim.reservations.is_empty() { Reserved::Never } else { Reserved::Only(&claim.reservations) },
            well_known: &snapshot.well_known,
        }
    }

    /// What a claim of an earlier plan asked for, if the cloud has not answered yet.
    pub(crate) fn of_unlaunched(snapshot: &'a Snapshot, node: &'a model::node::Node) -> Option<Self> {
        let Progress::Unlaunched { types, requirements } = &node.progress else { return None };
        Some(Self {
            types: types.iter().map(|instance| &**instance).collect(),
            requirements,
            reserved: if snapshot.policy.uses_reservations { Reserved::Any } else { Reserved::Never },
            well_known: &snapshot.well_known,
        })
    }

    fn allows(&self, offering: &Offering) -> bool {
        let reservation = offering.reservation.as_ref().map(|reservation| &reservation.id);
        offering.is_available
            && match &self.reserved {
                Reserved::Any => true,
                Reserved::Never => reservation.is_none(),
                Reserved::Only(ids) => reservation.is_some_and(|id| ids.contains(id)),
            }
    }
}

/// Every machine that may come, cheapest first; equal prices go by zone, capacity type and type.
pub(crate) fn machines(order: &Order<'_>) -> Vec<Arc<Machine>> {
    sorted(order.types.iter().flat_map(|instance| machines_of_type(order, instance)).collect())
}

pub(crate) fn machines_of_type(order: &Order<'_>, instance: &InstanceType) -> Vec<Arc<Machine>> {
    let allowed = instance.offerings.iter().filter(|offering| order.allows(offering));
    allowed.filter_map(|offering| machine(order, instance, offering)).map(Arc::new).collect()
}

pub(crate) fn sorted(mut machines: Vec<Arc<Machine>>) -> Vec<Arc<Machine>> {
    machines.sort_by(|a, b| {
        (a.price, &a.zone, &a.capacity_type, &a.type_name).cmp(&(b.price, &b.zone, &b.capacity_type, &b.type_name))
    });
    machines
}

/// The machine that this way of buying this type gives, unless some label would have to satisfy what contradicts itself.
fn machine(order: &Order<'_>, instance: &InstanceType, offering: &Offering) -> Option<Machine> {
    let mut all = order.requirements.clone();
    // The hostname is given by nobody before the machine is there.
    all.remove(HOSTNAME);
    all.add_all(&instance.requirements);
    all.add_all(&offering.requirements);
    all.add(INSTANCE_TYPE, Requirement::value(instance.name.as_str().into()));
    if all.iter().any(|(_, requirement)| requirement.is_contradiction()) {
        return None;
    }
    let mut labels = Labels::new();
    let mut open = Vec::new();
    for (key, requirement) in all.iter().filter(|(key, _)| order.well_known.contains(key)) {
        let values: Vec<Arc<str>> = requirement.listed().into_iter().flatten().cloned().collect();
        let Some(first) = values.first() else { continue };
        labels.insert(key.clone(), first.clone());
        if values.len() > 1 {
            open.push((key.clone(), values));
        }
    }
    Some(Machine {
        type_name: instance.name.clone(),
        zone: labels.get(ZONE).cloned(),
        capacity_type: labels.get(CAPACITY_TYPE).cloned(),
        price: offering.price,
        labels,
        open,
        capacity: capacity_of(instance, offering),
        allocatable: instance.allocatable_of(offering),
        attach_limits: instance.attach_limits.clone(),
    })
}

fn capacity_of(instance: &InstanceType, offering: &Offering) -> Resources {
    let mut capacity = instance.capacity.clone();
    for (resource, amount) in offering.capacity_override.iter().flat_map(Resources::amounts) {
        capacity.set(resource, amount);
    }
    capacity
}

impl Machine {
    /// The values that it may come with under these keys, in their order: each open key takes each of its values once, the
    /// others keep their first. That is not every combination, but every value is seen, and a demand on a node is nearly
    /// always about one key.
    pub(crate) fn value_sets(&self, keys: &BTreeSet<Arc<str>>) -> Vec<Vec<Option<Arc<str>>>> {
        let first: Vec<Option<Arc<str>>> = keys.iter().map(|key| self.labels.get(key).cloned()).collect();
        let mut sets = vec![first.clone()];
        for (key, values) in &self.open {
            let Some(place) = keys.iter().position(|asked| asked == key) else { continue };
            sets.extend(values.iter().skip(1).map(|value| {
                let mut set = first.clone();
                set[place] = Some(value.clone());
                set
            }));
        }
        sets
    }

    /// All its labels, with these values under these keys.
    pub(crate) fn labels_with(&self, keys: &BTreeSet<Arc<str>>, values: &[Option<Arc<str>>]) -> Labels {
        let mut labels = self.labels.clone();
        labels.extend(keys.iter().zip(values).filter_map(|(key, value)| Some((key.clone(), value.clone()?))));
        labels
    }
}
