//! Whether an object has the shape of its kind: types of fields, and the rules that people break most.

use k8s_openapi::api::{apps, batch, coordination, core, node, policy, scheduling, storage};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::denial::{Cause, Denial};
use super::{meta, validate};
use crate::fields::{Selector, labels};
use crate::kinds::Kind;

/// Reads the object as its type and writes it anew, which drops what the type does not know. The error says what cannot be read.
pub(super) fn check(kind: Kind, object: &mut Value) -> Result<(), String> {
    // The types write a selector that is missing as one that is empty, which means the opposite.
    let has_selector = !object["spec"]["selector"].is_null();
    read(kind, object)?;
    if let (false, Some(spec)) = (has_selector, object.get_mut("spec")) {
        meta::put_member(spec, "selector", Value::Null);
    }
    Ok(())
}

fn read(kind: Kind, object: &mut Value) -> Result<(), String> {
    match kind {
        Kind::Pod => through::<core::v1::Pod>(object),
        Kind::Node => through::<core::v1::Node>(object),
        Kind::Namespace => through::<core::v1::Namespace>(object),
        Kind::Event => through::<core::v1::Event>(object),
        Kind::ConfigMap => through::<core::v1::ConfigMap>(object),
        Kind::Service => through::<core::v1::Service>(object),
        Kind::PodTemplate => through::<core::v1::PodTemplate>(object),
        Kind::LimitRange => through::<core::v1::LimitRange>(object),
        Kind::PersistentVolume => through::<core::v1::PersistentVolume>(object),
        Kind::PersistentVolumeClaim => through::<core::v1::PersistentVolumeClaim>(object),
        Kind::Deployment => through::<apps::v1::Deployment>(object),
        Kind::ReplicaSet => through::<apps::v1::ReplicaSet>(object),
        Kind::StatefulSet => through::<apps::v1::StatefulSet>(object),
        Kind::DaemonSet => through::<apps::v1::DaemonSet>(object),
        Kind::Job => through::<batch::v1::Job>(object),
        Kind::PodDisruptionBudget => through::<policy::v1::PodDisruptionBudget>(object),
        Kind::PriorityClass => through::<scheduling::v1::PriorityClass>(object),
        Kind::RuntimeClass => through::<node::v1::RuntimeClass>(object),
        Kind::StorageClass => through::<storage::v1::StorageClass>(object),
        Kind::CsiNode => through::<storage::v1::CSINode>(object),
        Kind::VolumeAttachment => through::<storage::v1::VolumeAttachment>(object),
        Kind::Lease => through::<coordination::v1::Lease>(object),
        // The rest of a custom object is the business of its schema.
        _ => through::<ObjectMeta>(&mut object["metadata"]),
    }
}

fn through<T: DeserializeOwned + Serialize>(object: &mut Value) -> Result<(), String> {
    let typed = T::deserialize(&*object).map_err(|error| error.to_string())?;
    *object = serde_json::to_value(typed).map_err(|error| error.to_string())?;
    Ok(())
}

/// What is said to a body that cannot be read as its kind.
pub(super) fn unreadable(kind: Kind, error: &str) -> Denial {
    let version = kind.api_version().rsplit('/').next().unwrap_or_default();
    Denial::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {error}"))
}

/// What is wrong with a new object of a built-in kind.
pub(super) fn new_object(kind: Kind, object: &Value) -> Vec<Cause> {
    let spec = &object["spec"];
    let mut causes = Vec::new();
    match kind {
        Kind::Pod => pod_spec("spec", spec, &mut causes),
        Kind::Deployment | Kind::ReplicaSet | Kind::StatefulSet | Kind::DaemonSet => {
            not_negative(spec, &["replicas"], &mut causes);
            selector(kind, spec, &mut causes);
            template(spec, &["Always"], &mut causes);
        }
        Kind::Job => {
            not_negative(spec, &["parallelism", "completions", "backoffLimit"], &mut causes);
            // Other jobs get their selector with their uid.
            if spec["manualSelector"] == true {
                if spec["selector"].is_null() {
                    causes.push(Cause::required("spec.selector", ""));
                }
                template_fits(&Selector::of(&spec["selector"]), spec, &mut causes);
            }
            template(spec, &["OnFailure", "Never"], &mut causes);
        }
        Kind::PodDisruptionBudget => {
            if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
                causes.push(Cause::invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set"));
            }
            not_negative(spec, &["minAvailable", "maxUnavailable"], &mut causes);
        }
        _ => {}
    }
    causes
}

