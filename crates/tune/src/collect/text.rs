//! Turns bytes into lines, words and numbers. No function fails: text that cannot be understood is
//! remarked and left out.

use super::limits::{LINE_BYTES_MAX, LINES_MAX, SNIFF_BYTES};
use crate::facts::{Facts, Value};

/// The text of a file or of a command's output. `None`, with a remark, if the bytes are binary.
pub(super) fn decode(bytes: &[u8], origin: &str, remarks: &mut Vec<String>) -> Option<String> {
    let wide = match bytes {
        [0xff, 0xfe, rest @ ..] => Some((rest, u16::from_le_bytes as fn([u8; 2]) -> u16)),
        [0xfe, 0xff, rest @ ..] => Some((rest, u16::from_be_bytes as fn([u8; 2]) -> u16)),
        _ => None,
    };
    if let Some((rest, join)) = wide {
        let units: Vec<u16> = rest.chunks_exact(2).map(|pair| join([pair[0], pair[1]])).collect();
        remarks.push(format!("{origin} is UTF-16: read as such"));
        return Some(String::from_utf16_lossy(&units));
    }
    if bytes.iter().take(SNIFF_BYTES).any(|byte| *byte == 0) {
        remarks.push(format!("{origin} is binary: skipped"));
        return None;
    }
    let bytes = bytes.strip_prefix(&[0xef, 0xbb, 0xbf]).unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text.to_owned()),
        Err(fault) => {
            let line = 1 + bytes[..fault.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
            remarks.push(format!("{origin}:{line} is not UTF-8: odd bytes are replaced"));
            Some(String::from_utf8_lossy(bytes).into_owned())
        }
    }
}

/// Lines with their numbers, counted from 1, without line ends of any system. Their number and
/// length are limited.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let whole = text.split('\n').take(LINES_MAX).map(|line| line.strip_suffix('\r').unwrap_or(line));
    whole.enumerate().map(|(index, line)| (index + 1, head(line, LINE_BYTES_MAX)))
}

/// Trimmed lines, without empty ones and without comments that begin with one of `marks`.
pub(super) fn telling<'a>(text: &'a str, marks: &'static [char]) -> impl Iterator<Item = (usize, &'a str)> {
    lines(text).map(|(number, line)| (number, line.trim())).filter(move |(_, line)| !line.is_empty() && !line.starts_with(marks))
}

/// The first bytes of a text, at most `bytes_max`, cut between characters.
pub(super) fn head(text: &str, bytes_max: usize) -> &str {
    if text.len() <= bytes_max {
        return text;
    }
    let end = (0..=bytes_max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[..end]
}

/// Key and value around the first `mark`, both trimmed. `None` if there is no `mark` or no key.
pub(super) fn pair(line: &str, mark: char) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(mark)?;
    let key = key.trim();
    (!key.is_empty()).then_some((key, value.trim()))
}

/// A value without the quotes around it.
pub(super) fn unquoted(value: &str) -> &str {
    let value = value.trim();
    for quote in ['"', '\''] {
        if let Some(inner) = value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return inner;
        }
    }
    value
}

/// A whole number, decimal or hexadecimal. A number out of range becomes the nearest one in range.
pub(super) fn integer(text: &str) -> Option<i64> {
    let text = text.trim();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (digits, radix) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(rest) => (rest, 16),
        None => (digits, 10),
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    let value = i64::from_str_radix(digits, radix).unwrap_or(i64::MAX);
    Some(if negative { -value } else { value })
}

/// A number if the text is one; otherwise a text with single blanks.
pub(super) fn value(text: &str) -> Value {
    match integer(text) {
        Some(number) => Value::Int(number),
        None => Value::Text(words(text).collect::<Vec<_>>().join(" ")),
    }
}

/// Yes or no in any spelling of the systems.
pub(super) fn truth(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "on" | "yes" | "true" | "1" | "enable" | "enabled" | "y" => Some(true),
        "off" | "no" | "false" | "0" | "disable" | "disabled" | "n" => Some(false),
        _ => None,
    }
}

