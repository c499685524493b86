//! Commands to a LUN, and their results.

use crate::cdb::{self, Cdb};
use crate::sense::SenseCode;
use rustix::io::Errno;
use thiserror::Error;

/// A command. Offsets and lengths are in bytes and multiples of the logical block. The [`Completion`] returns the buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Reads as many bytes as the buffer is long.
    Read {
        /// First byte.
        offset: u64,
        /// Receives the data.
        buffer: Vec<u8>,
    },
    /// Writes.
    Write {
        /// First byte.
        offset: u64,
        /// The data.
        data: Vec<u8>,
        /// Whether the data must be durable when the command completes, even if the LUN has a
        /// volatile cache.
        fua: bool,
    },
    /// Makes the writes durable that completed before it.
    Flush,
    /// Frees space. Later reads there return undefined data, unless the LUN guarantees zeroes.
    Unmap {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// Writes zeroes.
    WriteZeroes {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
        /// Whether the LUN may free the space.
        unmap: bool,
    },
}

/// A command that ended.
#[derive(Debug)]
pub struct Completion {
    /// The tag with which it was submitted.
    pub tag: u64,
    /// The command. That of a successful read has the data.
    pub command: Command,
    /// Its result.
    pub result: Result<(), Failure>,
}

/// Why a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// The target returned this sense data.
    #[error("{0}")]
    Sense(SenseCode),
    /// Another initiator has the LUN reserved.
    #[error("reservation conflict: another initiator has reserved the LUN")]
    Reserved,
    /// Another SCSI status, also after retries.
    #[error("SCSI status {0:#04x}")]
    Status(u8),
    /// A failure of the target (RFC 7143 11.4.3), also after retries.
    #[error("the target failed with iSCSI response {0:#04x}")]
    Target(u8),
    /// The target transferred this number of bytes less than requested.
    #[error("{0} bytes fewer than requested")]
    Short(u32),
    /// There was no path for as long as commands wait.
    #[error("no path to the LUN")]
    NoPath,
    /// Writes that were not flushed are lost. The device accepts no further command.
    #[error("the target lost writes that were not flushed")]
    Lost,
    /// The command does not fit the LUN: it is outside of it, not in whole blocks, or not
    /// supported.
    #[error("outside the LUN, or not in whole blocks of it")]
    Invalid,
}

impl Failure {
    /// The error number that a program on a block device would get.
    #[must_use]
    pub fn errno(self) -> i32 {
        let errno = match self {
            Self::Sense(code) => code.errno(),
            Self::Reserved => Errno::BADE,
            Self::Invalid => Errno::INVAL,
            Self::Status(_) | Self::Target(_) | Self::Short(_) | Self::NoPath | Self::Lost => Errno::IO,
        };
        errno.raw_os_error()
    }
}

/// What is sent for a command.
pub(crate) enum Wire<'a> {
    None(Cdb),
    Read(Cdb, u32),
    Write(Cdb, &'a [u8]),
    Own(Cdb, Vec<u8>),
}

impl Command {
    /// The first byte and the number of bytes that the command touches.
    pub(crate) fn range(&self) -> (u64, u64) {
        match self {
            Self::Read { offset, buffer } => (*offset, buffer.len() as u64),
            Self::Write { offset, data, .. } => (*offset, data.len() as u64),
            Self::Flush => (0, 0),
            Self::Unmap { offset, bytes } | Self::WriteZeroes { offset, bytes, .. } => (*offset, *bytes),
        }
    }

    /// Whether the command changes what is on the LUN.
    pub(crate) const fn is_change(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::Unmap { .. } | Self::WriteZeroes { .. })
    }

    /// The part of a change before the byte `end` of the LUN. `None` if that part is empty.
    pub(crate) fn before(&self, end: u64) -> Option<Self> {
        let (start, bytes) = self.range();
        let bytes = bytes.min(end.saturating_sub(start));
        (bytes > 0).then(|| self.part(start, bytes))
    }

    /// The part of a change from the byte `start` of the LUN on. `None` if that part is empty.
    pub(crate) fn from(&self, start: u64) -> Option<Self> {
        let (first, bytes) = self.range();
        let start = start.max(first);
        let bytes = (first + bytes).saturating_sub(start);
        (bytes > 0).then(|| self.part(start, bytes))
    }

    fn part(&self, start: u64, bytes: u64) -> Self {
        match self {
            Self::Write { offset, data, fua } => {
                let from = (start - offset) as usize;
                let data = data.get(from..from + bytes as usize).unwrap_or_default().to_vec();
                Self::Write { offset: start, data, fua: *fua }
            }
            Self::Unmap { .. } => Self::Unmap { offset: start, bytes },
            Self::WriteZeroes { unmap, .. } => Self::WriteZeroes { offset: start, bytes, unmap: *unmap },
            Self::Read { .. } | Self::Flush => self.clone(),
        }
    }

    /// The command as sent to a LUN with blocks of `block_bytes`. The caller has checked its range.
    pub(crate) fn wire(&self, block_bytes: u32) -> Wire<'_> {
        let (offset, bytes) = self.range();
        let (lba, count) = (offset / u64::from(block_bytes), (bytes / u64::from(block_bytes)) as u32);
        match self {
            Self::Read { .. } => Wire::Read(cdb::read(lba, count), bytes as u32),
            Self::Write { data, fua, .. } => Wire::Write(cdb::write(lba, count, *fua), data),
            Self::Flush => Wire::None(cdb::synchronize_cache()),
            Self::Unmap { .. } => {
                let (cdb, list) = cdb::unmap(lba, count);
                Wire::Own(cdb, list)
            }
            Self::WriteZeroes { unmap, .. } => Wire::Own(cdb::write_same(lba, count, *unmap), vec![0; block_bytes as usize]),
        }
    }
}
