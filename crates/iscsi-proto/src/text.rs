//! Text keys (RFC 7143 6): `key=value` pairs, each with a zero byte at its end, and the formats of values.

use crate::limits::{KEY_BYTES_MAX, KEYS_MAX, VALUE_BYTES_MAX};
use thiserror::Error;

/// Why a text does not consist of pairs.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TextError {
    /// An item has no `=`, or no key before it.
    #[error("text item {0} is not key=value")]
    NoPair(usize),
    /// A key is too long, or has bytes that RFC 7143 6.1 does not allow.
    #[error("text item {0} has a malformed key")]
    Key(usize),
    /// A value is too long or not UTF-8.
    #[error("value of key {key} is malformed")]
    Value {
        /// The key of the value.
        key: String,
    },
    /// The text has more pairs than any negotiation needs.
    #[error("more than {KEYS_MAX} text items")]
    TooMany,
}

/// A pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair<'a> {
    /// The key. Case matters.
    pub key: &'a str,
    /// The value.
    pub value: &'a str,
}

/// Parses the text of a negotiation. Padding and empty items are ignored.
///
/// # Errors
/// [`TextError`] if an item is not a pair, or if there are more than [`KEYS_MAX`] pairs.
pub fn parse(text: &[u8]) -> Result<Vec<Pair<'_>>, TextError> {
    let pairs = pairs(text).take(KEYS_MAX + 1).collect::<Result<Vec<_>, _>>()?;
    if pairs.len() > KEYS_MAX { Err(TextError::TooMany) } else { Ok(pairs) }
}

/// The pairs of a text, without a limit for their number. A list of targets has at least two pairs for each target.
pub fn pairs(text: &[u8]) -> impl Iterator<Item = Result<Pair<'_>, TextError>> {
    text.split(|byte| *byte == 0).filter(|item| !item.is_empty()).enumerate().map(|(number, item)| pair(number, item))
}

fn pair(number: usize, item: &[u8]) -> Result<Pair<'_>, TextError> {
    let at = item.iter().position(|byte| *byte == b'=').filter(|at| *at > 0).ok_or(TextError::NoPair(number))?;
    let (key, value) = (item.get(..at).unwrap_or_default(), item.get(at + 1..).unwrap_or_default());
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b".-+@_".contains(byte);
    let key = Some(key).filter(|key| key.len() <= KEY_BYTES_MAX && key.iter().all(allowed));
    let key = key.and_then(|key| str::from_utf8(key).ok()).ok_or(TextError::Key(number))?;
    let value = Some(value).filter(|value| value.len() <= VALUE_BYTES_MAX).and_then(|value| str::from_utf8(value).ok());
    Ok(Pair { key, value: value.ok_or_else(|| TextError::Value { key: key.into() })? })
}

/// Appends a pair.
pub fn append(out: &mut Vec<u8>, key: &str, value: &str) {
    out.extend_from_slice(key.as_bytes());
    out.push(b'=');
    out.extend_from_slice(value.as_bytes());
    out.push(0);
}

/// A decimal or hexadecimal number (RFC 7143 6.1, numerical-value).
#[must_use]
pub fn number(value: &str) -> Option<u32> {
    let hexadecimal = value.strip_prefix("0x").or_else(|| value.strip_prefix("0X"));
    let (digits, radix) = hexadecimal.map_or((value, 10), |digits| (digits, 16));
    digits.bytes().all(|byte| byte.is_ascii_alphanumeric()).then(|| u32::from_str_radix(digits, radix).ok())?
}

/// Yes or No (RFC 7143 6.1, boolean-value).
#[must_use]
pub fn boolean(value: &str) -> Option<bool> {
    match value {
        "Yes" => Some(true),
        "No" => Some(false),
        _ => None,
    }
}

/// The value Yes or No for a boolean.
#[must_use]
pub const fn yes_no(value: bool) -> &'static str {
    if value { "Yes" } else { "No" }
}

/// A binary value, hexadecimal or base64, of at most `limit` bytes (RFC 7143 6.1, binary-value).
#[must_use]
pub fn binary(value: &str, limit: usize) -> Option<Vec<u8>> {
    let (head, rest) = value.split_at_checked(2)?;
    match head {
        "0x" | "0X" => hexadecimal(rest, limit),
        "0b" | "0B" => base64(rest, limit),
        _ => None,
    }
}

