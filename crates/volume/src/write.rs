//! Writes: unstable, durable, and durable with a flush that several writes share.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::counters::Counted;
use crate::descriptor::Descriptor;
use crate::error::Error;
use crate::faults::Torn;
use crate::limits::OFFSET_MAX;
use crate::node::Node;
use crate::options::{CacheMode, Durability};
use crate::quiesce::Change;
use crate::quota::Growth;
use crate::sys;
use crate::types::Stability;
use crate::volume::{Volume, VolumeInner};
use crate::wcc_change::Other;

/// A write that is in the page cache and must be made durable by [`flush_deferred`].
#[must_use]
pub struct DeferredFlush {
    volume: Volume,
    node: Node,
    mark: u64,
    /// The loss epoch before the write.
    epoch: u64,
    whole: bool,
}

impl std::fmt::Debug for DeferredFlush {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeferredFlush").field("node", &self.node).field("mark", &self.mark).field("whole", &self.whole).finish()
    }
}

/// Makes writes durable whose flush was deferred. Flushes each file once, or not at all if another caller's flush has covered the writes.
/// Returns the results in the same order.
///
/// **Durability**: a write whose result is `Ok` is as durable as it requested. **Errors**: as [`Volume::commit`]. [`Error::NoSpace`] also
/// if the flush of another caller lost data of the file meanwhile.
pub fn flush_deferred(writes: &[DeferredFlush]) -> Vec<Result<(), Error>> {
    writes.iter().map(|write| write.volume.0.flush_deferred_one(write, writes)).collect()
}

impl Volume {
    /// Writes `data` at `offset`. Returns the number of bytes written, which is smaller only if the host failed after some bytes,
    /// for example because the store is full.
    ///
    /// **Durability**: by `stable`. [`Stability::Unstable`]: not durable until [`Volume::commit`].
    /// **Errors**: a failed durable write increments the loss epoch and poisons the volume. If the host refused the write itself, for
    /// example because the store is full, the volume stays in service. The epoch is then incremented only if older unstable data of the
    /// file may be lost.
    pub fn write(&self, node: &Node, offset: u64, data: &[u8], stable: Stability) -> Result<usize, Error> {
        let mut change = self.0.begin_change();
        self.0.check_writable_as_file(node)?;
        self.0.write(&mut change, node, offset, data, stable)
    }

    /// A durable write whose flush may be shared. Returns the number of bytes written, and the flush that the caller must
    /// [make](flush_deferred) before it replies, or `None` if no flush is needed. If the flush is not shared (cache mode `direct`,
    /// durability `battery`, much unstable data in the same file, the loss layer, an unstable write) this is [`Volume::write`].
    pub fn write_deferred(
        &self,
        node: &Node,
        offset: u64,
        data: &[u8],
        stable: Stability,
    ) -> Result<(usize, Option<DeferredFlush>), Error> {
        let mut change = self.0.begin_change();
        self.0.check_writable_as_file(node)?;
        self.write_then_flush(&mut change, node, offset, data, stable)
    }

    /// As [`Self::write_deferred`], also for a file that is open as a block device.
    pub(crate) fn write_then_flush(
        &self,
        change: &mut Change<'_>,
        node: &Node,
        offset: u64,
        data: &[u8],
        stable: Stability,
    ) -> Result<(usize, Option<DeferredFlush>), Error> {
        let volume = &*self.0;
        let alone = stable == Stability::Unstable || !self.shares_flushes() || node.0.has_much_unstable_data();
        if alone {
            return volume.write(change, node, offset, data, stable).map(|written| (written, None));
        }
        let (descriptor, growth, _other) = volume.to_write(node, offset, data.len())?;
        if let Some(torn) = volume.write_fault(node, offset, data.len())? {
            return volume.write_torn(node, &descriptor, offset, data, &torn).map(|written| (written, None));
        }
        let (written, mark) = volume.write_cached(node, &descriptor, offset, data, true)?;
        if written == data.len() {
            growth.arrived();
        }
        Counted::add(&volume.counted.stable_writes);
        Ok((
            written,
            Some(DeferredFlush {
                volume: self.clone(),
                node: node.clone(),
                mark,
                epoch: change.epoch,
                whole: stable == Stability::FileSync,
            }),
        ))
    }

    /// Whether durable writes of one file can share a flush. They cannot if each is a direct transfer of its own, if nothing is flushed
    /// (durability `battery`), or with the loss layer. With `write-around`, a single write bypasses the page cache; writes that come
    /// together use it and share a flush, which costs less CPU than a transfer for each.
    pub fn shares_flushes(&self) -> bool {
        let volume = &*self.0;
        volume.loss.is_none() && volume.options.durability == Durability::Sync && volume.options.cache != CacheMode::Direct
    }
}

impl VolumeInner {
    /// Refuses a change of a file's content by file operations while a block device is open on it.
    pub(crate) fn check_writable_as_file(&self, node: &Node) -> Result<(), Error> {
        if node.0.is_device() { Err(Error::Access) } else { Ok(()) }
    }

