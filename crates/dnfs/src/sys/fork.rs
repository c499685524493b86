//! The identity of this process, and whether it has changed by a fork of any kind.
//!
//! `pthread_atfork` sees `fork` and nothing else: not `_Fork`, `clone` or a bare system call. So the identity is in a page that
//! the kernel gives to every child as zeros (MADV_WIPEONFORK): a load of one word suffices. Everything that belongs to one
//! process alone keeps the generation under which it was made, and compares it at each use.

use super::random::random;
use super::raw::process_id;
use core::ptr::NonNull;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64};

/// What no child gets from its parent.
#[derive(Debug)]
#[repr(C)]
struct Page {
    /// Generation in the low half, never 0 once known; process id in the high one, and above it [`ASK`].
    identity: AtomicU64,
    /// The number by which a server knows this process; 0 until it is asked for.
    process: AtomicU64,
}

/// Bit of `identity`: the word does not suffice, and the process id is read each time. Set if the kernel wipes no page, and
/// once there may be children that share the memory.
const ASK: u64 = 1 << 63;
const PAGE_BYTES: usize = 4096;

/// Which process this is. One static of the program holds it, so its address does not change.
#[derive(Debug)]
pub(crate) struct Identity {
    /// Null until the first use. Then a page that every child finds zeroed and that is never unmapped, or `copied`.
    page: AtomicPtr<Page>,
    /// Used if the kernel (before 4.14) has no such pages. The process id then detects a fork, which costs a system call.
    copied: Page,
    /// The last generation. A fork copies it, so that a child gets a generation that its memory has not seen.
    last: AtomicU32,
    /// A child that shares the memory may share the descriptors too.
    files_shared: AtomicBool,
}

impl Identity {
    pub(crate) const fn new() -> Self {
        Self {
            page: AtomicPtr::new(core::ptr::null_mut()),
            copied: Page { identity: AtomicU64::new(ASK), process: AtomicU64::new(0) },
            last: AtomicU32::new(0),
            files_shared: AtomicBool::new(false),
        }
    }

    /// The fork generation: what was made under another one belongs to another process. Never 0. Async-signal-safe. All threads
    /// of a new child get the same one, even if they ask at once.
    #[inline]
    pub(crate) fn generation(&'static self) -> u32 {
        self.word() as u32
    }

    /// The process id. Needs no system call unless [`ASK`] is set.
    #[inline]
    pub(crate) fn process_id(&'static self) -> u32 {
        (self.word() >> 32) as u32
    }

    /// Process id and generation.
    #[inline]
    fn word(&'static self) -> u64 {
        let Some(page) = self.known_page() else { return self.learn(self.first_page()) & !ASK };
        match page.identity.load(Acquire) {
            known if known as u32 != 0 && known & ASK == 0 => known,
            _ => self.learn(page) & !ASK,
        }
    }

    /// Whether this is a child that has the memory of its parent but a process id of its own (CLONE_VM without
    /// CLONE_THREAD), and perhaps other descriptors. It uses what lies in memory as a thread does, and makes connections of
    /// its own.
    #[inline]
    pub(crate) fn shares_memory(&'static self) -> bool {
        let Some(page) = self.known_page() else { return false };
        let known = page.identity.load(Acquire);
        known & ASK != 0 && self.is_wiped(page) && known as u32 != 0 && !is_of(known, process_id())
    }

    /// As [`Self::shares_memory`], and the child has other descriptors.
    pub(crate) fn shares_memory_alone(&'static self) -> bool {
        self.shares_memory() && !self.files_shared.load(Relaxed)
    }

    /// Called before a child is created that shares this memory without being a thread (CLONE_VM without CLONE_THREAD).
    /// `files_too`: it shares the descriptors as well. From then on the process id is read each time.
    pub(crate) fn expect_sharing(&'static self, files_too: bool) {
        self.generation();
        self.files_shared.fetch_or(files_too, Relaxed);
        self.page().identity.fetch_or(ASK, AcqRel);
    }

    /// Whether this is a child that shares memory and [`Self::expect_sharing`] was not called. Called before memory stores a
    /// descriptor. Notes the sharing.
    pub(crate) fn is_unexpected(&'static self) -> bool {
        let unexpected = self.is_wiped(self.page()) && !is_of(self.word(), process_id());
        if unexpected {
            self.expect_sharing(false);
        }
        unexpected
    }

    /// Called in a child: gives it its generation. Async-signal-safe; further calls change nothing.
    pub(crate) fn note_fork(&'static self) {
        if let Some(page) = self.known_page() {
            self.learn(page);
        }
    }

    /// Makes the next request learn another identity, as in a new process.
    #[cfg(test)]
    pub(crate) fn forget(&'static self) {
        self.page().identity.store(0, Relaxed);
        self.page().process.store(0, Relaxed);
    }

    /// A number for this process that is unique and cannot be guessed.
    pub(crate) fn number(&'static self) -> u64 {
        self.generation(); // the number in a copied page may be the parent's until then
        let process = &self.page().process;
        match process.load(Acquire) {
            0 => {
                let drawn = random().max(1);
                process.compare_exchange(0, drawn, Release, Acquire).map_or_else(|now| now, |_| drawn)
            }
            number => number,
        }
    }

    /// Discards the number `old`: the next request returns another.
    pub(crate) fn renew_number(&'static self, old: u64) {
        let _ = self.page().process.compare_exchange(old, 0, AcqRel, Relaxed);
    }

    /// Whether a child that has a copy of this page finds it zeroed.
    fn is_wiped(&self, page: &Page) -> bool {
        !core::ptr::eq(page, &raw const self.copied)
    }

