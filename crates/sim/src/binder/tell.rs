//! What the scheduler writes about pods.

use jiff::Timestamp;
use model::ids::{NodeName, PodName};
use serde_json::{Value, json};

use super::attempt::Failure;
use super::{Binder, at, part, text};
use crate::apiserver::ApiServer;
use crate::kinds::Kind;

const GATED: &str = "Scheduling is blocked due to non-empty scheduling gates";

impl Binder {
    /// Writes why a pod waits. `nominated` is what its nominated node is to be, if that is to change.
    pub(super) fn tell(
        &mut self,
        name: &PodName,
        failure: &Failure,
        nominated: Option<Option<&NodeName>>,
        server: &ApiServer,
    ) {
        let Some(known) = self.pods.get_mut(name) else { return };
        let is_news = known.told != Some(failure.kinds) || self.settings.tells_every_number;
        if !is_news && nominated.is_none() {
            return;
        }
        known.told = Some(failure.kinds);
        let Some(object) = server.get(Kind::Pod, &at(name)) else { return };
        let condition = Condition { reason: "Unschedulable", message: &failure.message };
        let conditions = with_condition(&object, &condition, server.now());
        let mut status = json!({"conditions": conditions});
        if let Some(node) = nominated {
            status["nominatedNodeName"] = node.map_or(Value::Null, |node| json!(node.as_str()));
        }
        // A pod that is gone by now needs no word; the next change says so.
        let _gone = server.patch_status(Kind::Pod, &at(name), &json!({"status": status}));
        if self.settings.writes_events {
            self.note("Warning", "FailedScheduling", name, &failure.message, server);
        }
    }

    /// The API server says so itself when such a pod is made; this is for those that it did not.
    pub(super) fn tell_gated(&self, name: &PodName, object: &Value, server: &ApiServer) {
        let conditions = part(object, "/status/conditions").and_then(Value::as_array).into_iter().flatten();
        let is_told = conditions.into_iter().any(|condition| text(condition, "/reason") == "SchedulingGated");
        if !is_told {
            let condition = Condition { reason: "SchedulingGated", message: GATED };
            let conditions = with_condition(object, &condition, server.now());
            let _gone = server.patch_status(Kind::Pod, &at(name), &json!({"status": {"conditions": conditions}}));
        }
    }

    /// The pod is promised nothing any more.
    pub(super) fn clear_nomination(&mut self, name: &PodName, server: &ApiServer) {
        if self.nominees.remove(name).is_some() {
            let _gone = server.patch_status(Kind::Pod, &at(name), &json!({"status": {"nominatedNodeName": null}}));
            self.queue.hurry(name);
        }
    }

    /// Marks a victim and asks it to end in its own time.
    pub(super) fn ask_to_leave(&self, victim: &PodName, server: &ApiServer) {
        let Some(object) = server.get(Kind::Pod, &at(victim)) else { return };
        if part(&object, "/metadata/deletionTimestamp").is_some() {
            return;
        }
        let mut conditions = kept(&object, "DisruptionTarget");
        conditions.push(json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": format!("{}: preempting to accommodate a higher priority pod", self.settings.scheduler_name),
            "lastTransitionTime": stamp(server.now()),
        }));
        let _gone = server.patch_status(Kind::Pod, &at(victim), &json!({"status": {"conditions": conditions}}));
        let _gone = server.delete(Kind::Pod, &at(victim), &crate::apiserver::Deletion::default());
    }

    pub(super) fn note_bound(&self, name: &PodName, node: &NodeName, server: &ApiServer) {
        if self.settings.writes_events {
            let text = format!("Successfully assigned {name} to {node}");
            self.note("Normal", "Scheduled", name, &text, server);
        }
    }

    fn note(&self, kind: &str, reason: &str, name: &PodName, message: &str, server: &ApiServer) {
        let uid = self.pods.get(name).map_or("", |known| &known.uid);
        let now = stamp(server.now());
        let event = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": format!("{}.", name.name), "namespace": name.namespace.as_str()},
            "involvedObject": {
                "apiVersion": "v1", "kind": "Pod",
                "namespace": name.namespace.as_str(), "name": &*name.name, "uid": uid,
            },
            "type": kind,
            "reason": reason,
            "message": message,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "source": {"component": self.settings.scheduler_name},
        });
        // An event is never worth more than what it tells about.
        let _lost = server.create(event);
    }
}

struct Condition<'a> {
    reason: &'static str,
    message: &'a str,
}

/// All conditions, with `PodScheduled` saying no. A list is replaced whole by a merge patch.
fn with_condition(pod: &Value, condition: &Condition<'_>, now: Timestamp) -> Vec<Value> {
    let mut conditions = kept(pod, "PodScheduled");
    let all = part(pod, "/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let before = all.into_iter().find(|condition| text(condition, "/type") == "PodScheduled");
    let since =
        before.filter(|before| text(before, "/status") == "False").and_then(|before| before.get("lastTransitionTime"));
    conditions.push(json!({
        "type": "PodScheduled",
        "status": "False",
        "reason": condition.reason,
        "message": condition.message,
        "lastProbeTime": null,
        "lastTransitionTime": since.cloned().unwrap_or_else(|| json!(stamp(now))),
    }));
    conditions
}

fn kept(pod: &Value, but: &str) -> Vec<Value> {
    let conditions = part(pod, "/status/conditions").and_then(Value::as_array).into_iter().flatten();
    conditions.into_iter().filter(|condition| text(condition, "/type") != but).cloned().collect()
}

/// As the API writes times: whole seconds.
fn stamp(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}
