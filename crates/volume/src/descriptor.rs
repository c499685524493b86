//! Open descriptors of one object.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::descriptor_budget::{Counted, OpenCount};
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
pub(crate) struct Descriptor {
    pub(crate) fd: OwnedFd,
    pub(crate) access: Access,
    /// The same file with O_DIRECT.
    direct: DirectDescriptor,
    counted: Counted,
}

impl Descriptor {
    pub(crate) fn new(fd: OwnedFd, access: Access, count: &Arc<OpenCount>) -> Self {
        Self { fd, access, direct: DirectDescriptor::default(), counted: Counted::new(count) }
    }

    /// The file with O_DIRECT, opened at the first use. `None` if the host does not support direct I/O for it.
    pub(crate) fn direct(&self) -> Option<&OwnedFd> {
        if self.access != Access::ReadWrite || self.direct.refused.load(Ordering::Relaxed) {
            return None;
        }
        let open = || sys::reopen_direct(self).ok().map(|fd| (fd, self.counted.another()));
        self.direct.opened.get_or_init(open).as_ref().map(|(fd, _)| fd)
    }

    /// Notes that the host refused a correctly aligned direct transfer. No further one is tried.
    pub(crate) fn refuse_direct(&self) {
        self.direct.refused.store(true, Ordering::Relaxed);
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A file's second descriptor.
#[derive(Default)]
struct DirectDescriptor {
    /// `None` inside: the host does not support direct I/O for the file.
    opened: OnceLock<Option<(OwnedFd, Counted)>>,
    refused: AtomicBool,
}
