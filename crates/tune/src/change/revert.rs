//! Reverts what an apply did, even if the apply was interrupted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::apply::{chosen, same};
use super::disk::{FileMetadata, keep, put, remove_file, remove_folder, set_value, temporary_path, value};
use super::journal::{Entry, RecordedJournal, State};
use super::limits::FILE_BYTES_MAX;
use super::root::{Root, read_bounded};
use super::{ChangeError, Steps};

/// The result of a revert.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Reverted {
    /// The journal; `None` if there was no journal to revert.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal: Option<PathBuf>,
    /// Files whose old contents were restored.
    pub restored: Vec<String>,
    /// Files and folders that the apply had created and the revert removed.
    pub removed: Vec<String>,
    /// Running values that were set back.
    pub reset: Vec<String>,
    /// Number of files and values that already were as before the apply.
    pub untouched: usize,
    /// What could not be reverted, and why, for example a folder with other files in it or a value
    /// that the kernel refuses.
    pub left: Vec<String>,
    /// Where the contents are stored that another program or user had written and the revert
    /// replaced.
    pub kept: Vec<String>,
}

/// A file that the journal names, combined from all its entries.
#[derive(Debug, Default)]
struct RecordedFile {
    /// Contents and metadata before the first entry; `None` if the file did not exist.
    before: Option<(Vec<u8>, FileMetadata)>,
    /// Contents that the apply may have left.
    known: Vec<Vec<u8>>,
    first: u32,
}

/// A running value that the journal names.
#[derive(Debug, Default)]
struct RecordedValue {
    before: String,
    known: Vec<String>,
    first: u32,
    /// Whether it only changed along with another value.
    along: bool,
}

/// Reverts the newest journal that is not yet reverted. If another program or user changed a file
/// since, nothing is done and the error names the file. With `force` the newer contents are stored
/// in the journal's folder and the old ones are restored.
///
/// A revert may end at any point and can be called again. `root` is the tree that the caller means;
/// `None` means the journal's.
///
/// # Errors
/// A held lock, an invalid journal or one of another tree, changes of others, or an error of the
/// system.
pub fn revert(state: &State, root: Option<&Root>, force: bool, steps: &mut Steps) -> Result<Reverted, ChangeError> {
    if state.is_empty()? {
        return Ok(Reverted::default());
    }
    let _held = state.lock()?;
    let Some((journal, _, of)) = state.journals()?.pop() else { return Ok(Reverted::default()) };
    if let Some(root) = root {
        let asked = std::path::absolute(root.folder()).map_err(|error| ChangeError::io("find", root.folder(), error))?;
        if asked != of {
            return Err(ChangeError::OtherRoot { journal, root: of });
        }
    }
    let root = Root::new(of);
    let past = RecordedJournal::read(&journal)?;
    let (files, values) = (files(&past)?, values(&past));
    let changed_since = changed_since(&files, &values, &root)?;
    let mut reverted = Reverted { journal: Some(journal.clone()), ..Reverted::default() };
    if !changed_since.is_empty() && !force {
        return Err(ChangeError::ChangedSince { journal, paths: changed_since });
    }
    put_back_values(&values, &root, steps, &mut reverted)?;
    put_back_files(&files, &changed_since, &past, &root, steps, &mut reverted)?;
    remove_folders(&past, &root, steps, &mut reverted)?;
    past.close(steps)?;
    Ok(reverted)
}

fn files(past: &RecordedJournal) -> Result<BTreeMap<&str, RecordedFile>, ChangeError> {
    let mut files: BTreeMap<&str, RecordedFile> = BTreeMap::new();
    for entry in &past.entries {
        let Entry::File { number, path, metadata, .. } = entry else { continue };
        let after = past.contents(*number, "after")?;
        let before = match metadata {
            Some(metadata) => Some((past.contents(*number, "before")?, *metadata)),
            None => None,
        };
        let was = files.entry(path).or_insert_with(|| RecordedFile { before: before.clone(), known: Vec::new(), first: *number });
        was.known.extend(before.map(|(bytes, _)| bytes));
        was.known.push(after);
    }
    Ok(files)
}

fn values(past: &RecordedJournal) -> BTreeMap<&str, RecordedValue> {
    let mut values: BTreeMap<&str, RecordedValue> = BTreeMap::new();
    let mut paths: BTreeMap<u32, &str> = BTreeMap::new();
    for entry in &past.entries {
        match entry {
            Entry::Running { number, path, before, after, .. } => {
                paths.insert(*number, path);
                let fresh = || RecordedValue { before: before.clone(), first: *number, along: true, ..RecordedValue::default() };
                let ran = values.entry(path).or_insert_with(fresh);
                ran.known.push(before.clone());
                match after {
                    Some(after) => {
                        ran.known.push(after.clone());
                        ran.along = false;
                    }
                    // The other value of a pair reads as 0 as soon as one of them is set.
                    None => ran.known.push("0".to_owned()),
                }
            }
            Entry::Took { number, reads } => {
                if let Some(ran) = paths.get(number).and_then(|path| values.get_mut(path)) {
                    ran.known.push(reads.clone());
                }
            }
            _ => {}
        }
    }
    values
}

