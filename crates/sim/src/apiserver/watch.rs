//! Watches: every change from a version on, as lines of JSON.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, timeout_at};

use super::denial::Denial;
use super::http::AnswerBody;
use super::route::{Query, Target};
use super::selector::Selection;
use super::store::{Store, Told, Watcher};
use super::{ApiServer, meta};
use crate::kinds::Kind;

/// How long a watch lasts if it does not say.
const LIFETIME: Duration = Duration::from_secs(1800);

/// One open watch.
struct Feed {
    server: ApiServer,
    kind: Kind,
    ready: VecDeque<Bytes>,
    changes: UnboundedReceiver<Told>,
    /// The version that the watch has been told of.
    told: u64,
    ends_at: Instant,
    /// Before it ends it says how far it has come. A real server says so every minute as well; in an idle month nothing else would
    /// happen as often.
    ends_with_bookmark: bool,
}

/// Where a watch begins.
enum Start {
    /// With everything that is there, and then its changes. Some want to be told when the first part is over.
    Everything {
        says_when_complete: bool,
    },
    After(u64),
}

pub(super) fn open(server: &ApiServer, target: &Target, query: &Query) -> Result<AnswerBody, Denial> {
    let selection = target.selection(query)?;
    let mut store = server.lock();
    let start = read_start(&store, query)?;
    let lifetime =
        query.number("timeoutSeconds").and_then(|seconds| u64::try_from(seconds).ok()).filter(|seconds| *seconds > 0);
    let (sender, changes) = unbounded_channel();
    let mut feed = Feed {
        server: server.clone(),
        kind: target.kind,
        ready: VecDeque::new(),
        changes,
        told: store.version(),
        ends_at: Instant::now() + lifetime.map_or(LIFETIME, Duration::from_secs),
        ends_with_bookmark: query.is_true("allowWatchBookmarks"),
    };
    match catch_up(&store, target.kind, &selection, &start) {
        Ok(lines) => {
            feed.ready = lines;
            store.watch(target.kind, Watcher { selection, sender });
        }
        // The sender is gone with this branch, so the watch ends after its only line.
        Err(denial) => feed.ready.push_back(line("ERROR", &denial.status())),
    }
    drop(store);
    let frames = stream::unfold(feed, |mut feed| async move {
        let line = feed.next().await?;
        Some((Ok::<_, Infallible>(Frame::data(line)), feed))
    });
    Ok(StreamBody::new(frames).boxed_unsync())
}

impl Feed {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(line);
            }
            match timeout_at(self.ends_at, self.changes.recv()).await {
                Ok(Some((kind, event))) => {
                    self.told = event.version;
                    return Some(event.line(kind));
                }
                Ok(None) => return None,
                Err(_) => self.end(),
            }
        }
    }

    fn end(&mut self) {
        let version = self.server.lock().version();
        // A change that waits to be read would come after a bookmark that claims it.
        if self.ends_with_bookmark && version > self.told && self.changes.is_empty() {
            self.told = version;
            self.ready.push_back(bookmark(self.kind, version, false));
        }
        // Closed for senders: what is ready is still handed out, then it ends.
        self.changes.close();
    }
}

fn read_start(store: &Store, query: &Query) -> Result<Start, Denial> {
    let sends_all = query.get("sendInitialEvents").map(|_| query.is_true("sendInitialEvents"));
    let version = query.get("resourceVersion").unwrap_or_default();
    let number: u64 = match version {
        "" => 0,
        text => {
            text.parse().map_err(|_| Denial::bad_request(format!("Invalid value: {text:?}: not a resource version")))?
        }
    };
    match (sends_all, number) {
        (Some(true), _) => Ok(Start::Everything { says_when_complete: true }),
        (Some(false), 0) => Ok(Start::After(store.version())),
        (None, 0) => Ok(Start::Everything { says_when_complete: false }),
        (_, number) => Ok(Start::After(number)),
    }
}

/// What is to be told before the changes that are yet to come.
fn catch_up(store: &Store, kind: Kind, selection: &Selection, start: &Start) -> Result<VecDeque<Bytes>, Denial> {
    match start {
        Start::Everything { says_when_complete } => {
            let mut lines: VecDeque<Bytes> =
                store.select(kind, selection).iter().map(|object| line("ADDED", object)).collect();
            if *says_when_complete {
                lines.push_back(bookmark(kind, store.version(), true));
            }
            Ok(lines)
        }
        Start::After(version) if *version < store.floor(kind) => {
            Err(Denial::expired(format!("too old resource version: {version} ({})", store.floor(kind))))
        }
        Start::After(version) => {
            let events = store.history(kind, *version);
            Ok(events.filter_map(|event| Some(event.line(selection.sees(&event.change)?))).collect())
        }
    }
}

fn bookmark(kind: Kind, version: u64, is_end_of_list: bool) -> Bytes {
    let mut object = json!({
        "apiVersion": kind.api_version(), "kind": kind.as_str(),
        "metadata": {"resourceVersion": version.to_string(), "creationTimestamp": null},
    });
    if is_end_of_list {
        object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    line("BOOKMARK", &object)
}

fn line(kind: &str, object: &Value) -> Bytes {
    Bytes::from(format!("{{\"type\":\"{kind}\",\"object\":{}}}\n", meta::text(object)))
}
