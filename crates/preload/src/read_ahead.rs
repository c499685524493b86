//! Sequential reads: a program that reads a file from front to back in small pieces is given them from memory, which is filled by large READs.
//!
//! What is in memory is dropped when a process of this host has written to the file or set its size since, when it is a second old, and at each open:
//! what another host wrote is seen then at the latest, as by a kernel's client. Reads that jump pay two comparisons. A signal handler that comes in while
//! memory is filled reads past it.

use crate::ffi;
use crate::open_file::Open;
use crate::outcome::Out;
use crate::raw;
use crate::table;
use dnfs::mount::{Changes, FileRef};
use std::io::IoSliceMut;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Files read ahead of at once, in one process.
const STREAMS: usize = 4;
/// Reads behind each other before one is taken for sequential; through a descriptor that may write, a database's mostly, which jumps as soon as it has
/// found its row.
const RUN_MIN: u32 = 3;
const RUN_MIN_TO_CHANGE: u32 = 16;
/// What is read at once, in bytes: the first time, and at most.
const WINDOW_BYTES_MIN: usize = 128 << 10;
const WINDOW_BYTES_MAX: usize = 2 << 20;
/// Longer reads are cut into READs that are in flight together anyhow.
const READ_BYTES_MAX: usize = 512 << 10;
/// Reads without it after it was read in vain.
const READS_PAST_MEMORY: u32 = 64;
/// How long memory may be used, in ns.
const AGE_NS_MAX: u64 = 1_000_000_000;

static ALL: [Stream; STREAMS] = [const { Stream::new() }; STREAMS];

/// Memory that is ahead of one descriptor.
struct Stream {
    /// Somebody uses it.
    used: AtomicBool,
    state: std::cell::UnsafeCell<State>,
}
// SAFETY: only who has set `used` touches the state.
unsafe impl Sync for Stream {}

struct State {
    memory: *mut u8, // WINDOW_BYTES_MAX bytes; NULL until the first use
    fd: i32,
    opened: u32, // which open of this descriptor's number
    file: FileRef,
    changes: Option<Changes>,
    filled_ns: u64,
    start: u64,
    bytes: usize,
    window: usize, // bytes to be read next time
    given: usize,  // bytes of it that were asked for
    skip: u32,     // reads to be done without it
}

/// A stream in use.
struct Used<'s>(&'s Stream);

impl Drop for Used<'_> {
    fn drop(&mut self) {
        self.0.used.store(false, Release);
    }
}

impl Stream {
    const fn new() -> Self {
        let file = FileRef { slot: 0, generation: 0 };
        let state = State {
            memory: std::ptr::null_mut(),
            fd: -1,
            opened: 0,
            file,
            changes: None,
            filled_ns: 0,
            start: 0,
            bytes: 0,
            window: 0,
            given: 0,
            skip: 0,
        };
        Self { used: AtomicBool::new(false), state: std::cell::UnsafeCell::new(state) }
    }

    fn try_use(&self) -> Option<Used<'_>> {
        (!self.used.swap(true, Acquire)).then_some(Used(self))
    }
}

impl Used<'_> {
    #[expect(clippy::mut_from_ref, reason = "`used` says that nobody else has it")]
    fn state(&self) -> &mut State {
        // SAFETY: this is the user.
        unsafe { &mut *self.0.state.get() }
    }
}

