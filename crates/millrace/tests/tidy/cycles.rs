//! Import cycles between the source files of a crate, by `use`. A re-export is followed to the file that defines the item.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::modules::Modules;
use crate::tree::{crates, report, shown};

/// Number of cycles in all crates together. Lower it when a cycle is removed.
const CYCLES_MAX: usize = 4;
/// Maximum number of files in one cycle.
const FILES_MAX: usize = 3;

#[test]
fn import_cycles_between_files_become_fewer() {
    let mut cycles = Vec::new();
    for of in crates() {
        for root in ["src/lib.rs", "src/main.rs"].map(|root| of.folder.join(root)).iter().filter(|root| root.exists()) {
            let modules = Modules::of(root);
            cycles.extend(
                cycles_of(&modules.imports()).iter().map(|files| files.iter().map(|file| shown(file)).collect::<Vec<_>>()),
            );
        }
    }
    let lines: Vec<String> = cycles.iter().map(|files| format!("{} files: {}", files.len(), files.join(" "))).collect();
    if cycles.len() > CYCLES_MAX || cycles.iter().any(|files| files.len() > FILES_MAX) {
        report(&format!("at most {CYCLES_MAX} import cycles of at most {FILES_MAX} files; there are {}", cycles.len()), &lines);
    }
    assert_eq!(cycles.len(), CYCLES_MAX, "lower CYCLES_MAX:\n  {}", lines.join("\n  "));
}

/// The sets of files in which each file reaches every other by imports.
fn cycles_of<'f>(imports: &BTreeMap<&'f Path, BTreeSet<&'f Path>>) -> BTreeSet<BTreeSet<&'f Path>> {
    let reached: BTreeMap<_, _> = imports.keys().map(|file| (*file, reached_from(file, imports))).collect();
    let both_ways = |one: &Path, other: &Path| reached[one].contains(other) && reached[other].contains(one);
    let of = |file: &&'f Path| imports.keys().copied().filter(|other| both_ways(file, other)).collect::<BTreeSet<_>>();
    imports.keys().map(of).filter(|files| !files.is_empty()).collect()
}

fn reached_from<'f>(start: &'f Path, imports: &BTreeMap<&'f Path, BTreeSet<&'f Path>>) -> BTreeSet<&'f Path> {
    let (mut found, mut open) = (BTreeSet::new(), vec![start]);
    while let Some(file) = open.pop() {
        let next = imports.get(file).into_iter().flatten();
        open.extend(next.copied().filter(|file| found.insert(*file)));
    }
    found
}