    /// One write, also of a file that is open as a block device.
    pub(crate) fn write(
        &self,
        change: &mut Change<'_>,
        node: &Node,
        offset: u64,
        data: &[u8],
        stable: Stability,
    ) -> Result<usize, Error> {
        let (descriptor, growth, _other) = self.to_write(node, offset, data.len())?;
        if let Some(loss) = &mut change.loss {
            loss.before_write(&node.0.identity, &*descriptor, offset, data.len())?;
        }
        if let Some(torn) = self.write_fault(node, offset, data.len())? {
            return self.write_torn(node, &descriptor, offset, data, &torn);
        }
        let written = match stable {
            Stability::Unstable => self.write_cached(node, &descriptor, offset, data, false)?.0,
            Stability::DataSync | Stability::FileSync => {
                let written = self.write_durably(node, &descriptor, offset, data, stable == Stability::FileSync)?;
                self.check_kept(node, change.epoch)?;
                written
            }
        };
        if let Some(loss) = &mut change.loss
            && stable != Stability::Unstable
        {
            loss.written_durably(&node.0.identity, offset, written);
        }
        if written == data.len() {
            growth.arrived();
        }
        Ok(written)
    }

    /// Writes the pieces that a fault leaves of a write. They are not flushed, even if the write reports success.
    pub(crate) fn write_torn(
        &self,
        node: &Node,
        descriptor: &Descriptor,
        offset: u64,
        data: &[u8],
        torn: &Torn,
    ) -> Result<usize, Error> {
        let (Torn::Fails(pieces) | Torn::Lies(pieces)) = torn;
        let _in_flight = self.begin_buffered(node);
        node.0.mark_change();
        let arrived = pieces.iter().try_for_each(|piece| {
            let (data, at) = (data.get(piece.clone()).unwrap_or_default(), offset + piece.start as u64);
            write_fully(data, |done| sys::pwrite(descriptor, &data[done..], at + done as u64)).map(drop)
        });
        node.0.mark_cached(data.len());
        arrived?;
        match torn {
            Torn::Fails(_) => Err(Error::Io(libc::EIO)),
            Torn::Lies(_) => Ok(data.len()),
        }
    }

    /// The descriptor for a write that the volume still allows, its quota charge, and the locks to hold during the write.
    pub(crate) fn to_write<'n>(
        &'n self,
        node: &'n Node,
        offset: u64,
        len: usize,
    ) -> Result<(Arc<Descriptor>, Growth<'n>, Option<Other>), Error> {
        self.alive()?;
        if offset.checked_add(len as u64).is_none_or(|end| end > OFFSET_MAX) {
            return Err(Error::TooBig);
        }
        let descriptor = self.writable(node, self.file(node)?)?;
        self.size_limit.check(&*descriptor, offset + len as u64)?;
        let growth = self.grow(node, &descriptor, offset, len)?;
        Ok((descriptor, growth, self.other_change(node)))
    }

    fn flush_deferred_one(&self, write: &DeferredFlush, all: &[DeferredFlush]) -> Result<(), Error> {
        let DeferredFlush { node, mark, epoch, whole, .. } = write;
        self.check_kept(node, *epoch)?;
        if node.0.is_flushed(*mark, *whole) {
            Counted::add(&self.counted.shared_flushes);
            return Ok(());
        }
        // The first write of a file flushes for all of them.
        let whole = all.iter().any(|other| other.whole && other.node == *node);
        if self.flush_node(node, whole)? {
            Counted::add(&self.counted.data_flushes);
        }
        self.check_kept(node, *epoch)
    }

    /// Writes into the page cache. Returns the mark that a flush must reach. `awaited`: a caller will wait for that flush.
    pub(crate) fn write_cached(
        &self,
        node: &Node,
        descriptor: &Descriptor,
        offset: u64,
        data: &[u8],
        awaited: bool,
    ) -> Result<(usize, u64), Error> {
        let _in_flight = self.begin_buffered(node);
        // Marked before the write, so that the descriptor stays open, and after it, so that a flush that began
        // in between does not count as covering it.
        node.0.mark_change();
        let written = write_fully(data, |done| {
            self.through_cache(|flag| sys::pwrite_with(descriptor, &data[done..], offset + done as u64, flag))
        });
        let mark = node.0.mark_cached(if awaited { 0 } else { data.len() });
        Ok((written?, mark))
    }

    /// One durable write, with a flush of its own.
    pub(crate) fn write_durably(
        &self,
        node: &Node,
        descriptor: &Descriptor,
        offset: u64,
        data: &[u8],
        whole: bool,
    ) -> Result<usize, Error> {
        if self.options.durability == Durability::Battery {
            let written = self.write_cached(node, descriptor, offset, data, false)?.0;
            Counted::add(&self.counted.stable_writes);
            return Ok(written);
        }
        let sync = if whole { libc::RWF_SYNC } else { libc::RWF_DSYNC };
        let written = write_fully(data, |done| {
            Counted::add(&self.counted.flushes);
            Counted::add(&self.counted.data_flushes);
            let (data, at) = (&data[done..], offset + done as u64);
            // The host reports a failed writeback once for each descriptor. This write may get the report of the file's unstable data.
            let witness = node.0.is_dirty().then(|| sys::reopen(descriptor)).transpose()?;
            let result = self.flush_fault(Some(node.0.fileid)).and_then(|()| {
                let direct = self.write_direct(node, descriptor, at, data, sync);
                direct.unwrap_or_else(|| self.write_buffered_sync(node, descriptor, at, data, sync))
            });
            if let Err(error) = &result {
                self.durable_write_failed(node, witness, error.raw_os_error().unwrap_or(libc::EIO));
            }
            result
        })?;
        // The kernel reports a writeback error only once, so another caller's flush may have got the error of this write.
        self.alive()?;
        Counted::add(&self.counted.stable_writes);
        Ok(written)
    }

    fn write_buffered_sync(
        &self,
        node: &Node,
        descriptor: &Descriptor,
        offset: u64,
        data: &[u8],
        sync: libc::c_int,
    ) -> std::io::Result<usize> {
        let _in_flight = self.begin_buffered_durable(node);
        let result = self.through_cache(|flag| sys::pwrite_with(descriptor, data, offset, sync | flag));
        if result.is_err() && self.options.cache.writes_direct() {
            // The data may be in the page cache without a flush, so no direct write may begin before a flush has succeeded.
            node.0.mark_cached(data.len());
        }
        result
    }

    /// Handles a failed durable write. The host does not report whether the write or its flush failed. Some errors can only refuse the
    /// write itself; then no data is lost. Others can also come from a writeback of the file's unstable data; then a flush by a descriptor
    /// that has reported no error yet decides. All other errors count as a failed flush.
    fn durable_write_failed(&self, node: &Node, witness: Option<OwnedFd>, errno: i32) {
        let is_lost = match errno {
            libc::EFBIG | libc::EINVAL | libc::EPERM => false,
            libc::ENOSPC | libc::EDQUOT | libc::EROFS | libc::ENOMEM => match witness {
                Some(witness) => self.flush_fault(Some(node.0.fileid)).and_then(|()| sys::fdatasync(witness)).is_err(),
                None => node.0.is_dirty(), // an unstable write began meanwhile
            },
            _ => {
                self.flush_failed(Some(node), errno);
                return;
            }
        };
        if is_lost {
            self.lost_data(Some(node), &std::io::Error::from_raw_os_error(errno));
        }
    }
}

