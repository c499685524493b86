//! Inode numbers. A FUSE mount has one `st_dev`, because the kernel makes submounts only for virtiofs. So files of file systems
//! nested in the export get other numbers: otherwise `tar` and `cp` would treat two files with the same `st_dev` and `st_ino`
//! as hard links of one file.

use dnfs::file::Attributes;
use dnfs::mount::DirItem;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Numbers of nested file systems have this bit. Few file systems use it.
const NESTED: u64 = 1 << 63;

/// Converts the inode numbers of a mount.
#[derive(Debug)]
pub(crate) struct InodeNumbers {
    /// File system of the root: its files keep their numbers.
    root: AtomicU64,
}

impl InodeNumbers {
    pub(crate) const fn new(root: u64) -> Self {
        Self { root: AtomicU64::new(root) }
    }

    /// Notes the new file system of the root.
    pub(crate) fn replace_root(&self, root: u64) {
        self.root.store(root, Relaxed);
    }

    /// Attributes with the number that programs see.
    pub(crate) fn of(&self, attributes: Attributes) -> Attributes {
        Attributes { fileid: self.number(attributes.fsid, attributes.fileid), ..attributes }
    }

    /// As [`Self::of`], for the names of a directory.
    pub(crate) fn of_items(&self, mut items: Vec<DirItem>) -> Vec<DirItem> {
        for item in &mut items {
            item.fileid = self.number(item.fsid, item.fileid);
        }
        items
    }

    fn number(&self, fsid: u64, fileid: u64) -> u64 {
        if fsid == self.root.load(Relaxed) { fileid } else { mixed(fileid ^ mixed(fsid)) | NESTED }
    }
}

/// Permutes all numbers so that neighbours are far apart (the finalizer of SplitMix64).
const fn mixed(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn files_of_nested_file_systems_share_no_number_and_those_of_the_root_keep_theirs() {
        let numbers = InodeNumbers::new(7);
        assert_eq!(numbers.number(7, 2), 2);
        numbers.replace_root(0);
        assert_eq!(numbers.number(0, 2), 2);
        let all: HashSet<u64> = (0..20)
            .flat_map(|fsid| (1..500).map(move |fileid| (fsid, fileid)))
            .map(|(fsid, fileid)| numbers.number(fsid, fileid))
            .collect();
        assert_eq!(all.len(), 20 * 499);
    }
}
