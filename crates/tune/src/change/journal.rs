//! The journal of an apply: each change and the state before it, durable before the change is made.
//!
//! ```text
//! STATE/lock                     held while an apply or a revert runs
//! STATE/journals/0001/journal    one JSON object per line; if the last line is torn, its change never began
//! STATE/journals/0001/0003.before, 0003.after    contents of the file of entry 3
//! ```
//!
//! A journal is *open* until it has the line `complete`: its apply is running or was interrupted.
//! Complete journals are reverted newest first. The line `reverted` ends a journal; its folder
//! stays, so that users can read it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::disk::{FileMetadata, keep, make_folder, sync_folder_of};
use super::limits::{FILE_BYTES_MAX, JOURNAL_BYTES_MAX, JOURNALS_MAX};
use super::root::read_bounded;
use super::{ChangeError, Root, Steps};

/// Version of the format.
const FORM: u32 = 1;

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "kebab-case")]
pub(super) enum Entry {
    /// The first line.
    Begin { form: u32, program: String, root: PathBuf, started: String },
    /// A folder that will be created next.
    Folder { path: String },
    /// A file that will be written next. Without `metadata` it did not exist.
    File {
        number: u32,
        path: String,
        #[serde(rename = "manner", default, skip_serializing_if = "Option::is_none")]
        metadata: Option<FileMetadata>,
        rules: Vec<String>,
    },
    /// A running value that will be set next. Without `after` the kernel changes it along with
    /// another value.
    Running {
        number: u32,
        path: String,
        before: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<String>,
        rules: Vec<String>,
    },
    /// What the running value reads as after it was set.
    Took { number: u32, reads: String },
    /// The apply ended without an error.
    Complete,
    /// Everything is reverted.
    Reverted,
}

/// The status of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum JournalStatus {
    /// Its apply is running or was interrupted.
    Open,
    /// Its apply ended without an error. It can be reverted.
    Complete,
    /// It is reverted.
    Reverted,
}

/// A state directory.
#[derive(Debug, Clone)]
pub struct State {
    folder: PathBuf,
}

/// The lock of a state directory, held until it is dropped.
#[derive(Debug)]
pub(super) struct StateLock(File);

impl Drop for StateLock {
    /// Unlocks explicitly. A process that another thread is starting has a copy of the descriptor
    /// until it executes its program, so closing the descriptor does not release the lock.
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

impl State {
    /// The state in a directory. The directory is created by the first write.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The directory.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Journals that are not reverted, oldest first: folder, status, and the root of the tree they
    /// belong to.
    ///
    /// # Errors
    /// The directory or a journal cannot be read.
    pub fn journals(&self) -> Result<Vec<(PathBuf, JournalStatus, PathBuf)>, ChangeError> {
        let mut journals = Vec::new();
        for number in self.numbers()? {
            let folder = self.journal(number);
            let past = RecordedJournal::read(&folder)?;
            let status = past.status();
            // A journal without a line changed nothing: its apply ended before its first change.
            if let (Some(root), true) = (past.root(), status != JournalStatus::Reverted) {
                journals.push((folder, status, root.to_owned()));
            }
        }
        Ok(journals)
    }

    /// Whether there is no journal.
    pub(super) fn is_empty(&self) -> Result<bool, ChangeError> {
        Ok(self.numbers()?.is_empty())
    }

    fn numbers(&self) -> Result<Vec<u32>, ChangeError> {
        let folder = self.folder.join("journals");
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.unusable(error)),
        };
        // A limit here would leave out any of them, the newest too: `begin` makes no more than JOURNALS_MAX.
        let mut numbers: Vec<u32> = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn journal(&self, number: u32) -> PathBuf {
        self.folder.join("journals").join(format!("{number:04}"))
    }

    /// Refuses to continue if an earlier apply was interrupted and is not reverted.
    pub(super) fn refuse_open(&self) -> Result<(), ChangeError> {
        match self.journals()?.into_iter().find(|(_, status, _)| *status == JournalStatus::Open) {
            Some((journal, ..)) => Err(ChangeError::OpenJournal { journal }),
            None => Ok(()),
        }
    }

