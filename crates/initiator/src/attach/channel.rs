//! The connection to the kernel: /dev/fuse, mounted.

use super::error::AttachError;
use super::program::output;
use super::protocol::{self, HEADER, Unique, WRITE_ARGUMENTS};
use super::{FILE, REQUEST_BYTES_MAX};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Bytes of the largest request. The kernel requires space for 4 KiB of headers.
const BUFFER: usize = REQUEST_BYTES_MAX as usize + 4096;

const _: () = assert!(HEADER + WRITE_ARGUMENTS <= 4096 && !FILE.is_empty());

pub(crate) struct Channel {
    device: File,
    buffer: Vec<u8>,
}

/// The result of a read.
pub(crate) enum Received<'a> {
    Request(&'a [u8]),
    Nothing,
    /// The file system is unmounted.
    Unmounted,
}

impl Channel {
    /// Opens /dev/fuse and mounts it at a directory, for root alone.
    pub(crate) fn mount(directory: &Path, source: &str) -> Result<Self, AttachError> {
        // O_NONBLOCK: the thread that owns the device waits for its sockets, too.
        let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let opened = OpenOptions::new().read(true).write(true).custom_flags(nonblocking).open("/dev/fuse");
        let duplicated = opened.and_then(|device| device.try_clone().map(|twin| (device, twin)));
        let (device, twin) = duplicated.map_err(AttachError::Fuse)?;
        // The kernel finds the device by its number in mount's own table of descriptors.
        let options = "fd=0,rootmode=40000,user_id=0,group_id=0,default_permissions,nodev,nosuid,noexec";
        let mut command = Command::new("mount");
        command.args(["--internal-only", "--no-mtab", "--types", "fuse.millrace", "--options", options, source]).arg(directory);
        output("mount", command.stdin(Stdio::from(twin)))?;
        Ok(Self { device, buffer: vec![0; BUFFER] })
    }

    /// Reads the next request, if there is one.
    pub(crate) fn receive(&mut self) -> io::Result<Received<'_>> {
        loop {
            match rustix::io::read(&self.device, self.buffer.as_mut_slice()) {
                Ok(bytes) => return Ok(Received::Request(self.buffer.get(..bytes).unwrap_or_default())),
                // ENOENT: a request that was interrupted before it was read.
                Err(Errno::INTR | Errno::NOENT) => {}
                Err(Errno::AGAIN) => return Ok(Received::Nothing),
                Err(Errno::NODEV) => return Ok(Received::Unmounted),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends a reply. Errors do not matter, such as ENOENT if the caller is gone and no longer
    /// waits.
    pub(crate) fn reply(&self, unique: Unique, result: Result<&[u8], Errno>) {
        let (bytes, errno) = match result {
            Ok(bytes) => (bytes, 0),
            Err(errno) => (&[][..], errno.raw_os_error()),
        };
        let header = protocol::header(unique, bytes.len(), errno);
        let _ = (&self.device).write_vectored(&[IoSlice::new(&header), IoSlice::new(bytes)]);
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}
