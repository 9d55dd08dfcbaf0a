//! The face that `kube::Client` sees: requests in, answers out, no sockets.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::delete::{DeleteOptions, Deleted, Propagation};
use super::denial::{self, Denial};
use super::pods::Binding;
use super::route::{Query, Route, Target};
use super::store::Store;
use super::write::{Part, Source};
use super::{ApiServer, At, discovery, meta, scale, watch};
use crate::kinds::{Kind, Subresource};

pub(super) type AnswerBody = UnsyncBoxBody<Bytes, Infallible>;

/// A code and a body.
type Reply = Result<(u16, Vec<u8>), Denial>;

const MERGE_PATCH: &str = "application/merge-patch+json";

/// One request, read.
struct Asked {
    method: Method,
    target: Target,
    query: Query,
    body: Vec<u8>,
    content_type: String,
}

impl ApiServer {
    /// A client that talks to it without sockets.
    pub fn client(&self) -> Client {
        let server = self.clone();
        Client::new(tower::service_fn(move |request| server.clone().serve(request)), "default")
    }

    async fn serve(self, request: Request<Body>) -> Result<Response<AnswerBody>, kube::Error> {
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await?.to_vec();
        let query = Query::parse(head.uri.query().unwrap_or_default());
        let target = match Route::parse(head.uri.path()) {
            Ok(Route::Objects(target)) => target,
            Ok(Route::Discovery(place)) => {
                let hooks = self.lock().hooks.clone();
                return Ok(answer(discovery::describe(&place, &hooks.absent)));
            }
            Err(denial) => return Ok(answer(Err(denial))),
        };
        if let Err(denial) = self.lock().check_served(target.kind) {
            return Ok(answer(Err(denial)));
        }
        if head.method == Method::GET && target.name.is_none() && query.is_true("watch") {
            return Ok(match watch::open(&self, &target, &query) {
                Ok(body) => Response::new(body),
                Err(denial) => answer(Err(denial)),
            });
        }
        let asked = Asked { method: head.method, target, query, body, content_type: content_type(&head.headers) };
        Ok(answer(self.lock().answer(&asked)))
    }
}

impl Store {
    fn answer(&mut self, asked: &Asked) -> Reply {
        let target = &asked.target;
        match (&asked.method, target.place(), target.subresource) {
            (&Method::GET, None, None) => Ok((200, self.write_list(target, &asked.query)?)),
            (&Method::POST, None, None) => self.answer_create(asked),
            (&Method::GET, Some(at), None | Some(Subresource::Status)) => {
                Ok((200, bytes(self.find(target.kind, &at)?)))
            }
            (&Method::GET, Some(at), Some(Subresource::Scale)) => {
                Ok((200, bytes(&scale::read(target.kind, self.find(target.kind, &at)?)?)))
            }
            (&Method::PATCH, Some(at), _) => self.answer_patch(asked, &at),
            (&Method::PUT, Some(at), _) => self.answer_put(asked, &at),
            (&Method::DELETE, Some(at), None) => self.answer_delete(asked, &at),
            (&Method::POST, Some(at), Some(Subresource::Binding)) => self.answer_binding(asked, &at),
            (&Method::POST, Some(at), Some(Subresource::Eviction)) => self.answer_eviction(asked, &at),
            _ => Err(not_allowed(&asked.method)),
        }
    }

    fn find(&self, kind: Kind, at: &At) -> Result<&Arc<Value>, Denial> {
        self.get(kind, at).ok_or_else(|| Denial::not_found(kind, &at.name))
    }

    fn answer_create(&mut self, asked: &Asked) -> Reply {
        let kind = asked.target.kind;
        let Some(namespace) = asked.target.namespace.as_deref().or((!kind.is_namespaced()).then_some("")) else {
            return Err(not_allowed(&asked.method));
        };
        let object = read_object(kind, &asked.body)?;
        let made = self.create(kind, namespace, object, asked.source())?;
        Ok((201, bytes(&made)))
    }

