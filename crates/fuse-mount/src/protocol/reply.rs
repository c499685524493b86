//! Replies.

use super::Unique;
use crate::limits::BLOCK_BYTES;
use dnfs::file::{Attributes, SpaceUse};
use dnfs::mount::{DirItem, LockConflict, LockKind};
use std::io::IoSlice;

/// Flags of an opened file: it bypasses the page cache (FOPEN_DIRECT_IO), and writes run in parallel
/// (FOPEN_PARALLEL_DIRECT_WRITES).
pub(crate) const OPENED_FILE: u32 = 1 | 1 << 6;

/// The header of a reply with `bytes` bytes after it, or with an error number.
pub(crate) fn header(unique: Unique, bytes: usize, errno: i32) -> [u8; 16] {
    let mut header = [0; 16];
    let length = (16 + bytes) as u32;
    let words = length.to_ne_bytes().into_iter().chain((-errno).to_ne_bytes()).chain(unique.0.to_ne_bytes());
    header.iter_mut().zip(words).for_each(|(to, byte)| *to = byte);
    header
}

/// The parts of a reply, as writev(2) takes them.
pub(crate) fn parts<'a>(header: &'a [u8; 16], result: &'a [u8], data: &'a [u8]) -> [IoSlice<'a>; 3] {
    [IoSlice::new(header), IoSlice::new(result), IoSlice::new(data)]
}

/// The words of a result, in order.
#[derive(Default)]
pub(super) struct Words(pub(super) Vec<u8>);

impl Words {
    pub(super) fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    pub(super) fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    pub(super) fn u16(mut self, value: u16) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    pub(super) fn padded(mut self, length: usize) -> Vec<u8> {
        self.0.resize(length, 0);
        self.0
    }
}

/// struct fuse_attr.
fn attr(words: Words, attr: &Attributes) -> Words {
    let words = words.u64(attr.fileid).u64(attr.size).u64(attr.used.div_ceil(512));
    let times = [attr.atime, attr.mtime, attr.ctime];
    let words = times.iter().fold(words, |words, time| words.u64(time.seconds.cast_unsigned()));
    let words = times.iter().fold(words, |words, time| words.u32(time.nanoseconds));
    let device = encoded_device(attr.rdev.major, attr.rdev.minor);
    words
        .u32(attr.kind.type_bits() | attr.mode & 0o7777)
        .u32(attr.nlink)
        .u32(attr.uid)
        .u32(attr.gid)
        .u32(device)
        .u32(BLOCK_BYTES)
        .u32(0)
}

/// A device number as the kernel encodes it in 32 bits (new_encode_dev).
const fn encoded_device(major: u32, minor: u32) -> u32 {
    minor & 0xff | major << 8 | (minor & !0xff) << 12
}

/// Major and minor number of such a device.
pub(crate) const fn device_numbers(device: u32) -> (u32, u32) {
    ((device & 0xf_ff00) >> 8, device & 0xff | device >> 12 & 0xf_ff00)
}

/// The reply to GETATTR and SETATTR. The kernel does not cache it, so the next stat(2) sends a request again.
pub(crate) fn attributes(attributes: &Attributes) -> Vec<u8> {
    attr(Words::default().u64(0).u32(0).u32(0), attributes).0
}

/// The reply to LOOKUP and to requests that make a name. The kernel does not cache it.
pub(crate) fn entry(node: u64, attributes: &Attributes) -> Vec<u8> {
    attr(Words::default().u64(node).u64(0).u64(0).u64(0).u32(0).u32(0), attributes).0
}

/// The reply to OPEN and OPENDIR.
pub(crate) fn opened(handle: u64, flags: u32) -> Vec<u8> {
    Words::default().u64(handle).u32(flags).u32(0).0
}

/// The reply to WRITE.
pub(crate) fn written(bytes: usize) -> Vec<u8> {
    Words::default().u32(bytes as u32).u32(0).0
}

/// The reply to LSEEK.
pub(crate) fn offset(offset: u64) -> Vec<u8> {
    Words::default().u64(offset).0
}

/// The reply to GETLK: the conflicting lock, or F_UNLCK.
pub(crate) fn lock(found: Option<&LockConflict>) -> Vec<u8> {
    let Some(found) = found else { return Words::default().u64(0).u64(0).u32(libc::F_UNLCK as u32).u32(0).0 };
    let start = found.range.start.max(0).cast_unsigned();
    let last = if found.range.length == 0 { i64::MAX as u64 } else { start + found.range.length.cast_unsigned() - 1 };
    let kind = if found.kind == LockKind::Exclusive { libc::F_WRLCK } else { libc::F_RDLCK };
    Words::default().u64(start).u64(last).u32(kind as u32).u32(found.pid).0
}

