//! The part of the FUSE protocol that one file needs (include/uapi/linux/fuse.h of Linux, version 7): requests and
//! replies as bytes in the host's order.
//!
//! A request has a header of 40 bytes (length, opcode, unique, inode, uid, gid, pid, …), then the arguments of its operation. A
//! reply has a header of 16 bytes (length, error, unique), then the result.

/// Bytes of a request's header.
pub(crate) const HEADER: usize = 40;
/// Bytes of the arguments of WRITE. The data follows them.
pub(crate) const WRITE_ARGUMENTS: usize = 40;
/// The version that is used. The first with `max_pages` is 7.28. No newer feature is needed.
const VERSION: (u32, u32) = (7, 31);
/// Flags of INIT: several reads of a file at once, writes of more than a page, direct I/O that does not wait, `max_pages` is
/// valid.
const ASYNC_READ: u32 = 1;
const BIG_WRITES: u32 = 1 << 5;
const ASYNC_DIO: u32 = 1 << 15;
const MAX_PAGES: u32 = 1 << 22;
/// Flags of an opened file: it bypasses the page cache, no FLUSH at close, writes in parallel.
const OPEN_FLAGS: u32 = 1 | 1 << 5 | 1 << 6;
/// Modes of FALLOCATE (fallocate(2)).
const KEEP_SIZE: u32 = 1;
const PUNCH_HOLE: u32 = 2;
const ZERO_RANGE: u32 = 16;

/// The inode of the directory.
pub(crate) const ROOT: u64 = 1;
/// The inode of the file.
pub(crate) const LUN: u64 = 2;

/// The number of a request, which its reply repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unique(pub(crate) u64);

/// What the kernel requests.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Operation<'a> {
    Init {
        major: u32,
        minor: u32,
        readahead: u32,
        flags: u32,
    },
    Lookup {
        parent: u64,
        name: &'a [u8],
    },
    Attributes {
        inode: u64,
    },
    Open {
        inode: u64,
        writes: bool,
    },
    OpenDirectory,
    ReadDirectory {
        offset: u64,
        bytes: u32,
    },
    Read {
        offset: u64,
        bytes: u32,
    },
    Write {
        offset: u64,
        data: &'a [u8],
    },
    Sync,
    /// Zeroes; with `unmap` the space may be freed.
    Zero {
        offset: u64,
        bytes: u64,
        unmap: bool,
    },
    Statistics,
    /// RELEASE, RELEASEDIR, FLUSH: nothing to do.
    Close,
    /// FORGET, BATCH_FORGET, INTERRUPT: they get no reply. An interrupted request is answered when it is done.
    Nothing,
    /// DESTROY: the last request.
    Destroy,
    /// FALLOCATE with an unsupported mode.
    NoFallocate,
    Other,
}

/// The properties of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) bytes: u64,
    pub(crate) block_bytes: u32,
    pub(crate) physical_block_bytes: u32,
    pub(crate) read_only: bool,
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|word| u64::from_ne_bytes(*word))
}

/// Decodes a request. `None` if the bytes are not a request.
pub(crate) fn decode(bytes: &[u8]) -> Option<(Unique, Operation<'_>)> {
    let (opcode, unique, inode) = (u32_at(bytes, 4)?, Unique(u64_at(bytes, 8)?), u64_at(bytes, 16)?);
    let arguments = bytes.get(HEADER..u32_at(bytes, 0)? as usize)?;
    let word = |at| u32_at(arguments, at);
    let long = |at| u64_at(arguments, at);
    // READ, WRITE and READDIR: file handle, offset, size. FALLOCATE: file handle, offset, length, mode.
    let operation = match opcode {
        1 => Operation::Lookup { parent: inode, name: arguments.split(|byte| *byte == 0).next().unwrap_or_default() },
        3 => Operation::Attributes { inode },
        14 => Operation::Open { inode, writes: word(0)? & 3 != 0 },
        15 => Operation::Read { offset: long(8)?, bytes: word(16)? },
        16 => Operation::Write { offset: long(8)?, data: arguments.get(WRITE_ARGUMENTS..)?.get(..word(16)? as usize)? },
        17 => Operation::Statistics,
        18 | 25 | 29 => Operation::Close,
        20 => Operation::Sync,
        26 => Operation::Init { major: word(0)?, minor: word(4)?, readahead: word(8)?, flags: word(12)? },
        27 => Operation::OpenDirectory,
        28 => Operation::ReadDirectory { offset: long(8)?, bytes: word(16)? },
        2 | 36 | 42 => Operation::Nothing,
        38 => Operation::Destroy,
        43 => match word(24)? {
            mode if mode == PUNCH_HOLE | KEEP_SIZE => Operation::Zero { offset: long(8)?, bytes: long(16)?, unmap: true },
            mode if mode & !KEEP_SIZE == ZERO_RANGE => Operation::Zero { offset: long(8)?, bytes: long(16)?, unmap: false },
            _ => Operation::NoFallocate,
        },
        _ => Operation::Other,
    };
    Some((unique, operation))
}

