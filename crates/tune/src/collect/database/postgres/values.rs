//! Values of settings as the server takes them from a file or a statement (parse_bool, parse_int
//! and parse_real of guc.c). As facts, sizes are in bytes, times are in milliseconds, and words are
//! as in `pg_settings`.

use super::units::factor;
use crate::collect::database::rows::plain_setting;
use crate::facts::Value;

/// Types of settings, one on each line: name, type, and the unit with limits or the words.
const SETTINGS: &str = include_str!("settings.txt");

/// The version since which `wal_compression` takes methods, not only a switch.
const COMPRESSION_METHODS_SINCE: i64 = 150_000;

/// The kind of value that a setting takes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Switch,
    /// A number in this unit, with limits. `is_whole`: only whole numbers.
    Number {
        is_whole: bool,
        unit: &'static str,
        least: f64,
        most: f64,
    },
    /// Words separated by blanks. In `word=other`, `other` is another spelling of `word`.
    Words(&'static str),
    /// A text, or a setting that is not in the list.
    Text,
}

/// The value that the server takes for a text, or why it refuses the text. `version` is its
/// `server_version_num`, if it is known.
pub(in crate::collect::database) fn value(name: &str, said: &str, version: Option<i64>) -> Result<Value, String> {
    let shown = || format!("{name} = {said:?} is no value that the server takes");
    match kind(name) {
        Kind::Words(_) if name == "wal_compression" && version.is_some_and(|version| version < COMPRESSION_METHODS_SINCE) => {
            switch(said).map(Value::Bool).ok_or_else(shown)
        }
        Kind::Switch => switch(said).map(Value::Bool).ok_or_else(shown),
        Kind::Words(words) => word(words, said).map(|word| plain_setting(name, word)).ok_or_else(shown),
        Kind::Number { is_whole, unit, least, most } => {
            let number =
                if is_whole { whole(said, unit) } else { number(said).and_then(|(number, rest)| of_unit(number, rest, unit)) };
            let number = number.filter(|number| (least..=most).contains(number)).ok_or_else(shown)?;
            // Values such as -1 have a special meaning and no unit.
            let factor = if number > 0.0 { factor(unit).unwrap_or(1) } else { 1 };
            let amount = (number * factor as f64) as i64;
            Ok(if is_whole { Value::Int(amount) } else { plain_setting(name, &number.to_string()) })
        }
        // The unit of an extension's setting is not known.
        Kind::Text if name.contains('.') => {
            let end = said.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(said.len());
            let (digits, unit) = said.split_at(end);
            let amount = digits.parse::<i64>().ok().zip(factor(unit.trim())).map(|(count, factor)| count.saturating_mul(factor));
            Ok(amount.map_or_else(|| plain_setting(name, said), Value::Int))
        }
        Kind::Text => Ok(plain_setting(name, said)),
    }
}

/// Whether a value is that of a switch, a number or an enum, and so not a secret.
pub(in crate::collect) fn is_typed(name: &str, said: &str) -> bool {
    kind(name) != Kind::Text && value(name, said, None).is_ok()
}

fn kind(name: &str) -> Kind {
    let line = SETTINGS.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let (kind, rest) = line.map_or(("", ""), |line| line.split_once(' ').unwrap_or((line, "")));
    let mut parts = rest.split(' ');
    let mut part = || parts.next().unwrap_or_default();
    match kind {
        "bool" => Kind::Switch,
        "enum" => Kind::Words(rest),
        "int" | "real" => {
            let (unit, least, most) = (part(), part(), part());
            let bound = |text: &str, otherwise| text.parse().unwrap_or(otherwise);
            Kind::Number { is_whole: kind == "int", unit, least: bound(least, f64::MIN), most: bound(most, f64::MAX) }
        }
        _ => Kind::Text,
    }
}

