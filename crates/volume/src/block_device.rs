//! A file of the volume opened for block I/O.

use std::sync::atomic::Ordering;
use std::sync::{RwLock, RwLockReadGuard};

use host::Unpoisoned;

use crate::error::Error;
use crate::limits::{BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, DEVICE_OPEN_TIMEOUT};
use crate::medium;
use crate::node::Node;
use crate::sys::{self, ZeroRange};
use crate::types::{Kind, SetAttr, Stability};
use crate::volume::Volume;
use crate::write::DeferredFlush;

/// When a write of a block device is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durable {
    /// After the next [`BlockDevice::flush`] that returns `Ok` (a device with a volatile write cache, SBC-3 WCE=1).
    OnFlush,
    /// When it returns (SBC-3 FUA).
    OnReturn,
}

/// Why an operation of a block device failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// Only a regular file can be a block device.
    #[error("open file {fileid} as a block device: it is not a regular file")]
    NotAFile {
        /// Its inode number.
        fileid: u64,
    },
    /// It is open as a block device already.
    #[error("open file {fileid} as a block device: it is open as one already")]
    InUse {
        /// Its inode number.
        fileid: u64,
    },
    /// The size is not valid for a logical block.
    #[error("use blocks of {block_bytes} bytes: a block has a power of two from {BLOCK_BYTES_MIN} to {BLOCK_BYTES_MAX} bytes")]
    BlockSize {
        /// The size as given.
        block_bytes: u32,
    },
    /// An offset or a length that is not a whole number of blocks.
    #[error("access {bytes} bytes at {offset}: not whole blocks of {block_bytes} bytes")]
    Unaligned {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
        /// The device's block size.
        block_bytes: u32,
    },
    /// A device size that is not a whole number of blocks.
    #[error("make a block device of {size} bytes: not whole blocks of {block_bytes} bytes")]
    UnalignedSize {
        /// The size.
        size: u64,
        /// The device's block size.
        block_bytes: u32,
    },
    /// Beyond the end of the device.
    #[error("access {bytes} bytes at {offset}: the device has {size} bytes")]
    OutOfRange {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
        /// The device's size.
        size: u64,
    },
    /// The volume or its host refused, as for file operations.
    #[error(transparent)]
    Volume(#[from] Error),
}

/// A file of the volume as a block device: accesses are whole blocks at byte offsets below its size. Its descriptor stays open.
/// A file is open as only one device at a time.
///
/// While it is open, file operations can read the file, flush it, rename it, link it and set its attributes. Those that
/// would change its content or size, or remove one of its names, fail with [`Error::Access`], as Linux refuses to write to a
/// running program or an active swap file. [`Volume::remove_device`] can remove its name.
///
/// A read of the device or the file that begins after a write has returned sees the write. If two writes overlap in time and
/// place, each block has the bytes of either. A target that promises more (COMPARE AND WRITE, WRITE ATOMIC) must order them.
///
/// **Errors** of flushes are those of files: a failed flush increments the [loss epoch](Self::loss_epoch) and, unless the store was only
/// full, poisons the volume. Then reads continue, and each operation that promises durability fails with [`Error::Poisoned`].
#[derive(Debug)]
pub struct BlockDevice {
    open: Open,
    block_bytes: u32,
    /// Held shared by I/O, exclusively by a resize. Taken before a change begins, so that a quiesce never waits for it.
    size: RwLock<u64>,
}

/// Marks the file as open. Dropping it clears the mark.
struct Open {
    volume: Volume,
    node: Node,
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.node.fmt(f)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.node.0.is_device.store(false, Ordering::SeqCst);
    }
}

