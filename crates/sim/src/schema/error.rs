//! What is wrong with an object, in the API server's words.

use std::fmt;

use serde_json::Value;

/// One cause of a refusal, as the details of a `Status` name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Such as `spec.template.spec.requirements[0].operator`.
    pub field: String,
    pub kind: FieldErrorKind,
    /// Without the field: `Invalid value: "x": spec.weight in body must be …`.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldErrorKind {
    Required,
    Invalid,
    NotSupported,
    TooLong,
    TooMany,
    TypeInvalid,
    Duplicate,
    Forbidden,
}

impl FieldErrorKind {
    /// The cause's `reason` in a `Status`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
        }
    }

    /// How messages of this kind begin.
    fn words(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Duplicate => "Duplicate value",
            Self::Forbidden => "Forbidden",
        }
    }

    /// Whether rules could stumble over a value with this fault. The API server runs none of an object's rules then.
    pub(super) fn keeps_rules_from_running(self) -> bool {
        matches!(self, Self::Required | Self::NotSupported | Self::TooLong | Self::TooMany | Self::TypeInvalid)
    }
}

impl FieldError {
    pub(super) fn new(kind: FieldErrorKind, field: String, detail: &str) -> Self {
        let mut message = kind.words().to_owned();
        if !detail.is_empty() {
            message = format!("{message}: {detail}");
        }
        Self { field, kind, message }
    }

    /// The same with the value that was found.
    pub(super) fn with_value(kind: FieldErrorKind, field: String, value: &Value, detail: &str) -> Self {
        let value = match value {
            Value::String(text) => format!("{text:?}"),
            other => other.to_string(),
        };
        let separator = if detail.is_empty() { "" } else { ": " };
        Self::new(kind, field, &format!("{value}{separator}{detail}"))
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// A definition that cannot be used: it says something that is not supported here, or that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("schema of {place}: {problem}")]
pub struct SchemaError {
    /// Where in the definition, such as `spec.requirements[].key`.
    pub place: String,
    pub problem: String,
}

impl SchemaError {
    pub(super) fn new(place: &str, problem: impl Into<String>) -> Self {
        Self {
            place: if place.is_empty() { "the object".to_owned() } else { place.to_owned() },
            problem: problem.into(),
        }
    }
}
