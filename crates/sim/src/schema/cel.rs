//! The part of the Common Expression Language that rules of our definitions use, with the API server's view of objects.
//!
//! Expressions run on JSON as it lies, without copies, and patterns are compiled with the rule. What is not supported is an error
//! when the rule is read, never a wrong verdict later.

mod evaluate;
mod lexer;
mod parser;
mod value;

use serde_json::Value;

use self::parser::Expr;
use self::value::Val;
use super::node::Node;

/// A rule, ready to be run.
pub(super) struct Expression {
    root: Expr,
    compares_with_old: bool,
}

/// What a rule is run on.
pub(super) struct Subject<'a> {
    pub(super) node: &'a Node,
    pub(super) value: &'a Value,
    pub(super) old: Option<&'a Value>,
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EvaluationError {
    /// An operation on values that it is not made for.
    NoSuchOverload,
    Other(String),
}

impl EvaluationError {
    fn other(problem: impl Into<String>) -> Self {
        Self::Other(problem.into())
    }
}

impl Expression {
    pub(super) fn compile(text: &str) -> Result<Self, String> {
        let parsed = parser::parse(text)?;
        Ok(Self { root: parsed.root, compares_with_old: parsed.uses_old })
    }

    /// Whether it speaks of `oldSelf`, so that it can only be run when something was there before.
    pub(super) fn compares_with_old(&self) -> bool {
        self.compares_with_old
    }

    pub(super) fn holds(&self, subject: &Subject<'_>) -> Result<bool, EvaluationError> {
        let this = Val::of(subject.value, subject.node)?;
        let old = match subject.old {
            Some(old) if self.compares_with_old => Val::of(old, subject.node)?,
            _ => Val::Null,
        };
        match evaluate::evaluate(&self.root, &mut vec![this, old])? {
            Val::Bool(holds) => Ok(holds),
            _ => Err(EvaluationError::NoSuchOverload),
        }
    }
}

#[cfg(test)]
mod tests;
