//! Sizes as people write them.

/// Reads `4096`, `64k`, `64KiB`, `1MiB`, `2G`: powers of 1024.
#[must_use]
pub fn parse_bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" | "kb" => 10,
        "m" | "mib" | "mb" => 20,
        "g" | "gib" | "gb" => 30,
        "t" | "tib" | "tb" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// The same back, in the largest unit that leaves a whole number.
#[must_use]
pub fn bytes_text(bytes: u64) -> String {
    let whole = |&(shift, _): &(u32, &str)| bytes != 0 && bytes.is_multiple_of(1 << shift);
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    units.iter().find(|unit| whole(unit)).map_or_else(|| bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

/// About how much, for people: `9.3GiB`.
#[must_use]
pub fn about_text(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let Some((shift, unit)) = units.iter().find(|(shift, _)| bytes >> shift > 0) else { return format!("{bytes}B") };
    // Tenths, rounded down: no more room than there is.
    let tenths = (u128::from(bytes) * 10) >> shift;
    if tenths % 10 == 0 { format!("{}{unit}", tenths / 10) } else { format!("{}.{}{unit}", tenths / 10, tenths % 10) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_of_1024() {
        assert_eq!(parse_bytes("8k"), Some(8192));
        assert_eq!(parse_bytes("1MiB"), Some(1 << 20));
        assert_eq!(parse_bytes("12"), Some(12));
        assert_eq!(parse_bytes("k"), None);
        assert_eq!(parse_bytes("12 k"), None);
        assert_eq!(parse_bytes("99999999999999999999"), None);
    }

    #[test]
    fn a_size_for_people_has_one_digit_behind_the_point_and_is_never_too_large() {
        for (bytes, text) in
            [(0, "0B"), (1023, "1023B"), (1024, "1KiB"), (1999, "1.9KiB"), (10 << 30, "10GiB"), (u64::MAX, "16777215.9TiB")]
        {
            assert_eq!(about_text(bytes), text);
        }
    }

    #[test]
    fn a_size_is_written_so_that_it_is_read_as_the_same() {
        for (bytes, text) in [(0, "0"), (1000, "1000"), (1536, "1536"), (10 << 30, "10GiB"), (1 << 40, "1TiB"), (3 << 10, "3KiB")]
        {
            assert_eq!((bytes_text(bytes).as_str(), parse_bytes(text)), (text, Some(bytes)));
        }
    }
}
