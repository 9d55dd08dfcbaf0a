//! Catalogues as classes see them, made once per view.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use model::instance::InstanceType;
use model::labels::ZONE;
use model::requirements::{Operator, Requirement};

use super::facts::Prices;
use crate::ec2::ZONE_ID;
use crate::{Catalog, CatalogVersion, OfferingKey};

/// As many views are kept; more would be a sign of facts that change all the time.
const MOST_VIEWS: usize = 16;

pub(super) type Types = Arc<[Arc<InstanceType>]>;

/// What a class can see of the menu.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct View {
    /// The zones that it reaches; `None` for all.
    pub(super) zones: Option<BTreeSet<Arc<str>>>,
    /// What is known to be sold out.
    pub(super) sold_out: BTreeSet<OfferingKey>,
    /// What costs something else than the menu says.
    pub(super) prices: Prices,
}

pub(super) struct Shelf {
    menu: Types,
    /// All zones that anything is sold in.
    zones: BTreeSet<Arc<str>>,
    views: Mutex<Views>,
}

#[derive(Default)]
struct Views {
    made: BTreeMap<View, Catalog>,
    last_version: u64,
}

impl Shelf {
    pub(super) fn new(menu: Vec<Arc<InstanceType>>) -> Self {
        let offerings = menu.iter().flat_map(|machine| &machine.offerings);
        let zones = offerings.filter_map(|offering| offering.label(ZONE).cloned()).collect();
        Self { menu: menu.into(), zones, views: Mutex::default() }
    }

    /// Everything there is, for whoever asks about types and not about offerings.
    pub(super) fn menu(&self) -> &[Arc<InstanceType>] {
        &self.menu
    }

    pub(super) fn catalog(&self, mut view: View) -> Catalog {
        view.zones = view.zones.filter(|zones| !zones.is_superset(&self.zones));
        let mut views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = views.made.get(&view) {
            return made.clone();
        }
        if views.made.len() >= MOST_VIEWS {
            views.made.clear();
        }
        views.last_version += 1;
        let catalog = Catalog { version: CatalogVersion(views.last_version), types: self.seen(&view) };
        views.made.insert(view, catalog.clone());
        catalog
    }

    fn seen(&self, view: &View) -> Types {
        if view.zones.is_none() && view.sold_out.is_empty() && view.prices.is_empty() {
            return self.menu.clone();
        }
        self.menu.iter().map(|machine| seen_type(machine, view)).collect()
    }
}

/// A type without the offerings of zones that the class does not reach; what is sold out stays, and is not available; prices are
/// those of now.
fn seen_type(machine: &Arc<InstanceType>, view: &View) -> Arc<InstanceType> {
    let is_reached = |zone: &str| view.zones.as_ref().is_none_or(|zones| zones.contains(zone));
    let sells = |key: &OfferingKey| !view.sold_out.contains(key);
    let is_plain = |key: OfferingKey| is_reached(&key.zone) && sells(&key) && !view.prices.contains_key(&key);
    let is_unchanged =
        machine.offerings.iter().all(|offering| OfferingKey::of(&machine.name, offering).is_none_or(is_plain));
    if is_unchanged {
        return machine.clone();
    }
    let mut seen = InstanceType::clone(machine);
    seen.offerings.retain(|offering| offering.label(ZONE).is_none_or(|zone| is_reached(zone)));
    for offering in &mut seen.offerings {
        let Some(key) = OfferingKey::of(&machine.name, offering) else { continue };
        offering.is_available &= sells(&key);
        offering.price = view.prices.get(&key).copied().unwrap_or(offering.price);
    }
    for key in [ZONE, ZONE_ID] {
        let Some(requirement) = seen.requirements.get(key) else { continue };
        if requirement.listed().is_some_and(|values| !values.is_empty()) {
            let values: Vec<Arc<str>> =
                seen.offerings.iter().filter_map(|offering| offering.label(key).cloned()).collect();
            seen.requirements.add(key, Requirement::new(Operator::In, values.iter().map(|value| &**value)));
        }
    }
    Arc::new(seen)
}
