//! File content: reads, writes, commits.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::durable::write_fully;
use crate::error::Error;
use crate::faults::Torn;
use crate::limits::OFFSET_MAX;
use crate::node::{Access, Descriptor, Node};
use crate::quota::Growth;
use crate::sys;
use crate::types::{Attr, Kind, Stability};
use crate::volume::{Counted, Volume, VolumeInner};

impl Volume {
    /// Reads into `buf`: bytes read and whether they end the file. No allocation, one pread.
    pub fn read(&self, node: &Node, offset: u64, buf: &mut [u8]) -> Result<(usize, bool), Error> {
        let _gate = self.0.read_gate();
        let descriptor = self.0.file(node)?;
        let bytes = self.0.read_checked(node, &descriptor, offset, buf)?;
        if bytes < buf.len() {
            return Ok((bytes, true));
        }
        let size = sys::stat_untimed(&*descriptor)?.size;
        Ok((bytes, offset.saturating_add(bytes as u64) >= size))
    }

    /// The same with the attributes after the read, for the price of the one statx that the end of
    /// file needs anyway.
    pub fn read_with_attr(&self, node: &Node, offset: u64, buf: &mut [u8]) -> Result<(usize, bool, Attr), Error> {
        let _gate = self.0.read_gate();
        let descriptor = self.0.file(node)?;
        let bytes = self.0.read_checked(node, &descriptor, offset, buf)?;
        let attr = self.0.attr_of(node, &descriptor)?;
        let eof = bytes < buf.len() || offset.saturating_add(bytes as u64) >= attr.size;
        Ok((bytes, eof, attr))
    }

    /// The same without waiting for the store: `None` when that would be needed, with some or all of `buf` void. The
    /// host then has begun to fetch what is missing. Where a file system cannot tell, this waits.
    pub fn read_with_attr_now(&self, node: &Node, offset: u64, buf: &mut [u8]) -> Result<Option<(usize, bool, Attr)>, Error> {
        if !self.0.tells_cold_reads.load(Ordering::Relaxed) || self.0.spoils_reads() {
            return self.read_with_attr(node, offset, buf).map(Some);
        }
        let _gate = self.0.read_gate();
        let descriptor = self.0.file(node)?;
        let bytes = match read_bounds(&descriptor, offset, buf.len())? {
            0 => 0,
            wanted if self.0.reads_direct(node, &descriptor, offset, wanted) => return Ok(None),
            wanted => match self.0.read_now(&descriptor, offset, &mut buf[..wanted])? {
                Some(bytes) => bytes,
                None => return Ok(None),
            },
        };
        let attr = self.0.attr_of(node, &descriptor)?;
        let end = offset.saturating_add(bytes as u64);
        if bytes < buf.len() && end < attr.size {
            return Ok(None);
        }
        Ok(Some((bytes, end >= attr.size, attr)))
    }

    /// Writes; fewer bytes than given only when the store ran full on the way.
    ///
    /// **Durability**: by `stable`. [`Stability::Unstable`]: none until [`Volume::commit`].
    /// **Errors**: a failed durable write moves the loss epoch and poisons the volume, except that a full
    /// store or quota is only reported (the epoch moves when older uncommitted data could be concerned).
    pub fn write(&self, node: &Node, offset: u64, data: &[u8], stable: Stability) -> Result<usize, Error> {
        let mut loss = self.0.write_gate();
        let (descriptor, growth) = self.0.to_write(node, offset, data.len())?;
        if let Some(loss) = &mut loss {
            loss.before_write(&node.0.identity, &*descriptor, offset, data.len())?;
        }
        if let Some(torn) = self.0.write_fault(node, offset, data)? {
            return self.0.write_torn(node, &descriptor, offset, data, &torn);
        }
        let written = match stable {
            Stability::Unstable => self.0.write_cached(node, &descriptor, offset, data, false)?.0,
            Stability::DataSync | Stability::FileSync => {
                self.0.write_durably(node, &descriptor, offset, data, stable == Stability::FileSync)?
            }
        };
        if let Some(loss) = &mut loss
            && stable != Stability::Unstable
        {
            loss.written_durably(&node.0.identity, offset, written);
        }
        if written == data.len() {
            growth.arrived();
        }
        Ok(written)
    }

