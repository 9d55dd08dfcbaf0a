//! A machine that a cloud has made, and the names by which it is known.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use api::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use api::{NodeClaim, ResourceList};
use model::time::Instant;

/// A cloud's name for a machine, as it stands in `providerID` of its Node and its claim.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProviderId(Arc<str>);

/// The claim that a machine was made for. A name may be used again, its uid is not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimName {
    pub name: String,
    pub uid: String,
}

/// A machine. What a claim learns from its launch is here, in the shapes of the wire.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    pub id: ProviderId,
    /// `None` for a machine that does not say whose it is, such as one that another autoscaler made.
    pub claim: Option<ClaimName>,
    /// What is settled about the machine: type, zone, capacity type and more.
    pub labels: BTreeMap<String, String>,
    /// What the cloud wants to remember on the claim and the node.
    pub annotations: BTreeMap<String, String>,
    pub capacity: ResourceList,
    pub allocatable: ResourceList,
    pub image: Option<String>,
    pub launched_at: Option<Instant>,
}

/// How far a machine's end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Termination {
    Going,
    Gone,
}

impl Instance {
    pub fn type_name(&self) -> Option<&str> {
        self.label(INSTANCE_TYPE)
    }

    pub fn zone(&self) -> Option<&str> {
        self.label(ZONE)
    }

    pub fn capacity_type(&self) -> Option<&str> {
        self.label(CAPACITY_TYPE)
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }
}

impl ClaimName {
    pub fn of(claim: &NodeClaim) -> Self {
        Self {
            name: claim.metadata.name.clone().unwrap_or_default(),
            uid: claim.metadata.uid.clone().unwrap_or_default(),
        }
    }
}

impl ProviderId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for ProviderId {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for ProviderId {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for ProviderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ProviderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}
