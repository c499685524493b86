//! The unified difference of two texts.

use std::fmt::Write as _;

use super::limits::DIFF_CELLS_MAX;
use crate::collect::redacted;

/// Number of lines shown around a change.
const CONTEXT: usize = 3;

/// A line, and whether it is kept, removed or added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line<'a> {
    Keep(&'a str),
    Drop(&'a str),
    Add(&'a str),
}

impl<'a> Line<'a> {
    fn text(self) -> &'a str {
        match self {
            Self::Keep(text) | Self::Drop(text) | Self::Add(text) => text,
        }
    }

    fn sign(self) -> char {
        match self {
            Self::Keep(_) => ' ',
            Self::Drop(_) => '-',
            Self::Add(_) => '+',
        }
    }
}

/// The difference in the format of `diff -u`; empty if the texts are equal. An absent text is named
/// `/dev/null`.
///
/// patch(1) can apply it: a line that holds a secret is not shown as context, because without the
/// secret it would not match the file. A hunk that removes such a line shows it without the secret,
/// so it cannot be applied.
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
        // A hunk includes the next change if their contexts touch.
        let near = rest.windows(2).take_while(|pair| matches!(pair, [a, b] if touch(path, &lines, *a, *b))).count();
        let last = rest.get(near).copied().unwrap_or(first);
        let (above, below) = context(path, &lines, first, last);
        hunk(&mut out, path, &lines, first - above, last + 1 + below);
        rest = rest.get(near + 1..).unwrap_or(&[]);
    }
    out
}

/// Whether one hunk shows the changes at two lines: fewer than `2 * CONTEXT` lines lie between
/// them, and none of these holds a secret.
fn touch(path: &str, lines: &[Line<'_>], one: usize, next: usize) -> bool {
    let between = lines.get(one + 1..next).unwrap_or(&[]);
    between.len() < 2 * CONTEXT && between.iter().all(|line| is_clear(path, line.text()))
}

/// The number of lines shown above and below the changes of a hunk. patch(1) takes the side with
/// fewer lines for an end of the file. So if a secret shortens one side, the other side is
/// shortened to the same length.
fn context(path: &str, lines: &[Line<'_>], first: usize, last: usize) -> (usize, usize) {
    let is_shown = |line: &&Line<'_>| is_clear(path, line.text());
    let (before, after) = (lines.get(..first).unwrap_or(&[]), lines.get(last + 1..).unwrap_or(&[]));
    let above = before.iter().rev().take(CONTEXT).take_while(is_shown).count();
    let below = after.iter().take(CONTEXT).take_while(is_shown).count();
    let above_max = if below < after.len() { below } else { above };
    let below_max = if above < before.len() { above } else { below };
    (above.min(above_max), below.min(below_max))
}

/// Whether a line holds no secret. Comments count as secrets, because users write passwords in
/// them.
fn is_clear(path: &str, text: &str) -> bool {
    redacted(path, text).split_whitespace().eq(text.split_whitespace())
}

/// Which lines stay: the common start and end first, then the longest common subsequence of the
/// rest.
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
    // common[i][j]: the number of lines that old[i..] and new[j..] have in common.
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

/// Writes one hunk. A line that holds a secret is shown without it.
fn hunk(out: &mut String, path: &str, lines: &[Line<'_>], from: usize, to: usize) {
    let count = |lines: &[Line<'_>], old: bool| {
        lines.iter().filter(|line| if old { !matches!(line, Line::Add(_)) } else { !matches!(line, Line::Drop(_)) }).count()
    };
    let (above, shown) = (lines.get(..from).unwrap_or(&[]), lines.get(from..to).unwrap_or(&[]));
    // As in diff, the range of an empty side begins at the line before it, which can be 0.
    let range = |old: bool| {
        let (start, length) = (count(above, old), count(shown, old));
        format!("{},{length}", if length == 0 { start } else { start + 1 })
    };
    let _ = writeln!(out, "@@ -{} +{} @@", range(true), range(false));
    for line in shown {
        let text = line.text();
        // Millrace wrote the added comments, so they hold no secret.
        let is_own = matches!(line, Line::Add(_)) && text.trim_start().starts_with(['#', ';']);
        out.push(line.sign());
        if is_own || is_clear(path, text) {
            out.push_str(text);
        } else {
            out.push_str(&redacted(path, text));
        }
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
