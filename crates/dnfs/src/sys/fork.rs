//! The identity of this process, and whether it has changed by a fork of any kind.
//!
//! `pthread_atfork` sees `fork` and nothing else: not `_Fork`, `clone` or a bare system call. So the answer lies in a page that
//! the kernel hands to every child as zeros (MADV_WIPEONFORK): a load of one word tells. All that belongs to a process
//! alone keeps the generation it was made under and compares it at each use.

use super::random::random;
use super::raw::process_id;
use core::ptr::NonNull;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::sync::Once;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64};

/// What no child has of its parent.
#[derive(Debug)]
#[repr(C)]
struct Page {
    /// Generation in the low half, never 0 once known; process id in the high one, and above it [`ASK`].
    identity: AtomicU64,
    /// What a server knows this process by; 0 until it is asked for.
    process: AtomicU64,
}

/// The word alone does not tell: the process id is asked for each time. Set where the kernel wipes no page, and once there may be
/// children that share the memory.
const ASK: u64 = 1 << 63;
const PAGE_BYTES: usize = 4096;

/// Stands in where the kernel (before 4.14) gives no such page: then the process id tells, which costs a system call.
static COPIED: Page = Page { identity: AtomicU64::new(ASK), process: AtomicU64::new(0) };
static PAGE: AtomicPtr<Page> = AtomicPtr::new(core::ptr::null_mut());
/// The last generation given out. Copied by forks, so that a child's is none that its memory has met.
static LAST: AtomicU32 = AtomicU32::new(0);
/// A child that shares the memory may share the descriptors too.
static FILES_SHARED: AtomicBool = AtomicBool::new(false);
static HANDLER: Once = Once::new();
static CHANNELS: AtomicU64 = AtomicU64::new(0);

/// Tells the forks apart that this process came through: what was made under another generation belongs to another process.
/// Async-signal-safe, and right for threads that ask at once in a new child.
#[inline]
pub(crate) fn fork_generation() -> u32 {
    identity() as u32
}

/// This process, without a system call.
#[inline]
pub(crate) fn known_process_id() -> u32 {
    (identity() >> 32) as u32
}

/// Process id and generation.
#[inline]
fn identity() -> u64 {
    let page = PAGE.load(Acquire);
    // SAFETY: null, or a page that is never unmapped and holds atomics.
    match unsafe { page.as_ref() } {
        Some(page) => match page.identity.load(Acquire) {
            known if known as u32 != 0 && known & ASK == 0 => known,
            _ => learn(page) & !ASK,
        },
        None => learn(first_page()) & !ASK,
    }
}

/// Whether this is a child that has the memory of its parent and not its process id (CLONE_VM without CLONE_THREAD), and perhaps
/// other descriptors: it takes part in what lies in memory, as a thread does, and makes connections of its own.
#[inline]
#[must_use]
pub fn shares_memory() -> bool {
    let page = PAGE.load(Acquire);
    // SAFETY: as in `identity`.
    let Some(page) = (unsafe { page.as_ref() }) else { return false };
    let known = page.identity.load(Acquire);
    known & ASK != 0 && is_wiped(page) && known as u32 != 0 && !is_of(known, process_id())
}

/// As [`shares_memory`], for a child that may share the descriptors too.
pub(crate) fn shares_memory_alone() -> bool {
    shares_memory() && !FILES_SHARED.load(Relaxed)
}

/// Called before a child is created that shares this memory without being a thread (CLONE_VM without CLONE_THREAD).
/// `files_too`: it shares the descriptors as well. From then on the process id is read each time.
pub fn expect_sharing(files_too: bool) {
    fork_generation();
    FILES_SHARED.fetch_or(files_too, Relaxed);
    page().identity.fetch_or(ASK, AcqRel);
}

/// Whether this is such a child and [`expect_sharing`] was not called. Called before memory stores a descriptor. Notes the
/// sharing.
pub(crate) fn is_unexpected() -> bool {
    let unexpected = is_wiped(page()) && !is_of(identity(), process_id());
    if unexpected {
        expect_sharing(false);
    }
    unexpected
}

/// Whether a child that has a copy of this page finds it zeroed.
fn is_wiped(page: &Page) -> bool {
    !core::ptr::eq(page, &raw const COPIED)
}

const fn is_of(identity: u64, pid: u32) -> bool {
    ((identity & !ASK) >> 32) as u32 == pid
}

/// Determines the identity of this process. If several threads do so at once, all get the same result.
#[cold]
fn learn(page: &Page) -> u64 {
    let pid = process_id();
    loop {
        let known = page.identity.load(Acquire);
        // On a page that was wiped, another process id belongs to a child that shares this memory.
        if known as u32 != 0 && (is_of(known, pid) || known & ASK != 0 && is_wiped(page)) {
            return known;
        }
        page.process.store(0, Relaxed); // as it is on a wiped page
        let next = known & ASK | u64::from(pid) << 32 | u64::from(next_generation());
        if page.identity.compare_exchange(known, next, AcqRel, Relaxed).is_ok() {
            return next;
        }
    }
}

