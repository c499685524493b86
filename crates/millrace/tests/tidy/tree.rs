//! The tree: its crates according to `cargo metadata`, its files, and the report of faults.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// One crate of the workspace.
pub(crate) struct Crate {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
}

pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `normal`, `build` or `dev`.
    pub(crate) kind: String,
}

/// The crates of the workspace.
pub(crate) fn crates() -> Vec<Crate> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let crates: Vec<Crate> = metadata["packages"].as_array().unwrap().iter().map(crate_from).collect();
    assert!(crates.len() >= 10, "cargo metadata names only {} crates", crates.len());
    crates
}

fn crate_from(package: &Value) -> Crate {
    let manifest = Path::new(package["manifest_path"].as_str().unwrap());
    let dependency = |dependency: &Value| Dependency {
        name: dependency["name"].as_str().unwrap().to_owned(),
        kind: dependency["kind"].as_str().unwrap_or("normal").to_owned(),
    };
    Crate {
        name: package["name"].as_str().unwrap().to_owned(),
        folder: manifest.parent().unwrap().to_owned(),
        dependencies: package["dependencies"].as_array().unwrap().iter().map(dependency).collect(),
    }
}

/// The crate to which a file belongs, and the path inside that crate.
pub(crate) fn crate_of(file: &Path) -> Option<(String, PathBuf)> {
    let inside = file.strip_prefix(root().join("crates")).ok()?;
    let name = inside.components().next()?.as_os_str().to_str()?.to_owned();
    let rest = inside.strip_prefix(&name).ok()?.to_owned();
    Some((name, rest))
}

/// All Rust files except those of this test, which quote what they search for.
pub(crate) fn rust_files() -> Vec<PathBuf> {
    let this = root().join("crates/millrace/tests/tidy");
    source_files(&["rs"]).into_iter().filter(|file| !file.starts_with(&this)).collect()
}

/// Files with one of these extensions. A file without an extension counts as a shell script.
pub(crate) fn source_files(extensions: &[&str]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for top in ["crates", "fuzz", "bench", "compat", "scripts", "rules", "plans", "docs"] {
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
        // Folders that machines build or fill. .gitignore has the same list.
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

/// Lines that are not comments, with their numbers from 1.
pub(crate) fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")).map(|(index, line)| (index + 1, line))
}

/// The folder of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

pub(crate) fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("cannot read {}: {error}", file.display()))
}

pub(crate) fn shown(file: &Path) -> String {
    file.strip_prefix(root()).unwrap_or(file).display().to_string()
}

/// Panics with all faults, one on a line.
pub(crate) fn report(what: &str, faults: &[String]) {
    assert!(faults.is_empty(), "{what}:\n  {}", faults.join("\n  "));
}
