//! Who this process is, and whether it still is the same after a fork.

use super::random::random;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

static GENERATION: AtomicU32 = AtomicU32::new(0);
static HANDLER: Once = Once::new();
/// What a server knows this process by; 0 until it is asked for, and again after a fork.
static PROCESS: AtomicU64 = AtomicU64::new(0);
static CHANNELS: AtomicU64 = AtomicU64::new(0);

/// Counts the forks this process came through: a socket made under another count belongs to another process.
#[inline]
pub(crate) fn fork_generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// To be called in a child after fork; also runs by itself once [`watch_forks`] was called.
pub(crate) fn note_fork() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    PROCESS.store(0, Ordering::Relaxed);
}

/// Has [`note_fork`] run in every child of this process.
pub(crate) fn watch_forks() {
    HANDLER.call_once(|| {
        // SAFETY: the handler touches two atomics; it lives as long as the process, since a library that registers a handler
        // is not unloaded. A failure (no memory) leaves `after_fork_child`.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

unsafe extern "C" fn in_child() {
    note_fork();
}

/// A number for this process that no other has and nobody guesses.
pub(crate) fn process_number() -> u64 {
    match PROCESS.load(Ordering::Relaxed) {
        0 => {
            let drawn = random().max(1);
            PROCESS.compare_exchange(0, drawn, Ordering::Relaxed, Ordering::Relaxed).map_or_else(|now| now, |_| drawn)
        }
        number => number,
    }
}

/// Gives up the number `old`: the next one that is asked for is another.
pub(crate) fn renew_process_number(old: u64) {
    let _ = PROCESS.compare_exchange(old, 0, Ordering::Relaxed, Ordering::Relaxed);
}

/// A number for a channel, unlike all others of this process.
pub(crate) fn next_channel() -> u64 {
    CHANNELS.fetch_add(1, Ordering::Relaxed) + 1
}
