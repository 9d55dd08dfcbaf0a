//! An API server in memory, with as much of the real one as the simulated cloud meets. No sockets, so it works under a paused
//! clock.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::StreamExt;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::Client;
use kube::client::Body;
use serde_json::{Map, Value, json};

/// Lists come in pages of this size, so that every list has more than one.
const PAGE: usize = 2;

/// Where objects of a kind live.
const COLLECTIONS: [(&str, &str, &str); 5] = [
    ("/api/v1/nodes", "v1", "Node"),
    ("/api/v1/namespaces/machines/configmaps", "v1", "ConfigMap"),
    ("/apis/karpenter.sh/v1/nodeclaims", "karpenter.sh/v1", "NodeClaim"),
    ("/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses", "karpenter.kwok.sh/v1alpha1", "KWOKNodeClass"),
    ("/apis/karpenter.k8s.aws/v1/ec2nodeclasses", "karpenter.k8s.aws/v1", "EC2NodeClass"),
];

/// What happens to one request.
#[derive(Clone, Copy)]
pub(crate) enum Trouble {
    Refuses(u16),
    /// The request is carried out, and its answer is an error.
    LosesReply,
}

#[derive(Clone, Default)]
pub(crate) struct ApiServer(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// By collection and name.
    objects: BTreeMap<(&'static str, String), Value>,
    version: u64,
    watches: Vec<(&'static str, UnboundedSender<Value>)>,
    /// Watches whose connection is dead: nothing comes, not even an end.
    silent: Vec<UnboundedSender<Value>>,
    asked: Vec<String>,
    trouble: Vec<(String, Trouble)>,
}

impl ApiServer {
    pub(crate) fn client(&self) -> Client {
        let server = self.clone();
        Client::new(tower::service_fn(move |request| server.clone().serve(request)), "default")
    }

    /// Stores an object as it is.
    pub(crate) fn put(&self, object: Value) {
        let kind = object["kind"].as_str().unwrap();
        let (collection, ..) = COLLECTIONS.into_iter().find(|(_, _, found)| *found == kind).unwrap();
        self.0.lock().unwrap().store(collection, object);
    }

    pub(crate) fn get(&self, kind: &str, name: &str) -> Option<Value> {
        let (collection, ..) = COLLECTIONS.into_iter().find(|(_, _, found)| *found == kind).unwrap();
        self.0.lock().unwrap().objects.get(&(collection, name.to_owned())).cloned()
    }

    /// The objects of a kind, by name.
    pub(crate) fn all(&self, kind: &str) -> Vec<Value> {
        let (collection, ..) = COLLECTIONS.into_iter().find(|(_, _, found)| *found == kind).unwrap();
        let state = self.0.lock().unwrap();
        state.objects.iter().filter(|((at, _), _)| *at == collection).map(|(_, object)| object.clone()).collect()
    }

    /// How many requests began like this, such as `POST /api/v1/nodes`.
    pub(crate) fn count(&self, start: &str) -> usize {
        self.0.lock().unwrap().asked.iter().filter(|asked| asked.starts_with(start)).count()
    }

    /// Something happens to the next request that begins like this.
    pub(crate) fn trouble(&self, start: &str, trouble: Trouble) {
        self.0.lock().unwrap().trouble.push((start.to_owned(), trouble));
    }

    /// Whoever watches objects of the kind now hears nothing any more, and is not told so.
    pub(crate) fn fall_silent(&self, kind: &str) {
        let (collection, ..) = COLLECTIONS.into_iter().find(|(_, _, found)| *found == kind).unwrap();
        let mut state = self.0.lock().unwrap();
        let (silent, heard) = std::mem::take(&mut state.watches).into_iter().partition(|(at, _)| *at == collection);
        state.watches = heard;
        let silent: Vec<(&str, UnboundedSender<Value>)> = silent;
        state.silent.extend(silent.into_iter().map(|(_, sender)| sender));
    }

    async fn serve(self, request: Request<Body>) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, kube::Error> {
        let (head, body) = request.into_parts();
        let body: Value = serde_json::from_slice(&body.collect_bytes().await?).unwrap_or_default();
        let path = head.uri.path().to_owned();
        let query = query(head.uri.query().unwrap_or_default());
        let mut state = self.0.lock().unwrap();
        state.asked.push(format!("{} {path}", head.method));
        let place = state.trouble.iter().position(|(start, _)| format!("{} {path}", head.method).starts_with(start));
        let trouble = place.map(|place| state.trouble.remove(place).1);
        if let Some(Trouble::Refuses(code)) = trouble {
            return Ok(answer(code, &status(code, "refused")));
        }
        let collection = COLLECTIONS.into_iter().find(|(prefix, ..)| path.starts_with(prefix));
        let Some((collection, api_version, kind)) = collection else {
            return Ok(answer(404, &status(404, "NotFound")));
        };
        let rest = path[collection.len()..].trim_start_matches('/');
        let (name, subresource) = rest.split_once('/').unwrap_or((rest, ""));
        if query.get("watch").is_some_and(|watch| watch == "true" || watch == "1") {
            let (sender, lines) = unbounded();
            let version = query.get("resourceVersion").and_then(|version| version.parse().ok()).unwrap_or(0);
            for object in state.changed_since(collection, version) {
                sender.unbounded_send(json!({"type": "MODIFIED", "object": object})).unwrap();
            }
            state.watches.push((collection, sender));
            let frames = lines.map(|line: Value| Ok(frame(format!("{line}\n"))));
            return Ok(Response::new(StreamBody::new(frames).boxed_unsync()));
        }
        let (code, value) = match head.method {
            Method::GET if name.is_empty() => (200, state.list(collection, api_version, kind, &query)),
            Method::GET => state.read(collection, name),
            Method::POST => state.create(collection, api_version, kind, body),
            Method::PATCH => state.patch(collection, name, subresource, &body),
            Method::DELETE => state.delete(collection, name),
            _ => (405, status(405, "MethodNotAllowed")),
        };
        match trouble {
            Some(Trouble::LosesReply) => Ok(answer(500, &status(500, "InternalError"))),
            _ => Ok(answer(code, &value)),
        }
    }
}

impl State {
    fn store(&mut self, collection: &'static str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let change =
            if self.objects.insert((collection, name), object.clone()).is_some() { "MODIFIED" } else { "ADDED" };
        self.watches.retain(|(watched, sender)| {
            *watched != collection || sender.unbounded_send(json!({"type": change, "object": object})).is_ok()
        });
        object
    }

    /// What a watch that begins at a version has missed.
    fn changed_since(&self, collection: &str, version: u64) -> Vec<&Value> {
        let version_of = |object: &Value| object["metadata"]["resourceVersion"].as_str()?.parse::<u64>().ok();
        let all = self.objects.iter().filter(|((at, _), _)| *at == collection).map(|(_, object)| object);
        all.filter(|object| version_of(object) > Some(version)).collect()
    }

    fn list(&self, collection: &str, api_version: &str, kind: &str, query: &BTreeMap<String, String>) -> Value {
        let selector = query.get("labelSelector").and_then(|selector| selector.split_once('='));
        let selected = |object: &Value| selector.is_none_or(|(key, value)| object["metadata"]["labels"][key] == *value);
        let after = query.get("continue").map(String::as_str).unwrap_or_default();
        let mut items = self.objects.iter().filter(|((at, name), _)| *at == collection && name.as_str() > after);
        let page: Vec<(&String, &Value)> = items
            .by_ref()
            .filter(|(_, object)| selected(object))
            .map(|((_, name), object)| (name, object))
            .take(PAGE)
            .collect();
        let next = if items.next().is_some() { page.last().map(|(name, _)| name.as_str()) } else { None };
        json!({
            "apiVersion": api_version,
            "kind": format!("{kind}List"),
            "metadata": {"resourceVersion": self.version.to_string(), "continue": next.unwrap_or_default()},
            "items": page.iter().map(|(_, object)| object).collect::<Vec<_>>(),
        })
    }

    fn read(&self, collection: &'static str, name: &str) -> (u16, Value) {
        let found = self.objects.get(&(collection, name.to_owned()));
        found.map_or((404, status(404, "NotFound")), |object| (200, object.clone()))
    }

    fn create(&mut self, collection: &'static str, api_version: &str, kind: &str, mut object: Value) -> (u16, Value) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if self.objects.contains_key(&(collection, name.clone())) {
            return (409, status(409, "AlreadyExists"));
        }
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        object["metadata"]["uid"] = format!("uid-{name}").into();
        object["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
        (201, self.store(collection, object))
    }

    fn patch(&mut self, collection: &'static str, name: &str, subresource: &str, patch: &Value) -> (u16, Value) {
        let Some(mut object) = self.objects.get(&(collection, name.to_owned())).cloned() else {
            return (404, status(404, "NotFound"));
        };
        let wanted = &patch["metadata"]["resourceVersion"];
        if !wanted.is_null() && *wanted != object["metadata"]["resourceVersion"] {
            return (409, status(409, "Conflict"));
        }
        match subresource {
            "status" => merge(&mut object["status"], &patch["status"]),
            _ => merge(&mut object, patch),
        }
        (200, self.store(collection, object))
    }

    fn delete(&mut self, collection: &'static str, name: &str) -> (u16, Value) {
        let Some(mut object) = self.objects.get(&(collection, name.to_owned())).cloned() else {
            return (404, status(404, "NotFound"));
        };
        if object["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty) {
            self.objects.remove(&(collection, name.to_owned()));
            return (200, object);
        }
        object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        (200, self.store(collection, object))
    }
}

fn frame(text: String) -> http_body::Frame<Bytes> {
    http_body::Frame::data(Bytes::from(text))
}

fn answer(code: u16, value: &Value) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
    Response::builder().status(code).body(Full::new(Bytes::from(value.to_string())).boxed_unsync()).unwrap()
}

fn status(code: u16, reason: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason})
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    for (name, change) in changes {
        match change {
            Value::Null => drop(target.as_object_mut().and_then(|members| members.remove(name))),
            change => merge(&mut target[name], change),
        }
    }
}

/// The parts of a query, with the few escapes that our clients write.
fn query(text: &str) -> BTreeMap<String, String> {
    let plain = |text: &str| text.replace("%2F", "/").replace("%3D", "=").replace("%2C", ",");
    text.split('&').filter_map(|part| part.split_once('=')).map(|(key, value)| (plain(key), plain(value))).collect()
}
