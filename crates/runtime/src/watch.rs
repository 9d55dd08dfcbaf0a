//! All objects of one kind, and then every change to them, for ever.
//!
//! The list is read in pages and each object is handed to a closure as the bytes that came over the wire, when its turn comes
//! and no sooner: the caller keeps what it needs, nobody holds the whole list, and what is kept for long does not lie in memory
//! between the ruins of a page. One object that cannot be read is reported and stops nothing.
//!
//! ```text
//!              ┌────────────── 410: too old, begin again ─────────────┐
//!              ▼                                                      │
//!   start ──▶ list, page by page ──▶ open a watch ──▶ changes ── ends ┘ or opens again where it was
//!     ▲        │
//!     └ a while┴ 404: the API is not served
//! ```

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt::Display;
use std::ops::Range;
use std::pin::Pin;
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt};
use futures::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};
use http::Request;
use kube::api::{DynamicObject, ListParams, WatchParams};
use kube::core::{ApiResource, Resource, Status};
use kube::{Client, Error};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::backoff::{Backoff, Retry};
use crate::error::with_causes;
use crate::rng::Rng;

/// The longest that one watch lasts before it is opened again. The server is asked to end it; that it has ended is also
/// how a connection is noticed that died without a word.
pub const LIFETIME_MAX: Duration = Duration::from_secs(290);
/// A watch that ends sooner than this has failed.
const LIFETIME_MIN: Duration = Duration::from_secs(1);
/// Watches end spread over this time, or all of them would be opened again at once.
const LIFETIME_SPREAD: Duration = Duration::from_secs(60);
/// How long the rest of a page may take once its first byte is there.
const PAGE_TIMEOUT: Duration = Duration::from_secs(60);
/// How much longer than the server we wait before we end a watch ourselves.
const LIFETIME_GRACE: Duration = Duration::from_secs(3);

/// Which objects.
#[derive(Clone, Debug)]
pub struct Target {
    pub resource: ApiResource,
    /// Nothing given means all of them, or that the kind has no namespaces.
    pub namespace: Option<String>,
    pub label_selector: Option<String>,
    pub field_selector: Option<String>,
}

impl Target {
    pub fn all(resource: ApiResource) -> Self {
        Self { resource, namespace: None, label_selector: None, field_selector: None }
    }

    /// All objects of a kind that is known at compile time.
    pub fn of<R: Resource<DynamicType = ()>>() -> Self {
        Self::all(ApiResource::erase::<R>(&()))
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Objects per page of a list.
    pub page_size: u32,
    /// How often to look whether an API that is not served has appeared.
    pub absence_check: Duration,
    pub backoff: Backoff,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            page_size: 500,
            absence_check: Duration::from_secs(60),
            backoff: Backoff::new(Duration::from_millis(500), Duration::from_secs(30)).with_jitter(0.5),
        }
    }
}

/// What is enough to find an object again.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    /// Empty for kinds without namespaces.
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// Of the state that was seen.
    pub version: String,
}

/// One object as it came over the wire.
#[derive(Clone, Copy)]
pub struct Seen<'s> {
    head: &'s ObjectHead<'s>,
    object: &'s RawValue,
}

impl<'s> Seen<'s> {
    /// Empty for kinds without namespaces.
    pub fn namespace(&self) -> &'s str {
        &self.head.namespace
    }

    pub fn name(&self) -> &'s str {
        &self.head.name
    }

    pub fn version(&self) -> &'s str {
        &self.head.resource_version
    }

    /// All of it. In lists of built-in kinds it lacks `apiVersion` and `kind`, as the API server sends it.
    pub fn json(&self) -> Cow<'s, str> {
        self.head.without_managed_fields(self.object)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<T> {
    /// The list begins, for the first time or again. What does not come before `Listed` does not exist any more.
    Restarted,
    Applied(T),
    Deleted(ObjectId),
    /// The object exists but its closure could not read it.
    Undecodable {
        id: ObjectId,
        error: String,
    },
    /// The list is complete; what follows are changes.
    Listed,
    /// The cluster does not serve this kind, so none of its objects exist. Said once; `Restarted` follows if it appears.
    Absent,
}

