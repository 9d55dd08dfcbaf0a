//! What a claim may become, and for how much. Written apart from engine and judge: prices are the bench's own finding.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::ids::{PoolName, TypeName};
use model::instance::{CapacityType, InstanceType, Offering};
use model::labels::HOSTNAME;
use model::plan::PlannedClaim;
use model::price::Price;
use model::requirements::Requirements;
use model::snapshot::Snapshot;

/// Everything that a claim may become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Menu {
    /// The cheapest available offering that suits.
    pub(super) cheapest: Price,
    /// The most that a launch may cost: of each type the dearest offering of the first capacity type that it has, in the order
    /// reserved, spot, on-demand; of these the dearest.
    pub(super) worst: Price,
    /// Listed types that can be had.
    pub(super) types: usize,
    /// What a label may be, for the keys that somebody asked about.
    pub(super) labels: BTreeMap<Arc<str>, Possible>,
}

/// What a label of a node to come may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Possible {
    pub(super) values: BTreeSet<Arc<str>>,
    pub(super) may_lack: bool,
}

impl Possible {
    pub(super) fn just(value: Arc<str>) -> Self {
        Self { values: BTreeSet::from([value]), may_lack: false }
    }

    /// The value, if there is no other way.
    pub(super) fn certain(&self) -> Option<&Arc<str>> {
        let first = self.values.first()?;
        (self.values.len() == 1 && !self.may_lack).then_some(first)
    }
}

/// Makes menus, each one once: thousands of claims list the same.
pub(super) struct Kitchen<'a> {
    snapshot: &'a Snapshot,
    /// The keys that labels are looked up for.
    keys: BTreeSet<Arc<str>>,
    types: BTreeMap<(&'a PoolName, &'a TypeName), &'a Arc<InstanceType>>,
    made: BTreeMap<String, Option<Arc<Menu>>>,
}

impl<'a> Kitchen<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, keys: BTreeSet<Arc<str>>) -> Self {
        let pools = snapshot.pools.values();
        let types = pools.flat_map(|pool| pool.instance_types.iter().map(|kind| ((&pool.name, &kind.name), kind)));
        Self { snapshot, keys, types: types.collect(), made: BTreeMap::new() }
    }

    /// `None` when nothing on sale suits.
    pub(super) fn menu(&mut self, claim: &PlannedClaim) -> Option<Arc<Menu>> {
        // Debug output tells values apart that the words for people shorten.
        let key = format!("{:?} {:?} {:?} {:?}", claim.pool, claim.types, claim.requirements, claim.labels);
        if let Some(known) = self.made.get(&key) {
            return known.clone();
        }
        let menu = self.make(claim).map(Arc::new);
        self.made.insert(key, menu.clone());
        menu
    }

    fn make(&self, claim: &PlannedClaim) -> Option<Menu> {
        let mut demands = claim.requirements.clone();
        // Nobody knows the hostname before the machine is there.
        demands.remove(HOSTNAME);
        let mut cheapest: Option<Price> = None;
        let mut menu = Menu { cheapest: Price::ZERO, worst: Price::ZERO, types: 0, labels: self.fixed_labels(claim) };
        for name in claim.types.iter() {
            let Some(kind) = self.types.get(&(&claim.pool, name)).copied() else { continue };
            let suiting: Vec<&Offering> =
                kind.offerings.iter().filter(|sold| suits(claim, &demands, kind, sold)).collect();
            let Some(least) = suiting.iter().map(|sold| sold.price).min() else { continue };
            cheapest = Some(cheapest.map_or(least, |known| known.min(least)));
            menu.worst = menu.worst.max(worst_launch_price(&suiting));
            menu.types += 1;
            self.note_labels(&mut menu.labels, &demands, kind, &suiting);
        }
        menu.cheapest = cheapest?;
        Some(menu)
    }

    /// Labels that the claim or its pool give, whatever machine comes.
    fn fixed_labels(&self, claim: &PlannedClaim) -> BTreeMap<Arc<str>, Possible> {
        let of_pool = self.snapshot.pools.get(&claim.pool).into_iter().flat_map(|pool| &pool.template.labels);
        let given = of_pool.chain(&claim.labels);
        let asked = given.filter(|(key, _)| self.keys.contains(*key) && !self.snapshot.well_known.contains(key));
        asked.map(|(key, value)| (key.clone(), Possible::just(value.clone()))).collect()
    }

    fn note_labels(
        &self,
        labels: &mut BTreeMap<Arc<str>, Possible>,
        demands: &Requirements,
        kind: &InstanceType,
        suiting: &[&Offering],
    ) {
        for key in self.keys.iter().filter(|key| self.snapshot.well_known.contains(key)) {
            let noted = labels.entry(key.clone()).or_default();
            for offering in suiting {
                let parts = [demands.get(key), kind.requirements.get(key), offering.requirements.get(key)];
                let mut parts = parts.into_iter().flatten().cloned();
                let Some(first) = parts.next() else {
                    noted.may_lack = true;
                    continue;
                };
                let all = parts.fold(first, |all, part| all.intersection(&part));
                match all.listed() {
                    Some(values) if !values.is_empty() => noted.values.extend(values.iter().cloned()),
                    _ => noted.may_lack = true,
                }
            }
        }
    }
}

fn suits(claim: &PlannedClaim, demands: &Requirements, kind: &InstanceType, offering: &Offering) -> bool {
    let may_use = match &offering.reservation {
        Some(reservation) => claim.reservations.contains(&reservation.id),
        None => claim.reservations.is_empty(),
    };
    offering.is_available && may_use && demands.overlaps(&kind.requirements) && demands.overlaps(&offering.requirements)
}

/// Spec 02, section 3.6.
fn worst_launch_price(suiting: &[&Offering]) -> Price {
    let order = [CapacityType::Reserved, CapacityType::Spot, CapacityType::OnDemand];
    let of = |wanted: CapacityType| {
        suiting.iter().filter(|sold| sold.capacity_type() == Some(wanted)).map(|sold| sold.price).max()
    };
    order.into_iter().find_map(of).unwrap_or(Price::ZERO)
}

#[cfg(test)]
mod tests {
    use model::labels::CAPACITY_TYPE;
    use model::requirements::Requirement;

    use super::*;

    fn sold(capacity_type: &str, pico: i64) -> Offering {
        Offering {
            requirements: Requirements::default().with(CAPACITY_TYPE, Requirement::value(capacity_type.into())),
            price: Price::from_pico(pico),
            is_available: true,
            reservation: None,
            capacity_override: None,
            overhead_override: None,
            has_price_overlay: false,
        }
    }

    #[test]
    fn the_worst_launch_is_the_dearest_of_the_first_capacity_type_there_is() {
        let (spot, dear_spot, on_demand) = (sold("spot", 3), sold("spot", 5), sold("on-demand", 9));
        assert_eq!(worst_launch_price(&[&on_demand, &spot, &dear_spot]).pico(), 5);
        assert_eq!(worst_launch_price(&[&on_demand]).pico(), 9);
        assert_eq!(worst_launch_price(&[&on_demand, &sold("reserved", 1), &spot]).pico(), 1);
    }

    #[test]
    fn a_label_is_certain_only_when_there_is_one_way() {
        let one = Possible::just("a".into());
        assert_eq!(one.certain().map(|value| &**value), Some("a"));
        assert_eq!(Possible { may_lack: true, ..one.clone() }.certain(), None);
        assert_eq!(Possible { values: ["a".into(), "b".into()].into(), may_lack: false }.certain(), None);
    }
}