/// Calls `write` until all is written. After an error, returns the bytes written before it, if any; the next call gets the error.
pub(crate) fn write_fully(data: &[u8], mut write: impl FnMut(usize) -> std::io::Result<usize>) -> std::io::Result<usize> {
    let mut done = 0;
    while done < data.len() {
        match write(done) {
            Ok(0) => return Err(std::io::Error::from_raw_os_error(libc::EIO)),
            Ok(bytes) => done += bytes,
            Err(_) if done > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::faults::FaultSpec;
    use crate::{Config, CreateHow, Owner, SetAttr};

    #[test]
    fn a_flush_after_a_failed_one_fails_too() {
        // The host would let the second one succeed, because it reports a writeback error only once.
        for (fault, expected) in [("eio", Error::Io(libc::EIO)), ("enospc", Error::NoSpace)] {
            assert_eq!(two_flushes(&format!("{fault},on=flush,times=1")), [Err(expected), Err(expected)], "{fault}");
        }
    }

    /// The results of a commit that a fault makes fail, and of the flush of a deferred write that waits for it.
    fn two_flushes(fault: &str) -> [Result<(), Error>; 2] {
        let base = tempfile::tempdir().unwrap();
        let (dir, state_dir) = (base.path().join("dir"), base.path().join("state"));
        std::fs::create_dir(&dir).unwrap();
        let volume =
            Volume::open(Config { dir: dir.clone(), state_dir, loss: None, options: crate::Options::default() }).unwrap();
        let own = std::fs::metadata(&dir).unwrap();
        let owner = Owner { uid: own.uid(), gid: own.gid() };
        let (node, _) = volume.create(&volume.root(), b"f", CreateHow::Unchecked(SetAttr::default()), owner).unwrap();
        let (_, deferred) = volume.write_deferred(&node, 0, b"promised", Stability::FileSync).unwrap();
        let deferred = deferred.expect("a flush to share");
        let set = |fault: &str| volume.set_fault(FaultSpec::parse(fault).unwrap()).unwrap();
        let (slow, _) = (set("slow-flush,delay_ms=60000,times=1"), set(fault));
        std::thread::scope(|scope| {
            let first = scope.spawn(|| volume.commit(&node));
            while volume.faults().report().injected == 0 {
                std::thread::yield_now();
            }
            let second = scope.spawn(move || flush_deferred(&[deferred]).remove(0));
            while node.0.group_commit.waiting() == 0 {
                std::thread::yield_now();
            }
            volume.faults().clear(Some(slow));
            [first.join().unwrap(), second.join().unwrap()]
        })
    }
}
