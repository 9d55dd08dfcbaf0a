//! What a provider brings into our process beside its calls: work of its own, a say in registration, and its view of health.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use api::NodeClaim;
use api::conditions::ConditionStatus;

use crate::{Answer, ProviderError};

/// A loop of the provider's own, such as keeping the status of NodeClasses.
#[derive(Clone)]
pub struct Duty {
    pub name: &'static str,
    round: Arc<dyn Fn() -> Answer<'static, ()> + Send + Sync>,
}

impl Duty {
    pub fn new(name: &'static str, round: impl Fn() -> Answer<'static, ()> + Send + Sync + 'static) -> Self {
        Self { name, round: Arc::new(round) }
    }

    /// One round: does what there is to do and waits while there is nothing. Whoever calls starts the next round at once when
    /// this one is over, and after an error logs it and backs off. A round that is dropped has lost nothing.
    pub async fn round(&self) -> Result<(), ProviderError> {
        (self.round)().await
    }
}

impl fmt::Debug for Duty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Duty({})", self.name)
    }
}

/// Asked before a node counts as registered. All hooks must agree.
pub trait RegistrationHook: Send + Sync {
    /// Stands in the claim's condition while the hook is pending.
    fn name(&self) -> &str;

    fn registered<'a>(&'a self, claim: &'a NodeClaim) -> Answer<'a, HookAnswer>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookAnswer {
    /// Nothing stands in the way. The labels, if any, become the claim's and the node's.
    Agreed { labels: BTreeMap<String, String> },
    /// Not yet. Without a time, ask again with a growing delay.
    Pending { again_after: Option<Duration> },
}

/// A node condition that means a machine is broken once it has lasted long enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepairPolicy {
    pub condition: &'static str,
    pub status: ConditionStatus,
    pub toleration: Duration,
}
