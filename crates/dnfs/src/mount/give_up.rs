//! Ends a mount that no program needs, or whose server is gone for good: reports the unsaved data, ends the keepers and
//! removes the shared state.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use core::sync::atomic::Ordering::Relaxed;

use super::Observer;
use super::keeper_process::{HERE, KEEPER, Place, STANDBY, attempt};
use super::processes::processes_of;
use super::stored_parts::parts_of;
use crate::client::Client;
use crate::credentials::Credentials;
use crate::error::Error;
use crate::options::GonePolicy;
use crate::segment::runtime_dir::RuntimeDir;
use crate::segment::runtime_root::is_default_root;
use crate::segment::{SegmentError, local};
use crate::sys::clock::{monotonic_ms, sleep};
use crate::sys::local_file::{CPath, Errno, rename, rmdir, unlink};
use crate::sys::process::kill;
use crate::sys::random::random;
use crate::url::NfsUrl;

/// Keepers notice within a second that their segment is gone. A keeper that waits longer, for a name server, is killed after this
/// time, in ms.
const KEEPER_END_MS: u64 = 3_000;
/// How long to wait for the end of keepers in all, in ms.
const KEEPER_KILL_MS: u64 = 10_000;
/// Pause between two checks of the keepers' locks.
const LOOK: Duration = Duration::from_millis(20);
/// Attempts to take a lock that a keeper briefly holds now and then.
const TRIES: u32 = 25;

/// A file with uncommitted data, or with a write error that no fsync has reported yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsavedFile {
    /// Its number on the server.
    pub fileid: u64,
    /// Bytes that are retained to be resent; 0 if nothing is retained (`retain=0`).
    pub kept_bytes: u64,
    /// It has data that the server has not committed.
    pub is_uncommitted: bool,
    /// Some of its data is lost already, and no fsync has reported that.
    pub has_error: bool,
}

impl Observer {
    /// The files whose data would be lost with this host's state, sorted by number.
    ///
    /// # Errors
    /// The area of retained data cannot be mapped, or has the layout of another version.
    pub fn unsaved(&self) -> Result<Vec<UnsavedFile>, SegmentError> {
        let retention = self.retention();
        let mut kept = BTreeMap::new();
        if retention.map_if_there().map_err(local("map the written data"))? {
            for (file, bytes) in retention.kept(&self.segment) {
                *kept.entry(file.word()).or_insert(0) += bytes;
            }
        }
        let unsaved =
            self.segment.live_files().filter(|(_, slot)| slot.has_unsaved() || slot.has_unseen_error() || slot.has_stores());
        let mut files: Vec<_> = unsaved
            .map(|(file, slot)| UnsavedFile {
                fileid: slot.fileid.load(Relaxed),
                kept_bytes: kept.get(&file.word()).copied().unwrap_or(0),
                is_uncommitted: slot.has_unsaved() || slot.has_stores(),
                has_error: slot.has_unseen_error(),
            })
            .collect();
        files.sort_unstable_by_key(|file| file.fileid);
        Ok(files)
    }

    /// How many removed files, which programs had open, keep a hidden name on the server.
    #[must_use]
    pub fn hidden_names(&self) -> usize {
        self.segment.silly_files().len()
    }

    /// Asks the server once whether it has the volume. `url` has the options of the mount.
    ///
    /// # Errors
    /// No answer within `limit`, or the server does not export the volume.
    pub fn ask_server(&self, url: &NfsUrl, limit: Duration) -> Result<(), Error> {
        let mut url = url.clone();
        (url.options.soft, url.options.retries, url.options.resend_after) = (true, 0, limit);
        url.options.gone = GonePolicy::Report;
        let parts = self.segment.parts().and_then(|stored| parts_of(&stored));
        let parts = parts.ok_or(SegmentError::Foreign("a segment without a server"))?;
        let mut client = Client::from_parts(parts, &url, &Credentials::of_process())?;
        client.state_mut().route.share(&self.segment);
        client.check_volume()
    }

