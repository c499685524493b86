//! Units of settings.

use crate::collect::text::integer;

/// The number of bytes or milliseconds in one unit.
pub(super) fn factor(unit: &str) -> Option<i64> {
    let end = unit.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(0);
    let (count, unit) = unit.split_at(end);
    let count = if count.is_empty() { 1 } else { integer(count)? };
    let one = match unit {
        "B" => 1,
        "kB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        "TB" => 1 << 40,
        "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    Some(one * count)
}
