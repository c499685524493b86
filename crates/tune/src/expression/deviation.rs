//! Says which part of an expression fails, with the found and the expected value.

use super::evaluate::evaluate;
use super::function::Function;
use super::{Arithmetic, Comparison, Node, Outcome, Over};
use crate::fact_name::plain_name;
use crate::facts::{Facts, Value};
use crate::quantity::{Unit, unit_of, written, written_apart};
use crate::shown_value::shown;

/// The message for an expression whose result is no: `shared_buffers is 128 MiB; at least 3 GiB
/// expected`.
pub(super) fn deviation(root: &Node, facts: &Facts, thing: Option<(&str, &str)>) -> Option<String> {
    let told = Context { facts, thing }.told(root, true)?;
    Some(match told.expected {
        Some(expected) => format!("{}; {expected} expected", told.found),
        None => told.found,
    })
}

/// The unit of a part's value, if the names of its facts show it.
pub(super) fn unit(node: &Node) -> Option<Unit> {
    match node {
        Node::Size(_) => Some(Unit::Bytes),
        Node::Name(name) => unit_of(name),
        Node::Count(Arithmetic::Plus | Arithmetic::Minus, left, right) => unit(left).or_else(|| unit(right)),
        // A size divided by a size, and a size times a size, is not a size.
        Node::Count(Arithmetic::Times | Arithmetic::By, left, right) => match (unit(left), unit(right)) {
            (Some(one), None) | (None, Some(one)) => Some(one),
            _ => None,
        },
        Node::Negative(part) => unit(part),
        Node::List(parts) => parts.iter().find_map(unit),
        Node::Call(Function::Default | Function::Min | Function::Max, parts) => parts.iter().find_map(unit),
        Node::Over(Over::Sum | Over::Min | Over::Max, _, Some(inner)) => unit(inner),
        _ => None,
    }
}

/// The found value, and the expected one if the first text does not say it.
struct Told {
    found: String,
    expected: Option<String>,
}

#[derive(Clone, Copy)]
struct Context<'a> {
    facts: &'a Facts,
    thing: Option<(&'a str, &'a str)>,
}

