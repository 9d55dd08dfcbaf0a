//! Saying no in the API's words.

use serde_json::{Value, json};

use super::{Refusal, meta};
use crate::kinds::Kind;

/// A refusal with the details that the HTTP face adds to it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Denial {
    pub(super) refusal: Refusal,
    /// The `details` of the `Status`, or null.
    pub(super) details: Value,
}

/// What is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cause {
    pub(super) field: String,
    /// Such as `FieldValueRequired`.
    pub(super) reason: &'static str,
    /// Without the field, such as `Required value`.
    pub(super) message: String,
}

impl Cause {
    pub(super) fn required(field: impl Into<String>, why: &str) -> Self {
        let message = if why.is_empty() { "Required value".to_owned() } else { format!("Required value: {why}") };
        Self { field: field.into(), reason: "FieldValueRequired", message }
    }

    pub(super) fn invalid(field: impl Into<String>, value: &Value, why: &str) -> Self {
        Self { field: field.into(), reason: "FieldValueInvalid", message: format!("Invalid value: {value}: {why}") }
    }

    pub(super) fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Self { field: field.into(), reason: "FieldValueForbidden", message: format!("Forbidden: {why}") }
    }

    pub(super) fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self { field: field.into(), reason: "FieldValueDuplicate", message: format!("Duplicate value: {value}") }
    }

    pub(super) fn immutable(field: impl Into<String>, value: &Value) -> Self {
        Self::invalid(field, value, "field is immutable")
    }
}

impl Denial {
    fn new(code: u16, reason: &'static str, message: String, details: Value) -> Self {
        Self { refusal: Refusal { code, reason, message }, details }
    }

    pub(super) fn not_found(kind: Kind, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", resource(kind));
        Self::new(404, "NotFound", message, details(kind, name))
    }

    pub(super) fn already_exists(kind: Kind, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", resource(kind));
        Self::new(409, "AlreadyExists", message, details(kind, name))
    }

    /// The optimistic lock was lost.
    pub(super) fn modified(kind: Kind, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(kind, name, why)
    }

    pub(super) fn conflict(kind: Kind, name: &str, why: &str) -> Self {
        Self::conflict_on(&resource(kind), kind, name, why)
    }

    pub(super) fn conflict_on(what: &str, kind: Kind, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {what} \"{name}\": {why}");
        Self::new(409, "Conflict", message, details(kind, name))
    }

    pub(super) fn invalid(kind: Kind, name: &str, causes: &[Cause]) -> Self {
        let group = kind.group();
        let what = if group.is_empty() { kind.to_string() } else { format!("{kind}.{group}") };
        Self::invalid_as(&what, name, causes)
    }

    /// As `invalid`, of something that is no kind of its own; `what` has its group behind a dot.
    pub(super) fn invalid_as(what: &str, name: &str, causes: &[Cause]) -> Self {
        let said: Vec<String> = causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        let said = if said.len() == 1 { said.concat() } else { format!("[{}]", said.join(", ")) };
        let (kind, group) = what.split_once('.').unwrap_or((what, ""));
        let mut details = json!({"name": name, "kind": kind});
        if !group.is_empty() {
            details["group"] = group.into();
        }
        let list =
            causes.iter().map(|cause| json!({"reason": cause.reason, "message": cause.message, "field": cause.field}));
        details["causes"] = list.collect();
        Self::new(422, "Invalid", format!("{what} \"{name}\" is invalid: {said}"), details)
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message.into(), Value::Null)
    }

    pub(super) fn forbidden(kind: Kind, name: &str, why: &str) -> Self {
        let message = format!("{} \"{name}\" is forbidden: {why}", resource(kind));
        Self::new(403, "Forbidden", message, details(kind, name))
    }

    pub(super) fn with_reason(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(code, reason, message.into(), Value::Null)
    }

    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "InternalError", message.into(), Value::Null)
    }

    /// As `internal`, without a reason, as handlers give that make their own `Status`.
    pub(super) fn bare(code: u16, message: impl Into<String>) -> Self {
        Self::new(code, "", message.into(), Value::Null)
    }

    pub(super) fn too_many_requests(message: &str, cause: &Value, retry_after_secs: u32) -> Self {
        let mut details = json!({"causes": [cause]});
        if retry_after_secs > 0 {
            details["retryAfterSeconds"] = retry_after_secs.into();
        }
        Self::new(429, "TooManyRequests", message.to_owned(), details)
    }

    pub(super) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message.into(), Value::Null)
    }

    pub(super) fn with_cause(mut self, cause: &Value) -> Self {
        self.details["causes"] = json!([cause]);
        self
    }

    /// As a `Status` on the wire.
    pub(super) fn status(&self) -> Value {
        let Refusal { code, reason, message } = &self.refusal;
        let mut status = json!({
            "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "message": message, "code": code,
        });
        if !reason.is_empty() {
            status["reason"] = (*reason).into();
        }
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }
}

impl From<Denial> for Refusal {
    fn from(denial: Denial) -> Self {
        denial.refusal
    }
}

/// The kind that an object says it is of.
pub(super) fn kind_of(object: &Value) -> Result<Kind, Denial> {
    let (version, kind) =
        (object["apiVersion"].as_str().unwrap_or_default(), object["kind"].as_str().unwrap_or_default());
    Kind::of(version, kind).ok_or_else(|| not_served(version, kind))
}

/// The kind or plural is none that is served.
pub(super) fn not_served(version: &str, kind: &str) -> Denial {
    let message = format!("the simulator does not serve {kind} of {version}: the kind is not in its list");
    Denial::new(404, "NotFound", message, json!({"kind": kind}))
}

/// The plural with its group, such as `deployments.apps`.
pub(super) fn resource(kind: Kind) -> String {
    match kind.group() {
        "" => kind.plural().to_owned(),
        group => format!("{}.{group}", kind.plural()),
    }
}

fn details(kind: Kind, name: &str) -> Value {
    let mut details = json!({"name": name, "kind": kind.plural()});
    if !kind.group().is_empty() {
        details["group"] = kind.group().into();
    }
    details
}

/// The name by which an object is spoken of when it is refused: its own, or what its name begins with.
pub(super) fn spoken_name(object: &Value) -> &str {
    match meta::name(object) {
        "" => object["metadata"]["generateName"].as_str().unwrap_or_default(),
        name => name,
    }
}
