//! The loss layer, for tests: it stands between the operations and the host, and can take back changes that
//! are not durable yet, as a power cut would. When it is off, an operation only checks an `Option`.
//!
//! It records a change of names or attributes until the host has flushed it, and a change of data until the host
//! has flushed the file or has written the page durably. While the layer is on, only one operation that changes
//! something runs at a time. A removed object stays in a hidden directory below the root ([`LIMBO`]) until its
//! removal is durable, so that a cut restores the same object.

mod chance;
mod cut;
pub(crate) mod cut_copy;
mod limbo;
mod names;
mod pages;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use host::Unpoisoned;

use crate::sys::KernelHandle;
use chance::Chance;
pub(crate) use limbo::LIMBO;
use names::NameChanges;
use pages::FileLosses;

/// How a power cut takes changes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LossConfig {
    /// 0: every change that is not durable is lost. Otherwise the seed that decides which of them survive.
    pub seed: u64,
}

/// The layer's lock: shared for operations that only read, exclusive for the others and for a cut.
pub(crate) struct LossLock(RwLock<Loss>);

/// The layer, locked exclusively.
pub(crate) type LossGuard<'a> = RwLockWriteGuard<'a, Loss>;

impl LossLock {
    pub(crate) fn new(loss: Loss) -> Self {
        Self(RwLock::new(loss))
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Loss> {
        self.0.read().unpoisoned()
    }

    pub(crate) fn write(&self) -> LossGuard<'_> {
        self.0.write().unpoisoned()
    }
}

/// The changes that could be taken back.
pub(crate) struct Loss {
    chance: Chance,
    answer_early: bool,
    names: NameChanges,
    files: FileLosses,
}

/// A directory and a name in it.
pub(crate) type Spot<'a> = (&'a KernelHandle, BorrowedFd<'a>, &'a [u8]);

impl Loss {
    /// Makes the layer's directory, and removes what a killed process left in it.
    pub(crate) fn start(config: LossConfig, root: impl AsFd) -> io::Result<Self> {
        Ok(Self {
            chance: Chance::new(config.seed),
            answer_early: false,
            names: NameChanges::start(root)?,
            files: FileLosses::default(),
        })
    }

    /// Test fault: operations reply without a flush, which a cut must reveal.
    pub(crate) fn set_answer_early(&mut self, on: bool) {
        self.answer_early = on;
    }

    pub(crate) fn answers_early(&self) -> bool {
        self.answer_early
    }

    /// The host has flushed an object. `whole`: with its attributes and, of a directory, its entries.
    pub(crate) fn flushed(&mut self, identity: &KernelHandle, whole: bool) {
        self.files.flushed(identity, whole);
        if whole {
            self.names.directory_flushed(identity);
        }
    }

    /// The host has flushed the whole file system.
    pub(crate) fn all_flushed(&mut self) {
        self.files.all_flushed();
        self.names.all_flushed();
    }

    /// A name was added.
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

    /// Called before a write, and before bytes are zeroed.
    pub(crate) fn before_write(&mut self, identity: &KernelHandle, fd: impl AsFd, offset: u64, len: usize) -> io::Result<()> {
        self.files.before_write(identity, fd, offset, len)
    }

    /// Called before attributes are set. `size`: the new size, if it is one of them.
    pub(crate) fn before_attr(&mut self, identity: &KernelHandle, fd: impl AsFd, size: Option<u64>) -> io::Result<()> {
        self.files.before_attr(identity, fd, size)
    }

    /// The host has written these bytes durably: their pages are durable, and the size up to their end.
    pub(crate) fn written_durably(&mut self, identity: &KernelHandle, offset: u64, len: usize) {
        self.files.written_durably(identity, offset, len);
    }
}
