//! Lines of `postgresql.conf` as the server's scanner splits them (guc-file.l): names, values,
//! escapes, comments.

/// The meaning of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    /// Nothing: only blanks or a comment.
    Empty,
    /// A setting or an include: its name in lower case, and its value without quotes and escapes.
    Says(String, String),
    /// A syntax error of the server.
    Wrong,
}

/// Reads one line without its newline.
pub(super) fn line(text: &str) -> Line {
    let mut rest = text;
    let name = match token(&mut rest) {
        None => return Line::Empty,
        Some(Token::Name(name)) => name,
        Some(_) => return Line::Wrong,
    };
    let mut value = token(&mut rest);
    if value == Some(Token::Equals) {
        value = token(&mut rest);
    }
    let said = match value {
        // A value like a name with a dot must be in quotes.
        Some(Token::Name(word)) if !word.contains('.') => word.to_owned(),
        Some(Token::Plain(word)) => word.to_owned(),
        Some(Token::Quoted(text)) => unescaped(text),
        _ => return Line::Wrong,
    };
    // No setting has a name with other characters than ASCII.
    if token(&mut rest).is_some() || !name.is_ascii() {
        return Line::Wrong;
    }
    Line::Says(name.to_ascii_lowercase(), said)
}

#[derive(Debug, PartialEq, Eq)]
enum Token<'a> {
    /// ID or QUALIFIED_ID.
    Name(&'a str),
    /// INTEGER, REAL or UNQUOTED_STRING.
    Plain(&'a str),
    /// STRING, without the quotes around it.
    Quoted(&'a str),
    Equals,
    Wrong,
}

/// The next token, which is the longest that fits; `None` at the end and before a comment.
fn token<'a>(rest: &mut &'a str) -> Option<Token<'a>> {
    let text = rest.trim_start_matches([' ', '\t', '\r']);
    let first = text.chars().next().filter(|letter| *letter != '#')?;
    let (length, token): (usize, fn(&'a str) -> Token<'a>) = match first {
        '=' => (1, |_| Token::Equals),
        '\'' => match quoted_length(text) {
            Some(length) => (length, |text| Token::Quoted(&text[1..text.len() - 1])),
            None => (text.len(), |_| Token::Wrong),
        },
        letter if is_letter(letter) => word(text),
        letter if letter.is_ascii_digit() || "+-.".contains(letter) => match number_length(text) {
            0 => (text.len(), |_| Token::Wrong),
            length => (length, Token::Plain),
        },
        _ => (text.len(), |_| Token::Wrong),
    };
    let (said, after) = text.split_at(length);
    *rest = after;
    Some(token(said))
}

fn is_letter(letter: char) -> bool {
    letter.is_ascii_alphabetic() || letter == '_' || !letter.is_ascii()
}

fn is_word(letter: char) -> bool {
    is_letter(letter) || letter.is_ascii_digit()
}

/// A name, a name with one dot, or a longer word.
fn word<'a>(text: &str) -> (usize, fn(&'a str) -> Token<'a>) {
    let run = |text: &str, is_part: fn(char) -> bool| text.find(|letter| !is_part(letter)).unwrap_or(text.len());
    let whole = run(text, |letter| is_word(letter) || "-._:/".contains(letter));
    let name = run(text, is_word);
    let second = text[name..].strip_prefix('.').filter(|rest| rest.starts_with(is_letter)).map(|rest| run(rest, is_word));
    let name = second.map_or(name, |second| name + 1 + second);
    if name == whole { (name, Token::Name) } else { (whole, Token::Plain) }
}

