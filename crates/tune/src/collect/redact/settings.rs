//! Lines with a key and a value: configuration files, tables of database clients, kernel
//! parameters.

use super::state::{REDACTED, State};

/// The syntax of the settings in a file.
pub(super) struct Style {
    /// Characters that begin a comment.
    pub(super) comments: &'static [char],
    /// Characters between key and value.
    pub(super) marks: &'static [char],
    /// Whether blanks may separate key and value instead.
    pub(super) by_blank: bool,
    /// Whether a `#` outside quotes ends the value.
    pub(super) hash_ends: bool,
    /// Whether a value is kept, by its key and the value.
    pub(super) keeps: fn(&str, &str) -> bool,
}

/// A line of a file with this syntax. Sections and known values are kept; comments and other values
/// are removed.
pub(super) fn line(line: &str, style: &Style) -> String {
    let trimmed = line.trim();
    if trimmed.is_empty() {
        return String::new();
    }
    if let Some(mark) = trimmed.chars().next().filter(|first| style.comments.contains(first)) {
        return mark.to_string();
    }
    if trimmed.starts_with('[') {
        return section(trimmed);
    }
    let is_end = |letter: char| style.marks.contains(&letter) || style.by_blank && (letter.is_whitespace() || letter == '\'');
    // A line that is not a setting is a mistake and stays one. The placeholder alone would be read
    // as a section.
    let gone = || "?".to_owned();
    let Some(end) = trimmed.find(is_end) else {
        return if (style.keeps)(trimmed, "") { trimmed.to_owned() } else { gone() };
    };
    let (key, rest) = trimmed.split_at(end);
    let value = rest.trim_start();
    let value = value.strip_prefix(style.marks).unwrap_or(value).trim_start();
    let between = &rest[..rest.len() - value.len()];
    let (said, more) = if style.by_blank { token(value) } else { (without_comment(value, style.hash_ends), "") };
    // A key is a name. `curl -H token=x` does not begin with one.
    let is_name = !key.trim().is_empty() && key.trim().chars().all(|letter| !letter.is_control() && !"'\"$`;|&".contains(letter));
    match (is_name, said) {
        (false, _) => gone(),
        (true, "") => format!("{key}{between}"),
        (true, said) if (style.keeps)(key.trim(), said) => format!("{key}{between}{said}{more}"),
        // A mistake in the file stays a mistake.
        (true, _) if !more.is_empty() => format!("{key} ?"),
        (true, _) if between.is_empty() => format!("{key} {REDACTED}"),
        (true, _) => format!("{key}{between}{REDACTED}"),
    }
}

/// A section such as `[ MountPoint "/srv/pg" ]`, without the text after it.
fn section(line: &str) -> String {
    let inner = line.split(']').next().unwrap_or(line);
    let is_plain = inner.chars().all(|letter| letter.is_ascii_alphanumeric() || "[_. \"/:-\t".contains(letter));
    match (is_plain, inner.len() < line.len()) {
        (true, true) => format!("{inner}]"),
        (false, true) => format!("[{REDACTED}"),
        // A section without its closing bracket is a mistake and stays one.
        (_, false) => "[?".to_owned(),
    }
}

/// A value without the comment after it.
fn without_comment(value: &str, hash_ends: bool) -> &str {
    if let Some(quote) = value.chars().next().filter(|letter| "'\"".contains(*letter)) {
        let (said, rest) = value.split_at(quoted_length(value, quote));
        // Oracle writes lists of quoted texts.
        if !rest.trim_start().starts_with(',') {
            return said;
        }
    }
    let end = value.find('#').filter(|_| hash_ends).unwrap_or(value.len());
    value[..end].trim_end()
}

/// A value that ends with its quote or at a blank. Text after it is a mistake and stays one.
fn token(value: &str) -> (&str, &'static str) {
    let end = match value.chars().next() {
        Some('\'') => quoted_length(value, '\''),
        _ => value.find(|letter: char| letter.is_whitespace() || letter == '#').unwrap_or(value.len()),
    };
    let (said, rest) = (&value[..end], value[end..].trim_start());
    let is_whole = !said.starts_with('\'') || said.len() > 1 && said.ends_with('\'');
    (said, if is_whole && (rest.is_empty() || rest.starts_with('#')) { "" } else { " ?" })
}

