//! # provider
//!
//! Purpose: the one doorway to any cloud: the trait, its error, two wrappers, the suite that every provider must pass, and a
//! simulated cloud in the manner of kwok, which can also sell what EC2 sells.
//! May touch: the model, the wire types, the data that is built in; the simulated cloud keeps its machines in an API server.
//! Must not touch: a concrete cloud's client, files and sockets, the wall clock, the engine.
//! Invariants: one claim never gets two machines, however often its launch is repeated; equal regions give equal catalogues, in
//! the order of type names; a price that no source names is never made up.

mod catalog;
pub mod conformance;
mod duties;
pub mod ec2;
mod error;
pub mod faulty;
mod instance;
mod interruption;
pub mod kwok;
mod labels;
pub mod metered;
pub mod quantities;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use api::NodeClaim;
use api::nodepool::NodeClassReference;

pub use catalog::{Catalog, CatalogVersion, OfferingKey};
pub use duties::{Duty, HookAnswer, RegistrationHook, RepairPolicy};
pub use error::{ErrorSource, ProviderError, Reaction};
pub use instance::{ClaimName, Instance, ProviderId, Termination};
pub use interruption::{Interruption, InterruptionKind};
pub use labels::{LabelKeys, NodeClassKind};

/// What a call to a cloud will say.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, ProviderError>> + Send + 'a>>;

/// Why claims are no longer what their class asks for, by claim name. A claim that is not here is fine.
pub type DriftReasons = BTreeMap<String, String>;

/// A cloud, or a process that stands for one.
///
/// The shape suits a network: few coarse calls, whole catalogues with a version, batches. A provider batches, caches and
/// retries inside itself, and measures nothing; [`metered::Metered`] does that for all of them.
pub trait CloudProvider: Send + Sync {
    fn name(&self) -> &str;

    /// The kinds of NodeClass that it serves, the default one first. Everything of other kinds belongs to somebody else.
    fn node_class_kinds(&self) -> &[NodeClassKind];

    /// The label keys that its machines have beside everybody's.
    fn label_keys(&self) -> &LabelKeys;

    /// Everything that pools of a class could ever get, what is out of stock included: availability is a matter of offerings.
    fn catalog<'a>(&'a self, class: &'a NodeClassReference) -> Answer<'a, Catalog>;

    /// Gets a machine for a claim. Asked again for the same claim, it gives the same machine, even when the first reply was lost.
    fn launch<'a>(&'a self, claim: &'a NodeClaim) -> Answer<'a, Instance>;

    /// The machine of a claim, if there is one. It answers for a claim that does not know its machine because a reply was lost.
    fn find<'a>(&'a self, claim: &'a NodeClaim) -> Answer<'a, Option<Instance>> {
        Box::pin(async move {
            let wanted = ClaimName::of(claim);
            Ok(self.list().await?.into_iter().find(|instance| instance.claim.as_ref() == Some(&wanted)))
        })
    }

    /// One machine; `NotFound` when it is gone or was never there.
    fn get<'a>(&'a self, id: &'a ProviderId) -> Answer<'a, Instance>;

    /// Every machine that it has for this cluster, in the order of ids. One whose claim is gone will be ended.
    /// What each one is need not be told, only its id, its claim and since when it is there.
    fn list(&self) -> Answer<'_, Vec<Instance>>;

    /// Asks for a machine's end. To be repeated until it answers `Gone`, which it also does for a machine that never was.
    fn terminate<'a>(&'a self, id: &'a ProviderId) -> Answer<'a, Termination>;

    /// Which of the claims have machines that their class would no longer make.
    fn drift<'a>(&'a self, claims: &'a [&'a NodeClaim]) -> Answer<'a, DriftReasons>;

    /// The node conditions that mean a machine is broken.
    fn repair_policies(&self) -> &[RepairPolicy];

    /// What must hold, beyond the node being there, before it counts as registered.
    fn registration_hooks(&self) -> Vec<Arc<dyn RegistrationHook>> {
        Vec::new()
    }

    /// Word of machines that will be taken away. Waits while there is none. What was handed out and is not acknowledged comes
    /// again, so that nothing is lost when whoever heard it ends before it was dealt with.
    fn interruptions(&self) -> Answer<'_, Vec<Interruption>> {
        Box::pin(std::future::pending())
    }

    /// These notices were dealt with and need not come again.
    fn acknowledge<'a>(&'a self, _handled: &'a [Interruption]) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    /// How long a claim may wait for its machine before it is given up.
    fn launch_timeout(&self) -> Duration {
        Duration::from_secs(5 * 60)
    }

    /// Work of its own that the process runs beside ours while it leads.
    fn duties(&self) -> Vec<Duty> {
        Vec::new()
    }
}

/// A call that can be measured and made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    Catalog,
    Launch,
    Find,
    Get,
    List,
    Terminate,
    Drift,
}

impl Method {
    pub const ALL: [Self; 7] =
        [Self::Catalog, Self::Launch, Self::Find, Self::Get, Self::List, Self::Terminate, Self::Drift];

    /// The reference's name for the call, which dashboards know. It has no word for finding a machine by its claim.
    pub fn metric_label(self) -> &'static str {
        match self {
            Self::Catalog => "GetInstanceTypes",
            Self::Launch => "Create",
            Self::Find | Self::Get => "Get",
            Self::List => "List",
            Self::Terminate => "Delete",
            Self::Drift => "IsDrifted",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.metric_label())
    }
}