impl Context<'_> {
    fn value(self, node: &Node) -> Option<Value> {
        match evaluate(node, self.facts, self.thing).outcome {
            Outcome::Known(value) => Some(value),
            Outcome::Unknown(_) => None,
        }
    }

    fn is(self, node: &Node, wanted: bool) -> bool {
        self.value(node) == Some(Value::Bool(wanted))
    }

    /// The message for a part whose value is not the wanted one.
    fn told(self, node: &Node, wanted: bool) -> Option<Told> {
        match (node, wanted) {
            (Node::All(parts), true) | (Node::Any(parts), false) => {
                self.told(parts.iter().find(|part| self.is(part, !wanted))?, wanted)
            }
            (Node::Any(parts), true) => self.none_of(parts),
            (Node::Not(part), _) => self.told(part, !wanted),
            (Node::Name(_), _) => {
                let found = self.found(node, None)?;
                Some(Told { found, expected: Some(switch(node, wanted)) })
            }
            (Node::Compare(comparison, left, right), true) => self.compared(*comparison, left, right),
            (Node::Compare(comparison, left, right), false) => self.compared(opposite(*comparison), left, right),
            (Node::Call(function, parts), _) => self.called(*function, parts, wanted),
            (Node::Over(Over::All, kind, Some(inner)), true) => self.of_a_thing(kind, inner),
            _ => None,
        }
    }

    /// If all alternatives are about the same value, the message with the expectations of all of
    /// them.
    fn none_of(self, parts: &[Node]) -> Option<Told> {
        let told: Vec<Told> = parts.iter().map(|part| self.told(part, true)).collect::<Option<_>>()?;
        let found = told.first()?.found.clone();
        if told.iter().any(|other| other.found != found) {
            return None;
        }
        let expected: Vec<String> = told.into_iter().filter_map(|told| told.expected).collect();
        Some(Told { found, expected: (!expected.is_empty()).then(|| expected.join(" or ")) })
    }

    fn called(self, function: Function, parts: &[Node], wanted: bool) -> Option<Told> {
        match (function, parts) {
            (Function::Default, [part, other]) if self.value(part).is_none() && self.used(other).is_some() => {
                self.told(other, wanted)
            }
            (Function::Default, [part @ Node::Name(name), _]) => {
                let found = self.found(part, None).unwrap_or_else(|| format!("{} is not set", plain_name(name)));
                Some(Told { found, expected: Some(switch(part, wanted)) })
            }
            (Function::Default, [part, _]) if self.is(part, !wanted) => self.told(part, wanted),
            (Function::Known | Function::Unset, [part @ Node::Name(name)]) => {
                let found = match self.value(part) {
                    Some(value) => format!("{} is set to {}", plain_name(name), written(&value, unit(part), 1)),
                    None => format!("{} is not set", plain_name(name)),
                };
                Some(Told { found, expected: None })
            }
            (Function::VersionAtLeast, [part, Node::Literal(version)]) => {
                let version = written(version, None, 1);
                let expected = if wanted { format!("{version} or later") } else { format!("earlier than {version}") };
                Some(Told { found: self.found(part, Some(Unit::Plain))?, expected: Some(expected) })
            }
            (Function::Contains, [part, member]) => {
                let member = written(&self.value(member)?, None, 1);
                let name = self.subject(part)?;
                if !wanted {
                    return Some(Told { found: format!("{member} is set in {name}"), expected: None });
                }
                let found = format!("{name}: {}", written(&self.value(part)?, None, 1));
                Some(Told { found, expected: Some(member) })
            }
            (Function::PowerOfTwo, [part]) => {
                let expected = if wanted { "a power of two" } else { "no power of two" };
                Some(Told { found: self.found(part, None)?, expected: Some(expected.to_owned()) })
            }
            _ => None,
        }
    }

    /// The first thing for which the expression does not hold. `None` inside another thing and for
    /// nested iterations: one evaluation has a limit of steps, but evaluating each thing again
    /// would not.
    fn of_a_thing(self, kind: &str, inner: &Node) -> Option<Told> {
        let mut is_nested = self.thing.is_some();
        inner.visit(&mut |node| is_nested |= matches!(node, Node::Over(..)));
        if is_nested {
            return None;
        }
        let names = self.facts.things.get(kind)?.keys();
        let of = |name| Context { thing: Some((kind, name)), ..self };
        let name = names.map(String::as_str).find(|name| of(*name).is(inner, false))?;
        let told = of(name).told(inner, true)?;
        Some(Told { found: format!("{kind} {}: {}", shown(&Value::from(name)), told.found), ..told })
    }

    fn found(self, node: &Node, unit: Option<Unit>) -> Option<String> {
        if self.is_default(node) {
            return Some(format!("{} is not set", self.subject(node)?));
        }
        match self.value(node)? {
            Value::Bool(is) if is_answer(node) => Some(format!("{}: {}", self.subject(node)?, switch(node, is))),
            value => Some(format!("{} is {}", self.subject(node)?, written(&value, unit, 1))),
        }
    }

    /// Whether a part has its default because its facts are not set.
    fn is_default(self, node: &Node) -> bool {
        matches!(node, Node::Call(Function::Default, _)) && self.used(node).is_none()
    }

    /// The operand of `default` that gives the value; `None` if that is a constant.
    fn used(self, node: &Node) -> Option<&Node> {
        match node {
            Node::Call(Function::Default, parts) => {
                let known = parts.iter().find(|part| self.value(part).is_some());
                self.used(known.or(parts.last())?)
            }
            Node::Literal(_) | Node::Size(_) | Node::List(_) => None,
            other => Some(other),
        }
    }

    /// The name of the fact from which a part gets its value.
    fn subject(self, node: &Node) -> Option<String> {
        match node {
            Node::Name(name) => Some(plain_name(name)),
            Node::Call(Function::Default, parts) => {
                self.used(node).and_then(|used| self.subject(used)).or_else(|| self.subject(parts.first()?))
            }
            Node::Call(Function::Lower, parts) => self.subject(parts.first()?),
            Node::Call(Function::Word, parts) => match parts.as_slice() {
                [text, Node::Literal(Value::Int(place))] => Some(format!("value {place} of {}", self.subject(text)?)),
                _ => None,
            },
            Node::Over(Over::Count, kind, None) => Some(format!("the number of {}s", kind.replace('_', " "))),
            Node::Over(over, _, Some(inner)) => {
                let word = match over {
                    Over::Sum => "the sum of",
                    Over::Min => "the least",
                    Over::Max => "the largest",
                    Over::Any | Over::All | Over::Count => return None,
                };
                Some(format!("{word} {}", self.subject(inner)?))
            }
            _ => None,
        }
    }

    fn compared(self, comparison: Comparison, left: &Node, right: &Node) -> Option<Told> {
        let (measured, factor) = without_factor(left);
        let Some(name) = self.subject(measured) else {
            self.subject(without_factor(right).0)?;
            return self.compared(mirrored(comparison)?, right, left);
        };
        let left = measured;
        let (found, wanted) = (self.value(left)?, divided(self.value(right)?, factor)?);
        let unit = unit(left).or_else(|| unit(right));
        let (found_text, mut wanted_text) = written_apart(&found, &wanted, unit);
        if let (Comparison::In | Comparison::NotIn, Value::List(values)) = (comparison, &wanted) {
            let texts: Vec<String> = values.iter().map(|value| written(value, unit, 1)).collect();
            wanted_text = texts.join(" or ");
        }
        if let Node::Name(other) = right
            && factor == 1
        {
            wanted_text = format!("{wanted_text} ({})", plain_name(other));
        }
        let expected = match (comparison, &found, &wanted) {
            (Comparison::NotEqual, Value::Bool(is), _) => written(&Value::Bool(!is), None, 1),
            (Comparison::Equal | Comparison::In | Comparison::Like, ..) => wanted_text,
            (Comparison::NotEqual | Comparison::NotIn | Comparison::NotLike, ..) => format!("another value than {wanted_text}"),
            (Comparison::Less, _, Value::Int(0)) if name.contains("limit ") => "unlimited".to_owned(),
            (Comparison::Less, ..) => format!("less than {wanted_text}"),
            (Comparison::LessOrEqual, ..) => format!("at most {wanted_text}"),
            (Comparison::Greater, ..) => format!("more than {wanted_text}"),
            (Comparison::GreaterOrEqual, ..) => format!("at least {wanted_text}"),
        };
        let found = if self.is_default(left) && matches!(found, Value::Text(_)) {
            format!("{name} is not set")
        } else {
            format!("{name} is {found_text}")
        };
        Some(Told { found, expected: Some(expected) })
    }
}