impl Volume {
    /// Opens a regular file as a block device with logical blocks of `block_bytes`. Its size is the file's. Waits for
    /// the changes of the volume that are in flight.
    ///
    /// **Errors**: [`BlockError::NotAFile`], [`BlockError::InUse`], [`BlockError::BlockSize`],
    /// [`BlockError::UnalignedSize`]; [`Error::Busy`] if the changes in flight do not end within ten seconds;
    /// [`Error::ReadOnly`] or [`Error::Access`] if the file cannot be written to.
    pub fn open_device(&self, node: &Node, block_bytes: u32) -> Result<BlockDevice, BlockError> {
        let fileid = node.fileid();
        if node.kind() != Kind::File {
            return Err(BlockError::NotAFile { fileid });
        }
        if !block_bytes.is_power_of_two() || !(BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(&block_bytes) {
            return Err(BlockError::BlockSize { block_bytes });
        }
        if node.0.is_device.swap(true, Ordering::SeqCst) {
            return Err(BlockError::InUse { fileid });
        }
        let open = Open { volume: self.clone(), node: node.clone() };
        // Changes that begin from now on see the mark.
        self.quiesce(DEVICE_OPEN_TIMEOUT).map_err(|_| Error::Busy)?.release();
        let _read = self.0.begin_read();
        let descriptor = self.0.writable(node, self.0.descriptor(node)?)?;
        let size = self.0.attr_of(node, &descriptor)?.size;
        if !size.is_multiple_of(u64::from(block_bytes)) {
            return Err(BlockError::UnalignedSize { size, block_bytes });
        }
        Ok(BlockDevice { open, block_bytes, size: RwLock::new(size) })
    }
}

impl BlockDevice {
    /// Size of the device in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        *self.size.read().unpoisoned()
    }

    /// Size of a logical block in bytes.
    #[must_use]
    pub const fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// The file.
    #[must_use]
    pub const fn node(&self) -> &Node {
        &self.open.node
    }

    /// The [loss epoch](Volume::loss_epoch) of the last loss that may concern this device. SCSI has no write verifier. If this epoch has
    /// changed, writes that were not flushed may be lost, and a unit attention or the end of the session must report that to an initiator.
    /// While the volume is open, losses of other files do not change it. After the next open they do, because only one epoch is on disk.
    #[must_use]
    pub fn loss_epoch(&self) -> u64 {
        self.open.volume.0.loss_epoch.of_every_file().max(self.open.node.0.lost())
    }

    /// An access as an operation of a modelled [medium](medium::Medium), for a server that delays the reply by it. A write
    /// is `Buffered` or, if it is durable on return, `Write`. A discard or a resize is `Metadata`.
    #[must_use]
    pub fn operation(&self, kind: medium::Kind, offset: u64, bytes: u64) -> medium::Operation {
        medium::Operation { kind, file: self.open.node.fileid(), offset, bytes }
    }

