//! A value as a finding prints it: one line of limited length, without control characters.

use host::escape::plain_character;

use crate::facts::Value;
use crate::limits::SHOWN_CHARACTERS_MAX;

/// The value in one line.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Bool(yes) => yes.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Text(text) if text.is_empty() => "empty".to_owned(),
        Value::Text(text) => {
            let mut line: String = text.chars().take(SHOWN_CHARACTERS_MAX).flat_map(plain_character).collect();
            if text.chars().nth(SHOWN_CHARACTERS_MAX).is_some() {
                line.push('…');
            }
            line
        }
        Value::List(values) if values.is_empty() => "an empty list".to_owned(),
        Value::List(values) => {
            let mut line = String::new();
            for (index, value) in values.iter().enumerate() {
                if line.len() > SHOWN_CHARACTERS_MAX {
                    return line + ", …";
                }
                if index > 0 {
                    line.push_str(", ");
                }
                line.push_str(&if matches!(value, Value::List(_)) { "a list".to_owned() } else { shown(value) });
            }
            line
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_in_one_harmless_line() {
        assert_eq!(shown(&"a\u{1b}[31m\nb\u{202e}c".into()), "a\\u{1b}[31m\\nb\\u{202e}c");
        assert_eq!(shown(&"".into()), "empty");
        assert_eq!(shown(&Value::List(vec![1.into(), "b".into()])), "1, b");
        assert!(shown(&"x".repeat(1000).as_str().into()).chars().count() <= SHOWN_CHARACTERS_MAX + 1);
    }
}