/// What is settled at birth, of kinds that say it beside or in their spec.
pub(super) fn fixed_members(kind: Kind, old: &Value, new: &Value) -> Vec<Cause> {
    let (immutable, forbidden): (&[&str], &[(&str, &str)]) = match kind {
        Kind::StorageClass => (&["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"], &[]),
        Kind::PriorityClass => (&["preemptionPolicy"], &[("value", "may not be changed in an update.")]),
        Kind::RuntimeClass => (&["handler"], &[]),
        Kind::VolumeAttachment => (&["spec"], &[]),
        _ => (&[], &[]),
    };
    let differs = |member: &str| old[member] != new[member];
    let immutable =
        immutable.iter().filter(|member| differs(member)).map(|member| Cause::immutable(*member, &new[*member]));
    let forbidden =
        forbidden.iter().filter(|(member, _)| differs(member)).map(|(member, why)| Cause::forbidden(*member, why));
    immutable.chain(forbidden).collect()
}

/// What a change of an object's spec breaks.
pub(super) fn changed_object(kind: Kind, old: &Value, new: &Value) -> Vec<Cause> {
    let (is_bound, old, spec) = (old["status"]["phase"] == "Bound", &old["spec"], &new["spec"]);
    let mut causes = if kind == Kind::Pod { Vec::new() } else { new_object(kind, new) };
    let fixed: &[&str] = match kind {
        Kind::Deployment | Kind::ReplicaSet | Kind::DaemonSet => &["selector"],
        Kind::Job => &["selector", "template", "completionMode"],
        _ => &[],
    };
    for member in fixed.iter().filter(|member| old[**member] != spec[**member]) {
        causes.push(Cause::immutable(format!("spec.{member}"), &spec[*member]));
    }
    if kind == Kind::StatefulSet {
        const FREE: [&str; 7] = [
            "replicas",
            "ordinals",
            "template",
            "updateStrategy",
            "revisionHistoryLimit",
            "persistentVolumeClaimRetentionPolicy",
            "minReadySeconds",
        ];
        if without(old, &FREE) != without(spec, &FREE) {
            let why = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
                       'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
            causes.push(Cause::forbidden("spec", why));
        }
    }
    if kind == Kind::PersistentVolumeClaim {
        // A claim gets its volume once, and a class if it was made when there was no default one; it grows when it is bound.
        let free = [
            ("volumeName", old["volumeName"].as_str().is_none_or(str::is_empty)),
            ("storageClassName", old["storageClassName"].is_null()),
            ("resources", is_bound),
        ];
        let free: Vec<&str> = free.into_iter().filter(|(_, is_free)| *is_free).map(|(member, _)| member).collect();
        if without(old, &free) != without(spec, &free) {
            let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
            causes.push(Cause::forbidden("spec", why));
        }
    }
    causes
}

fn without(spec: &Value, members: &[&str]) -> Value {
    let mut spec = spec.clone();
    members.iter().for_each(|member| meta::put_member(&mut spec, member, Value::Null));
    spec
}

fn not_negative(spec: &Value, members: &[&str], causes: &mut Vec<Cause>) {
    for member in members {
        if let Some(number) = spec[*member].as_i64().filter(|number| *number < 0) {
            let why = "must be greater than or equal to 0";
            causes.push(Cause::invalid(format!("spec.{member}"), &number.into(), why));
        }
    }
}

