//! Secrets in text without a form, found by the words around them: logins in URLs, arguments that
//! are passwords, values of keys with a word like `password`.

use super::REDACTED;

/// Words in a key that make its value a secret.
const SECRETS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "psk",
    "token",
    "sst_auth",
    "credential",
    "auth.username",
    "chap",
    "wep-key",
    "private-key",
    "api_key",
];

/// Keys that contain such a word and are not secrets.
const HARMLESS: &[&str] = &["password_encryption", "old_passwords", "default_password_lifetime", "stable_secret_none"];

/// A line without these secrets.
pub(super) fn redacted_line(line: &str) -> String {
    without_values(&without_passwords(&without_logins(line)))
}

/// `scheme://user:password@host` becomes `scheme://[redacted]@host`, and `user:password@host`
/// becomes `[redacted]@host`.
fn without_logins(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for piece in line.split_inclusive(|letter: char| letter.is_whitespace() || "'\"`,;()".contains(letter)) {
        // A secret that is not percent-encoded may contain `/`, `?` or `@`, so the last `@` of the
        // word ends the login.
        let Some(at) = piece.rfind('@') else {
            out.push_str(piece);
            continue;
        };
        let begin = piece[..at].find("//").map_or(0, |begin| begin + 2);
        let login = &piece[begin..at];
        let is_url = begin > 0 && !login.is_empty();
        if (is_url || login.contains([':', '%'])) && !is_placeholder(login) {
            out.push_str(&piece[..begin]);
            out.push_str(REDACTED);
            out.push_str(&piece[at..]);
        } else {
            out.push_str(piece);
        }
    }
    out
}

/// Whether a login is a placeholder in a message that explains URLs, such as `USER:PASSWORD`.
fn is_placeholder(login: &str) -> bool {
    login.chars().all(|letter| letter.is_ascii_uppercase() || ":%[]…".contains(letter))
}

/// Removes arguments that are passwords: `--password WORD`, `sshpass -p WORD`, `-u USER:WORD`, and
/// `-pWORD` of the clients of MySQL and MariaDB.
fn without_passwords(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let (mut option, mut program) = ("", "");
    for piece in line.split_inclusive([' ', '\t', '\'', '"']) {
        let word = piece.trim_end_matches([' ', '\t', '\'', '"']);
        if word.is_empty() {
            out.push_str(piece);
            continue;
        }
        let is_mysql = program.starts_with("mysql") || program.starts_with("mariadb");
        let attached = |flag: &str| word.strip_prefix(flag).filter(|rest| !rest.is_empty());
        let flag = match option {
            "--password" | "--passwd" | "--token" | "--secret" | "--pass" => Some(""),
            "-p" if program == "sshpass" => Some(""),
            "-u" | "--user" | "--proxy-user" | "-U" if word.contains(':') => Some(""),
            _ if program == "sshpass" && attached("-p").is_some() => Some("-p"),
            _ if is_mysql && attached("-p").is_some() => Some("-p"),
            _ if attached("-u").is_some_and(|login| login.contains(':')) => Some("-u"),
            _ if attached("--user=").is_some_and(|login| login.contains(':')) => Some("--user="),
            _ => None,
        };
        match flag {
            Some(flag) => {
                out.push_str(flag);
                out.push_str(REDACTED);
                out.push_str(&piece[word.len()..]);
            }
            None => out.push_str(piece),
        }
        if !word.starts_with('-') && flag.is_none() {
            program = word.rsplit(['/', '=']).next().unwrap_or(word);
        }
        option = word;
    }
    out
}

/// Removes the values of secret keys anywhere on the line.
fn without_values(line: &str) -> String {
    let lower = line.to_ascii_lowercase();
    let mut out = String::new();
    let mut at = 0;
    while let Some((begin, word)) =
        SECRETS.iter().filter_map(|word| lower[at..].find(word).map(|found| (at + found, *word))).min()
    {
        let before = lower[at..begin].char_indices().rev().find(|(_, letter)| !is_key(*letter));
        let key_begin = before.map_or(at, |(before, letter)| at + before + letter.len_utf8());
        let after_word = begin + word.len();
        let key_end = lower[after_word..].find(|letter: char| !is_key(letter)).map_or(lower.len(), |more| after_word + more);
        let harmless = HARMLESS.contains(&&lower[key_begin..key_end]);
        let Some((value_begin, value_end)) =
            value(line, key_end, line[..key_begin].trim_matches(|letter: char| " \t\"'#|".contains(letter)).is_empty())
                .filter(|_| !harmless)
        else {
            out.push_str(&line[at..key_end]);
            at = key_end;
            continue;
        };
        out.push_str(&line[at..value_begin]);
        out.push_str(REDACTED);
        at = value_end;
    }
    out.push_str(&line[at..]);
    out
}

fn is_key(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "_.-".contains(letter)
}

/// The byte range of the value after a key. If the key begins the line, the value is the rest of
/// the line; otherwise it ends at the next separator.
fn value(line: &str, key_end: usize, begins: bool) -> Option<(usize, usize)> {
    let rest = &line[key_end..];
    let marks = rest.find(|letter: char| !"\"' \t=:|,".contains(letter)).unwrap_or(rest.len());
    let separator = &rest[..marks];
    // In running text, only blanks follow a word.
    let apart = separator.contains(['=', ':', '|', '\t']) || (begins && separator.contains([',', ' ']));
    if marks == rest.len() || !apart {
        return None;
    }
    let begin = key_end + marks;
    if begins {
        return Some((begin, line.len()));
    }
    let end = line[begin..]
        .find(|letter: char| letter.is_whitespace() || ",;&'\"|".contains(letter))
        .map_or(line.len(), |more| begin + more);
    Some((begin, end))
}
