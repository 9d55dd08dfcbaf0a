//! Keeps the status of EC2NodeClasses, as the AWS provider's own controller would.

use std::pin::pin;
use std::sync::Arc;

use api::aws::EC2NodeClass;
use futures::StreamExt;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt};
use runtime::patch::merge_patch;
use runtime::watch::{self, Event, Seen, Target};
use runtime::{Clock, Rng};
use serde_json::json;

use super::account::Region;
use super::facts::Facts;
use crate::ProviderError;

pub(super) struct StatusKeeper {
    client: Client,
    clock: Clock,
    rng: Rng,
    region: Region,
    facts: Arc<Facts>,
}

impl StatusKeeper {
    pub(super) fn new(client: Client, clock: Clock, rng: &Rng, region: Region, facts: Arc<Facts>) -> Self {
        Self { client, clock, rng: rng.fork("kwok.nodeclass"), region, facts }
    }

    /// Brings all classes up to date, then each one that changes, until a fact changes. One whose status cannot be written
    /// keeps no other: the round fails when all have had their turn, and is begun again later.
    pub(super) async fn round(&self) -> Result<(), ProviderError> {
        let mut changed = pin!(self.facts.changed.notified());
        let decode = |seen: Seen<'_>| serde_json::from_str::<EC2NodeClass>(&seen.json());
        let settings = watch::Settings::default();
        let target = Target::of::<EC2NodeClass>();
        let mut events = watch::watch(self.client.clone(), target, settings, self.rng.clone(), decode);
        let (mut is_listed, mut settled) = (false, Ok(()));
        while !is_listed || settled.is_ok() {
            tokio::select! {
                biased;
                () = &mut changed => return Ok(()),
                event = events.next() => match event {
                    Some(Event::Applied(class)) => settled = settled.and(self.settle(&class).await),
                    Some(Event::Listed) => is_listed = true,
                    Some(_) => {}
                    None => return settled,
                },
            }
        }
        settled
    }

    async fn settle(&self, class: &EC2NodeClass) -> Result<(), ProviderError> {
        let name = class.name_any();
        let doing = || format!("writing the status of EC2NodeClass {name}");
        let settled = self.region.status(class, &self.facts, self.clock.now());
        let (Ok(before), Ok(after)) = (serde_json::to_value(&class.status), serde_json::to_value(settled)) else {
            return Err(ProviderError::invalid(doing(), "it is no JSON"));
        };
        let Some(change) = merge_patch(&before, &after) else { return Ok(()) };
        let patch = json!({"metadata": {"resourceVersion": class.metadata.resource_version}, "status": change});
        let classes: Api<EC2NodeClass> = Api::all(self.client.clone());
        match classes.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
            // Somebody else was faster; the change comes back as an event.
            Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => Ok(()),
            Err(error) => Err(ProviderError::of_kube(doing(), error)),
            Ok(_) => Ok(()),
        }
    }
}