fn next_generation() -> u32 {
    loop {
        match LAST.fetch_add(1, Relaxed).wrapping_add(1) {
            0 => {}
            next => return next,
        }
    }
}

/// Creates the page. Only the first of several threads does.
#[cold]
fn first_page() -> &'static Page {
    let mapped = map_wiped();
    let page = mapped.map_or(core::ptr::from_ref(&COPIED).cast_mut(), NonNull::as_ptr);
    let chosen = match PAGE.compare_exchange(core::ptr::null_mut(), page, AcqRel, Acquire) {
        Ok(_) => page,
        Err(other) => {
            if let Some(mapped) = mapped {
                // SAFETY: mapped just now, and shown to nobody.
                let _ = unsafe { munmap(mapped.as_ptr().cast(), PAGE_BYTES) };
            }
            other
        }
    };
    // SAFETY: never null, never unmapped; all fields are atomics, of which zeros are a value.
    unsafe { &*chosen }
}

/// A page that every child finds zeroed. `None` if the kernel has no such pages.
fn map_wiped() -> Option<NonNull<Page>> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh mapping at an address of the kernel's choice disturbs no other memory.
    let page = unsafe { mmap_anonymous(core::ptr::null_mut(), PAGE_BYTES, access, MapFlags::PRIVATE) }.ok()?;
    // SAFETY: the page is ours; the advice changes what a child finds there, and nothing here.
    if unsafe { madvise(page, PAGE_BYTES, Advice::LinuxWipeOnFork) }.is_err() {
        // SAFETY: mapped just now, and shown to nobody.
        let _ = unsafe { munmap(page, PAGE_BYTES) };
        return None;
    }
    NonNull::new(page.cast())
}

/// Called in a child. Async-signal-safe; further calls change nothing.
pub(crate) fn note_fork() {
    // SAFETY: as in `identity`.
    if let Some(page) = unsafe { PAGE.load(Acquire).as_ref() } {
        learn(page);
    }
}

/// Makes [`note_fork`] run in every child of `fork`.
pub(crate) fn watch_forks() {
    fork_generation();
    HANDLER.call_once(|| {
        // SAFETY: the handler touches atomics and asks for the process id; it lives as long as the process, since a library
        // that registers a handler is not unloaded. A failure (no memory) leaves the page.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

unsafe extern "C" fn in_child() {
    note_fork();
}

/// A number for this process that is unique and cannot be guessed.
pub(crate) fn process_number() -> u64 {
    fork_generation(); // the number in a copied page may be the parent's until then
    let process = &page().process;
    match process.load(Acquire) {
        0 => {
            let drawn = random().max(1);
            process.compare_exchange(0, drawn, Release, Acquire).map_or_else(|now| now, |_| drawn)
        }
        number => number,
    }
}

/// Discards the number `old`: the next request returns another.
pub(crate) fn renew_process_number(old: u64) {
    let _ = page().process.compare_exchange(old, 0, AcqRel, Relaxed);
}

fn page() -> &'static Page {
    // SAFETY: as in `identity`.
    unsafe { PAGE.load(Acquire).as_ref() }.unwrap_or_else(first_page)
}

/// A number for a channel, unique in this process.
pub(crate) fn next_channel() -> u64 {
    CHANNELS.fetch_add(1, Relaxed) + 1
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
        // SAFETY: `status` is ours to be written.
        unsafe { libc::waitpid(pid, &raw mut status, 0) };
        status == 0
    }

    #[test]
    fn a_child_that_no_handler_sees_is_another_process_and_so_is_its_child() {
        let (generation, number) = (fork_generation(), process_number());
        assert!(in_bare_child(|| {
            let (own_generation, own_number) = (fork_generation(), process_number());
            own_generation != generation
                && own_number != number
                && known_process_id() == process_id()
                && in_bare_child(|| ![own_generation, generation].contains(&fork_generation()))
        }));
        assert_eq!((fork_generation(), process_number()), (generation, number));
    }

    #[test]
    fn threads_that_ask_at_once_in_a_new_process_get_one_answer() {
        let page = Page { identity: AtomicU64::new(0), process: AtomicU64::new(0) };
        let seen: Vec<u64> = std::thread::scope(|scope| {
            let asked: Vec<_> = (0..8).map(|_| scope.spawn(|| learn(&page))).collect();
            asked.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(seen.iter().all(|one| *one == seen[0] && *one as u32 != 0));
    }

    #[test]
    fn where_the_kernel_wipes_no_page_the_process_id_tells() {
        let generation = learn(&COPIED) as u32;
        assert_eq!(learn(&COPIED) as u32, generation);
        assert!(in_bare_child(|| learn(&COPIED) as u32 != generation && learn(&COPIED) == learn(&COPIED)));
    }
}
