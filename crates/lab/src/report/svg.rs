//! Bars and lines as inline SVG. Colours come from the page's style, so that they follow
//! light and dark.

use std::fmt::Write;

use super::html::escape;

/// One bar with an optional error.
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) value: f64,
    /// Half-width of the interval.
    pub(crate) error: Option<f64>,
    /// What stands behind the bar.
    pub(crate) text: String,
}

/// One bar made of parts, each with the class that colours it.
pub(crate) struct Stack {
    pub(crate) label: String,
    pub(crate) parts: Vec<(String, f64)>,
    pub(crate) text: String,
}

const WIDTH: f64 = 720.0;
const LABEL: f64 = 90.0;
const TEXT: f64 = 170.0;
const ROW: f64 = 34.0;
const THICK: f64 = 20.0;

/// Horizontal bars with intervals.
pub(crate) fn bars(title: &str, bars: &[Bar]) -> String {
    let most = bars.iter().map(|bar| bar.value + bar.error.unwrap_or(0.0)).fold(0.0, f64::max);
    let mut svg = open(title, bars.len());
    for (row, bar) in bars.iter().enumerate() {
        let (y, length) = (top(row), scaled(bar.value, most));
        let _ = write!(svg, "<rect class=\"bar\" x=\"{LABEL}\" y=\"{y:.1}\" width=\"{length:.1}\" height=\"{THICK}\"/>");
        if let Some(error) = bar.error {
            let (from, to) = (LABEL + scaled((bar.value - error).max(0.0), most), LABEL + scaled(bar.value + error, most));
            let middle = y + THICK / 2.0;
            let _ = write!(
                svg,
                "<path class=\"error\" d=\"M{from:.1} {middle:.1}H{to:.1}M{from:.1} {0:.1}v10M{to:.1} {0:.1}v10\"/>",
                middle - 5.0
            );
        }
        words(&mut svg, &bar.label, &bar.text, y);
    }
    svg + "</svg>"
}

/// Horizontal bars of parts. Each part's class is its name, behind `part-`.
pub(crate) fn stacks(title: &str, stacks: &[Stack]) -> String {
    let whole = |stack: &Stack| stack.parts.iter().map(|(_, value)| value).sum::<f64>();
    let most = stacks.iter().map(whole).fold(0.0, f64::max);
    let mut svg = open(title, stacks.len());
    for (row, stack) in stacks.iter().enumerate() {
        let (y, mut x) = (top(row), LABEL);
        for (name, value) in &stack.parts {
            let length = scaled(*value, most);
            let name = escape(name);
            let _ = write!(
                svg,
                "<rect class=\"part-{name}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{length:.1}\" height=\"{THICK}\">\
                 <title>{name}: {value:.3}</title></rect>"
            );
            x += length;
        }
        words(&mut svg, &stack.label, &stack.text, y);
    }
    svg + "</svg>"
}

/// Orders of each second of every run, one line for each run.
pub(crate) fn lines(title: &str, series: &[(String, &[u64])]) -> String {
    let height = 150.0;
    let most = series.iter().flat_map(|(_, values)| values.iter()).max().copied().unwrap_or(0).max(1) as f64;
    let longest = series.iter().map(|(_, values)| values.len()).max().unwrap_or(0).max(2);
    let mut svg = format!(
        "<svg role=\"img\" viewBox=\"0 0 {WIDTH} {0}\"><title>{1}</title><path class=\"axis\" d=\"M{LABEL} 10V{height}H{WIDTH}\"/>\
         <text class=\"label\" x=\"{2}\" y=\"18\">{most}</text><text class=\"label\" x=\"{2}\" y=\"{height}\">0</text>",
        height + 22.0,
        escape(title),
        LABEL - 8.0,
    );
    for (name, values) in series {
        let points: Vec<String> = values
            .iter()
            .enumerate()
            .map(|(second, value)| {
                let x = LABEL + second as f64 / (longest - 1) as f64 * (WIDTH - LABEL);
                let y = height - *value as f64 / most * (height - 10.0);
                format!("{x:.1},{y:.1}")
            })
            .collect();
        let name = escape(name);
        let _ = write!(svg, "<polyline class=\"line-{name}\" points=\"{}\"><title>{name}</title></polyline>", points.join(" "));
    }
    let _ = write!(svg, "<text class=\"text\" x=\"{LABEL}\" y=\"{:.0}\">0 s</text>", height + 16.0);
    let _ = write!(svg, "<text class=\"label\" x=\"{WIDTH}\" y=\"{:.0}\">{longest} s</text>", height + 16.0);
    svg + "</svg>"
}

fn open(title: &str, rows: usize) -> String {
    let height = rows as f64 * ROW + 6.0;
    format!("<svg role=\"img\" viewBox=\"0 0 {WIDTH} {height}\"><title>{}</title>", escape(title))
}

fn words(svg: &mut String, label: &str, text: &str, y: f64) {
    let base = y + THICK * 0.72;
    let (label, text) = (escape(label), escape(text));
    let _ = write!(svg, "<text class=\"label\" x=\"{:.1}\" y=\"{base:.1}\">{label}</text>", LABEL - 8.0);
    let _ = write!(svg, "<text class=\"text\" x=\"{:.1}\" y=\"{base:.1}\">{text}</text>", WIDTH - TEXT + 8.0);
}

fn top(row: usize) -> f64 {
    row as f64 * ROW + 6.0
}

fn scaled(value: f64, most: f64) -> f64 {
    if most > 0.0 { value / most * (WIDTH - LABEL - TEXT) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_bar_fills_the_room_and_others_are_in_proportion() {
        let bar = |value| Bar { label: "x".into(), value, error: None, text: String::new() };
        let svg = bars("t", &[bar(10.0), bar(5.0)]);
        assert!(svg.contains("width=\"460.0\"") && svg.contains("width=\"230.0\""), "{svg}");
    }

    #[test]
    fn labels_are_escaped_and_zero_is_drawn() {
        let bar = Bar { label: "<b>".into(), value: 0.0, error: Some(0.0), text: "a&b".into() };
        let svg = bars("t", &[bar]);
        assert!(svg.contains("&lt;b&gt;") && svg.contains("a&amp;b") && !svg.contains("NaN"), "{svg}");
    }
}