/// The hexadecimal form of a binary value.
#[must_use]
pub fn to_hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS.get(usize::from(value)).copied().unwrap_or_default());
    let mut text = String::with_capacity(2 + bytes.len() * 2);
    text.push_str("0x");
    text.extend(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
    text
}

fn hexadecimal(digits: &str, limit: usize) -> Option<Vec<u8>> {
    if digits.is_empty() || digits.len().div_ceil(2) > limit {
        return None;
    }
    let values: Option<Vec<u8>> = digits.chars().map(|digit| digit.to_digit(16).map(|value| value as u8)).collect();
    let mut values = values?;
    if values.len() % 2 == 1 {
        values.insert(0, 0); // A number without its leading zero.
    }
    Some(values.chunks_exact(2).map(|pair| pair.iter().fold(0, |byte, value| byte << 4 | value)).collect())
}

/// RFC 4648 4, with or without padding.
fn base64(digits: &str, limit: usize) -> Option<Vec<u8>> {
    let digits = digits.trim_end_matches('=');
    if digits.is_empty() || digits.len() / 4 * 3 > limit || digits.len() % 4 == 1 {
        return None;
    }
    let (mut bytes, mut bits, mut bit_count) = (Vec::with_capacity(limit.min(digits.len())), 0u32, 0);
    for digit in digits.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        bit_count += 6;
        if bit_count >= 8 {
            bit_count -= 8;
            bytes.push((bits >> bit_count) as u8);
        }
    }
    Some(bytes).filter(|bytes| bytes.len() <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_back_and_padding_is_passed_over() {
        let mut text = Vec::new();
        append(&mut text, "InitiatorName", "iqn.2026-01.example:a=b");
        append(&mut text, "X-empty", "");
        text.extend_from_slice(&[0, 0]);
        let pairs = parse(&text).unwrap();
        assert_eq!(pairs[0], Pair { key: "InitiatorName", value: "iqn.2026-01.example:a=b" });
        assert_eq!(pairs[1], Pair { key: "X-empty", value: "" });
        assert_eq!(pairs.len(), 2);
    }

    #[test]
    fn what_is_no_pair_is_refused() {
        assert_eq!(parse(b"a=1\0nothing\0"), Err(TextError::NoPair(1)));
        assert_eq!(parse(b"=1\0"), Err(TextError::NoPair(0)));
        assert_eq!(parse(b"a b=1\0"), Err(TextError::Key(0)));
        assert_eq!(parse(&[&[b'k'; 64][..], b"=1\0"].concat()), Err(TextError::Key(0)));
        assert_eq!(parse(b"a=\xff\0"), Err(TextError::Value { key: "a".into() }));
        assert_eq!(parse(&[b"a=".to_vec(), vec![b'v'; VALUE_BYTES_MAX + 1]].concat()), Err(TextError::Value { key: "a".into() }));
        assert_eq!(parse(&b"a=1\0".repeat(KEYS_MAX + 1)), Err(TextError::TooMany));
    }

    #[test]
    fn numbers_are_read_in_both_bases() {
        assert_eq!((number("8192"), number("0x2000"), number("0X2000")), (Some(8192), Some(8192), Some(8192)));
        assert_eq!((number(""), number("-1"), number("+1"), number("1k"), number("4294967296")), (None, None, None, None, None));
    }

    #[test]
    fn binary_values_are_read_in_both_forms() {
        assert_eq!(binary("0x0a0B", 8), Some(vec![10, 11]));
        assert_eq!(binary("0xa0B", 8), Some(vec![10, 11]));
        assert_eq!(binary("0bZm9vYg==", 8), Some(b"foob".to_vec()));
        assert_eq!(binary("0bZm9vYmFy", 8), Some(b"foobar".to_vec()));
        for bad in ["", "0", "0x", "0b", "0xg0", "0bZ", "0b?m9v", "10", "\u{20ac}x"] {
            assert_eq!(binary(bad, 8), None, "{bad}");
        }
        assert_eq!((binary("0x010203", 2), binary("0bZm9v", 2)), (None, None));
        assert_eq!(binary(&to_hexadecimal(&[0, 255, 16]), 3), Some(vec![0, 255, 16]));
    }
}
