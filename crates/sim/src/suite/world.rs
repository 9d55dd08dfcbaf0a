//! What a case has in its hands: a client, a namespace, and words for asking and expecting.

use std::future::Future;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures::{AsyncBufReadExt, AsyncReadExt};
use http::{Method, Request};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

/// How long a real cluster's controllers may take. The garbage collector looks for new kinds every half minute only.
const PATIENCE: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(200);
/// How long an event of a watch may take.
const EVENT_PATIENCE: Duration = Duration::from_secs(30);

/// One case's part of a cluster.
#[derive(Clone)]
pub struct World {
    client: Client,
    /// Its namespace, and the start of the names of what has none.
    pub(super) ns: String,
}

/// What the server said.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) body: Value,
    asked: String,
}

/// An open watch.
pub(super) struct Watch {
    lines: std::pin::Pin<Box<dyn futures::AsyncBufRead + Send>>,
}

impl World {
    /// Makes the namespace and waits until pods can be made in it, which in a real cluster takes a service account.
    pub(super) async fn open(client: Client, namespace: &str) -> Result<Self> {
        let world = Self { client, ns: namespace.to_owned() };
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        world.post("/api/v1/namespaces", &body).await?.made()?;
        let pods = format!("{}?dryRun=All", world.path("pods"));
        let world = &world;
        patience("pods can be made", || async {
            Ok((world.post(&pods, &pod("probe")).await?.code == 201).then_some(()))
        })
        .await?;
        Ok(world.clone())
    }

    /// The collection of a core kind in the case's namespace.
    pub(super) fn path(&self, plural: &str) -> String {
        format!("/api/v1/namespaces/{}/{plural}", self.ns)
    }

    /// The collection of another group's kind in the case's namespace; `group` has its version, such as `apps/v1`.
    pub(super) fn path_of(&self, group: &str, plural: &str) -> String {
        format!("/apis/{group}/namespaces/{}/{plural}", self.ns)
    }

    pub(super) async fn get(&self, path: &str) -> Result<Answer> {
        self.ask(Method::GET, path, "application/json", Vec::new()).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Answer> {
        self.ask(Method::POST, path, "application/json", body.to_string().into_bytes()).await
    }

    pub(super) async fn put(&self, path: &str, body: &Value) -> Result<Answer> {
        self.ask(Method::PUT, path, "application/json", body.to_string().into_bytes()).await
    }

    pub(super) async fn patch(&self, path: &str, body: &Value) -> Result<Answer> {
        self.ask(Method::PATCH, path, "application/merge-patch+json", body.to_string().into_bytes()).await
    }

    pub(super) async fn delete(&self, path: &str, options: &Value) -> Result<Answer> {
        let body = if options.is_null() { Vec::new() } else { options.to_string().into_bytes() };
        self.ask(Method::DELETE, path, "application/json", body).await
    }

    pub(super) async fn ask(&self, method: Method, path: &str, content_type: &str, body: Vec<u8>) -> Result<Answer> {
        let asked = format!("{method} {path}");
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .header("accept", "application/json");
        let request = request.body(Body::from(body)).context("making a request")?;
        let response = self.client.send(request).await.with_context(|| asked.clone())?;
        let code = response.status().as_u16();
        let text = response.into_body().collect().await.with_context(|| asked.clone())?.to_bytes();
        let body = serde_json::from_slice(&text).unwrap_or_else(|_| String::from_utf8_lossy(&text).into_owned().into());
        Ok(Answer { code, body, asked })
    }

    /// Opens a watch; the path has its query but for `watch` itself.
    pub(super) async fn watch(&self, path: &str) -> Result<Watch> {
        let sign = if path.contains('?') { '&' } else { '?' };
        let request = Request::get(format!("{path}{sign}watch=true")).body(Vec::new()).context("making a request")?;
        let lines = self.client.request_stream(request).await.with_context(|| format!("watching {path}"))?;
        Ok(Watch { lines: Box::pin(lines) })
    }

    /// Waits until an object is gone.
    pub(super) async fn gone(&self, path: &str) -> Result<()> {
        patience(&format!("{path} goes"), || async { Ok((self.get(path).await?.code == 404).then_some(())) }).await
    }

    /// Makes a ConfigMap and gives back what was stored.
    pub(super) async fn map(&self, name: &str) -> Result<Value> {
        self.post(&self.path("configmaps"), &config_map(name)).await?.made()
    }

    /// A node that does not exist, of the case's own: pods there are collected when it has been missing for a while.
    pub(super) fn nowhere(&self) -> String {
        format!("{}-nowhere", self.ns)
    }

    /// Makes a pod, gives it a node that does not exist, and says that it is running.
    pub(super) async fn running(&self, mut pod: Value, is_ready: bool) -> Result<Value> {
        pod["spec"]["nodeName"] = self.nowhere().into();
        let made = self.post(&self.path("pods"), &pod).await?.made()?;
        let path = format!("{}/{}/status", self.path("pods"), text(&made["metadata"]["name"]));
        let ready = if is_ready { "True" } else { "False" };
        let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}});
        self.patch(&path, &status).await?.fine()
    }
}