    fn answer_patch(&mut self, asked: &Asked, at: &At) -> Reply {
        if asked.content_type != MERGE_PATCH {
            let message =
                format!("the simulator takes patches as {MERGE_PATCH} only, and this is {}", asked.content_type);
            return Err(Denial::with_reason(415, "UnsupportedMediaType", message));
        }
        let patch: Value = read_json(&asked.body)?;
        let kind = asked.target.kind;
        if asked.target.subresource == Some(Subresource::Scale) {
            let mut wanted = scale::for_change(kind, self.find(kind, at)?);
            meta::merge(&mut wanted, &patch);
            return self.answer_scale(asked, at, &wanted);
        }
        let patched = self.patch(kind, at, &patch, asked.part()?, asked.source())?;
        Ok((200, bytes(&patched)))
    }

    fn answer_put(&mut self, asked: &Asked, at: &At) -> Reply {
        let kind = asked.target.kind;
        if asked.target.subresource == Some(Subresource::Scale) {
            let wanted = read_json(&asked.body)?;
            return self.answer_scale(asked, at, &wanted);
        }
        let mut object = read_object(kind, &asked.body)?;
        super::shape::check(kind, &mut object).map_err(|error| super::shape::unreadable(kind, &error))?;
        let updated = self.update(kind, at, object, asked.part()?, asked.source())?;
        Ok((200, bytes(&updated)))
    }

    fn answer_scale(&mut self, asked: &Asked, at: &At, wanted: &Value) -> Reply {
        let kind = asked.target.kind;
        let changed = scale::apply(kind, self.find(kind, at)?, wanted)?;
        let updated = self.update(kind, at, changed, Part::Main, asked.source())?;
        Ok((200, bytes(&scale::read(kind, &updated)?)))
    }

    fn answer_delete(&mut self, asked: &Asked, at: &At) -> Reply {
        let kind = asked.target.kind;
        let body = if asked.body.is_empty() { Value::Null } else { read_json(&asked.body)? };
        let options = delete_options(&body, &asked.query)?;
        match self.delete(kind, at, &options)? {
            Deleted::Marked(object) => Ok((200, bytes(&object))),
            Deleted::Gone(object) if returns_what_it_deletes(kind) => Ok((200, bytes(&object))),
            Deleted::Gone(object) => {
                let mut details = json!({"name": &*at.name, "kind": kind.plural(), "uid": meta::uid(&object)});
                if !kind.group().is_empty() {
                    details["group"] = kind.group().into();
                }
                Ok((200, bytes(&success(&details))))
            }
        }
    }

    fn answer_binding(&mut self, asked: &Asked, at: &At) -> Reply {
        let body = read_json(&asked.body)?;
        let (node, kind) = (body["target"]["name"].as_str().unwrap_or_default(), &body["target"]["kind"]);
        let mut causes = Vec::new();
        if !kind.is_null() && kind != "" && kind != "Node" {
            let message = format!("Unsupported value: {kind}: supported values: \"Node\", \"<empty>\"");
            causes.push(denial::Cause { field: "target.kind".into(), reason: "FieldValueNotSupported", message });
        }
        if node.is_empty() {
            causes.push(denial::Cause::required("target.name", ""));
        }
        if !causes.is_empty() {
            // The real one lets the bare list of errors through here, which nobody takes for the asker's fault.
            let all: Vec<String> = causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
            let message = if let [one] = &all[..] { one.clone() } else { format!("[{}]", all.join(", ")) };
            return Err(Denial::bare(500, message));
        }
        let binding = Binding {
            node,
            uid: meta::uid(&body),
            annotations: body["metadata"]["annotations"].as_object(),
            labels: body["metadata"]["labels"].as_object(),
        };
        self.bind(at, &binding)?;
        Ok((201, bytes(&success(&Value::Null))))
    }

    fn answer_eviction(&mut self, asked: &Asked, at: &At) -> Reply {
        let body = read_json(&asked.body)?;
        if meta::name(&body) != &*at.name {
            return Err(Denial::bad_request("name in URL does not match name in Eviction object"));
        }
        let mut options = delete_options(&body["deleteOptions"], &Query::default())?;
        options.is_dry_run |= asked.source() == Source::DryRun;
        self.evict(at, &options)?;
        Ok((201, bytes(&success(&Value::Null))))
    }
}

impl Asked {
    fn source(&self) -> Source {
        if self.query.get("dryRun") == Some("All") { Source::DryRun } else { Source::Outside }
    }

    fn part(&self) -> Result<Part, Denial> {
        match self.target.subresource {
            None => Ok(Part::Main),
            Some(Subresource::Status) => Ok(Part::Status),
            Some(_) => Err(not_allowed(&self.method)),
        }
    }
}

