//! Whom a step is about: an object of the cluster, or a part of what the cloud sells.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use api::labels::{CAPACITY_TYPE_ON_DEMAND, CAPACITY_TYPE_RESERVED, CAPACITY_TYPE_SPOT};
use model::instance::InstanceType;
use provider::OfferingKey;
use serde_saphyr::Spanned;

use super::document::{Goods, Target};
use super::fault::Flaw;
use super::sense;
use crate::apiserver::At;
use crate::kinds::Kind;

/// An object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Object {
    pub(super) kind: Kind,
    pub(super) at: At,
}

impl Object {
    pub(super) fn of(target: Target<'_>) -> Result<Self, Flaw> {
        let kind = target.kind;
        let found = Kind::ALL.iter().find(|known| known.as_str().eq_ignore_ascii_case(&kind.value));
        let found = *found.ok_or_else(|| unserved(sense::line(kind), &kind.value))?;
        let name = sense::name(target.name)?;
        let at = match (found.is_namespaced(), target.namespace) {
            (true, None) => At::new("default", name),
            (true, Some(given)) => At::new(sense::name(given)?, name),
            (false, None) => At::new("", name),
            (false, Some(given)) => {
                let problem = format!("a {found} is in no namespace");
                return Err(Flaw::new(sense::line(given), problem, "leave `namespace` out"));
            }
        };
        Ok(Self { kind: found, at })
    }
}

pub(super) fn unserved(line: u64, kind: &str) -> Flaw {
    let served: Vec<&str> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
    let problem = format!("the simulator does not serve the kind {kind:?}");
    Flaw::new(line, problem, format!("leave it out, or use one of {}", served.join(", ")))
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.at.namespace {
            "" => write!(f, "{} {}", self.kind, self.at.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind, self.at.name),
        }
    }
}

/// Offerings by type, zone and capacity type; an empty set is all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Selection {
    types: BTreeSet<String>,
    zones: BTreeSet<String>,
    capacity_types: BTreeSet<String>,
}

impl Selection {
    pub(super) fn of(goods: Goods<'_>, market: &Market) -> Result<Self, Flaw> {
        let (types, zones) = (sense::names(goods.types)?, sense::names(goods.zones)?);
        let capacity_types = sense::names(goods.capacity_types)?;
        let known = [CAPACITY_TYPE_ON_DEMAND, CAPACITY_TYPE_SPOT, CAPACITY_TYPE_RESERVED];
        let odd = capacity_types.iter().find(|given| !known.contains(&given.value.as_str()));
        if let Some(given) = odd {
            let problem = format!("{:?} is no capacity type", given.value);
            return Err(Flaw::new(sense::line(given), problem, format!("use one of {}", known.join(", "))));
        }
        types.iter().try_for_each(|name| market.check_type(name))?;
        zones.iter().try_for_each(|name| market.check_zone(name))?;
        let set = |names: &[Spanned<String>]| names.iter().map(|name| name.value.clone()).collect();
        let chosen = Self { types: set(types), zones: set(zones), capacity_types: set(capacity_types) };
        let last = [goods.capacity_types, goods.zones, goods.types].into_iter().flatten().map(sense::line).max();
        match last {
            Some(line) if !market.offerings().any(|key| chosen.has(&key)) => {
                let problem = format!("{} sells nothing that is all of this: {chosen}", market.place);
                Err(Flaw::new(line, problem, "leave one of types, zones and capacityTypes out"))
            }
            _ => Ok(chosen),
        }
    }

    pub(super) fn has(&self, key: &OfferingKey) -> bool {
        let suits = |names: &BTreeSet<String>, name: &str| names.is_empty() || names.contains(name);
        suits(&self.types, key.type_name.as_str())
            && suits(&self.zones, &key.zone)
            && suits(&self.capacity_types, key.capacity_type.as_str())
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(", ");
        f.write_str(&if self.types.is_empty() { "everything".to_owned() } else { listed(&self.types) })?;
        if !self.capacity_types.is_empty() {
            write!(f, " {}", listed(&self.capacity_types))?;
        }
        if !self.zones.is_empty() {
            write!(f, " in {}", listed(&self.zones))?;
        }
        Ok(())
    }
}

/// What is sold, and where it is said so.
pub(super) struct Market {
    pub(super) types: Vec<Arc<InstanceType>>,
    /// Families of images that come out anew now and then.
    pub(super) images: Vec<&'static str>,
    pub(super) place: String,
}

impl Market {
    fn offerings(&self) -> impl Iterator<Item = OfferingKey> {
        let each = |machine: &'_ Arc<InstanceType>| {
            let keys = machine.offerings.iter().filter_map(|offering| OfferingKey::of(&machine.name, offering));
            keys.collect::<Vec<_>>()
        };
        self.types.iter().flat_map(each)
    }

    pub(super) fn check_image(&self, family: &Spanned<String>) -> Result<(), Flaw> {
        if self.images.contains(&family.value.as_str()) {
            return Ok(());
        }
        let (problem, remedy) = match self.images.is_empty() {
            true => (format!("{} has no images", self.place), "write `catalog: ec2`, or leave the step out".to_owned()),
            false => {
                let remedy = format!("use one of {}", self.images.join(", "));
                (format!("there is no image family {:?}", family.value), remedy)
            }
        };
        Err(Flaw::new(sense::line(family), problem, remedy))
    }

    pub(super) fn check_type(&self, name: &Spanned<String>) -> Result<(), Flaw> {
        if self.types.iter().any(|known| known.name.as_str() == name.value) {
            return Ok(());
        }
        let family = name.value.split('.').next().unwrap_or_default();
        let alike = self.types.iter().map(|known| known.name.as_str()).filter(|known| known.starts_with(family));
        let alike: Vec<&str> = alike.take(8).collect();
        let remedy = match alike.is_empty() {
            true => "use the name of a type that is sold there".to_owned(),
            false => format!("there are {}", alike.join(", ")),
        };
        Err(Flaw::new(sense::line(name), format!("{} sells no type {:?}", self.place, name.value), remedy))
    }

    fn check_zone(&self, name: &Spanned<String>) -> Result<(), Flaw> {
        let offerings = self.types.iter().flat_map(|machine| &machine.offerings);
        let zones: BTreeSet<&str> =
            offerings.filter_map(|offering| offering.label(model::labels::ZONE)).map(|zone| &**zone).collect();
        if zones.contains(name.value.as_str()) {
            return Ok(());
        }
        let remedy = format!("its zones are {}", zones.into_iter().collect::<Vec<_>>().join(", "));
        Err(Flaw::new(sense::line(name), format!("{} has no zone {:?}", self.place, name.value), remedy))
    }
}
