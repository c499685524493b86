//! Finds records below directories. A file that is not a record is listed as left out; it is not an error.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use results::history::LeftOut;

use super::entry::Entry;
use crate::error::LabError;
use crate::limits::{HISTORY_DEPTH_MAX, HISTORY_ENTRIES_MAX};
use crate::report::RECORD;

/// Result of a search.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// Records, from the earliest to the latest.
    pub entries: Vec<Entry>,
    /// Files that are not records, and directories that were not searched.
    pub left_out: Vec<LeftOut>,
}

impl Found {
    /// Sorts records by time; a record that was found at two places is used once.
    pub(super) fn of(mut entries: Vec<Entry>, left_out: Vec<LeftOut>) -> Self {
        entries.sort_by(|a, b| (&a.started_utc, &a.record).cmp(&(&b.started_utc, &b.record)));
        entries.dedup_by(|later, first| {
            later.started_utc == first.started_utc && later.commit == first.commit && later.arms == first.arms
        });
        Self { entries, left_out }
    }
}

/// Reads every `results.json` in and below these directories, at any depth; an explicitly named file is read whatever its name.
/// Does not follow symbolic links to directories. Calls `progress` with the number of records read and their total.
///
/// # Errors
/// A directory or file does not exist or cannot be read.
pub fn find(places: &[PathBuf], progress: &mut dyn FnMut(usize, usize)) -> Result<Found, LabError> {
    let (files, left_out) = files(places, HISTORY_DEPTH_MAX)?;
    Ok(read(&files, left_out, progress))
}

/// The records beside a directory that will contain a new one: those in the neighbouring directories, not below them.
pub(super) fn siblings(directory: &Path) -> Result<Found, LabError> {
    if !directory.exists() {
        return Ok(Found::default());
    }
    // Deeper directories are ignored.
    let (files, _) = files(&[directory.to_owned()], 1)?;
    Ok(read(&files, Vec::new(), &mut |_, _| {}))
}

fn read(files: &BTreeSet<PathBuf>, mut left_out: Vec<LeftOut>, progress: &mut dyn FnMut(usize, usize)) -> Found {
    let mut entries = Vec::new();
    for (done, file) in files.iter().enumerate() {
        progress(done, files.len());
        match crate::record::read(file) {
            Ok(comparison) => entries.push(Entry::of(&comparison, file.display().to_string())),
            Err(error) => left_out.push(LeftOut { record: file.display().to_string(), reason: reason(&error, file) }),
        }
    }
    Found::of(entries, left_out)
}

/// Files to read, each once, sorted by name.
pub(super) fn files(places: &[PathBuf], depth_max: usize) -> Result<(BTreeSet<PathBuf>, Vec<LeftOut>), LabError> {
    let (mut files, mut left_out, mut seen) = (BTreeSet::new(), Vec::new(), 0);
    for place in places {
        let known = fs::metadata(place).map_err(LabError::file("look for records in", place))?;
        if known.is_file() {
            files.insert(place.clone());
            continue;
        }
        fs::read_dir(place).map_err(LabError::file("look for records in", place))?;
        walk(place, depth_max, &mut seen, &mut files, &mut left_out)?;
    }
    Ok((files, left_out))
}

fn walk(
    place: &Path,
    depth_max: usize,
    seen: &mut usize,
    files: &mut BTreeSet<PathBuf>,
    left_out: &mut Vec<LeftOut>,
) -> Result<(), LabError> {
    let mut waiting = vec![(place.to_owned(), 0)];
    while let Some((directory, depth)) = waiting.pop() {
        let mut leave_out = |place: &Path, reason: String| left_out.push(LeftOut { record: place.display().to_string(), reason });
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) => {
                leave_out(&directory, error.to_string());
                continue;
            }
        };
        for entry in entries.flatten() {
            *seen += 1;
            if *seen > HISTORY_ENTRIES_MAX {
                return Err(LabError::plan(
                    format!("look for records in {}: it has more than {HISTORY_ENTRIES_MAX} files", place.display()),
                    "name the directory that holds the records",
                ));
            }
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            match (is_directory, depth < depth_max) {
                (true, true) => waiting.push((entry.path(), depth + 1)),
                (true, false) => leave_out(&entry.path(), format!("it lies more than {depth_max} directories deep")),
                (false, _) if entry.file_name() == RECORD => {
                    files.insert(entry.path());
                }
                (false, _) => {}
            }
        }
    }
    Ok(())
}

/// Why a file is not a record, without repeating its name.
pub(super) fn reason(error: &LabError, file: &Path) -> String {
    let whole = match (error, std::error::Error::source(error)) {
        (LabError::File { .. }, Some(source)) => source.to_string(),
        _ => error.to_string(),
    };
    let shown = file.display().to_string();
    let without = whole.replace(&format!("read the record {shown}: "), "").replace(&format!("read {shown}: "), "");
    without.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::seeded;

    #[test]
    fn records_are_found_at_any_depth_and_what_is_none_is_named() {
        let place = tempfile::tempdir().unwrap();
        let write = |folder: &str, text: &str| {
            let folder = place.path().join(folder);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(RECORD), text).unwrap();
        };
        let record = |number| serde_json::to_string(&seeded::record(number, &seeded::Level::default())).unwrap();
        write("b/deep/er/one", &record(2));
        write("a", &record(1));
        write("a/copy", &record(1));
        write("cut", &record(3)[..400]);
        write("foreign", "{\"schema\": 1, \"kind\": \"orders\"}");
        write("older", include_str!("../../../millrace/tests/records/first-slice.json"));
        fs::write(place.path().join("other.json"), "{").unwrap();
        let found = find(&[place.path().to_owned()], &mut |_, _| {}).unwrap();
        let places: Vec<&str> = found.entries.iter().map(|entry| entry.record.as_str()).collect();
        assert_eq!(places.len(), 3, "{places:?}");
        assert!(found.entries.is_sorted_by(|a, b| a.started_utc <= b.started_utc));
        let named: Vec<&str> = found.left_out.iter().map(|left| left.record.rsplit('/').nth(1).unwrap()).collect();
        assert_eq!(named, ["cut", "foreign"], "{:?}", found.left_out);
        assert!(
            found.left_out.iter().all(|left| !left.reason.contains(RECORD) && !left.reason.is_empty()),
            "{:?}",
            found.left_out
        );
    }

    #[test]
    fn a_place_that_is_missing_is_an_error_and_an_empty_one_has_no_record() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(find(&[place.path().to_owned()], &mut |_, _| {}).unwrap(), Found::default());
        assert!(find(&[place.path().join("missing")], &mut |_, _| {}).is_err());
        assert_eq!(siblings(&place.path().join("missing")).unwrap(), Found::default());
    }
}
