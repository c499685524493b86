//! Durable writes: alone, or with the flush left to the last of several.

use crate::error::Error;
use crate::node::{Descriptor, Node};
use crate::options::{CacheMode, Durability};
use crate::sys;
use crate::types::Stability;
use crate::volume::{Counted, Volume, VolumeInner};

/// A write that is in the page cache and was promised to become durable: to be given to [`settle`].
#[must_use]
pub struct Unsettled {
    volume: Volume,
    node: Node,
    mark: u64,
    whole: bool,
}

impl std::fmt::Debug for Unsettled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unsettled").field("node", &self.node).field("mark", &self.mark).field("whole", &self.whole).finish()
    }
}

/// Makes begun writes durable: one flush for each file, or none where somebody else's flush has covered them. The
/// results in the same order.
///
/// **Durability**: a write whose result is `Ok` is durable, as it asked for. **Errors**: a failed flush moves the loss
/// epoch and poisons the volume.
pub fn settle(writes: &[Unsettled]) -> Vec<Result<(), Error>> {
    writes.iter().map(|write| write.volume.0.settle_one(write, writes)).collect()
}

impl Volume {
    /// Begins a durable write whose flush may be shared: `None` beside the count when it is durable already, else what has to
    /// be [settled](settle) before it is answered. Where sharing has no sense (direct writes, much
    /// unstable data in the same file, the loss layer) this is [`Volume::write`].
    pub fn write_to_settle(
        &self,
        node: &Node,
        offset: u64,
        data: &[u8],
        stable: Stability,
    ) -> Result<(usize, Option<Unsettled>), Error> {
        let volume = &*self.0;
        let alone = stable == Stability::Unstable || !self.shares_flushes() || node.0.has_much_unstable_data();
        if alone {
            return self.write(node, offset, data, stable).map(|written| (written, None));
        }
        let (descriptor, growth) = volume.to_write(node, offset, data.len())?;
        if let Some(torn) = volume.write_fault(node, offset, data)? {
            return volume.write_torn(node, &descriptor, offset, data, &torn).map(|written| (written, None));
        }
        let (written, mark) = volume.write_cached(node, &descriptor, offset, data, true)?;
        if written == data.len() {
            growth.arrived();
        }
        Counted::add(&volume.counted.stable_writes);
        Ok((written, Some(Unsettled { volume: self.clone(), node: node.clone(), mark, whole: stable == Stability::FileSync })))
    }

    /// Whether durable writes of one file gain from being begun together: not where each waits for a transfer of its own,
    /// nor where nothing is flushed.
    pub fn shares_flushes(&self) -> bool {
        let volume = &*self.0;
        volume.loss.is_none() && volume.options.durability == Durability::Sync && volume.options.cache != CacheMode::Direct
    }
}

impl VolumeInner {
    fn settle_one(&self, write: &Unsettled, all: &[Unsettled]) -> Result<(), Error> {
        let Unsettled { node, mark, whole, .. } = write;
        if node.0.is_flushed(*mark, *whole) {
            Counted::add(&self.counted.shared_flushes);
            return Ok(());
        }
        // The first of a file flushes for all of them.
        let whole = all.iter().any(|other| other.whole && other.node == *node);
        if self.flush_node(node, whole)? {
            Counted::add(&self.counted.data_flushes);
        }
        Ok(())
    }

    /// Writes into the page cache. The mark that a flush has to reach; `awaited`: somebody will wait for that.
    pub(crate) fn write_cached(
        &self,
        node: &Node,
        descriptor: &Descriptor,
        offset: u64,
        data: &[u8],
        awaited: bool,
    ) -> Result<(usize, u64), Error> {
        let _turn = self.buffered_turn(node);
        // Marked before, so that the descriptor stays, and after, so that a flush that began
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
            let others_wait = node.0.is_dirty();
            let result = self.flush_fault(Some(node.0.fileid)).and_then(|()| {
                let direct = self.write_direct(node, descriptor, at, data, sync);
                direct.unwrap_or_else(|| self.write_buffered_sync(node, descriptor, at, data, sync))
            });
            if let Err(error) = &result {
                self.durable_write_failed(others_wait, error.raw_os_error().unwrap_or(libc::EIO));
            }
            result
        })?;
        // The kernel tells of lost pages once: another's flush may have been told of ours.
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
        let _turn = self.buffered_turn(node);
        let result = self.through_cache(|flag| sys::pwrite_with(descriptor, data, offset, sync | flag));
        if result.is_err() && self.options.cache == CacheMode::Direct {
            // Written perhaps, and not flushed: no direct write before that is cleared up.
            node.0.mark_cached(data.len());
        }
        result
    }

    /// The host does not tell whether the write or its flush failed. Refusals of the write itself leave
    /// nothing in doubt, unless uncommitted data of the file could have met the same fate unseen.
    fn durable_write_failed(&self, others_wait: bool, errno: i32) {
        let refused =
            matches!(errno, libc::ENOSPC | libc::EDQUOT | libc::EFBIG | libc::EINVAL | libc::EPERM | libc::EROFS | libc::ENOMEM);
        if !refused || (others_wait && self.move_epoch().is_err()) {
            self.flush_failed(errno);
        }
    }
}

/// Writes until all is written; an error after some bytes is left to the next call.
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
    fn who_waits_behind_a_flush_that_fails_is_not_told_that_his_own_ended_well() {
        let base = tempfile::tempdir().unwrap();
        let (dir, state_dir) = (base.path().join("dir"), base.path().join("state"));
        std::fs::create_dir(&dir).unwrap();
        let volume =
            Volume::open(Config { dir: dir.clone(), state_dir, loss: None, options: crate::Options::default() }).unwrap();
        let own = std::fs::metadata(&dir).unwrap();
        let owner = Owner { uid: own.uid(), gid: own.gid() };
        let (node, _) = volume.create(&volume.root(), b"f", CreateHow::Unchecked(SetAttr::default()), owner).unwrap();
        let (_, unsettled) = volume.write_to_settle(&node, 0, b"promised", Stability::FileSync).unwrap();
        let unsettled = unsettled.expect("a flush to share");
        let set = |fault: &str| volume.set_fault(FaultSpec::parse(fault).unwrap()).unwrap();
        let (slow, _) = (set("slow-flush,delay_ms=60000,times=1"), set("eio,on=flush,times=1"));
        std::thread::scope(|scope| {
            let first = scope.spawn(|| volume.commit(&node));
            while volume.faults().report().struck == 0 {
                std::thread::yield_now();
            }
            let second = scope.spawn(move || settle(&[unsettled]).remove(0));
            while node.0.turns.waiting() == 0 {
                std::thread::yield_now();
            }
            volume.faults().clear(Some(slow));
            assert_eq!(first.join().unwrap(), Err(Error::Io(libc::EIO)));
            // The host would have said yes: it has told of its loss already.
            assert_eq!(second.join().unwrap(), Err(Error::Io(libc::EIO)));
        });
    }
}
