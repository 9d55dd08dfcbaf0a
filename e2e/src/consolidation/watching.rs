//! A cluster seen through watches, and waits for what happens in it: lists of so many pods would slow the API server down.

use std::time::Instant;

use anyhow::{Result, bail};
use api::NodeClaim;
use futures::stream::{self, LocalBoxStream, StreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{ListParams, WatchEvent};

use super::Patience;
use super::following::follow;
use super::objects::SELECTOR;
use super::seen::{Change, Seen};

/// A cluster, as the watches tell it.
pub(super) struct Watched {
    changes: LocalBoxStream<'static, Result<Change>>,
    seen: Seen,
}

/// How a wait for rest ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ending {
    pub(super) is_at_rest: bool,
    /// When the last thing happened, or when patience ended.
    pub(super) at: Instant,
}

impl Watched {
    pub(super) async fn new(client: &Client) -> Result<Self> {
        let of_pods = ListParams::default().labels(SELECTOR);
        let (claims, claim_changes) = follow::<NodeClaim>(client, ListParams::default()).await?;
        let (nodes, node_changes) = follow::<Node>(client, ListParams::default()).await?;
        let (pods, pod_changes) = follow::<Pod>(client, of_pods).await?;
        let changes = stream::select_all([
            claim_changes.map(|event| event.map(Change::Claim)).boxed_local(),
            node_changes.map(|event| event.map(Change::Node)).boxed_local(),
            pod_changes.map(|event| event.map(Change::Pod)).boxed_local(),
        ]);
        let claims = claims.into_iter().map(|claim| Change::Claim(WatchEvent::Added(claim)));
        let nodes = nodes.into_iter().map(|node| Change::Node(WatchEvent::Added(node)));
        let pods = pods.into_iter().map(|pod| Change::Pod(WatchEvent::Added(pod)));
        let now = Instant::now();
        let mut seen = Seen::new(now);
        claims.chain(nodes).chain(pods).try_for_each(|change| seen.see(change, now))?;
        Ok(Self { changes: Box::pin(changes), seen })
    }

    pub(super) fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Counts from here on.
    pub(super) fn begin(&mut self) -> Instant {
        let now = Instant::now();
        self.seen.begin(now);
        now
    }

    /// Waits until so many pods run, none waits or leaves, no node or claim is about to go, and nothing has come or gone for a
    /// while. The time of rest is that of the last thing that came, went or was bound, not that of our being sure of it.
    pub(super) async fn rest(&mut self, pods: usize, since: Instant, patience: &Patience) -> Result<Ending> {
        let limit = since + patience.limit;
        loop {
            let last = self.seen.last();
            // A wait is over when it has been quiet; a place that is not settled yet waits for its next change.
            let sure = last + patience.quiet;
            let is_settled = self.seen.is_settled(pods);
            let now = Instant::now();
            if is_settled && now >= sure {
                return Ok(Ending { is_at_rest: true, at: last });
            }
            if last >= limit || (now >= limit && !is_settled) || now >= limit + patience.quiet {
                return Ok(Ending { is_at_rest: false, at: limit });
            }
            self.next(if is_settled { sure } else { limit }).await?;
        }
    }

    /// Hears of everything that happens up to a moment. `look` is shown the cluster after every change, with the time of it.
    pub(super) async fn until(&mut self, moment: Instant, mut look: impl FnMut(Instant, &Seen)) -> Result<()> {
        while let Some(now) = self.next(moment).await? {
            look(now, &self.seen);
        }
        Ok(())
    }

    /// Waits for the next change until a moment, and says when it was seen.
    async fn next(&mut self, until: Instant) -> Result<Option<Instant>> {
        let Ok(next) = tokio::time::timeout_at(until.into(), self.changes.next()).await else { return Ok(None) };
        let Some(change) = next else { bail!("the watches have ended") };
        let now = Instant::now();
        self.seen.see(change?, now)?;
        Ok(Some(now))
    }
}