/// Length of a quoted text with both quotes. A quote inside is doubled or follows a backslash.
fn quoted_length(said: &str, quote: char) -> usize {
    let mut letters = said.char_indices().skip(1).peekable();
    while let Some((at, letter)) = letters.next() {
        let is_doubled = letter == quote && letters.peek().is_some_and(|(_, next)| *next == quote);
        if letter == '\\' || is_doubled {
            letters.next();
        } else if letter == quote {
            return at + letter.len_utf8();
        }
    }
    said.len()
}

/// Whether a value is a number, a size, a time, or a word such as yes or no, and its key is not
/// named like a secret.
pub(super) fn is_amount(key: &str, value: &str) -> bool {
    const WORDS: &[&str] = &["on", "off", "yes", "no", "true", "false", "y", "n", "auto", "default", "none", "unlimited"];
    const UNITS: &[&str] =
        &["", "b", "k", "m", "g", "t", "kb", "mb", "gb", "tb", "kib", "mib", "gib", "us", "ms", "s", "min", "h", "d"];
    let value = value.trim_matches(['\'', '"', ' ']).to_ascii_lowercase();
    let is_word = WORDS.contains(&value.as_str());
    let is_number = |part: &str| {
        let digits = part.strip_prefix(['-', '+']).unwrap_or(part);
        let hexadecimal = digits.strip_prefix("0x").is_some_and(|rest| rest.chars().all(|letter| letter.is_ascii_hexdigit()));
        let end = digits.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(digits.len());
        hexadecimal || end > 0 && UNITS.contains(&&digits[end..])
    };
    let mut parts = value.split([' ', '\t', ',', '(', ')']).filter(|part| !part.is_empty());
    (is_word || is_number(&value.replace(' ', "")) || parts.all(is_number)) && !is_secret(key)
}

/// Whether a key is named like a secret. Then even a number is removed.
fn is_secret(key: &str) -> bool {
    const WORDS: &[&str] =
        &["pass", "passphrase", "password", "passwd", "pin", "psk", "pw", "secret", "token", "key", "community", "cred", "auth"];
    let key = key.to_ascii_lowercase();
    let mut words = key.split(|letter: char| !letter.is_ascii_alphanumeric());
    words.any(|word| WORDS.contains(&word) || word.ends_with("pass") || word.ends_with("pw") || word.contains("passw"))
}

/// A kernel parameter `key = value`, with `/` or `.` in the key. A `-` before it means that errors
/// are ignored.
pub(super) fn keeps_sysctl(key: &str, value: &str) -> bool {
    let name = key.trim_start_matches('-').trim().replace('/', ".");
    let numbers = value.split_whitespace().all(|word| is_amount(&name, word));
    let is_secret = ["stable_secret", "boot_id", "uuid"].iter().any(|end| name.ends_with(end));
    !is_secret && (numbers || super::keys::SYSCTL.contains(&name.as_str()) && super::options::is_plain(&value.replace(' ', "")))
}

/// A setting of PostgreSQL. Settings of extensions have a dot in their names, and their values are
/// never kept.
pub(super) fn keeps_postgres(key: &str, value: &str) -> bool {
    let key = key.to_ascii_lowercase();
    super::keys::POSTGRES.contains(&key.as_str()) || !key.contains('.') && !value.is_empty() && is_amount(&key, value)
}

/// An option of MySQL or MariaDB. Its name may be shortened to a unique prefix, and may have
/// prefixes such as `skip_`.
pub(super) fn keeps_mysql(key: &str, value: &str) -> bool {
    if key.starts_with('!') {
        return true;
    }
    let key = key.to_ascii_lowercase().replace('-', "_");
    let mut name = key.as_str();
    for prefix in ["loose_", "skip_", "disable_", "enable_", "maximum_"] {
        name = name.strip_prefix(prefix).unwrap_or(name);
    }
    let is_known =
        super::keys::MYSQL.iter().any(|known| known.starts_with(name) && (name.len() >= 8 || known.len() == name.len()));
    if value.is_empty() {
        return is_known || name.starts_with("innodb") || name.len() < key.len();
    }
    is_known || !name.contains('.') && is_amount(name, value)
}

