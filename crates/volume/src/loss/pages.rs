//! Data and attributes of objects that are not durable yet: before-images at 4 KiB pages.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use super::{Chance, Loss};
use crate::limits::{LOSS_BYTES_MAX, LOSS_FILES_MAX, LOSS_PAGE_BYTES};
use crate::sys::{self, KernelHandle, RawStat, RawTime};

/// How to take back what one object's last flush did not cover.
#[derive(Debug)]
pub(super) struct FileLoss {
    fd: OwnedFd,
    /// Set by a change of mode, owner or times: what they were.
    attr: Option<RawStat>,
    /// Set by a write or a new size.
    data: Option<DataLoss>,
}

#[derive(Debug)]
struct DataLoss {
    /// Attributes when the content was last durable; the size is the durable one.
    before: RawStat,
    size: u64,
    /// Durable content by page number, zeros at the end left out; `None`: all zeros.
    pages: BTreeMap<u64, Option<Box<[u8]>>>,
    changes: u64,
}

impl Loss {
    /// To be called before a write.
    pub(crate) fn before_write(&mut self, identity: &KernelHandle, fd: impl AsFd, offset: u64, len: usize) -> io::Result<()> {
        self.bound(len)?;
        let data = self.data_loss(identity, &fd)?;
        data.changes += 1;
        let end = offset + len as u64;
        data.save(&fd, offset / LOSS_PAGE_BYTES..end.div_ceil(LOSS_PAGE_BYTES))
    }

    /// To be called before attributes are set; `size` when that is one of them.
    pub(crate) fn before_attr(&mut self, identity: &KernelHandle, fd: impl AsFd, size: Option<u64>) -> io::Result<()> {
        let stat = sys::stat(&fd)?;
        let cut = size.map_or(0, |size| stat.size.saturating_sub(size));
        self.bound(usize::try_from(cut).unwrap_or(usize::MAX))?;
        if cut > LOSS_BYTES_MAX as u64 {
            // Too much to remember: what was there becomes durable, and the cut itself is not kept.
            sys::fsync(&fd)?;
            self.file_flushed(identity, true);
            return Ok(());
        }
        if let Some(size) = size {
            let data = self.data_loss(identity, &fd)?;
            data.changes += 1;
            data.save(&fd, size / LOSS_PAGE_BYTES..stat.size.div_ceil(LOSS_PAGE_BYTES))?;
        }
        self.object(identity, &fd)?.attr.get_or_insert(stat);
        Ok(())
    }

    /// A durable write of these bytes really ran: their pages, and the size up to them, are durable.
    pub(crate) fn written_durably(&mut self, identity: &KernelHandle, offset: u64, len: usize) {
        let Some(object) = self.files.get_mut(identity) else { return };
        let Some(data) = &mut object.data else { return };
        let end = offset + len as u64;
        for page in offset / LOSS_PAGE_BYTES..end.div_ceil(LOSS_PAGE_BYTES) {
            data.pages.remove(&page);
        }
        data.size = data.size.max(end);
        let size_now = sys::stat(&object.fd).map_or(u64::MAX, |stat| stat.size);
        if data.pages.is_empty() && data.size == size_now {
            object.data = None;
            if object.attr.is_none() {
                self.files.remove(identity);
            }
        }
    }

    /// A flush of the object really ran; `whole`: attributes too.
    pub(super) fn file_flushed(&mut self, identity: &KernelHandle, whole: bool) {
        let Some(object) = self.files.get_mut(identity) else { return };
        object.data = None;
        if whole || object.attr.is_none() {
            self.files.remove(identity);
        }
    }

    /// Keeps the layer within its memory and descriptors: flushes files, as a kernel that writes back
    /// on its own would.
    fn bound(&mut self, more: usize) -> io::Result<()> {
        let held: usize = self.files.values().map(FileLoss::bytes).sum();
        let mut spare = LOSS_BYTES_MAX.saturating_sub(held);
        while (spare < more && spare < LOSS_BYTES_MAX) || self.files.len() >= LOSS_FILES_MAX {
            let Some((largest, bytes)) = self.files.iter().map(|(id, f)| (*id, f.bytes())).max_by_key(|(_, b)| *b) else {
                break;
            };
            if let Some(object) = self.files.get(&largest) {
                sys::fsync(&object.fd)?;
            }
            self.file_flushed(&largest, true);
            spare = spare.saturating_add(bytes.max(1));
        }
        Ok(())
    }

