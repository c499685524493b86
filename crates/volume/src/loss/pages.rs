//! Data and attributes of objects that are not durable yet: before-images of 4 KiB pages.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use super::chance::Chance;
use crate::limits::{LOSS_BYTES_MAX, LOSS_FILES_MAX, LOSS_PAGE_BYTES};
use crate::sys::{self, KernelHandle, RawStat, RawTime};

/// The changes of one object since its last flush, and how to take them back.
#[derive(Debug)]
pub(super) struct FileLoss {
    fd: OwnedFd,
    /// The attributes before the first change of attributes.
    attr: Option<RawStat>,
    /// Present after a write or a new size.
    data: Option<DataLoss>,
}

#[derive(Debug)]
struct DataLoss {
    /// The attributes from before the first change of data.
    before: RawStat,
    /// The durable size.
    size: u64,
    /// Durable content by page number, up to the durable size. `None`: the page is beyond it, so it has zeros.
    pages: BTreeMap<u64, Option<Box<[u8]>>>,
    changes: u64,
}

/// The changes of the content and attributes of objects that could be taken back.
#[derive(Debug, Default)]
pub(super) struct FileLosses {
    pub(super) files: HashMap<KernelHandle, FileLoss>,
}

impl FileLosses {
    /// Called before a write.
    pub(super) fn before_write(&mut self, identity: &KernelHandle, fd: impl AsFd, offset: u64, len: usize) -> io::Result<()> {
        self.bound(len)?;
        let data = self.data_loss(identity, &fd)?;
        data.changes += 1;
        let end = offset + len as u64;
        data.save(&fd, offset / LOSS_PAGE_BYTES..end.div_ceil(LOSS_PAGE_BYTES))
    }

    /// Called before attributes are set. `size`: the new size, if it is one of them.
    pub(super) fn before_attr(&mut self, identity: &KernelHandle, fd: impl AsFd, size: Option<u64>) -> io::Result<()> {
        let stat = sys::stat(&fd)?;
        let cut = size.map_or(0, |size| stat.size.saturating_sub(size));
        self.bound(usize::try_from(cut).unwrap_or(usize::MAX))?;
        if cut > LOSS_BYTES_MAX as u64 {
            // Too much memory: the old content becomes durable, and this truncation cannot be taken back.
            sys::fsync(&fd)?;
            self.flushed(identity, true);
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

    /// The host has written these bytes durably: their pages are durable, and the size up to their end.
    pub(super) fn written_durably(&mut self, identity: &KernelHandle, offset: u64, len: usize) {
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

    /// The host has flushed the object. `whole`: with its attributes.
    pub(super) fn flushed(&mut self, identity: &KernelHandle, whole: bool) {
        let Some(object) = self.files.get_mut(identity) else { return };
        object.data = None;
        if whole || object.attr.is_none() {
            self.files.remove(identity);
        }
    }

    /// The host has flushed the whole file system.
    pub(super) fn all_flushed(&mut self) {
        self.files.clear();
    }

    /// Keeps the layer within its limits of memory and descriptors: flushes the files with the most data, as a kernel
    /// does that writes back by itself.
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
            self.flushed(&largest, true);
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
            // This descriptor can write. One that was kept for attributes may not be able to.
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

    /// Decides which changes do not survive. Takes nothing back yet.
    pub(super) fn plan(&self, chance: &mut Chance) -> io::Result<Undo<'_>> {
        let data = self.data.as_ref().map(|data| data.plan(&self.fd, chance)).transpose()?.flatten();
        let attr = self.attr.as_ref().filter(|_| !chance.survives());
        Ok(Undo { data, attr })
    }

    pub(super) fn fd(&self) -> &OwnedFd {
        &self.fd
    }
}

/// The changes of one object that a cut takes back.
#[derive(Debug)]
pub(super) struct Undo<'a> {
    data: Option<DataUndo<'a>>,
    attr: Option<&'a RawStat>,
}

#[derive(Debug)]
struct DataUndo<'a> {
    size: Option<u64>,
    pages: Vec<(u64, &'a Option<Box<[u8]>>)>,
    data: &'a DataLoss,
}

impl Undo<'_> {
    /// Takes the changes back, on the object or on a copy of it.
    pub(super) fn apply(&self, fd: impl AsFd) -> io::Result<()> {
        if let Some(data) = &self.data {
            // The file must be as if it had not been written to, so this must not clear set-id bits.
            sys::keeping_set_id(|| data.apply(&fd))?;
        }
        let Some(attr) = self.attr else { return Ok(()) };
        let now = sys::stat(&fd)?;
        if (now.uid, now.gid) != (attr.uid, attr.gid) {
            sys::chown(&fd, Some(attr.uid), Some(attr.gid))?;
        }
        if sys::stat(&fd)?.mode != attr.mode && attr.mode & libc::S_IFMT != libc::S_IFLNK {
            sys::proc_chmod(&fd, attr.mode & 0o7777)?;
        }
        restore_times(&fd, attr)
    }