/// The header of a reply with `bytes` bytes after it, or with an error number.
pub(crate) fn header(unique: Unique, bytes: usize, errno: i32) -> [u8; 16] {
    let mut header = [0; 16];
    let length = (16 + bytes) as u32;
    let words = length.to_ne_bytes().into_iter().chain((-errno).to_ne_bytes()).chain(unique.0.to_ne_bytes());
    header.iter_mut().zip(words).for_each(|(to, byte)| *to = byte);
    header
}

/// The words of a result, in order.
struct Words(Vec<u8>);

impl Words {
    fn new() -> Self {
        Self(Vec::with_capacity(128))
    }

    fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    fn u16(mut self, value: u16) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }
}

/// The reply to INIT. `None` if the kernel lacks version 7 or asynchronous direct I/O, which Linux 3.13 has.
pub(crate) fn init(major: u32, readahead: u32, flags: u32, request_bytes_max: u32, background_max: u16) -> Option<Vec<u8>> {
    if major < VERSION.0 || flags & ASYNC_DIO == 0 {
        return None;
    }
    let wanted = flags & (ASYNC_READ | BIG_WRITES | ASYNC_DIO | MAX_PAGES);
    let words = Words::new().u32(VERSION.0).u32(VERSION.1).u32(readahead.min(request_bytes_max)).u32(wanted);
    let words = words.u16(background_max).u16(background_max).u32(request_bytes_max).u32(1);
    // The number of pages is for 4 KiB: a kernel with larger pages uses fewer.
    let words = words.u16((request_bytes_max / 4096) as u16).u16(0);
    let mut bytes = words.0;
    bytes.resize(64, 0);
    Some(bytes)
}

impl Shape {
    fn attributes(&self, inode: u64) -> Vec<u8> {
        let is_lun = inode == LUN;
        let size = if is_lun { self.bytes } else { 0 };
        let mode = match (is_lun, self.read_only) {
            (true, false) => 0o100_600,
            (true, true) => 0o100_400,
            (false, _) => 0o040_700,
        };
        // All times are the beginning of 1970.
        let words = Words::new().u64(inode).u64(size).u64(size / 512).u64(0).u64(0).u64(0).u32(0).u32(0).u32(0);
        words.u32(mode).u32(if is_lun { 1 } else { 2 }).u32(0).u32(0).u32(0).u32(self.physical_block_bytes).u32(0).0
    }

    /// The reply to GETATTR. It is valid for a second, because the size changes if the LUN is
    /// resized.
    pub(crate) fn attributes_reply(&self, inode: u64) -> Vec<u8> {
        [Words::new().u64(1).u32(0).u32(0).0, self.attributes(inode)].concat()
    }

    /// The reply to LOOKUP.
    pub(crate) fn entry(&self) -> Vec<u8> {
        [Words::new().u64(LUN).u64(0).u64(1).u64(1).u32(0).u32(0).0, self.attributes(LUN)].concat()
    }

    /// The reply to STATFS. A loop device takes the size of a block as the granularity of discards.
    pub(crate) fn statistics(&self) -> Vec<u8> {
        let block = self.physical_block_bytes.max(512);
        let words = Words::new().u64(self.bytes / u64::from(block)).u64(0).u64(0).u64(1).u64(0).u32(block).u32(255).u32(block);
        let mut bytes = words.0;
        bytes.resize(80, 0);
        bytes
    }

