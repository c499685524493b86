//! Sizes in the notation that people use.

/// Error of a text that is not a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// Not a number, an unknown unit, or a value above 64 bits.
    #[error("{0:?} is not a size")]
    NotASize(String),
    /// `8TB` is 8 TiB for PostgreSQL and lvcreate(8), but 9 % less for truncate(1) and disk manufacturers.
    #[error("{text} may count in powers of 1000 or of 1024: write {clear}")]
    Unclear {
        /// The given text.
        text: String,
        /// The same size in powers of 1024.
        clear: String,
    },
}

/// Parses `4096`, `64k`, `64KiB`, `1MiB`, `2G`: powers of 1024.
///
/// # Errors
/// [`SizeError`].
pub fn parse_bytes(text: &str) -> Result<u64, SizeError> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.to_ascii_uppercase();
    let shift = match unit.as_str() {
        "" | "B" => Some(0),
        "K" | "KIB" | "KB" => Some(10),
        "M" | "MIB" | "MB" => Some(20),
        "G" | "GIB" | "GB" => Some(30),
        "T" | "TIB" | "TB" => Some(40),
        _ => None,
    };
    let bytes = shift.and_then(|shift| number.parse::<u64>().ok()?.checked_mul(1 << shift));
    match unit.as_bytes() {
        [letter, b'B'] if bytes.is_some() => {
            Err(SizeError::Unclear { text: text.to_owned(), clear: format!("{number}{}iB", char::from(*letter)) })
        }
        _ => bytes.ok_or_else(|| SizeError::NotASize(text.to_owned())),
    }
}

/// Formats a size exactly, in the largest unit that gives a whole number.
#[must_use]
pub fn bytes_text(bytes: u64) -> String {
    let whole = |&(shift, _): &(u32, &str)| bytes != 0 && bytes.is_multiple_of(1 << shift);
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    units.iter().find(|unit| whole(unit)).map_or_else(|| bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

/// Formats a size exactly for a sentence: `2GiB`, `1000 bytes`.
#[must_use]
pub fn size_text(bytes: u64) -> String {
    let text = bytes_text(bytes);
    match bytes {
        _ if text.ends_with('B') => text,
        1 => "1 byte".to_owned(),
        _ => format!("{text} bytes"),
    }
}

/// Formats a size approximately: `9.3GiB`.
#[must_use]
pub fn about_text(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let Some((shift, unit)) = units.iter().find(|(shift, _)| bytes >> shift > 0) else { return format!("{bytes}B") };
    // Tenths, rounded down, so that the result is never larger than the size.
    let tenths = (u128::from(bytes) * 10) >> shift;
    if tenths % 10 == 0 { format!("{}{unit}", tenths / 10) } else { format!("{}.{}{unit}", tenths / 10, tenths % 10) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_of_1024() {
        for (text, bytes) in [("8k", 8192), ("1MiB", 1 << 20), ("2g", 2 << 30), ("8T", 8 << 40), ("12", 12), ("12B", 12)] {
            assert_eq!(parse_bytes(text), Ok(bytes));
        }
        for text in ["k", "12 k", "", "8q", "KB", "99999999999999999999"] {
            assert_eq!(parse_bytes(text), Err(SizeError::NotASize(text.to_owned())));
        }
    }

    #[test]
    fn a_unit_that_others_read_as_powers_of_1000_is_refused_with_a_clear_one() {
        for (text, clear) in [("8TB", "8TiB"), ("100gb", "100GiB"), ("1MB", "1MiB"), ("64kB", "64KiB")] {
            let said = parse_bytes(text).unwrap_err().to_string();
            assert_eq!(said, format!("{text} may count in powers of 1000 or of 1024: write {clear}"));
        }
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
            assert_eq!((bytes_text(bytes).as_str(), parse_bytes(text)), (text, Ok(bytes)));
        }
    }
}
