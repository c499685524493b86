//! Keeps the house as ARCHITECTURE.md draws it: arrows between rooms, where unsafe code may stand, file
//! sizes, unfinished marks, and that the front pages name what is really in the tree.
#![expect(clippy::unwrap_used, reason = "a test of the tree fails by panicking; the message names the file")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Lines a source file may have; ARCHITECTURE.md asks for 250, review begins at 500.
const FILE_LINES_MAX: usize = 800;

/// A process that a test starts of itself is written as a test that nobody else runs.
const WORKER: &str = concat!("#[ig", "nore = \"a worker of another test\"]");

/// Every room with the rooms it may depend on. Rooms that are not built yet are listed, so that the first
/// line of code in one finds its place drawn.
const ARROWS: &[(&str, &[&str])] = &[
    ("nfs-proto", &[]),
    ("rpc-tls", &[]),
    ("iscsi-proto", &[]),
    ("results", &[]),
    ("media", &[]),
    ("volume", &["media", "results"]),
    ("dnfs", &["nfs-proto", "rpc-tls", "results"]),
    ("initiator", &["iscsi-proto", "results"]),
    ("preload", &["dnfs", "media"]),
    ("filer", &["nfs-proto", "rpc-tls", "iscsi-proto", "volume", "results"]),
    ("orders", &["results"]),
    ("tune", &["results"]),
    ("lab", &["results", "media", "tune", "orders", "dnfs", "initiator"]),
    (
        "millrace",
        &[
            "nfs-proto",
            "rpc-tls",
            "iscsi-proto",
            "results",
            "media",
            "volume",
            "dnfs",
            "initiator",
            "filer",
            "orders",
            "tune",
            "lab",
        ],
    ),
    ("sim", &[]),
];

/// Bytes and records: no sockets, files, clocks or threads.
const FLOOR_0: &[&str] = &["nfs-proto", "rpc-tls", "iscsi-proto", "results", "media"];

/// Rooms with exactly one `sys` module that may hold unsafe code; their tests, and the `sys` module of a bench, may as well.
const ROOMS_WITH_SYS: &[&str] = &["dnfs", "initiator", "volume", "filer", "lab"];

/// The quarantine: a library loaded into foreign processes is unsafe code by nature.
const QUARANTINE: &str = "preload";

/// Borrowed crates that only some rooms may see.
const KEPT_APART: &[(&str, &[&str])] = &[
    ("tokio", &["orders", "lab", "millrace", "filer"]),
    ("tokio-postgres", &["orders", "lab", "millrace"]),
    ("anyhow", &["millrace"]),
    ("clap", &["millrace"]),
];

#[test]
fn arrows_between_rooms_point_down_as_drawn() {
    let rooms = rooms();
    let names: BTreeSet<&str> = rooms.iter().map(|room| room.name.as_str()).collect();
    let mut faults = Vec::new();
    for room in &rooms {
        let Some(allowed) = arrows_of(&room.name) else {
            faults.push(format!("room {} is not drawn in ARROWS", room.name));
            continue;
        };
        for dependency in &room.dependencies {
            if !names.contains(dependency.name.as_str()) || dependency.name == room.name {
                continue;
            }
            let tests_only = dependency.kind == "dev";
            let drawn = allowed.contains(&dependency.name.as_str())
                || (tests_only && (dependency.name == "sim" || room.name == "millrace"));
            if !drawn {
                let kind = &dependency.kind;
                faults.push(format!("{} -> {} ({kind})", room.name, dependency.name));
            }
        }
    }
    report("arrows that nobody drew", &faults);
}

#[test]
fn the_drawn_arrows_themselves_never_form_a_circle() {
    let mut below: BTreeSet<&str> = BTreeSet::new();
    let mut left: Vec<_> = ARROWS.to_vec();
    while !left.is_empty() {
        let before = left.len();
        left.retain(|(room, needs)| {
            let ready = needs.iter().all(|need| below.contains(need));
            if ready {
                below.insert(room);
            }
            !ready
        });
        assert!(left.len() < before, "a circle, or a room without a row, among {left:?}");
    }
}

