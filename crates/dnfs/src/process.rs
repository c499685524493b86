//! What exists once in a process, however many mounts it has.
//!
//! [`Process`] owns all of it, and [`this_process`] returns it. Its initial value is a constant, so that hooks and
//! signal handlers can use it before anything is initialised.
//!
//! A fork copies the object, perhaps while another thread changes it. [`Process::note_fork`] is the only reset: it
//! gives the child its own fork generation. What belongs to one process is stored with the generation of that process,
//! and is ignored under another. The child inherits the rest.

mod calls;
mod descriptors;
mod locks;
mod namespaces;
mod reports;

use crate::limits::{LEASE_THREADS_MAX, MEMBER_FILES_MAX};
use crate::rpc::events::Event;
use crate::sys::fork::{self, Identity};
use crate::sys::fork_lock::{ForkLock, Holder};
use crate::sys::raw::thread_number;
use calls::Calls;
pub(crate) use calls::{CallingThread, NotedLease};
use descriptors::Descriptors;
use locks::FileLocks;
pub(crate) use locks::{HeldLocks, LivenessFiles, NO_LOCKS, OpenedFile};
use namespaces::UserNamespaces;
pub(crate) use namespaces::{IdMap, UserNamespace};
use reports::Reports;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, Once, OnceLock};

/// All that exists once in a process.
pub(crate) struct Process {
    /// Which process this is, and whether a fork of any kind has made it another.
    pub(crate) identity: Identity,
    /// Whether the handler for children of `fork` is registered.
    fork_handler: Once,
    /// By how much the monotonic clock of this process' time namespace is ahead of the host's, in ns.
    pub(crate) clock_ahead_ns: AtomicI64,
    /// The descriptors of this crate and of preload that stay open.
    pub(crate) descriptors: &'static Descriptors,
    /// The locks of whole files that threads of this process hold.
    pub(crate) file_locks: FileLocks,
    /// The files of liveness locks that this process has open.
    pub(crate) liveness_files: ForkLock<LivenessFiles>,
    /// The calls in which the threads are, and the leases that they hold.
    pub(crate) calls: &'static Calls,
    /// The user namespaces that the process has been in.
    pub(crate) user_namespaces: UserNamespaces,
    /// The directory above the runtime directories of all mounts, for the user that the process had at the first use.
    pub(crate) runtime_root: OnceLock<RuntimeRoot>,
    /// Where events are reported.
    pub(crate) reports: Reports,
    /// Held while a thread changes the list of lock holders in a file.
    pub(crate) lock_holders: Mutex<()>,
    /// Number of channels so far.
    channels: AtomicU64,
}

/// The directory above the runtime directories of all mounts.
pub(crate) struct RuntimeRoot {
    pub(crate) path: PathBuf,
    /// The user named it; otherwise it is the default.
    pub(crate) is_named: bool,
}

static PROCESS: Process = Process::new(&DESCRIPTORS, &CALLS);

// The large tables consist of zeros, which take no space in the file of a library. As parts of `PROCESS`, which has other values
// too, they would take 2 MiB there.
static DESCRIPTORS: Descriptors = Descriptors::new();
static CALLS: Calls = Calls([const { CallingThread::new() }; LEASE_THREADS_MAX]);

/// The object of this process.
#[inline]
pub(crate) fn this_process() -> &'static Process {
    #[cfg(test)]
    if let Some(simulated) = crate::sys::simulated::process() {
        return simulated;
    }
    &PROCESS
}

impl Process {
    const fn new(descriptors: &'static Descriptors, calls: &'static Calls) -> Self {
        Self {
            identity: Identity::new(),
            fork_handler: Once::new(),
            clock_ahead_ns: AtomicI64::new(0),
            descriptors,
            file_locks: FileLocks::new(),
            liveness_files: ForkLock::new([OpenedFile::FREE; MEMBER_FILES_MAX]),
            calls,
            user_namespaces: UserNamespaces::new(),
            runtime_root: OnceLock::new(),
            reports: Reports::new(),
            lock_holders: Mutex::new(()),
            channels: AtomicU64::new(0),
        }
    }

    /// The object of a simulated process. Made by a thread whose stack has space for its tables.
    #[cfg(test)]
    pub(crate) fn simulated() -> &'static Self {
        let make = || -> &'static Self {
            Box::leak(Box::new(Self::new(Box::leak(Box::new(Descriptors::new())), Box::leak(Box::new(Calls::new())))))
        };
        std::thread::Builder::new().stack_size(64 << 20).spawn(make).unwrap().join().unwrap()
    }

    /// Makes this the object of another simulated process, which has nothing of the former one.
    #[cfg(test)]
    pub(crate) fn become_another(&'static self) {
        self.identity.forget();
        self.liveness_files.set(|files| *files = [OpenedFile::FREE; MEMBER_FILES_MAX]);
        self.file_locks.held.set(|held| *held = NO_LOCKS);
    }

    /// The calling thread. After a fork it is another holder.
    #[inline]
    pub(crate) fn current_thread(&'static self) -> Holder {
        Holder::new(self.identity.generation(), thread_number())
    }

    /// The entry of the calling thread, and its index. `None` if other threads use all entries that this thread may have.
    #[inline]
    pub(crate) fn calling_thread(&'static self) -> Option<(u16, &'static CallingThread)> {
        self.calls.current(&self.identity)
    }

    /// A number for a channel, unique in this process.
    pub(crate) fn next_channel(&self) -> u64 {
        self.channels.fetch_add(1, Relaxed) + 1
    }

    /// Makes [`Self::note_fork`] run in every child of `fork`.
    pub(crate) fn watch_forks(&'static self) {
        self.identity.generation();
        self.fork_handler.call_once(|| fork::run_in_children(in_child));
    }

    /// Called in a child of a fork. Async-signal-safe; further calls change nothing.
    pub(crate) fn note_fork(&'static self) {
        self.identity.note_fork();
    }
}

extern "C" fn in_child() {
    this_process().note_fork();
}

/// Whether this is a child that has the memory of its parent but a process id of its own (CLONE_VM without CLONE_THREAD), and
/// perhaps other descriptors. It uses what lies in memory as a thread does, and makes connections of its own.
#[inline]
#[must_use]
pub fn shares_memory() -> bool {
    this_process().identity.shares_memory()
}

/// Called before a child is created that shares this memory without being a thread (CLONE_VM without CLONE_THREAD).
/// `files_too`: it shares the descriptors as well. From then on the process id is read each time.
pub fn expect_sharing(files_too: bool) {
    this_process().identity.expect_sharing(files_too);
}

/// Registers a function that is called for each [`Event`].
///
/// Any call of this crate may call the function, which must not block. Only the first registration counts.
pub fn report_to(reporter: fn(Event)) {
    this_process().reports.register(reporter);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn no_other_module_has_a_static_with_a_state() {
        let mut faults = Vec::new();
        check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut faults);
        assert!(faults.is_empty(), "make it a member of Process: {faults:#?}");
    }

    fn check(directory: &Path, faults: &mut Vec<String>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                check(&path, faults);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && !["src/process.rs", "src/sys/simulated.rs"].iter().any(|file| path.ends_with(file))
            {
                let text = std::fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
                let statics = code.lines().map(str::trim_start).filter(|line| {
                    let item = line.strip_prefix("pub").map_or(*line, |rest| rest.split_once(' ').map_or("", |(_, item)| item));
                    item.starts_with("static ") || item.contains("thread_local!")
                });
                faults.extend(statics.map(|line| format!("{}: {line}", path.display())));
            }
        }
    }
}
