//! The text of each file before and after its changes.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::diff::unified;
use super::edit::Edit;
use super::planned::Change;
use super::root::Root;
use super::target::Part;

/// The text of a file before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileChange {
    /// The file as users name it.
    pub path: String,
    /// The real file, with links followed.
    pub real: String,
    /// The unified difference. It names the real file, because patch(1) refuses to change a link.
    pub diff: String,
    /// The rules that change the file.
    pub rules: Vec<String>,
    #[serde(skip)]
    pub(super) before: Option<String>,
    #[serde(skip)]
    pub(super) after: String,
}

/// The files that the changes edit, before and after. `seen` has, by real path, the contents that
/// earlier groups leave.
pub(super) fn files_of(changes: &[Change], root: &Root, seen: &mut BTreeMap<String, String>) -> (Vec<FileChange>, Vec<Fault>) {
    let mut files: Vec<FileChange> = Vec::new();
    let mut faults = Vec::new();
    for change in changes {
        for (path, edit) in change.parts.iter().filter_map(file_part) {
            if let Err(reason) = fold(&mut files, path, edit, &change.rule, root, seen) {
                faults.push(Fault { rule: change.rule.clone(), path: path.clone(), reason });
            }
        }
    }
    let files = with_diffs(files);
    seen.extend(files.iter().map(|file| (file.real.clone(), file.after.clone())));
    (files, faults)
}

/// The same changes with one entry, and so one difference, for each file. `files` are the files of
/// each group, in order.
pub(super) fn combined<'a>(files: impl Iterator<Item = &'a FileChange>) -> Vec<FileChange> {
    let mut all: Vec<FileChange> = Vec::new();
    for file in files {
        match all.iter_mut().find(|one| one.real == file.real) {
            Some(one) => {
                one.after.clone_from(&file.after);
                one.rules.extend(file.rules.iter().filter(|rule| !one.rules.contains(rule)).cloned().collect::<Vec<_>>());
            }
            None => all.push(file.clone()),
        }
    }
    with_diffs(all)
}

/// The files that differ, each with its difference.
fn with_diffs(mut files: Vec<FileChange>) -> Vec<FileChange> {
    files.retain(|file| file.before.as_ref() != Some(&file.after));
    for file in &mut files {
        file.diff = unified(&file.real, file.before.as_deref(), Some(&file.after));
    }
    files
}

/// An edit that the contents of its file do not allow.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) rule: String,
    pub(super) path: String,
    pub(super) reason: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.rule, self.path, self.reason)
    }
}

fn file_part(part: &Part) -> Option<(&String, &Edit)> {
    match part {
        Part::File { path, edit } => Some((path, edit)),
        _ => None,
    }
}

fn fold(
    files: &mut Vec<FileChange>,
    path: &str,
    edit: &Edit,
    rule: &str,
    root: &Root,
    seen: &BTreeMap<String, String>,
) -> Result<(), String> {
    let real = root.resolve(path).map_err(|error| error.to_string())?;
    if let Some(file) = files.iter_mut().find(|file| file.real == real) {
        file.after = edit.made(Some(&file.after))?;
        if !file.rules.iter().any(|one| one == rule) {
            file.rules.push(rule.to_owned());
        }
        return Ok(());
    }
    let before = match seen.get(&real) {
        Some(text) => Some(text.clone()),
        None => root.read_text(&real).map_err(|error| error.to_string())?,
    };
    let after = edit.made(before.as_deref())?;
    let rules = vec![rule.to_owned()];
    files.push(FileChange { path: path.to_owned(), real, diff: String::new(), rules, before, after });
    Ok(())
}
