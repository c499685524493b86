//! Builds an SVG drawing. Colours come from CSS classes, so that they follow light mode, dark mode and print.

use std::fmt::Write;

use super::words::escape;

/// Height of a line of text, and mean width of a letter, in drawing units.
pub(crate) const LINE: f64 = 18.0;
const LETTER: f64 = 7.4;
/// The same in bold.
const BOLD_LETTER: f64 = 8.6;

/// Widths for which a chart is drawn: wide screens and paper, and narrow screens.
pub(crate) const WIDTHS: [f64; 2] = [880.0, 350.0];

/// A drawing of a fixed size.
pub(crate) struct Svg {
    pub(crate) width: f64,
    pub(crate) height: f64,
    body: String,
}

impl Svg {
    pub(crate) fn new(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new() }
    }

    /// Whether this is the drawing for narrow screens.
    pub(crate) fn narrow(&self) -> bool {
        self.width < 600.0
    }

    pub(crate) fn rect(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64), title: &str) {
        let title = titled(title);
        let _ = write!(
            self.body,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\">{title}</rect>",
            width.max(0.0),
            height.max(0.0),
        );
    }

    pub(crate) fn text(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        let _ = write!(self.body, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(text));
    }

    /// Texts at the marks of a horizontal axis, without those that would overlap the previous one.
    pub(crate) fn ticks(&mut self, marks: impl Iterator<Item = (f64, String)>, y: f64) {
        let mut free = 0.0;
        for (at, words) in marks {
            let half = width_of(&words) / 2.0;
            let middle = at.min(self.width - half).max(half);
            if middle - half >= free {
                self.text("tick middle", (middle, y), &words);
                free = middle + half + 6.0;
            }
        }
    }

    pub(crate) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let _ = write!(self.body, "<path class=\"{class}\" d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\"/>");
    }

    /// A path from SVG path commands.
    pub(crate) fn path(&mut self, class: &str, commands: &str, title: &str) {
        let title = titled(title);
        let _ = write!(self.body, "<path class=\"{class}\" d=\"{commands}\">{title}</path>");
    }

    pub(crate) fn polyline(&mut self, class: &str, points: &[(f64, f64)], title: &str) {
        self.path(class, &commands(points), title);
    }

    /// A mark at a point: each kind has its own shape, so that marks can be distinguished without colour.
    pub(crate) fn mark(&mut self, class: &str, kind: usize, (x, y): (f64, f64), title: &str) {
        let shape = match kind % 4 {
            0 => format!("M{:.1} {y:.1}a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z", x - 4.5),
            1 => format!("M{:.1} {:.1}h8v8h-8z", x - 4.0, y - 4.0),
            2 => format!("M{x:.1} {:.1}l5 9h-10z", y - 5.5),
            _ => format!("M{x:.1} {:.1}l5.5 5.5l-5.5 5.5l-5.5 -5.5z", y - 5.5),
        };
        self.path(class, &shape, title);
    }

    /// The interval around a value, as a line with ends.
    pub(crate) fn whisker(&mut self, (from, to): (f64, f64), y: f64) {
        let top = y - 5.0;
        let path = format!("M{from:.1} {y:.1}H{to:.1}M{from:.1} {top:.1}v10M{to:.1} {top:.1}v10");
        self.path("whisker", &path, "");
    }

    /// The complete drawing, with a description for readers who cannot see it.
    pub(crate) fn finish(self, label: &str) -> String {
        format!(
            "<svg role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {:.0} {:.0}\">{}</svg>",
            escape(label),
            self.width,
            self.height,
            self.body
        )
    }
}

/// A drawing as a separate file, with the styles of its classes and a background.
pub(crate) fn alone(drawing: Svg, label: &str, style: &str) -> String {
    let (width, height) = (drawing.width, drawing.height);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-label=\"{}\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"-12 -12 {:.0} {:.0}\"><style>{style}\nsvg {{ font-family: system-ui, sans-serif; background: var(--paper); }}</style>\
         {}</svg>\n",
        escape(label),
        width + 24.0,
        height + 24.0,
        drawing.body
    )
}

/// Draws once for wide and once for narrow screens; the page shows one of them.
pub(crate) fn both(label: &str, draw: impl Fn(f64) -> Svg) -> String {
    let [wide, narrow] = WIDTHS.map(|width| draw(width).finish(label));
    format!("<div class=\"chart for-wide\">{wide}</div><div class=\"chart for-narrow\">{narrow}</div>\n")
}

/// Estimated width of `text`.
pub(crate) fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

/// Estimated width of `text` in bold.
pub(crate) fn bold_width_of(text: &str) -> f64 {
    text.chars().count() as f64 * BOLD_LETTER
}

/// Path commands of a line through points.
pub(crate) fn commands(points: &[(f64, f64)]) -> String {
    let mut path = String::with_capacity(points.len() * 12);
    for (place, (x, y)) in points.iter().enumerate() {
        let _ = write!(path, "{}{x:.1} {y:.1}", if place == 0 { 'M' } else { 'L' });
    }
    path
}

fn titled(title: &str) -> String {
    if title.is_empty() { String::new() } else { format!("<title>{}</title>", escape(title)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_titles_are_escaped() {
        let mut svg = Svg::new(100.0, 10.0);
        svg.text("label", (0.0, 0.0), "<b>&");
        svg.rect("bar", (0.0, 0.0), (-4.0, 2.0), "\"x\"");
        let drawn = svg.finish("a<b");
        assert!(drawn.contains("&lt;b&gt;&amp;") && drawn.contains("<title>&quot;x&quot;</title>"), "{drawn}");
        assert!(drawn.contains("aria-label=\"a&lt;b\"") && drawn.contains("width=\"0.0\""), "{drawn}");
    }
}
