//! The functions of the language.

use std::cmp::Ordering;
use std::ops::RangeInclusive;

use super::Over;
use crate::facts::Value;

/// Names of the iterations over the things of a kind.
pub(super) const OVER: [(&str, Over); 6] =
    [("any", Over::Any), ("all", Over::All), ("count", Over::Count), ("sum", Over::Sum), ("min", Over::Min), ("max", Over::Max)];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Known,
    Default,
    Unset,
    VersionAtLeast,
    Contains,
    Len,
    Lower,
    PowerOfTwo,
    Word,
    Min,
    Max,
}

const FUNCTIONS: [(&str, Function, RangeInclusive<usize>); 11] = [
    ("known", Function::Known, 1..=1),
    ("default", Function::Default, 2..=2),
    ("unset", Function::Unset, 1..=1),
    ("version_at_least", Function::VersionAtLeast, 2..=2),
    ("contains", Function::Contains, 2..=2),
    ("len", Function::Len, 1..=1),
    ("lower", Function::Lower, 1..=1),
    ("power_of_two", Function::PowerOfTwo, 1..=1),
    ("word", Function::Word, 2..=2),
    ("min", Function::Min, 2..=8),
    ("max", Function::Max, 2..=8),
];

impl Function {
    pub(super) fn called(name: &str) -> Option<Self> {
        FUNCTIONS.iter().find(|(known, ..)| *known == name).map(|(_, function, _)| *function)
    }

    pub(super) fn names() -> String {
        let names: Vec<&str> =
            FUNCTIONS.iter().map(|(name, ..)| *name).chain(OVER.iter().take(4).map(|(name, _)| *name)).collect();
        names.join(", ")
    }

    pub(super) fn arguments(self) -> RangeInclusive<usize> {
        FUNCTIONS.iter().find(|(_, function, _)| *function == self).map_or(0..=0, |(.., arguments)| arguments.clone())
    }

    /// Applies the function to known values. An error says why it cannot be applied.
    /// [`Self::Known`], [`Self::Default`] and [`Self::Unset`] are not handled here, because their
    /// arguments may be unknown.
    pub(super) fn of(self, arguments: &[Value]) -> Result<Value, String> {
        match (self, arguments) {
            (Self::VersionAtLeast, [found, Value::Text(wanted)]) => version_at_least(found, wanted).map(Value::Bool),
            (Self::Contains, [Value::List(values), value]) => Ok(Value::Bool(values.contains(value))),
            (Self::Contains, [Value::Text(text), Value::Text(part)]) => Ok(Value::Bool(text.contains(part.as_str()))),
            (Self::Len, [Value::List(values)]) => i64::try_from(values.len()).map(Value::Int).map_err(|e| e.to_string()),
            (Self::Lower, [Value::Text(text)]) => Ok(Value::Text(text.to_lowercase())),
            (Self::PowerOfTwo, [Value::Int(number)]) => Ok(Value::Bool(*number > 0 && number.count_ones() == 1)),
            (Self::Word, [text, Value::Int(index)]) => numbered(text, *index),
            (Self::Min | Self::Max, values) => extreme(values, self == Self::Min),
            _ => Err(format!("{} takes other kinds of values", self.name())),
        }
    }

    fn name(self) -> &'static str {
        FUNCTIONS.iter().find(|(_, function, _)| *function == self).map_or("", |(name, ..)| *name)
    }
}

/// The smallest or largest of whole numbers.
pub(super) fn extreme(values: &[Value], smallest: bool) -> Result<Value, String> {
    let mut best: Option<i64> = None;
    for value in values {
        let Value::Int(number) = value else { return Err("only numbers have a smallest and a largest".to_owned()) };
        best = Some(best.map_or(*number, |best| if smallest { best.min(*number) } else { best.max(*number) }));
    }
    best.map(Value::Int).ok_or_else(|| "nothing has no smallest and no largest".to_owned())
}

/// Word `index` of a text, or the member of a list at that place, counted from 1. A word of digits
/// is a number: `4096 131072 6291456` of `tcp_rmem`.
pub(super) fn numbered(text: &Value, index: i64) -> Result<Value, String> {
    let place = usize::try_from(index).ok().and_then(|index| index.checked_sub(1));
    let found = place.and_then(|place| match text {
        Value::List(values) => values.get(place).cloned(),
        Value::Text(text) => text.split_whitespace().nth(place).map(Value::from),
        Value::Bool(_) | Value::Int(_) => None,
    });
    match found {
        Some(Value::Text(word)) => Ok(word.parse().map_or(Value::Text(word), Value::Int)),
        Some(value) => Ok(value),
        None => Err(format!("there is no word {index}")),
    }
}

/// Compares dotted numbers part by part; a missing part is 0. Letters before the first digit
/// (`B.11.31`, `v4.2`) and text after the numbers are ignored.
fn version_at_least(found: &Value, wanted: &str) -> Result<bool, String> {
    let found = match found {
        Value::Text(text) => version(text),
        Value::Int(number) => version(&number.to_string()),
        Value::Bool(_) | Value::List(_) => None,
    }
    .ok_or("the version has no number")?;
    let wanted = version(wanted).ok_or("the version asked for has no number")?;
    let length = found.len().max(wanted.len());
    let part = |version: &[u64], index: usize| version.get(index).copied().unwrap_or(0);
    let order = (0..length).map(|index| part(&found, index).cmp(&part(&wanted, index))).find(|order| order.is_ne());
    Ok(order != Some(Ordering::Less))
}

fn version(text: &str) -> Option<Vec<u64>> {
    let text = text.get(text.find(|c: char| c.is_ascii_digit())?..)?;
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let numbers = text.get(..end)?.split('.').filter(|part| !part.is_empty());
    // A part out of range becomes the largest number, which is later than any real version.
    Some(numbers.map(|part| part.parse().unwrap_or(u64::MAX)).collect())
}

/// Whether a pattern matches the complete text. `*` matches any sequence of characters, `?` any
/// one. Only the last star is tried again, so the work is at most the product of both lengths.
pub(crate) fn like(text: &str, pattern: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let pattern: Vec<char> = pattern.chars().collect();
    let (mut t, mut p) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(wanted) if *wanted == '?' || text.get(t) == Some(wanted) => {
                t += 1;
                p += 1;
            }
            _ => {
                // Goes back to the last star, which takes one more character.
                let Some((at, taken)) = star else { return false };
                star = Some((at, taken + 1));
                t = taken + 1;
                p = at + 1;
            }
        }
    }
    pattern.iter().skip(p).all(|rest| *rest == '*')
}