/// Reads by what is in memory, or fills that first; none: read as if there were none.
pub(crate) fn read(open: &Open, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> Option<Result<usize, Out>> {
    let wanted: usize = buffers.iter().map(|buffer| buffer.len()).sum();
    let (run, opened) = table::note_read(open.fd, offset, wanted)?;
    let run_min = if open.flags & libc::O_ACCMODE == libc::O_RDONLY { RUN_MIN } else { RUN_MIN_TO_CHANGE };
    if run < run_min || wanted == 0 || wanted > READ_BYTES_MAX || open.flags & libc::O_DIRECT != 0 || !open.may_read_ahead() {
        return None;
    }
    let used = stream_of(open, opened)?;
    let state = used.state();
    if state.fd != open.fd || state.opened != opened || state.file != open.file {
        (state.fd, state.opened, state.file, state.bytes) = (open.fd, opened, open.file, 0);
        (state.window, state.given, state.skip) = (WINDOW_BYTES_MIN, 0, 0);
    }
    if state.skip > 0 {
        state.skip -= 1;
        return None;
    }
    if !state.has(open, offset, wanted) {
        match state.fill(open, offset, wanted) {
            Some(Ok(())) => {}
            Some(Err(out)) => return Some(Err(out)),
            None => return None,
        }
    }
    Some(Ok(state.give(offset, buffers)))
}

/// The stream of a descriptor, or of those that were used up, or are old, the one that was filled longest ago.
fn stream_of(open: &Open, opened: u32) -> Option<Used<'static>> {
    let is_its = |state: &State| state.fd == open.fd && state.opened == opened && state.file == open.file;
    if let Some(used) = ALL.iter().filter_map(Stream::try_use).find(|used| is_its(used.state())) {
        return Some(used);
    }
    // With more sequential readers than streams each would drop what another is about to ask for.
    let now_ns = raw::monotonic_ns();
    let is_over = |state: &State| state.given >= state.bytes / 2 || now_ns >= state.filled_ns + AGE_NS_MAX;
    let over = ALL.iter().filter_map(Stream::try_use).filter(|used| is_over(used.state()));
    over.min_by_key(|used| used.state().filled_ns)
}

impl State {
    /// Whether all these bytes are in memory, and still what the server has.
    fn has(&self, open: &Open, offset: u64, wanted: usize) -> bool {
        let end = self.start + self.bytes as u64;
        let inside = self.bytes > 0 && self.start <= offset && offset + wanted as u64 <= end;
        inside
            && self.changes.is_some()
            && self.changes == open.mount.changes(self.file)
            && raw::monotonic_ns() < self.filled_ns + AGE_NS_MAX
    }

    /// Fills it from an offset on; none when there is no memory.
    fn fill(&mut self, open: &Open, offset: u64, wanted: usize) -> Option<Result<(), Out>> {
        if self.memory.is_null() {
            self.memory = raw::map(WINDOW_BYTES_MAX)?;
        }
        if self.given < self.bytes / 2 {
            // It was dropped before it was used: somebody writes there.
            (self.window, self.skip, self.bytes) = (WINDOW_BYTES_MIN, READS_PAST_MEMORY, 0);
            return None;
        }
        let window = self.window.clamp(wanted, WINDOW_BYTES_MAX);
        self.window = (self.window * 4).min(WINDOW_BYTES_MAX);
        (self.bytes, self.given) = (0, 0);
        // Before the READ is sent: what is written meanwhile is seen.
        self.changes = open.mount.changes(self.file);
        self.filled_ns = raw::monotonic_ns();
        // SAFETY: memory of that size, which only the user of the stream touches.
        let memory = unsafe { ffi::bytes_mut(self.memory.cast(), window) };
        let read = open.read_past_memory(offset, &mut [IoSliceMut::new(memory)]);
        Some(read.map(|bytes| (self.start, self.bytes) = (offset, bytes)))
    }

    /// Copies what there is from an offset on: fewer bytes than there is room for only at the end of the file.
    fn give(&mut self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> usize {
        // SAFETY: so many bytes were read into it.
        let memory = unsafe { ffi::bytes(self.memory.cast_const().cast(), self.bytes) };
        let mut from = memory.get((offset - self.start) as usize..).unwrap_or_default();
        let all = from.len();
        for buffer in buffers {
            let count = buffer.len().min(from.len());
            buffer[..count].copy_from_slice(&from[..count]);
            from = &from[count..];
        }
        let given = all - from.len();
        self.given += given;
        given
    }
}
