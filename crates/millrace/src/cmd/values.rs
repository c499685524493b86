//! Parsers of option values: numbers, sizes and times. A refusal names what is accepted, with the
//! unit, the range and an example. clap puts the option and the value before it.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use results::sizes::SizeError;

/// A parser of a whole number. `what` is what is counted, such as `warehouses`; empty for a number that counts nothing.
pub(crate) fn whole<T: Number>(what: &'static str, range: RangeInclusive<T>, example: T) -> impl Parser<T> {
    move |text: &str| accepted(text, &range).ok_or_else(|| refusal(text, "whole number", what, &range, &example))
}

/// A parser of a number that may have a decimal point.
pub(crate) fn decimal(what: &'static str, range: RangeInclusive<f64>, example: f64) -> impl Parser<f64> {
    move |text: &str| accepted(text, &range).ok_or_else(|| refusal(text, "number", what, &range, &example))
}

/// A function that clap accepts as a parser of `T`.
pub(crate) trait Parser<T>: Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {}

impl<T, F: Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static> Parser<T> for F {}

/// A type of numbers that an option may have. `i32` is left out: a call of [`whole`] with bare
/// literals would infer it, and clap would panic, because the option has another type.
pub(crate) trait Number: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static {}

impl Number for u8 {}
impl Number for u16 {}
impl Number for u32 {}
impl Number for u64 {}
impl Number for usize {}
impl Number for f64 {}

fn accepted<T: Number>(text: &str, range: &RangeInclusive<T>) -> Option<T> {
    text.parse().ok().filter(|number| range.contains(number))
}

fn refusal<T: Number>(text: &str, kind: &str, what: &str, range: &RangeInclusive<T>, example: &T) -> String {
    let of = if what.is_empty() { String::new() } else { format!(" of {what}") };
    let has_unit = text.starts_with(|c: char| c.is_ascii_digit()) && text.ends_with(|c: char| c.is_ascii_alphabetic());
    let bare = if has_unit { ", without a unit" } else { "" };
    format!("write a {kind}{of} from {} to {}{bare}, such as {example}", range.start(), range.end())
}

/// Parses a time, which has a unit.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    lab::plan::parse_duration(text).map_err(|error| error.hint().unwrap_or_default().to_owned())
}

/// Parses a size in bytes.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    results::sizes::parse_bytes(text).map_err(|error| match error {
        SizeError::NotASize(_) => format!("{error}, as in 8k or 1GiB"),
        SizeError::Unclear { .. } => error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_number_names_what_is_counted_the_range_and_an_example() {
        let warehouses = whole("warehouses", 1..=1_000_u32, 10);
        assert_eq!(warehouses("1000"), Ok(1_000));
        assert_eq!(warehouses("0").unwrap_err(), "write a whole number of warehouses from 1 to 1000, such as 10");
        assert_eq!(
            warehouses("5GB").unwrap_err(),
            "write a whole number of warehouses from 1 to 1000, without a unit, such as 10"
        );
        assert_eq!(whole("", 0..=255_u8, 3)("x").unwrap_err(), "write a whole number from 0 to 255, such as 3");
        assert_eq!(decimal("seconds", 0.0..=9.0, 0.5)("0.25"), Ok(0.25));
        assert_eq!(decimal("seconds", 0.0..=9.0, 0.5)("NaN").unwrap_err(), "write a number of seconds from 0 to 9, such as 0.5");
    }

    #[test]
    fn a_time_without_a_unit_is_refused_with_two_that_have_one() {
        assert_eq!(time("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(time("10").unwrap_err(), "write 10s or 10m");
        assert!(time("soon").unwrap_err().contains("such as 90s"));
    }
}
