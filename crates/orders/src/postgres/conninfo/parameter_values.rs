//! Values of connection parameters: words, numbers, and the error for invalid ones.

use std::collections::BTreeMap;

use super::error::ConninfoError;

/// The parameters of a connection by their keywords.
pub(in crate::postgres) type Parameters = BTreeMap<&'static str, String>;

/// The error for an invalid value.
pub(super) fn value(keyword: &'static str, what: impl Into<String>) -> ConninfoError {
    ConninfoError::Value { keyword, what: what.into() }
}

/// A value that must be one of these words.
pub(in crate::postgres) fn choice<T: Copy>(
    parameters: &Parameters,
    keyword: &'static str,
    words: &[(&str, T)],
) -> Result<Option<T>, ConninfoError> {
    let Some(text) = parameters.get(keyword) else { return Ok(None) };
    let found = words.iter().find(|(word, _)| word == text);
    let allowed = || words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
    found.map(|(_, found)| Some(*found)).ok_or_else(|| value(keyword, format!("\"{text}\" is not one of {}", allowed())))
}

/// A whole number that is not negative. As in libpq, 0 and less mean the default.
pub(super) fn number(parameters: &Parameters, keyword: &'static str) -> Result<Option<u64>, ConninfoError> {
    let Some(text) = parameters.get(keyword) else { return Ok(None) };
    let number: i64 = text.trim().parse().map_err(|_| value(keyword, format!("\"{text}\" is not a whole number")))?;
    Ok(u64::try_from(number).ok().filter(|number| *number > 0))
}
