//! Asks the cloud about machines, all at once that wait to be asked about.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::NodeClaim;
use kube::ResourceExt;
use provider::{CloudProvider, ProviderError};

type Said = Result<Option<String>, ProviderError>;

/// Whoever wants to know stands in line. The first in line asks for all who stand there, and leaves them their answers.
#[derive(Debug, Default)]
pub(super) struct Asking {
    waiting: Mutex<BTreeMap<String, Arc<NodeClaim>>>,
    answers: tokio::sync::Mutex<BTreeMap<String, Said>>,
}

impl Asking {
    /// Why the claim's machine has drifted, if it has.
    pub(super) async fn ask(&self, cloud: &dyn CloudProvider, claim: &Arc<NodeClaim>) -> Said {
        let name = claim.name_any();
        self.waiting().insert(name.clone(), claim.clone());
        // The lock is given in the order in which it was asked for, so nobody's answer is overtaken by a later question.
        let mut answers = self.answers.lock().await;
        if let Some(said) = answers.remove(&name) {
            return said;
        }
        let asked = std::mem::take(&mut *self.waiting());
        let claims: Vec<&NodeClaim> = asked.values().map(|claim| &**claim).collect();
        let reasons = cloud.drift(&claims).await;
        for claim in asked.into_keys() {
            let said = reasons.as_ref().map(|reasons| reasons.get(&claim).cloned()).map_err(Clone::clone);
            answers.insert(claim, said);
        }
        answers.remove(&name).unwrap_or_else(|| reasons.map(|reasons| reasons.get(&name).cloned()))
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<String, Arc<NodeClaim>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
