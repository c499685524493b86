//! Pages that list parts of the tree.

use std::collections::BTreeSet;

use crate::architecture::{UnsafeCode, row_of};
use crate::tree::{crate_of, crates, read, report, root, rust_files, shown};

/// Maximum number of words of README, as wc(1) counts them, and of lines of docs/progress.md.
const README_WORDS_MAX: usize = 1_400;
const PROGRESS_LINES_MAX: usize = 80;

#[test]
fn readme_and_progress_stay_short() {
    let words = read(&root().join("README.md")).split_whitespace().count();
    assert!(words <= README_WORDS_MAX, "README.md has {words} words");
    let lines = read(&root().join("docs/progress.md")).lines().count();
    assert!(lines <= PROGRESS_LINES_MAX, "docs/progress.md has {lines} lines");
}

#[test]
fn readme_lists_each_command() {
    let readme = read(&root().join("README.md"));
    let table = readme.split("\n## Commands\n").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("## Commands");
    let commands = commands();
    assert!(commands.len() > 15, "{commands:?}: has the list of commands another form?");
    let missing: Vec<String> = commands.into_iter().filter(|name| !table.contains(&format!("`{name}`"))).collect();
    report("commands that README.md does not list", &missing);
}

/// The commands that `millrace --help` lists: the variants of `Command` such as
/// `Serve(serve::Args)`, except hidden ones.
fn commands() -> Vec<String> {
    let text = read(&root().join("crates/millrace/src/cmd.rs"));
    let declared = text.split("enum Command {\n").nth(1).and_then(|rest| rest.split("\n}").next()).expect("enum Command { … }");
    let mut is_hidden = false;
    let mut names = Vec::new();
    for line in declared.lines() {
        is_hidden |= line.contains("hide = true");
        if let Some((variant, _)) = line.trim().split_once('(').filter(|_| line.contains("::Args)"))
            && !std::mem::take(&mut is_hidden)
        {
            names.push(variant.to_lowercase());
        }
    }
    names
}

#[test]
fn pages_and_help_name_each_storage_path() {
    let names: Vec<&str> = lab::path_titles().map(|(name, _)| name).collect();
    let places = [
        ("docs/progress.md", "| laboratory | "),
        ("docs/glossary.md", "| path, storage path | "),
        ("crates/millrace/src/cmd/compare.rs", "/// Paths to compare: "),
    ];
    let mut faults = Vec::new();
    for (file, start) in places {
        let text = read(&root().join(file));
        let Some(line) = text.lines().find(|line| line.trim_start().starts_with(start)) else {
            faults.push(format!("{file} has no line that begins with {start:?}"));
            continue;
        };
        let words: BTreeSet<&str> = line.split(|c: char| !c.is_ascii_alphanumeric()).collect();
        faults.extend(names.iter().filter(|name| !words.contains(*name)).map(|name| format!("{file} does not name {name}")));
    }
    report("lists of storage paths that lack one", &faults);
}

#[test]
fn the_guest_figures_of_readme_are_in_docs_reports() {
    let reports = read(&root().join("docs/reports.md"));
    let section = reports.split("<a id=\"tr-3700-guest\">").nth(1).and_then(|rest| rest.split("\n`compare ").next());
    let section = section.expect("the arms of TR-3700's plan in a guest");
    let readme = read(&root().join("README.md"));
    let rows =
        readme.lines().skip_while(|line| !line.starts_with("| in one guest")).skip(2).take_while(|line| line.starts_with('|'));
    let mut found = 0;
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let (path, figure) = (cells[1].split(',').next().unwrap_or_default(), cells[2]);
        let is_there = section.lines().any(|line| line.starts_with(&format!("| {path}")) && line.contains(figure));
        assert!(is_there, "README.md has {figure} for {path}, and docs/reports.md does not");
        found += 1;
    }
    assert!(found >= 3, "README.md has {found} rows of a guest");
}

#[test]
fn docs_testing_has_a_row_for_each_stage_of_scripts_test() {
    let page = read(&root().join("docs/testing.md"));
    let script = read(&root().join("scripts/test"));
    let stages = script.lines().find_map(|line| line.strip_prefix("stages=(")?.strip_suffix(')')).expect("stages=(…)");
    let missing: Vec<String> =
        stages.split_whitespace().filter(|stage| !page.contains(&format!("| {stage} |"))).map(str::to_owned).collect();
    report("stages without a row in docs/testing.md", &missing);
}

