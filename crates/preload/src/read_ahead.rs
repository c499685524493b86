//! Serves sequential reads, and reads that a program announced, from memory that early READs fill
//! (`dnfs::mount::EarlyRead` documents when that memory may be used).
//!
//! If a program reads a file sequentially in small pieces, the next window is in flight when half
//! of the current one is left. Other reads cost two comparisons more.

use crate::open_file::Open;
use crate::outcome::Out;
use crate::raw;
use crate::table::{self, Noted};
use dnfs::mount::EarlyRead;
use libc::c_int;
use std::io::IoSliceMut;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Maximum number of descriptors with read-ahead at the same time in one process.
const STREAMS: usize = 4;
/// Number of consecutive reads after which a reader counts as sequential. The larger one is for a
/// descriptor that may write, usually a database's, whose reads jump as soon as it has found its
/// row.
const RUN_MIN: u32 = 3;
const RUN_MIN_TO_CHANGE: u32 = 16;
/// Bytes that are read ahead of a reader: at first, at first for a program that announced
/// sequential reads, and at most. 4 MiB are 800 MB/s from a server whose replies take 5 ms.
const WINDOW_BYTES_MIN: usize = 128 << 10;
const WINDOW_BYTES_ANNOUNCED: usize = 512 << 10;
const WINDOW_BYTES_MAX: usize = 4 << 20;
/// Maximum bytes requested at once while the window moves: those of one READ.
const STEP_BYTES_MAX: usize = 512 << 10;
/// Bytes. A database skips pages that it has, so a gap of this size does not end sequential reading.
const GAP_BYTES_MAX: u64 = 256 << 10;
/// Bytes. The client splits longer reads into several READs in flight, so they need no read-ahead.
const READ_BYTES_MAX: usize = 1 << 20;
/// Maximum bytes that a program can have read ahead by one call.
const HINT_BYTES_MAX: u64 = 2 << 20;
/// Number of reads without read-ahead after its data was not used.
const READS_PAST_MEMORY: u32 = 64;
/// Nanoseconds. A window that lasts longer is too large, because its data may be used for only one second.
const WINDOW_NS_MAX: u64 = 300_000_000;
/// Nanoseconds for which a descriptor keeps its stream without a read.
const AGE_NS_MAX: u64 = 1_000_000_000;

static ALL: [Stream; STREAMS] = [const { Stream::new() }; STREAMS];

/// The read-ahead of one descriptor.
struct Stream {
    /// True while a thread uses the stream.
    used: AtomicBool,
    state: std::cell::UnsafeCell<State>,
}
// SAFETY: only the thread that set `used` accesses the state.
unsafe impl Sync for Stream {}

#[derive(Clone, Copy)]
struct State {
    reader: u64,
    /// Offset at which the last read ended.
    next: u64,
    /// Whether the program has skipped bytes before `next`.
    has_gaps: bool,
    /// Offsets for which READs were sent.
    start: u64,
    end: u64,
    /// Bytes to read ahead the next time.
    window: usize,
    /// A read that ends before this offset sends no READ, because the last one had no place for it,
    /// or there was nothing to read.
    pause: u64,
    /// Times at which the last window was sent, and at which the last read came.
    sent_ns: u64,
    read_ns: u64,
    /// Bytes since `start` that the program has read.
    given: u64,
    /// Number of next reads that do not use this stream.
    skip: u32,
}

/// A stream that this thread uses.
struct Used<'s>(&'s Stream);

impl Drop for Used<'_> {
    fn drop(&mut self) {
        self.0.used.store(false, Release);
    }
}

impl State {
    const fn of(reader: u64, window: usize) -> Self {
        Self { reader, next: 0, has_gaps: false, start: 0, end: 0, window, pause: 0, sent_ns: 0, read_ns: 0, given: 0, skip: 0 }
    }
}

impl Stream {
    const fn new() -> Self {
        Self { used: AtomicBool::new(false), state: std::cell::UnsafeCell::new(State::of(0, WINDOW_BYTES_MIN)) }
    }

