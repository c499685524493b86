//! Splits a text into tokens.

use super::error::ParseError;

/// A token of the language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Number(i64),
    /// A number with a unit of bytes.
    Size(i64),
    Text(String),
    /// A bare word: a name, a function or a keyword.
    Word(String),
    /// A name in backquotes.
    Quoted(String),
    /// `(`, `<=` and others.
    Symbol(&'static str),
    End,
}

/// The symbols, the longest first, so that `<=` is not read as `<`.
const SYMBOLS: [&str; 18] = ["==", "!=", "<=", ">=", "<", ">", "(", ")", "[", "]", ",", "+", "-", "*", "/", "%", "&&", "||"];

/// All tokens with the byte at which each begins. The last one is [`Token::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<(Token, usize)>, ParseError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let blank = rest.len() - rest.trim_start().len();
        at += blank;
        let rest = rest.trim_start();
        let Some(first) = rest.chars().next() else {
            tokens.push((Token::End, at));
            return Ok(tokens);
        };
        let (token, length) = match first {
            '\'' => quoted(rest, '\'').map(|(word, length)| (Token::Text(word), length)),
            '`' => quoted(rest, '`').map(|(word, length)| (Token::Quoted(word), length)),
            '0'..='9' => number(rest),
            'a'..='z' | 'A'..='Z' | '_' => Ok(word(rest)),
            _ => symbol(rest, first),
        }
        .map_err(|what| ParseError::new(text, at, what))?;
        tokens.push((token, at));
        at += length;
    }
}

/// A quoted text up to its closing mark. A doubled mark stands for one.
fn quoted(rest: &str, mark: char) -> Result<(String, usize), String> {
    let mut word = String::new();
    let mut characters = rest.char_indices().skip(1).peekable();
    while let Some((at, character)) = characters.next() {
        if character != mark {
            word.push(character);
        } else if characters.next_if(|(_, next)| *next == mark).is_some() {
            word.push(mark);
        } else {
            return Ok((word, at + mark.len_utf8()));
        }
    }
    Err(format!("a closing {mark} is missing"))
}

fn number(rest: &str) -> Result<(Token, usize), String> {
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
    let (word, _) = rest.split_at(end);
    let value = if let Some(digits) = word.strip_prefix("0x") {
        i64::from_str_radix(digits, 16).ok()
    } else {
        let (digits, unit) = word.split_at(word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len()));
        let factor = match unit {
            "" => 1,
            "KiB" => 1_i64 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            "TiB" => 1 << 40,
            _ => return Err(format!("unknown unit {unit:?}; known are KiB, MiB, GiB and TiB")),
        };
        digits.parse::<i64>().ok().and_then(|count| count.checked_mul(factor))
    };
    let has_unit = word.ends_with("iB");
    let token = move |value| if has_unit { Token::Size(value) } else { Token::Number(value) };
    value.map(|value| (token(value), end)).ok_or_else(|| format!("{word} is not a number, or too large"))
}

fn word(rest: &str) -> (Token, usize) {
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':'))).unwrap_or(rest.len());
    (Token::Word(rest.get(..end).unwrap_or_default().to_owned()), end)
}

fn symbol(rest: &str, first: char) -> Result<(Token, usize), String> {
    match SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
        Some("&&") => Err("`&&` is written `and`".to_owned()),
        Some("||") => Err("`||` is written `or`".to_owned()),
        Some(symbol) => Ok((Token::Symbol(symbol), symbol.len())),
        None if first == '=' => Err("`=` is written `==`".to_owned()),
        None if first == '!' => Err("`!` is written `not`".to_owned()),
        None if first == '"' => Err("text stands in single quotes".to_owned()),
        None => Err(format!("{first:?} has no meaning here")),
    }
}
