//! Reads folders and files into texts and tables.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Problem, RuleError};
use crate::limits::{RULE_FILE_BYTES_MAX, RULE_FILES_MAX, RULE_FOLDERS_DEEP_MAX};
use crate::reference::{Catalogue, NotTestableFile, ReferenceFile};
use crate::rule::RuleFile;
use crate::toml_error::in_one_line;

/// The version of the formats.
const SCHEMA: u32 = 1;

/// The content of a file, by its name below the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Catalogue,
    Reference,
    NotTestable,
    Rules,
}

pub(super) fn place(file: &str) -> Place {
    match file.strip_prefix("rules/").unwrap_or(file) {
        "catalogue.toml" => Place::Catalogue,
        name if name.starts_with("reference/") => Place::Reference,
        name if name.starts_with("not-testable/") => Place::NotTestable,
        _ => Place::Rules,
    }
}

/// All `*.toml` files below a folder, by name, with their texts.
pub(super) fn folder(path: &Path) -> Result<Vec<(String, String)>, RuleError> {
    let mut files = Vec::new();
    let mut folders = vec![(path.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|source| unreadable(&folder, source))?;
        for entry in entries {
            let entry = entry.map_err(|source| unreadable(&folder, source))?.path();
            if entry.is_dir() {
                if depth >= RULE_FOLDERS_DEEP_MAX {
                    let what = format!("directories more than {RULE_FOLDERS_DEEP_MAX} levels deep");
                    return Err(RuleError::TooMuch { path: entry.display().to_string(), what });
                }
                folders.push((entry, depth + 1));
            } else if entry.extension().is_some_and(|extension| extension == "toml") {
                if files.len() >= RULE_FILES_MAX {
                    let what = format!("more than {RULE_FILES_MAX} files");
                    return Err(RuleError::TooMuch { path: path.display().to_string(), what });
                }
                files.push(entry);
            }
        }
    }
    files.sort();
    files.into_iter().map(|file| Ok((name_below(path, &file), text(&file)?))).collect()
}

fn name_below(folder: &Path, file: &Path) -> String {
    let parts = file.strip_prefix(folder).unwrap_or(file).components();
    parts.map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}

fn text(file: &Path) -> Result<String, RuleError> {
    let mut text = String::new();
    let opened = fs::File::open(file).map_err(|source| unreadable(file, source))?;
    let read = opened.take(RULE_FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(|source| unreadable(file, source))?;
    if u64::try_from(read).unwrap_or(u64::MAX) > RULE_FILE_BYTES_MAX {
        let what = format!("more than {RULE_FILE_BYTES_MAX} bytes");
        return Err(RuleError::TooMuch { path: file.display().to_string(), what });
    }
    Ok(text)
}

fn unreadable(path: &Path, source: std::io::Error) -> RuleError {
    RuleError::Read { path: path.display().to_string(), source }
}

/// Parses a file. Unknown keys are refused, and the error names the rule that contains them.
pub(super) fn file<T: Versioned>(file: &str, text: &str) -> Result<T, Problem> {
    let other = |schema: u32| Problem {
        file: file.to_owned(),
        rule: None,
        what: format!("schema {schema} is not {SCHEMA}, the one known here"),
    };
    match toml::from_str::<T>(text) {
        Ok(read) if read.schema() == SCHEMA => Ok(read),
        Ok(read) => Err(other(read.schema())),
        // A later format may have keys that this program does not know. Then the error names the
        // version.
        Err(error) => Err(match toml::from_str::<Version>(text) {
            Ok(version) if version.schema != SCHEMA => other(version.schema),
            _ => told(file, text, &error),
        }),
    }
}

/// A file that contains the version of its format.
pub(super) trait Versioned: DeserializeOwned {
    fn schema(&self) -> u32;
}

impl Versioned for RuleFile {
    fn schema(&self) -> u32 {
        self.schema
    }
}

impl Versioned for Catalogue {
    fn schema(&self) -> u32 {
        self.schema
    }
}

impl Versioned for ReferenceFile {
    fn schema(&self) -> u32 {
        self.schema
    }
}

impl Versioned for NotTestableFile {
    fn schema(&self) -> u32 {
        self.schema
    }
}

#[derive(Deserialize)]
struct Version {
    schema: u32,
}

fn told(file: &str, text: &str, error: &toml::de::Error) -> Problem {
    let before = error.span().and_then(|span| text.get(..span.start));
    let rule = before.and_then(|before| rule_at(text, before.len()));
    Problem { file: file.to_owned(), rule, what: in_one_line(text, error) }
}

/// The ID of the rule whose table contains a place in the text.
fn rule_at(text: &str, at: usize) -> Option<String> {
    // The place of an error in a complete table is the table's head.
    let head_end = text.get(at..)?.find('\n').map_or(text.len(), |end| at + end);
    let start = text.get(..head_end)?.rfind("[[rule]]")?;
    let table = text.get(start + "[[rule]]".len()..)?;
    let table = table.split("[[rule]]").next()?;
    let line = table.lines().find_map(|line| line.trim_start().strip_prefix("id")?.trim_start().strip_prefix('='))?;
    Some(line.trim().trim_matches(['"', '\'']).to_owned())
}
