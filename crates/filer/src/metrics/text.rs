//! The text format of Prometheus, version 0.0.4: for each name a HELP line, a TYPE line, and the samples.

use std::fmt::{Display, Write};

/// The type of a metric.
#[derive(Clone, Copy, Debug)]
pub enum Type {
    /// A count since the filer started.
    Counter,
    /// A current value.
    Gauge,
    /// Numbers of values up to each bound, their sum and their total number.
    Histogram,
}

/// A page that is being written.
#[derive(Debug, Default)]
pub struct Page {
    text: String,
}

/// The samples of a metric.
#[derive(Debug)]
pub struct Family<'p> {
    text: &'p mut String,
    name: &'static str,
}

/// The labels of a sample, with their values.
pub type Labels<'l> = [(&'static str, &'l str)];

impl Page {
    /// Begins the samples of a metric.
    pub fn family(&mut self, name: &'static str, kind: Type, help: &str) -> Family<'_> {
        let kind = match kind {
            Type::Counter => "counter",
            Type::Gauge => "gauge",
            Type::Histogram => "histogram",
        };
        // The help texts are constants of the filer without backslashes and line ends.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Family { text: &mut self.text, name }
    }

    /// Writes a metric with one sample.
    pub fn single(&mut self, name: &'static str, kind: Type, help: &str, value: impl Display) {
        self.family(name, kind, help).sample(&[], value);
    }

    /// The text of the page.
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

    /// Adds a histogram. `bounds`: for each bound, the number of values that are not greater. `count` and `sum`: of all
    /// values.
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

    /// Escapes a backslash, a quote and a line end, as label values require.
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
