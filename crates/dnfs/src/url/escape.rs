//! `%XX` in paths.

use super::error::UrlError;
use std::fmt::Write as _;

/// Percent-encodes a path for a URL.
#[must_use]
pub fn escape(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'%' | b'?' | b'#' | 0..=b' ' | 0x7f.. => {
                let _ = write!(text, "%{byte:02X}");
            }
            _ => text.push(char::from(byte)),
        }
    }
    text
}

/// Decodes the percent-encoded bytes of a path.
pub(crate) fn unescape(path: &str) -> Result<String, UrlError> {
    let bad = || UrlError::Escape { path: path.to_owned() };
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, tail @ ..] = rest {
        if *first == b'%' {
            let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok()).ok_or_else(bad)?;
            bytes.push(u8::from_str_radix(digits, 16).map_err(|_| bad())?);
            rest = tail.get(2..).unwrap_or_default();
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).map_err(|_| bad())
}
