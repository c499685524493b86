//! The text format, version 0.0.4: a line of help and one of type for each name, then its samples.

use std::fmt::{Display, Write};

/// What a name stands for.
#[derive(Clone, Copy, Debug)]
pub enum Type {
    /// Grows from the start of the filer.
    Counter,
    /// As it is now.
    Gauge,
    /// Counts by bound, their sum and their number.
    Histogram,
}

/// A page being written.
#[derive(Debug, Default)]
pub struct Page {
    text: String,
}

/// The samples of one name.
#[derive(Debug)]
pub struct Family<'p> {
    text: &'p mut String,
    name: &'static str,
}

/// Labels of a sample and their values.
pub type Labels<'l> = [(&'static str, &'l str)];

impl Page {
    /// Begins the samples of a name.
    pub fn family(&mut self, name: &'static str, kind: Type, help: &str) -> Family<'_> {
        let kind = match kind {
            Type::Counter => "counter",
            Type::Gauge => "gauge",
            Type::Histogram => "histogram",
        };
        // Help texts are ours and have neither backslashes nor line ends.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Family { text: &mut self.text, name }
    }

    /// A name with one sample.
    pub fn single(&mut self, name: &'static str, kind: Type, help: &str, value: impl Display) {
        self.family(name, kind, help).sample(&[], value);
    }

    /// The page as it is served.
    #[must_use]
    pub fn into_text(self) -> String {
        self.text
    }
}

impl Family<'_> {
    /// Adds a sample.
    pub fn sample(&mut self, labels: &Labels<'_>, value: impl Display) {
        self.line("", labels, None, value);
    }

    /// Adds a histogram: at each bound how many were no greater, how many there are, and their sum.
    pub fn histogram(&mut self, labels: &Labels<'_>, bounds: impl Iterator<Item = (f64, u64)>, count: u64, sum: f64) {
        for (bound, so_far) in bounds {
            self.line("_bucket", labels, Some(&bound), so_far);
        }
        self.line("_bucket", labels, Some(&"+Inf"), count);
        self.line("_sum", labels, None, sum);
        self.line("_count", labels, None, count);
    }

    fn line(&mut self, suffix: &str, labels: &Labels<'_>, bound: Option<&dyn Display>, value: impl Display) {
        self.text.push_str(self.name);
        self.text.push_str(suffix);
        let mut before = '{';
        for (name, value) in labels {
            self.text.push(before);
            self.text.push_str(name);
            self.text.push_str("=\"");
            value.chars().for_each(|character| self.escape(character));
            self.text.push('"');
            before = ',';
        }
        if let Some(bound) = bound {
            let _ = write!(self.text, "{before}le=\"{bound}\"");
            before = ',';
        }
        if before == ',' {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    /// A backslash, a quote or the end of a line may not stand in a value as they are.
    fn escape(&mut self, character: char) {
        match character {
            '\\' => self.text.push_str("\\\\"),
            '"' => self.text.push_str("\\\""),
            '\n' => self.text.push_str("\\n"),
            other => self.text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_reads_as_the_format_has_it() {
        let mut page = Page::default();
        page.single("up", Type::Gauge, "Whether.", 1);
        let mut family = page.family("calls_total", Type::Counter, "How many.");
        family.sample(&[("export", "/a\\b\"c\nd"), ("procedure", "READ")], 7);
        page.family("took_seconds", Type::Histogram, "How long.").histogram(
            &[("export", "/vol")],
            [(0.000_001_024, 1), (0.5, 2)].into_iter(),
            3,
            1.25,
        );
        let wanted = "\
# HELP up Whether.
# TYPE up gauge
up 1
# HELP calls_total How many.
# TYPE calls_total counter
calls_total{export=\"/a\\\\b\\\"c\\nd\",procedure=\"READ\"} 7
# HELP took_seconds How long.
# TYPE took_seconds histogram
took_seconds_bucket{export=\"/vol\",le=\"0.000001024\"} 1
took_seconds_bucket{export=\"/vol\",le=\"0.5\"} 2
took_seconds_bucket{export=\"/vol\",le=\"+Inf\"} 3
took_seconds_sum{export=\"/vol\"} 1.25
took_seconds_count{export=\"/vol\"} 3
";
        assert_eq!(page.into_text(), wanted);
    }
}