    fn object(&mut self, identity: &KernelHandle, fd: impl AsFd) -> io::Result<&mut FileLoss> {
        if !self.files.contains_key(identity) {
            let fd = fd.as_fd().try_clone_to_owned()?;
            self.files.insert(*identity, FileLoss { fd, attr: None, data: None });
        }
        self.files.get_mut(identity).ok_or_else(|| io::Error::from_raw_os_error(libc::EIO))
    }

    fn data_loss(&mut self, identity: &KernelHandle, fd: impl AsFd) -> io::Result<&mut DataLoss> {
        let object = self.object(identity, &fd)?;
        if object.data.is_none() {
            // A descriptor that can write takes the place of one that was kept for attributes.
            object.fd = fd.as_fd().try_clone_to_owned()?;
            let before = sys::stat(&fd)?;
            object.data = Some(DataLoss { before, size: before.size, pages: BTreeMap::new(), changes: 0 });
        }
        object.data.as_mut().ok_or_else(|| io::Error::from_raw_os_error(libc::EIO))
    }
}

impl FileLoss {
    fn bytes(&self) -> usize {
        self.data.as_ref().map_or(0, |data| data.pages.len() * (LOSS_PAGE_BYTES as usize + 64))
    }

    /// Takes back what the dice do not let survive: changes of data and of attributes that were lost.
    pub(super) fn undo(&mut self, chance: &mut Chance) -> io::Result<(u64, u64)> {
        let (mut writes, mut names) = (0, 0);
        if let Some(data) = self.data.take()
            && data.undo(&self.fd, chance)?
        {
            writes = data.changes;
        }
        if let Some(attr) = self.attr.take()
            && !chance.survives()
        {
            let now = sys::stat(&self.fd)?;
            if (now.uid, now.gid) != (attr.uid, attr.gid) {
                sys::chown(&self.fd, Some(attr.uid), Some(attr.gid))?;
            }
            if sys::stat(&self.fd)?.mode != attr.mode && attr.mode & libc::S_IFMT != libc::S_IFLNK {
                sys::proc_chmod(&self.fd, attr.mode & 0o7777)?;
            }
            restore_times(&self.fd, &attr)?;
            names = 1;
        }
        Ok((writes, names))
    }
}

impl DataLoss {
    /// Keeps the durable content of the pages in `range` that is not kept yet.
    fn save(&mut self, fd: impl AsFd, range: std::ops::Range<u64>) -> io::Result<()> {
        for page in range {
            if self.pages.contains_key(&page) {
                continue;
            }
            let at = page * LOSS_PAGE_BYTES;
            let mut image = None;
            if at < self.size {
                let mut bytes = vec![0; usize::try_from((self.size - at).min(LOSS_PAGE_BYTES)).unwrap_or(0)];
                let mut got = 0;
                while got < bytes.len() {
                    match sys::pread(&fd, &mut bytes[got..], at + got as u64)? {
                        0 => break,
                        n => got += n,
                    }
                }
                image = Some(bytes.into_boxed_slice());
            }
            self.pages.insert(page, image);
        }
        Ok(())
    }

    /// Puts the durable content back where the dice say so; whether anything was lost.
    fn undo(&self, fd: impl AsFd, chance: &mut Chance) -> io::Result<bool> {
        let now = sys::stat(&fd)?.size;
        let shortened = now < self.size;
        if shortened && chance.survives() {
            return Ok(false);
        }
        // Growth survives up to any page.
        let grown = now.saturating_sub(self.size);
        let size = match chance.up_to(grown.div_ceil(LOSS_PAGE_BYTES)) {
            0 => self.size,
            pages => (self.size / LOSS_PAGE_BYTES + pages).saturating_mul(LOSS_PAGE_BYTES).clamp(self.size, now),
        };
        let mut lost = size != now;
        if size != now {
            sys::truncate(&fd, size)?;
        }
        for (page, image) in &self.pages {
            let at = page * LOSS_PAGE_BYTES;
            if at >= size || (!shortened && chance.survives()) {
                continue;
            }
            lost = true;
            let mut bytes = vec![0; usize::try_from((size - at).min(LOSS_PAGE_BYTES)).unwrap_or(0)];
            if let Some(image) = image {
                let len = image.len().min(bytes.len());
                bytes[..len].copy_from_slice(&image[..len]);
            }
            let mut done = 0;
            while done < bytes.len() {
                done += sys::pwrite(&fd, &bytes[done..], at + done as u64)?;
            }
        }
        if lost {
            restore_times(&fd, &self.before)?;
        }
        Ok(lost)
    }
}

fn restore_times(fd: impl AsFd, stat: &RawStat) -> io::Result<()> {
    let time = |(sec, nsec): (i64, u32)| RawTime::At { sec, nsec };
    sys::set_times(fd, time(stat.atime), time(stat.mtime))
}
