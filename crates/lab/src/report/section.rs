//! The building blocks of a section: heading, explanation, tables.

use std::borrow::Cow;
use std::fmt::Write;

use super::view::Arm;
use super::words::escape;

/// Longest name of a configuration that is not wrapped.
const ARM_LETTERS_UNBROKEN: usize = 28;

/// A part of the page.
pub(crate) struct Section {
    /// Anchor.
    pub(crate) id: Cow<'static, str>,
    /// Plain text.
    pub(crate) title: Cow<'static, str>,
    /// How to read the section: plain text, one or two sentences.
    pub(crate) lead: Cow<'static, str>,
    /// HTML.
    pub(crate) body: String,
}

impl Section {
    /// A section; `None` if its body is empty.
    pub(crate) fn new(
        id: impl Into<Cow<'static, str>>,
        title: impl Into<Cow<'static, str>>,
        lead: impl Into<Cow<'static, str>>,
        body: String,
    ) -> Option<Self> {
        (!body.is_empty()).then(|| Self { id: id.into(), title: title.into(), lead: lead.into(), body })
    }

    pub(crate) fn html(&self) -> String {
        format!(
            "<section id=\"{0}\" aria-labelledby=\"{0}-title\"><h2 id=\"{0}-title\">{1}</h2>\n<p class=\"lead\">{2}</p>\n{3}</section>\n",
            escape(&self.id),
            escape(&self.title),
            escape(&self.lead),
            self.body
        )
    }
}

/// A table being built. Cells are HTML.
pub(crate) struct Table {
    caption: String,
    heads: Vec<String>,
    rows: Vec<String>,
}

impl Table {
    /// Headings are plain text; the first column is the row's heading. A heading that begins with `<` is left-aligned, for text.
    pub(crate) fn new(caption: &str, heads: &[&str]) -> Self {
        Self { caption: escape(caption), heads: heads.iter().map(|head| (*head).to_owned()).collect(), rows: Vec::new() }
    }

    /// Adds a row; the first cell is its heading.
    pub(crate) fn row(&mut self, cells: &[String]) {
        let mut row = String::new();
        for (place, cell) in cells.iter().enumerate() {
            let words = self.heads.get(place).is_some_and(|head| head.starts_with('<'));
            let _ = match (place, words) {
                (0, _) => write!(row, "<th scope=\"row\">{cell}</th>"),
                (_, true) => write!(row, "<td class=\"words\">{cell}</td>"),
                (_, false) => write!(row, "<td>{cell}</td>"),
            };
        }
        self.rows.push(row);
    }

    pub(crate) fn html(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let mut heads = String::new();
        for head in &self.heads {
            let (class, text) = head.strip_prefix('<').map_or(("", head.as_str()), |text| (" class=\"words\"", text));
            let _ = write!(heads, "<th scope=\"col\"{class}>{}</th>", escape(text));
        }
        let rows: String = self.rows.iter().map(|row| format!("<tr>{row}</tr>\n")).collect();
        format!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table><caption>{0}</caption>\
             <thead><tr>{heads}</tr></thead>\n<tbody>{rows}</tbody></table></div>\n",
            self.caption
        )
    }
}

/// A term with its explanation or value, for a `dl`.
pub(crate) fn term(list: &mut String, name: &str, html: &str) {
    let _ = writeln!(list, "<div><dt>{}</dt><dd>{html}</dd></div>", escape(name));
}

/// A swatch with the colour of a configuration.
pub(crate) fn swatch(class: &str) -> String {
    format!("<i class=\"swatch {class}\" aria-hidden=\"true\"></i>")
}

/// Cell of a configuration: its colour and its name.
pub(crate) fn arm_cell(arm: &Arm<'_>) -> String {
    let short = if arm.name.chars().count() <= ARM_LETTERS_UNBROKEN { "arm short" } else { "arm" };
    format!("<span class=\"{short}\">{}{}</span>", swatch(&arm.class()), escape(arm.name))
}

/// A word for passed or failed, marked with a sign as well as a colour.
pub(crate) fn outcome(passed: bool, yes: &str, no: &str) -> String {
    if passed { format!("<span class=\"good\">✓ {yes}</span>") } else { format!("<span class=\"bad\">✗ {no}</span>") }
}

/// The heading of a facet, if there are several.
pub(crate) fn facet_heading(title: &str) -> String {
    if title.is_empty() { String::new() } else { format!("<h3>{}</h3>\n", escape(title)) }
}
