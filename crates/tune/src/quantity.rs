//! Values as users write them: sizes in KiB, MiB and GiB, times in ms and s, counts with
//! separators, switches on or off.

use crate::facts::Value;
use crate::shown_value::shown;

/// What a number measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    Kibibytes,
    Sectors,
    Microseconds,
    Milliseconds,
    Seconds,
    Percent,
    MegabitsPerSecond,
    Count,
    /// The number as it is: a version, a port.
    Plain,
}

/// Units by their names in templates.
pub(crate) const UNITS: [(&str, Unit); 10] = [
    ("bytes", Unit::Bytes),
    ("kib", Unit::Kibibytes),
    ("sectors", Unit::Sectors),
    ("us", Unit::Microseconds),
    ("ms", Unit::Milliseconds),
    ("s", Unit::Seconds),
    ("percent", Unit::Percent),
    ("mbit", Unit::MegabitsPerSecond),
    ("count", Unit::Count),
    ("plain", Unit::Plain),
];

/// Ends of facts' names with the unit of their values.
const SUFFIXES: [(&str, Unit); 48] = [
    ("raid_size", Unit::Count),
    ("_bytes", Unit::Bytes),
    ("_size", Unit::Bytes),
    ("_buffers", Unit::Bytes),
    ("_mem", Unit::Bytes),
    ("_capacity", Unit::Bytes),
    ("_flush_after", Unit::Bytes),
    ("_hiwat", Unit::Bytes),
    ("_hiwater_def", Unit::Bytes),
    ("_max_buf", Unit::Bytes),
    ("_size_cots", Unit::Bytes),
    ("_bsize", Unit::Bytes),
    (".rsize", Unit::Bytes),
    (".wsize", Unit::Bytes),
    (".rmem_max", Unit::Bytes),
    (".wmem_max", Unit::Bytes),
    (".rmem_default", Unit::Bytes),
    (".wmem_default", Unit::Bytes),
    (".tcp_rmem.2", Unit::Bytes),
    (".tcp_rmem.3", Unit::Bytes),
    (".tcp_wmem.2", Unit::Bytes),
    (".tcp_wmem.3", Unit::Bytes),
    (".shmmax", Unit::Bytes),
    (".recvwindowsize", Unit::Bytes),
    (".xfersize", Unit::Bytes),
    (".tcp_windowsize", Unit::Bytes),
    (".memory_target", Unit::Bytes),
    (".max_transfer", Unit::Bytes),
    ("_transfer_max", Unit::Bytes),
    ("_socketsize", Unit::Bytes),
    ("_kb", Unit::Kibibytes),
    ("_sector", Unit::Sectors),
    ("_us", Unit::Microseconds),
    ("_ms", Unit::Milliseconds),
    ("_seconds", Unit::Seconds),
    ("_mbit", Unit::MegabitsPerSecond),
    ("_ratio", Unit::Percent),
    ("_percent", Unit::Percent),
    ("_pct", Unit::Percent),
    ("%", Unit::Percent),
    (".shmall", Unit::Count),
    ("maxdsiz", Unit::Bytes),
    ("maxssiz", Unit::Bytes),
    ("maxtsiz", Unit::Bytes),
    ("siz_64bit", Unit::Bytes),
    ("_warning_threshold", Unit::Bytes),
    ("_ceiling", Unit::Kibibytes),
    ("replacement_timeout", Unit::Seconds),
];

/// The unit of a fact, if its name shows it.
pub(crate) fn unit_of(name: &str) -> Option<Unit> {
    // Facts with times of PostgreSQL are in milliseconds.
    let is_time = ["_timeout", "_delay"].iter().any(|end| name.ends_with(end));
    if name.starts_with("postgres.") && is_time {
        return Some(Unit::Milliseconds);
    }
    if name.ends_with("io_capacity") {
        return Some(Unit::Count);
    }
    SUFFIXES.iter().find(|(end, _)| name.ends_with(end)).map(|(_, unit)| *unit)
}

