//! Open descriptors of one object.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::sys;

/// What a descriptor was opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    ReadWrite,
    Read,
    /// O_PATH: attributes only.
    Path,
}

/// An open descriptor, counted while it lives.
#[derive(Debug)]
pub(crate) struct Descriptor {
    pub(crate) fd: OwnedFd,
    pub(crate) access: Access,
    /// The same file with O_DIRECT.
    direct: DirectDescriptor,
    open: Arc<AtomicUsize>,
}

impl Descriptor {
    pub(crate) fn new(fd: OwnedFd, access: Access, open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self { fd, access, direct: DirectDescriptor::default(), open: open.clone() }
    }

    /// The file with O_DIRECT, opened at the first use; `None` where the host has no direct transfers for it.
    pub(crate) fn direct(&self) -> Option<&OwnedFd> {
        if self.access != Access::ReadWrite || self.direct.refused.load(Ordering::Relaxed) {
            return None;
        }
        self.direct.opened.get_or_init(|| sys::reopen_direct(self).ok()).as_ref()
    }

    /// The host refused a direct transfer that should have fitted: no further one is tried.
    pub(crate) fn refuse_direct(&self) {
        self.direct.refused.store(true, Ordering::Relaxed);
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A file's second descriptor.
#[derive(Debug, Default)]
struct DirectDescriptor {
    /// `None` inside: the host has no direct transfers for the file.
    opened: OnceLock<Option<OwnedFd>>,
    refused: AtomicBool,
}