#[test]
fn each_end_to_end_test_is_in_a_part_of_make_nightly() {
    let script = read(&root().join("scripts/nightly"));
    let parts: Vec<&str> =
        script.lines().filter(|line| line.contains(") part tests ")).flat_map(|line| line.split('"')).collect();
    let is_in_a_part = |name: &str| parts.iter().any(|part| part.split_whitespace().any(|word| word == name));
    let mut missing = Vec::new();
    for folder in crates().iter().map(|one| one.folder.join("tests")).filter(|folder| folder.is_dir()) {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let is_test = entry.extension().is_some_and(|extension| extension == "rs") || entry.join("main.rs").is_file();
            let name = entry.file_stem().unwrap().to_str().unwrap();
            if is_test && name != "tidy" && !is_in_a_part(name) {
                missing.push(shown(&entry));
            }
        }
    }
    report("tests that no part of scripts/nightly runs", &missing);
}

#[test]
fn changelog_has_an_unreleased_section_with_the_four_groups() {
    let text = read(&root().join("CHANGELOG.md"));
    let section = text.split("## Unreleased").nth(1).unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default();
    for group in ["Data safety", "Protocol", "Performance", "Tools"] {
        assert!(section.contains(&format!("### {group}")), "CHANGELOG.md: Unreleased has no group {group}");
    }
}

#[test]
fn the_nfs3_support_table_has_a_row_for_each_procedure() {
    const PROCEDURES: &str = "NULL GETATTR SETATTR LOOKUP ACCESS READLINK READ WRITE CREATE MKDIR SYMLINK MKNOD REMOVE RMDIR \
                              RENAME LINK READDIR READDIRPLUS FSSTAT FSINFO PATHCONF COMMIT";
    let text = read(&root().join("docs/compat/nfs3.md"));
    let has_row = |name: &str| text.lines().any(|line| has_cell(line, name));
    let missing: Vec<String> = PROCEDURES.split_whitespace().filter(|name| !has_row(name)).map(str::to_owned).collect();
    report("procedures without a row in docs/compat/nfs3.md", &missing);
}

#[test]
fn the_preload_support_table_has_each_symbol_that_is_interposed() {
    let text = read(&root().join("docs/compat/preload.md"));
    let (mut found, mut missing) = (0, Vec::new());
    for file in rust_files() {
        let interposes = |name: &str| row_of(name).is_some_and(|row| row.unsafe_code == UnsafeCode::Throughout);
        if !crate_of(&file).is_some_and(|(name, _)| interposes(&name)) {
            continue;
        }
        for symbol in exported_symbols(&read(&file)) {
            found += 1;
            if !text.contains(&format!("`{symbol}`")) {
                missing.push(symbol);
            }
        }
    }
    assert!(found > 0, "no hook found in preload: has their form changed?");
    report("symbols without a row in docs/compat/preload.md", &missing);
}

/// The libc names that a file of preload interposes: in `hooks! { … }` each function at the first
/// indentation, elsewhere by attribute.
fn exported_symbols(text: &str) -> Vec<String> {
    let mut symbols = Vec::new();
    let (mut in_hooks, mut exported) = (false, false);
    for line in text.lines() {
        in_hooks = (in_hooks && line != "}") || line == "hooks! {";
        exported |= line.contains("#[unsafe(no_mangle)]");
        let declared = if in_hooks { line.strip_prefix("    fn ") } else { line.split_once(" fn ").map(|(_, rest)| rest) };
        let Some(rest) = declared else { continue };
        let name = rest.split('(').next().unwrap_or_default();
        if (in_hooks || exported) && !name.starts_with('$') {
            symbols.push(name.to_owned());
        }
        exported = false;
    }
    symbols
}

fn has_cell(line: &str, word: &str) -> bool {
    line.starts_with('|') && line.split('|').any(|cell| cell.split(|c: char| !c.is_ascii_uppercase()).any(|part| part == word))
}