    /// Excludes other applies and reverts. The kernel releases the lock when the process that holds
    /// it ends. Creates the directory if it is missing.
    pub(super) fn lock(&self) -> Result<StateLock, ChangeError> {
        let failed = |error| self.unusable(error);
        let journals = self.folder.join("journals");
        let new: Vec<&Path> = journals.ancestors().take_while(|folder| !folder.exists()).collect();
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&journals).map_err(failed)?;
        // A journal is durable only if its folders are. Each new folder is synced before anything
        // changes.
        for parent in new.iter().filter_map(|folder| folder.parent()) {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            File::open(parent).and_then(|parent| parent.sync_all()).map_err(failed)?;
        }
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(self.lock_file());
        self.locked(file.map_err(failed)?)
    }

    /// The same lock if its file exists. Creates nothing.
    pub(super) fn lock_if_present(&self) -> Result<Option<StateLock>, ChangeError> {
        match OpenOptions::new().write(true).open(self.lock_file()) {
            Ok(file) => self.locked(file).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.unusable(error)),
        }
    }

    fn lock_file(&self) -> PathBuf {
        self.folder.join("lock")
    }

    fn locked(&self, file: File) -> Result<StateLock, ChangeError> {
        match file.try_lock() {
            Ok(()) => Ok(StateLock(file)),
            Err(TryLockError::WouldBlock) => Err(ChangeError::Busy { lock: self.lock_file() }),
            Err(TryLockError::Error(error)) => Err(self.unusable(error)),
        }
    }

    fn unusable(&self, error: std::io::Error) -> ChangeError {
        ChangeError::StateDirectory { folder: self.folder.clone(), source: error }
    }

    /// Begins a journal.
    pub(super) fn begin(&self, root: &Root, started: &str, steps: &mut Steps) -> Result<Journal, ChangeError> {
        let numbers = self.numbers()?;
        if numbers.len() >= JOURNALS_MAX as usize {
            return Err(ChangeError::ManyJournals { folder: self.folder.join("journals") });
        }
        let number = numbers.last().map_or(1, |last| last.saturating_add(1));
        let folder = self.journal(number);
        make_folder(&folder, 0o700, steps)?;
        let path = folder.join("journal");
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(|error| ChangeError::io("make", &path, error))?;
        sync_folder_of(&path, steps)?;
        let mut journal = Journal { folder, file, count: 0 };
        let program = format!("millrace {}", env!("CARGO_PKG_VERSION"));
        let root = std::path::absolute(root.folder()).map_err(|error| ChangeError::io("find", root.folder(), error))?;
        journal.note(&Entry::Begin { form: FORM, program, root, started: started.to_owned() }, steps)?;
        Ok(journal)
    }
}

/// A journal that is being written.
#[derive(Debug)]
pub(super) struct Journal {
    folder: PathBuf,
    file: File,
    count: u32,
}

impl Journal {
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Takes the next entry number.
    pub(super) fn number(&mut self) -> u32 {
        self.count += 1;
        self.count
    }

    /// Stores the contents of a file before and after its change.
    pub(super) fn contents(
        &self,
        number: u32,
        before: Option<&[u8]>,
        after: &[u8],
        steps: &mut Steps,
    ) -> Result<(), ChangeError> {
        if let Some(before) = before {
            keep(&self.folder.join(format!("{number:04}.before")), before, steps)?;
        }
        keep(&self.folder.join(format!("{number:04}.after")), after, steps)
    }

    /// Writes a line. The line is durable when this returns.
    pub(super) fn note(&mut self, entry: &Entry, steps: &mut Steps) -> Result<(), ChangeError> {
        note(&mut self.file, &self.folder, entry, steps)
    }
}

fn note(file: &mut File, folder: &Path, entry: &Entry, steps: &mut Steps) -> Result<(), ChangeError> {
    let failed = |error| ChangeError::io("write the journal in", folder, error);
    let mut line = serde_json::to_vec(entry).map_err(|error| failed(error.into()))?;
    line.push(b'\n');
    let (kept, go_on) = steps.next_write(line.len());
    file.write_all(line.get(..kept).unwrap_or(&line)).map_err(failed)?;
    go_on?;
    steps.next()?;
    file.sync_data().map_err(failed)
}

/// A journal that is being read.
#[derive(Debug)]
pub(super) struct RecordedJournal {
    folder: PathBuf,
    pub(super) entries: Vec<Entry>,
    /// Number of bytes of complete lines. Bytes after them are a torn line.
    whole: u64,
}