fn selector(kind: Kind, spec: &Value, causes: &mut Vec<Cause>) {
    let wire = &spec["selector"];
    let selector = Selector::of(wire);
    // Of a selector that is missing a DaemonSet is only told that it does not match.
    if wire.is_null() && kind != Kind::DaemonSet {
        causes.push(Cause::required("spec.selector", ""));
    } else if !wire.is_null() && selector.is_empty() {
        let what = match kind {
            Kind::StatefulSet => "statefulset",
            Kind::DaemonSet => "daemonset",
            // The API server calls a ReplicaSet so, too.
            _ => "deployment",
        };
        causes.push(Cause::invalid("spec.selector", wire, &format!("empty selector is invalid for {what}")));
    }
    template_fits(&selector, spec, causes);
}

fn template_fits(selector: &Selector, spec: &Value, causes: &mut Vec<Cause>) {
    let labels = labels(&spec["template"]);
    if !selector.matches(labels) {
        let field = "spec.template.metadata.labels";
        causes.push(Cause::invalid(field, labels, "`selector` does not match template `labels`"));
    }
}

fn template(spec: &Value, policies: &[&str], causes: &mut Vec<Cause>) {
    let pod = &spec["template"]["spec"];
    pod_spec("spec.template.spec", pod, causes);
    let policy = pod["restartPolicy"].as_str().unwrap_or("Always");
    if policy == "Always" && !policies.contains(&policy) {
        let supported: Vec<String> = policies.iter().map(|policy| format!("{policy:?}")).collect();
        let why = format!("valid values: {}", supported.join(", "));
        causes.push(Cause::required("spec.template.spec.restartPolicy", &why));
    } else if !policies.contains(&policy) {
        let supported: Vec<String> = policies.iter().map(|policy| format!("{policy:?}")).collect();
        let message = format!("Unsupported value: {policy:?}: supported values: {}", supported.join(", "));
        let field = "spec.template.spec.restartPolicy".to_owned();
        causes.push(Cause { field, reason: "FieldValueNotSupported", message });
    }
}

fn pod_spec(field: &str, spec: &Value, causes: &mut Vec<Cause>) {
    if spec["containers"].as_array().is_none_or(Vec::is_empty) {
        causes.push(Cause::required(format!("{field}.containers"), ""));
    }
    let mut names: Vec<&str> = Vec::new();
    for list in ["initContainers", "containers"] {
        for (place, container) in spec[list].as_array().into_iter().flatten().enumerate() {
            let path = format!("{field}.{list}[{place}]");
            let name = container["name"].as_str().unwrap_or_default();
            if name.is_empty() {
                causes.push(Cause::required(format!("{path}.name"), ""));
            } else if !validate::is_dns_label(name) {
                causes.push(Cause::invalid(format!("{path}.name"), &name.into(), validate::DNS_LABEL));
            } else if names.contains(&name) {
                causes.push(Cause::duplicate(format!("{path}.name"), &name.into()));
            }
            if container["image"].as_str().is_none_or(str::is_empty) {
                causes.push(Cause::required(format!("{path}.image"), ""));
            }
            amounts(&path, &container["resources"], causes);
            names.push(name);
        }
    }
}