/// parse_bool: a unique prefix of a word. `o` is a prefix of both on and off.
fn switch(said: &str) -> Option<bool> {
    let said = said.to_ascii_lowercase();
    let begins = |word: &str, least: usize| said.len() >= least && word.starts_with(&said);
    match said.as_str() {
        "1" => Some(true),
        "0" => Some(false),
        _ if begins("true", 1) || begins("yes", 1) || begins("on", 2) => Some(true),
        _ if begins("false", 1) || begins("no", 1) || begins("off", 2) => Some(false),
        _ => None,
    }
}

/// The word as the server shows it. Case does not matter.
fn word(words: &'static str, said: &str) -> Option<&'static str> {
    let found = words.split(' ').find(|words| words.split('=').any(|word| word.eq_ignore_ascii_case(said)))?;
    found.split('=').next()
}

/// parse_int: decimal, octal after a 0, or hexadecimal; a fraction or an exponent is allowed. The
/// result is rounded to a whole number of the unit.
fn whole(said: &str, unit: &str) -> Option<f64> {
    let (value, rest) = match integer(said) {
        Some((value, rest)) if !rest.starts_with(['.', 'e', 'E']) => (value, rest),
        // `.5` does not begin with a digit.
        found if found.is_some() || said.trim_start_matches(is_space).starts_with(['.', '+', '-']) => number(said)?,
        _ => return None,
    };
    let value = of_unit(value, rest, unit)?.round_ties_even();
    (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&value).then_some(value)
}

fn is_space(letter: char) -> bool {
    letter.is_ascii_whitespace() || letter == '\u{b}'
}

/// strtol with base 0: the number and the rest of the text. A number beyond 64 bits is left to
/// [`number`].
fn integer(said: &str) -> Option<(f64, &str)> {
    let text = said.trim_start_matches(is_space);
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let hexadecimal = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let hexadecimal = hexadecimal.filter(|rest| rest.starts_with(|letter: char| letter.is_ascii_hexdigit()));
    let (digits, radix) = match hexadecimal {
        Some(rest) => (rest, 16),
        None => (digits, if digits.starts_with('0') { 8 } else { 10 }),
    };
    let end = digits.find(|letter: char| !letter.is_digit(radix)).unwrap_or(digits.len());
    let value = i64::from_str_radix(&digits[..end], radix).ok()? as f64;
    Some((if text.starts_with('-') { -value } else { value }, &digits[end..]))
}

/// strtod for a decimal number: the number and the rest of the text.
fn number(said: &str) -> Option<(f64, &str)> {
    let text = said.trim_start_matches(is_space);
    let digits = |from: usize| text[from..].bytes().take_while(u8::is_ascii_digit).count();
    let sign = usize::from(text.starts_with(['+', '-']));
    let mut end = sign + digits(sign);
    if text[end..].starts_with('.') {
        end += 1 + digits(end + 1);
    }
    if text[end..].starts_with(['e', 'E']) {
        let signed = end + 1 + usize::from(text[end + 1..].starts_with(['+', '-']));
        let power = digits(signed);
        end = if power > 0 { signed + power } else { end };
    }
    let value: f64 = text[..end].parse().ok()?;
    // Hexadecimal fractions are not supported.
    (value.is_finite() && !text[end..].starts_with(['x', 'X'])).then_some((value, &text[end..]))
}

/// Units of sizes in bytes, the largest first.
const SIZES: &[(&str, f64)] =
    &[("TB", 1_099_511_627_776.0), ("GB", 1_073_741_824.0), ("MB", 1_048_576.0), ("kB", 1024.0), ("B", 1.0)];

/// Units of times in milliseconds, the largest first.
const TIMES: &[(&str, f64)] =
    &[("d", 86_400_000.0), ("h", 3_600_000.0), ("min", 60_000.0), ("s", 1000.0), ("ms", 1.0), ("us", 0.001)];

/// convert_to_base_unit: converts an amount with its own unit to the unit of the setting, rounded
/// to the next smaller unit.
fn of_unit(amount: f64, rest: &str, base: &str) -> Option<f64> {
    let unit = rest.trim_matches(is_space);
    if unit.is_empty() {
        return Some(amount);
    }
    let base_unit = base.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let units = [SIZES, TIMES].into_iter().find(|units| units.iter().any(|(name, _)| *name == base_unit))?;
    let one = factor(base)? as f64;
    let at = units.iter().position(|(name, _)| *name == unit)?;
    let multiplier = units.get(at)?.1 / one;
    let value = amount * multiplier;
    Some(match units.get(at + 1) {
        Some((_, smaller)) => (value / (smaller / one)).round_ties_even() * (smaller / one),
        None => value,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, said: &str) -> Option<Value> {
        value(name, said, Some(150_000)).ok()
    }

    #[test]
    fn a_switch_is_any_begin_of_its_word_that_is_the_begin_of_no_other() {
        for said in ["t", "TR", "true", "y", "yes", "on", "ON", "1"] {
            assert_eq!(of("fsync", said), Some(true.into()), "{said}");
        }
        for said in ["f", "Fa", "false", "n", "no", "of", "off", "0"] {
            assert_eq!(of("fsync", said), Some(false.into()), "{said}");
        }
        for said in ["o", "", " on", "on ", "truex", "10", "00", "2", "enabled"] {
            assert_eq!(of("fsync", said), None, "{said:?}");
        }
    }

    #[test]
    fn a_word_is_that_of_the_server_however_it_is_written() {
        for (name, said, wanted) in [
            ("synchronous_commit", "0", Some(false.into())),
            ("synchronous_commit", "FALSE", Some(false.into())),
            ("synchronous_commit", "1", Some(true.into())),
            ("synchronous_commit", "Remote_Write", Some("remote_write".into())),
            ("synchronous_commit", "f", None),
            ("wal_sync_method", "FDATASYNC", Some("fdatasync".into())),
            ("wal_level", "hot_standby", Some("replica".into())),
            ("wal_compression", "yes", Some("pglz".into())),
            ("huge_pages", "0", Some(false.into())),
        ] {
            assert_eq!(of(name, said), wanted, "{name} = {said}");
        }
        assert_eq!(value("wal_compression", "ye", Some(140_000)), Ok(true.into()));
    }

    #[test]
    fn a_number_has_the_bases_fractions_blanks_and_units_that_the_server_knows() {
        for (name, said, wanted) in [
            ("shared_buffers", "0x40000", Some(2 << 30)),
            ("shared_buffers", "040000", Some(128 << 20)),
            ("shared_buffers", "1.5GB", Some(3 << 29)),
            ("shared_buffers", " 2 GB ", Some(2 << 30)),
            ("shared_buffers", "1e5", Some(100_000 * 8192)),
            ("shared_buffers", "16384", Some(128 << 20)),
            ("shared_buffers", "2gb", None),
            ("shared_buffers", "2 GB x", None),
            ("shared_buffers", "-1", None),
            ("shared_buffers", "", None),
            ("shared_buffers", "GB", None),
            ("shared_buffers", "08", None),
            ("shared_buffers", "99999999999999999999", None),
            ("max_wal_size", "1.5GB", Some(3 << 29)),
            ("wal_buffers", "-1", Some(-1)),
            ("checkpoint_timeout", "0.5h", Some(1_800_000)),
            ("checkpoint_timeout", ".5h", Some(1_800_000)),
            ("checkpoint_timeout", "300", Some(300_000)),
            ("checkpoint_timeout", "90.4s", Some(90_000)),
            ("wal_writer_delay", "200us", None),
            ("max_connections", "100.4", Some(100)),
            ("max_connections", "100s", None),
        ] {
            assert_eq!(of(name, said), wanted.map(Value::Int), "{name} = {said:?}");
        }
        for (name, said, wanted) in [
            ("random_page_cost", "1.10", Some(Value::from("1.1"))),
            ("random_page_cost", "4.0", Some(4.into())),
            ("checkpoint_completion_target", ".9", Some("0.9".into())),
            ("checkpoint_completion_target", "9", None),
            ("vacuum_cost_delay", "500us", Some("0.5".into())),
            ("auto_explain.log_min_duration", "250ms", Some(250.into())),
            ("cluster_name", "15 main", Some("15 main".into())),
        ] {
            assert_eq!(of(name, said), wanted, "{name} = {said:?}");
        }
    }
}
