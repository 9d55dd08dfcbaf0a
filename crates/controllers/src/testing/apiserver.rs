//! An API server in memory, with as much of the real one as controllers meet: lists in pages, watches, conflicts, the status
//! subresource, generated names, finalizers, evictions. No sockets, so it works under a paused clock.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use futures::StreamExt;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::Client;
use kube::client::Body;
use runtime::Clock;
use serde_json::{Map, Value, json};

/// Lists come in pages of this size, so that every list of more has several.
const PAGE: usize = 7;

/// Every kind that is served: kind, API version, plural, whether it has namespaces.
const KINDS: [(&str, &str, &str, bool); 27] = [
    ("Pod", "v1", "pods", true),
    ("Node", "v1", "nodes", false),
    ("Event", "v1", "events", true),
    ("ConfigMap", "v1", "configmaps", true),
    ("Namespace", "v1", "namespaces", false),
    ("Service", "v1", "services", true),
    ("ReplicationController", "v1", "replicationcontrollers", true),
    ("PersistentVolume", "v1", "persistentvolumes", false),
    ("PersistentVolumeClaim", "v1", "persistentvolumeclaims", true),
    ("PodTemplate", "v1", "podtemplates", true),
    ("Deployment", "apps/v1", "deployments", true),
    ("DaemonSet", "apps/v1", "daemonsets", true),
    ("ReplicaSet", "apps/v1", "replicasets", true),
    ("StatefulSet", "apps/v1", "statefulsets", true),
    ("PodDisruptionBudget", "policy/v1", "poddisruptionbudgets", true),
    ("StorageClass", "storage.k8s.io/v1", "storageclasses", false),
    ("CSINode", "storage.k8s.io/v1", "csinodes", false),
    ("VolumeAttachment", "storage.k8s.io/v1", "volumeattachments", false),
    ("Lease", "coordination.k8s.io/v1", "leases", true),
    ("NodeClaim", "karpenter.sh/v1", "nodeclaims", false),
    ("NodePool", "karpenter.sh/v1", "nodepools", false),
    ("NodeOverlay", "karpenter.sh/v1alpha1", "nodeoverlays", false),
    ("KWOKNodeClass", "karpenter.kwok.sh/v1alpha1", "kwoknodeclasses", false),
    ("EC2NodeClass", "karpenter.k8s.aws/v1", "ec2nodeclasses", false),
    ("CapacityBuffer", "autoscaling.x-k8s.io/v1beta1", "capacitybuffers", true),
    ("VerticalPodAutoscaler", "autoscaling.k8s.io/v1", "verticalpodautoscalers", true),
    ("ResourceClaim", "resource.k8s.io/v1", "resourceclaims", true),
];

/// What happens to one request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Trouble {
    /// It is turned down with this code.
    Refuses(u16),
    /// It is carried out, and its answer is an error.
    LosesReply,
    /// What an API server says to the eviction of a pod that has two budgets.
    SeveralBudgets,
}

/// One request, for tests that count or look.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Such as `PATCH /api/v1/nodes/a`.
    pub(crate) line: String,
    pub(crate) body: Value,
}

#[derive(Clone)]
pub(crate) struct ApiServer {
    state: Arc<Mutex<State>>,
    clock: Clock,
}

#[derive(Default)]
struct State {
    /// By kind, namespace and name.
    objects: BTreeMap<(&'static str, String, String), Value>,
    version: u64,
    watches: Vec<(&'static str, UnboundedSender<Value>)>,
    asked: Vec<Asked>,
    trouble: Vec<(String, Trouble)>,
    absent: Vec<&'static str>,
    cut: Option<Cut>,
}

/// The power fails for whoever asks: from some write on, nobody hears an answer.
struct Cut {
    writes_left: usize,
    last_one_counts: bool,
    has_come: bool,
}

/// Where a request goes.
struct Place {
    kind: &'static str,
    api_version: &'static str,
    namespace: String,
    name: String,
    subresource: String,
}

type Reply = (u16, Value);

impl ApiServer {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { state: Arc::default(), clock }
    }

    pub(crate) fn client(&self) -> Client {
        let server = self.clone();
        Client::new(tower::service_fn(move |request| server.clone().serve(request)), "default")
    }

    /// Makes or replaces an object as it is, status and all.
    pub(crate) fn put(&self, mut object: Value) {
        let kind = known(object["kind"].as_str().unwrap()).0;
        let now = self.now();
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = format!("uid-{}", name_of(&object)).into();
        }
        if object["metadata"]["creationTimestamp"].is_null() {
            object["metadata"]["creationTimestamp"] = now.into();
        }
        self.lock().store(kind, object);
    }

