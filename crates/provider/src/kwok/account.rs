//! A simulated AWS account: what the selectors of an EC2NodeClass find there.
//!
//! The account has what the manifest asks for, so that a real one plays unchanged: a subnet in every zone, whatever tags are
//! asked for; the subnets, groups and images that are named by id; a group for every name; images of every Linux family. All
//! ids follow from their names. It has no capacity reservations, and no Windows, because the catalogue has none.

use std::collections::{BTreeMap, BTreeSet};

use api::aws::{
    Ami, AmiRequirement, AmiSelectorTerm, EC2NodeClass, EC2NodeClassSpec, EC2NodeClassStatus, SecurityGroup, Subnet,
};
use api::conditions::{ConditionStatus, ConditionTypes, Conditions};
use api::labels::ARCH;
use jiff::Timestamp;

use super::draw::id;
use super::facts::Facts;
use crate::ec2::{ACCELERATOR_COUNT, GPU_COUNT, Zone};

pub(super) use crate::ec2::TENANCY;

const READINESS: ConditionTypes = ConditionTypes::new(&[
    "AMIsReady",
    "SubnetsReady",
    "SecurityGroupsReady",
    "InstanceProfileReady",
    "ValidationSucceeded",
    "PlacementGroupReady",
    "CapacityReservationsReady",
]);

/// What `latest` means until somebody publishes something newer.
const FIRST_RELEASE: &str = "v20260101";

/// An image of a family. One that suits two needs is listed once for each.
struct Variant {
    arch: &'static str,
    name: &'static str,
    needs: &'static [Need],
}

const fn variant(arch: &'static str, name: &'static str, needs: &'static [Need]) -> Variant {
    Variant { arch, name, needs }
}

const AL2023: [Variant; 5] = [
    variant("amd64", "standard", &[Need::Plain]),
    variant("amd64", "nvidia", &[Need::Gpu]),
    variant("amd64", "neuron", &[Need::Accelerator]),
    variant("arm64", "standard", &[Need::Plain]),
    variant("arm64", "nvidia", &[Need::Gpu]),
];

const BOTTLEROCKET: [Variant; 4] = [
    variant("amd64", "standard", &[Need::Plain, Need::Accelerator]),
    variant("amd64", "nvidia", &[Need::Gpu]),
    variant("arm64", "standard", &[Need::Plain]),
    variant("arm64", "nvidia", &[Need::Gpu]),
];

const AL2: [Variant; 3] = [
    variant("amd64", "standard", &[Need::Plain]),
    variant("amd64", "gpu", &[Need::Accelerator, Need::Gpu]),
    variant("arm64", "standard", &[Need::Plain]),
];

/// The families of images that the account has.
const FAMILIES: [(&str, &[Variant]); 3] = [("al2023", &AL2023), ("bottlerocket", &BOTTLEROCKET), ("al2", &AL2)];

pub(super) fn families() -> impl Iterator<Item = &'static str> {
    FAMILIES.into_iter().map(|(family, _)| family)
}

/// Empty for a family that the account does not have.
fn variants(family: &str) -> &'static [Variant] {
    FAMILIES.into_iter().find(|(known, _)| *known == family).map_or(&[], |(_, variants)| variants)
}

#[derive(Clone, Copy)]
enum Need {
    Plain,
    Gpu,
    Accelerator,
}

/// The account of one region.
pub(super) struct Region {
    pub(super) name: String,
    pub(super) zones: Vec<Zone>,
}

impl Region {
    /// The class's status as a controller with a real account would write it.
    pub(super) fn status(&self, class: &EC2NodeClass, facts: &Facts, now: Timestamp) -> EC2NodeClassStatus {
        let amis = images(&self.name, &class.spec, facts);
        let subnets = self.subnets(&class.spec);
        let security_groups = self.security_groups(&class.spec);
        let mut list = class.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
        let mut conditions = Conditions::open(READINESS, &class.metadata, &mut list, now);
        let resolved = [
            ("AMIsReady", amis.is_empty(), "AMINotFound", "the simulated account has Linux images only"),
            ("SubnetsReady", subnets.is_empty(), "SubnetsNotFound", "subnetSelectorTerms select nothing"),
            (
                "SecurityGroupsReady",
                security_groups.is_empty(),
                "SecurityGroupsNotFound",
                "securityGroupSelectorTerms select nothing",
            ),
        ];
        for (type_, is_missing, reason, message) in resolved {
            match is_missing {
                true => conditions.set(type_, ConditionStatus::False, reason, message),
                false => conditions.set_true(type_),
            };
        }
        for type_ in ["InstanceProfileReady", "PlacementGroupReady", "CapacityReservationsReady"] {
            conditions.set_true(type_);
        }
        if resolved.iter().any(|(_, is_missing, ..)| *is_missing) {
            let message = "what it selects is not there";
            conditions.set("ValidationSucceeded", ConditionStatus::False, "DependenciesNotReady", message);
        } else {
            conditions.set_true("ValidationSucceeded");
        }
        EC2NodeClassStatus {
            subnets,
            security_groups,
            capacity_reservations: Vec::new(),
            amis,
            instance_profile: Some(self.instance_profile(class)),
            conditions: list,
        }
    }

