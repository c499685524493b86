//! The connection to the kernel: an open /dev/fuse with its mount.

use crate::error::MountError;
use crate::limits::{HEAD_BYTES_MAX, TRANSFER_BYTES_MAX};
use crate::protocol::{Unique, init, reply, request};
use request::Operation;
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// Bytes of the largest request.
pub(crate) const REQUEST_BYTES_MAX: usize = TRANSFER_BYTES_MAX + HEAD_BYTES_MAX;

/// The device of a mount. Several threads read and write it at the same time.
#[derive(Debug)]
pub(crate) struct Device(OwnedFd);

impl Device {
    pub(crate) const fn new(device: OwnedFd) -> Self {
        Self(device)
    }

    /// Negotiates version and flags with the kernel, by its first request (INIT).
    ///
    /// # Errors
    /// [`MountError::Kernel`], [`MountError::Requests`].
    pub(crate) fn agree(&self) -> Result<(), MountError> {
        let mut buffer = vec![0; REQUEST_BYTES_MAX];
        loop {
            let bytes = self.receive(&mut buffer).map_err(|error| MountError::Requests(error.into()))?;
            let gone = || MountError::Requests(Errno::NODEV.into());
            let request = bytes.and_then(|bytes| buffer.get(..bytes)).ok_or_else(gone)?;
            let Some((header, Operation::Init { major, minor, readahead, flags })) = request::decode(request) else { continue };
            let Some(answer) = init::answer(major, minor, readahead, flags) else {
                self.refuse(header.unique, Errno::PROTO);
                return Err(MountError::Kernel { major, minor });
            };
            let _ = self.send(header.unique, &answer, &[]);
            // The major version is the same, so the kernel does not repeat INIT.
            return Ok(());
        }
    }

    /// Reads the next request into `buffer`. Returns its length, or `None` after the unmount.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> Result<Option<usize>, Errno> {
        loop {
            match rustix::io::read(&self.0, &mut *buffer) {
                Ok(bytes) => return Ok(Some(bytes)),
                // ENOENT: the request was interrupted before it was read.
                Err(Errno::INTR | Errno::NOENT | Errno::AGAIN) => {}
                Err(Errno::NODEV) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends a reply. Returns false if the caller no longer waits (ENOENT), and so does not know the result.
    #[must_use]
    pub(crate) fn send(&self, unique: Unique, result: &[u8], data: &[u8]) -> bool {
        let header = reply::header(unique, result.len() + data.len(), 0);
        rustix::io::writev(&self.0, &reply::parts(&header, result, data)).is_ok()
    }

    /// Sends an error as the reply.
    pub(crate) fn refuse(&self, unique: Unique, errno: Errno) {
        let header = reply::header(unique, 0, errno.raw_os_error());
        let _ = rustix::io::writev(&self.0, &reply::parts(&header, &[], &[]));
    }
}
