//! Running an expression.

use std::cmp::Ordering;
use std::num::IntErrorKind;

use serde_json::Value;

use super::EvaluationError as Error;
use super::parser::{Comparison, Expr, Macro, TextFunction};
use super::value::Val;

/// The value of an expression. Variables are the object, the old object, and those of the macros around it.
pub(super) fn evaluate<'a>(expr: &'a Expr, variables: &mut Vec<Val<'a>>) -> Result<Val<'a>, Error> {
    match expr {
        Expr::Null => Ok(Val::Null),
        Expr::Bool(flag) => Ok(Val::Bool(*flag)),
        Expr::Int(int) => Ok(Val::Int(*int)),
        Expr::Double(double) => Ok(Val::Double(*double)),
        Expr::Text(text) => Ok(Val::Text(text)),
        Expr::List(entries) => {
            let entries: Result<Vec<_>, _> = entries.iter().map(|entry| evaluate(entry, variables)).collect();
            Ok(Val::List(entries?.into()))
        }
        Expr::Variable(place) => Ok(variables[*place].clone()),
        Expr::Select(operand, name) => {
            let member = evaluate(operand, variables)?.member(name)?;
            member.ok_or_else(|| Error::other(format!("no such key: {name}")))
        }
        Expr::Has(operand, name) => Ok(Val::Bool(evaluate(operand, variables)?.member(name)?.is_some())),
        Expr::Index(operand, index) => at(&evaluate(operand, variables)?, &evaluate(index, variables)?),
        Expr::Not(operand) => Ok(Val::Bool(!evaluate(operand, variables)?.is_true()?)),
        Expr::And(parts) => decide(parts.iter().map(|part| evaluate(part, variables)), false),
        Expr::Or(parts) => decide(parts.iter().map(|part| evaluate(part, variables)), true),
        Expr::Conditional(parts) => {
            let [condition, then, otherwise] = &**parts;
            evaluate(if evaluate(condition, variables)?.is_true()? { then } else { otherwise }, variables)
        }
        Expr::Compare(Comparison::In, operands) => is_in(operands, variables),
        Expr::Compare(comparison, operands) => {
            let left = evaluate(&operands[0], variables)?;
            compare(*comparison, &left, &evaluate(&operands[1], variables)?)
        }
        Expr::Size(operand) => size(&evaluate(operand, variables)?),
        Expr::ToInt(operand) => to_int(&evaluate(operand, variables)?),
        Expr::OnTexts(function, operands) => {
            let text = evaluate(&operands[0], variables)?.as_text()?;
            Ok(on_texts(*function, text, evaluate(&operands[1], variables)?.as_text()?))
        }
        Expr::Matches(operand, pattern) => Ok(Val::Bool(pattern.is_match(evaluate(operand, variables)?.as_text()?))),
        Expr::Find(operand, pattern) => Ok(Val::Text(pattern.find(evaluate(operand, variables)?.as_text()?))),
        Expr::Each(kind, parts) => each(*kind, &parts[0], &parts[1], variables),
    }
}

/// One part with the deciding value decides, even beside parts that have none.
fn decide<'a>(parts: impl Iterator<Item = Result<Val<'a>, Error>>, deciding: bool) -> Result<Val<'a>, Error> {
    let mut problem = None;
    for part in parts {
        match part.and_then(|part| part.is_true()) {
            Ok(found) if found == deciding => return Ok(Val::Bool(deciding)),
            Ok(_) => {}
            Err(error) => problem = problem.or(Some(error)),
        }
    }
    problem.map_or(Ok(Val::Bool(!deciding)), Err)
}

fn each<'a>(kind: Macro, range: &'a Expr, body: &'a Expr, variables: &mut Vec<Val<'a>>) -> Result<Val<'a>, Error> {
    let entries = evaluate(range, variables)?.entries()?;
    let mut judge = |entry: Result<Val<'a>, Error>| {
        variables.push(entry?);
        let verdict = evaluate(body, variables);
        variables.pop();
        verdict
    };
    match kind {
        Macro::All => decide(entries.map(judge), false),
        Macro::Exists => decide(entries.map(judge), true),
        Macro::Filter => {
            let mut kept = Vec::new();
            for entry in entries {
                let entry = entry?;
                if judge(Ok(entry.clone()))?.is_true()? {
                    kept.push(entry);
                }
            }
            Ok(Val::List(kept.into()))
        }
    }
}