    /// Determines the identity of this process. If several threads do so at once, all get the same result.
    #[cold]
    fn learn(&self, page: &Page) -> u64 {
        let pid = process_id();
        loop {
            let known = page.identity.load(Acquire);
            // On a wiped page, another process id belongs to a child that shares this memory.
            if known as u32 != 0 && (is_of(known, pid) || known & ASK != 0 && self.is_wiped(page)) {
                return known;
            }
            page.process.store(0, Relaxed); // as it is on a wiped page
            let next = known & ASK | u64::from(pid) << 32 | u64::from(self.next_generation());
            if page.identity.compare_exchange(known, next, AcqRel, Relaxed).is_ok() {
                return next;
            }
        }
    }

    fn next_generation(&self) -> u32 {
        loop {
            match self.last.fetch_add(1, Relaxed).wrapping_add(1) {
                0 => {}
                next => return next,
            }
        }
    }

    fn page(&'static self) -> &'static Page {
        self.known_page().unwrap_or_else(|| self.first_page())
    }

    #[inline]
    fn known_page(&'static self) -> Option<&'static Page> {
        // SAFETY: the pointer is null, or leads to `copied` of a static or to a page that is never unmapped. All fields are
        // atomics, for which zero is a value.
        unsafe { self.page.load(Acquire).as_ref() }
    }

    /// Creates the page. Only the first of several threads does.
    #[cold]
    fn first_page(&'static self) -> &'static Page {
        let mapped = map_wiped();
        let page = mapped.map_or(core::ptr::from_ref(&self.copied).cast_mut(), NonNull::as_ptr);
        let chosen = match self.page.compare_exchange(core::ptr::null_mut(), page, AcqRel, Acquire) {
            Ok(_) => page,
            Err(other) => {
                if let Some(mapped) = mapped {
                    // SAFETY: the page was mapped just now, and no other code has its address.
                    let _ = unsafe { munmap(mapped.as_ptr().cast(), PAGE_BYTES) };
                }
                other
            }
        };
        // SAFETY: as in `known_page`; it is not null.
        unsafe { &*chosen }
    }
}

const fn is_of(identity: u64, pid: u32) -> bool {
    ((identity & !ASK) >> 32) as u32 == pid
}

/// A page that every child finds zeroed. `None` if the kernel has no such pages.
fn map_wiped() -> Option<NonNull<Page>> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh mapping at an address of the kernel's choice disturbs no other memory.
    let page = unsafe { mmap_anonymous(core::ptr::null_mut(), PAGE_BYTES, access, MapFlags::PRIVATE) }.ok()?;
    // SAFETY: the page belongs to this call. The advice changes what a child finds there, and
    // nothing here.
    if unsafe { madvise(page, PAGE_BYTES, Advice::LinuxWipeOnFork) }.is_err() {
        // SAFETY: the page was mapped just now, and no other code has its address.
        let _ = unsafe { munmap(page, PAGE_BYTES) };
        return None;
    }
    NonNull::new(page.cast())
}

/// Makes `handler`, which must be async-signal-safe, run in every child of `fork`.
pub(crate) fn run_in_children(handler: extern "C" fn()) {
    // SAFETY: the handler lives as long as the process, since a library that registers a handler is not unloaded. If the
    // registration fails (no memory), the page detects the fork.
    unsafe { libc::pthread_atfork(None, None, Some(handler)) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::raw::call;

    /// Runs `work` in a child without fork handlers. Returns whether it returned true.
    fn in_bare_child(work: impl FnOnce() -> bool) -> bool {
        // SAFETY: a fork; the child runs `work` and `_exit`.
        let pid = unsafe { call(libc::SYS_clone, [libc::SIGCHLD as usize, 0, 0, 0, 0, 0]) } as i32;
        assert!(pid >= 0, "cannot fork");
        if pid == 0 {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(false);
            // SAFETY: ends the child without the parent's exit handlers.
            unsafe { libc::_exit(i32::from(!done)) };
        }
        let mut status = -1;
        // SAFETY: the kernel writes only `status`, which belongs to this frame.
        unsafe { libc::waitpid(pid, &raw mut status, 0) };
        status == 0
    }

    #[test]
    fn a_child_that_no_handler_sees_is_another_process_and_so_is_its_child() {
        static IDENTITY: Identity = Identity::new();
        let (generation, number) = (IDENTITY.generation(), IDENTITY.number());
        assert!(in_bare_child(|| {
            let (own_generation, own_number) = (IDENTITY.generation(), IDENTITY.number());
            own_generation != generation
                && own_number != number
                && IDENTITY.process_id() == process_id()
                && in_bare_child(|| ![own_generation, generation].contains(&IDENTITY.generation()))
        }));
        assert_eq!((IDENTITY.generation(), IDENTITY.number()), (generation, number));
    }

    #[test]
    fn threads_that_ask_at_once_in_a_new_process_get_one_answer() {
        let (identity, page) = (Identity::new(), Page { identity: AtomicU64::new(0), process: AtomicU64::new(0) });
        let seen: Vec<u64> = std::thread::scope(|scope| {
            let asked: Vec<_> = (0..8).map(|_| scope.spawn(|| identity.learn(&page))).collect();
            asked.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(seen.iter().all(|one| *one == seen[0] && *one as u32 != 0));
    }

    #[test]
    fn where_the_kernel_wipes_no_page_the_process_id_detects_a_fork() {
        let identity = Identity::new();
        let learned = || identity.learn(&identity.copied);
        let generation = learned() as u32;
        assert_eq!(learned() as u32, generation);
        assert!(in_bare_child(|| learned() as u32 != generation && learned() == learned()));
    }
}
