//! Options of MySQL and MariaDB as the server takes them from a file or a command line
//! (my_getopt.c): names shortened to a unique prefix, modifiers such as `skip-` and `loose-`,
//! values by word and by number.

use crate::collect::database::rows::plain_setting;
use crate::collect::text::bytes;
use crate::facts::Value;

/// Which of the two servers reads the options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::collect) enum Flavor {
    /// MariaDB.
    MariaDb,
    /// MySQL and its derivatives.
    MySql,
}

/// How the server takes an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Taken {
    /// From here on, the option has this value.
    Set(String, Value),
    /// From here on, the values of these options are not known, for this reason.
    Doubt(Vec<&'static str>, String),
    /// The option has no effect.
    Ignored,
    /// With this option the server does not start.
    Refused(String),
}

/// The kind of value that an option takes.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Switch,
    /// A switch in MariaDB. In MySQL, one of these words.
    SwitchOrWords(&'static [&'static str]),
    /// A whole number with an optional suffix, at least `least`. `most` has the limits of MariaDB
    /// and of MySQL. `otherwise` is the value of the option without a number.
    Number {
        least: i64,
        most: (i64, i64),
        otherwise: Option<i64>,
    },
    Words(&'static [&'static str]),
    /// The name of a log. Any value turns the log on.
    Named,
    Text,
}

/// The options that rules use. The number is the length of the shortest prefix that no other option
/// of its server has.
const OPTIONS: &[(&str, usize, Kind)] = &[
    ("datadir", 4, Kind::Text),
    ("innodb_buffer_pool_size", 23, ANY),
    ("innodb_data_file_buffering", 18, Kind::Switch),
    ("innodb_doublewrite", 9, Kind::SwitchOrWords(&["OFF", "ON", "DETECT_AND_RECOVER", "DETECT_ONLY", "FALSE", "TRUE"])),
    ("innodb_flush_log_at_trx_commit", 22, Kind::Number { least: 0, most: (3, 2), otherwise: Some(1) }),
    ("innodb_flush_method", 14, Kind::Words(&["fsync", "O_DSYNC", "littlesync", "nosync", "O_DIRECT", "O_DIRECT_NO_FSYNC"])),
    ("innodb_io_capacity", 18, Kind::Number { least: 100, most: (i64::MAX, i64::MAX), otherwise: None }),
    ("innodb_io_capacity_max", 19, Kind::Number { least: 100, most: (i64::MAX, i64::MAX), otherwise: None }),
    ("innodb_log_file_size", 17, ANY),
    ("innodb_page_size", 9, ANY),
    ("innodb_redo_log_capacity", 10, ANY),
    ("innodb_use_native_aio", 12, Kind::Switch),
    ("log_bin", 7, Kind::Named),
    ("sync_binlog", 6, ANY),
];

/// Whether rules use the option of this name.
pub(in crate::collect::database) fn is_asked(name: &str) -> bool {
    OPTIONS.iter().any(|(option, ..)| *option == name)
}

/// Whether a word of a command line sets one of these options or names files. Such a word is never
/// a secret.
pub(in crate::collect) fn is_asked_argument(word: &str) -> bool {
    let Some(word) = word.strip_prefix("--") else { return false };
    let (name, said) = word.split_once('=').map_or((word, None), |(name, said)| (name, Some(said)));
    let is_about_files = name.starts_with("defaults-") || name == "no-defaults";
    is_about_files || is_asked_of(name, said)
}

/// Whether an option is one that rules use, if its name is shortened or has a prefix.
pub(super) fn is_asked_of(written: &str, said: Option<&str>) -> bool {
    match taken(written, said, None) {
        Taken::Set(name, _) => is_asked(&name),
        Taken::Doubt(..) | Taken::Ignored | Taken::Refused(_) => true,
    }
}

const ANY: Kind = Kind::Number { least: 0, most: (i64::MAX, i64::MAX), otherwise: None };

/// A prefix of names above that is also the name of another option.
const OTHER: &str = "innodb";

const PREFIXES: &[&str] = &["loose_", "skip_", "disable_", "enable_", "maximum_", "autoset_"];