/// Files and values that are neither as before the apply nor as the apply left them.
fn changed_since(
    files: &BTreeMap<&str, RecordedFile>,
    values: &BTreeMap<&str, RecordedValue>,
    root: &Root,
) -> Result<Vec<String>, ChangeError> {
    let mut changed_since = Vec::new();
    for (path, was) in files {
        let known = match contents(root, path)? {
            None => was.before.is_none(),
            Some(now) => was.known.contains(&now),
        };
        if !known {
            changed_since.push((*path).to_owned());
        }
    }
    for (path, ran) in values {
        let Some(now) = value(&root.host(path))? else { continue };
        // The kernel takes a value completely and ends it with a newline. In a folder that replaces
        // `/`, a kill may leave a torn value.
        let torn = |known: &&String| !now.ends_with('\n') && known.starts_with(now.as_str());
        if !ran.known.iter().any(|known| same(known, &now) || torn(&known)) {
            changed_since.push((*path).to_owned());
        }
    }
    Ok(changed_since)
}

/// A file's bytes. A link or a folder in the file's place is an error.
fn contents(root: &Root, path: &str) -> Result<Option<Vec<u8>>, ChangeError> {
    let host = root.host(path);
    let real = root.resolve(path).map_err(|error| ChangeError::io("find", &host, error))?;
    if real != path {
        let error = std::io::Error::other(format!("a symbolic link now leads to {real}"));
        return Err(ChangeError::io("take back", host, error));
    }
    read_bounded(&host, FILE_BYTES_MAX).map_err(|error| ChangeError::io("read", &host, error))
}

/// Sets values back, newest first. Each value of a pair sets the other to 0, so the first round may
/// fail in part and a second round follows. A value that in the end reads as before was reverted.
fn put_back_values(
    values: &BTreeMap<&str, RecordedValue>,
    root: &Root,
    steps: &mut Steps,
    reverted: &mut Reverted,
) -> Result<(), ChangeError> {
    let mut order: Vec<(&&str, &RecordedValue)> = values.iter().collect();
    order.sort_by_key(|(_, ran)| std::cmp::Reverse(ran.first));
    let mut faults: BTreeMap<&str, String> = BTreeMap::new();
    let mut set: Vec<&str> = Vec::new();
    for _round in 0..2 {
        for (path, ran) in &order {
            let host = root.host(path);
            let Some(now) = value(&host)? else { continue };
            if now == ran.before {
                continue;
            }
            match set_back(&host, &ran.before, steps) {
                Ok(()) => set.push(path),
                Err(end @ ChangeError::Interrupted { .. }) => return Err(end),
                Err(error) => drop(faults.insert(path, chain(&error))),
            }
        }
    }
    for (path, ran) in order {
        let now = value(&root.host(path))?;
        match now {
            None => reverted.left.push(format!("{path}: it is not there any more")),
            Some(now) if !same(&now, &ran.before) => {
                let why = faults.get(*path).map_or_else(String::new, |fault| format!(" ({fault})"));
                reverted.left.push(format!("{path}: reads {} and was {}{why}", now.trim(), ran.before.trim()));
            }
            Some(_) if set.contains(path) => reverted.reset.push((*path).to_owned()),
            Some(_) => reverted.untouched += usize::from(!ran.along),
        }
    }
    Ok(())
}

/// Writes the value as it read before. A file with several choices accepts only the chosen word.
fn set_back(host: &Path, before: &str, steps: &mut Steps) -> Result<(), ChangeError> {
    match (set_value(host, before, steps), chosen(before)) {
        (Err(ChangeError::Io { .. }), Some(word)) => set_value(host, word, steps),
        (done, _) => done,
    }
}

fn put_back_files(
    files: &BTreeMap<&str, RecordedFile>,
    changed_since: &[String],
    past: &RecordedJournal,
    root: &Root,
    steps: &mut Steps,
    reverted: &mut Reverted,
) -> Result<(), ChangeError> {
    let mut order: Vec<(&&str, &RecordedFile)> = files.iter().collect();
    order.sort_by_key(|(_, was)| std::cmp::Reverse(was.first));
    for (path, was) in order {
        let host = root.host(path);
        // Removes the temporary file of an interrupted apply or revert.
        if temporary_path(&host).symlink_metadata().is_ok() {
            remove_file(&temporary_path(&host), steps)?;
        }
        let now = contents(root, path)?;
        if let Some(now) = now.as_ref().filter(|_| changed_since.iter().any(|one| one == *path)) {
            let kept = past.folder().join(format!("{:04}.theirs", was.first));
            keep(&kept, now, steps)?;
            reverted.kept.push(kept.display().to_string());
        }
        match &was.before {
            None if now.is_none() => reverted.untouched += 1,
            None => {
                remove_file(&host, steps)?;
                reverted.removed.push((*path).to_owned());
            }
            Some((bytes, metadata)) if now.as_ref() == Some(bytes) && FileMetadata::of(&host).is_ok_and(|is| is == *metadata) => {
                reverted.untouched += 1;
            }
            Some((bytes, metadata)) => {
                put(&host, bytes, Some(*metadata), steps)?;
                reverted.restored.push((*path).to_owned());
            }
        }
    }
    Ok(())
}

fn remove_folders(past: &RecordedJournal, root: &Root, steps: &mut Steps, reverted: &mut Reverted) -> Result<(), ChangeError> {
    for entry in past.entries.iter().rev() {
        let Entry::Folder { path } = entry else { continue };
        let host = root.host(path);
        if !host.exists() {
            continue;
        }
        if remove_folder(&host, steps)? {
            reverted.removed.push(path.clone());
        } else {
            reverted.left.push(format!("{path}: somebody has put something into the folder"));
        }
    }
    Ok(())
}

fn chain(error: &ChangeError) -> String {
    let cause = std::error::Error::source(error);
    cause.map_or_else(|| error.to_string(), ToString::to_string)
}
