//! The open files and directories of programs, by the numbers that the kernel uses for them.

use crate::open_file::OpenFile;
use dnfs::FileHandle;
use dnfs::mount::{DirItem, Mount};
use host::Unpoisoned;
use rustix::io::Errno;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// An open directory.
#[derive(Debug)]
pub(crate) struct OpenDirectory {
    /// The mount with the credentials of the user that opened it.
    pub(crate) mount: Arc<Mount>,
    pub(crate) handle: FileHandle,
    /// The entries when a program last began a listing. The offsets of the listing are indexes in it.
    listing: Mutex<Option<Arc<Vec<DirItem>>>>,
}

#[derive(Clone, Debug)]
enum Open {
    /// The file, and its node.
    File(Arc<OpenFile>, u64),
    Directory(Arc<OpenDirectory>),
}

#[derive(Debug, Default)]
pub(crate) struct Handles(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    open: HashMap<u64, Open>,
    last: u64,
}

impl OpenDirectory {
    pub(crate) const fn new(mount: Arc<Mount>, handle: FileHandle) -> Self {
        Self { mount, handle, listing: Mutex::new(None) }
    }

    /// The entries for a listing. Calls `fetch` if the program begins one.
    pub(crate) fn listing(
        &self,
        begins: bool,
        fetch: impl FnOnce() -> Result<Vec<DirItem>, Errno>,
    ) -> Result<Arc<Vec<DirItem>>, Errno> {
        let mut listing = self.listing.lock().unpoisoned();
        match listing.as_ref().filter(|_| !begins) {
            Some(known) => Ok(Arc::clone(known)),
            None => Ok(Arc::clone(listing.insert(Arc::new(fetch()?)))),
        }
    }
}

impl Handles {
    pub(crate) fn add_file(&self, file: Arc<OpenFile>, node: u64) -> u64 {
        self.0.lock().unpoisoned().add(Open::File(file, node))
    }

    pub(crate) fn add_directory(&self, directory: OpenDirectory) -> u64 {
        self.0.lock().unpoisoned().add(Open::Directory(Arc::new(directory)))
    }

    /// # Errors
    /// EBADF.
    pub(crate) fn file(&self, number: u64) -> Result<Arc<OpenFile>, Errno> {
        match self.0.lock().unpoisoned().open.get(&number) {
            Some(Open::File(file, _)) => Ok(Arc::clone(file)),
            _ => Err(Errno::BADF),
        }
    }

    /// # Errors
    /// EBADF.
    pub(crate) fn directory(&self, number: u64) -> Result<Arc<OpenDirectory>, Errno> {
        match self.0.lock().unpoisoned().open.get(&number) {
            Some(Open::Directory(directory)) => Ok(Arc::clone(directory)),
            _ => Err(Errno::BADF),
        }
    }

    /// Removes an open file or directory. Returns a file with its node, or `None` for a directory.
    pub(crate) fn remove(&self, number: u64) -> Option<(Arc<OpenFile>, u64)> {
        match self.0.lock().unpoisoned().open.remove(&number)? {
            Open::File(file, node) => Some((file, node)),
            Open::Directory(_) => None,
        }
    }

    /// The numbers of all open files and directories.
    pub(crate) fn all(&self) -> Vec<u64> {
        self.0.lock().unpoisoned().open.keys().copied().collect()
    }
}

impl Inner {
    fn add(&mut self, open: Open) -> u64 {
        self.last += 1;
        self.open.insert(self.last, open);
        self.last
    }
}
