//! Any provider, with each call timed, none waited for longer than is reasonable, and each error counted.

use std::sync::Arc;
use std::time::Duration;

use api::NodeClaim;
use api::labels::NODE_POOL;
use api::nodepool::NodeClassReference;
use tokio::time::Instant;

use crate::{
    Answer, Catalog, CloudProvider, DriftReasons, Duty, HookAnswer, Instance, Interruption, LabelKeys, Method,
    NodeClassKind, ProviderError, ProviderId, RegistrationHook, RepairPolicy, Termination,
};

/// Seconds that calls took, a histogram over `controller`, `method` and `provider`.
pub const DURATION_METRIC: &str = "karpenter_cloudprovider_duration_seconds";
/// Calls that failed, a counter over `controller`, `method`, `provider`, `error` and `nodepool`.
pub const ERRORS_METRIC: &str = "karpenter_cloudprovider_errors_total";

/// A launch may wait for a batch to fill and for the cloud to find room, and a list may have many pages.
const LONG_CALL: Duration = Duration::from_secs(120);
/// Everything else. A call that never comes back would keep its worker for good, and a plan with it.
const CALL: Duration = Duration::from_secs(30);

/// Where measurements go.
pub trait Meter: Send + Sync {
    fn observe(&self, call: &Call<'_>);
}

/// One call that came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    pub controller: &'a str,
    pub method: Method,
    pub provider: &'a str,
    /// Whose machine it was about; empty when it was about none or about several pools'.
    pub node_pool: &'a str,
    pub took: Duration,
    /// The label of the error, if it failed.
    pub error: Option<&'static str>,
}

/// A provider whose calls are measured. Wrap once: two wrappers would count everything twice.
#[derive(Clone)]
pub struct Metered {
    inner: Arc<dyn CloudProvider>,
    meter: Arc<dyn Meter>,
    controller: Arc<str>,
}

impl Metered {
    pub fn new(inner: Arc<dyn CloudProvider>, meter: Arc<dyn Meter>) -> Self {
        Self { inner, meter, controller: "".into() }
    }

    /// The same provider for one controller, whose name its calls are counted under.
    #[must_use]
    pub fn for_controller(&self, name: &str) -> Self {
        Self { controller: name.into(), ..self.clone() }
    }

    fn measured<'a, T: Send + 'a>(&'a self, method: Method, node_pool: &'a str, call: Answer<'a, T>) -> Answer<'a, T> {
        Box::pin(async move {
            let start = Instant::now();
            let answer = in_time(method.metric_label(), patience(method), call).await;
            self.meter.observe(&Call {
                controller: &self.controller,
                method,
                provider: self.inner.name(),
                node_pool,
                took: start.elapsed(),
                error: answer.as_ref().err().map(ProviderError::metric_label),
            });
            answer
        })
    }
}

impl CloudProvider for Metered {
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
        self.measured(Method::Catalog, "", self.inner.catalog(class))
    }

    fn launch<'a>(&'a self, claim: &'a NodeClaim) -> Answer<'a, Instance> {
        self.measured(Method::Launch, pool_of(claim), self.inner.launch(claim))
    }

    fn find<'a>(&'a self, claim: &'a NodeClaim) -> Answer<'a, Option<Instance>> {
        self.measured(Method::Find, pool_of(claim), self.inner.find(claim))
    }

    fn get<'a>(&'a self, id: &'a ProviderId) -> Answer<'a, Instance> {
        self.measured(Method::Get, "", self.inner.get(id))
    }

    fn list(&self) -> Answer<'_, Vec<Instance>> {
        self.measured(Method::List, "", self.inner.list())
    }

    fn terminate<'a>(&'a self, id: &'a ProviderId) -> Answer<'a, Termination> {
        self.measured(Method::Terminate, "", self.inner.terminate(id))
    }

    fn drift<'a>(&'a self, claims: &'a [&'a NodeClaim]) -> Answer<'a, DriftReasons> {
        let first = claims.first().map_or("", |claim| pool_of(claim));
        let is_one_pool = claims.iter().all(|claim| pool_of(claim) == first);
        self.measured(Method::Drift, if is_one_pool { first } else { "" }, self.inner.drift(claims))
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        self.inner.repair_policies()
    }

    fn registration_hooks(&self) -> Vec<Arc<dyn RegistrationHook>> {
        let hooks = self.inner.registration_hooks().into_iter();
        hooks.map(|hook| Arc::new(Timely(hook)) as Arc<dyn RegistrationHook>).collect()
    }

    fn interruptions(&self) -> Answer<'_, Vec<Interruption>> {
        self.inner.interruptions()
    }

    fn acknowledge<'a>(&'a self, handled: &'a [Interruption]) -> Answer<'a, ()> {
        Box::pin(in_time("acknowledge", CALL, self.inner.acknowledge(handled)))
    }

    fn launch_timeout(&self) -> Duration {
        self.inner.launch_timeout()
    }

    fn duties(&self) -> Vec<Duty> {
        self.inner.duties()
    }
}

/// A hook that is not waited for without end.
struct Timely(Arc<dyn RegistrationHook>);

impl RegistrationHook for Timely {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn registered<'a>(&'a self, claim: &'a NodeClaim) -> Answer<'a, HookAnswer> {
        Box::pin(in_time(self.name(), CALL, self.0.registered(claim)))
    }
}

fn patience(method: Method) -> Duration {
    match method {
        Method::Launch | Method::List => LONG_CALL,
        Method::Catalog | Method::Find | Method::Get | Method::Terminate | Method::Drift => CALL,
    }
}

/// What comes later than that is taken for no answer; the cloud may have done it all the same.
async fn in_time<T>(what: &str, patience: Duration, call: Answer<'_, T>) -> Result<T, ProviderError> {
    tokio::time::timeout(patience, call).await.unwrap_or_else(|late| {
        let doing = format!("waiting {} seconds for {what}", patience.as_secs());
        Err(ProviderError::Unavailable { doing, source: Some(Arc::new(late)) })
    })
}

fn pool_of(claim: &NodeClaim) -> &str {
    claim.metadata.labels.as_ref().and_then(|labels| labels.get(NODE_POOL)).map_or("", String::as_str)
}
