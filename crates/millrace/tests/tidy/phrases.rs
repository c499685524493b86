//! Phrases that STYLE.md replaces, and how often pages, messages and comments still contain each.
//! The number may only fall.

use std::collections::BTreeMap;

use crate::tree::{read, report, root, rust_files, shown, source_files};

/// The file with the allowed number for each phrase, one on a line. The test itself writes it if
/// [`UPDATE`] is set.
const COUNTS: &str = "crates/millrace/tests/tidy/phrases.txt";
const UPDATE: &str = "MILLRACE_UPDATE_PHRASES";
/// A page that is generated from `rules/`, which are counted.
const GENERATED: &str = "docs/rules.md";

#[test]
fn phrases_that_style_replaces_only_become_fewer() {
    let texts = texts();
    let found: BTreeMap<String, usize> =
        phrases().into_iter().map(|phrase| (phrase.clone(), texts.values().map(|text| count(text, &phrase)).sum())).collect();
    if std::env::var_os(UPDATE).is_some() {
        let lines: String = found.iter().map(|(phrase, count)| format!("{count} {phrase}\n")).collect();
        std::fs::write(root().join(COUNTS), lines).unwrap();
    }
    let allowed = allowed();
    let mut faults = Vec::new();
    for (phrase, &times) in &found {
        match allowed.get(phrase) {
            Some(&most) if times > most => {
                let files = texts.iter().filter(|(_, text)| count(text, phrase) > 0).map(|(file, _)| file.as_str());
                let files: Vec<&str> = files.take(20).collect();
                faults
                    .push(format!("{phrase:?}: {times} times, {most} allowed: write what STYLE.md says ({})", files.join(", ")));
            }
            Some(&most) if times < most => faults.push(format!("{phrase:?}: {times} times, {most} allowed: lower the number")),
            Some(_) => {}
            None => faults.push(format!("{phrase:?} is in STYLE.md and not in {COUNTS}")),
        }
    }
    faults.extend(
        allowed.keys().filter(|known| !found.contains_key(*known)).map(|phrase| format!("{phrase:?} is not in STYLE.md")),
    );
    report(&format!("phrases beside {COUNTS} ({UPDATE}=1 writes it)"), &faults);
}

/// The phrases of STYLE.md: the first column of the table below "## Words", between commas.
fn phrases() -> Vec<String> {
    let style = read(&root().join("STYLE.md"));
    let section = style.split("\n## Words\n").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("STYLE.md: ## Words");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")).skip(1).filter(|row| !row.starts_with('-'));
    let cells = rows.filter_map(|row| row.split(" | ").next());
    let phrases: Vec<String> = cells.flat_map(|cell| cell.split(", ")).map(str::to_owned).collect();
    assert!(phrases.len() > 20, "STYLE.md has {} phrases", phrases.len());
    phrases
}

fn allowed() -> BTreeMap<String, usize> {
    let lines = read(&root().join(COUNTS));
    let line = |line: &str| {
        let (count, phrase) = line.split_once(' ').unwrap_or_else(|| panic!("{COUNTS}: {line}"));
        (phrase.to_owned(), count.parse().unwrap_or_else(|_| panic!("{COUNTS}: {line}")))
    };
    lines.lines().map(line).collect()
}

/// The text that users and readers see, in lower case and without line ends, by file: pages, rules,
/// and comments and strings of Rust.
fn texts() -> BTreeMap<String, String> {
    let pages = source_files(&["md"]).into_iter().filter(|file| !["STYLE.md", GENERATED].contains(&shown(file).as_str()));
    let rules = source_files(&["toml"]).into_iter().filter(|file| file.starts_with(root().join("rules")));
    let whole = pages.chain(rules).map(|file| (shown(&file), read(&file)));
    let rust = rust_files().into_iter().map(|file| (shown(&file), prose_of_rust(&read(&file))));
    let joined = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    // "That is no longer" is good English, but contains a phrase that is not.
    whole.chain(rust).map(|(file, text)| (file, joined(text).replace("no longer", "not"))).collect()
}

/// Number of times that the text contains the phrase in whole words.
fn count(text: &str, phrase: &str) -> usize {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let is_whole = |at: usize| !is_word(text[..at].chars().next_back()) && !is_word(text[at + phrase.len()..].chars().next());
    text.match_indices(phrase).filter(|(at, _)| is_whole(*at)).count()
}

/// The comments and string literals of a Rust file.
fn prose_of_rust(text: &str) -> String {
    let mut prose = String::new();
    let mut rest = text;
    let mut before = ' ';
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '/' if rest.starts_with("//") => {
                let line = rest.lines().next().unwrap_or_default();
                prose.push_str(line.trim_start_matches(['/', '!']));
                line.len()
            }
            'r' if !is_identifier(before) && rest[1..].trim_start_matches('#').starts_with('"') => {
                let hashes = rest[1..].len() - rest[1..].trim_start_matches('#').len();
                let start = hashes + 2;
                let end = rest[start..].find(&format!("\"{}", "#".repeat(hashes))).map_or(rest.len(), |at| start + at);
                prose.push_str(&rest[start..end]);
                (end + 1 + hashes).min(rest.len())
            }
            '"' => {
                let end = end_of_string(rest);
                prose.push_str(&rest[1..end].replace("\\n", " ").replace('\\', " "));
                (end + 1).min(rest.len())
            }
            '\'' => length_of_char(rest),
            other => other.len_utf8(),
        };
        if length > 1 {
            prose.push(' ');
        }
        before = first;
        rest = &rest[length..];
    }
    prose
}

fn is_identifier(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Length of the string literal at the start, up to its closing quote.
fn end_of_string(rest: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at,
            _ => {}
        }
    }
    rest.len()
}

/// Length of a character literal. For a lifetime, the length of its quote.
fn length_of_char(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((at, escaped))) => {
            let after = at + escaped.len_utf8();
            rest[after..].find('\'').map_or(1, |end| after + end + 1)
        }
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1,
    }
}

#[test]
fn comments_and_strings_are_prose_and_names_are_not() {
    let text = "/// One told.\nfn told<'a>(mended: &'a str) -> char { log(\"two \\\n   told \\\" x\"); r#\"three told\"#; '\\'' } // told";
    let prose = prose_of_rust(text);
    assert_eq!((count(&prose, "told"), count(&prose, "mended")), (4, 0), "{prose}");
    assert_eq!(count("untold told_ told", "told"), 1);
}
