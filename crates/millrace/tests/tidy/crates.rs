//! Dependencies between crates, and on third-party crates.

use std::collections::BTreeSet;

use crate::architecture::{kept_apart, row_of, rows};
use crate::tree::{crates, read, report, root};

/// The binary contains the end-to-end tests, which may use every crate.
const BINARY: &str = "millrace";

#[test]
fn crates_depend_on_each_other_as_architecture_says() {
    let crates = crates();
    let ours: BTreeSet<&str> = crates.iter().map(|found| found.name.as_str()).collect();
    let mut faults = Vec::new();
    for found in &crates {
        let Some(row) = row_of(&found.name) else { continue }; // another test reports that
        for dependency in found.dependencies.iter().filter(|one| ours.contains(one.name.as_str())) {
            let for_tests = dependency.kind == "dev";
            let only_tests = row_of(&dependency.name).is_some_and(|row| row.layer.is_none());
            let said = row.depends_on.contains(&dependency.name);
            if !said && !(for_tests && (only_tests || found.name == BINARY || dependency.name == found.name)) {
                faults.push(format!("{} -> {} ({}) is not in the table", found.name, dependency.name, dependency.kind));
            }
        }
    }
    report("dependencies between crates that ARCHITECTURE.md does not have", &faults);
}

#[test]
fn each_dependency_of_the_table_is_used() {
    let crates = crates();
    let mut faults = Vec::new();
    for row in rows() {
        let Some(found) = crates.iter().find(|found| found.name == row.name) else { continue };
        for name in &row.depends_on {
            let built = crates.iter().any(|other| other.name == *name);
            if built && !found.dependencies.iter().any(|one| one.name == *name && one.kind == "normal") {
                faults.push(format!("{} -> {name}", row.name));
            }
        }
    }
    report("dependencies that ARCHITECTURE.md has and no Cargo.toml", &faults);
}

#[test]
fn third_party_crates_stay_in_the_crates_that_may_use_them() {
    let mut faults = Vec::new();
    for (name, users) in kept_apart() {
        for found in crates() {
            if !users.contains(&found.name) && found.dependencies.iter().any(|one| one.name == name && one.kind == "normal") {
                faults.push(format!("{} -> {name}", found.name));
            }
        }
    }
    report("third-party crates where ARCHITECTURE.md does not allow them", &faults);
}

#[test]
fn each_third_party_crate_has_its_reason_written_down() {
    let page = read(&root().join("docs/dependencies.md"));
    let crates = crates();
    let ours: BTreeSet<&str> = crates.iter().map(|found| found.name.as_str()).collect();
    let used: BTreeSet<&str> = crates.iter().flat_map(|found| &found.dependencies).map(|one| one.name.as_str()).collect();
    let missing: Vec<String> = used
        .into_iter()
        .filter(|name| !ours.contains(name) && !page.contains(&format!("| `{name}` |")))
        .map(str::to_owned)
        .collect();
    report("crates without a row in docs/dependencies.md", &missing);
}

#[test]
fn each_crate_inherits_the_lints_of_the_workspace() {
    let without = |folder: &std::path::Path| !read(&folder.join("Cargo.toml")).contains("[lints]\nworkspace = true");
    let faults: Vec<String> = crates().iter().filter(|found| without(&found.folder)).map(|found| found.name.clone()).collect();
    report("manifests without [lints] workspace = true", &faults);
}
