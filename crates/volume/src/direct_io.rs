//! Direct transfers, which bypass the page cache (O_DIRECT): their conditions, and the aligned memory they need.

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use crate::counters::Counted;
use crate::descriptor::Descriptor;
use crate::in_flight::InFlightGuard;
use crate::limits::{DIRECT_ALIGN_BYTES, DIRECT_BYTES_MAX};
use crate::node::Node;
use crate::options::CacheMode;
use crate::sys;
use crate::volume::VolumeInner;
use crate::write_turns::{Turn, WriteTurns};

/// A change of a file through the page cache. It ends when this is dropped.
pub(crate) struct Buffered<'n> {
    _in_flight: Option<InFlightGuard<'n>>,
    _turn: Turn<'n>,
}

impl VolumeInner {
    /// Held during each change that makes pages of the file dirty. The change waits for its turn, and for direct writes if there are any.
    pub(crate) fn begin_buffered<'n>(&self, node: &'n Node) -> Buffered<'n> {
        self.begin_turn(node, &node.0.cached_turns)
    }

    /// As [`Self::begin_buffered`], for a write that is durable when it ends.
    pub(crate) fn begin_buffered_durable<'n>(&self, node: &'n Node) -> Buffered<'n> {
        self.begin_turn(node, &node.0.durable_turns)
    }

    fn begin_turn<'n>(&self, node: &'n Node, turns: &'n WriteTurns) -> Buffered<'n> {
        let turn = turns.begin();
        let in_flight = self.options.cache.writes_direct().then(|| node.0.in_flight.buffered());
        Buffered { _in_flight: in_flight, _turn: turn }
    }

    /// Writes directly, if the cache mode allows it, the transfer is aligned and inside the file, the file has no holes and no dirty
    /// pages, and no buffered change is in flight. `None` if one of these does not hold, or the host refuses; then nothing is written.
    ///
    /// **Durability**: by `flags`, RWF_DSYNC or RWF_SYNC.
    pub(crate) fn write_direct(
        &self,
        node: &Node,
        descriptor: &Descriptor,
        offset: u64,
        data: &[u8],
        flags: libc::c_int,
    ) -> Option<std::io::Result<usize>> {
        let may = self.options.cache.writes_direct();
        let fd = may.then(|| direct_descriptor(descriptor, offset, data.len()))??;
        let stat = sys::stat_untimed(descriptor).ok()?;
        let allocated = stat.size.min(stat.blocks.saturating_mul(512));
        if stat.blocks.saturating_mul(512) < stat.size || offset + data.len() as u64 > allocated {
            return None;
        }
        let _in_flight = node.0.in_flight.direct(|| !node.0.has_cached_data())?;
        let written = with_aligned(data.len(), |buffer| {
            buffer.copy_from_slice(data);
            sys::pwrite_with(fd, buffer, offset, flags)
        });
        match written {
            Err(error) if is_unsupported(&error) => {
                descriptor.refuse_direct();
                None
            }
            other => {
                Counted::add(&self.counted.direct_writes);
                Some(other)
            }
        }
    }

    /// Reads directly, if the cache mode allows it, the transfer is aligned, and the file has no dirty pages. The host keeps such a read
    /// coherent with the page cache. `None` if one of these does not hold, or the host refuses; then nothing is read.
    pub(crate) fn read_direct(
        &self,
        node: &Node,
        descriptor: &Descriptor,
        offset: u64,
        buf: &mut [u8],
    ) -> Option<std::io::Result<usize>> {
        let fd = self.read_descriptor(node, descriptor, offset, buf.len())?;
        let read = with_aligned(buf.len(), |buffer| {
            let bytes = sys::pread_with(fd, buffer, offset, 0)?;
            buf[..bytes].copy_from_slice(&buffer[..bytes]);
            Ok(bytes)
        });
        match read {
            Err(error) if is_unsupported(&error) => {
                descriptor.refuse_direct();
                None
            }
            other => {
                Counted::add(&self.counted.direct_reads);
                Some(other)
            }
        }
    }

    /// Whether a read would be direct.
    pub(crate) fn reads_direct(&self, node: &Node, descriptor: &Descriptor, offset: u64, len: usize) -> bool {
        self.read_descriptor(node, descriptor, offset, len).is_some()
    }

    fn read_descriptor<'d>(&self, node: &Node, descriptor: &'d Descriptor, offset: u64, len: usize) -> Option<&'d OwnedFd> {
        let may = self.options.cache == CacheMode::Direct;
        may.then(|| direct_descriptor(descriptor, offset, len)).flatten().filter(|_| !node.0.has_cached_data())
    }

    /// The flag for transfers through the page cache.
    pub(crate) fn cache_flag(&self) -> libc::c_int {
        if self.uncached_buffered.load(Ordering::Relaxed) { libc::RWF_DONTCACHE } else { 0 }
    }

    /// Makes a transfer through the page cache with [`Self::cache_flag`]. If the host refuses the flag, repeats it without, and no
    /// longer sets the flag.
    pub(crate) fn through_cache<T>(&self, mut transfer: impl FnMut(libc::c_int) -> std::io::Result<T>) -> std::io::Result<T> {
        let flag = self.cache_flag();
        match transfer(flag) {
            Err(error) if flag != 0 && is_unsupported(&error) => {
                let done = transfer(0);
                if done.is_ok() {
                    self.uncached_buffered.store(false, Ordering::Relaxed);
                }
                done
            }
            other => other,
        }
    }
}

/// The descriptor for a direct transfer. `None` if the transfer is not aligned or too long, or the host does not support it.
fn direct_descriptor(descriptor: &Descriptor, offset: u64, len: usize) -> Option<&OwnedFd> {
    let aligned = offset.is_multiple_of(DIRECT_ALIGN_BYTES as u64) && len.is_multiple_of(DIRECT_ALIGN_BYTES);
    if !aligned || len == 0 || len > DIRECT_BYTES_MAX {
        return None;
    }
    descriptor.direct()
}

/// Whether the host has refused a flag or an alignment.
fn is_unsupported(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EINVAL))
}

/// Calls `transfer` with an aligned buffer of this length. The thread keeps the memory.
fn with_aligned<T>(len: usize, transfer: impl FnOnce(&mut [u8]) -> T) -> T {
    thread_local! {
        static MEMORY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    MEMORY.with_borrow_mut(|memory| {
        if memory.len() < len + DIRECT_ALIGN_BYTES {
            *memory = vec![0; len + DIRECT_ALIGN_BYTES];
        }
        let start = memory.as_ptr().align_offset(DIRECT_ALIGN_BYTES);
        transfer(&mut memory[start..start + len])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_is_aligned_and_as_long_as_asked() {
        for len in [4096, 1 << 20, 8192, 0] {
            with_aligned(len, |buffer| {
                assert_eq!(buffer.len(), len);
                assert!((buffer.as_ptr() as usize).is_multiple_of(DIRECT_ALIGN_BYTES));
            });
        }
    }
}
