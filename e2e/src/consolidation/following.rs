//! A list, and all that happens from then on: watches that go on where the last one ended, so that no change is missed.

use std::fmt::Debug;

use anyhow::{Context, Result, ensure};
use futures::stream::{self, LocalBoxStream, Stream, StreamExt};
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

/// The API server ends a watch after so long; before that we begin the next.
const WATCH_SECONDS: u32 = 280;

/// What is there, and all that happens from then on.
pub(super) async fn follow<K>(
    client: &Client,
    of: ListParams,
) -> Result<(Vec<K>, impl Stream<Item = Result<WatchEvent<K>>> + use<K>)>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + 'static,
{
    let api: Api<K> = Api::all(client.clone());
    let list = api.list(&of).await.with_context(|| format!("listing {}", K::plural(&())))?;
    let version = list.metadata.resource_version.clone().context("a list without a version")?;
    let mut params = WatchParams::default().timeout(WATCH_SECONDS);
    params.label_selector = of.label_selector;
    let state = Following { api, params, version, events: None };
    let events = stream::try_unfold(state, async |mut state| Ok(Some((state.next().await?, state))));
    Ok((list.items, events))
}

struct Following<K> {
    api: Api<K>,
    params: WatchParams,
    version: String,
    events: Option<LocalBoxStream<'static, kube::Result<WatchEvent<K>>>>,
}

impl<K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + 'static> Following<K> {
    async fn next(&mut self) -> Result<WatchEvent<K>> {
        let mut tries = 0;
        loop {
            let Some(events) = &mut self.events else {
                let events = self.api.watch(&self.params, &self.version).await;
                self.events = Some(Box::pin(events.context("watching")?));
                continue;
            };
            match events.next().await {
                Some(Ok(event)) => {
                    self.note(&event);
                    return Ok(event);
                }
                Some(Err(error)) => {
                    tries += 1;
                    ensure!(tries < 5, "a watch fails again and again: {error}");
                    self.events = None;
                }
                None => self.events = None,
            }
        }
    }

    /// The next watch begins where this one is.
    fn note(&mut self, event: &WatchEvent<K>) {
        let version = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                object.resource_version()
            }
            WatchEvent::Bookmark(bookmark) => Some(bookmark.metadata.resource_version.clone()),
            WatchEvent::Error(_) => None,
        };
        self.version = version.unwrap_or_else(|| std::mem::take(&mut self.version));
    }
}
