//! Templates of findings' titles: text that contains values of expressions.
//!
//! A template is a rule's `finding`. Expressions are in braces, `{postgres.shared_buffers}`. If the
//! names of its facts do not show a unit, the expression may name one, `{mount.timeo:count}`.

use crate::expression::{self, Expression, Outcome};
use crate::facts::{Facts, Value};
use crate::quantity::{UNITS, Unit, percentage, written};

/// A parsed template.
#[derive(Debug, Clone)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone)]
enum Part {
    Text(String),
    Value(Expression, Option<Unit>),
    /// The first as a percentage of the second.
    PercentOf(Expression, Expression),
}

/// The text between an expression and the one of which it is a part.
const PERCENT_OF: &str = ":percent_of ";

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    /// What is wrong with it: an unmatched brace, or an invalid expression.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let Some((inside, behind)) = after.split_once('}') else { return Err("a `{` has no `}`".to_owned()) };
            parts.push(Part::Text(plain(before)?));
            parts.push(placeholder(inside).map_err(|error| format!("{{{inside}}}: {error}"))?);
            rest = behind;
        }
        parts.push(Part::Text(plain(rest)?));
        Ok(Self { parts })
    }

    /// The expressions in the template.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = &Expression> {
        self.parts
            .iter()
            .flat_map(|part| match part {
                Part::Text(_) => [None, None],
                Part::Value(value, _) => [Some(value), None],
                Part::PercentOf(part, whole) => [Some(part), Some(whole)],
            })
            .flatten()
    }

    /// The text; `None` if one of its facts is not known.
    pub(crate) fn render(&self, facts: &Facts, thing: Option<(&str, &str)>) -> Option<String> {
        let value = |expression: &Expression| match expression.value(facts, thing) {
            Outcome::Known(value) => Some(value),
            Outcome::Unknown(_) => None,
        };
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Value(expression, unit) => {
                    text.push_str(&written(&value(expression)?, unit.or_else(|| expression.unit()), 1));
                }
                Part::PercentOf(part, whole) => match (value(part)?, value(whole)?) {
                    (Value::Int(part), Value::Int(whole)) => text.push_str(&percentage(part, whole)?),
                    _ => return None,
                },
            }
        }
        Some(text)
    }
}

fn plain(text: &str) -> Result<String, String> {
    if text.contains('}') { Err("a `}` has no `{`".to_owned()) } else { Ok(text.to_owned()) }
}

fn placeholder(inside: &str) -> Result<Part, String> {
    let read = |text: &str| expression::parse(text).map_err(|error| error.to_string());
    if let Some((part, whole)) = inside.split_once(PERCENT_OF) {
        return Ok(Part::PercentOf(read(part)?, read(whole)?));
    }
    // The name of a fact in backquotes may contain colons.
    let with_unit = inside.rsplit_once(':').filter(|(_, unit)| !unit.contains('`'));
    let Some((text, name)) = with_unit else { return Ok(Part::Value(read(inside)?, None)) };
    match UNITS.iter().find(|(known, _)| *known == name) {
        Some((_, unit)) => Ok(Part::Value(read(text)?, Some(*unit))),
        None => {
            let known: Vec<&str> = UNITS.iter().map(|(known, _)| *known).collect();
            Err(format!("unknown unit {name:?}; known are {} and percent_of", known.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        let mut facts = Facts::default();
        facts.put("postgres.shared_buffers", 134_217_728, "a");
        facts.put("hw.memory_bytes", 25_233_000_000, "a");
        facts.put("mount.x", 70_000, "a");
        facts
    }

    fn rendered(template: &str) -> Option<String> {
        Template::parse(template).unwrap().render(&facts(), None)
    }

    #[test]
    fn a_placeholder_is_a_value_in_the_unit_that_its_name_or_the_template_gives() {
        let text = "shared_buffers is {postgres.shared_buffers}, {postgres.shared_buffers:percent_of hw.memory_bytes} of {hw.memory_bytes}";
        assert_eq!(rendered(text).unwrap(), "shared_buffers is 128 MiB, 0.5 % of 23.5 GiB");
        assert_eq!(rendered("{mount.x:bytes} {mount.x} {hw.memory_bytes / 8}").unwrap(), "70,000 bytes 70,000 2.9 GiB");
    }

    #[test]
    fn a_template_whose_fact_is_not_known_is_not_used() {
        assert_eq!(rendered("{postgres.other} is wrong"), None);
    }

    #[test]
    fn what_is_no_template_is_refused() {
        for (text, wanted) in
            [("{a.b", "no `}`"), ("a.b}", "no `{`"), ("{a.b +}", "{a.b +}"), ("{a.b:kg}", "unknown unit \"kg\"")]
        {
            let error = Template::parse(text).unwrap_err();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
