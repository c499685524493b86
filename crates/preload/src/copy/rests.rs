//! Bytes that sendfile read from a file of a mount and a non-blocking socket did not accept. The next call of the same open at
//! that offset sends them first, so that the client does not read the file many times for a slow receiver.
//!
//! The conditions are those of bytes that were read ahead: no process of this host wrote to the file since, and the bytes are
//! less than a second old.

use crate::ffi;
use crate::open_file::Open;
use crate::raw;
use crate::read_ahead;
use crate::table;
use dnfs::mount::Changes;
use libc::c_int;
use std::cell::UnsafeCell;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Opens that can have a rest at the same time.
const RESTS_MAX: usize = 64;
/// Maximum bytes of one rest.
const BYTES_MAX: usize = super::steps::BUFFER_BYTES;
/// Largest age of a rest, in ns: that of bytes that were read ahead.
const AGE_NS_MAX: u64 = 1_000_000_000;

static ALL: [Place; RESTS_MAX] = [const { Place::new() }; RESTS_MAX];

struct Place {
    /// True while a thread uses the place.
    used: AtomicBool,
    rest: UnsafeCell<Rest>,
}

// SAFETY: only the thread that set `used` accesses the rest.
unsafe impl Sync for Place {}

struct Rest {
    of: Option<Moment>,
    offset: u64,
    bytes: usize,
    /// A mapping of BYTES_MAX bytes, made with the first rest; NULL before.
    memory: *mut u8,
}

/// The open, and the time and the state of the file before bytes were read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    fd: c_int,
    opened: u32,
    changes: Changes,
    at_ns: u64,
}

impl Moment {
    /// `None` if no bytes of this open may be kept.
    pub(super) fn of(file: &Open) -> Option<Self> {
        let is_read_only = file.flags & libc::O_ACCMODE == libc::O_RDONLY; // reads of other opens report lost writes
        let changes = file.mount.changes(file.file).filter(|_| is_read_only && read_ahead::may_read_ahead(file))?;
        Some(Self { fd: file.fd, opened: table::noted(file.fd).opened, changes, at_ns: raw::monotonic_ns() })
    }

    fn is_of(&self, now: &Self) -> bool {
        (self.fd, self.opened) == (now.fd, now.opened)
    }

    fn is_good(&self, now: &Self) -> bool {
        self.is_of(now) && self.changes == now.changes && now.at_ns < self.at_ns + AGE_NS_MAX
    }
}

/// A place that this thread uses.
struct Used<'p>(&'p Place);

impl Used<'_> {
    #[expect(clippy::mut_from_ref, reason = "`used` keeps all other threads away")]
    fn rest(&self) -> &mut Rest {
        // SAFETY: this thread set `used`, so no other thread has a reference; callers use one
        // reference at a time.
        unsafe { &mut *self.0.rest.get() }
    }
}

impl Drop for Used<'_> {
    fn drop(&mut self) {
        self.0.used.store(false, Release);
    }
}

impl Place {
    const fn new() -> Self {
        let rest = Rest { of: None, offset: 0, bytes: 0, memory: std::ptr::null_mut() };
        Self { used: AtomicBool::new(false), rest: UnsafeCell::new(rest) }
    }

    fn try_use(&self) -> Option<Used<'_>> {
        (!self.used.swap(true, Acquire)).then_some(Used(self))
    }
}

impl Rest {
    fn memory(&mut self) -> &mut [u8] {
        // SAFETY: `memory` is NULL, or a mapping of BYTES_MAX bytes that only this place uses.
        unsafe { ffi::bytes_mut(self.memory.cast(), BYTES_MAX) }
    }
}

/// Takes the bytes that are kept from `offset` on. Returns their number, and the moment before they
/// were read.
pub(super) fn take(now: &Moment, offset: u64, into: &mut [u8]) -> Option<(usize, Moment)> {
    let is_it = |used: &Used<'_>| used.rest().of.is_some_and(|of| of.is_good(now)) && used.rest().offset == offset;
    let used = ALL.iter().filter_map(Place::try_use).find(is_it)?;
    let rest = used.rest();
    let count = rest.bytes.min(into.len());
    into[..count].copy_from_slice(&rest.memory()[..count]);
    let of = rest.of?;
    if count == rest.bytes {
        rest.of = None;
    } else {
        let end = rest.bytes;
        rest.memory().copy_within(count..end, 0);
        (rest.offset, rest.bytes) = (offset + count as u64, rest.bytes - count);
    }
    Some((count, of))
}

/// Whether bytes that are read now can be kept without dropping those of another open.
pub(super) fn has_room(now: &Moment) -> bool {
    let is_free = |used: &Used<'_>| used.rest().of.is_none_or(|of| of.is_of(now) || now.at_ns >= of.at_ns + AGE_NS_MAX);
    ALL.iter().filter_map(Place::try_use).any(|used| is_free(&used))
}

/// Keeps bytes that were read after a moment. Kept bytes of the same moment that follow them stay.
pub(super) fn keep(of: Moment, offset: u64, bytes: &[u8]) {
    let places = || ALL.iter().filter_map(Place::try_use);
    let own = |used: &Used<'_>| used.rest().of.is_some_and(|there| there.is_of(&of));
    let oldest = || places().min_by_key(|used| used.rest().of.map_or(0, |there| there.at_ns));
    let Some(used) = places().find(own).or_else(oldest) else { return };
    let rest = used.rest();
    if rest.memory.is_null() {
        let Some(memory) = raw::map(BYTES_MAX) else { return };
        rest.memory = memory;
    }
    let follows = rest.of == Some(of) && rest.offset == offset + bytes.len() as u64;
    let behind = if follows { rest.bytes.min(BYTES_MAX - bytes.len()) } else { 0 };
    rest.memory().copy_within(..behind, bytes.len());
    rest.memory()[..bytes.len()].copy_from_slice(bytes);
    (rest.of, rest.offset, rest.bytes) = (Some(of), offset, bytes.len() + behind);
}