/// A multiplied part and its factor: `x * 8 >= y` is compared as `x >= y / 8`.
fn without_factor(node: &Node) -> (&Node, i64) {
    match node {
        Node::Count(Arithmetic::Times, part, by) => match by.as_ref() {
            Node::Literal(Value::Int(factor)) if *factor > 0 => (part, *factor),
            _ => (node, 1),
        },
        _ => (node, 1),
    }
}

fn divided(value: Value, by: i64) -> Option<Value> {
    match value {
        Value::Int(number) => number.checked_div(by).map(Value::Int),
        other => (by == 1).then_some(other),
    }
}

/// Whether a part is an answer in the site file, which is yes or no.
fn is_answer(node: &Node) -> bool {
    matches!(node, Node::Name(name) if name.starts_with("site."))
}

/// The word for a value: on or off for a setting, yes or no for an answer.
fn switch(node: &Node, is: bool) -> String {
    match (is_answer(node), is) {
        (true, true) => "yes".to_owned(),
        (true, false) => "no".to_owned(),
        (false, _) => written(&Value::Bool(is), None, 1),
    }
}

/// The comparison that is true if this one is false.
const fn opposite(comparison: Comparison) -> Comparison {
    match comparison {
        Comparison::Equal => Comparison::NotEqual,
        Comparison::NotEqual => Comparison::Equal,
        Comparison::Less => Comparison::GreaterOrEqual,
        Comparison::LessOrEqual => Comparison::Greater,
        Comparison::Greater => Comparison::LessOrEqual,
        Comparison::GreaterOrEqual => Comparison::Less,
        Comparison::In => Comparison::NotIn,
        Comparison::NotIn => Comparison::In,
        Comparison::Like => Comparison::NotLike,
        Comparison::NotLike => Comparison::Like,
    }
}

/// The comparison with its sides swapped.
const fn mirrored(comparison: Comparison) -> Option<Comparison> {
    Some(match comparison {
        Comparison::Equal | Comparison::NotEqual => comparison,
        Comparison::Less => Comparison::Greater,
        Comparison::LessOrEqual => Comparison::GreaterOrEqual,
        Comparison::Greater => Comparison::Less,
        Comparison::GreaterOrEqual => Comparison::LessOrEqual,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