/// A number or a yes or no if the text is one; otherwise a text.
pub(super) fn telling_value(text: &str) -> Value {
    match (integer(text), truth(text)) {
        (Some(number), _) => Value::Int(number),
        (None, Some(yes)) => Value::Bool(yes),
        (None, None) => value(text),
    }
}

/// A number with a unit of powers of 1,024 (`2400M`, `8kB`, `1g`, `65536`, `1.5GB`) in bytes.
pub(super) fn bytes(text: &str) -> Option<i64> {
    let text = text.trim();
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let factor: i64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" | "bytes" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => return None,
    };
    if let Some((whole, part)) = digits.split_once('.') {
        // No tool prints more than two decimal places.
        let hundredths = integer(&format!("{}{:0<2}", whole, head(part, 2)))?;
        return Some(hundredths.saturating_mul(factor) / 100);
    }
    Some(integer(digits)?.saturating_mul(factor))
}

/// Words separated by blanks.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace()
}

/// The cells of a line, separated by `mark`. A quote inside quotes is doubled.
pub(super) fn cells(line: &str, mark: char) -> Vec<String> {
    let mut cells = vec![String::new()];
    let (mut quoted, mut letters) = (false, line.chars().peekable());
    while let Some(letter) = letters.next() {
        let doubled = quoted && letter == '"' && letters.peek() == Some(&'"');
        match (letter, cells.last_mut()) {
            (_, Some(cell)) if doubled => {
                letters.next();
                cell.push('"');
            }
            ('"', _) => quoted = !quoted,
            (letter, _) if letter == mark && !quoted => cells.push(String::new()),
            (letter, Some(cell)) => cell.push(letter),
            (_, None) => {}
        }
    }
    cells
}

/// A text as a name of facts: lower case and digits, with `_` for everything between.
pub(super) fn name_of(text: &str) -> String {
    let mut name = String::new();
    for letter in text.trim().chars() {
        if letter.is_ascii_alphanumeric() {
            name.push(letter.to_ascii_lowercase());
        } else if !name.is_empty() && !name.ends_with('_') {
            name.push('_');
        }
    }
    name.trim_end_matches('_').to_owned()
}

/// Remarks a line that could not be read.
pub(super) fn odd(facts: &mut Facts, origin: &str, line: usize, text: &str) {
    facts.remark(format!("{origin}:{line} makes no sense and is left out: {:?}", head(text, 80)));
}

/// The word in brackets: `always [madvise] never`.
pub(super) fn bracketed(text: &str) -> String {
    let inner = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(inner, _)| inner);
    inner.unwrap_or(text.trim()).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_of_1024() {
        assert_eq!(bytes("2400M"), Some(2400 << 20));
        assert_eq!(bytes("8kB"), Some(8192));
        assert_eq!(bytes("1.5GB"), Some(3 << 29));
        assert_eq!(bytes("65536"), Some(65536));
        assert_eq!(bytes("12 apples"), None);
        assert_eq!(bytes("99999999999999999999T"), Some(i64::MAX));
    }

    #[test]
    fn numbers_beyond_the_range_become_its_end() {
        assert_eq!(integer("18446744073709551615"), Some(i64::MAX));
        assert_eq!(integer("0x100000"), Some(1 << 20));
        assert_eq!(integer("-1"), Some(-1));
        assert_eq!(integer("0x"), None);
    }

    #[test]
    fn bytes_that_are_no_text_are_remarked() {
        let mut remarks = Vec::new();
        assert_eq!(decode(b"a\0b", "f", &mut remarks), None);
        assert_eq!(decode(b"caf\xe9", "g", &mut remarks).as_deref(), Some("caf\u{fffd}"));
        assert_eq!(decode(&[0xff, 0xfe, b'a', 0], "h", &mut remarks).as_deref(), Some("a"));
        assert_eq!(remarks.len(), 3);
    }

    #[test]
    fn cells_keep_marks_inside_quotes() {
        assert_eq!(cells("a,\"b,\"\"c\",d", ','), ["a", "b,\"c", "d"]);
        assert_eq!(cells("", ','), [""]);
    }
}