fn at<'a>(operand: &Val<'a>, index: &Val<'a>) -> Result<Val<'a>, Error> {
    match (operand, index) {
        (Val::Json(Value::Object(_), _), Val::Text(name)) => {
            operand.member(name)?.ok_or_else(|| Error::other(format!("no such key: {name}")))
        }
        (Val::Json(Value::Array(_), _) | Val::List(_), Val::Int(index)) => {
            let entry = usize::try_from(*index).ok().and_then(|place| operand.entries().ok()?.nth(place));
            entry.unwrap_or_else(|| Err(Error::other(format!("index out of bounds: {index}"))))
        }
        _ => Err(Error::NoSuchOverload),
    }
}

fn is_in<'a>(operands: &'a [Expr; 2], variables: &mut Vec<Val<'a>>) -> Result<Val<'a>, Error> {
    let sought = evaluate(&operands[0], variables)?;
    // Most lists are written out in the rule. They need not be made to be searched.
    if let Expr::List(entries) = &operands[1] {
        for entry in entries {
            if evaluate(entry, variables)?.is_equal(&sought) {
                return Ok(Val::Bool(true));
            }
        }
        return Ok(Val::Bool(false));
    }
    let range = evaluate(&operands[1], variables)?;
    if let Val::Json(Value::Object(_), _) = range {
        return Ok(Val::Bool(range.member(sought.as_text()?)?.is_some()));
    }
    let verdicts = range.entries()?.map(|entry| Ok(Val::Bool(entry?.is_equal(&sought))));
    decide(verdicts, true)
}

fn compare<'a>(comparison: Comparison, left: &Val<'_>, right: &Val<'_>) -> Result<Val<'a>, Error> {
    let order = || left.order(right).ok_or(Error::NoSuchOverload);
    let holds = match comparison {
        Comparison::Equal => left.is_equal(right),
        Comparison::Unequal => !left.is_equal(right),
        Comparison::Less => order()? == Ordering::Less,
        Comparison::LessOrEqual => order()? != Ordering::Greater,
        Comparison::Greater => order()? == Ordering::Greater,
        Comparison::GreaterOrEqual => order()? != Ordering::Less,
        Comparison::In => return Err(Error::NoSuchOverload),
    };
    Ok(Val::Bool(holds))
}

fn size<'a>(operand: &Val<'_>) -> Result<Val<'a>, Error> {
    let size = match operand {
        Val::Text(text) => text.chars().count(),
        Val::List(list) => list.len(),
        Val::Json(Value::Array(entries), _) => entries.len(),
        Val::Json(Value::Object(fields), _) => fields.len(),
        _ => return Err(Error::NoSuchOverload),
    };
    Ok(Val::Int(i64::try_from(size).unwrap_or(i64::MAX)))
}

fn to_int<'a>(operand: &Val<'_>) -> Result<Val<'a>, Error> {
    match operand {
        Val::Int(int) => Ok(Val::Int(*int)),
        Val::Text(text) => text.parse().map(Val::Int).map_err(|e: std::num::ParseIntError| {
            let is_beyond = matches!(e.kind(), IntErrorKind::PosOverflow | IntErrorKind::NegOverflow);
            let problem = if is_beyond { "value out of range" } else { "invalid syntax" };
            Error::other(format!("strconv.ParseInt: parsing {text:?}: {problem}"))
        }),
        _ => Err(Error::NoSuchOverload),
    }
}

fn on_texts<'a>(function: TextFunction, text: &'a str, argument: &str) -> Val<'a> {
    match function {
        TextFunction::StartsWith => Val::Bool(text.starts_with(argument)),
        TextFunction::EndsWith => Val::Bool(text.ends_with(argument)),
        TextFunction::Contains => Val::Bool(text.contains(argument)),
        TextFunction::Split if argument.is_empty() => {
            Val::List(text.split("").filter(|letter| !letter.is_empty()).map(Val::Text).collect())
        }
        TextFunction::Split => Val::List(text.split(argument).map(Val::Text).collect()),
    }
}
