//! One node of a schema, read once, with everything prepared that checks need.

use std::collections::BTreeMap;

use serde_json::{Number, Value};

use super::error::SchemaError;
use super::pattern::Pattern;
use super::rules::Rule;

#[derive(Default)]
pub(super) struct Node {
    pub(super) kind: Type,
    pub(super) format: Option<Format>,
    pub(super) is_nullable: bool,
    pub(super) default: Option<Value>,
    pub(super) properties: BTreeMap<String, Node>,
    pub(super) required: Vec<String>,
    /// What entries of a map are.
    pub(super) entries: Option<Box<Node>>,
    pub(super) keeps_unknown_fields: bool,
    pub(super) max_properties: Option<usize>,
    pub(super) items: Option<Box<Node>>,
    pub(super) list: ListKind,
    pub(super) min_items: Option<usize>,
    pub(super) max_items: Option<usize>,
    pub(super) allowed: Vec<Value>,
    pub(super) pattern: Option<Pattern>,
    pub(super) min_length: Option<usize>,
    pub(super) max_length: Option<usize>,
    pub(super) minimum: Option<Number>,
    pub(super) maximum: Option<Number>,
    pub(super) rules: Vec<Rule>,
    /// Whether there are rules here or below, so that a walk may stop early.
    pub(super) leads_to_rules: bool,
    /// The same for lists whose entries must differ.
    pub(super) leads_to_unique_lists: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Type {
    /// Nothing is said about it.
    #[default]
    Any,
    Object,
    Array,
    Text,
    Integer,
    Number,
    Boolean,
    IntOrString,
}

impl Type {
    /// The names that the API knows it by.
    pub(super) fn names(self) -> &'static [&'static str] {
        match self {
            Self::Any => &[],
            Self::Object => &["object"],
            Self::Array => &["array"],
            Self::Text => &["string"],
            Self::Integer => &["integer"],
            Self::Number => &["number"],
            Self::Boolean => &["boolean"],
            Self::IntOrString => &["integer", "string"],
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Int32,
    Int64,
    DateTime,
}

impl Format {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::DateTime => "date-time",
        }
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum ListKind {
    /// A list that is replaced as a whole. Its entries are not known again after a change.
    #[default]
    Atomic,
    Set,
    /// Entries are told apart by these fields.
    Map(Vec<String>),
}

impl Node {
    /// Reads a schema. A keyword that would go unchecked is an error.
    pub(super) fn read(schema: &Value, place: &str) -> Result<Self, SchemaError> {
        let keywords = schema.as_object().ok_or_else(|| SchemaError::new(place, "is not an object"))?;
        let mut node = Self::default();
        for (keyword, value) in keywords {
            let known = node.take_structure(keyword, value, place)? || node.take_limit(keyword, value, place)?;
            if !known {
                return Err(SchemaError::new(place, format!("the keyword `{keyword}` is not supported")));
            }
        }
        node.read_list(schema, place)?;
        node.read_int_or_string(schema, place)?;
        node.read_rules(schema, place)?;
        let below = || node.properties.values().chain(node.entries.as_deref()).chain(node.items.as_deref());
        node.leads_to_rules = !node.rules.is_empty() || below().any(|child| child.leads_to_rules);
        node.leads_to_unique_lists = node.list != ListKind::Atomic || below().any(|child| child.leads_to_unique_lists);
        Ok(node)
    }

    fn take_structure(&mut self, keyword: &str, value: &Value, place: &str) -> Result<bool, SchemaError> {
        match keyword {
            "description" => {}
            // These are read together once all keywords are known.
            "anyOf"
            | "x-kubernetes-int-or-string"
            | "x-kubernetes-list-type"
            | "x-kubernetes-list-map-keys"
            | "x-kubernetes-validations" => {}
            // Entries of a map keep their names, whether it is changed as a whole or one by one.
            "x-kubernetes-map-type" => {}
            "type" => self.kind = type_named(value, place)?,
            "nullable" => self.is_nullable = flag(value, keyword, place)?,
            "default" => self.default = Some(value.clone()),
            "x-kubernetes-preserve-unknown-fields" => self.keeps_unknown_fields = flag(value, keyword, place)?,
            "properties" => {
                for (name, property) in value.as_object().into_iter().flatten() {
                    let below = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
                    self.properties.insert(name.clone(), Self::read(property, &below)?);
                }
            }
            "additionalProperties" => self.entries = Some(Box::new(Self::read(value, &format!("{place}[*]"))?)),
            "items" => self.items = Some(Box::new(Self::read(value, &format!("{place}[]"))?)),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn take_limit(&mut self, keyword: &str, value: &Value, place: &str) -> Result<bool, SchemaError> {
        let wrong = || SchemaError::new(place, format!("`{keyword}` cannot be {value}"));
        let count = || value.as_u64().and_then(|count| usize::try_from(count).ok()).ok_or_else(wrong);
        let number = || value.as_number().cloned().ok_or_else(wrong);
        match keyword {
            "format" => self.format = Some(format_named(value).ok_or_else(wrong)?),
            "required" => self.required = texts(value).ok_or_else(wrong)?,
            "enum" => self.allowed = value.as_array().cloned().ok_or_else(wrong)?,
            "pattern" => {
                let pattern = Pattern::new(value.as_str().ok_or_else(wrong)?);
                self.pattern = Some(pattern.map_err(|problem| SchemaError::new(place, problem))?);
            }
            "minimum" => self.minimum = Some(number()?),
            "maximum" => self.maximum = Some(number()?),
            "minLength" => self.min_length = Some(count()?),
            "maxLength" => self.max_length = Some(count()?),
            "minItems" => self.min_items = Some(count()?),
            "maxItems" => self.max_items = Some(count()?),
            "maxProperties" => self.max_properties = Some(count()?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn read_list(&mut self, schema: &Value, place: &str) -> Result<(), SchemaError> {
        let keys = texts(&schema["x-kubernetes-list-map-keys"]).unwrap_or_default();
        self.list = match schema["x-kubernetes-list-type"].as_str() {
            None | Some("atomic") => ListKind::Atomic,
            Some("set") => ListKind::Set,
            Some("map") if !keys.is_empty() => ListKind::Map(keys),
            Some(other) => return Err(SchemaError::new(place, format!("a list of type `{other}` with keys {keys:?}"))),
        };
        if self.kind == Type::Array && (self.items.is_none() || self.keeps_unknown_fields) {
            return Err(SchemaError::new(place, "says nothing about the entries of a list"));
        }
        Ok(())
    }

    /// `anyOf` may only say what `x-kubernetes-int-or-string` says anyway.
    fn read_int_or_string(&mut self, schema: &Value, place: &str) -> Result<(), SchemaError> {
        let is_int_or_string = schema["x-kubernetes-int-or-string"] == true;
        let either = serde_json::json!([{"type": "integer"}, {"type": "string"}]);
        if !schema["anyOf"].is_null() && (!is_int_or_string || schema["anyOf"] != either) {
            return Err(SchemaError::new(place, "`anyOf` is only supported for what is an integer or a string"));
        }
        if is_int_or_string {
            self.kind = Type::IntOrString;
        }
        Ok(())
    }

    fn read_rules(&mut self, schema: &Value, place: &str) -> Result<(), SchemaError> {
        for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
            let rule = Rule::read(rule, self).map_err(|problem| SchemaError::new(place, problem))?;
            self.rules.push(rule);
        }
        Ok(())
    }

    /// The schema of a field or of an entry of a map; `None` for a field that is not known.
    pub(super) fn member(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(self.entries.as_deref())
    }

    /// Whether it is an object or a list, whose value messages leave out.
    pub(super) fn is_compound(&self) -> bool {
        matches!(self.kind, Type::Object | Type::Array)
    }
}

fn type_named(value: &Value, place: &str) -> Result<Type, SchemaError> {
    match value.as_str() {
        Some("object") => Ok(Type::Object),
        Some("array") => Ok(Type::Array),
        Some("string") => Ok(Type::Text),
        Some("integer") => Ok(Type::Integer),
        Some("number") => Ok(Type::Number),
        Some("boolean") => Ok(Type::Boolean),
        _ => Err(SchemaError::new(place, format!("the type cannot be {value}"))),
    }
}

fn format_named(value: &Value) -> Option<Format> {
    [Format::Int32, Format::Int64, Format::DateTime].into_iter().find(|format| value == format.as_str())
}

fn flag(value: &Value, keyword: &str, place: &str) -> Result<bool, SchemaError> {
    value.as_bool().ok_or_else(|| SchemaError::new(place, format!("`{keyword}` cannot be {value}")))
}

fn texts(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|entry| entry.as_str().map(str::to_owned)).collect()
}
