//! A pod on its way in: priority, runtime class, limit ranges, tolerations.

use serde_json::{Value, json};

use super::{limits, list_of};
use crate::apiserver::Store;
use crate::fields::{at_cluster, each, integer, name};
use crate::kinds::Kind;

/// Classes that every cluster has, whether or not somebody has written them down.
const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];
const DEFAULT_TOLERATION_SECONDS: i64 = 300;

pub(super) fn admit(pod: &mut Value, store: &Store) -> Result<(), String> {
    set_priority(&mut pod["spec"], store)?;
    apply_runtime_class(&mut pod["spec"], store)?;
    limits::apply_to_pod(pod, store)?;
    add_tolerations(&mut pod["spec"]);
    Ok(())
}

/// A change that leaves out what admission once filled in keeps it.
pub(super) fn admit_change(pod: &mut Value, old: &Value) {
    for member in ["priority", "preemptionPolicy"] {
        if pod["spec"][member].is_null() && !old["spec"][member].is_null() {
            pod["spec"][member] = old["spec"][member].clone();
        }
    }
    add_tolerations(&mut pod["spec"]);
}

fn set_priority(spec: &mut Value, store: &Store) -> Result<(), String> {
    let class = match spec["priorityClassName"].as_str().filter(|name| !name.is_empty()) {
        Some(wanted) => {
            let found = priority_class(wanted, store);
            Some(found.ok_or_else(|| format!("no PriorityClass with name {wanted} was found"))?)
        }
        None => default_priority_class(store),
    };
    let (priority, policy) = match &class {
        Some(class) => (class.value, class.policy.as_str()),
        None => (0, "PreemptLowerPriority"),
    };
    if let Some(given) = spec["priority"].as_i64().filter(|given| *given != priority) {
        return Err(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {priority} from the given PriorityClass name"
        ));
    }
    if let Some(given) = spec["preemptionPolicy"].as_str().filter(|given| *given != policy) {
        return Err(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        ));
    }
    spec["priority"] = json!(priority);
    spec["preemptionPolicy"] = json!(policy);
    if let Some(class) = class {
        spec["priorityClassName"] = json!(class.name);
    }
    Ok(())
}

struct PriorityClass {
    name: String,
    value: i64,
    policy: String,
}

impl PriorityClass {
    fn of(wire: &Value) -> Self {
        let policy = wire["preemptionPolicy"].as_str().unwrap_or("PreemptLowerPriority");
        Self { name: name(wire).to_owned(), value: integer(&wire["value"], 0), policy: policy.to_owned() }
    }
}

fn priority_class(wanted: &str, store: &Store) -> Option<PriorityClass> {
    if let Some(found) = store.get(Kind::PriorityClass, &at_cluster(wanted)) {
        return Some(PriorityClass::of(found));
    }
    let (name, value) = SYSTEM_CLASSES.iter().find(|(name, _)| *name == wanted)?;
    Some(PriorityClass { name: (*name).to_owned(), value: *value, policy: "PreemptLowerPriority".to_owned() })
}

/// The lowest of those that are marked, should there be several.
fn default_priority_class(store: &Store) -> Option<PriorityClass> {
    let marked = store.list(Kind::PriorityClass).filter(|class| class["globalDefault"] == true);
    marked.map(|class| PriorityClass::of(class)).min_by_key(|class| class.value)
}

fn apply_runtime_class(spec: &mut Value, store: &Store) -> Result<(), String> {
    let class = match spec["runtimeClassName"].as_str() {
        None => &Value::Null,
        Some(wanted) => {
            let found = store.get(Kind::RuntimeClass, &at_cluster(wanted));
            found.ok_or_else(|| format!("pod rejected: RuntimeClass \"{wanted}\" not found"))?
        }
    };
    let overhead = &class["overhead"]["podFixed"];
    let has_overhead = spec["overhead"].as_object().is_some_and(|overhead| !overhead.is_empty());
    if has_overhead && !has_same_amounts(&spec["overhead"], overhead) {
        let why = match overhead {
            Value::Null => "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
            _ => "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        };
        return Err(why.to_owned());
    }
    if !overhead.is_null() {
        spec["overhead"] = overhead.clone();
    }
    apply_runtime_scheduling(spec, &class["scheduling"])
}

fn has_same_amounts(a: &Value, b: &Value) -> bool {
    let read = |value: &Value| serde_json::from_value::<api::ResourceList>(value.clone()).ok();
    read(a) == read(b)
}

fn apply_runtime_scheduling(spec: &mut Value, scheduling: &Value) -> Result<(), String> {
    for (key, value) in scheduling["nodeSelector"].as_object().into_iter().flatten() {
        let present = &spec["nodeSelector"][key.as_str()];
        if !present.is_null() && present != value {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                text(value),
                text(present)
            ));
        }
        spec["nodeSelector"][key.as_str()] = value.clone();
    }
    for toleration in each(&scheduling["tolerations"]) {
        let tolerations = list_of(&mut spec["tolerations"]);
        if !tolerations.contains(toleration) {
            tolerations.push(toleration.clone());
        }
    }
    Ok(())
}

/// A node that falls silent keeps its pods for five minutes, unless they say otherwise.
fn add_tolerations(spec: &mut Value) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let is_said = each(&spec["tolerations"]).any(|toleration| {
            let (of_key, effect) = (toleration["key"].as_str(), toleration["effect"].as_str());
            of_key.is_none_or(|of_key| of_key.is_empty() || of_key == key)
                && matches!(effect, None | Some("" | "NoExecute"))
        });
        if !is_said {
            list_of(&mut spec["tolerations"]).push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": DEFAULT_TOLERATION_SECONDS,
            }));
        }
    }
}