    /// Numbers of lost changes of data and of attributes.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.data.as_ref().map_or(0, |undo| undo.data.changes), u64::from(self.attr.is_some()))
    }
}

impl DataUndo<'_> {
    fn apply(&self, fd: impl AsFd) -> io::Result<()> {
        if let Some(size) = self.size {
            sys::truncate(&fd, size)?;
        }
        let size = sys::stat(&fd)?.size;
        for (page, image) in &self.pages {
            let at = page * LOSS_PAGE_BYTES;
            let mut bytes = vec![0; usize::try_from((size - at).min(LOSS_PAGE_BYTES)).unwrap_or(0)];
            if let Some(image) = image {
                let len = image.len().min(bytes.len());
                bytes[..len].copy_from_slice(&image[..len]);
            }
            // A refused write has left a hole here. A full store has no block to write the same zeros to.
            if read_page(&fd, at, bytes.len())? == bytes {
                continue;
            }
            let mut done = 0;
            while done < bytes.len() {
                done += sys::pwrite(&fd, &bytes[done..], at + done as u64)?;
            }
        }
        restore_times(&fd, &self.data.before)
    }
}

impl DataLoss {
    /// Saves the durable content of the pages in `range`, unless it is saved already.
    fn save(&mut self, fd: impl AsFd, range: std::ops::Range<u64>) -> io::Result<()> {
        for page in range {
            if self.pages.contains_key(&page) {
                continue;
            }
            let at = page * LOSS_PAGE_BYTES;
            let mut image = None;
            if at < self.size {
                let bytes = usize::try_from((self.size - at).min(LOSS_PAGE_BYTES)).unwrap_or(0);
                image = Some(read_page(&fd, at, bytes)?.into_boxed_slice());
            }
            self.pages.insert(page, image);
        }
        Ok(())
    }

    /// Decides which durable content a cut restores. `None` if every change survives.
    fn plan(&self, fd: impl AsFd, chance: &mut Chance) -> io::Result<Option<DataUndo<'_>>> {
        let now = sys::stat(&fd)?.size;
        let shortened = now < self.size;
        if shortened && chance.survives() {
            return Ok(None);
        }
        // A file that has grown keeps its new size up to any page.
        let grown = now.saturating_sub(self.size);
        let size = match chance.up_to(grown.div_ceil(LOSS_PAGE_BYTES)) {
            0 => self.size,
            pages => (self.size / LOSS_PAGE_BYTES + pages).saturating_mul(LOSS_PAGE_BYTES).clamp(self.size, now),
        };
        let gone = |page: u64, chance: &mut Chance| page * LOSS_PAGE_BYTES < size && (shortened || !chance.survives());
        let pages: Vec<_> =
            self.pages.iter().filter(|(page, _)| gone(**page, chance)).map(|(page, image)| (*page, image)).collect();
        let size = (size != now).then_some(size);
        Ok((size.is_some() || !pages.is_empty()).then_some(DataUndo { size, pages, data: self }))
    }
}

/// Reads `len` bytes from `at`. Bytes beyond the end of the file are zeros.
fn read_page(fd: impl AsFd, at: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let mut got = 0;
    while got < len {
        match sys::pread(&fd, &mut bytes[got..], at + got as u64)? {
            0 => break,
            n => got += n,
        }
    }
    Ok(bytes)
}

fn restore_times(fd: impl AsFd, stat: &RawStat) -> io::Result<()> {
    let time = |(sec, nsec): (i64, u32)| RawTime::At { sec, nsec };
    sys::set_times(fd, time(stat.atime), time(stat.mtime))
}