fn delete_options(body: &Value, query: &Query) -> Result<DeleteOptions, Denial> {
    let text = |member: &str| body[member].as_str().or_else(|| query.get(member));
    let grace = body["gracePeriodSeconds"].as_i64().or_else(|| query.number("gracePeriodSeconds"));
    let orphans = body["orphanDependents"].as_bool();
    let propagation = match (text("propagationPolicy"), orphans) {
        (None | Some(""), None) => None,
        (None | Some(""), Some(true)) | (Some("Orphan"), None) => Some(Propagation::Orphan),
        (None | Some(""), Some(false)) | (Some("Background"), None) => Some(Propagation::Background),
        (Some("Foreground"), None) => Some(Propagation::Foreground),
        (Some(other), _) => {
            let why = "Invalid value: must be one of Background, Foreground, Orphan, alone";
            return Err(Denial::with_reason(
                422,
                "Invalid",
                format!("DeleteOptions is invalid: propagationPolicy {other:?}: {why}"),
            ));
        }
    };
    let dry_run = body["dryRun"].as_array().is_some_and(|all| all.contains(&json!("All")));
    let precondition = |member: &str| body["preconditions"][member].as_str().map(str::to_owned);
    Ok(DeleteOptions {
        grace_seconds: grace,
        propagation,
        uid: precondition("uid"),
        version: precondition("resourceVersion"),
        is_dry_run: dry_run || query.get("dryRun") == Some("All"),
    })
}

fn read_json(body: &[u8]) -> Result<Value, Denial> {
    let unreadable =
        |error: serde_json::Error| Denial::bad_request(format!("the body of the request is not JSON: {error}"));
    let value: Value = serde_json::from_slice(body).map_err(unreadable)?;
    if value.is_object() { Ok(value) } else { Err(Denial::bad_request("the body of the request is not an object")) }
}

/// An object of the kind that the address is for; one that says nothing of its kind is taken for it.
fn read_object(kind: Kind, body: &[u8]) -> Result<Value, Denial> {
    let mut object = read_json(body)?;
    for (member, expected) in [("apiVersion", kind.api_version()), ("kind", kind.as_str())] {
        match object[member].as_str().unwrap_or_default() {
            "" => object[member] = expected.into(),
            given if given == expected => {}
            given if member == "kind" => {
                return Err(Denial::bad_request(format!(
                    "{given} in version {:?} cannot be handled as a {kind}",
                    kind.api_version()
                )));
            }
            given => {
                let message = format!(
                    "the API version in the data ({given}) does not match the expected API version ({expected})"
                );
                return Err(Denial::bad_request(message));
            }
        }
    }
    Ok(object)
}

fn not_allowed(method: &Method) -> Denial {
    let message = format!("the simulator does not allow {method} on this resource");
    Denial::with_reason(405, "MethodNotAllowed", message)
}

fn returns_what_it_deletes(kind: Kind) -> bool {
    use Kind as K;
    matches!(
        kind,
        K::Pod
            | K::Namespace
            | K::Service
            | K::PersistentVolume
            | K::PersistentVolumeClaim
            | K::StorageClass
            | K::VolumeAttachment
            | K::CsiNode
    )
}

fn success(details: &Value) -> Value {
    let mut status = json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success"});
    if details.is_null() {
        status["code"] = 201.into();
    } else {
        status["details"] = details.clone();
    }
    status
}

fn content_type(headers: &HeaderMap) -> String {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim().to_owned()
}

fn bytes(object: &Value) -> Vec<u8> {
    meta::text(object).into_bytes()
}

fn answer(reply: Reply) -> Response<AnswerBody> {
    let (code, body, retry_after) = match reply {
        Ok((code, body)) => (code, body, None),
        Err(denial) => (denial.refusal.code, bytes(&denial.status()), denial.details["retryAfterSeconds"].as_u64()),
    };
    let mut response = Response::builder().status(code).header(CONTENT_TYPE, "application/json");
    if let Some(seconds) = retry_after {
        response = response.header(RETRY_AFTER, seconds);
    }
    let body = Full::new(Bytes::from(body)).boxed_unsync();
    response.body(body).expect("codes and headers of ours are valid ones")
}