#[test]
fn borrowed_crates_stay_in_the_rooms_that_may_see_them() {
    let mut faults = Vec::new();
    for room in rooms() {
        for dependency in room.dependencies.iter().filter(|d| d.kind == "normal") {
            for (kept, may_see) in KEPT_APART {
                if dependency.name == *kept && !may_see.contains(&room.name.as_str()) {
                    faults.push(format!("{} -> {kept}", room.name));
                }
            }
        }
    }
    report("borrowed crates where they may not be", &faults);
}

#[test]
fn each_borrowed_crate_has_its_reason_written_down() {
    let page = read(&root().join("docs/dependencies.md"));
    let ours: BTreeSet<String> = rooms().into_iter().map(|room| room.name).collect();
    let mut borrowed: BTreeSet<String> = BTreeSet::new();
    for room in rooms() {
        borrowed.extend(room.dependencies.into_iter().map(|d| d.name));
    }
    let missing: Vec<String> =
        borrowed.into_iter().filter(|name| !ours.contains(name) && !page.contains(&format!("| `{name}` |"))).collect();
    report("crates without a line in docs/dependencies.md", &missing);
}

#[test]
fn every_room_inherits_the_workspace_lints() {
    let mut faults = Vec::new();
    for room in rooms() {
        let manifest = read(&room.folder.join("Cargo.toml"));
        if !manifest.contains("[lints]\nworkspace = true") {
            faults.push(format!("{}/Cargo.toml", room.name));
        }
    }
    report("manifests without [lints] workspace = true", &faults);
}

#[test]
fn every_room_forbids_or_denies_unsafe_code_as_drawn() {
    let mut faults = Vec::new();
    for room in rooms() {
        if room.name == QUARANTINE {
            continue;
        }
        let level =
            if ROOMS_WITH_SYS.contains(&room.name.as_str()) { "#![deny(unsafe_code)]" } else { "#![forbid(unsafe_code)]" };
        let roots = ["lib.rs", "main.rs"].map(|file| room.folder.join("src").join(file)).into_iter().filter(|file| file.exists());
        for file in roots {
            // A room with a sys module that has not needed it yet may still forbid.
            let text = read(&file);
            if !text.contains(level) && !text.contains("#![forbid(unsafe_code)]") {
                faults.push(format!("{}: {level} is missing", shown(&file)));
            }
        }
    }
    report("crate roots that leave unsafe code open", &faults);
}

#[test]
fn unsafe_code_stands_only_in_the_quarantine_and_in_sys_modules() {
    let mut faults = Vec::new();
    for file in rust_files() {
        if may_hold_unsafe(&file) {
            continue;
        }
        for (number, line) in code_lines(&read(&file)) {
            let unsafe_item = ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "#[unsafe("];
            let opened = line.contains("(unsafe_code)") && !line.starts_with("#![") && !is_sys_door(&file, &line);
            if opened || unsafe_item.iter().any(|item| line.contains(item)) {
                faults.push(format!("{}:{number}: {}", shown(&file), line.trim()));
            }
        }
    }
    report("unsafe code outside its rooms", &faults);
}

