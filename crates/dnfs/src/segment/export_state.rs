//! How the processes of a mount reach the export: the server's address, and whether the server still knows the root.
//!
//! The process that finds a change notes it here; usually that is the keeper. Every process reads it before it connects, and
//! while it waits.

use core::net::SocketAddr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use std::path::Path;

use super::RuntimeDir;
use super::layout::Header;
use crate::file::FileHandle;
use crate::sys::clock::monotonic_ms;
use crate::sys::shm::Mapping;

/// Attempts to read an address that changes during the read. The next change comes seconds later.
const READS_MAX: u32 = 64;

/// The part of a segment's header that describes how the export is reached.
#[derive(Clone, Debug)]
pub(crate) struct ExportState {
    memory: Arc<Mapping>,
    directory: RuntimeDir,
}

impl ExportState {
    pub(super) const fn new(memory: Arc<Mapping>, directory: RuntimeDir) -> Self {
        Self { memory, directory }
    }

    /// The server's address.
    pub(crate) fn server(&self) -> Option<SocketAddr> {
        self.header().current_server()
    }

    /// How often the address changed.
    pub(crate) fn move_count(&self) -> u32 {
        self.header().move_count.load(Acquire)
    }

    /// Sets the server's address. Call under the directory's `create` lock.
    pub(crate) fn move_to(&self, server: SocketAddr) {
        let header = self.header();
        let next = header.move_count.load(Acquire).wrapping_add(1).max(1);
        // No reader uses this entry yet, so a process that is killed between these stores changes nothing.
        header.moved[next as usize % 2].fill(Some(server));
        header.move_count.store(next, Release);
    }

    /// Whether the server now exports another volume.
    pub(crate) fn is_retired(&self) -> bool {
        self.header().retired.load(Acquire) != 0
    }

    /// Whether the server refused the root's handle when it was last asked.
    pub(crate) fn is_gone(&self) -> bool {
        self.header().gone_since_ms.load(Relaxed) != 0
    }

    /// Notes that the server refuses the root's handle.
    pub(crate) fn note_gone(&self) {
        let _ = self.header().gone_since_ms.compare_exchange(0, monotonic_ms().max(1), AcqRel, Relaxed);
    }

    /// Notes that the server knows the root's handle.
    pub(crate) fn note_served(&self) {
        if self.is_gone() {
            self.header().gone_since_ms.store(0, Release);
        }
    }

    /// The root with which the segment was created.
    pub(super) fn first_root(&self) -> Option<FileHandle> {
        let stored = self.header().parts()?;
        FileHandle::new(stored.root.get(..stored.root_length)?)
    }

    /// The directory in which the directories of segments and the notes of URLs are.
    pub(super) fn runtime_root(&self) -> &Path {
        Path::new(OsStr::from_bytes(self.directory.root()))
    }

    pub(super) fn header(&self) -> &Header {
        &self.memory.values::<Header>(0, 1)[0] // the slice has one element
    }
}

impl Header {
    /// The server's address: the last one passed to [`ExportState::move_to`], or the first.
    pub(super) fn current_server(&self) -> Option<SocketAddr> {
        for _ in 0..READS_MAX {
            let count = self.move_count.load(Acquire);
            let place = if count == 0 { &self.server } else { &self.moved[count as usize % 2] };
            let found = place.value();
            if self.move_count.load(Acquire) == count {
                return found;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::fresh_segment;
    use crate::segment::Segment;

    #[test]
    fn a_server_that_moved_is_found_at_its_last_address_by_whoever_attaches() {
        let (_place, segment) = fresh_segment();
        let state = segment.export_state();
        assert_eq!(state.server(), segment.parts().map(|parts| parts.server));
        for (moves, port) in [(1, 1001), (2, 1002), (3, 1003)] {
            let address = ([127, 0, 0, port as u8], port).into();
            state.move_to(address);
            assert_eq!((state.server(), state.move_count()), (Some(address), moves));
            let attached = Segment::attach(segment.directory(), 1).unwrap().unwrap();
            assert_eq!(attached.parts().map(|parts| parts.server), Some(address));
        }
    }
}
