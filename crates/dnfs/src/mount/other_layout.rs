//! A segment that another version of Millrace made, with another layout. This version cannot read it, but all versions share the
//! lock files of its directory and the first fields of its header. So a process that attaches finds out whether the segment may be
//! removed: no process uses it, and its last keeper saved everything before it ended.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use core::sync::atomic::Ordering::Release;

use super::give_up::{end, remove, without_users};
use super::keeper_process::Alone;
use super::mount_paths::{self, MountPath};
use super::processes::{MountProcesses, processes_of};
use super::unused::holds_nothing;
use super::{Mount, Observer};
use crate::limits::OTHER_LAYOUT_WAIT_MS;
use crate::process::this_process;
use crate::rpc::events::Event;
use crate::segment::runtime_dir::RuntimeDir;
use crate::segment::url_notes::forget_urls;
use crate::segment::{OtherVersion, Segment, SegmentError};
use crate::sys::clock::{monotonic_ms, sleep};

/// Pause between two attempts to take the locks.
const PAUSE: Duration = Duration::from_millis(100);
/// A wait longer than this is reported, in ms.
const QUIET_MS: u64 = 2_000;

impl Mount {
    /// Notes that programs use the segment: it may hold what only this version can save.
    pub(super) fn note_use(&self) {
        self.segment.header().settled.store(0, Release);
    }

    /// Notes that nothing in the segment would be lost with it. The caller prevents processes from attaching.
    pub(super) fn note_settled(&self) {
        let is_settled = holds_nothing(&self.segment, &self.retention).unwrap_or(false);
        self.segment.header().settled.store(is_settled.into(), Release);
    }
}

/// Removes the state of an export if it has layout `found` and no process needs it. Waits while the keeper of that version saves what
/// programs wrote. The caller holds none of the directory's locks.
///
/// # Errors
/// [`SegmentError::OtherVersion`] if programs use the segment, its keeper does not end within [`OTHER_LAYOUT_WAIT_MS`], or it may
/// hold data that the server does not have.
pub(super) fn clear(directory: &RuntimeDir, found: u32) -> Result<(), SegmentError> {
    match await_end(directory, found)? {
        Some(_alone) => remove(directory),
        None => Ok(()),
    }
}

/// Waits until no process uses the state of an export and nothing would be lost with it. Returns the locks, which keep it so. `None`
/// if another process removed or replaced it.
fn await_end(directory: &RuntimeDir, found: u32) -> Result<Option<Alone>, SegmentError> {
    let refused = |why| SegmentError::OtherVersion { found, why: Box::new(why), directory: directory.path().to_owned() };
    let (begin, mut is_reported) = (monotonic_ms(), false);
    loop {
        let alone = match Alone::take(directory) {
            Err(SegmentError::Local { errno: libc::ENOENT, .. }) => return Ok(None),
            other => other?,
        };
        match Segment::is_settled(directory, found)? {
            None => return Ok(None),
            Some(true) if alone.is_some() => return Ok(alone),
            Some(false) if alone.is_some() => return Err(refused(OtherVersion::Unsaved)),
            Some(_) => {}
        }
        let is_used = match without_users(directory) {
            Some(_) => false,
            None => Segment::is_settled(directory, found)?.is_some(),
        };
        let processes = processes(directory);
        // A keeper that is about to end prevents processes from attaching.
        if is_used && (processes.keepers.is_empty() || !processes.programs.is_empty()) {
            return Err(refused(OtherVersion::Programs(named(&processes))));
        }
        let waited = monotonic_ms() - begin;
        if waited >= OTHER_LAYOUT_WAIT_MS {
            return Err(refused(OtherVersion::Keeper(processes.keepers.first().copied())));
        }
        if waited >= QUIET_MS && !std::mem::replace(&mut is_reported, true) {
            this_process().reports.report(Event::OtherVersionEnds { found });
        }
        sleep(PAUSE);
    }
}

/// The state of an export that another version of Millrace made.
#[derive(Clone, Debug)]
pub struct OtherLayout {
    directory: RuntimeDir,
    identity: u64,
    found: u32,
}

impl OtherLayout {
    /// The state in this directory, one of [`Observer::directories`]. `None` if this version can read it, or if the directory has no
    /// segment.
    #[must_use]
    pub fn at(directory: &Path) -> Option<Self> {
        match Observer::at(directory) {
            Err(SegmentError::Version { found }) => {
                let (directory, identity) = Observer::directory_at(directory)?;
                Some(Self { directory, identity, found })
            }
            _ => None,
        }
    }

    /// The paths at which programs had the export, newest first.
    #[must_use]
    pub fn paths(&self) -> Vec<MountPath> {
        mount_paths::list(self.directory.path())
    }

    /// Removes the state once no process needs it. `although_used` ends keepers, loses what they have not saved, and removes the
    /// state although programs use it. Returns whether nothing was lost, as far as this version can know.
    ///
    /// # Errors
    /// [`SegmentError::OtherVersion`] without `although_used`; the kernel's refusal.
    pub fn give_up(&self, although_used: bool) -> Result<bool, SegmentError> {
        let alone = if although_used { None } else { await_end(&self.directory, self.found)? };
        let Some(is_settled) = Segment::is_settled(&self.directory, self.found)? else { return Ok(true) };
        forget_urls(Path::new(OsStr::from_bytes(self.directory.root())), self.identity);
        match alone {
            Some(_alone) => remove(&self.directory)?,
            None => end(&self.directory)?,
        }
        Ok(is_settled)
    }
}

fn processes(directory: &RuntimeDir) -> MountProcesses {
    processes_of(&[directory.path().to_owned()]).pop().unwrap_or_default()
}

fn named(processes: &MountProcesses) -> String {
    let named: Vec<String> = processes.programs.iter().map(|process| format!("{} {}", process.pid, process.command)).collect();
    if named.is_empty() { "they are hidden from this user, or run in another PID namespace".to_owned() } else { named.join(", ") }
}