/// A value with its unit. Sizes have at most `decimals` decimal places.
pub(crate) fn written(value: &Value, unit: Option<Unit>, decimals: usize) -> String {
    match value {
        Value::Bool(true) => "on".to_owned(),
        Value::Bool(false) => "off".to_owned(),
        Value::Int(number) => number_written(*number, unit, decimals),
        Value::Text(_) => shown(value),
        Value::List(values) if values.is_empty() => shown(value),
        Value::List(values) if values.len() <= 4 => {
            let members: Vec<String> = values.iter().map(|value| written(value, unit, decimals)).collect();
            members.join(", ")
        }
        Value::List(_) => shown(value),
    }
}

/// The value of a fact that a rule read. Sizes and times are written with units, followed by the
/// number if the text is rounded. Other values stay as they are.
pub(crate) fn looked_at(name: &str, value: &Value) -> String {
    // The fact of another thing: `mount /u01: rsize`.
    let attribute = name.rsplit_once(": ").map(|(_, attribute)| format!(".{attribute}"));
    let unit = unit_of(attribute.as_deref().unwrap_or(name).trim_end_matches(')'));
    let is_quantity = matches!(unit, Some(Unit::Bytes | Unit::Kibibytes | Unit::Milliseconds | Unit::Microseconds));
    let Value::Int(number) = value else { return shown(value) };
    if !is_quantity || *number <= 0 {
        return shown(value);
    }
    let text = number_written(*number, unit, 1);
    let is_rounded = matches!(unit, Some(Unit::Bytes | Unit::Kibibytes)) && number_written(*number, unit, 6) != text;
    if is_rounded { format!("{text} ({number})") } else { text }
}

/// Two values, written with enough decimal places that different values look different.
pub(crate) fn written_apart(a: &Value, b: &Value, unit: Option<Unit>) -> (String, String) {
    if a == b {
        return (written(a, unit, 1), written(b, unit, 1));
    }
    let pair = |decimals| (written(a, unit, decimals), written(b, unit, decimals));
    (1..4).map(pair).find(|(a, b)| a != b).unwrap_or_else(|| (shown(a), shown(b)))
}

/// A part of a whole in percent: `0.8 %`. `None` if the whole is not positive.
pub(crate) fn percentage(part: i64, whole: i64) -> Option<String> {
    let tenths = (whole > 0).then(|| i128::from(part) * 1000 / i128::from(whole))?;
    let (whole, rest) = (tenths / 10, (tenths % 10).abs());
    Some(if rest == 0 || whole.abs() >= 100 { format!("{whole} %") } else { format!("{whole}.{rest} %") })
}

fn number_written(number: i64, unit: Option<Unit>, decimals: usize) -> String {
    match unit {
        // A negative value has a special meaning, usually "no limit" or "off".
        Some(_) if number < 0 => number.to_string(),
        Some(Unit::Bytes | Unit::Kibibytes) if number == 0 => number.to_string(),
        Some(Unit::Bytes) => size(number.into(), decimals),
        Some(Unit::Kibibytes) => size(i128::from(number) * 1024, decimals),
        Some(Unit::Sectors) => format!("sector {}", separated(number)),
        Some(Unit::Microseconds) if number % 1000 != 0 => format!("{} us", separated(number)),
        Some(Unit::Microseconds) => time(number / 1000),
        Some(Unit::Milliseconds) => time(number),
        Some(Unit::Seconds) => number.checked_mul(1000).map_or_else(|| format!("{} s", separated(number)), time),
        Some(Unit::Percent) => format!("{number} %"),
        Some(Unit::MegabitsPerSecond) if number != 0 && number % 1000 == 0 => format!("{} Gbit/s", separated(number / 1000)),
        Some(Unit::MegabitsPerSecond) => format!("{number} Mbit/s"),
        Some(Unit::Count) | None => separated(number),
        Some(Unit::Plain) => number.to_string(),
    }
}