    /// One subnet per zone for any tags; a subnet that is named lies in the zone of its place in the list.
    fn subnets(&self, spec: &EC2NodeClassSpec) -> Vec<Subnet> {
        let mut found: BTreeMap<String, &Zone> = BTreeMap::new();
        let named = spec.subnet_selector_terms.iter().filter_map(|term| term.id.as_ref());
        found.extend(named.cloned().zip(self.zones.iter().cycle()));
        if spec.subnet_selector_terms.iter().any(|term| term.id.is_none()) {
            found.extend(self.zones.iter().map(|zone| (id("subnet", &zone.name), zone)));
        }
        let subnets = found.into_iter().map(|(id, zone)| Subnet {
            id,
            zone: zone.name.to_string(),
            zone_id: zone.id.as_ref().map(ToString::to_string),
        });
        subnets.collect()
    }

    fn security_groups(&self, spec: &EC2NodeClassSpec) -> Vec<SecurityGroup> {
        let groups = spec.security_group_selector_terms.iter().map(|term| match (&term.id, &term.name) {
            (Some(id), _) => (id.clone(), None),
            (None, Some(name)) => (id("sg", &format!("{}/{name}", self.name)), Some(name.clone())),
            (None, None) => (id("sg", &format!("{}/{:?}", self.name, term.tags)), None),
        });
        let groups: BTreeMap<String, Option<String>> = groups.collect();
        groups.into_iter().map(|(id, name)| SecurityGroup { id, name }).collect()
    }

    fn instance_profile(&self, class: &EC2NodeClass) -> String {
        let name = class.metadata.name.as_deref().unwrap_or_default();
        let role = class.spec.role.as_deref().unwrap_or_default();
        class.spec.instance_profile.clone().unwrap_or_else(|| id("simulated", &format!("{}/{name}/{role}", self.name)))
    }
}

/// Newest first, which here means by id: they all come out at once.
fn images(region: &str, spec: &EC2NodeClassSpec, facts: &Facts) -> Vec<Ami> {
    let mut images: Vec<Ami> =
        spec.ami_selector_terms.iter().flat_map(|term| images_of_term(region, term, facts)).collect();
    images.sort_by(|a, b| a.id.cmp(&b.id));
    let mut seen = BTreeSet::new();
    images.retain(|image| seen.insert(format!("{} {:?}", image.id, image.requirements)));
    images
}

fn images_of_term(region: &str, term: &AmiSelectorTerm, facts: &Facts) -> Vec<Ami> {
    if let Some((family, version)) = term.alias.as_deref().and_then(|alias| alias.split_once('@')) {
        let release = match version {
            "latest" => facts.release(family).unwrap_or_else(|| FIRST_RELEASE.to_owned()),
            pinned => pinned.to_owned(),
        };
        return images_of_alias(region, family, release.trim_start_matches('v'));
    }
    let described = || format!("{region}/{:?}/{:?}/{:?}/{:?}", term.name, term.ssm_parameter, term.owner, term.tags);
    let found = term.id.clone().unwrap_or_else(|| id("ami", &described()));
    // Nobody says which architecture such an image has, so it has both.
    vec![Ami {
        id: found,
        name: term.name.clone(),
        deprecated: None,
        requirements: vec![requirement(ARCH, "In", &["amd64", "arm64"])],
    }]
}

fn images_of_alias(region: &str, family: &str, release: &str) -> Vec<Ami> {
    let mut images = Vec::new();
    for variant in variants(family) {
        let name = format!("simulated-{family}-{}-{}-{release}", variant.arch, variant.name);
        for need in variant.needs {
            let mut requirements = vec![requirement(ARCH, "In", &[variant.arch])];
            match need {
                Need::Plain => {
                    requirements.push(requirement(GPU_COUNT, "DoesNotExist", &[]));
                    requirements.push(requirement(ACCELERATOR_COUNT, "DoesNotExist", &[]));
                }
                Need::Gpu => requirements.push(requirement(GPU_COUNT, "Exists", &[])),
                Need::Accelerator => requirements.push(requirement(ACCELERATOR_COUNT, "Exists", &[])),
            }
            images.push(Ami {
                id: id("ami", &format!("{region}/{name}")),
                name: Some(name.clone()),
                deprecated: None,
                requirements,
            });
        }
    }
    images
}

fn requirement(key: &str, operator: &str, values: &[&str]) -> AmiRequirement {
    AmiRequirement {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values: values.iter().map(|value| (*value).to_owned()).collect(),
    }
}