    /// Fills `buf` from `offset`.
    ///
    /// **Errors**: [`BlockError::Unaligned`], [`BlockError::OutOfRange`]; those of [`Volume::read`].
    pub fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), BlockError> {
        let _size = self.check(offset, buf.len() as u64)?;
        let (volume, node) = (&*self.open.volume.0, &self.open.node);
        let _read = volume.begin_read();
        let descriptor = volume.file(node)?;
        let bytes = volume.read_checked(node, &descriptor, offset, buf)?;
        if bytes < buf.len() {
            // Another process on the host has truncated the file.
            return Err(Error::Io(libc::EIO).into());
        }
        Ok(())
    }

    /// As [`Self::read`], without waiting for the store. Returns false if the read would have to wait; then the content of `buf` is
    /// not valid, and the host has begun to read what is missing. On a file system that does not support such reads, this waits.
    ///
    /// **Errors**: as [`Self::read`].
    pub fn read_now(&self, offset: u64, buf: &mut [u8]) -> Result<bool, BlockError> {
        let _size = self.check(offset, buf.len() as u64)?;
        match self.open.volume.0.read_bytes_now(&self.open.node, offset, buf)? {
            // Another process on the host has truncated the file.
            Some(bytes) if bytes < buf.len() => Err(Error::Io(libc::EIO).into()),
            read => Ok(read.is_some()),
        }
    }

    /// Returns how many bytes from `offset`, in whole blocks, are in the same state, and the state: true if they are mapped (SBC-3 4.7:
    /// space is allocated for them), false if they are not and read as zeros. A block that is partly allocated counts as mapped.
    ///
    /// **Errors**: [`BlockError::Unaligned`]; [`BlockError::OutOfRange`], also at the end of the device.
    pub fn extent(&self, offset: u64) -> Result<(u64, bool), BlockError> {
        let size = self.check(offset, u64::from(self.block_bytes))?;
        let (volume, node) = (&*self.open.volume.0, &self.open.node);
        let _read = volume.begin_read();
        let descriptor = volume.file(node)?;
        let block = u64::from(self.block_bytes);
        let Some((begin, end)) = sys::next_data(&*descriptor, offset).map_err(Error::from)? else {
            return Ok((*size - offset, false));
        };
        let begin = begin / block * block;
        Ok(if begin > offset {
            (begin.min(*size) - offset, false)
        } else {
            (end.next_multiple_of(block).min(*size) - offset, true)
        })
    }

    /// Writes `data` at `offset`.
    ///
    /// **Durability**: by `durable`. **Errors**: [`BlockError::Unaligned`], [`BlockError::OutOfRange`]; those of [`Volume::write`].
    /// After an error, each block of the range may have its old or its new content.
    pub fn write(&self, offset: u64, data: &[u8], durable: Durable) -> Result<(), BlockError> {
        let _size = self.check(offset, data.len() as u64)?;
        let stable = match durable {
            Durable::OnFlush => Stability::Unstable,
            Durable::OnReturn => Stability::DataSync,
        };
        let volume = &*self.open.volume.0;
        let mut done = 0;
        // After a short write, the next round gets the error that caused it.
        while done < data.len() {
            let mut change = volume.begin_change();
            done += volume.write(&mut change, &self.open.node, offset + done as u64, &data[done..], stable)?;
        }
        Ok(())
    }

    /// A durable write whose flush may be shared. Returns the flush that the caller must [make](crate::flush_deferred) before it
    /// replies, or `None` if the write is durable already. As [`Volume::write_deferred`].
    ///
    /// **Errors**: as [`Self::write`].
    pub fn write_deferred(&self, offset: u64, data: &[u8]) -> Result<Option<DeferredFlush>, BlockError> {
        let _size = self.check(offset, data.len() as u64)?;
        let (volume, node) = (&self.open.volume, &self.open.node);
        let (mut done, mut flush) = (0, None);
        // After a short write, the next round gets the error that caused it.
        while done < data.len() {
            let mut change = volume.0.begin_change();
            let (at, rest) = (offset + done as u64, data.get(done..).unwrap_or_default());
            let (written, deferred) = volume.write_then_flush(&mut change, node, at, rest, Stability::DataSync)?;
            done += written;
            // The flush of a later write covers the earlier ones.
            flush = deferred.or(flush);
        }
        Ok(flush)
    }

    /// Makes `bytes` from `offset` read as zeros, with space allocated for them if the host can do so (SBC-3 WRITE SAME without
    /// UNMAP).
    ///
    /// **Durability**, **errors**: as [`Self::write`].
    pub fn write_zeroes(&self, offset: u64, bytes: u64, durable: Durable) -> Result<(), BlockError> {
        let epoch = self.open.volume.loss_epoch();
        self.zero(offset, bytes, ZeroRange::Allocated)?;
        match durable {
            Durable::OnFlush => Ok(()),
            Durable::OnReturn => {
                self.flush()?;
                Ok(self.open.volume.0.check_kept(&self.open.node, epoch)?)
            }
        }
    }

    /// Makes `bytes` from `offset` read as zeros, and returns their space to the store if the host can do so (SBC-3 UNMAP with
    /// LBPRZ=1).
    ///
    /// **Durability**: after the next flush that returns `Ok`. **Errors**: as [`Self::write`].
    pub fn discard(&self, offset: u64, bytes: u64) -> Result<(), BlockError> {
        self.zero(offset, bytes, ZeroRange::Hole)
    }

    fn zero(&self, offset: u64, bytes: u64, how: ZeroRange) -> Result<(), BlockError> {
        let _size = self.check(offset, bytes)?;
        Ok(self.open.volume.0.zero(&self.open.node, offset, bytes, how)?)
    }

    /// Makes all earlier writes durable (SBC-3 SYNCHRONIZE CACHE of the whole device).
    ///
    /// **Errors**: as [`Volume::commit`].
    pub fn flush(&self) -> Result<(), BlockError> {
        Ok(self.open.volume.commit(&self.open.node)?)
    }

    /// Sets the size of the device. Bytes that are added read as zeros. Waits for I/O in flight.
    ///
    /// **Durability**: durable when it returns. **Errors**: [`BlockError::UnalignedSize`]; [`Error::NoSpace`] beyond the quota;
    /// those of [`Volume::set_attr`].
    pub fn resize(&self, size: u64) -> Result<(), BlockError> {
        let block_bytes = self.block_bytes;
        if !size.is_multiple_of(u64::from(block_bytes)) {
            return Err(BlockError::UnalignedSize { size, block_bytes });
        }
        let mut now = self.size.write().unpoisoned();
        let (volume, node) = (&*self.open.volume.0, &self.open.node);
        volume.may_change(&[node])?;
        let mut change = volume.begin_change();
        volume.set_attr(&mut change, node, None, &|_| Ok(SetAttr { size: Some(size), ..SetAttr::default() }))?;
        *now = size;
        Ok(())
    }

    /// Checks the range of an access. The size cannot change while the caller holds the result.
    fn check(&self, offset: u64, bytes: u64) -> Result<RwLockReadGuard<'_, u64>, BlockError> {
        let block = u64::from(self.block_bytes);
        if !offset.is_multiple_of(block) || !bytes.is_multiple_of(block) {
            return Err(BlockError::Unaligned { offset, bytes, block_bytes: self.block_bytes });
        }
        let size = self.size.read().unpoisoned();
        if offset.checked_add(bytes).is_none_or(|end| end > *size) {
            return Err(BlockError::OutOfRange { offset, bytes, size: *size });
        }
        Ok(size)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::{Config, CreateHow, Options, Owner};

    #[test]
    fn a_host_without_holes_and_zero_ranges_gets_zeros_written() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("dir");
        std::fs::create_dir(&dir).unwrap();
        let config = Config { dir: dir.clone(), state_dir: base.path().join("state"), loss: None, options: Options::default() };
        let volume = Volume::open(config).unwrap();
        let own = std::fs::metadata(&dir).unwrap();
        let owner = Owner { uid: own.uid(), gid: own.gid() };
        let set = SetAttr { size: Some(1 << 20), ..SetAttr::default() };
        let (node, _) = volume.create(&volume.root(), b"lun", CreateHow::Guarded(set), owner).unwrap();
        let device = volume.open_device(&node, 512).unwrap();
        volume.0.punch_hole.store(false, Ordering::Relaxed);
        volume.0.zero_range.store(false, Ordering::Relaxed);
        device.write(0, &vec![7; 1 << 20], Durable::OnFlush).unwrap();
        device.discard(512, 300 << 10).unwrap();
        device.write_zeroes(600 << 10, 300 << 10, Durable::OnReturn).unwrap();
        let mut expected = vec![7; 1 << 20];
        expected[512..512 + (300 << 10)].fill(0);
        expected[600 << 10..900 << 10].fill(0);
        let mut seen = vec![1; 1 << 20];
        device.read(0, &mut seen).unwrap();
        assert!(seen == expected);
        let blocks = std::fs::metadata(dir.join("lun")).unwrap().blocks();
        assert!(blocks * 512 >= 1 << 20, "{blocks} blocks: zeros were written, no hole was made");
    }
}