    /// Whether a range is in whole blocks. This side never reads a block to write it back changed: two such writes
    /// could undo each other.
    pub(crate) fn is_whole(&self, offset: u64, bytes: u64) -> bool {
        let block = u64::from(self.block_bytes.max(1));
        offset.is_multiple_of(block) && bytes.is_multiple_of(block)
    }
}

/// The reply to OPEN and OPENDIR.
pub(crate) fn opened(is_lun: bool) -> Vec<u8> {
    Words::new().u64(0).u32(if is_lun { OPEN_FLAGS } else { 0 }).u32(0).0
}

/// The reply to WRITE.
pub(crate) fn written(bytes: u32) -> Vec<u8> {
    Words::new().u32(bytes).u32(0).0
}

/// The reply to READDIR: the entries from an index on that fit.
pub(crate) fn entries(name: &[u8], from: u64, bytes_max: u32) -> Vec<u8> {
    const DIRECTORY: u32 = 4;
    const FILE: u32 = 8;
    let mut bytes = Vec::new();
    let all: [(u64, u32, &[u8]); 3] = [(ROOT, DIRECTORY, b"."), (ROOT, DIRECTORY, b".."), (LUN, FILE, name)];
    for ((inode, kind, name), next) in all.into_iter().zip(1..).skip(from.min(3) as usize) {
        let mut entry = Words::new().u64(inode).u64(next).u32(name.len() as u32).u32(kind).0;
        entry.extend(name);
        entry.resize(entry.len().next_multiple_of(8), 0);
        if bytes.len() + entry.len() > bytes_max as usize {
            break;
        }
        bytes.extend(entry);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request with these arguments.
    fn request(opcode: u32, inode: u64, arguments: &[u8]) -> Vec<u8> {
        let words = Words::new().u32((HEADER + arguments.len()) as u32).u32(opcode).u64(7).u64(inode);
        [words.u32(0).u32(0).u32(1).u32(0).0, arguments.to_vec()].concat()
    }

    #[test]
    fn requests_are_read_and_what_is_cut_short_is_none() {
        let write = Words::new().u64(0).u64(8192).u32(4).u32(0).u64(0).u32(0).u32(0).0;
        let bytes = request(16, LUN, &[write, b"data".to_vec()].concat());
        assert_eq!(decode(&bytes), Some((Unique(7), Operation::Write { offset: 8192, data: b"data" })));
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), None, "{length}");
        }
        let lookup = request(1, ROOT, b"lun\0");
        assert_eq!(decode(&lookup), Some((Unique(7), Operation::Lookup { parent: ROOT, name: b"lun" })));
        let punch = Words::new().u64(0).u64(4096).u64(1 << 32).u32(3).u32(0).0;
        let operation = Operation::Zero { offset: 4096, bytes: 1 << 32, unmap: true };
        assert_eq!(decode(&request(43, LUN, &punch)), Some((Unique(7), operation)));
        assert_eq!(decode(&request(43, LUN, &[0; 32])), Some((Unique(7), Operation::NoFallocate)), "room alone");
    }

    #[test]
    fn results_have_the_sizes_of_the_protocol() {
        let shape = Shape { bytes: 1 << 20, block_bytes: 512, physical_block_bytes: 4096, read_only: false };
        // fuse_attr_out 104, fuse_entry_out 128, fuse_open_out 16, fuse_statfs_out 80, fuse_init_out 64, fuse_write_out 8.
        assert_eq!((shape.attributes_reply(LUN).len(), shape.entry().len()), (104, 128));
        assert_eq!((opened(true).len(), shape.statistics().len(), written(1).len()), (16, 80, 8));
        assert_eq!(init(7, 1 << 17, u32::MAX, 1 << 20, 512).map(|bytes| bytes.len()), Some(64));
        assert_eq!(init(7, 1 << 17, ASYNC_READ, 1 << 20, 512), None, "no asynchronous direct I/O");
        assert_eq!(entries(b"lun", 0, 4096).len(), 96);
        assert_eq!(entries(b"lun", 2, 4096).len(), 32);
        assert_eq!(entries(b"lun", 0, 40).len(), 32, "what fits");
    }

    #[test]
    fn an_error_is_negative_in_a_header() {
        let header = header(Unique(9), 0, 5);
        assert_eq!((u32_at(&header, 0), u32_at(&header, 4), u64_at(&header, 8)), (Some(16), Some((-5_i32) as u32), Some(9)));
    }
}