fn amounts(path: &str, resources: &Value, causes: &mut Vec<Cause>) {
    for part in ["requests", "limits"] {
        for (name, amount) in resources[part].as_object().into_iter().flatten() {
            let written = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
            if written.parse::<api::Quantity>().is_err() {
                let why = "quantities are numbers with a unit, such as 500m or 2Gi";
                causes.push(Cause::invalid(format!("{path}.resources.{part}[{name}]"), amount, why));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What is said about a workload whose pods bear the label `app: a`.
    fn said(kind: Kind, change: &Value) -> Vec<String> {
        let containers = json!([{"name": "c", "image": "i"}]);
        let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": containers, "restartPolicy": "Always"}});
        let mut object = json!({"spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template}});
        meta::merge(&mut object["spec"], change);
        let causes = new_object(kind, &object).into_iter();
        causes.map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    const MISMATCH: &str =
        "spec.template.metadata.labels: Invalid value: {\"app\":\"a\"}: `selector` does not match template `labels`";

    #[test]
    fn a_selector_that_misses_its_own_template_is_refused() {
        let other = json!({"selector": {"matchLabels": {"app": "b"}}});
        for kind in [Kind::Deployment, Kind::ReplicaSet, Kind::StatefulSet, Kind::DaemonSet] {
            assert_eq!(said(kind, &json!({})), [""; 0]);
            assert_eq!(said(kind, &other), [MISMATCH]);
        }
        let never = json!({"template": {"spec": {"restartPolicy": "Never"}}});
        let manual = json!({"manualSelector": true, "template": {"spec": {"restartPolicy": "Never"}}});
        assert_eq!(said(Kind::Job, &never), [""; 0]);
        assert_eq!(said(Kind::Job, &manual), [""; 0]);
        let manual_for_others =
            json!({"manualSelector": true, "selector": other["selector"], "template": never["template"]});
        assert_eq!(said(Kind::Job, &manual_for_others), [MISMATCH]);
    }

    #[test]
    fn a_selector_is_neither_missing_nor_empty() {
        const REQUIRED: &str = "spec.selector: Required value";
        let missing = json!({"selector": null});
        assert_eq!(said(Kind::Deployment, &missing), [REQUIRED, MISMATCH]);
        assert_eq!(said(Kind::DaemonSet, &missing), [MISMATCH]);
        let empty = json!({"selector": {"matchLabels": null}});
        for (kind, name) in [
            (Kind::Deployment, "deployment"),
            (Kind::ReplicaSet, "deployment"),
            (Kind::StatefulSet, "statefulset"),
            (Kind::DaemonSet, "daemonset"),
        ] {
            let why = format!("spec.selector: Invalid value: {{}}: empty selector is invalid for {name}");
            assert_eq!(said(kind, &empty), [why]);
        }
    }

    #[test]
    fn a_selector_that_is_missing_stays_so_when_it_is_read() {
        for (given, expected) in [(Value::Null, Value::Null), (json!({}), json!({}))] {
            let mut set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": {"selector": given}});
            check(Kind::ReplicaSet, &mut set).unwrap();
            assert_eq!(set["spec"]["selector"], expected);
        }
    }

    #[test]
    fn amounts_that_are_none_are_refused() {
        let container = json!({"name": "a", "image": "b", "resources": {"requests": {"cpu": "lots", "memory": "1Gi"}}});
        let mut causes = Vec::new();
        pod_spec("spec", &json!({"containers": [container]}), &mut causes);
        assert_eq!(causes.len(), 1, "{causes:?}");
    }

    #[test]
    fn pods_restart_as_their_owner_needs_it() {
        let policy = |policy: &str| json!({"template": {"spec": {"restartPolicy": policy}}});
        let at = "spec.template.spec.restartPolicy";
        let expected = format!("{at}: Unsupported value: \"Never\": supported values: \"Always\"");
        for kind in [Kind::ReplicaSet, Kind::DaemonSet] {
            assert_eq!(said(kind, &policy("Never")), [expected.as_str()]);
        }
        let expected = format!("{at}: Required value: valid values: \"OnFailure\", \"Never\"");
        assert_eq!(said(Kind::Job, &policy("Always")), [expected]);
        let expected = format!("{at}: Unsupported value: \"Odd\": supported values: \"OnFailure\", \"Never\"");
        assert_eq!(said(Kind::Job, &policy("Odd")), [expected]);
    }

    #[test]
    fn a_budget_says_only_one_of_two_things() {
        let causes = |spec: Value| new_object(Kind::PodDisruptionBudget, &json!({"spec": spec}));
        assert_eq!(causes(json!({"minAvailable": 1})), []);
        let said = causes(json!({"minAvailable": 1, "maxUnavailable": 1}));
        assert!(said[0].message.ends_with("minAvailable and maxUnavailable cannot be both set"), "{said:?}");
    }
}
