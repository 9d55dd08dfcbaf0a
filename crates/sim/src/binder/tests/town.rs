//! A scheduler on a server, and nobody else.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use runtime::{Clock, Rng};
use serde_json::{Value, json};

use crate::apiserver::{ApiServer, At, Deletion, Follower};
use crate::binder::{Binder, Settings};
use crate::kinds::Kind;
use crate::standin::StandIn;

pub(super) struct Town {
    pub(super) server: ApiServer,
    pub(super) binder: Binder,
    follower: Follower,
}

/// What is made without a namespace lives in this one.
const HOME: &str = "default";

pub(super) fn pod(name: &str, requests: Value, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": HOME, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}], "schedulerName": "default-scheduler"},
    });
    merge(&mut object["spec"], &spec);
    object
}

pub(super) fn node(name: &str, cpu: &str, more: Value) -> Value {
    let amounts = json!({"cpu": cpu, "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi"});
    let mut object = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {"capacity": amounts, "allocatable": amounts},
    });
    merge(&mut object, &more);
    object
}

fn merge(object: &mut Value, more: &Value) {
    match (object, more) {
        (Value::Object(object), Value::Object(more)) => {
            for (key, value) in more {
                merge(object.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (object, more) => *object = more.clone(),
    }
}

impl Town {
    pub(super) fn new() -> Self {
        Self::with(Settings::default())
    }

    pub(super) fn with(settings: Settings) -> Self {
        Self::seeded(7, settings)
    }

    pub(super) fn seeded(seed: u64, settings: Settings) -> Self {
        let clock = Clock::virtual_from("2026-01-01T00:00:00Z".parse().unwrap());
        let rng = Rng::new(seed);
        let server = ApiServer::new(clock, rng.fork("server"));
        let follower = server.follow();
        let mut town = Self { binder: Binder::new(settings, &rng), server, follower };
        if town.server.get(Kind::Namespace, &At::new("", HOME)).is_none() {
            town.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}}));
        }
        town
    }

    /// Hands out changes until nothing changes any more.
    pub(super) fn pump(&mut self) {
        loop {
            let mut has_heard = false;
            while let Some(change) = self.follower.try_next() {
                self.binder.heed(&change, &self.server);
                has_heard = true;
            }
            if !has_heard {
                return;
            }
            self.binder.settle(&self.server);
        }
    }

    pub(super) async fn advance(&mut self, seconds: u64) {
        tokio::time::advance(Duration::from_secs(seconds)).await;
        let now = self.server.now();
        if self.binder.next().is_some_and(|next| next <= now) {
            self.binder.wake(now, &self.server);
        }
        self.pump();
    }

    pub(super) fn next(&self) -> Option<Timestamp> {
        self.binder.next()
    }

    pub(super) fn create_quietly(&mut self, object: Value) -> Arc<Value> {
        let status = object["status"].clone();
        let made = self.server.create(object).unwrap();
        if status.is_null() {
            return made;
        }
        let kind = Kind::of(made["apiVersion"].as_str().unwrap(), made["kind"].as_str().unwrap()).unwrap();
        self.server.patch_status(kind, &At::of(&made), &json!({"status": status})).unwrap()
    }

    pub(super) fn create(&mut self, object: Value) -> Arc<Value> {
        let made = self.create_quietly(object);
        self.pump();
        made
    }

    pub(super) fn node(&mut self, name: &str, more: Value) {
        self.node_of(name, "4", more);
    }

    pub(super) fn node_of(&mut self, name: &str, cpu: &str, more: Value) {
        self.create(node(name, cpu, more));
    }

    /// A pod that stands on a node already.
    pub(super) fn standing(&mut self, name: &str, node: &str, requests: Value) {
        self.create(pod(name, requests, json!({"nodeName": node})));
    }

    pub(super) fn bind(&mut self, name: &str, node: &str) {
        self.server.bind(&At::new(HOME, name), node).unwrap();
        self.pump();
    }

    pub(super) fn patch(&mut self, kind: Kind, name: &str, patch: Value) {
        let namespace = if kind.is_namespaced() { HOME } else { "" };
        self.server.patch(kind, &At::new(namespace, name), &patch).unwrap();
        self.pump();
    }

    pub(super) fn patch_status(&mut self, kind: Kind, name: &str, status: Value) {
        let namespace = if kind.is_namespaced() { HOME } else { "" };
        self.server.patch_status(kind, &At::new(namespace, name), &json!({"status": status})).unwrap();
        self.pump();
    }

    /// A pod has ended and is gone.
    pub(super) fn end(&mut self, name: &str) {
        let deletion = Deletion { grace_seconds: Some(0), ..Deletion::default() };
        self.server.delete(Kind::Pod, &At::new(HOME, name), &deletion).unwrap();
        self.pump();
    }

    pub(super) fn get(&self, kind: Kind, name: &str) -> Value {
        let namespace = if kind.is_namespaced() { HOME } else { "" };
        self.server.get(kind, &At::new(namespace, name)).map_or(Value::Null, |object| Value::clone(&object))
    }

    /// The node that a pod is bound to; empty where there is none.
    pub(super) fn place(&self, name: &str) -> String {
        self.get(Kind::Pod, name)["spec"]["nodeName"].as_str().unwrap_or_default().to_owned()
    }

    pub(super) fn condition(&self, name: &str) -> Value {
        let pod = self.get(Kind::Pod, name);
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == "PodScheduled").unwrap_or_default()
    }

    pub(super) fn message(&self, name: &str) -> String {
        self.condition(name)["message"].as_str().unwrap_or_default().to_owned()
    }
}