/// Watches for ever. Failures are logged here and tried again after a back-off, so the stream has no end and no errors.
///
/// `decode` gets one object at a time, in the order of events and never twice for one.
pub fn watch<T, E>(
    client: Client,
    target: Target,
    settings: Settings,
    rng: Rng,
    decode: impl FnMut(Seen<'_>) -> Result<T, E> + Send + 'static,
) -> BoxStream<'static, Event<T>>
where
    T: Send + 'static,
    E: Display,
{
    let url = DynamicObject::url_path(&target.resource, target.namespace.as_deref());
    let watch = Watch {
        client,
        request: kube::core::Request::new(url),
        target,
        settings,
        retry: Retry::new(settings.backoff, rng.clone()),
        rng,
        decode,
        state: State::Start { page_size: Some(settings.page_size) },
        is_absent: false,
        ready: VecDeque::new(),
        page: Vec::new(),
    };
    stream::unfold(watch, |mut watch| async move { Some((watch.next().await, watch)) }).boxed()
}

struct Watch<T, D> {
    client: Client,
    request: kube::core::Request,
    target: Target,
    settings: Settings,
    retry: Retry,
    rng: Rng,
    decode: D,
    state: State,
    /// The absence was said already.
    is_absent: bool,
    /// Events that are due.
    ready: VecDeque<Due<T>>,
    /// The page that is being handed out. Its room is used again for the next one.
    page: Vec<u8>,
}

enum Due<T> {
    Event(Event<T>),
    /// An object of the page, not decoded yet.
    Item(Range<usize>),
}

enum State {
    /// Nothing is known. Without a page size the list comes in one piece.
    Start {
        page_size: Option<u32>,
    },
    Paging {
        page_size: Option<u32>,
        token: String,
    },
    /// Everything up to this version was handed out.
    At {
        version: String,
    },
    Watching {
        version: String,
        lines: Lines,
    },
    /// The API was not there when we last looked.
    Absent,
}

struct Lines {
    source: Pin<Box<dyn AsyncBufRead + Send>>,
    line: Vec<u8>,
    /// Unset once it has brought a change.
    opened_at: Option<Instant>,
    ends_at: Instant,
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(default)]
    metadata: PageHead,
    /// An empty list may be null.
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PageHead {
    resource_version: String,
    #[serde(rename = "continue")]
    continue_token: String,
}

#[derive(Deserialize)]
struct Change<'a> {
    #[serde(rename = "type")]
    kind: ChangeKind,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum ChangeKind {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Head<'a> {
    #[serde(borrow)]
    metadata: ObjectHead<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectHead<'a> {
    namespace: String,
    name: String,
    uid: String,
    resource_version: String,
    #[serde(borrow)]
    managed_fields: Option<&'a RawValue>,
}

/// Why a step did not work, and what to do next.
enum Setback {
    /// Try the same again after a while.
    Again(State, String),
    /// The version or the page token is too old.
    Expired(String),
    Absent,
}

impl<T, E, D> Watch<T, D>
where
    D: FnMut(Seen<'_>) -> Result<T, E>,
    E: Display,
{
    async fn next(&mut self) -> Event<T> {
        loop {
            match self.ready.pop_front() {
                Some(Due::Event(event)) => return event,
                Some(Due::Item(place)) => return self.decode_item(place),
                None => {}
            }
            let state = std::mem::replace(&mut self.state, State::Start { page_size: Some(self.settings.page_size) });
            let step = match state {
                State::Start { page_size } => self.read_page(page_size, None).await,
                State::Paging { page_size, token } => self.read_page(page_size, Some(token)).await,
                State::At { version } => self.open(version).await,
                State::Watching { version, lines } => self.read_line(version, lines).await,
                State::Absent => {
                    tokio::time::sleep(self.settings.absence_check).await;
                    continue;
                }
            };
            match step {
                Ok(state) => self.state = state,
                Err(setback) => self.recover(setback).await,
            }
        }
    }

    async fn recover(&mut self, setback: Setback) {
        match setback {
            Setback::Again(state, reason) => {
                self.state = state;
                let delay = self.retry.failed();
                let kind = &self.target.resource.kind;
                // Said once for every row of failures: whoever looks at the log knows from then on.
                if self.retry.failures() == 1 {
                    tracing::warn!(kind, error = reason, "the watch is interrupted, trying again");
                } else {
                    tracing::debug!(kind, error = reason, failures = self.retry.failures(), "still interrupted");
                }
                tokio::time::sleep(delay).await;
            }
            Setback::Expired(reason) => {
                tracing::debug!(kind = self.target.resource.kind, reason, "listing again");
                tokio::time::sleep(self.retry.failed()).await;
            }
            Setback::Absent => {
                self.state = State::Absent;
                if !self.is_absent {
                    self.is_absent = true;
                    self.ready.push_back(Due::Event(Event::Absent));
                }
            }
        }
    }

    async fn read_page(&mut self, page_size: Option<u32>, token: Option<String>) -> Result<State, Setback> {
        let is_first = token.is_none();
        let params = ListParams {
            label_selector: self.target.label_selector.clone(),
            field_selector: self.target.field_selector.clone(),
            limit: page_size,
            continue_token: token.clone(),
            ..ListParams::default()
        };
        let again = |reason| {
            let state = match token.clone() {
                None => State::Start { page_size },
                Some(token) => State::Paging { page_size, token },
            };
            Setback::Again(state, reason)
        };
        let request = self.request.list(&params).map_err(|error| again(with_causes(&error)))?;
        let mut answer = match self.client.request_stream(request).await {
            Ok(answer) => Box::pin(answer),
            Err(Error::Api(status)) if status.code == 404 => return Err(Setback::Absent),
            Err(Error::Api(status)) if status.code == 410 => {
                // The pages took too long. Asking for all at once cannot expire.
                self.state = State::Start { page_size: None };
                return Err(Setback::Expired(status.message));
            }
            Err(error) => return Err(again(with_causes(&error))),
        };
        let text = &mut self.page;
        text.clear();
        let read = tokio::time::timeout(PAGE_TIMEOUT, answer.read_to_end(text)).await;
        read.unwrap_or_else(|late| Err(late.into())).map_err(|error| again(with_causes(&error)))?;
        let page: Page<'_> = serde_json::from_slice(text).map_err(|error| again(error.to_string()))?;
        self.retry.succeeded();
        self.is_absent = false;
        if is_first {
            self.ready.push_back(Due::Event(Event::Restarted));
        }
        let items = page.items.unwrap_or_default();
        self.ready.extend(items.into_iter().map(|item| Due::Item(place_in(text, item.get()))));
        if !page.metadata.continue_token.is_empty() {
            return Ok(State::Paging { page_size, token: page.metadata.continue_token });
        }
        self.ready.push_back(Due::Event(Event::Listed));
        Ok(State::At { version: page.metadata.resource_version })
    }

    fn decode_item(&mut self, place: Range<usize>) -> Event<T> {
        let item = self.page.get(place).unwrap_or_default();
        let event = match serde_json::from_slice::<&RawValue>(item) {
            Ok(item) => applied(&mut self.decode, item, ObjectHead::of(item)),
            Err(error) => Event::Undecodable { id: ObjectId::default(), error: error.to_string() },
        };
        if !self.ready.iter().any(|due| matches!(due, Due::Item(_))) && !matches!(self.state, State::Paging { .. }) {
            // It was the last one of the list. There may be no other list for days.
            self.page = Vec::new();
            self.ready.shrink_to_fit();
        }
        event
    }

    async fn open(&mut self, version: String) -> Result<State, Setback> {
        let spread = LIFETIME_SPREAD.mul_f64(self.rng.unit());
        let lifetime = Duration::from_secs(LIFETIME_MAX.saturating_sub(spread).as_secs());
        let params = WatchParams {
            label_selector: self.target.label_selector.clone(),
            field_selector: self.target.field_selector.clone(),
            timeout: u32::try_from(lifetime.as_secs()).ok(),
            bookmarks: true,
            send_initial_events: false,
        };
        let again = |reason| Setback::Again(State::At { version: version.clone() }, reason);
        let request: Request<Vec<u8>> =
            self.request.watch(&params, &version).map_err(|error| again(with_causes(&error)))?;
        let opened_at = Instant::now();
        match self.client.request_stream(request).await {
            Ok(source) => {
                let ends_at = opened_at + lifetime + LIFETIME_GRACE;
                let lines = Lines { source: Box::pin(source), line: Vec::new(), opened_at: Some(opened_at), ends_at };
                Ok(State::Watching { version, lines })
            }
            Err(Error::Api(status)) if status.code == 410 => Err(Setback::Expired(status.message)),
            Err(Error::Api(status)) if status.code == 404 => Err(Setback::Absent),
            Err(error) => Err(again(with_causes(&error))),
        }
    }

    async fn read_line(&mut self, version: String, mut lines: Lines) -> Result<State, Setback> {
        lines.line.clear();
        let read = lines.source.read_until(b'\n', &mut lines.line);
        match tokio::time::timeout_at(lines.ends_at, read).await {
            Ok(Ok(_)) if lines.line.ends_with(b"\n") => self.read_change(version, lines),
            // Its time is over, or the connection ended, perhaps within a line, which then comes again. That is how
            // watches end, and no reason to worry anybody unless they never live.
            ended => {
                let reason = match ended {
                    Ok(Err(error)) => with_causes(&error),
                    _ => "the connection was closed".to_owned(),
                };
                // A busy server closes watches that it cannot serve fast enough, and the changes go on all the same.
                if lines.opened_at.is_some_and(|opened_at| opened_at.elapsed() < LIFETIME_MIN) {
                    return Err(Setback::Again(State::At { version }, reason));
                }
                tracing::debug!(kind = self.target.resource.kind, reason, "opening the watch again");
                Ok(State::At { version })
            }
        }
    }

    fn read_change(&mut self, version: String, mut lines: Lines) -> Result<State, Setback> {
        let change: Change<'_> = match serde_json::from_slice(&lines.line) {
            Ok(change) => change,
            // Reading on would lose a change, and opening again would bring the same line. A list brings the object itself.
            Err(error) => return Err(Setback::Expired(format!("a change cannot be read: {error}"))),
        };
        if matches!(change.kind, ChangeKind::Error) {
            let status: Status = serde_json::from_str(change.object.get()).unwrap_or_default();
            return Err(match status.code {
                410 => Setback::Expired(status.message),
                _ => Setback::Again(State::At { version }, status.message),
            });
        }
        let head = ObjectHead::of(change.object);
        self.retry.succeeded();
        let version = if head.resource_version.is_empty() { version } else { head.resource_version.clone() };
        let is_change = !matches!(change.kind, ChangeKind::Bookmark);
        match change.kind {
            ChangeKind::Added | ChangeKind::Modified => {
                let event = applied(&mut self.decode, change.object, head);
                self.ready.push_back(Due::Event(event));
            }
            ChangeKind::Deleted => self.ready.push_back(Due::Event(Event::Deleted(head.into()))),
            ChangeKind::Bookmark | ChangeKind::Error => {}
        }
        lines.opened_at = lines.opened_at.filter(|_| !is_change);
        Ok(State::Watching { version, lines })
    }
}

fn applied<T, E: Display>(
    decode: &mut impl FnMut(Seen<'_>) -> Result<T, E>,
    object: &RawValue,
    head: ObjectHead<'_>,
) -> Event<T> {
    match decode(Seen { head: &head, object }) {
        Ok(decoded) => Event::Applied(decoded),
        Err(error) => Event::Undecodable { id: head.into(), error: error.to_string() },
    }
}

/// Where a part of a text stands in it.
fn place_in(text: &[u8], part: &str) -> Range<usize> {
    let start = (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    start..start + part.len()
}

impl<'a> ObjectHead<'a> {
    fn of(object: &'a RawValue) -> Self {
        serde_json::from_str::<Head<'_>>(object.get()).unwrap_or_default().metadata
    }

    /// The object without the notes on who wrote which field. They are often half of it, cost more to decode than all the
    /// rest, and nobody here reads them.
    fn without_managed_fields(&self, object: &'a RawValue) -> Cow<'a, str> {
        let text = object.get();
        let around = self.managed_fields.and_then(|fields| {
            let start = (fields.get().as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
            text.get(..start).zip(text.get(start + fields.get().len()..))
        });
        around.map_or(Cow::Borrowed(text), |(before, after)| Cow::Owned([before, "[]", after].concat()))
    }
}

impl From<ObjectHead<'_>> for ObjectId {
    fn from(head: ObjectHead<'_>) -> Self {
        Self { namespace: head.namespace, name: head.name, uid: head.uid, version: head.resource_version }
    }
}

#[cfg(test)]
mod tests;
