//! The rows of docs/errors.md.

use std::path::Path;

/// A wrong use, and how the program must answer.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) command: String,
    pub(crate) code: Option<i32>,
    pub(crate) message: String,
    pub(crate) fix: String,
}

/// The rows of all tables that have the five columns.
pub(crate) fn rows() -> Vec<Row> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors.md");
    let text = std::fs::read_to_string(&file).unwrap();
    text.lines().filter_map(row).collect()
}

fn row(line: &str) -> Option<Row> {
    let cells: Vec<String> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").map(plain).collect();
    let [what, command, code, message, fix] = <[String; 5]>::try_from(cells).ok()?;
    let code = code.parse().ok();
    // Each table's header and the line below it are not rows.
    (command != "command" && !command.starts_with("--")).then_some(Row { what, command, code, message, fix })
}

/// A cell without its code marks.
fn plain(cell: &str) -> String {
    let cell = cell.trim();
    let double = cell.strip_prefix("`` ").and_then(|rest| rest.strip_suffix(" ``"));
    let single = || cell.strip_prefix('`')?.strip_suffix('`').filter(|inner| !inner.contains('`'));
    double.or_else(single).unwrap_or(cell).to_owned()
}

/// A cell as code, so that Markdown interprets nothing in it.
pub(crate) fn code(text: &str) -> String {
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}

/// Whether the text has the parts between `…` in this order.
pub(crate) fn is_in(pattern: &str, text: &str) -> bool {
    let mut rest = text;
    pattern.split('…').all(|part| match rest.split_once(part) {
        Some((_, behind)) => {
            rest = behind;
            true
        }
        None => false,
    })
}
