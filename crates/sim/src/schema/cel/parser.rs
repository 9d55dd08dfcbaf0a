//! From words to an expression.

use super::lexer::{Token, tokens};
use crate::schema::pattern::Pattern;

pub(super) enum Expr {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(String),
    List(Vec<Expr>),
    /// By its place among the variables that are known where it stands: the object, the old object, then those of macros.
    Variable(usize),
    Select(Box<Expr>, String),
    Has(Box<Expr>, String),
    Index(Box<Expr>, Box<Expr>),
    Not(Box<Expr>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Conditional(Box<[Expr; 3]>),
    Compare(Comparison, Box<[Expr; 2]>),
    Size(Box<Expr>),
    ToInt(Box<Expr>),
    OnTexts(TextFunction, Box<[Expr; 2]>),
    Matches(Box<Expr>, Box<Pattern>),
    Find(Box<Expr>, Box<Pattern>),
    /// A macro over the entries of a list or the keys of a map. The body sees the entry as its last variable.
    Each(Macro, Box<[Expr; 2]>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextFunction {
    StartsWith,
    EndsWith,
    Contains,
    Split,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Macro {
    All,
    Exists,
    Filter,
}

pub(super) struct Parsed {
    pub(super) root: Expr,
    pub(super) uses_old: bool,
}

/// How the object and the old object are called, in the order of their places among the variables.
const SELF: [&str; 2] = ["self", "oldSelf"];

pub(super) fn parse(text: &str) -> Result<Parsed, String> {
    let variables = SELF.map(str::to_owned).to_vec();
    let mut parser = Parser { tokens: tokens(text)?, at: 0, variables, uses_old: false };
    let root = parser.expression()?;
    match parser.peek() {
        None => Ok(Parsed { root, uses_old: parser.uses_old }),
        Some(token) => Err(format!("did not expect {token:?}")),
    }
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    variables: Vec<String>,
    uses_old: bool,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Result<Token, String> {
        let token = self.peek().cloned().ok_or("ends too early")?;
        self.at += 1;
        Ok(token)
    }

    fn take(&mut self, mark: &str) -> bool {
        let is_there = matches!(self.peek(), Some(Token::Mark(found)) if *found == mark);
        self.at += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, mark: &str) -> Result<(), String> {
        if self.take(mark) { Ok(()) } else { Err(format!("expected `{mark}` before {:?}", self.peek())) }
    }

    fn expression(&mut self) -> Result<Expr, String> {
        let condition = self.chain("||", Expr::Or, |parser| parser.chain("&&", Expr::And, Self::comparison))?;
        if !self.take("?") {
            return Ok(condition);
        }
        let then = self.expression()?;
        self.expect(":")?;
        let otherwise = self.expression()?;
        Ok(Expr::Conditional(Box::new([condition, then, otherwise])))
    }

    fn chain(
        &mut self,
        mark: &str,
        join: fn(Vec<Expr>) -> Expr,
        part: impl Fn(&mut Self) -> Result<Expr, String>,
    ) -> Result<Expr, String> {
        let first = part(self)?;
        let mut parts = vec![first];
        while self.take(mark) {
            parts.push(part(self)?);
        }
        if parts.len() > 1 { Ok(join(parts)) } else { parts.pop().ok_or_else(|| "is empty".to_owned()) }
    }

    fn comparison(&mut self) -> Result<Expr, String> {
        let mut left = self.unary()?;
        while let Some(comparison) = self.peek().and_then(comparison_of) {
            self.at += 1;
            let right = self.unary()?;
            left = Expr::Compare(comparison, Box::new([left, right]));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expr, String> {
        if self.take("!") {
            return Ok(Expr::Not(Box::new(self.unary()?)));
        }
        if !self.take("-") {
            return self.member();
        }
        match self.next()? {
            Token::Int(int) => Ok(Expr::Int(-int)),
            Token::Double(double) => Ok(Expr::Double(-double)),
            other => Err(format!("`-` before {other:?} is not supported")),
        }
    }

    fn member(&mut self) -> Result<Expr, String> {
        let mut expr = self.primary()?;
        loop {
            if self.take("[") {
                let index = self.expression()?;
                self.expect("]")?;
                expr = Expr::Index(Box::new(expr), Box::new(index));
            } else if self.take(".") {
                let name = self.name()?;
                expr = if self.take("(") { self.method(expr, &name)? } else { Expr::Select(Box::new(expr), name) };
            } else {
                return Ok(expr);
            }
        }
    }

    fn name(&mut self) -> Result<String, String> {
        match self.next()? {
            // Names of fields that are no words of the language are written with such marks.
            Token::Name(name) if name.starts_with("__") => Err(format!("the name `{name}` is not supported")),
            Token::Name(name) => Ok(name),
            other => Err(format!("expected a name, not {other:?}")),
        }
    }

    fn primary(&mut self) -> Result<Expr, String> {
        match self.next()? {
            Token::Int(int) => Ok(Expr::Int(int)),
            Token::Double(double) => Ok(Expr::Double(double)),
            Token::Text(text) => Ok(Expr::Text(text)),
            Token::Mark("(") => {
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Mark("[") => Ok(Expr::List(self.list("]")?)),
            Token::Name(name) => match name.as_str() {
                "true" => Ok(Expr::Bool(true)),
                "false" => Ok(Expr::Bool(false)),
                "null" => Ok(Expr::Null),
                _ if self.take("(") => self.function(&name),
                _ => self.variable(&name),
            },
            other => Err(format!("did not expect {other:?}")),
        }
    }

    fn variable(&mut self, name: &str) -> Result<Expr, String> {
        let place = self.variables.iter().rposition(|variable| variable == name);
        let place = place.ok_or_else(|| format!("there is no variable `{name}`"))?;
        self.uses_old |= name == SELF[1];
        Ok(Expr::Variable(place))
    }

    fn list(&mut self, end: &str) -> Result<Vec<Expr>, String> {
        let mut entries = Vec::new();
        while !self.take(end) {
            if !entries.is_empty() {
                self.expect(",")?;
            }
            entries.push(self.expression()?);
        }
        Ok(entries)
    }

    fn function(&mut self, name: &str) -> Result<Expr, String> {
        let arguments = self.list(")")?;
        match (name, <[Expr; 1]>::try_from(arguments)) {
            ("has", Ok([Expr::Select(operand, field)])) => Ok(Expr::Has(operand, field)),
            ("size", Ok([operand])) => Ok(Expr::Size(Box::new(operand))),
            ("int", Ok([operand])) => Ok(Expr::ToInt(Box::new(operand))),
            _ => Err(format!("the function `{name}` with these arguments is not supported")),
        }
    }

    fn method(&mut self, target: Expr, name: &str) -> Result<Expr, String> {
        if let Some(kind) = macro_named(name) {
            return self.each(kind, target);
        }
        let mut arguments = self.list(")")?;
        let function = match name {
            "size" if arguments.is_empty() => return Ok(Expr::Size(Box::new(target))),
            "startsWith" => TextFunction::StartsWith,
            "endsWith" => TextFunction::EndsWith,
            "contains" => TextFunction::Contains,
            "split" => TextFunction::Split,
            "matches" | "find" => {
                let Some(Expr::Text(pattern)) = arguments.pop().filter(|_| arguments.is_empty()) else {
                    return Err(format!("`{name}` is only supported with a pattern that is written out"));
                };
                let pattern = Box::new(Pattern::new(&pattern)?);
                let target = Box::new(target);
                return Ok(if name == "find" { Expr::Find(target, pattern) } else { Expr::Matches(target, pattern) });
            }
            _ => return Err(format!("the function `{name}` is not supported")),
        };
        match <[Expr; 1]>::try_from(arguments) {
            Ok([argument]) => Ok(Expr::OnTexts(function, Box::new([target, argument]))),
            Err(_) => Err(format!("`{name}` is only supported with one argument")),
        }
    }

    fn each(&mut self, kind: Macro, range: Expr) -> Result<Expr, String> {
        let variable = self.name()?;
        self.expect(",")?;
        self.variables.push(variable);
        let body = self.expression()?;
        self.variables.pop();
        self.expect(")")?;
        Ok(Expr::Each(kind, Box::new([range, body])))
    }
}

fn comparison_of(token: &Token) -> Option<Comparison> {
    match token {
        Token::Mark("==") => Some(Comparison::Equal),
        Token::Mark("!=") => Some(Comparison::Unequal),
        Token::Mark("<") => Some(Comparison::Less),
        Token::Mark("<=") => Some(Comparison::LessOrEqual),
        Token::Mark(">") => Some(Comparison::Greater),
        Token::Mark(">=") => Some(Comparison::GreaterOrEqual),
        Token::Name(name) if name == "in" => Some(Comparison::In),
        _ => None,
    }
}

fn macro_named(name: &str) -> Option<Macro> {
    match name {
        "all" => Some(Macro::All),
        "exists" => Some(Macro::Exists),
        "filter" => Some(Macro::Filter),
        _ => None,
    }
}