/// Length of a quoted text with its quotes. A quote inside is doubled or follows a backslash.
fn quoted_length(text: &str) -> Option<usize> {
    let mut letters = text.char_indices().skip(1).peekable();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => drop(letters.next()?),
            '\'' if letters.peek().is_some_and(|(_, next)| *next == '\'') => drop(letters.next()),
            '\'' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Length of an integer with the letters of a unit, or of a number with a point, whichever is
/// longer; 0 for other text.
fn number_length(text: &str) -> usize {
    let digits =
        |from: usize, is_digit: fn(&u8) -> bool| text.as_bytes()[from..].iter().take_while(|byte| is_digit(byte)).count();
    let sign = usize::from(text.starts_with(['+', '-']));
    let whole = digits(sign, u8::is_ascii_digit);
    let hexadecimal = if text[sign..].starts_with("0x") { digits(sign + 2, u8::is_ascii_hexdigit) } else { 0 };
    let integer = match (hexadecimal, whole) {
        (0, 0) => 0,
        (0, whole) => sign + whole,
        (hexadecimal, _) => sign + 2 + hexadecimal,
    };
    let integer = if integer > 0 { integer + digits(integer, u8::is_ascii_alphabetic) } else { 0 };
    let mut real = 0;
    if text[sign + whole..].starts_with('.') {
        real = sign + whole + 1;
        real += digits(real, u8::is_ascii_digit);
        let exponent = &text[real..];
        if exponent.starts_with(['e', 'E']) {
            let signed = 1 + usize::from(exponent[1..].starts_with(['+', '-']));
            let power = digits(real + signed, u8::is_ascii_digit);
            real += if power > 0 { signed + power } else { 0 };
        }
    }
    integer.max(real)
}

/// A quoted text with its escapes resolved (GUC_scanstr): `\n` and others, up to three octal
/// digits, doubled quotes.
fn unescaped(text: &str) -> String {
    let mut bytes = text.bytes().peekable();
    let mut plain: Vec<u8> = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        match byte {
            b'\'' => {
                bytes.next();
                plain.push(byte);
            }
            b'\\' => match bytes.next() {
                Some(b'b') => plain.push(8),
                Some(b'f') => plain.push(12),
                Some(b'n') => plain.push(b'\n'),
                Some(b'r') => plain.push(b'\r'),
                Some(b't') => plain.push(b'\t'),
                Some(first @ b'0'..=b'7') => {
                    let mut value = first - b'0';
                    for _ in 0..2 {
                        let Some(digit) = bytes.next_if(|byte| (b'0'..=b'7').contains(byte)) else { break };
                        value = value.wrapping_mul(8).wrapping_add(digit - b'0');
                    }
                    plain.push(value);
                }
                Some(other) => plain.push(other),
                None => {}
            },
            byte => plain.push(byte),
        }
    }
    // The server stores it as a NUL-terminated string.
    let end = plain.iter().position(|byte| *byte == 0).unwrap_or(plain.len());
    String::from_utf8_lossy(&plain[..end]).into_owned()
}

/// The value of a setting in the text of one configuration file, without its includes.
pub(in crate::collect) fn setting(text: &str, wanted: &str) -> Option<String> {
    let mut says = text.split('\n').filter_map(|text| match line(text) {
        Line::Says(name, said) if name == wanted => Some(said),
        _ => None,
    });
    says.next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_apart_as_the_scanner_of_the_server_does_it() {
        for (text, name, value) in [
            ("fsync=off", "fsync", "off"),
            ("FSYNC off # comment", "fsync", "off"),
            ("fsync'off'#comment", "fsync", "off"),
            ("\tfsync = 'o\\146f'\r", "fsync", "off"),
            ("a = 'it''s \\'x\\' \\\\ \\q'", "a", "it's 'x' \\ q"),
            ("shared_buffers = 0x40000", "shared_buffers", "0x40000"),
            ("shared_buffers 1GB#x", "shared_buffers", "1GB"),
            ("a = -1", "a", "-1"),
            ("a = .5", "a", ".5"),
            ("a = 1.5e-3", "a", "1.5e-3"),
            ("a.b = c-d:e/f.g", "a.b", "c-d:e/f.g"),
            ("include_dir 'conf.d'", "include_dir", "conf.d"),
            ("a = ''", "a", ""),
            ("a = 'x\\000y'", "a", "x"),
        ] {
            assert_eq!(line(text), Line::Says(name.to_owned(), value.to_owned()), "{text:?}");
        }
        for text in ["", "  \t\r", "# fsync = off"] {
            assert_eq!(line(text), Line::Empty, "{text:?}");
        }
    }

    #[test]
    fn what_the_server_calls_a_syntax_error_is_one() {
        for text in [
            "fsync",
            "fsync =",
            "fsync = = off",
            "fsync off on",
            "a = 1.5GB",
            "a = 5 min",
            "a = 1e3",
            "a = b.c",
            "a = 'b",
            "a = 'b\\'",
            "a = \"b\"",
            "= off",
            "'fsync' off",
            "a-b = 1",
            "a.b.c = 1",
            "1a = b",
            "a = 0X10",
            "a = +",
            "\u{feff}fsync = off",
            "fsync = off;",
        ] {
            assert_eq!(line(text), Line::Wrong, "{text:?}");
        }
    }
}
