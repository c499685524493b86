//! Why there is no block device.

use crate::command::Failure;
use crate::error::Error;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a LUN cannot be made a block device, or no longer is one.
#[derive(Debug, Error)]
pub enum AttachError {
    /// The kernel's side of the file system failed.
    #[error("use /dev/fuse: {0}")]
    Fuse(io::Error),
    /// The process cannot be kept in memory.
    #[error("keep this process in memory ({what}): {source}; I/O may hang when memory is scarce; run it with {needs}")]
    Memory {
        /// The call.
        what: &'static str,
        /// The capability that the call needs.
        needs: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// A portal leads to another LUN now.
    #[error(transparent)]
    Device(#[from] Error),
    /// The last writes may not be durable.
    #[error("flush the LUN before the process ends: {0}")]
    Unflushed(Failure),
    /// A program of the host is missing.
    #[error("run {program}: {source}")]
    Program {
        /// Its name.
        program: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// A program of the host failed.
    #[error("{program} {arguments}: {said}")]
    Failed {
        /// Its name.
        program: &'static str,
        /// Its arguments.
        arguments: String,
        /// Its output.
        said: String,
    },
    /// A file of sysfs or procfs cannot be read.
    #[error("read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// Files in the directory would be copied on write.
    #[error("set in-place updates for new files below {}: {source}", .directory.display())]
    InPlace {
        /// The directory.
        directory: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A loop device would use the page cache.
    #[error("{device} does not use direct I/O: this host would cache its writes twice")]
    Buffered {
        /// The loop device.
        device: String,
    },
    /// A loop device is still in use after it was detached.
    #[error("{device} is still in use after {seconds} s")]
    Busy {
        /// The loop device.
        device: String,
        /// The time limit.
        seconds: u64,
    },
}
