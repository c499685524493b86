//! Reads of file content.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::descriptor::{Access, Descriptor};
use crate::error::Error;
use crate::limits::OFFSET_MAX;
use crate::node::Node;
use crate::sys;
use crate::types::{Attr, Kind};
use crate::volume::{Volume, VolumeInner};

impl Volume {
    /// Reads into `buf`. Returns the number of bytes, and whether they reach the end of the file.
    pub fn read(&self, node: &Node, offset: u64, buf: &mut [u8]) -> Result<(usize, bool), Error> {
        let _read = self.0.begin_read();
        let descriptor = self.0.file(node)?;
        let bytes = self.0.read_checked(node, &descriptor, offset, buf)?;
        if bytes < buf.len() {
            return Ok((bytes, true));
        }
        let size = sys::stat_untimed(&*descriptor)?.size;
        Ok((bytes, offset.saturating_add(bytes as u64) >= size))
    }

    /// As [`Self::read`], and returns the attributes after the read, from the statx that detects the
    /// end of the file.
    pub fn read_with_attr(&self, node: &Node, offset: u64, buf: &mut [u8]) -> Result<(usize, bool, Attr), Error> {
        let _read = self.0.begin_read();
        let descriptor = self.0.file(node)?;
        let bytes = self.0.read_checked(node, &descriptor, offset, buf)?;
        let attr = self.0.attr_of(node, &descriptor)?;
        let eof = bytes < buf.len() || offset.saturating_add(bytes as u64) >= attr.size;
        Ok((bytes, eof, attr))
    }

    /// As [`Self::read_with_attr`], without waiting for the store. `None` if the read would have to wait. Then the content of `buf`
    /// is not valid, and the host has begun to read what is missing. If the file system does not support such reads, this waits.
    pub fn read_with_attr_now(&self, node: &Node, offset: u64, buf: &mut [u8]) -> Result<Option<(usize, bool, Attr)>, Error> {
        if !self.0.nowait_reads.load(Ordering::Relaxed) || self.0.faults_reads() {
            return self.read_with_attr(node, offset, buf).map(Some);
        }
        let _read = self.0.begin_read();
        let descriptor = self.0.file(node)?;
        let Some(bytes) = self.0.read_wanted_now(node, &descriptor, offset, buf)? else { return Ok(None) };
        let attr = self.0.attr_of(node, &descriptor)?;
        let end = offset.saturating_add(bytes as u64);
        if bytes < buf.len() && end < attr.size {
            return Ok(None);
        }
        Ok(Some((bytes, end >= attr.size, attr)))
    }
}

impl VolumeInner {
    /// A regular file's descriptor. Other kinds are refused as RFC 1813 3.3.6 requires.
    pub(crate) fn file(&self, node: &Node) -> Result<Arc<Descriptor>, Error> {
        match node.kind() {
            Kind::File => self.descriptor(node),
            Kind::Directory => Err(Error::IsDirectory),
            _ => Err(Error::Invalid),
        }
    }

    /// A read of a block device without waiting. Returns the number of bytes, or `None` if it would have to wait.
    pub(crate) fn read_bytes_now(&self, node: &Node, offset: u64, buf: &mut [u8]) -> Result<Option<usize>, Error> {
        let _read = self.begin_read();
        let descriptor = self.file(node)?;
        if !self.nowait_reads.load(Ordering::Relaxed) || self.faults_reads() {
            return self.read_checked(node, &descriptor, offset, buf).map(Some);
        }
        let wanted = buf.len();
        // After a short read, the host may still have to read the rest.
        Ok(self.read_wanted_now(node, &descriptor, offset, buf)?.filter(|bytes| *bytes == wanted))
    }

    /// Reads without waiting, up to the largest offset. `None` if the read would have to wait, or would be direct.
    fn read_wanted_now(&self, node: &Node, descriptor: &Descriptor, offset: u64, buf: &mut [u8]) -> Result<Option<usize>, Error> {
        match read_bounds(descriptor, offset, buf.len())? {
            0 => Ok(Some(0)),
            wanted if self.reads_direct(node, descriptor, offset, wanted) => Ok(None),
            wanted => self.read_now(descriptor, offset, &mut buf[..wanted]),
        }
    }

    /// One read from the page cache. `None` if it would have to wait, or if the file system does not support such reads.
    fn read_now(&self, descriptor: &Descriptor, offset: u64, buf: &mut [u8]) -> Result<Option<usize>, Error> {
        let flag = self.cache_flag();
        match sys::pread_with(descriptor, buf, offset, libc::RWF_NOWAIT | flag) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) => match error.raw_os_error() {
                Some(libc::EAGAIN) => Ok(None),
                Some(libc::EOPNOTSUPP | libc::ENOSYS) => {
                    // If both flags were set, a later read that waits shows whether the host refuses the other one.
                    if flag == 0 {
                        self.nowait_reads.store(false, Ordering::Relaxed);
                    }
                    Ok(None)
                }
                _ => Err(error.into()),
            },
        }
    }

    pub(crate) fn read_checked(&self, node: &Node, descriptor: &Descriptor, offset: u64, buf: &mut [u8]) -> Result<usize, Error> {
        self.read_fault(node, offset, buf.len())?;
        let bytes = self.read_fully(node, descriptor, offset, buf)?;
        self.flip_bit(node, offset, buf.get_mut(..bytes).unwrap_or_default());
        Ok(bytes)
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
            // A short read is at the end of the file, or a signal interrupted it. The size decides.
            if done < buf.len() && sys::stat_untimed(descriptor)?.size <= offset + done as u64 {
                break;
            }
        }
        Ok(done)
    }
}

/// How many of `wanted` bytes from `offset` can be requested from the host: those up to the largest offset (RFC 1813 3.3.6: a short
/// read). [`Error::Access`] if the file is not open for reading.
fn read_bounds(descriptor: &Descriptor, offset: u64, wanted: usize) -> Result<usize, Error> {
    if descriptor.access == Access::Path {
        return Err(Error::Access);
    }
    Ok(usize::try_from(OFFSET_MAX.saturating_sub(offset)).unwrap_or(usize::MAX).min(wanted))
}
