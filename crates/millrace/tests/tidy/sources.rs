//! Source files: their length, marks of unfinished work, what layer 0 may touch, and how tests
//! report that they did not run.

use std::path::{Path, PathBuf};

use crate::architecture::row_of;
use crate::tree::{code_lines, crate_of, read, report, root, rust_files, shown, source_files};

/// Maximum number of lines of a source file. STYLE.md asks for 250, and review begins at 500.
const FILE_LINES_MAX: usize = 800;

/// The reasons that an ignored test may name: when it runs instead (`make nightly`, `make claims`),
/// or that it is a process of another test.
const IGNORED_FOR: [&str; 3] = ["nightly: ", "claims: ", "worker: "];

#[test]
fn layer_0_touches_no_socket_file_clock_or_thread_but_for_the_tables_of_the_host() {
    let words = ["std::net", "std::fs", "std::thread", "std::os", "Instant::now", "SystemTime::now", "std::process", "std::env"];
    let mut faults = Vec::new();
    for file in rust_files() {
        let Some((name, inside)) = crate_of(&file) else { continue };
        if row_of(&name).and_then(|row| row.layer) != Some(0) || name == "host" || !inside.starts_with("src") {
            continue;
        }
        let text = read(&file);
        let shipped = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (number, line) in code_lines(shipped) {
            if words.iter().any(|word| line.contains(word)) {
                faults.push(format!("{}:{number}: {}", shown(&file), line.trim()));
            }
        }
    }
    report("layer 0 touching the outside", &faults);
}

#[test]
fn structures_of_nfs_version_3_stay_where_it_is_spoken() {
    let outside = |file: &Path| {
        let is_in = |folder: &str| file.starts_with(root().join("crates").join(folder));
        is_in("filer/src/operations") || is_in("dnfs/src") && !is_in("dnfs/src/nfs3")
    };
    let mut faults = Vec::new();
    for file in rust_files().iter().filter(|file| outside(file)) {
        let text = read(file);
        let uses = code_lines(&text).filter(|(_, line)| line.contains("nfs_proto::nfs3"));
        faults.extend(uses.map(|(number, line)| format!("{}:{number}: {}", shown(file), line.trim())));
    }
    report("uses of nfs_proto::nfs3 outside the client's nfs3/ and the filer's handlers", &faults);
}

#[test]
fn the_rpc_engine_of_the_client_knows_no_file_protocol() {
    let engine = root().join("crates/dnfs/src/rpc");
    let mut faults = Vec::new();
    for file in rust_files().iter().filter(|file| file.starts_with(&engine)) {
        let text = read(file);
        // The name of a procedure is displayed in events, which are public.
        let uses = code_lines(&text).filter(|(_, line)| line.contains("::nfs3") && !line.contains("procedures::ProcedureName"));
        faults.extend(uses.map(|(number, line)| format!("{}:{number}: {}", shown(file), line.trim())));
    }
    report("uses of nfs3 in dnfs/src/rpc", &faults);
}

#[test]
fn mounts_of_the_client_know_no_version_of_the_protocol() {
    let mounts = root().join("crates/dnfs/src");
    let mut faults = Vec::new();
    for file in rust_files().iter().filter(|file| file.starts_with(mounts.join("mount")) || **file == mounts.join("mount.rs")) {
        let text = read(file);
        let shipped = text.split("#[cfg(test)]").next().unwrap_or_default();
        let uses = code_lines(shipped).filter(|(_, line)| line.contains("nfs3::"));
        faults.extend(uses.map(|(number, line)| format!("{}:{number}: {}", shown(file), line.trim())));
    }
    report("uses of nfs3 in dnfs/src/mount", &faults);
}

#[test]
fn no_source_file_is_longer_than_its_limit() {
    let mut faults = Vec::new();
    for file in source_files(&["rs", "c", "sh", "py", "toml"]) {
        let lines = read(&file).lines().count();
        let is_catalogue = file.starts_with(root().join("rules"));
        if lines > FILE_LINES_MAX && !is_catalogue {
            faults.push(format!("{}: {lines} lines", shown(&file)));
        }
    }
    report("files to split by job", &faults);
}

#[test]
fn a_module_with_children_is_a_file_beside_its_folder() {
    let is_old = |file: &&PathBuf| file.ends_with("mod.rs") && file.components().any(|part| part.as_os_str() == "src");
    let faults: Vec<String> = rust_files().iter().filter(is_old).map(|file| shown(file)).collect();
    report("modules to name foo.rs instead of foo/mod.rs", &faults);
}

#[test]
fn nothing_in_the_tree_is_marked_unfinished() {
    // The marks are put together here, so that the test does not find them in this file.
    let marks =
        [concat!("to", "do!("), concat!("unimple", "mented!("), concat!("FIX", "ME"), concat!("X", "XX"), concat!("d", "bg!(")];
    let mut faults = Vec::new();
    for file in source_files(&["rs", "c", "sh", "md"]) {
        for (number, line) in read(&file).lines().enumerate() {
            if marks.iter().any(|mark| has_mark(line, mark)) {
                faults.push(format!("{}:{}: {}", shown(&file), number + 1, line.trim()));
            }
        }
    }
    report("unfinished marks", &faults);
}

#[test]
fn an_ignored_test_says_when_it_runs_instead() {
    let ignored = concat!("#[ig", "nore");
    let allowed = IGNORED_FOR.map(|why| format!("{ignored} = \"{why}"));
    let mut faults = Vec::new();
    for file in rust_files() {
        for (number, line) in code_lines(&read(&file)) {
            if line.contains(ignored) && !allowed.iter().any(|form| line.contains(form)) {
                faults.push(format!("{}:{number}: {}", shown(&file), line.trim()));
            }
        }
    }
    report("ignored tests without a reason of the form \"nightly: …\", \"claims: …\" or \"worker: …\"", &faults);
}

#[test]
fn a_test_that_does_not_run_says_so_by_the_one_helper() {
    let mark = concat!("SK", "IP:");
    let mut faults = Vec::new();
    for file in rust_files() {
        if crate_of(&file).is_some_and(|(name, _)| name == "sim") {
            continue;
        }
        for (number, line) in code_lines(&read(&file)) {
            if line.contains(mark) {
                faults.push(format!("{}:{number}: {}", shown(&file), line.trim()));
            }
        }
    }
    report("tests that print the mark themselves: use sim::skip or sim::skip_unsupported", &faults);
}

/// Whether `mark` occurs alone. Templates for `mktemp` contain one of the marks several times in a row.
fn has_mark(line: &str, mark: &str) -> bool {
    line.match_indices(mark).any(|(at, _)| {
        let repeats = mark.chars().next().unwrap_or_default();
        !line[..at].ends_with(repeats) && !line[at + mark.len()..].starts_with(repeats)
    })
}
