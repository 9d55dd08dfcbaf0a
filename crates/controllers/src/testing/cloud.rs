//! A cloud that does what a test says, and otherwise what the simulated one does.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use api::NodeClaim;
use api::nodepool::NodeClassReference;
use provider::kwok::Kwok;
use provider::{
    Answer, Catalog, CloudProvider, DriftReasons, Duty, Instance, Interruption, LabelKeys, NodeClassKind,
    ProviderError, ProviderId, RegistrationHook, RepairPolicy, Termination,
};

/// Copies are one and the same.
#[derive(Clone)]
pub(crate) struct Scripted {
    inner: Kwok,
    script: Arc<Mutex<Script>>,
}

/// What happens instead of what would. Each queue is used up call by call.
#[derive(Default)]
pub(crate) struct Script {
    pub(crate) launches: VecDeque<ProviderError>,
    pub(crate) terminations: VecDeque<Result<Termination, ProviderError>>,
    pub(crate) gets: VecDeque<ProviderError>,
    pub(crate) hooks: Vec<Arc<dyn RegistrationHook>>,
    /// Machines that no list shows and nobody finds.
    pub(crate) vanished: Vec<String>,
    /// How long a list is under way once it was made.
    pub(crate) list_takes: Duration,
    pub(crate) launch_timeout: Option<Duration>,
    /// Why machines have drifted, by claim, and how long it takes to find that out.
    pub(crate) drifted: DriftReasons,
    pub(crate) drift_takes: Duration,
    pub(crate) drift_fails: VecDeque<ProviderError>,
    /// How many claims each call asked about.
    pub(crate) drift_asked: Vec<usize>,
    /// Classes that the cloud has no answer about.
    pub(crate) silent: Vec<String>,
    /// What was not acknowledged yet.
    pub(crate) notices: Vec<Interruption>,
    pub(crate) calls: Vec<String>,
}

impl Scripted {
    pub(crate) fn new(inner: Kwok) -> Self {
        Self { inner, script: Arc::default() }
    }

    pub(crate) fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }

    /// How many calls of this method there were, such as `launch`.
    pub(crate) fn calls(&self, method: &str) -> usize {
        self.script().calls.iter().filter(|call| *call == method).count()
    }

    fn note(&self, method: &str) {
        self.script().calls.push(method.to_owned());
    }
}

impl CloudProvider for Scripted {
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
        self.note("catalog");
        if self.script().silent.contains(&class.name) {
            let error = ProviderError::Unavailable { doing: "asking".to_owned(), source: None };
            return Box::pin(async move { Err(error) });
        }
        self.inner.catalog(class)
    }

    fn launch<'a>(&'a self, claim: &'a NodeClaim) -> Answer<'a, Instance> {
        self.note("launch");
        let scripted = self.script().launches.pop_front();
        match scripted {
            Some(error) => Box::pin(async move { Err(error) }),
            None => self.inner.launch(claim),
        }
    }

    fn find<'a>(&'a self, claim: &'a NodeClaim) -> Answer<'a, Option<Instance>> {
        self.note("find");
        self.inner.find(claim)
    }

    fn get<'a>(&'a self, id: &'a ProviderId) -> Answer<'a, Instance> {
        self.note("get");
        let scripted = self.script().gets.pop_front();
        match scripted {
            Some(error) => Box::pin(async move { Err(error) }),
            None => self.inner.get(id),
        }
    }

    fn list(&self) -> Answer<'_, Vec<Instance>> {
        self.note("list");
        Box::pin(async move {
            let mut all = self.inner.list().await?;
            let (vanished, takes) = {
                let script = self.script();
                (script.vanished.clone(), script.list_takes)
            };
            tokio::time::sleep(takes).await;
            all.retain(|instance| !vanished.iter().any(|id| id == instance.id.as_str()));
            Ok(all)
        })
    }

    fn terminate<'a>(&'a self, id: &'a ProviderId) -> Answer<'a, Termination> {
        self.note("terminate");
        let scripted = self.script().terminations.pop_front();
        match scripted {
            Some(answer) => Box::pin(async move { answer }),
            None => self.inner.terminate(id),
        }
    }

    fn drift<'a>(&'a self, claims: &'a [&'a NodeClaim]) -> Answer<'a, DriftReasons> {
        self.note("drift");
        let names: Vec<String> = claims.iter().filter_map(|claim| claim.metadata.name.clone()).collect();
        Box::pin(async move {
            let takes = self.script().drift_takes;
            tokio::time::sleep(takes).await;
            let mut script = self.script();
            script.drift_asked.push(names.len());
            match script.drift_fails.pop_front() {
                Some(error) => Err(error),
                None => Ok(script.drifted.clone().into_iter().filter(|(name, _)| names.contains(name)).collect()),
            }
        })
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        self.inner.repair_policies()
    }

    fn registration_hooks(&self) -> Vec<Arc<dyn RegistrationHook>> {
        self.script().hooks.clone()
    }

    fn interruptions(&self) -> Answer<'_, Vec<Interruption>> {
        Box::pin(async move {
            loop {
                let notices = self.script().notices.clone();
                if !notices.is_empty() {
                    return Ok(notices);
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        })
    }

    fn acknowledge<'a>(&'a self, handled: &'a [Interruption]) -> Answer<'a, ()> {
        self.note("acknowledge");
        self.script().notices.retain(|notice| !handled.contains(notice));
        Box::pin(async { Ok(()) })
    }

    fn launch_timeout(&self) -> Duration {
        self.script().launch_timeout.unwrap_or_else(|| self.inner.launch_timeout())
    }

    fn duties(&self) -> Vec<Duty> {
        self.inner.duties()
    }
}