    pub(crate) fn get(&self, kind: &str, name: &str) -> Option<Value> {
        self.all(kind).into_iter().find(|object| name_of(object) == name)
    }

    /// The objects of a kind, by namespace and name.
    pub(crate) fn all(&self, kind: &str) -> Vec<Value> {
        let kind = known(kind).0;
        self.lock().objects.iter().filter(|((of, ..), _)| *of == kind).map(|(_, object)| object.clone()).collect()
    }

    /// Takes an object away at once, whatever its finalizers say.
    pub(crate) fn remove(&self, kind: &str, name: &str) {
        let kind = known(kind).0;
        let mut state = self.lock();
        let key = state.objects.keys().find(|(of, _, called)| *of == kind && called == name).cloned();
        key.into_iter().for_each(|key| state.forget(&key));
    }

    /// Every request that began like this, such as `POST /api/v1/nodes`.
    pub(crate) fn asked(&self, start: &str) -> Vec<Asked> {
        self.lock().asked.iter().filter(|asked| asked.line.starts_with(start)).cloned().collect()
    }

    /// Something happens to the next request that begins like this.
    pub(crate) fn trouble(&self, start: &str, trouble: Trouble) {
        self.lock().trouble.push((start.to_owned(), trouble));
    }

    /// After so many more writes nobody hears an answer, until power is restored. The last write may still be carried out.
    pub(crate) fn cut_power_after(&self, writes_left: usize, last_one_counts: bool) {
        self.lock().cut = Some(Cut { writes_left, last_one_counts, has_come: false });
    }

    /// Says whether there was a cut at all.
    pub(crate) fn restore_power(&self) -> bool {
        self.lock().cut.take().is_some_and(|cut| cut.has_come)
    }

    /// The kind is not served from now on.
    pub(crate) fn withdraw(&self, kind: &str) {
        self.lock().absent.push(known(kind).0);
    }

    /// The kind is served again.
    pub(crate) fn serve_again(&self, kind: &str) {
        self.lock().absent.retain(|absent| *absent != kind);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn now(&self) -> String {
        let now = self.clock.now();
        jiff::Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
    }

    async fn serve(self, request: Request<Body>) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, kube::Error> {
        let power = self.lock().power(request.method());
        if power == Power::Gone {
            return std::future::pending().await;
        }
        let answer = self.answer(request).await;
        if power == Power::Going {
            return std::future::pending().await;
        }
        answer
    }

    async fn answer(&self, request: Request<Body>) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, kube::Error> {
        let (head, body) = request.into_parts();
        let body: Value = serde_json::from_slice(&body.collect_bytes().await?).unwrap_or_default();
        let line = format!("{} {}", head.method, head.uri.path());
        let query = query(head.uri.query().unwrap_or_default());
        let now = self.now();
        let mut state = self.lock();
        state.asked.push(Asked { line: line.clone(), body: body.clone() });
        let position = state.trouble.iter().position(|(start, _)| line.starts_with(start));
        let trouble = position.map(|position| state.trouble.remove(position).1);
        if let Some(Trouble::Refuses(code)) = trouble {
            return Ok(answer(failure(code, "refused")));
        }
        if let Some(Trouble::SeveralBudgets) = trouble {
            let text =
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Ok(answer(failure(500, text)));
        }
        if let Some(version) = head.uri.path().strip_prefix("/apis/").filter(|rest| rest.matches('/').count() == 1) {
            return Ok(answer(state.discover(version)));
        }
        let Some(place) = place(head.uri.path()).filter(|place| !state.absent.contains(&place.kind)) else {
            return Ok(answer(failure(404, "NotFound")));
        };
        if query.get("watch").is_some_and(|watch| watch == "true" || watch == "1") {
            let (sender, lines) = unbounded();
            state.watches.push((place.kind, sender));
            let frames = lines.map(|line: Value| Ok(http_body::Frame::data(Bytes::from(format!("{line}\n")))));
            return Ok(Response::new(StreamBody::new(frames).boxed_unsync()));
        }
        let reply = match head.method {
            Method::GET if place.name.is_empty() => (200, state.list(&place, &query)),
            Method::GET => state.read(&place),
            Method::POST if place.subresource == "eviction" => state.delete(&place, self.clock.now(), None),
            Method::POST => state.create(&place, body, &now),
            Method::PATCH => state.patch(&place, &body),
            Method::DELETE => state.delete(&place, self.clock.now(), body["gracePeriodSeconds"].as_i64()),
            _ => failure(405, "MethodNotAllowed"),
        };
        match trouble {
            Some(Trouble::LosesReply) => Ok(answer(failure(500, "InternalError"))),
            _ => Ok(answer(reply)),
        }
    }
}

/// Whether a request is carried out, and whether anybody hears of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Power {
    On,
    Going,
    Gone,
}

