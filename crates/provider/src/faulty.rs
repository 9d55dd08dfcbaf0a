//! Any provider, with misfortune by plan: for tests and for the simulator.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::NodeClaim;
use api::nodepool::NodeClassReference;

use crate::{
    Answer, Catalog, CloudProvider, DriftReasons, Duty, Instance, Interruption, LabelKeys, Method, NodeClassKind,
    ProviderError, ProviderId, RegistrationHook, RepairPolicy, Termination,
};

/// One misfortune.
#[derive(Clone, Debug)]
pub struct Fault {
    pub method: Method,
    /// Which call of the method it strikes; the first is 1.
    pub call: u32,
    pub mishap: Mishap,
}

#[derive(Clone, Debug)]
pub enum Mishap {
    /// The cloud refuses, and nothing has happened.
    Fails(ProviderError),
    /// The cloud does it, and the answer never arrives.
    LosesReply(ProviderError),
    /// The cloud takes this long before it begins.
    Takes(Duration),
}

/// A provider that fails when its plan says so.
pub struct Faulty {
    inner: Arc<dyn CloudProvider>,
    plan: Vec<Fault>,
    calls: Mutex<BTreeMap<Method, u32>>,
}

impl Faulty {
    pub fn new(inner: Arc<dyn CloudProvider>, plan: Vec<Fault>) -> Self {
        Self { inner, plan, calls: Mutex::default() }
    }

    /// How often a method has been called.
    pub fn calls(&self, method: Method) -> u32 {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).get(&method).copied().unwrap_or(0)
    }

    fn struck<'a, T: Send + 'a>(&'a self, method: Method, call: Answer<'a, T>) -> Answer<'a, T> {
        Box::pin(async move {
            let mishaps = self.next_mishaps(method);
            for mishap in &mishaps {
                match mishap {
                    Mishap::Takes(duration) => tokio::time::sleep(*duration).await,
                    Mishap::Fails(error) => return Err(error.clone()),
                    Mishap::LosesReply(_) => {}
                }
            }
            let answer = call.await?;
            let lost = mishaps.into_iter().find_map(|mishap| match mishap {
                Mishap::LosesReply(error) => Some(error),
                _ => None,
            });
            lost.map_or(Ok(answer), Err)
        })
    }

    fn next_mishaps(&self, method: Method) -> Vec<Mishap> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let count = calls.entry(method).or_default();
        *count += 1;
        let due = self.plan.iter().filter(|fault| fault.method == method && fault.call == *count);
        due.map(|fault| fault.mishap.clone()).collect()
    }
}

impl CloudProvider for Faulty {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn node_class_kinds(&self) -> &[NodeClassKind] {
        self.inner.node_class_kinds()
    }

    fn label_keys(&self) -> &LabelKeys {
        self.inner.label_keys()
    }

    fn catalog<'a>(&'a self, class: &'a NodeClassReference) -> Answer<'a, Catalog> {
        self.struck(Method::Catalog, self.inner.catalog(class))
    }

    fn launch<'a>(&'a self, claim: &'a NodeClaim) -> Answer<'a, Instance> {
        self.struck(Method::Launch, self.inner.launch(claim))
    }

    fn find<'a>(&'a self, claim: &'a NodeClaim) -> Answer<'a, Option<Instance>> {
        self.struck(Method::Find, self.inner.find(claim))
    }

    fn get<'a>(&'a self, id: &'a ProviderId) -> Answer<'a, Instance> {
        self.struck(Method::Get, self.inner.get(id))
    }

    fn list(&self) -> Answer<'_, Vec<Instance>> {
        self.struck(Method::List, self.inner.list())
    }

    fn terminate<'a>(&'a self, id: &'a ProviderId) -> Answer<'a, Termination> {
        self.struck(Method::Terminate, self.inner.terminate(id))
    }

    fn drift<'a>(&'a self, claims: &'a [&'a NodeClaim]) -> Answer<'a, DriftReasons> {
        self.struck(Method::Drift, self.inner.drift(claims))
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        self.inner.repair_policies()
    }

    fn registration_hooks(&self) -> Vec<Arc<dyn RegistrationHook>> {
        self.inner.registration_hooks()
    }

    fn interruptions(&self) -> Answer<'_, Vec<Interruption>> {
        self.inner.interruptions()
    }

    fn acknowledge<'a>(&'a self, handled: &'a [Interruption]) -> Answer<'a, ()> {
        self.inner.acknowledge(handled)
    }

    fn launch_timeout(&self) -> Duration {
        self.inner.launch_timeout()
    }

    fn duties(&self) -> Vec<Duty> {
        self.inner.duties()
    }
}
