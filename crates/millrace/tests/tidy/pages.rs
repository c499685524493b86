//! Pages that list what is in the tree.

use std::collections::BTreeSet;

use crate::architecture::{UnsafeCode, row_of, rows};
use crate::tree::{crate_of, crates, read, report, root, rust_files};

#[test]
fn readme_lists_each_crate() {
    let readme = read(&root().join("README.md"));
    let built: BTreeSet<String> = crates().into_iter().map(|found| found.name).collect();
    let without_row = built.iter().filter(|name| !readme.contains(&format!("| `{name}` |")));
    let mut faults: Vec<String> = without_row.map(|name| format!("README.md has no row for {name}")).collect();
    for row in readme.lines().filter_map(|line| line.strip_prefix("| `")) {
        let name = row.split('`').next().unwrap_or_default();
        if rows().iter().any(|row| row.name == name) && !built.contains(name) {
            faults.push(format!("README.md lists {name}, which is not in crates/"));
        }
    }
    report("a list of crates that is not that of crates/", &faults);
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

/// The libc names a file of preload interposes: in `hooks! { … }` each function one step in, elsewhere by attribute.
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
