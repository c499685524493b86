//! Observes a mount from outside: the activity of all processes on an export, for tools that measure it.

use core::net::SocketAddr;
use core::sync::atomic::Ordering::Relaxed;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

pub use crate::retention::Retained;

use super::mount_paths::{self, MountPath};
use super::{Totals, totals_of};
use crate::activity::Activity;
use crate::call_notes::{CallInProgress, CallNotes};
use crate::retention::Retention;
use crate::segment::runtime_dir::RuntimeDir;
use crate::segment::url_notes::UrlRoot;
use crate::segment::{Segment, SegmentError};
use crate::sys::local_file::{CPath, file_system_bytes};
use crate::url::NfsUrl;

/// The file system that has the shared memory of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedMemory {
    /// Size of the file system.
    pub bytes: u64,
    /// Bytes that this user may still take.
    pub bytes_free: u64,
}

/// The shared segment of a mount, for reading. Only [`Self::remove_if_dead`] and [`Self::give_up`] change anything. Makes no
/// connection.
#[derive(Debug)]
pub struct Observer {
    pub(super) segment: Segment,
}

impl Observer {
    /// Finds the segment for the export of `url` below `runtime` (the `MILLRACE_RUNTIME_DIR` of the processes that mounted it).
    /// `None` if no process has mounted it.
    ///
    /// # Errors
    /// If the segment may not be opened, or is of another version.
    pub fn open(runtime: &Path, url: &NfsUrl) -> Result<Option<Self>, SegmentError> {
        let Some(UrlRoot { identity, .. }) = UrlRoot::noted(runtime, url) else { return Ok(None) };
        let Some(directory) = RuntimeDir::made_by_another(runtime, |_| identity) else { return Ok(None) };
        Ok(Segment::attach(&directory, identity)?.map(|segment| Self { segment }))
    }

    /// The segment in this directory, one of [`Self::directories`]. `None` if there is no segment.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn at(directory: &Path) -> Result<Option<Self>, SegmentError> {
        let Some((directory, identity)) = Self::directory_at(directory) else { return Ok(None) };
        let segment = Segment::attach(&directory, identity)?;
        Ok(segment.map(|segment| Self { segment }))
    }

    /// The directory of an export and the export's identity, which is its name. `None` if it is no such directory.
    pub(super) fn directory_at(directory: &Path) -> Option<(RuntimeDir, u64)> {
        let (runtime, name) = directory.parent().zip(directory.file_name()?.to_str())?;
        let identity = u64::from_str_radix(name, 16).ok()?;
        Some((RuntimeDir::made_by_another(runtime, |_| identity)?, identity))
    }

    /// The directories of all exports that were mounted with this `MILLRACE_RUNTIME_DIR`, sorted. Empty if it cannot be read.
    #[must_use]
    pub fn directories(runtime: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(runtime).into_iter().flatten().flatten();
        let mut found: Vec<_> = entries.map(|entry| entry.path()).filter(|path| path.join("segment").is_file()).collect();
        found.sort();
        found
    }

    /// Activity of all processes on the export since the segment was created: sizes, times, slots, waits.
    #[must_use]
    pub fn activity(&self) -> Activity {
        Activity::of(self.segment.cells(), self.segment.call_table())
    }

    /// Uncommitted data that the client keeps for a resend.
    #[must_use]
    pub fn retained(&self) -> Retained {
        let retention = self.retention();
        match retention.map_if_there() {
            Ok(true) => retention.usage(&self.segment),
            _ => Retained { bytes: 0, bytes_max: self.segment.header().retain_bytes.load(Relaxed) },
        }
    }

    /// Calls that have waited for a second or longer, the longest first.
    #[must_use]
    pub fn calls_in_progress(&self) -> Vec<CallInProgress> {
        let members = std::sync::Arc::clone(self.segment.members());
        // If liveness cannot be checked, all processes count as alive.
        let _ = members.watch();
        CallNotes::new(self.segment.memory(), members).list()
    }

    /// The paths at which programs had the export, newest first. Empty if an older library created the segment.
    #[must_use]
    pub fn paths(&self) -> Vec<MountPath> {
        mount_paths::list(self.segment.directory().path())
    }

    /// The server's address in use.
    #[must_use]
    pub fn server(&self) -> Option<SocketAddr> {
        self.segment.export_state().server()
    }

    /// Whether the server refused the export's root when a process last asked for it.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.segment.export_state().is_gone()
    }

    /// Bytes of the file system with the segment, and how many of them this user may still take. `None` if the kernel
    /// does not report it.
    #[must_use]
    pub fn shared_memory(&self) -> Option<SharedMemory> {
        let (bytes, bytes_free) = file_system_bytes(&CPath::new(self.segment.directory().path().as_os_str().as_bytes())).ok()?;
        Some(SharedMemory { bytes, bytes_free })
    }

    /// When the segment was created, according to the file system.
    #[must_use]
    pub fn made(&self) -> Option<SystemTime> {
        let found = std::fs::metadata(self.segment.directory().path().join("segment")).ok()?;
        found.created().or_else(|_| found.modified()).ok()
    }

    pub(super) fn retention(&self) -> Retention {
        let instance = self.segment.header().instance.load(Relaxed);
        Retention::new(self.segment.directory(), instance, std::sync::Arc::clone(self.segment.members()))
    }

    /// Calls and payload bytes of all processes on the export since the segment was created.
    #[must_use]
    pub fn totals(&self) -> Totals {
        totals_of(&self.segment)
    }
}
