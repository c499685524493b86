//! The loss layer: stands between the operations and the host, and can take back what was
//! not promised stable yet, as a power cut would. A test switch; off, it costs one look at an `Option`.
//!
//! Names and attributes are recorded until the flush that makes them durable really ran, data until a
//! flush of the file (or a durable write of the page) really ran. Operations that change something run
//! one at a time while the layer is on. Removed objects stay in a hidden directory of the root
//! ([`LIMBO`]) until their removal is durable, so that they come back as the same objects.

mod chance;
mod cut;
pub(crate) mod cut_copy;
mod limbo;
mod names;
mod pages;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::sys::KernelHandle;
use chance::Chance;
pub(crate) use limbo::LIMBO;
use names::NameChanges;
use pages::FileLosses;

/// How a power cut takes things back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LossConfig {
    /// 0: all that was not promised stable is lost. Else: the seed by which some of it survives.
    pub seed: u64,
}

/// The layer's lock: shared by operations that only read, exclusive for the others and for a cut.
pub(crate) struct LossLock(RwLock<Loss>);

/// The layer, locked exclusively.
pub(crate) type LossGuard<'a> = RwLockWriteGuard<'a, Loss>;

impl LossLock {
    pub(crate) fn new(loss: Loss) -> Self {
        Self(RwLock::new(loss))
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Loss> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> LossGuard<'_> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What could be taken back.
pub(crate) struct Loss {
    chance: Chance,
    answer_early: bool,
    names: NameChanges,
    files: FileLosses,
}

/// A directory and a name in it.
pub(crate) type Spot<'a> = (&'a KernelHandle, BorrowedFd<'a>, &'a [u8]);

impl Loss {
    /// Makes the layer's directory; what a killed process left there is removed.
    pub(crate) fn start(config: LossConfig, root: impl AsFd) -> io::Result<Self> {
        Ok(Self {
            chance: Chance::new(config.seed),
            answer_early: false,
            names: NameChanges::start(root)?,
            files: FileLosses::default(),
        })
    }

    /// Test fault: flushes before an answer are left out, so that a cut must show it.
    pub(crate) fn set_answer_early(&mut self, on: bool) {
        self.answer_early = on;
    }

    pub(crate) fn answers_early(&self) -> bool {
        self.answer_early
    }

    /// A flush of an object really ran; `whole`: attributes and, of a directory, entries too.
    pub(crate) fn flushed(&mut self, identity: &KernelHandle, whole: bool) {
        self.files.flushed(identity, whole);
        if whole {
            self.names.directory_flushed(identity);
        }
    }

    /// A flush of the whole file system really ran.
    pub(crate) fn all_flushed(&mut self) {
        self.files.all_flushed();
        self.names.all_flushed();
    }

    /// A name was made where there was none.
    pub(crate) fn name_added(&mut self, dir: &KernelHandle, at: impl AsFd, name: &[u8]) -> io::Result<()> {
        self.names.added((dir, at.as_fd(), name))
    }

    /// Removes a name; see [`NameChanges::remove`].
    pub(crate) fn remove(&mut self, spot: Spot<'_>, victim: &KernelHandle, directory: bool) -> io::Result<()> {
        self.names.remove(spot, victim, directory)
    }

    /// Renames; see [`NameChanges::rename`].
    pub(crate) fn rename(
        &mut self,
        from: Spot<'_>,
        to: Spot<'_>,
        moved: &KernelHandle,
        victim: Option<&KernelHandle>,
    ) -> io::Result<()> {
        self.names.rename(from, to, moved, victim)
    }

    /// To be called before a write, or before bytes are zeroed.
    pub(crate) fn before_write(&mut self, identity: &KernelHandle, fd: impl AsFd, offset: u64, len: usize) -> io::Result<()> {
        self.files.before_write(identity, fd, offset, len)
    }

    /// To be called before attributes are set; `size` when that is one of them.
    pub(crate) fn before_attr(&mut self, identity: &KernelHandle, fd: impl AsFd, size: Option<u64>) -> io::Result<()> {
        self.files.before_attr(identity, fd, size)
    }

    /// A durable write of these bytes really ran: their pages, and the size up to them, are durable.
    pub(crate) fn written_durably(&mut self, identity: &KernelHandle, offset: u64, len: usize) {
        self.files.written_durably(identity, offset, len);
    }
}
