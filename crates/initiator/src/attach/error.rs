//! Why there is no block device.

use crate::command::Failure;
use crate::error::Error;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a LUN cannot be made a block device, or no longer is one.
#[derive(Debug, Error)]
pub enum AttachError {
    /// The kernel's end of the file system.
    #[error("use /dev/fuse: {0}")]
    Fuse(io::Error),
    /// Memory that stays.
    #[error("keep this process in memory ({what}): {source}")]
    Memory {
        /// The call.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A portal leads to another LUN now.
    #[error(transparent)]
    Device(#[from] Error),
    /// What was written last may not be durable.
    #[error("flush the LUN before the process ends: {0}")]
    Unflushed(Failure),
    /// A program of the host is missing.
    #[error("run {program}: {source}")]
    Program {
        /// Its name.
        program: &'static str,
        /// Why it did not start.
        source: io::Error,
    },
    /// A program of the host failed.
    #[error("{program} {arguments}: {said}")]
    Failed {
        /// Its name.
        program: &'static str,
        /// What it was told.
        arguments: String,
        /// What it said.
        said: String,
    },
    /// Something of sysfs or procfs.
    #[error("read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A directory whose files would be copied on write.
    #[error("set in-place updates for new files below {}: {source}", .directory.display())]
    InPlace {
        /// The directory.
        directory: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A loop device that would go through the page cache.
    #[error("{device} does not use direct I/O: this host would cache its writes twice")]
    Buffered {
        /// The loop device.
        device: String,
    },
    /// A loop device that is still held after it was told to go.
    #[error("{device} is still in use after {seconds} s")]
    Busy {
        /// The loop device.
        device: String,
        /// How long was waited.
        seconds: u64,
    },
}
