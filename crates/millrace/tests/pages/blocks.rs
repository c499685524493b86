//! Command blocks of a page. A fence `sh` has commands, which the test runs as printed. A fence
//! `text` after it has their output, where `…` is any text. A comment in the line before a block
//! says what the page does not show:
//!
//! - `<!-- not run: REASON -->`: a reader runs it, the test does not;
//! - `<!-- instead, COMMAND: REASON -->`: the test runs COMMAND and not the block;
//! - `<!-- without a kernel client, COMMAND: REASON -->`: the same, if the kernel has no NFS client;
//! - `<!-- nightly: REASON -->`: it takes long;
//! - `<!-- exit code N -->`: its last command ends with this code;
//! - `<!-- not a command -->`: a `text` or bare block that no command of the page printed.

use std::path::Path;

/// A block of commands.
#[derive(Debug)]
pub(crate) struct Block {
    /// Line of its fence.
    pub(crate) line: usize,
    pub(crate) commands: String,
    pub(crate) mark: Mark,
    /// The output that the page shows.
    pub(crate) output: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mark {
    None,
    NotRun(String),
    Instead(String),
    WithoutKernelClient(String),
    Nightly,
    ExitCode(i32),
}

const WITHOUT_CLIENT: &str = "without a kernel client, ";

/// Fences that show a file.
const FILES: [&str; 4] = ["toml", "yaml", "ini", "sql"];

/// The command blocks of a page. Panics if a block is neither commands, nor output, nor a file.
pub(crate) fn of_page(page: &Path) -> Vec<Block> {
    let text = std::fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
    let mut blocks: Vec<Block> = Vec::new();
    let (mut before, mut is_answered) = (String::new(), true);
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(language) = line.trim_start().strip_prefix("```") else {
            if !line.trim().is_empty() {
                line.clone_into(&mut before);
            }
            continue;
        };
        let indent = line.len() - line.trim_start().len();
        let inside: Vec<&str> = lines
            .by_ref()
            .map(|(_, line)| line)
            .take_while(|line| line.trim() != "```")
            .map(|line| line.get(indent..).unwrap_or(""))
            .collect();
        let inside: String = inside.iter().flat_map(|line| [line, "\n"]).collect();
        let place = format!("{}:{}", page.display(), number + 1);
        match language {
            "sh" => {
                blocks.push(Block { line: number + 1, commands: inside, mark: mark(&before, &place), output: None });
                is_answered = false;
            }
            "text" if !is_answered => {
                blocks.last_mut().expect("a block of commands before").output = Some(inside);
                is_answered = true;
            }
            _ if before == "<!-- not a command -->" || before == "<!-- real output: begin -->" => {}
            _ if FILES.contains(&language) => {}
            _ => panic!("{place}: a block must be sh, text behind sh, a file ({FILES:?}), or marked as not a command"),
        }
        before.clear();
    }
    blocks
}

fn mark(before: &str, place: &str) -> Mark {
    let Some(comment) = before.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")) else { return Mark::None };
    if let Some(code) = comment.strip_prefix("exit code ") {
        return Mark::ExitCode(code.parse().unwrap_or_else(|_| panic!("{place}: exit code {code}")));
    }
    match comment.split_once(": ") {
        Some(("not run", reason)) => Mark::NotRun(reason.to_owned()),
        Some(("nightly", _)) => Mark::Nightly,
        Some((what, _)) if what.starts_with("instead, ") => Mark::Instead(what["instead, ".len()..].to_owned()),
        Some((what, _)) if what.starts_with(WITHOUT_CLIENT) => Mark::WithoutKernelClient(what[WITHOUT_CLIENT.len()..].to_owned()),
        _ if comment == "real output: end" => Mark::None,
        _ => panic!("{place}: unknown mark {comment}"),
    }
}

/// Returns the first line of the page that is missing in the output, `None` if all are there in
/// this order. The output may have other lines between them.
pub(crate) fn lacks<'a>(page: &'a str, printed: &str) -> Option<&'a str> {
    let mut rest = printed.lines();
    page.lines().find(|wanted| !wanted.trim().is_empty() && !rest.any(|line| is_like(wanted, line)))
}

/// Whether a line matches, where `…` is any text.
fn is_like(wanted: &str, line: &str) -> bool {
    let mut parts = wanted.trim_end().split('…');
    let Some(mut rest) = line.trim_end().strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
    for part in between {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}