/// How the server takes an option: its name without the leading dashes, and its value, if there is
/// one.
pub(super) fn taken(written: &str, said: Option<&str>, flavor: Option<Flavor>) -> Taken {
    let full = written.to_ascii_lowercase().replace('-', "_");
    let mut name = full.as_str();
    let mut prefix = "";
    let (option, kind) = loop {
        match found(name) {
            Found::One(option, kind) => break (option, kind),
            Found::Several(_) if flavor == Some(Flavor::MariaDb) => {
                return Taken::Refused(format!("{written} is the begin of several options"));
            }
            // Old versions of MySQL have options with such names.
            Found::Several(options) => return Taken::Doubt(options, format!("{written} is the begin of several options")),
            Found::Not => {}
        }
        match PREFIXES.iter().find_map(|prefix| Some((prefix, name.strip_prefix(prefix)?))) {
            Some((found, rest)) => (prefix, name) = (found, rest),
            // One of the many options that no rule uses.
            None => return Taken::Set(full.strip_prefix("loose_").unwrap_or(&full).to_owned(), other(&full, said)),
        }
    };
    let refused = || Taken::Refused(format!("{written} = {:?} is no value that the server takes", said.unwrap_or_default()));
    let said = match prefix {
        // `skip` with the value 0 turns the option on.
        "skip_" | "disable_" => Some(if said == Some("0") { "1" } else { "0" }),
        "enable_" => Some(if said == Some("0") { "0" } else { "1" }),
        // It limits what SET may assign and does not change the option itself.
        "maximum_" => return Taken::Ignored,
        "autoset_" => return Taken::Doubt(vec![option], format!("{written} leaves the value to the server")),
        _ => said,
    };
    let is_off = matches!(prefix, "skip_" | "disable_") && said == Some("0");
    let value = match kind {
        Kind::Switch => return switch(option, said.unwrap_or("1"), flavor),
        Kind::SwitchOrWords(words) => return switch_or_word(option, said.unwrap_or("1"), words, flavor),
        Kind::Number { otherwise, .. } if said.is_none() => otherwise.map(Value::Int),
        Kind::Number { least, most, .. } => match number(said.unwrap_or_default()) {
            Some(number) if number > most.0.min(most.1) && flavor.is_none() => {
                return Taken::Doubt(vec![option], format!("{option} = {number} is taken by MariaDB and MySQL differently"));
            }
            // The server uses the nearest value in its range.
            found => {
                let most = if flavor == Some(Flavor::MySql) { most.1 } else { most.0 };
                found.map(|number| Value::Int(number.clamp(least, most)))
            }
        },
        Kind::Words(words) => said.and_then(|said| word(words, said)).map(Value::from),
        Kind::Named => Some(Value::Bool(!is_off)),
        Kind::Text => said.map(|said| plain_setting(option, said)),
    };
    value.map_or_else(refused, |value| Taken::Set(option.to_owned(), value))
}

