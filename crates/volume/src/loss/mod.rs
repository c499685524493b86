//! The loss layer: a door between the operations and the host that remembers how to take back what was
//! not promised stable yet, as a power cut would. A test switch; off, it costs one look at an `Option`.
//!
//! Names and attributes are remembered until the flush that makes them durable really ran, data until a
//! flush of the file (or a durable write of the page) really ran. Operations that change something run
//! one at a time while the layer is on. Removed objects stay in a hidden directory of the root
//! ([`LIMBO`]) until their removal is durable, so that they come back as the same objects.

pub(crate) mod copy;
mod cut;
mod names;
mod pages;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::dice::Dice;
use crate::sys::{self, KernelHandle, Listing};
use crate::volume::LossConfig;
use names::NameChange;
use pages::FileLoss;

/// Name of the layer's directory in the root of the volume; never listed, never found.
pub(crate) const LIMBO: &[u8] = b".millrace-limbo";

/// Shared by operations that only read, exclusive for the others and for a cut.
pub(crate) struct Gate(RwLock<Loss>);

/// The layer, held exclusively.
pub(crate) type Guard<'a> = RwLockWriteGuard<'a, Loss>;

impl Gate {
    pub(crate) fn new(loss: Loss) -> Self {
        Self(RwLock::new(loss))
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Loss> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> Guard<'_> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What could be taken back.
pub(crate) struct Loss {
    chance: Chance,
    answer_early: bool,
    root: OwnedFd,
    limbo: OwnedFd,
    limbo_count: u64,
    names: Vec<NameChange>,
    files: HashMap<KernelHandle, FileLoss>,
}

impl Loss {
    /// Makes the layer's directory; what a killed process left there is removed.
    pub(crate) fn start(config: LossConfig, root: impl AsFd) -> io::Result<Self> {
        match sys::mkdir_at(&root, LIMBO, 0o700) {
            Err(error) if error.raw_os_error() != Some(libc::EEXIST) => return Err(error),
            _ => {}
        }
        let limbo = sys::open_at(&root, LIMBO, libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
        empty_directory(&limbo)?;
        sys::fsync(&root)?;
        Ok(Self {
            chance: Chance { dice: (config.seed != 0).then(|| Dice::new(config.seed)) },
            answer_early: false,
            root: root.as_fd().try_clone_to_owned()?,
            limbo,
            limbo_count: 0,
            names: Vec::new(),
            files: HashMap::new(),
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
        self.file_flushed(identity, whole);
        if whole {
            self.directory_flushed(identity);
        }
    }

    /// A flush of the whole file system really ran.
    pub(crate) fn all_flushed(&mut self) {
        self.files.clear();
        for change in std::mem::take(&mut self.names) {
            self.discard(&change);
        }
    }
}

impl Drop for Loss {
    fn drop(&mut self) {
        // A leftover is removed by the next start; nobody could act on the error here.
        let _ = empty_directory(&self.limbo).and_then(|()| sys::unlink_at(&self.root, LIMBO, true));
    }
}

/// What survives of what was not promised.
#[derive(Debug, Clone)]
struct Chance {
    /// None: everything is lost.
    dice: Option<Dice>,
}

impl Chance {
    /// Whether something that was not promised survives.
    fn survives(&mut self) -> bool {
        self.dice.as_mut().is_some_and(|dice| dice.draw() & 1 == 1)
    }

    /// A number up to and including `most`; 0 when everything is lost.
    fn up_to(&mut self, most: u64) -> u64 {
        self.dice.as_mut().map_or(0, |dice| dice.below(most.saturating_add(1)))
    }
}

/// Removes everything below an open directory.
fn empty_directory(dir: impl AsFd) -> io::Result<()> {
    loop {
        let mut listing = Listing::new(sys::open_at(&dir, b".", libc::O_RDONLY | libc::O_DIRECTORY, 0)?, 0)?;
        let mut removed = false;
        while let Some(entry) = listing.next_entry()? {
            if entry.name == b"." || entry.name == b".." {
                continue;
            }
            removed = true;
            match sys::unlink_at(&dir, entry.name, false) {
                Err(error) if matches!(error.raw_os_error(), Some(libc::EISDIR | libc::EPERM)) => {
                    empty_directory(sys::open_at(&dir, entry.name, libc::O_RDONLY | libc::O_DIRECTORY, 0)?)?;
                    sys::unlink_at(&dir, entry.name, true)?;
                }
                other => other?,
            }
        }
        if !removed {
            return Ok(());
        }
    }
}
