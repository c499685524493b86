//! Connection strings: libpq's key=value lists and URLs (PostgreSQL 18, 34.1.1).

use host::escape::percent_decoded;

use super::error::ConninfoError;
use super::keywords::{Support, keyword};

/// Keywords with their values, in the order of the text.
pub(super) type Pairs = Vec<(&'static str, String)>;

/// The source of the pairs, for messages.
const ORIGIN: &str = "the connection string";

/// Parses a URL, a key=value list, or the bare name of a database.
pub(super) fn parse(text: &str) -> Result<Pairs, ConninfoError> {
    for scheme in ["postgresql://", "postgres://"] {
        if let Some(rest) = text.strip_prefix(scheme) {
            return url(rest);
        }
    }
    if text.contains('=') {
        return list(text);
    }
    if text.contains("//") {
        return Err(ConninfoError::Syntax { what: "it begins with neither postgresql:// nor postgres://" });
    }
    let name = text.trim();
    Ok(if name.is_empty() { Vec::new() } else { vec![("dbname", name.to_owned())] })
}

/// Adds a pair whose keyword must be known.
pub(super) fn add(pairs: &mut Pairs, origin: &str, name: &str, value: String) -> Result<(), ConninfoError> {
    let unknown = || {
        // The rest of a password with a blank or an unescaped quote would be parsed as a keyword.
        let secret = pairs.iter().any(|(name, _)| *name == "password") || !name.chars().all(is_of_keyword);
        let keyword = if secret { "a word after the password".to_owned() } else { format!("\"{name}\"") };
        ConninfoError::UnknownKeyword { origin: origin.to_owned(), keyword }
    };
    let found = keyword(name).ok_or_else(unknown)?;
    match found.support {
        Support::Full => pairs.push((found.name, value)),
        Support::Ignored => {}
        Support::Refused => return Err(ConninfoError::Unsupported { keyword: found.name, origin: origin.to_owned() }),
    }
    Ok(())
}

fn is_of_keyword(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

fn list(text: &str) -> Result<Pairs, ConninfoError> {
    let mut pairs = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let Some((name, after)) = rest.split_once('=') else {
            return Err(ConninfoError::Syntax { what: "a word has no = after it" });
        };
        let name = name.trim_end();
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(ConninfoError::Syntax { what: "a word has no = after it" });
        }
        let (value, after) = value(after.trim_start())?;
        add(&mut pairs, ORIGIN, name, value)?;
        rest = after.trim_start();
    }
    Ok(pairs)
}

/// A value up to the next blank, or in single quotes; a backslash escapes the next character.
fn value(text: &str) -> Result<(String, &str), ConninfoError> {
    let quoted = text.starts_with('\'');
    let mut value = String::new();
    let mut letters = text.char_indices().skip(usize::from(quoted));
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => value.extend(letters.next().map(|(_, escaped)| escaped)),
            '\'' if quoted => return Ok((value, &text[at + 1..])),
            blank if !quoted && blank.is_whitespace() => return Ok((value, &text[at..])),
            _ => value.push(letter),
        }
    }
    if quoted { Err(ConninfoError::Syntax { what: "a quoted value has no end" }) } else { Ok((value, "")) }
}

fn url(rest: &str) -> Result<Pairs, ConninfoError> {
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
    let (authority, database) = rest.split_once('/').map_or((rest, None), |(authority, name)| (authority, Some(name)));
    if !authority.contains('@') && query.is_some_and(|query| query.contains('@')) {
        return Err(ConninfoError::Syntax { what: "there is an @ after a ?" });
    }
    let mut pairs = Vec::new();
    let hosts = match authority.rsplit_once('@') {
        None => authority,
        Some((who, hosts)) => {
            let (user, password) = who.split_once(':').map_or((who, None), |(user, password)| (user, Some(password)));
            push_decoded(&mut pairs, "user", user)?;
            push_decoded(&mut pairs, "password", password.unwrap_or_default())?;
            hosts
        }
    };
    push_hosts(&mut pairs, hosts)?;
    push_decoded(&mut pairs, "dbname", database.unwrap_or_default())?;
    for part in query.into_iter().flat_map(|query| query.split('&')).filter(|part| !part.is_empty()) {
        let Some((name, value)) = part.split_once('=') else {
            return Err(ConninfoError::Syntax { what: "a parameter after the ? has no =" });
        };
        let (name, value) = (decoded(name)?, decoded(value)?);
        // As in libpq, for compatibility with other drivers.
        if name == "ssl" && value == "true" {
            pairs.push(("sslmode", "require".to_owned()));
        } else {
            add(&mut pairs, ORIGIN, &name, value)?;
        }
    }
    Ok(pairs)
}