    /// Ends the mount and discards what it retains: ends its keepers and removes its directory. Does nothing and returns false
    /// while programs use it, unless `although_used`; calls of these programs with a path then fail with ESTALE.
    ///
    /// # Errors
    /// The kernel's refusal; EBUSY if a keeper of another user or PID namespace does not end.
    pub fn give_up(&self, although_used: bool) -> Result<bool, SegmentError> {
        let directory = self.segment.directory();
        let users = without_users(directory);
        if !although_used && (users.is_none() || self.has_open_files()?) {
            return Ok(false);
        }
        self.segment.retire();
        self.segment.export_state().forget_urls();
        end(directory)?;
        Ok(true)
    }
}

/// Ends the keepers of an export and removes its directory.
pub(super) fn end(directory: &RuntimeDir) -> Result<(), SegmentError> {
    // Keepers end when the segment has no name.
    match unlink(&directory.segment_path()) {
        Ok(()) | Err(Errno(libc::ENOENT)) => {}
        Err(errno) => return Err(local("remove the segment")(errno)),
    }
    end_keepers(directory)?;
    remove(directory)
}

/// Prevents processes from attaching. `None` if a process is attached. Tries several times, since a keeper briefly takes this
/// lock now and then.
pub(super) fn without_users(directory: &RuntimeDir) -> Option<Place> {
    (0..TRIES).find_map(|tried| {
        if tried > 0 {
            sleep(LOOK);
        }
        Place::without_users(directory)
    })
}

/// Waits until the keepers have ended, and kills those that do not.
fn end_keepers(directory: &RuntimeDir) -> Result<(), SegmentError> {
    let (begin, mut is_killed) = (monotonic_ms(), false);
    while has_keepers(directory) {
        let waited = monotonic_ms() - begin;
        if waited >= KEEPER_KILL_MS {
            return Err(local("end the keeper")(Errno(libc::EBUSY)));
        }
        if waited >= KEEPER_END_MS && !is_killed {
            let found = processes_of(&[directory.path().to_owned()]);
            found.iter().flat_map(|mount| &mount.keepers).for_each(|pid| kill(*pid));
            is_killed = true;
        }
        sleep(LOOK);
    }
    Ok(())
}

/// Whether a keeper, or a standby, is alive in any PID namespace.
fn has_keepers(directory: &RuntimeDir) -> bool {
    let names = std::fs::read_dir(directory.path()).into_iter().flatten().flatten();
    let locks = names.filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".lock")?.to_owned()));
    let mut keepers = locks.filter(|name| name == KEEPER || name.starts_with(HERE) || name.starts_with(STANDBY));
    keepers.any(|name| matches!(attempt(directory, &name, libc::LOCK_EX), Ok(None)))
}

/// Removes the directory of an export and its contents. A process that waits for a lock in it finds the lock file gone
/// and retries (`attach`). The caller holds `users.lock`, or removes the directory although programs use it.
pub(super) fn remove(directory: &RuntimeDir) -> Result<(), SegmentError> {
    let failed = local("remove the runtime directory");
    let gone = directory.path().with_extension(format!("gone-{:016x}", random()));
    let at = |path: &Path| CPath::new(path.as_os_str().as_bytes());
    rename(&at(directory.path()), &at(&gone)).map_err(&failed)?;
    let of_io = |error: std::io::Error| failed(Errno(error.raw_os_error().unwrap_or(libc::EIO)));
    if std::fs::remove_dir_all(&gone).is_err() {
        make_writable(&gone);
        std::fs::remove_dir_all(&gone).map_err(of_io)?;
    }
    remove_default_root(directory.root());
    Ok(())
}

/// Removes this user's default runtime directory once no mount is left in it. A directory that the environment names
/// stays.
fn remove_default_root(root: &[u8]) {
    const UNREACHED: &str = "unreached"; // the preload library notes here which programs it has named
    let path = Path::new(std::ffi::OsStr::from_bytes(root));
    let mut names = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.file_name());
    if is_default_root(path) && names.all(|name| name == UNREACHED) {
        let _ = std::fs::remove_file(path.join(UNREACHED));
        let _ = rmdir(&CPath::new(root));
    }
}

/// Makes a directory and the directories in it writable.
fn make_writable(directory: &Path) {
    let _ = std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700));
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            make_writable(&entry.path());
        }
    }
}