impl RecordedJournal {
    pub(super) fn read(folder: &Path) -> Result<Self, ChangeError> {
        let path = folder.join("journal");
        let bytes = read_bounded(&path, JOURNAL_BYTES_MAX).map_err(|error| ChangeError::io("read", &path, error))?;
        let bytes = bytes.unwrap_or_default();
        let mut entries = Vec::new();
        let mut whole = 0;
        for (at, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            if !line.ends_with(b"\n") {
                break;
            }
            whole += line.len() as u64;
            let entry = serde_json::from_slice(line)
                .map_err(|error| ChangeError::Journal { path: path.clone(), reason: format!("line {}: {error}", at + 1) })?;
            match (&entry, at) {
                (Entry::Begin { form: FORM, .. }, 0) => {}
                (Entry::Begin { form, .. }, 0) => {
                    let reason = format!("its form is {form}, this program knows {FORM}");
                    return Err(ChangeError::Journal { path, reason });
                }
                (Entry::Begin { .. }, _) | (_, 0) => {
                    return Err(ChangeError::Journal { path, reason: format!("line {}: out of place", at + 1) });
                }
                _ => {}
            }
            entries.push(entry);
        }
        Ok(Self { folder: folder.to_owned(), entries, whole })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn status(&self) -> JournalStatus {
        if self.entries.contains(&Entry::Reverted) {
            JournalStatus::Reverted
        } else if self.entries.contains(&Entry::Complete) {
            JournalStatus::Complete
        } else {
            JournalStatus::Open
        }
    }

    /// The root of the tree that the journal belongs to; `None` if the journal has no line.
    pub(super) fn root(&self) -> Option<&Path> {
        match self.entries.first() {
            Some(Entry::Begin { root, .. }) => Some(root),
            _ => None,
        }
    }

    /// The stored contents of a file's entry; `which` is `before` or `after`.
    pub(super) fn contents(&self, number: u32, which: &str) -> Result<Vec<u8>, ChangeError> {
        let path = self.folder.join(format!("{number:04}.{which}"));
        let bytes = read_bounded(&path, FILE_BYTES_MAX).map_err(|error| ChangeError::io("read", &path, error))?;
        bytes.ok_or_else(|| ChangeError::Journal { path, reason: "the contents it names are missing".to_owned() })
    }

    /// Marks the journal as reverted, after removing a torn line.
    pub(super) fn close(&self, steps: &mut Steps) -> Result<(), ChangeError> {
        let path = self.folder.join("journal");
        let failed = |error| ChangeError::io("write", &path, error);
        let mut file = OpenOptions::new().append(true).open(&path).map_err(failed)?;
        steps.next()?;
        file.set_len(self.whole).map_err(failed)?;
        note(&mut file, &self.folder, &Entry::Reverted, steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_last_line_is_no_entry_and_a_torn_middle_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::new(folder.path().join("state"));
        let held = state.lock().unwrap();
        assert!(matches!(state.lock(), Err(ChangeError::Busy { .. })));
        drop(held);
        let mut journal = state.begin(&Root::new("/"), "2026-11-21T20:00:00Z", &mut Steps::new()).unwrap();
        let made = Entry::Folder { path: "/etc/sysctl.d".into() };
        assert!(journal.note(&made, &mut Steps::ending_at(0, true)).is_err());
        let path = journal.folder().join("journal");
        let past = RecordedJournal::read(journal.folder()).unwrap();
        assert!(past.entries.len() == 1 && past.status() == JournalStatus::Open);
        past.close(&mut Steps::new()).unwrap();
        assert_eq!(RecordedJournal::read(journal.folder()).unwrap().status(), JournalStatus::Reverted);
        assert!(state.journals().unwrap().is_empty());
        fs::write(&path, "{\"entry\":\"fol\n{}\n").unwrap();
        assert!(matches!(state.journals(), Err(ChangeError::Journal { .. })));
    }

    #[test]
    fn the_newest_of_many_journals_is_read_and_none_is_begun_beyond_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::new(folder.path());
        (1..JOURNALS_MAX).for_each(|number| fs::create_dir_all(state.journal(number)).unwrap());
        let begin = || state.begin(&Root::new("/"), "2026-11-21T20:00:00Z", &mut Steps::new()).map(|_| ());
        begin().unwrap();
        assert!(matches!(begin(), Err(ChangeError::ManyJournals { .. })));
        // As an earlier version made it.
        fs::rename(state.journal(JOURNALS_MAX), state.journal(JOURNALS_MAX + 1)).unwrap();
        fs::create_dir(state.journal(JOURNALS_MAX)).unwrap();
        let found = state.journals().unwrap();
        assert!(matches!(found.as_slice(), [(newest, JournalStatus::Open, _)] if *newest == state.journal(JOURNALS_MAX + 1)));
    }
}