#[test]
fn floor_0_touches_no_socket_file_clock_or_thread() {
    let words = ["std::net", "std::fs", "std::thread", "std::os", "Instant::now", "SystemTime::now", "std::process", "std::env"];
    let mut faults = Vec::new();
    for file in rust_files() {
        let Some((room, inside)) = room_of(&file) else { continue };
        if !FLOOR_0.contains(&room.as_str()) || !inside.starts_with("src") {
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
    report("floor 0 touching the outside", &faults);
}

#[test]
fn no_source_file_is_longer_than_its_limit() {
    let mut faults = Vec::new();
    for file in source_files(&["rs", "c", "sh", "toml"]) {
        let lines = read(&file).lines().count();
        let is_table = file.starts_with(root().join("rules"));
        if lines > FILE_LINES_MAX && !is_table {
            faults.push(format!("{}: {lines} lines", shown(&file)));
        }
    }
    report("files to split by job", &faults);
}

#[test]
fn nothing_in_the_tree_is_marked_unfinished() {
    // Put together here, so that this file does not find itself.
    let marks = [
        concat!("to", "do!("),
        concat!("unimple", "mented!("),
        concat!("FIX", "ME"),
        concat!("X", "XX"),
        concat!("#[ig", "nore"),
        concat!("d", "bg!("),
    ];
    let mut faults = Vec::new();
    for file in source_files(&["rs", "c", "sh", "md"]) {
        for (number, line) in read(&file).lines().enumerate() {
            if marks.iter().any(|mark| has_mark(line, mark)) && !line.contains(WORKER) {
                faults.push(format!("{}:{}: {}", shown(&file), number + 1, line.trim()));
            }
        }
    }
    report("unfinished marks", &faults);
}

#[test]
fn readme_and_architecture_name_every_room() {
    let readme = read(&root().join("README.md"));
    let architecture = read(&root().join("ARCHITECTURE.md"));
    let built: BTreeSet<String> = rooms().into_iter().map(|room| room.name).collect();
    let mut faults = Vec::new();
    for name in &built {
        let row = format!("| `{name}` |");
        if !readme.contains(&row) {
            faults.push(format!("README.md has no row {row}"));
        }
    }
    for (name, _) in ARROWS {
        let Some(row) = architecture.lines().find(|l| l.starts_with(&format!("| `{name}` |"))) else {
            faults.push(format!("ARCHITECTURE.md has no row | `{name}` |"));
            continue;
        };
        let said_unbuilt = row.contains("not built yet");
        if said_unbuilt == built.contains(*name) {
            faults.push(format!("ARCHITECTURE.md is wrong about whether {name} is built"));
        }
    }
    for row in readme.lines().filter_map(|line| line.strip_prefix("| `")) {
        let name = row.split('`').next().unwrap_or_default();
        if arrows_of(name).is_some() && !built.contains(name) {
            faults.push(format!("README.md lists {name}, which is not in crates/"));
        }
    }
    report("front pages that do not match crates/", &faults);
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
    let page = root().join("docs/compat-nfs3.md");
    if !page.exists() {
        return;
    }
    let procedures = [
        "NULL",
        "GETATTR",
        "SETATTR",
        "LOOKUP",
        "ACCESS",
        "READLINK",
        "READ",
        "WRITE",
        "CREATE",
        "MKDIR",
        "SYMLINK",
        "MKNOD",
        "REMOVE",
        "RMDIR",
        "RENAME",
        "LINK",
        "READDIR",
        "READDIRPLUS",
        "FSSTAT",
        "FSINFO",
        "PATHCONF",
        "COMMIT",
    ];
    let text = read(&page);
    let missing: Vec<String> =
        procedures.iter().filter(|name| !text.lines().any(|line| has_cell(line, name))).map(|name| (*name).to_owned()).collect();
    report("procedures without a row in docs/compat-nfs3.md", &missing);
}

#[test]
fn the_preload_support_table_has_every_symbol_the_library_takes_over() {
    let page = root().join("docs/compat-preload.md");
    if !page.exists() {
        return;
    }
    let text = read(&page);
    let (mut found, mut missing) = (0, Vec::new());
    for file in rust_files() {
        let Some((room, _)) = room_of(&file) else { continue };
        if room != QUARANTINE {
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
    report("symbols without a row in docs/compat-preload.md", &missing);
}

/// One crate of the workspace as `cargo metadata` tells it.
struct Room {
    name: String,
    folder: PathBuf,
    dependencies: Vec<Dependency>,
}

struct Dependency {
    name: String,
    /// `normal`, `build` or `dev`.
    kind: String,
}

fn rooms() -> Vec<Room> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let rooms: Vec<Room> = packages.iter().map(room).collect();
    assert!(rooms.len() >= 10, "cargo metadata names only {} rooms", rooms.len());
    rooms
}

fn room(package: &Value) -> Room {
    let manifest = Path::new(package["manifest_path"].as_str().unwrap());
    let dependencies = package["dependencies"].as_array().unwrap();
    Room {
        name: package["name"].as_str().unwrap().to_owned(),
        folder: manifest.parent().unwrap().to_owned(),
        dependencies: dependencies
            .iter()
            .map(|dependency| Dependency {
                name: dependency["name"].as_str().unwrap().to_owned(),
                kind: dependency["kind"].as_str().unwrap_or("normal").to_owned(),
            })
            .collect(),
    }
}

fn arrows_of(room: &str) -> Option<&'static [&'static str]> {
    let arrows: BTreeMap<_, _> = ARROWS.iter().copied().collect();
    arrows.get(room).copied()
}

fn may_hold_unsafe(file: &Path) -> bool {
    let Some((room, inside)) = room_of(file) else {
        return false;
    };
    room == QUARANTINE
        || (ROOMS_WITH_SYS.contains(&room.as_str())
            && (["src/sys.rs", "src/sys", "tests"].iter().any(|place| inside.starts_with(place))
                || (inside.starts_with("benches") && inside.ends_with("sys.rs"))))
}

/// The one place outside `sys` where the lint may be opened: above `mod sys` in the crate root.
fn is_sys_door(file: &Path, line: &str) -> bool {
    let Some((room, inside)) = room_of(file) else {
        return false;
    };
    let text = read(file);
    let door = text.split(line.trim()).nth(1).unwrap_or_default();
    let door = door.trim_start().trim_start_matches("pub ").trim_start_matches("pub(crate) ");
    ROOMS_WITH_SYS.contains(&room.as_str()) && inside == Path::new("src/lib.rs") && door.starts_with("mod sys")
}

/// The libc names a file of preload takes over: in `hooks! { … }` each function one step in, elsewhere by attribute.
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

/// Whether `mark` stands by itself: `mktemp` templates hold one of the marks several times over.
fn has_mark(line: &str, mark: &str) -> bool {
    line.match_indices(mark).any(|(at, _)| {
        let repeats = mark.chars().next().unwrap_or_default();
        !line[..at].ends_with(repeats) && !line[at + mark.len()..].starts_with(repeats)
    })
}

fn has_cell(line: &str, word: &str) -> bool {
    line.starts_with('|') && line.split('|').any(|cell| cell.split(|c: char| !c.is_ascii_uppercase()).any(|part| part == word))
}

/// Lines that are not comments, with their numbers from 1.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, String)> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .map(|(index, line)| (index + 1, line.to_owned()))
        .collect::<Vec<_>>()
        .into_iter()
}

fn room_of(file: &Path) -> Option<(String, PathBuf)> {
    let inside = file.strip_prefix(root().join("crates")).ok()?;
    let room = inside.components().next()?.as_os_str().to_str()?.to_owned();
    let rest = inside.strip_prefix(&room).ok()?.to_owned();
    Some((room, rest))
}

fn rust_files() -> Vec<PathBuf> {
    // This file quotes what it looks for.
    let this = root().join("crates/millrace/tests/house.rs");
    source_files(&["rs"]).into_iter().filter(|file| *file != this).collect()
}

fn source_files(extensions: &[&str]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for top in ["crates", "fuzz", "bench", "scripts", "rules", "plans", "docs"] {
        walk(&root().join(top), &mut files);
    }
    for page in ["README.md", "ARCHITECTURE.md", "STYLE.md", "CHANGELOG.md"] {
        files.push(root().join(page));
    }
    files.retain(|file| {
        let extension = file.extension().and_then(|e| e.to_str()).unwrap_or("sh");
        extensions.contains(&extension)
    });
    assert!(!files.is_empty(), "no file found below {}", root().display());
    files
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        // Built or found by machines, not written by us: the same list as .gitignore.
        if ["target", "corpus", "artifacts", "seeds", "golden"].contains(&name) || name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            walk(&path, files);
        } else {
            files.push(path);
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("cannot read {}: {error}", file.display()))
}

fn shown(file: &Path) -> String {
    file.strip_prefix(root()).unwrap_or(file).display().to_string()
}

fn report(what: &str, faults: &[String]) {
    assert!(faults.is_empty(), "{what}:\n  {}", faults.join("\n  "));
}
