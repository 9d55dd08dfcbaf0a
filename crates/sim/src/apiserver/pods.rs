//! What is special about pods: their first status, what may change in them, and how they get a node.

use serde_json::{Map, Value, json};

use super::At;
use super::denial::{Cause, Denial};
use super::meta;
use super::store::Store;
use crate::fields::conditions_with;
use crate::kinds::Kind;

const GATED: &str = "Scheduling is blocked due to non-empty scheduling gates";
const SPEC_IS_FIXED: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
                             `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
                             `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Where a pod is to run.
#[derive(Clone, Copy, Default)]
pub(super) struct Binding<'a> {
    pub(super) node: &'a str,
    /// Refused with a conflict if the pod is another by now; empty for any.
    pub(super) uid: &'a str,
    /// Added to the pod's own.
    pub(super) annotations: Option<&'a Map<String, Value>>,
    pub(super) labels: Option<&'a Map<String, Value>>,
}

impl Store {
    pub(super) fn bind(&mut self, at: &At, binding: &Binding<'_>) -> Result<(), Denial> {
        let Some(old) = self.get(Kind::Pod, at) else { return Err(Denial::not_found(Kind::Pod, &at.name)) };
        let refuse = |why: String| Err(Denial::conflict_on("pods/binding", Kind::Pod, &at.name, &why));
        let name = &at.name;
        if !binding.uid.is_empty() && binding.uid != meta::uid(old) {
            let (wanted, found) = (binding.uid, meta::uid(old));
            return refuse(format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"));
        }
        if meta::is_deleting(old) {
            return refuse(format!("pod {name} is being deleted, cannot be assigned to a host"));
        }
        if let Some(node) = old["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
            return refuse(format!("pod {name} is already assigned to node {node:?}"));
        }
        if has_gates(&old["spec"]) {
            return refuse(format!("pod {name} has non-empty .spec.schedulingGates"));
        }
        let mut pod = Value::clone(old);
        pod["spec"]["nodeName"] = binding.node.into();
        for (field, added) in [("annotations", binding.annotations), ("labels", binding.labels)] {
            for (key, value) in added.into_iter().flatten() {
                pod["metadata"][field][key.as_str()] = value.clone();
            }
        }
        meta::put_member(&mut pod["status"], "nominatedNodeName", Value::Null);
        pod["status"]["conditions"] = conditions_with(old, self.now(), &[["PodScheduled", "True", "", ""]]);
        self.put(Kind::Pod, at, pod);
        self.settle();
        Ok(())
    }
}

/// A new pod is pending, whatever the client says of it.
pub(super) fn prepare_status(pod: &mut Value) {
    let mut status = json!({"phase": "Pending", "qosClass": super::defaults::qos_class(&pod["spec"])});
    if has_gates(&pod["spec"]) {
        status["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": GATED,
        }]);
    }
    pod["status"] = status;
}

/// What a change of a pod's spec breaks.
pub(super) fn what_may_not_change(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut rest = new.clone();
    for list in ["containers", "initContainers"] {
        allow_images(&old[list], &mut rest[list]);
        if rest[list].is_null() {
            meta::put_member(&mut rest, list, Value::Null);
        }
    }
    allow_deadline(old, new, &mut rest, &mut causes);
    if old["terminationGracePeriodSeconds"].as_i64().is_some_and(|before| before < 0)
        && new["terminationGracePeriodSeconds"] == 1
    {
        put_back(old, &mut rest, "terminationGracePeriodSeconds");
    }
    if keeps_all(&old["tolerations"], &new["tolerations"]) {
        put_back(old, &mut rest, "tolerations");
    } else {
        causes.push(Cause::forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        ));
    }
    if keeps_all(&new["schedulingGates"], &old["schedulingGates"]) {
        put_back(old, &mut rest, "schedulingGates");
    } else {
        causes.push(Cause::forbidden(
            "spec.schedulingGates",
            "only deletion is allowed, but found new scheduling gate(s)",
        ));
    }
    if has_gates(old) && only_adds(&old["nodeSelector"], &new["nodeSelector"]) {
        put_back(old, &mut rest, "nodeSelector");
    }
    if rest != *old {
        causes.push(Cause::forbidden("spec", SPEC_IS_FIXED));
    }
    causes
}

fn has_gates(spec: &Value) -> bool {
    spec["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty())
}

fn put_back(old: &Value, spec: &mut Value, member: &str) {
    meta::put_member(spec, member, old[member].clone());
}

fn allow_images(old: &Value, new: &mut Value) {
    let (Some(old), Some(new)) = (old.as_array(), new.as_array_mut()) else { return };
    for (before, after) in old.iter().zip(new) {
        if after["image"].as_str().is_some_and(|image| !image.is_empty()) {
            put_back(before, after, "image");
        }
    }
}

fn allow_deadline(old: &Value, new: &Value, rest: &mut Value, causes: &mut Vec<Cause>) {
    const FIELD: &str = "activeDeadlineSeconds";
    match (old[FIELD].as_i64(), new[FIELD].as_i64()) {
        (before, Some(after)) if before != Some(after) => {
            if after < 0 || before.is_some_and(|before| after > before) {
                let why = "must be less than or equal to previous value";
                causes.push(Cause::invalid("spec.activeDeadlineSeconds", &after.into(), why));
            }
            put_back(old, rest, FIELD);
        }
        (Some(_), None) => causes.push(Cause::invalid(
            "spec.activeDeadlineSeconds",
            &Value::Null,
            "must not update from a positive integer to nil value",
        )),
        _ => {}
    }
}

/// Whether every entry of the first list is in the second, but for how long a toleration lasts.
fn keeps_all(kept: &Value, all: &Value) -> bool {
    let bare = |entry: &Value| {
        let mut entry = entry.clone();
        meta::put_member(&mut entry, "tolerationSeconds", Value::Null);
        entry
    };
    let all: Vec<Value> = all.as_array().into_iter().flatten().map(bare).collect();
    kept.as_array().into_iter().flatten().all(|entry| all.contains(&bare(entry)))
}

fn only_adds(old: &Value, new: &Value) -> bool {
    old.as_object().into_iter().flatten().all(|(key, value)| new[key.as_str()] == *value)
}
