//! Errors of this host, independent of the server.

use super::layout::{LAYOUT_VERSION, SLOT_COUNT};
use super::untrusted::Untrusted;
use crate::sys::local_file::Errno;
use std::path::PathBuf;

/// Why a process cannot use the state shared by the processes of this host, or what that state reports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    /// Every slot belongs to a file that is open or not yet stable.
    #[error("all {SLOT_COUNT} file slots of the shared segment are in use")]
    Full,
    /// Every slot that has memory is in use, and there is no memory for more.
    #[error("find memory for more files of the shared segment: {}", std::io::Error::from_raw_os_error(*.errno))]
    NoSlots {
        /// Error number of the kernel.
        errno: i32,
    },
    /// A local system call failed.
    #[error("{action} of the shared segment: {}", std::io::Error::from_raw_os_error(*.errno))]
    Local {
        /// What was attempted.
        action: &'static str,
        /// Error number of the kernel.
        errno: i32,
    },
    /// The runtime directory is missing and cannot be created.
    #[error("make the runtime directory {}: {}", .path.display(), std::io::Error::from_raw_os_error(*.errno))]
    NoRuntimeDirectory {
        /// Where it would be.
        path: PathBuf,
        /// Error number of the kernel.
        errno: i32,
    },
    /// Another version of this library created the segment.
    #[error("the shared segment was made by another version of millrace (layout {found}, this one needs {LAYOUT_VERSION})")]
    Version {
        /// Version in its header.
        found: u32,
    },
    /// Another version of this library created the segment, and it may not be replaced yet.
    #[error(
        "another version of millrace (layout {found}, this one has {LAYOUT_VERSION}) holds the shared memory of this export: {why}"
    )]
    OtherVersion {
        /// Version in its header.
        found: u32,
        /// What prevents its replacement.
        why: Box<OtherVersion>,
        /// The directory of the export.
        directory: PathBuf,
    },
    /// The file is not a segment, or belongs to another mount.
    #[error("the file of the shared segment is not one of millrace ({0})")]
    Foreign(&'static str),
    /// The runtime directory can't be trusted.
    #[error("{0}")]
    Directory(Box<Untrusted>),
    /// An endpoint of the server changed its verifier 2^28 times.
    #[error("the server changed its write verifier too often for this segment")]
    VerifiersFull,
    /// The process has no memory or no liveness lock to keep what it writes until it is stable.
    #[error("the process cannot keep written data until COMMIT: no memory for the map, or too many processes on the mount")]
    Retained,
}

/// Why a segment with another layout may not be replaced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OtherVersion {
    /// Programs use it: their process ids and names.
    #[error("programs use it: {0}")]
    Programs(String),
    /// Its keeper still saves data.
    #[error("its keeper{} has not ended yet: it ends once the server has all data", .0.map_or(String::new(), |pid| format!(" (process {pid})")))]
    Keeper(Option<u32>),
    /// Its last process ended without saving everything.
    #[error("it may hold data that the server does not have, and only that version can save it")]
    Unsaved,
}

impl SegmentError {
    /// Whether there is no room for one more file.
    pub(crate) const fn is_full(&self) -> bool {
        matches!(self, Self::Full | Self::NoSlots { .. } | Self::Local { errno: libc::ENOSPC, .. })
    }
}

/// Converts the errno of a local system call to an error that names the attempted action.
pub(crate) fn local(action: &'static str) -> impl Fn(Errno) -> SegmentError {
    move |Errno(errno)| SegmentError::Local { action, errno }
}