    /// Makes all that was written to the file durable: data and size; of a directory, its entries.
    ///
    /// **Errors**: a failed flush is reported, moves the loss epoch and poisons the volume.
    pub fn commit(&self, node: &Node) -> Result<(), Error> {
        self.0.alive()?;
        let whole = match node.kind() {
            Kind::File => false,
            Kind::Directory => true,
            _ => return Err(Error::Invalid),
        };
        if self.0.loss.is_none() && node.0.is_clean() {
            // Gone files still must be told apart.
            let descriptor = self.0.descriptor(node)?;
            return self.0.attr_of(node, &descriptor).map(drop);
        }
        let mut loss = self.0.write_gate();
        let descriptor = self.0.descriptor(node)?;
        self.0.attr_of(node, &descriptor)?;
        drop(descriptor);
        if self.0.flush_now(node, whole, &mut loss)? {
            Counted::add(&self.0.counted.data_flushes);
        }
        Ok(())
    }
}

impl VolumeInner {
    /// A regular file's descriptor; other kinds are refused as RFC 1813 3.3.6 wants.
    fn file(&self, node: &Node) -> Result<Arc<Descriptor>, Error> {
        match node.kind() {
            Kind::File => self.descriptor(node),
            Kind::Directory => Err(Error::IsDirectory),
            _ => Err(Error::Invalid),
        }
    }

    /// One read without waiting, of a file in the page cache. `None` where it would have to wait, or cannot tell.
    fn read_now(&self, descriptor: &Descriptor, offset: u64, buf: &mut [u8]) -> Result<Option<usize>, Error> {
        let flag = self.cache_flag();
        match sys::pread_with(descriptor, buf, offset, libc::RWF_NOWAIT | flag) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) => match error.raw_os_error() {
                Some(libc::EAGAIN) => Ok(None),
                Some(libc::EOPNOTSUPP | libc::ENOSYS) => {
                    // Whichever of the two flags it was: a read that waits finds out about the other.
                    if flag == 0 {
                        self.tells_cold_reads.store(false, Ordering::Relaxed);
                    }
                    Ok(None)
                }
                _ => Err(error.into()),
            },
        }
    }

    fn read_checked(&self, node: &Node, descriptor: &Descriptor, offset: u64, buf: &mut [u8]) -> Result<usize, Error> {
        self.read_fault(node, offset, buf.len())?;
        let bytes = self.read_fully(node, descriptor, offset, buf)?;
        self.spoil_read(node, offset, buf.get_mut(..bytes).unwrap_or_default());
        Ok(bytes)
    }

    /// What a fault leaves of a write. It has no say on durability: a torn write that lies is not flushed either.
    pub(crate) fn write_torn(
        &self,
        node: &Node,
        descriptor: &Descriptor,
        offset: u64,
        data: &[u8],
        torn: &Torn,
    ) -> Result<usize, Error> {
        let (Torn::Fails(pieces) | Torn::Lies(pieces)) = torn;
        let _turn = self.buffered_turn(node);
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

    /// The descriptor for a write that the volume may still take, and the charge for it.
    pub(crate) fn to_write<'n>(
        &'n self,
        node: &'n Node,
        offset: u64,
        len: usize,
    ) -> Result<(Arc<Descriptor>, Growth<'n>), Error> {
        self.alive()?;
        if offset.checked_add(len as u64).is_none_or(|end| end > OFFSET_MAX) {
            return Err(Error::TooBig);
        }
        let descriptor = self.writable(node, self.file(node)?)?;
        let growth = self.grow(node, &descriptor, offset, len)?;
        Ok((descriptor, growth))
    }

    fn read_fully(&self, node: &Node, descriptor: &Descriptor, offset: u64, buf: &mut [u8]) -> Result<usize, Error> {
        let wanted = read_bounds(descriptor, offset, buf.len())?;
        let buf = &mut buf[..wanted];
        let mut done = 0;
        while done < buf.len() {
            let (rest, at) = (&mut buf[done..], offset + done as u64);
            let read = match self.read_direct(node, descriptor, at, rest) {
                Some(read) => read,
                None if self.cache_flag() == 0 => sys::pread(descriptor, rest, at),
                None => self.through_cache(|flag| sys::pread_with(descriptor, rest, at, flag)),
            };
            match read? {
                0 => break,
                bytes => done += bytes,
            }
            // A short read is the end of the file, but for a signal on a slow store: see which.
            if done < buf.len() && sys::stat_untimed(descriptor)?.size <= offset + done as u64 {
                break;
            }
        }
        Ok(done)
    }
}

/// How many of the bytes wanted from `offset` can be asked of the host: all, or none behind the largest offset.
fn read_bounds(descriptor: &Descriptor, offset: u64, wanted: usize) -> Result<usize, Error> {
    if descriptor.access == Access::Path {
        return Err(Error::Access);
    }
    Ok(if offset > OFFSET_MAX - wanted as u64 { 0 } else { wanted })
}
