//! Horizontal bars, one row each: of one part or of several, with an interval and the runs' own values.

use super::scale::Scale;
use super::svg::{LINE, Svg, WIDTHS, alone, bold_width_of, both, width_of};
use super::words::{cut, figure};

/// One bar.
#[derive(Default)]
pub(crate) struct Row {
    pub(crate) label: String,
    /// Parts from the left: classes, value, text after it.
    pub(crate) parts: Vec<(String, f64, String)>,
    /// Ends of the interval.
    pub(crate) interval: Option<(f64, f64)>,
    /// Single values, drawn as dots.
    pub(crate) dots: Vec<f64>,
    /// Text beside the bar.
    pub(crate) text: String,
}

impl Row {
    fn whole(&self) -> f64 {
        self.parts.iter().map(|(_, value, _)| value.max(0.0)).sum()
    }

    fn most(&self) -> f64 {
        let ends = self.interval.map_or(0.0, |(_, to)| to);
        self.dots.iter().copied().fold(self.whole().max(ends), f64::max)
    }
}

const BAR: f64 = 22.0;
const LETTERS_MAX: usize = 30;

/// Positions of bars and texts.
struct Frame {
    left: f64,
    right: f64,
    row: f64,
    /// Distance of the bar from the top of its row.
    bar: f64,
    height: f64,
}

impl Frame {
    fn of(width: f64, rows: &[Row]) -> Self {
        let label = rows.iter().map(|row| bold_width_of(&cut(&row.label, LETTERS_MAX))).fold(0.0, f64::max);
        let text = rows.iter().map(|row| width_of(&cut(&row.text, LETTERS_MAX))).fold(0.0, f64::max);
        let narrow = width < 600.0;
        let (left, room, row, bar) =
            if narrow { (6.0, 14.0, LINE + BAR + 12.0, LINE + 2.0) } else { (label + 14.0, text + 20.0, BAR + 16.0, 6.0) };
        Self { left, right: width - room, row, bar, height: rows.len() as f64 * row }
    }
}

/// The chart, for wide and narrow screens. `unit` names the axis.
pub(crate) fn chart(label: &str, unit: &str, rows: &[Row]) -> String {
    both(label, |width| draw(width, unit, rows))
}

/// The chart for wide screens as a separate file.
pub(crate) fn picture(label: &str, unit: &str, rows: &[Row], style: &str) -> String {
    let [wide, _] = WIDTHS;
    alone(draw(wide, unit, rows), label, style)
}

fn draw(width: f64, unit: &str, rows: &[Row]) -> Svg {
    let frame = Frame::of(width, rows);
    let mut svg = Svg::new(width, frame.height + 2.0 * LINE + 10.0);
    let most = rows.iter().map(Row::most).fold(0.0, f64::max);
    let scale = Scale::exact(0.0, most * 1.02, frame.left, frame.right);
    let marks = scale.marks(if svg.narrow() { 4 } else { 7 });
    for mark in &marks {
        svg.line("grid", (scale.at(*mark), 0.0), (scale.at(*mark), frame.height + 4.0));
    }
    svg.ticks(marks.iter().map(|mark| (scale.at(*mark), figure(*mark))), frame.height + LINE);
    svg.text("axis-name end", (frame.right, frame.height + 2.0 * LINE), unit);
    for (place, row) in rows.iter().enumerate() {
        draw_row(&mut svg, &frame, &scale, row, place as f64 * frame.row);
    }
    svg.line("axis", (frame.left, 0.0), (frame.left, frame.height + 4.0));
    svg
}

fn draw_row(svg: &mut Svg, frame: &Frame, scale: &Scale, row: &Row, top: f64) {
    let y = top + frame.bar;
    let mut from = 0.0;
    for (class, value, title) in &row.parts {
        let (begin, end) = (scale.at(from), scale.at(from + value.max(0.0)));
        svg.rect(class, (begin, y), (end - begin, BAR), title);
        from += value.max(0.0);
    }
    let middle = y + BAR / 2.0;
    for dot in &row.dots {
        svg.path("dot", &format!("M{:.1} {middle:.1}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0z", scale.at(*dot) - 3.0), &figure(*dot));
    }
    if let Some((low, high)) = row.interval {
        svg.whisker((scale.at(low.max(0.0)), scale.at(high)), middle);
    }
    if svg.narrow() {
        svg.text("label", (frame.left + 5.0, top + LINE - 4.0), &cut(&row.label, 26));
        svg.text("value end", (svg.width - 2.0, top + LINE - 4.0), &cut(&row.text, 26));
    } else {
        let base = middle + 5.0;
        svg.text("label end", (frame.left - 10.0, base), &cut(&row.label, LETTERS_MAX));
        svg.text("value", (frame.right + 14.0, base), &cut(&row.text, LETTERS_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(value: f64) -> Row {
        Row { label: "x".into(), parts: vec![("fill h0".into(), value, String::new())], ..Row::default() }
    }

    fn widths(svg: &str) -> Vec<f64> {
        let bars = svg.split("<rect").skip(1).map(|bar| bar.split("width=\"").nth(1).unwrap().split('"').next().unwrap());
        bars.map(|width| width.parse().unwrap()).collect()
    }

    #[test]
    fn bars_are_in_proportion_to_their_values() {
        let drawn = widths(&draw(880.0, "", &[row(10.0), row(5.0), row(0.0)]).finish("t"));
        assert!((drawn[0] - 2.0 * drawn[1]).abs() < 0.2 && drawn[2] == 0.0 && drawn[0] > 500.0, "{drawn:?}");
    }

    #[test]
    fn everything_stands_on_the_paper_however_long_the_words() {
        let long = Row {
            label: "local:a-label-that-somebody-made-very-long untuned split".into(),
            parts: vec![("fill h0".into(), 5.0, String::new())],
            interval: Some((-3.0, 40.0)),
            dots: vec![50.0],
            text: "a text that is also rather long for its place".into(),
        };
        for width in super::super::svg::WIDTHS {
            let frame = Frame::of(width, std::slice::from_ref(&long));
            assert!(frame.right - frame.left > 150.0, "{width}: {} to {}", frame.left, frame.right);
            let svg = draw(width, "u", std::slice::from_ref(&long)).finish("t");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
