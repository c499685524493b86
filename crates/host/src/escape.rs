//! Text that is written out where something would act on its characters: a terminal, HTML and XML, a URL.

use std::fmt::Write as _;

/// Text for a terminal. Control characters and the marks that turn the direction of text are written as Rust escapes:
/// `\n`, `\u{1b}`.
#[must_use]
pub fn plain(text: &str) -> String {
    text.chars().flat_map(plain_character).collect()
}

/// As [`plain`], of one character.
pub fn plain_character(character: char) -> impl Iterator<Item = char> {
    let acts = character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let code = acts.then(|| character.escape_default());
    code.into_iter().flatten().chain((!acts).then_some(character))
}

/// Text for HTML and XML, between tags and in attributes.
#[must_use]
pub fn markup(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

/// Text for a URL. Writes each byte as `%XX` unless `is_plain` accepts it (RFC 3986 2.1).
#[must_use]
pub fn percent_encoded(text: &str, is_plain: impl Fn(u8) -> bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if is_plain(byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// Decodes `%XX`. `None` if a `%` is not followed by two hexadecimal digits, or if the result is not UTF-8.
#[must_use]
pub fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let mut digit = || char::from(rest.next()?).to_digit(16);
        bytes.push(if byte == b'%' { (digit()? << 4 | digit()?) as u8 } else { byte });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_act_on_a_terminal_are_escaped() {
        assert_eq!(plain("/u02\u{1b}[31m\r\n"), "/u02\\u{1b}[31m\\r\\n");
        assert_eq!(plain("a\u{202e}b é"), "a\\u{202e}b é");
    }

    #[test]
    fn markup_has_no_marks_of_its_text() {
        assert_eq!(markup("a<b> & \"c\" 'é'"), "a&lt;b&gt; &amp; &quot;c&quot; &#39;é&#39;");
    }

    #[test]
    fn an_encoded_text_is_decoded_and_an_incomplete_code_is_refused() {
        let encoded = percent_encoded("a b%é", |byte| byte.is_ascii_alphanumeric());
        assert_eq!(encoded, "a%20b%25%C3%A9");
        assert_eq!(percent_decoded(&encoded).as_deref(), Some("a b%é"));
        assert!(["%", "%4", "%+4", "%g0", "%é", "%ff"].iter().all(|text| percent_decoded(text).is_none()));
    }
}