    fn try_use(&self) -> Option<Used<'_>> {
        (!self.used.swap(true, Acquire)).then_some(Used(self))
    }
}

impl Used<'_> {
    #[expect(clippy::mut_from_ref, reason = "`used` says that nobody else has it")]
    fn state(&self) -> &mut State {
        // SAFETY: this thread set `used`, so no other thread has a reference; callers use one
        // reference at a time.
        unsafe { &mut *self.0.state.get() }
    }
}

/// Reads from data that was read ahead. `None` if the caller must read from the server.
pub(crate) fn read(open: &Open, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> Option<Result<usize, Out>> {
    let wanted: usize = buffers.iter().map(|buffer| buffer.len()).sum();
    let noted = table::note_read(open.fd, offset, wanted)?;
    let is_sequential = noted.run >= run_min(open, noted.advice);
    if !is_sequential && !open.mount.has_early_reads() || wanted == 0 || !may_read_ahead(open) {
        return None;
    }
    let early = early_read(open, &noted);
    let stream = match wanted <= READ_BYTES_MAX {
        true if is_sequential => stream_of(early.reader, noted.advice),
        true if noted.advice != libc::POSIX_FADV_RANDOM => {
            own_stream(early.reader).filter(|used| used.state().goes_on_at(offset))
        }
        _ => None,
    };
    if let Some(used) = stream {
        return used.state().read(open, &early, offset, buffers, wanted);
    }
    take(open, &early, offset, buffers)
}

/// posix_fadvise(2) and readahead(2): follows the advice for a range. If `bytes` is 0, the range
/// extends to the end of the file.
pub(crate) fn advised(open: &Open, offset: u64, bytes: u64, advice: c_int) {
    let range = offset..if bytes == 0 { u64::MAX } else { offset.saturating_add(bytes) };
    match advice {
        libc::POSIX_FADV_WILLNEED => {
            let reads = open.flags & libc::O_ACCMODE != libc::O_WRONLY;
            if reads && may_read_ahead(open) {
                let bytes = (range.end - range.start).min(HINT_BYTES_MAX) as usize;
                let _ = open.mount.read_early(&early_read(open, &table::noted(open.fd)), offset, bytes);
            }
        }
        libc::POSIX_FADV_DONTNEED => forget(open, &range),
        libc::POSIX_FADV_NORMAL | libc::POSIX_FADV_SEQUENTIAL | libc::POSIX_FADV_RANDOM => table::advise(open.fd, advice),
        _ => {}
    }
}

fn forget(open: &Open, range: &Range<u64>) {
    open.mount.forget_early(open.file, None, range);
    let reader = early_read(open, &table::noted(open.fd)).reader;
    if let Some(used) = own_stream(reader) {
        *used.state() = State::of(reader, used.state().window);
    }
}

fn run_min(open: &Open, advice: c_int) -> u32 {
    match advice {
        libc::POSIX_FADV_RANDOM => u32::MAX,
        libc::POSIX_FADV_SEQUENTIAL => 0,
        _ if open.flags & libc::O_ACCMODE == libc::O_RDONLY => RUN_MIN,
        _ => RUN_MIN_TO_CHANGE,
    }
}

/// Whether bytes of this open may be kept for later reads.
pub(crate) fn may_read_ahead(open: &Open) -> bool {
    open.flags & libc::O_DIRECT == 0 && open.mount.may_read_ahead() && !open.mount.has_stores(open.file)
}

fn early_read(open: &Open, noted: &Noted) -> EarlyRead<'static> {
    let cursor = (open.flags & libc::O_ACCMODE != libc::O_RDONLY).then_some(open.cursor);
    EarlyRead { reader: (open.fd as u64) << 32 | u64::from(noted.opened), file: open.file, cursor }
}

