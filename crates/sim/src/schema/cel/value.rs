//! Values of expressions, and what a schema makes of JSON.

use std::cmp::Ordering;
use std::rc::Rc;

use jiff::Timestamp;
use serde_json::Value;

use super::EvaluationError;
use crate::schema::node::{Format, ListKind, Node, Type};

#[derive(Clone)]
pub(super) enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(&'a str),
    Instant(Timestamp),
    /// An object, a list, or something whose type nobody says.
    Json(&'a Value, &'a Node),
    /// A list that the expression made.
    List(Rc<[Val<'a>]>),
}

impl<'a> Val<'a> {
    /// What JSON means under its schema.
    pub(super) fn of(value: &'a Value, node: &'a Node) -> Result<Self, EvaluationError> {
        let val = match (node.kind, value) {
            (_, Value::Null) if node.is_nullable => Val::Null,
            (_, Value::Null) => {
                return Err(EvaluationError::other("invalid data, got null for schema with nullable=false"));
            }
            (Type::Any, _) | (Type::Object, Value::Object(_)) | (Type::Array, Value::Array(_)) => {
                Val::Json(value, node)
            }
            (Type::Text, Value::String(text)) if node.format == Some(Format::DateTime) => {
                let instant = text
                    .parse::<Timestamp>()
                    .map_err(|e| EvaluationError::other(format!("Invalid date-time formatted string {text}: {e}")))?;
                Val::Instant(instant)
            }
            (Type::Text | Type::IntOrString, Value::String(text)) => Val::Text(text),
            (Type::Integer | Type::IntOrString, Value::Number(number)) if number.is_i64() => {
                Val::Int(number.as_i64().unwrap_or_default())
            }
            (Type::Number, Value::Number(number)) => Val::Double(number.as_f64().unwrap_or_default()),
            (Type::Boolean, Value::Bool(flag)) => Val::Bool(*flag),
            (kind, _) => {
                let problem = format!("invalid data, expected {}", kind.names().join(" or "));
                return Err(EvaluationError::other(problem));
            }
        };
        Ok(val)
    }

    /// A field of an object or an entry of a map, if it is there. Where fields are declared, a null is not there.
    pub(super) fn member(&self, name: &str) -> Result<Option<Val<'a>>, EvaluationError> {
        let Val::Json(Value::Object(fields), node) = self else { return Err(EvaluationError::NoSuchOverload) };
        let found = fields.get(name).filter(|value| node.properties.is_empty() || !value.is_null());
        match (found, node.member(name)) {
            (Some(value), Some(member)) => Val::of(value, member).map(Some),
            _ => Ok(None),
        }
    }

    pub(super) fn is_true(&self) -> Result<bool, EvaluationError> {
        match self {
            Val::Bool(is_true) => Ok(*is_true),
            _ => Err(EvaluationError::NoSuchOverload),
        }
    }

    pub(super) fn as_text(&self) -> Result<&'a str, EvaluationError> {
        match self {
            Val::Text(text) => Ok(*text),
            _ => Err(EvaluationError::NoSuchOverload),
        }
    }

    pub(super) fn is_equal(&self, other: &Val<'_>) -> bool {
        match (self, other) {
            (Val::Json(value, node), Val::Json(other, other_node)) => are_equal(value, node, other, other_node),
            (Val::Json(..) | Val::List(_), Val::Json(..) | Val::List(_)) => match (self.entries(), other.entries()) {
                (Ok(entries), Ok(others)) => {
                    let (entries, others): (Vec<_>, Vec<_>) = (entries.collect(), others.collect());
                    entries.len() == others.len()
                        && entries.iter().zip(&others).all(|pair| match pair {
                            (Ok(entry), Ok(other)) => entry.is_equal(other),
                            _ => false,
                        })
                }
                _ => false,
            },
            (Val::Null, Val::Null) => true,
            _ => self.order(other) == Some(Ordering::Equal),
        }
    }

    /// Which comes first; `None` for what has no order.
    pub(super) fn order(&self, other: &Val<'_>) -> Option<Ordering> {
        match (self, other) {
            (Val::Bool(left), Val::Bool(right)) => Some(left.cmp(right)),
            (Val::Text(left), Val::Text(right)) => Some((*left).cmp(*right)),
            (Val::Instant(left), Val::Instant(right)) => Some(left.cmp(right)),
            (Val::Int(left), Val::Int(right)) => Some(left.cmp(right)),
            (Val::Int(_) | Val::Double(_), Val::Int(_) | Val::Double(_)) => {
                self.as_double()?.partial_cmp(&other.as_double()?)
            }
            _ => None,
        }
    }

    /// An integer beside a float is compared as one.
    fn as_double(&self) -> Option<f64> {
        match self {
            Val::Int(int) => Some(*int as f64),
            Val::Double(double) => Some(*double),
            _ => None,
        }
    }

    /// Entries of a list, or keys of a map.
    pub(super) fn entries(&self) -> Result<Entries<'a>, EvaluationError> {
        match self {
            Val::List(list) => {
                let list = Rc::clone(list);
                Ok(Box::new((0..list.len()).map(move |index| Ok(list[index].clone()))))
            }
            Val::Json(Value::Array(entries), node) => {
                let items = node.items.as_deref().ok_or(EvaluationError::NoSuchOverload)?;
                Ok(Box::new(entries.iter().map(|entry| Val::of(entry, items))))
            }
            Val::Json(Value::Object(fields), node) => {
                let node = *node;
                let known = fields.keys().filter(|name| node.member(name).is_some());
                Ok(Box::new(known.map(|name| Ok(Val::Text(name)))))
            }
            _ => Err(EvaluationError::NoSuchOverload),
        }
    }
}

pub(super) type Entries<'a> = Box<dyn Iterator<Item = Result<Val<'a>, EvaluationError>> + 'a>;

/// Equality of JSON under a schema: order means nothing in sets and in lists with keys, and instants may be written differently.
fn are_equal(value: &Value, node: &Node, other: &Value, other_node: &Node) -> bool {
    match (value, other) {
        (Value::Object(fields), Value::Object(others)) => {
            fields.len() == others.len()
                && fields.iter().all(|(name, value)| {
                    match (node.member(name), other_node.member(name), others.get(name)) {
                        (Some(member), Some(other_member), Some(other)) => {
                            are_equal(value, member, other, other_member)
                        }
                        (None, _, found) => found.is_none_or(|other| value == other),
                        _ => false,
                    }
                })
        }
        (Value::Array(entries), Value::Array(others)) => {
            let (Some(items), Some(other_items)) = (node.items.as_deref(), other_node.items.as_deref()) else {
                return entries == others;
            };
            let are_same = |entry: &Value, other: &Value| are_equal(entry, items, other, other_items);
            entries.len() == others.len()
                && match node.list {
                    ListKind::Atomic => entries.iter().zip(others).all(|(entry, other)| are_same(entry, other)),
                    // Entries differ from each other here, so looking each one up is enough.
                    ListKind::Set | ListKind::Map(_) => {
                        others.iter().all(|other| entries.iter().any(|entry| are_same(entry, other)))
                    }
                }
        }
        _ if value == other => true,
        _ => match (Val::of(value, node), Val::of(other, other_node)) {
            (Ok(Val::Json(..)), _) | (_, Ok(Val::Json(..))) => false,
            (Ok(value), Ok(other)) => value.is_equal(&other),
            _ => false,
        },
    }
}