enum Found {
    One(&'static str, Kind),
    Several(Vec<&'static str>),
    Not,
}

/// The option with this name, or whose name begins with it.
fn found(name: &str) -> Found {
    if let Some((option, _, kind)) = OPTIONS.iter().find(|(option, ..)| *option == name) {
        return Found::One(option, *kind);
    }
    let all: Vec<_> = OPTIONS.iter().filter(|(option, ..)| option.starts_with(name) && name != OTHER).collect();
    match all.as_slice() {
        [] => Found::Not,
        [(option, unique, kind)] if name.len() >= *unique => Found::One(option, *kind),
        // A short prefix may also belong to options that are not in the list.
        several => Found::Several(several.iter().map(|(option, ..)| *option).collect()),
    }
}

fn truth(said: &str) -> Option<bool> {
    let is = |words: [&str; 3]| words.iter().any(|word| word.eq_ignore_ascii_case(said));
    if is(["on", "true", "1"]) { Some(true) } else { is(["off", "false", "0"]).then_some(false) }
}

fn switch(option: &'static str, said: &str, flavor: Option<Flavor>) -> Taken {
    match (truth(said), flavor) {
        (Some(is_on), _) => Taken::Set(option.to_owned(), Value::Bool(is_on)),
        // MariaDB logs a warning and leaves the option as it is. MySQL turns it off.
        (None, Some(Flavor::MariaDb)) => Taken::Ignored,
        (None, _) => Taken::Doubt(vec![option], format!("{option} = {said:?} is neither on nor off")),
    }
}

fn switch_or_word(option: &'static str, said: &str, words: &'static [&'static str], flavor: Option<Flavor>) -> Taken {
    match (truth(said), flavor) {
        // MariaDB 11 also takes `fast`.
        (None, Some(Flavor::MariaDb)) if !"fast".starts_with(&said.to_ascii_lowercase()) && said != "2" => Taken::Ignored,
        (None, Some(Flavor::MySql)) => match word(words, said) {
            Some(word) => Taken::Set(option.to_owned(), truth(word).map_or_else(|| Value::from(word), Value::Bool)),
            None => Taken::Refused(format!("{option} = {said:?} is no value that the server takes")),
        },
        (None, _) => Taken::Doubt(vec![option], format!("{option} = {said:?} is taken by servers differently")),
        (Some(is_on), _) => Taken::Set(option.to_owned(), Value::Bool(is_on)),
    }
}

/// eval_num_suffix: a decimal number and the first letter after it. Later letters are ignored.
fn number(said: &str) -> Option<i64> {
    let text = said.trim_start();
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    let shift = match suffix.chars().next().map(|letter| letter.to_ascii_lowercase()) {
        None => 0,
        Some('k') => 10,
        Some('m') => 20,
        Some('g') => 30,
        Some('t') => 40,
        Some('p') => 50,
        Some('e') => 60,
        Some(_) => return None,
    };
    // The server takes a value without digits as 0.
    let count: i64 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    count.checked_mul(1 << shift)
}

/// The word that the server takes: case does not matter; a unique prefix or the word's number is
/// enough.
fn word(words: &'static [&'static str], said: &str) -> Option<&'static str> {
    let lower = said.trim_end_matches(' ').to_ascii_lowercase();
    let exact = words.iter().find(|word| word.eq_ignore_ascii_case(&lower));
    let mut begins = words.iter().filter(|word| word.to_ascii_lowercase().starts_with(&lower));
    let found = exact.or_else(|| begins.next().filter(|_| begins.next().is_none()));
    let by_number = || words.get(said.trim_start().parse::<usize>().ok()?);
    found.or_else(by_number).copied()
}

/// The value of an option that no rule uses, as the server would most likely show it.
fn other(name: &str, said: Option<&str>) -> Value {
    let Some(said) = said else { return Value::Bool(true) };
    match bytes(said) {
        Some(size) if said.ends_with(|letter: char| letter.is_ascii_alphabetic()) && !said.contains('.') => Value::Int(size),
        _ => plain_setting(name, said),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, said: Option<&str>) -> Option<(String, Value)> {
        match taken(name, said, Some(Flavor::MariaDb)) {
            Taken::Set(name, value) => Some((name, value)),
            _ => None,
        }
    }

    #[test]
    fn a_name_is_found_by_a_begin_of_its_own_and_behind_prefixes() {
        for (written, said, value) in [
            ("innodb-doublewrite", None, true),
            ("InnoDB_DoubleWrite", Some("0"), false),
            ("innodb_doubl", Some("off"), false),
            ("skip-innodb_doublewrite", None, false),
            ("SKIP_innodb-doublewrite", Some("1"), false),
            ("skip_innodb_doublewrite", Some("0"), true),
            ("disable-innodb-doubl", None, false),
            ("enable-innodb_doublewrite", Some("0"), false),
            ("enable-innodb_doublewrite", Some("off"), true),
            ("loose-skip-innodb_doublewrite", None, false),
            ("skip-loose-innodb_doublewrite", None, true),
        ] {
            assert_eq!(set(written, said), Some(("innodb_doublewrite".to_owned(), value.into())), "{written} {said:?}");
        }
        for (written, said, option, value) in [
            ("innodb_flush_log_at_trx", Some("0"), "innodb_flush_log_at_trx_commit", Value::Int(0)),
            ("innodb_flush_log_at_trx_commit", None, "innodb_flush_log_at_trx_commit", 1.into()),
            ("skip-innodb_flush_log_at_trx_commit", None, "innodb_flush_log_at_trx_commit", 0.into()),
            ("log-bin", Some("OFF"), "log_bin", true.into()),
            ("log-bin", None, "log_bin", true.into()),
            ("skip-log-bin", None, "log_bin", false.into()),
            ("innodb_io_capacity", Some("200"), "innodb_io_capacity", 200.into()),
            ("skip-name-resolve", None, "skip_name_resolve", true.into()),
        ] {
            assert_eq!(set(written, said), Some((option.to_owned(), value)), "{written} {said:?}");
        }
        for (written, said) in [("sync-binlog", None), ("innodb_flush_method", Some("O_D"))] {
            assert!(matches!(taken(written, said, None), Taken::Refused(_)), "{written}");
        }
        for written in ["innodb_flush_log_at", "innodb_fl", "log"] {
            assert!(matches!(taken(written, Some("0"), None), Taken::Doubt(..)), "{written}");
        }
        assert_eq!(taken("maximum-innodb_flush_log_at_trx_commit", Some("1"), None), Taken::Ignored);
    }

    #[test]
    fn a_value_is_what_the_server_takes_for_it() {
        for (option, said, value) in [
            ("innodb_flush_method", "3", Value::from("nosync")),
            ("innodb_flush_method", "no", "nosync".into()),
            ("innodb_flush_method", "o_direct", "O_DIRECT".into()),
            ("innodb_flush_log_at_trx_commit", "5", 3.into()),
            ("innodb_flush_log_at_trx_commit", "", 0.into()),
            ("innodb_buffer_pool_size", "8GB", (8_i64 << 30).into()),
            ("innodb_io_capacity", "5", 100.into()),
        ] {
            assert_eq!(set(option, Some(said)), Some((option.to_owned(), value)), "{option} = {said}");
        }
        for (option, said) in
            [("innodb_flush_log_at_trx_commit", "0x1"), ("innodb_buffer_pool_size", "1.5G"), ("sync_binlog", "-1")]
        {
            assert!(matches!(taken(option, Some(said), None), Taken::Refused(_)), "{option} = {said}");
        }
        // MariaDB leaves the option as it is.
        assert_eq!(taken("innodb_doublewrite", Some("no"), Some(Flavor::MariaDb)), Taken::Ignored);
        assert!(matches!(taken("innodb_doublewrite", Some("no"), None), Taken::Doubt(..)));
        assert!(matches!(taken("innodb_flush_log_at_trx_commit", Some("3"), None), Taken::Doubt(..)));
    }
}