/// `mysqld-auto.cnf`, in which each variable is an object with a member `Value`. A text that is not
/// JSON is removed completely.
pub(super) fn persisted(text: &str) -> String {
    match serde_json::from_str(text) {
        Ok(mut json) => {
            redact_variables(&mut json);
            json.to_string()
        }
        Err(_) => REDACTED.to_owned(),
    }
}

fn redact_variables(json: &mut serde_json::Value) {
    for (name, member) in json.as_object_mut().into_iter().flatten() {
        // The user and time of the change.
        if let Some(members) = member.as_object_mut() {
            members.remove("Metadata");
        }
        match member.get_mut("Value") {
            Some(value) if !value.as_str().is_some_and(|said| keeps_mysql(name, said)) => *value = REDACTED.into(),
            Some(_) => {}
            // serde_json limits the depth of this recursion.
            None => redact_variables(member),
        }
    }
}

/// A parameter of Oracle. For `*.name` and `instance.name`, the name counts.
pub(super) fn keeps_oracle(key: &str, value: &str) -> bool {
    let key = key.rsplit('.').next().unwrap_or(key).trim().to_ascii_lowercase();
    is_amount(&key, value) || super::keys::ORACLE.contains(&key.as_str()) && !value.contains('@')
}

/// A row of a table as clients print it, with name and value in the first two cells. A line that
/// continues a removed value is removed too.
pub(super) fn row(line: &str, state: &mut State) -> String {
    let kept = row_alone(line, state.goes);
    state.goes = kept.contains(REDACTED);
    kept
}

fn row_alone(line: &str, goes: bool) -> String {
    // The error of a server's program quotes the line that it does not understand.
    if let Some(reason) = line.strip_prefix("!\t") {
        let end = [reason.find('='), reason.find(": \"")].into_iter().flatten().min().unwrap_or(reason.len());
        let more = if end < reason.len() { format!(" {REDACTED}") } else { String::new() };
        return format!("!\t{}{more}", &reason[..end]);
    }
    let trimmed = line.trim();
    let is_rule =
        trimmed.chars().all(|letter| "-+| =".contains(letter)) || trimmed.starts_with('(') && trimmed.ends_with("rows)");
    let inner = trimmed.trim_start_matches(['|', ' ']);
    let mark = ['\t', '|', ',', '='].into_iter().find(|mark| inner.contains(*mark));
    let Some(mark) = mark.filter(|_| !is_rule) else {
        return if is_rule { trimmed.to_owned() } else { columns(trimmed, goes) };
    };
    let (first, rest) = inner.split_once(mark).unwrap_or((inner, ""));
    let name = first.trim_matches([' ', '"', '\'']);
    let is_head = ["name", "variable_name", "num", "inst_id"].iter().any(|head| name.eq_ignore_ascii_case(head));
    let value = rest.split(mark).next().unwrap_or(rest).trim();
    if is_head || keeps_any(name, value) { line.to_owned() } else { format!("{first}{mark}{REDACTED}") }
}

/// Columns separated by blanks: `show parameter` of SQL*Plus, with a type in the second column, and
/// names with values.
fn columns(line: &str, goes: bool) -> String {
    const TYPES: &[&str] = &["string", "integer", "boolean", "big", "file", "number"];
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        [name, kind, rest @ ..] if TYPES.contains(kind) => {
            let rest = if *kind == "big" { rest.get(1..).unwrap_or_default() } else { rest };
            let kept = rest.is_empty() || keeps_any(name, &rest.join(" "));
            if kept { line.to_owned() } else { format!("{name} {kind} {REDACTED}") }
        }
        [name, value] if !name.eq_ignore_ascii_case("name") => {
            if keeps_any(name, value) {
                line.to_owned()
            } else {
                format!("{name} {REDACTED}")
            }
        }
        [_] if goes => REDACTED.to_owned(),
        // A heading, or the banner of a client.
        words if words.len() < 2 || line.contains("Release ") || line.contains("PostgreSQL") || words.contains(&"TYPE") => {
            line.to_owned()
        }
        _ => REDACTED.to_owned(),
    }
}

fn keeps_any(name: &str, value: &str) -> bool {
    keeps_postgres(name, value) || keeps_mysql(name, value) || keeps_oracle(name, value)
}