fn take(open: &Open, early: &EarlyRead<'_>, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> Option<Result<usize, Out>> {
    Some(open.mount.take_early(early, offset, buffers)?.map_err(Out::from))
}

/// The stream of a descriptor, if it has one.
fn own_stream(reader: u64) -> Option<Used<'static>> {
    ALL.iter().filter_map(Stream::try_use).find(|used| used.state().reader == reader)
}

/// The descriptor's stream. If it has none, takes the stream with the oldest last read among those
/// that were used up or are old.
fn stream_of(reader: u64, advice: c_int) -> Option<Used<'static>> {
    if let Some(used) = own_stream(reader) {
        return Some(used);
    }
    // With more sequential readers than streams, each would otherwise drop data that another reads next.
    let now_ns = raw::monotonic_ns();
    let is_over = |state: &State| state.given >= state.end - state.start || now_ns >= state.read_ns + AGE_NS_MAX;
    let over = ALL.iter().filter_map(Stream::try_use).filter(|used| is_over(used.state()));
    let used = over.min_by_key(|used| used.state().read_ns)?;
    *used.state() =
        State::of(reader, if advice == libc::POSIX_FADV_SEQUENTIAL { WINDOW_BYTES_ANNOUNCED } else { WINDOW_BYTES_MIN });
    Some(used)
}

impl State {
    /// Whether a read at this offset is the next one of this stream.
    fn goes_on_at(&self, offset: u64) -> bool {
        (self.next..=self.next + GAP_BYTES_MAX).contains(&offset) && offset < self.end
    }

    fn read(
        &mut self,
        open: &Open,
        early: &EarlyRead<'_>,
        offset: u64,
        buffers: &mut [IoSliceMut<'_>],
        wanted: usize,
    ) -> Option<Result<usize, Out>> {
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        let now_ns = raw::monotonic_ns();
        self.read_ns = now_ns;
        if (self.start..self.end).contains(&offset) {
            self.has_gaps |= offset != self.next;
        } else {
            (self.start, self.end, self.given, self.pause) = (offset, offset, 0, 0);
        }
        let after = offset + wanted as u64;
        self.next = after;
        let step = (self.window / 2).min(STEP_BYTES_MAX);
        if self.end + step as u64 <= after + self.window as u64 && after >= self.pause {
            self.pause = after + step as u64;
            self.send(open, early, after + self.window as u64, now_ns);
        }
        if self.end <= offset {
            return None; // the end of the file, or data that cannot be read early
        }
        match take(open, early, offset, buffers) {
            Some(Ok(bytes)) => {
                self.given += bytes as u64;
                Some(Ok(bytes))
            }
            Some(error) => Some(error),
            None => {
                if self.given < (self.end - self.start) / 2 {
                    // The data was dropped before its use, because a process writes to the file.
                    (self.window, self.skip) = (WINDOW_BYTES_MIN, READS_PAST_MEMORY);
                }
                (self.start, self.end, self.given) = (0, 0, 0);
                None
            }
        }
    }

    /// Sends READs up to an offset.
    fn send(&mut self, open: &Open, early: &EarlyRead<'_>, to: u64, now_ns: u64) {
        if self.has_gaps {
            // The program will not read skipped data any more.
            let behind = self.next.saturating_sub(2 * STEP_BYTES_MAX as u64);
            open.mount.forget_early(open.file, Some(early.reader), &(0..behind));
            self.has_gaps = false;
        }
        let end = open.mount.read_early(early, self.end, (to - self.end) as usize);
        if end > self.end {
            // Nanoseconds that the complete window would last at the rate since the last time.
            let lasts_ns = now_ns.saturating_sub(self.sent_ns).saturating_mul(self.window as u64 / (end - self.end).max(1));
            let is_slow = lasts_ns > WINDOW_NS_MAX && self.sent_ns != 0;
            let next = if is_slow { self.window / 4 } else { self.window * 4 };
            self.window = next.clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX);
            (self.end, self.sent_ns) = (end, now_ns);
        }
    }
}