/// `HOST:PORT,HOST:PORT`; an IPv6 address is in brackets.
fn push_hosts(pairs: &mut Pairs, text: &str) -> Result<(), ConninfoError> {
    let (mut hosts, mut ports) = (Vec::new(), Vec::new());
    for one in text.split(',') {
        let (host, port) = match one.strip_prefix('[') {
            Some(bracketed) => {
                let Some((host, after)) = bracketed.split_once(']') else {
                    return Err(ConninfoError::Syntax { what: "an IPv6 address has no ] at its end" });
                };
                (host, after.strip_prefix(':').unwrap_or(after))
            }
            None => one.split_once(':').unwrap_or((one, "")),
        };
        hosts.push(decoded(host)?);
        ports.push(decoded(port)?);
    }
    if !ports.iter().all(|port| port.bytes().all(|digit| digit.is_ascii_digit())) {
        return Err(ConninfoError::Syntax { what: "a port is not a number from 1 to 65535" });
    }
    if hosts.iter().any(|host| !host.is_empty()) {
        pairs.push(("host", hosts.join(",")));
    }
    if ports.iter().any(|port| !port.is_empty()) {
        pairs.push(("port", ports.join(",")));
    }
    Ok(())
}

fn push_decoded(pairs: &mut Pairs, name: &'static str, text: &str) -> Result<(), ConninfoError> {
    if !text.is_empty() {
        pairs.push((name, decoded(text)?));
    }
    Ok(())
}

/// Percent-encoding (RFC 3986 2.1).
pub(crate) fn decoded(text: &str) -> Result<String, ConninfoError> {
    let what = "a % is not followed by two hexadecimal digits that make UTF-8";
    percent_decoded(text).ok_or(ConninfoError::Syntax { what })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(&'static str, String)> {
        parse(text).unwrap()
    }

    fn one(name: &'static str, value: &str) -> (&'static str, String) {
        (name, value.to_owned())
    }

    #[test]
    fn lists_are_read_with_quotes_escapes_and_blanks_around_the_sign() {
        let all = [one("host", "db1"), one("password", "it's a \\ secret"), one("dbname", ""), one("user", "o'b")];
        assert_eq!(pairs(r"  host = db1 password='it\'s a \\ secret' dbname='' user=o\'b "), all);
        assert_eq!(pairs("mill"), [one("dbname", "mill")]);
        assert_eq!(pairs(""), []);
    }

    #[test]
    fn urls_are_read_with_several_hosts_encoded_signs_and_parameters() {
        let text = "postgres://clerk:p%40ss@db1:5433,[::1]:5434/sh%6Fp?sslmode=verify-full&client_encoding=UTF8";
        let all = [
            one("user", "clerk"),
            one("password", "p@ss"),
            one("host", "db1,::1"),
            one("port", "5433,5434"),
            one("dbname", "shop"),
            one("sslmode", "verify-full"),
        ];
        assert_eq!(pairs(text), all);
        assert_eq!(
            pairs("postgresql:///mill?host=/run/pg&ssl=true"),
            [one("dbname", "mill"), one("host", "/run/pg"), one("sslmode", "require")]
        );
    }

    #[test]
    fn what_is_neither_is_refused_and_no_part_of_a_password_is_repeated() {
        for text in [
            "postgres//no",
            "http://db1/mill",
            "host=a 'b",
            "host='a",
            "password=two words=x",
            "password='right' sslmod=x",
            "postgresql://clerk:two?words@db1/mill",
            "postgresql://clerk:words=x?words=y@db1/mill",
            "postgresql://clerk:12?words=y@db1/mill",
            "postgresql://db1/%zz",
            "postgresql://[::1/x",
        ] {
            let said = parse(text).unwrap_err().to_string();
            assert!(!said.contains("words") && !said.contains("right"), "{text}: {said}");
        }
        let said = parse("host=db1 sslmod=require").unwrap_err().to_string();
        assert_eq!(said, "the connection string has \"sslmod\", which is not a connection parameter");
        assert!(matches!(parse("requirepeer=postgres"), Err(ConninfoError::Unsupported { .. })));
    }
}
