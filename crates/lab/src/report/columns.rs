//! Text for a terminal of a given width: tables, wrapped lines, labelled lines.

/// Indent of continuation lines.
const HANGING: usize = 2;
/// Column of the text after a label, from the left margin.
const WORDS_AT: usize = 17;
/// Smallest width for wrapping.
const WIDTH_MIN: usize = 40;
/// Columns between two cells.
const GAP: usize = 2;

/// Aligns rows, the first of which contains the headings: the first column and those whose heading begins with `<` to the left,
/// figures to the right. Columns that do not fit are placed below, each time with the first one in front.
pub(super) fn columns(rows: &[Vec<String>], width: usize) -> String {
    let count = rows.first().map_or(0, Vec::len);
    let cell = |row: &Vec<String>, column: usize| row.get(column).cloned().unwrap_or_default();
    let left = |column: usize| column == 0 || rows.first().is_some_and(|heads| cell(heads, column).starts_with('<'));
    let shown = |row: &Vec<String>, column: usize| cell(row, column).trim_start_matches('<').to_owned();
    let wide = |column: usize| rows.iter().map(|row| shown(row, column).chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    let mut from = 1;
    while from < count {
        let (mut to, mut used) = (from, wide(0));
        while to < count && (to == from || used + GAP + wide(to) <= width) {
            used += GAP + wide(to);
            to += 1;
        }
        for row in rows {
            let mut line = format!("{:<1$}", shown(row, 0), wide(0));
            for column in from..to {
                let (cell, wide) = (shown(row, column), wide(column));
                line += &if left(column) { format!("  {cell:<wide$}") } else { format!("  {cell:>wide$}") };
            }
            text += line.trim_end();
            text.push('\n');
        }
        from = to;
    }
    text
}

/// A text in lines of at most `width` columns; continuation lines are indented. A longer word gets its own line.
pub(super) fn wrapped(text: &str, width: usize) -> String {
    fill(text, String::new(), HANGING, width)
}

/// A label followed by its text, which is wrapped in its own column.
pub(super) fn labelled(label: &str, text: &str, width: usize) -> String {
    fill(text, format!("  {label:<0$}", WORDS_AT - 2), WORDS_AT, width)
}

fn fill(text: &str, begin: String, indent: usize, width: usize) -> String {
    let width = width.max(WIDTH_MIN);
    let mut all = String::new();
    let mut line = begin;
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > width {
            all += line.trim_end();
            all.push('\n');
            line = " ".repeat(indent);
            empty = true;
        }
        if !line.is_empty() && (!empty || !line.ends_with(' ')) {
            line.push(' ');
        }
        line += word;
        empty = false;
    }
    all + line.trim_end() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[&[&str]]) -> Vec<Vec<String>> {
        rows.iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect()
    }

    #[test]
    fn rows_are_aligned() {
        let text = columns(&rows(&[&["a", "n", "<why"], &["bcd", "22 ± 3", "so"]]), 80);
        assert_eq!(text, "a         n  why\nbcd  22 ± 3  so\n");
    }

    #[test]
    fn columns_that_do_not_fit_go_below_with_the_first_one_in_front() {
        let text = columns(&rows(&[&["path", "first", "second"], &["a", "1", "2"]]), 12);
        assert_eq!(text, "path  first\na         1\npath  second\na          2\n");
    }

    #[test]
    fn wrapped_lines_keep_to_the_width_and_a_long_word_stands_alone() {
        let text = wrapped(&"word ".repeat(30), 42);
        assert!(text.lines().count() > 2 && text.lines().all(|line| line.chars().count() <= 42), "{text}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("  word")), "{text}");
        let long = "x".repeat(60);
        assert_eq!(wrapped(&format!("see {long} there"), 42), format!("see\n  {long}\n  there\n"));
        assert_eq!(labelled("next", "do this", 80), "  next           do this\n");
    }
}
