//! Text for the page: escaping, and readable numbers.

use results::compare::{Bottleneck, BottleneckKind, PathResult};
use results::judgement::Prediction;

pub(crate) use crate::summary::{grouped, interval_words};
pub(crate) use ::host::escape::markup as escape;

/// Names of quantities, the same in every table, page and message.
pub(crate) const ORDERS: &str = "orders/min";
/// Processor time of all owners per 1,000 orders.
pub(crate) const CPU: &str = "CPU s/1,000 orders";
/// The same without the filer: the time of the database's host.
pub(crate) const CPU_WITHOUT_FILER: &str = "CPU s/1,000 orders without filer";
/// The same as a heading beside [`CPU`].
pub(crate) const WITHOUT_FILER: &str = "without filer";

/// Name of a configuration; records of older versions contain only the path's name.
pub(crate) fn name(result: &PathResult) -> &str {
    if result.arm.is_empty() { &result.name } else { &result.arm }
}

/// Suffix of a predicted point whose measured figure must not be used: that it is not counted, and why.
pub(super) fn not_counted(point: &Prediction) -> String {
    point.doubt.as_ref().map_or_else(String::new, |doubt| format!(" (not counted: {doubt})"))
}

/// JSON inside a script element must not end it: `<` is written as an escape, and so are the two
/// line ends that JSON allows and JavaScript once did not.
pub(crate) fn script_json(json: &str) -> String {
    json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

/// Three significant digits, grouped: `12,346`, `123`, `12.3`, `0.0123`; `–` if the value is not finite.
pub(crate) fn figure(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let size = value.abs();
    if size >= 99.95 {
        return grouped(value);
    }
    let decimals = if size >= 9.995 {
        1
    } else if size >= 0.9995 || size == 0.0 {
        2
    } else {
        (2 - size.log10().floor() as i32).clamp(3, 6) as usize
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A difference with its sign and one decimal.
pub(crate) fn signed(value: f64) -> String {
    if value.is_finite() { format!("{value:+.1}").replace('-', "−") } else { "–".to_owned() }
}

/// Microseconds in a suitable unit.
pub(crate) fn micros(us: f64) -> String {
    if us >= 1e6 {
        format!("{} s", figure(us / 1e6))
    } else if us >= 1e3 {
        format!("{} ms", figure(us / 1e3))
    } else {
        format!("{} µs", figure(us))
    }
}

/// Bytes in a suitable binary unit.
pub(crate) fn bytes(count: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut place) = (count, 0);
    while value >= 1024.0 && place + 1 < units.len() {
        value /= 1024.0;
        place += 1;
    }
    format!("{} {}", figure(value), units.get(place).copied().unwrap_or("TiB"))
}

/// `new_order` in its readable form.
pub(crate) fn transaction(name: &str) -> String {
    let words = name.split('_').map(|word| {
        let mut letters = word.chars();
        letters.next().map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + letters.as_str())
    });
    words.collect::<Vec<_>>().join("-")
}

/// The name of a bottleneck, or both names in alphabetical order if the second cause is close, so that runs that
/// differ only in their order print the same text.
pub(crate) fn bottleneck_words(found: &Bottleneck) -> String {
    let first = bottleneck_name(&found.kind);
    match found.runner_up.as_ref().filter(|second| second.close) {
        Some(second) => {
            let mut names = [first, bottleneck_name(&second.kind)];
            names.sort();
            format!("between {} and {}", names[0], names[1])
        }
        None => first,
    }
}

/// Name of a bottleneck in a few words.
pub(crate) fn bottleneck_name(kind: &BottleneckKind) -> String {
    match kind {
        BottleneckKind::HostCpu => "host CPU".to_owned(),
        // Its name in the first version.
        BottleneckKind::Unknown(name) if name == "cpu" => "host CPU".to_owned(),
        BottleneckKind::LogFlush => "log flushes".to_owned(),
        BottleneckKind::LockWait => "lock waits".to_owned(),
        BottleneckKind::Slots => "slots of the NFS client".to_owned(),
        BottleneckKind::Driver => "load driver".to_owned(),
        BottleneckKind::Concurrency => "limited concurrency".to_owned(),
        BottleneckKind::Interference => "other processes on the host".to_owned(),
        other => other.as_str().replace('_', " "),
    }
}

/// Text shortened to a number of characters, with an ellipsis.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).collect::<String>() + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_that_matter() {
        let found: Vec<String> = [0.0, 12_345.6, 123.4, 12.34, 1.234, 1.5, 0.1234, 0.01234, 7.0].map(figure).to_vec();
        assert_eq!(found, ["0", "12,346", "123", "12.3", "1.23", "1.5", "0.123", "0.0123", "7"]);
        assert_eq!(figure(f64::NAN), "–");
    }

    #[test]
    fn units_follow_the_size() {
        assert_eq!((micros(295.55), micros(1_234.0), micros(2.5e6)), ("296 µs".into(), "1.23 ms".into(), "2.5 s".into()));
        assert_eq!((bytes(8192.0), bytes(512.0), bytes(3.0e9)), ("8 KiB".into(), "512 B".into(), "2.79 GiB".into()));
    }

    #[test]
    fn a_record_cannot_end_its_script_element() {
        let safe = script_json("{\"x\":\"</script><b>\u{2028}\"}");
        assert!(!safe.contains('<') && !safe.contains('\u{2028}'), "{safe}");
        let again: serde_json::Value = serde_json::from_str(&safe).unwrap();
        assert_eq!(again["x"], "</script><b>\u{2028}");
    }

    #[test]
    fn transactions_are_written_with_a_hyphen() {
        assert_eq!(transaction("new_order"), "New-Order");
    }
}
