//! The language of rules: expressions over facts with the three values yes, no and not known
//! (Kleene's logic).
//!
//! `a or b`, `a and b`, `not a`; `== != < <= > >=`; `x in [1, 2]`, `x not in […]`; `text like
//! 'glob*'`; `+ - * / %` on whole numbers; `64KiB`; `'text'`; names of facts bare or in backquotes;
//! functions. A fact that was not collected is not known, and neither is the result of an operation
//! that is not defined, such as an order of texts or a sum that overflows. docs/rule-schema.md
//! describes the language for authors of rules.

mod deviation;
mod error;
mod evaluate;
mod function;
mod parser;
mod token;

use std::fmt;

use crate::facts::{Database, Facts, Value};
use crate::quantity::{Unit, looked_at};

pub use error::ParseError;
pub(crate) use function::like;

/// A parsed expression.
#[derive(Debug, Clone)]
pub struct Expression {
    text: String,
    root: Node,
}

/// The result of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A value.
    Known(Value),
    /// Not known, because these facts are missing.
    Unknown(Vec<String>),
}

/// The result of an expression, and the facts that it read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evaluation {
    /// The result.
    pub outcome: Outcome,
    /// The facts that it read, in order, each once.
    pub looked_at: Vec<Look>,
}

/// A fact that an expression read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// Its name. For a thing other than the judged one, the name contains the thing: `lun /vol/u02:
    /// queue_depth`.
    pub name: String,
    /// Its value; `None` if the fact is not known and the expression allows for that.
    pub value: Option<Value>,
}

/// A part of an expression.
#[derive(Debug, Clone)]
enum Node {
    Literal(Value),
    /// A number of bytes with a unit: `64KiB`.
    Size(i64),
    List(Vec<Self>),
    Name(String),
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
    Negative(Box<Self>),
    Compare(Comparison, Box<Self>, Box<Self>),
    Count(Arithmetic, Box<Self>, Box<Self>),
    Call(function::Function, Vec<Self>),
    Over(Over, String, Option<Box<Self>>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    NotIn,
    Like,
    NotLike,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arithmetic {
    Plus,
    Minus,
    Times,
    By,
    Rest,
}

/// The quantifiers and aggregates over all things of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    Any,
    All,
    Count,
    Sum,
    Min,
    Max,
}

/// Parses an expression. Its depth and its length are limited.
///
/// # Errors
/// The text is not an expression. The error names the position.
pub fn parse(text: &str) -> Result<Expression, ParseError> {
    Ok(Expression { text: text.to_owned(), root: parser::parse(text)? })
}

impl Expression {
    /// The expression as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The result for the host or for one thing (kind and name).
    #[must_use]
    pub fn value(&self, facts: &Facts, thing: Option<(&str, &str)>) -> Outcome {
        self.evaluate(facts, thing).outcome
    }

    /// The result and the facts that were read.
    #[must_use]
    pub fn evaluate(&self, facts: &Facts, thing: Option<(&str, &str)>) -> Evaluation {
        evaluate::evaluate(&self.root, facts, thing)
    }

    /// All names outside of a scope for things of their kind. They can only be facts of the host.
    /// `each` is the kind of thing that the complete expression is evaluated for.
    #[must_use]
    pub fn host_names<'a>(&'a self, each: Option<&'a str>) -> Vec<&'a str> {
        let mut names = Vec::new();
        let mut scopes = Vec::from_iter(each);
        self.root.host_names(&mut scopes, &mut names);
        names
    }

    /// Whether it needs a setting of a database that could not be read.
    #[must_use]
    pub fn needs_unread_setting(&self, facts: &Facts) -> bool {
        let is_unread = |name: &&str| {
            Database::of_fact(name).is_some() && !facts.host.contains_key(*name) && evaluate::reason(facts, name).is_some()
        };
        self.names().iter().any(is_unread)
    }

    /// The names of all facts in it.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.root.visit(&mut |node| {
            if let Node::Name(name) = node {
                names.push(name.as_str());
            }
        });
        names
    }

    /// For an expression whose result is no: the part that fails, with the found and the expected
    /// value and their units, `shared_buffers is 128 MiB; at least 3 GiB expected`. `None` if the
    /// form of the expression does not allow this.
    #[must_use]
    pub fn deviation(&self, facts: &Facts, thing: Option<(&str, &str)>) -> Option<String> {
        deviation::deviation(&self.root, facts, thing)
    }

    /// The unit of its value, if the names of its facts show it.
    #[must_use]
    pub(crate) fn unit(&self) -> Option<Unit> {
        deviation::unit(&self.root)
    }

    /// The kinds of things over which it iterates.
    #[must_use]
    pub fn kinds(&self) -> Vec<&str> {
        let mut kinds = Vec::new();
        self.root.visit(&mut |node| {
            if let Node::Over(_, kind, _) = node
                && !kinds.contains(&kind.as_str())
            {
                kinds.push(kind.as_str());
            }
        });
        kinds
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{} is {}", self.name, looked_at(&self.name, value)),
            None => write!(f, "{} is not known", self.name),
        }
    }
}

impl Node {
    fn visit<'a>(&'a self, see: &mut impl FnMut(&'a Self)) {
        see(self);
        match self {
            Self::Literal(_) | Self::Size(_) | Self::Name(_) => {}
            Self::List(parts) | Self::All(parts) | Self::Any(parts) | Self::Call(_, parts) => {
                for part in parts {
                    part.visit(see);
                }
            }
            Self::Not(part) | Self::Negative(part) => part.visit(see),
            Self::Compare(_, left, right) | Self::Count(_, left, right) => {
                left.visit(see);
                right.visit(see);
            }
            Self::Over(_, _, inner) => {
                if let Some(inner) = inner {
                    inner.visit(see);
                }
            }
        }
    }

    fn host_names<'a: 's, 's>(&'a self, scopes: &mut Vec<&'s str>, names: &mut Vec<&'a str>) {
        match self {
            Self::Literal(_) | Self::Size(_) => {}
            Self::Name(name) => {
                let head = name.split('.').next().unwrap_or_default();
                if !scopes.contains(&head) && (head != EACH || scopes.is_empty()) {
                    names.push(name);
                }
            }
            Self::List(parts) | Self::All(parts) | Self::Any(parts) | Self::Call(_, parts) => {
                for part in parts {
                    part.host_names(scopes, names);
                }
            }
            Self::Not(part) | Self::Negative(part) => part.host_names(scopes, names),
            Self::Compare(_, left, right) | Self::Count(_, left, right) => {
                left.host_names(scopes, names);
                right.host_names(scopes, names);
            }
            Self::Over(_, kind, inner) => {
                scopes.push(kind);
                if let Some(inner) = inner {
                    inner.host_names(scopes, names);
                }
                scopes.pop();
            }
        }
    }
}

/// The name of the thing that the complete expression is evaluated for, if a thing of the same kind
/// hides it: `each.source`.
const EACH: &str = "each";

#[cfg(test)]
mod tests;