impl State {
    fn power(&mut self, method: &Method) -> Power {
        let Some(cut) = &mut self.cut else { return Power::On };
        if cut.has_come {
            return Power::Gone;
        }
        if method == Method::GET {
            return Power::On;
        }
        let Some(left) = cut.writes_left.checked_sub(1) else {
            cut.has_come = true;
            return if cut.last_one_counts { Power::Going } else { Power::Gone };
        };
        cut.writes_left = left;
        Power::On
    }

    fn store(&mut self, kind: &'static str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let key = (kind, namespace_of(&object), name_of(&object));
        let change = if self.objects.insert(key, object.clone()).is_some() { "MODIFIED" } else { "ADDED" };
        self.tell(kind, change, &object);
        object
    }

    fn forget(&mut self, key: &(&'static str, String, String)) {
        self.version += 1;
        if let Some(mut object) = self.objects.remove(key) {
            object["metadata"]["resourceVersion"] = self.version.to_string().into();
            self.tell(key.0, "DELETED", &object);
        }
    }

    fn tell(&mut self, kind: &'static str, change: &str, object: &Value) {
        self.watches.retain(|(watched, sender)| {
            *watched != kind || sender.unbounded_send(json!({"type": change, "object": object})).is_ok()
        });
    }

    fn list(&self, place: &Place, query: &BTreeMap<String, String>) -> Value {
        let selector = query.get("labelSelector").and_then(|selector| selector.split_once('='));
        let is_selected = |object: &Value| {
            selector.is_none_or(|(key, value)| object["metadata"]["labels"][key] == *value)
                && (place.namespace.is_empty() || namespace_of(object) == place.namespace)
        };
        let all = self.objects.iter().filter(|((kind, ..), object)| *kind == place.kind && is_selected(object));
        let skipped = query.get("continue").and_then(|token| token.parse().ok()).unwrap_or(0_usize);
        let mut rest = all.map(|(_, object)| object).skip(skipped);
        let page: Vec<&Value> = rest.by_ref().take(PAGE).collect();
        let next = if rest.next().is_some() { (skipped + PAGE).to_string() } else { String::new() };
        json!({
            "apiVersion": place.api_version,
            "kind": format!("{}List", place.kind),
            "metadata": {"resourceVersion": self.version.to_string(), "continue": next},
            "items": page,
        })
    }

    /// What a version of a group has.
    fn discover(&self, version: &str) -> Reply {
        let kinds = KINDS.iter().filter(|(kind, of, ..)| *of == version && !self.absent.contains(kind));
        let resources: Vec<Value> = kinds
            .map(|(kind, _, plural, is_namespaced)| {
                json!({"name": plural, "singularName": "", "namespaced": is_namespaced, "kind": kind, "verbs": ["get", "list"]})
            })
            .collect();
        if resources.is_empty() {
            return failure(404, "NotFound");
        }
        (200, json!({"kind": "APIResourceList", "groupVersion": version, "resources": resources}))
    }

    fn read(&self, place: &Place) -> Reply {
        self.objects.get(&place.key()).map_or_else(|| failure(404, "NotFound"), |object| (200, object.clone()))
    }

    fn create(&mut self, place: &Place, mut object: Value, now: &str) -> Reply {
        let prefix = object["metadata"]["generateName"].as_str().unwrap_or_default().to_owned();
        if name_of(&object).is_empty() && !prefix.is_empty() {
            object["metadata"]["name"] = format!("{prefix}{:05}", self.version).into();
        }
        if !place.namespace.is_empty() {
            object["metadata"]["namespace"] = place.namespace.as_str().into();
        }
        let name = name_of(&object);
        if self.objects.contains_key(&(place.kind, place.namespace.clone(), name.clone())) {
            return failure(409, "AlreadyExists");
        }
        object["apiVersion"] = place.api_version.into();
        object["kind"] = place.kind.into();
        object["metadata"]["uid"] = format!("uid-{name}-{}", self.version).into();
        object["metadata"]["creationTimestamp"] = now.into();
        object["metadata"]["generation"] = 1.into();
        (201, self.store(place.kind, object))
    }

    fn patch(&mut self, place: &Place, patch: &Value) -> Reply {
        let Some(before) = self.objects.get(&place.key()).cloned() else { return failure(404, "NotFound") };
        let wanted = &patch["metadata"]["resourceVersion"];
        if !wanted.is_null() && *wanted != before["metadata"]["resourceVersion"] {
            return failure(409, "Conflict");
        }
        let mut object = before.clone();
        match place.subresource.as_str() {
            "status" => merge(&mut object["status"], &patch["status"]),
            _ => {
                merge(&mut object, patch);
                object["status"] = before["status"].clone();
            }
        }
        if object["status"].is_null() {
            object.as_object_mut().unwrap().remove("status");
        }
        if object["spec"] != before["spec"] {
            object["metadata"]["generation"] = (before["metadata"]["generation"].as_i64().unwrap_or(0) + 1).into();
        }
        if object == before {
            return (200, before);
        }
        if is_going(&object) && has_no_finalizer(&object) {
            self.forget(&place.key());
            return (200, object);
        }
        (200, self.store(place.kind, object))
    }

    /// A pod without finalizers is gone at once, as if its kubelet knew no delay; the others end when their grace does.
    fn delete(&mut self, place: &Place, now: jiff::Timestamp, grace: Option<i64>) -> Reply {
        let Some(mut object) = self.objects.get(&place.key()).cloned() else { return failure(404, "NotFound") };
        let grace = grace.or_else(|| object["spec"]["terminationGracePeriodSeconds"].as_i64());
        let end = jiff::Timestamp::from_second(now.as_second() + grace.unwrap_or(0)).unwrap_or(now).to_string();
        // All of these are written alike, so that texts compare as times do.
        let ends_sooner = object["metadata"]["deletionTimestamp"].as_str().is_some_and(|before| before <= end.as_str());
        if has_no_finalizer(&object) {
            self.forget(&place.key());
        } else if !ends_sooner {
            object["metadata"]["deletionTimestamp"] = end.into();
            object = self.store(place.kind, object);
        }
        (200, object)
    }
}

impl Place {
    fn key(&self) -> (&'static str, String, String) {
        (self.kind, self.namespace.clone(), self.name.clone())
    }
}

fn known(kind: &str) -> (&'static str, &'static str, &'static str, bool) {
    KINDS.into_iter().find(|(known, ..)| *known == kind).unwrap_or_else(|| panic!("{kind} is not served"))
}

fn place(path: &str) -> Option<Place> {
    let (version, rest) = match path.strip_prefix("/api/v1/") {
        Some(rest) => ("v1".to_owned(), rest),
        None => {
            let mut parts = path.strip_prefix("/apis/")?.splitn(3, '/');
            (format!("{}/{}", parts.next()?, parts.next()?), parts.next()?)
        }
    };
    let mut parts: Vec<&str> = rest.split('/').collect();
    let mut namespace = "";
    if parts[0] == "namespaces" && parts.len() > 2 {
        namespace = parts[1];
        parts.drain(..2);
    }
    let (kind, api_version, ..) = KINDS.into_iter().find(|(_, of, plural, _)| *of == version && *plural == parts[0])?;
    let part = |number: usize| parts.get(number).map(ToString::to_string).unwrap_or_default();
    Some(Place { kind, api_version, namespace: namespace.to_owned(), name: part(1), subresource: part(2) })
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

fn namespace_of(object: &Value) -> String {
    object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned()
}

fn is_going(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

fn has_no_finalizer(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty)
}

fn answer((code, value): Reply) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
    Response::builder().status(code).body(Full::new(Bytes::from(value.to_string())).boxed_unsync()).unwrap()
}

fn failure(code: u16, reason: &str) -> Reply {
    (code, json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason}))
}

/// What an API server does with a merge patch.
pub(super) fn merge(target: &mut Value, patch: &Value) {
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
