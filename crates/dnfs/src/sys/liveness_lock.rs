//! A liveness lock: the lock of one byte of a file, which the kernel releases when the process dies.
//!
//! It is a record lock. No child inherits it, so a child that lives on does not keep its dead parent alive. The lock also ends
//! when the process closes any descriptor of the file. So each file is opened once in a process, however many users it has, and
//! a child locks its own byte through the inherited descriptor.

use core::sync::atomic::AtomicI32;
use core::sync::atomic::Ordering::{Acquire, Release};

use super::clock;
use super::internal_fd::InternalFd;
use super::local_file::{CPath, Errno, LOCK_FILE_MODE, open};
use super::record_lock;
use super::signals_blocked::SignalsBlocked;
use crate::process::{LivenessFiles, OpenedFile, this_process};

/// One user's handle of a file of liveness locks.
#[derive(Debug)]
pub(crate) struct LivenessFile(AtomicI32); // its descriptor; -1: not opened yet

impl LivenessFile {
    /// The file is opened later.
    pub(crate) const fn new() -> Self {
        Self(AtomicI32::new(-1))
    }

    /// The result of `choose` in this process. The first user of the file calls it, with a function that takes the lock of a
    /// byte unless another process has it. Creates the file if it is missing.
    ///
    /// # Errors
    /// The file cannot be opened; the errors of `choose`; ENFILE if too many files are in use.
    pub(crate) fn join(
        &self,
        path: &CPath,
        choose: impl FnOnce(&dyn Fn(u32) -> bool) -> Result<u32, Errno>,
    ) -> Result<u32, Errno> {
        if this_process().identity.shares_memory() {
            return Err(Errno(libc::ENOLCK)); // the lock would be the child's
        }
        let generation = u64::from(this_process().identity.generation());
        self.with_entry(path, |opened| {
            if opened.joined >> 32 != generation {
                let fd = opened.fd;
                opened.joined = generation << 32 | u64::from(choose(&|byte| record_lock::take_byte(fd, byte))?);
            }
            Ok(opened.joined as u32)
        })
    }

    /// This process' descriptor of the file, which is created if it is missing.
    ///
    /// # Errors
    /// As [`Self::join`].
    pub(crate) fn open(&self, path: &CPath) -> Result<i32, Errno> {
        match self.0.load(Acquire) {
            fd if fd >= 0 => Ok(fd),
            _ if this_process().identity.shares_memory() => Err(Errno(libc::ENOLCK)), // the descriptor would be the child's
            _ => self.with_entry(path, |opened| Ok(opened.fd)),
        }
    }

    fn with_entry<T>(&self, path: &CPath, work: impl FnOnce(&mut OpenedFile) -> Result<T, Errno>) -> Result<T, Errno> {
        with_table(|table| {
            let entry = match table.iter().position(|opened| opened.users > 0 && opened.path == path.hash()) {
                Some(found) => found,
                None => {
                    let free = table.iter().position(|opened| opened.users == 0).ok_or(Errno(libc::ENFILE))?;
                    let fd = InternalFd::moved_up(open(path, libc::O_WRONLY | libc::O_CREAT, LOCK_FILE_MODE)?).into_raw();
                    table[free] = OpenedFile { fd, path: path.hash(), joined: 0, users: 0 };
                    free
                }
            };
            let opened = &mut table[entry];
            if self.0.load(Acquire) < 0 {
                opened.users += 1;
                self.0.store(opened.fd, Release);
            }
            work(opened)
        })
    }

    /// Whether another process holds the lock of this byte. True if that is unknown.
    pub(crate) fn is_taken_elsewhere(&self, byte: u32) -> bool {
        record_lock::is_byte_taken(self.0.load(Acquire), byte).unwrap_or(true)
    }
}

impl Drop for LivenessFile {
    fn drop(&mut self) {
        let fd = *self.0.get_mut();
        if fd < 0 {
            return;
        }
        with_table(|table| {
            for opened in table.iter_mut().filter(|opened| opened.users > 0 && opened.fd == fd) {
                opened.users -= 1;
                if opened.users == 0 {
                    *opened = OpenedFile::FREE;
                    // SAFETY: `into_raw` returned the number, and this is its last user.
                    drop(unsafe { InternalFd::from_raw(fd) });
                }
            }
        });
    }
}

/// Runs `work` on the table with signals blocked: a handler would wait for its own thread. If a fork copied the table during a
/// change, the child can use it: `users` is written last, and `joined` identifies the process.
fn with_table<T>(work: impl FnOnce(&mut LivenessFiles) -> T) -> T {
    let _signals = SignalsBlocked::new();
    loop {
        if let Some(mut table) = this_process().liveness_files.try_lock(this_process().current_thread(), |_| ()) {
            return work(&mut table);
        }
        clock::give_way();
    }
}