impl Answer {
    /// It was made; gives back what was stored.
    pub(super) fn made(self) -> Result<Value> {
        self.with_code(201)
    }

    pub(super) fn fine(self) -> Result<Value> {
        self.with_code(200)
    }

    pub(super) fn with_code(self, code: u16) -> Result<Value> {
        ensure!(self.code == code, "{}: {} instead of {code}: {}", self.asked, self.code, self.body);
        Ok(self.body)
    }

    /// It was turned down like this; gives back the `Status`.
    pub(super) fn refused(self, code: u16, reason: &str) -> Result<Value> {
        let asked = self.asked.clone();
        let status = self.with_code(code)?;
        ensure!(status["kind"] == "Status" && status["status"] == "Failure", "{asked}: no failure: {status}");
        ensure!(text(&status["reason"]) == reason, "{asked}: not {reason}: {status}");
        ensure!(status["code"] == code, "{asked}: another code: {status}");
        Ok(status)
    }

    /// It was turned down because of this field.
    pub(super) fn invalid(self, field: &str, reason: &str) -> Result<Value> {
        let status = self.refused(422, "Invalid")?;
        let mut causes = status["details"]["causes"].as_array().into_iter().flatten();
        let is_named = causes.any(|cause| cause["field"] == field && cause["reason"] == reason);
        ensure!(is_named, "no cause {field} {reason}: {status}");
        Ok(status)
    }
}

impl Watch {
    /// The next event that is no bookmark; nothing when the watch has ended.
    pub(super) async fn next(&mut self) -> Result<Option<Value>> {
        loop {
            match self.next_of_any_kind().await? {
                Some(event) if event["type"] == "BOOKMARK" => {}
                event => return Ok(event),
            }
        }
    }

    pub(super) async fn next_of_any_kind(&mut self) -> Result<Option<Value>> {
        let mut line = Vec::new();
        let read = timeout(EVENT_PATIENCE, self.lines.read_until(b'\n', &mut line)).await;
        read.context("no event has come")?.context("reading a watch")?;
        if line.is_empty() {
            return Ok(None);
        }
        Ok(Some(serde_json::from_slice(&line).context("reading an event")?))
    }

    /// The next event is this one about an object of this name; gives back the object.
    pub(super) async fn sees(&mut self, kind: &str, name: &str) -> Result<Value> {
        let Some(event) = self.next().await? else { bail!("the watch ended before {kind} {name}") };
        let is_it = event["type"] == kind && event["object"]["metadata"]["name"] == name;
        ensure!(is_it, "not {kind} {name}: {event}");
        Ok(event["object"].clone())
    }

    /// Reads to the end and gives back what is left.
    pub(super) async fn rest(mut self) -> Result<String> {
        let mut rest = String::new();
        timeout(EVENT_PATIENCE, self.lines.read_to_string(&mut rest)).await.context("the watch does not end")??;
        Ok(rest)
    }
}

/// Looks until there is something, for as long as a real cluster may take.
pub(super) async fn patience<T, F, L>(what: &str, mut look: L) -> Result<T>
where
    F: Future<Output = Result<Option<T>>>,
    L: FnMut() -> F,
{
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        ensure!(Instant::now() < deadline, "waited in vain until {what}");
        sleep(POLL).await;
    }
}

pub(super) fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"suite": "yes"}}, "data": {"a": "1"}})
}

/// A pod that no scheduler touches.
pub(super) fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "main", "image": "none:1"}]},
    })
}

/// A ReplicaSet that wants no pods, so its controller has nothing to do.
pub(super) fn replica_set(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"schedulerName": "nobody", "containers": [{"name": "main", "image": "none:1"}]},
            },
        },
    })
}

/// A reference to an owner.
pub(super) fn reference(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"],
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
    })
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(super) fn version(object: &Value) -> u64 {
    text(&object["metadata"]["resourceVersion"]).parse().unwrap_or_default()
}

/// Fails with what was found if the two differ.
pub(super) fn same(found: &Value, expected: impl Into<Value>) -> Result<()> {
    let expected = expected.into();
    ensure!(*found == expected, "{found} is not {expected}");
    Ok(())
}