/// The reply to STATFS, in blocks of 4 KiB.
pub(crate) fn statistics(space: &SpaceUse) -> Vec<u8> {
    const BLOCK: u64 = 4096;
    const NAME_MAX: u32 = 255;
    let words = [space.total_bytes, space.free_bytes, space.available_bytes].into_iter();
    let words = words.fold(Words::default(), |words, bytes| words.u64(bytes / BLOCK));
    words.u64(space.total_files).u64(space.available_files).u32(BLOCK as u32).u32(NAME_MAX).u32(BLOCK as u32).padded(80)
}

/// The reply to READDIR: the entries from an index on that fit.
pub(crate) fn entries(items: &[DirItem], from: u64, bytes_max: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let from = usize::try_from(from).unwrap_or(usize::MAX);
    for (item, next) in items.iter().zip(1u64..).skip(from) {
        let length = (24 + item.name.len()).next_multiple_of(8);
        if bytes.len() + length > bytes_max {
            break;
        }
        let kind = item.kind.map_or(0, |kind| kind.type_bits() >> 12);
        let words = Words::default().u64(item.fileid).u64(next).u32(item.name.len() as u32).u32(kind);
        let end = bytes.len() + length;
        bytes.extend(words.0);
        bytes.extend(&item.name);
        bytes.resize(end, 0);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use dnfs::file::FileKind;
    use dnfs::file::{DeviceNumbers, FileTime};
    use dnfs::mount::LockRange;

    fn file() -> Attributes {
        Attributes {
            kind: FileKind::Regular,
            mode: 0o640,
            nlink: 1,
            uid: 1000,
            gid: 100,
            size: 513,
            used: 1025,
            rdev: DeviceNumbers::default(),
            fsid: 1,
            fileid: 42,
            atime: FileTime::default(),
            mtime: FileTime { seconds: -1, nanoseconds: 5 },
            ctime: FileTime::default(),
        }
    }

    #[test]
    fn results_have_the_sizes_of_the_protocol() {
        // fuse_attr_out 104, fuse_entry_out 128, fuse_open_out 16, fuse_statfs_out 80, fuse_write_out 8, fuse_lk_out 24.
        assert_eq!((attributes(&file()).len(), entry(2, &file()).len()), (104, 128));
        assert_eq!((opened(1, 0).len(), statistics(&SpaceUse::default()).len()), (16, 80));
        assert_eq!((written(1).len(), offset(0).len(), lock(None).len()), (8, 8, 24));
    }

    #[test]
    fn attributes_lie_where_the_kernel_looks_for_them() {
        let bytes = attributes(&file());
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        let long = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
        assert_eq!((long(16), long(24), long(32)), (42, 513, 3), "number, size, blocks of 512 bytes");
        assert_eq!((long(48).cast_signed(), word(68)), (-1, 5), "mtime");
        assert_eq!((word(76), word(80), word(84), word(88)), (0o100_640, 1, 1000, 100));
    }

    #[test]
    fn entries_go_on_where_the_last_reply_ended() {
        let item = |name: &str| DirItem { name: name.into(), fileid: 9, fsid: 1, kind: Some(FileKind::Directory) };
        let items = [item("a"), item("longer-name"), item("c")];
        assert_eq!(entries(&items, 0, 4096).len(), 32 + 40 + 32);
        let first = entries(&items, 0, 80);
        assert_eq!(first.len(), 72, "two fit");
        assert_eq!(u64::from_ne_bytes(first[40..48].try_into().unwrap()), 2, "where to go on");
        assert_eq!(entries(&items, 2, 80).len(), 32);
        assert_eq!(entries(&items, u64::MAX, 80), []);
    }

    #[test]
    fn a_lock_to_the_end_reaches_to_the_last_offset() {
        let found = LockConflict { kind: LockKind::Shared, range: LockRange { start: 5, length: 0 }, pid: 7 };
        let bytes = lock(Some(&found));
        assert_eq!(bytes[8..16], (i64::MAX as u64).to_ne_bytes());
    }

    #[test]
    fn devices_keep_their_numbers() {
        for (major, minor) in [(8, 1), (259, 70_000), (0xfff, 0xf_ffff)] {
            assert_eq!(device_numbers(encoded_device(major, minor)), (major, minor));
        }
    }
}
