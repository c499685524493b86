//! The unified difference of two texts.

use std::fmt::Write as _;

use super::limits::DIFF_CELLS_MAX;
use crate::collect::redacted;

/// Lines shown around a change.
const CONTEXT: usize = 3;

/// A line with what becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line<'a> {
    Keep(&'a str),
    Drop(&'a str),
    Add(&'a str),
}

/// The difference as `diff -u` writes it; empty when there is none. An absent text is `/dev/null`.
pub fn unified(path: &str, before: Option<&str>, after: Option<&str>) -> String {
    if before == after {
        return String::new();
    }
    let old: Vec<&str> = before.unwrap_or("").split_inclusive('\n').collect();
    let new: Vec<&str> = after.unwrap_or("").split_inclusive('\n').collect();
    let lines = compared(&old, &new);
    let name = |text: Option<&str>| if text.is_some() { path.to_owned() } else { "/dev/null".to_owned() };
    let mut out = format!("--- {}\n+++ {}\n", name(before), name(after));
    let changed: Vec<usize> =
        lines.iter().enumerate().filter(|(_, line)| !matches!(line, Line::Keep(_))).map(|(at, _)| at).collect();
    let mut rest = changed.as_slice();
    while let Some(&first) = rest.first() {
        // A hunk goes on while the next change is near enough for the contexts to touch.
        let near = rest.windows(2).take_while(|pair| matches!(pair, [a, b] if b - a <= 2 * CONTEXT)).count();
        let last = rest.get(near).copied().unwrap_or(first);
        hunk(&mut out, path, &lines, first.saturating_sub(CONTEXT), (last + CONTEXT + 1).min(lines.len()));
        rest = rest.get(near + 1..).unwrap_or(&[]);
    }
    out
}

/// Which lines stay: common ends first, then the longest common run of the rest.
fn compared<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (old.get(head..).unwrap_or(&[]), new.get(head..).unwrap_or(&[]));
    let tail = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let old_middle = old_rest.get(..old_rest.len() - tail).unwrap_or(&[]);
    let new_middle = new_rest.get(..new_rest.len() - tail).unwrap_or(&[]);
    let mut lines: Vec<Line<'a>> = old.iter().take(head).map(|line| Line::Keep(line)).collect();
    middle(old_middle, new_middle, &mut lines);
    lines.extend(old_rest.iter().skip(old_middle.len()).map(|line| Line::Keep(line)));
    lines
}

fn middle<'a>(old: &[&'a str], new: &[&'a str], lines: &mut Vec<Line<'a>>) {
    let wide = new.len() + 1;
    if (old.len() + 1).saturating_mul(wide) > DIFF_CELLS_MAX {
        lines.extend(old.iter().map(|line| Line::Drop(line)));
        lines.extend(new.iter().map(|line| Line::Add(line)));
        return;
    }
    // common[i][j]: lines that the rests from i and from j have in common.
    let mut common = vec![0u32; (old.len() + 1) * wide];
    let cell = |common: &[u32], i: usize, j: usize| common.get(i * wide + j).copied().unwrap_or(0);
    for (i, a) in old.iter().enumerate().rev() {
        for (j, b) in new.iter().enumerate().rev() {
            let best =
                if a == b { cell(&common, i + 1, j + 1) + 1 } else { cell(&common, i + 1, j).max(cell(&common, i, j + 1)) };
            if let Some(place) = common.get_mut(i * wide + j) {
                *place = best;
            }
        }
    }
    let (mut i, mut j) = (0, 0);
    loop {
        match (old.get(i), new.get(j)) {
            (None, None) => return,
            (Some(a), Some(b)) if a == b => {
                lines.push(Line::Keep(a));
                (i, j) = (i + 1, j + 1);
            }
            (Some(a), b) if b.is_none() || cell(&common, i + 1, j) >= cell(&common, i, j + 1) => {
                lines.push(Line::Drop(a));
                i += 1;
            }
            (_, Some(b)) => {
                lines.push(Line::Add(b));
                j += 1;
            }
            (Some(_), None) => return,
        }
    }
}

/// Writes one hunk, without secrets: lines around a change may have some.
fn hunk(out: &mut String, path: &str, lines: &[Line<'_>], from: usize, to: usize) {
    let count = |lines: &[Line<'_>], old: bool| {
        lines.iter().filter(|line| if old { !matches!(line, Line::Add(_)) } else { !matches!(line, Line::Drop(_)) }).count()
    };
    let (above, shown) = (lines.get(..from).unwrap_or(&[]), lines.get(from..to).unwrap_or(&[]));
    // An empty side begins at line 0, as diff has it.
    let range = |old: bool| {
        let (start, length) = (count(above, old), count(shown, old));
        format!("{},{length}", if length == 0 { start } else { start + 1 })
    };
    let _ = writeln!(out, "@@ -{} +{} @@", range(true), range(false));
    for line in shown {
        let (sign, text) = match line {
            Line::Keep(text) => (' ', text),
            Line::Drop(text) => ('-', text),
            Line::Add(text) => ('+', text),
        };
        // Comments that are added are the program's own.
        let is_own = sign == '+' && text.trim_start().starts_with(['#', ';']);
        let kept = redacted(path, text);
        let is_clear = is_own || kept.split_whitespace().eq(text.split_whitespace());
        out.push(sign);
        out.push_str(if is_clear { text } else { &kept });
        if !text.ends_with('\n') {
            out.push_str("\n\\ No newline at end of file\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_reads_as_that_of_diff() {
        let before = "1\n2\n3\n4\n5\n6\n7\n8\n";
        let after = "1\n2\n3\n4\nfive\n6\n7\n8\n";
        let shown = unified("/etc/fstab", Some(before), Some(after));
        assert_eq!(shown, "--- /etc/fstab\n+++ /etc/fstab\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
        assert_eq!(unified("x", Some("a\n"), Some("a\n")), "");
    }

    #[test]
    fn a_new_file_a_missing_newline_and_two_hunks_are_shown() {
        assert_eq!(unified("x", None, Some("a\n")), "--- /dev/null\n+++ x\n@@ -0,0 +1,1 @@\n+a\n");
        let shown = unified("x", Some("a"), Some("a\n"));
        assert!(shown.contains("-a\n\\ No newline at end of file\n+a\n"), "{shown}");
        let before: String = (0..30).map(|n| format!("{n}\n")).collect();
        let after = before.replace("\n2\n", "\ntwo\n").replace("\n25\n", "\n");
        let shown = unified("x", Some(&before), Some(&after));
        assert_eq!(shown.matches("@@ -").count(), 2, "{shown}");
        assert!(shown.contains("-2\n+two\n") && shown.contains("-25\n"), "{shown}");
    }
}