/// A number of bytes in the largest unit that is not larger than the number.
fn size(bytes: i128, decimals: usize) -> String {
    let units = [("TiB", 1_i128 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let Some((name, unit)) = units.into_iter().find(|(_, unit)| bytes >= *unit) else { return format!("{bytes} bytes") };
    // 65535 is meant exactly and not as 64 KiB.
    if bytes < 1 << 20 && bytes % 1024 != 0 {
        return format!("{} bytes", separated(i64::try_from(bytes).unwrap_or(i64::MAX)));
    }
    let scale = 10_i128.pow(u32::try_from(decimals).unwrap_or(0));
    let scaled = bytes * scale / unit;
    let rest = format!("{:0decimals$}", scaled % scale);
    let rest = rest.trim_end_matches('0');
    let whole = separated(i64::try_from(scaled / scale).unwrap_or(i64::MAX));
    if rest.is_empty() { format!("{whole} {name}") } else { format!("{whole}.{rest} {name}") }
}

/// Milliseconds in the largest unit that divides them.
fn time(ms: i64) -> String {
    match ms {
        0 => "0 s".to_owned(),
        _ if ms % 60_000 == 0 => format!("{} min", separated(ms / 60_000)),
        _ if ms % 1000 == 0 => format!("{} s", separated(ms / 1000)),
        _ => format!("{} ms", separated(ms)),
    }
}

/// The number with separators, `65,536`. Four digits have no separator.
fn separated(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let sign = if number < 0 { "-" } else { "" };
    if digits.len() < 5 {
        return format!("{sign}{digits}");
    }
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    format!("{sign}{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(number: i64, unit: Unit) -> String {
        written(&Value::Int(number), Some(unit), 1)
    }

    #[test]
    fn sizes_have_the_largest_unit_that_they_reach() {
        assert_eq!(of(134_217_728, Unit::Bytes), "128 MiB");
        assert_eq!(of(25_233_000_000, Unit::Bytes), "23.5 GiB");
        assert_eq!((of(65_535, Unit::Bytes), of(65_536, Unit::Bytes)), ("65,535 bytes".into(), "64 KiB".into()));
        assert_eq!((of(512, Unit::Kibibytes), of(-1, Unit::Bytes)), ("512 KiB".into(), "-1".into()));
        assert_eq!(of(i64::MAX, Unit::Kibibytes), "8,589,934,591.9 TiB");
    }

    #[test]
    fn times_counts_and_switches_read_as_people_write_them() {
        assert_eq!((of(300_000, Unit::Milliseconds), of(200, Unit::Milliseconds)), ("5 min".into(), "200 ms".into()));
        assert_eq!((of(15, Unit::Seconds), of(500, Unit::Microseconds)), ("15 s".into(), "500 us".into()));
        assert_eq!((of(1_048_576, Unit::Count), of(1024, Unit::Count)), ("1,048,576".into(), "1024".into()));
        assert_eq!((of(10_000, Unit::MegabitsPerSecond), of(20, Unit::Percent)), ("10 Gbit/s".into(), "20 %".into()));
        assert_eq!(written(&Value::Bool(false), None, 1), "off");
    }

    #[test]
    fn what_was_looked_at_has_its_unit_and_the_number_where_that_is_rounded() {
        let of = |name, number: i64| looked_at(name, &number.into());
        assert_eq!(of("postgres.shared_buffers", 134_217_728), "128 MiB");
        assert_eq!(of("hw.memory_bytes", 25_233_000_000), "23.5 GiB (25233000000)");
        assert_eq!(of("postgres.checkpoint_timeout", 300_000), "5 min");
        assert_eq!(of("sum(mount.rsize)", 65_536), "64 KiB");
        assert_eq!((of("postgres.wal_buffers", -1), of("postgres.port", 54_320)), ("-1".into(), "54320".into()));
    }

    #[test]
    fn values_that_differ_read_differently() {
        let gib = 1_i64 << 30;
        let (a, b) = written_apart(&Value::Int(8 * gib - (gib >> 8)), &Value::Int(8 * gib), Some(Unit::Bytes));
        assert_ne!(a, b);
    }

    #[test]
    fn a_part_of_a_whole_is_in_percent() {
        assert_eq!(percentage(128, 23_500), Some("0.5 %".into()));
        assert_eq!((percentage(1, 2), percentage(3, 2), percentage(1, 0)), (Some("50 %".into()), Some("150 %".into()), None));
    }
}
