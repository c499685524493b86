//! Requests.

use super::Unique;

/// Bytes of a request's header.
pub(crate) const HEADER: usize = 40;

/// The header of a request: its number, node and caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) unique: Unique,
    pub(crate) node: u64,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// The thread. 0 for the kernel itself, and for a thread of another PID namespace.
    pub(crate) pid: u32,
}

/// The attributes that SETATTR sets. `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SetAttributes {
    pub(crate) handle: Option<u64>,
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) atime: Time,
    pub(crate) mtime: Time,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Time {
    #[default]
    Keep,
    Now,
    To {
        seconds: i64,
        nanoseconds: u32,
    },
}

/// The lock of GETLK, SETLK and SETLKW. `last` is its last byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lock {
    pub(crate) handle: u64,
    pub(crate) owner: u64,
    pub(crate) start: u64,
    pub(crate) last: u64,
    /// F_RDLCK, F_WRLCK, F_UNLCK.
    pub(crate) kind: u32,
    /// The process. 0 if it is in another PID namespace, and to unlock.
    pub(crate) pid: u32,
    pub(crate) flags: u32,
}

/// The operation of a request. `handle` is a number that OPEN, CREATE or OPENDIR has returned.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Operation<'a> {
    Init { major: u32, minor: u32, readahead: u32, flags: u64 },
    Lookup { name: &'a [u8] },
    Forget { count: u64 },
    ForgetMany { pairs: &'a [u8] },
    Attributes { handle: Option<u64> },
    SetAttributes(SetAttributes),
    ReadLink,
    SymLink { name: &'a [u8], text: &'a [u8] },
    MakeNode { name: &'a [u8], mode: u32, device: u32 },
    MakeDirectory { name: &'a [u8], mode: u32 },
    Unlink { name: &'a [u8] },
    RemoveDirectory { name: &'a [u8] },
    Rename { name: &'a [u8], to: u64, to_name: &'a [u8] },
    Link { of: u64, name: &'a [u8] },
    Open { flags: u32 },
    Create { name: &'a [u8], flags: u32, mode: u32 },
    Read { handle: u64, offset: u64, bytes: u32 },
    Write { handle: u64, offset: u64, data: &'a [u8], flags: u32, write_flags: u32 },
    Flush { handle: u64, owner: u64 },
    Release { handle: u64 },
    Sync { handle: u64 },
    Statistics,
    OpenDirectory,
    ReadDirectory { handle: u64, offset: u64, bytes: u32 },
    ReleaseDirectory { handle: u64 },
    SyncDirectory,
    GetLock(Lock),
    SetLock { lock: Lock, wait: bool },
    Access { mask: u32 },
    Seek { handle: u64, offset: u64, whence: u32 },
    Allocate,
    Interrupt { of: Unique },
    Destroy,
    Other { opcode: u32 },
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|word| u64::from_ne_bytes(*word))
}

/// Decodes texts that each end with a NUL.
fn texts<const N: usize>(bytes: &[u8]) -> Option<[&[u8]; N]> {
    let mut rest = bytes;
    let mut found = [&[][..]; N];
    for text in &mut found {
        let end = rest.iter().position(|byte| *byte == 0)?;
        *text = rest.get(..end)?;
        rest = rest.get(end + 1..)?;
    }
    Some(found)
}

fn name(arguments: &[u8], at: usize) -> Option<&[u8]> {
    texts::<1>(arguments.get(at..)?).map(|[name]| name)
}

/// The bytes of a request up to its length. `None` if there are fewer.
fn whole(bytes: &[u8]) -> Option<&[u8]> {
    bytes.get(..u32_at(bytes, 0)? as usize)
}

/// The nodes and counts of a BATCH_FORGET.
pub(crate) fn forgets(pairs: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    pairs.chunks_exact(16).filter_map(|pair| Some((u64_at(pair, 0)?, u64_at(pair, 8)?)))
}

/// Decodes a request. `None` if the bytes are not a whole request.
pub(crate) fn decode(bytes: &[u8]) -> Option<(Header, Operation<'_>)> {
    let bytes = whole(bytes)?;
    let header = Header {
        unique: Unique(u64_at(bytes, 8)?),
        node: u64_at(bytes, 16)?,
        uid: u32_at(bytes, 24)?,
        gid: u32_at(bytes, 28)?,
        pid: u32_at(bytes, 32)?,
    };
    let opcode = u32_at(bytes, 4)?;
    let arguments = bytes.get(HEADER..)?;
    let operation = match opcode {
        1 | 5 | 6 | 8..=13 | 35 => of_names(opcode, arguments)?,
        3 | 4 | 14..=18 | 20 | 25 | 46 => of_files(opcode, arguments)?,
        31..=33 => of_locks(opcode, arguments)?,
        _ => of_the_rest(opcode, arguments)?,
    };
    Some((header, operation))
}

fn of_names(opcode: u32, arguments: &[u8]) -> Option<Operation<'_>> {
    let word = |at| u32_at(arguments, at);
    Some(match opcode {
        1 => Operation::Lookup { name: name(arguments, 0)? },
        5 => Operation::ReadLink,
        6 => {
            let [name, text] = texts(arguments)?;
            Operation::SymLink { name, text }
        }
        // mode, device, umask
        8 => Operation::MakeNode { mode: word(0)?, device: word(4)?, name: name(arguments, 16)? },
        9 => Operation::MakeDirectory { mode: word(0)?, name: name(arguments, 8)? },
        10 => Operation::Unlink { name: name(arguments, 0)? },
        11 => Operation::RemoveDirectory { name: name(arguments, 0)? },
        12 => {
            let [name, to_name] = texts(arguments.get(8..)?)?;
            Operation::Rename { name, to: u64_at(arguments, 0)?, to_name }
        }
        13 => Operation::Link { of: u64_at(arguments, 0)?, name: name(arguments, 8)? },
        // flags, mode, umask, open flags
        _ => Operation::Create { flags: word(0)?, mode: word(4)?, name: name(arguments, 16)? },
    })
}

fn of_files(opcode: u32, arguments: &[u8]) -> Option<Operation<'_>> {
    /// FUSE_GETATTR_FH.
    const BY_HANDLE: u32 = 1;
    let word = |at| u32_at(arguments, at);
    let long = |at| u64_at(arguments, at);
    Some(match opcode {
        3 => Operation::Attributes { handle: if word(0)? & BY_HANDLE != 0 { Some(long(8)?) } else { None } },
        4 => Operation::SetAttributes(set_attributes(arguments)?),
        14 => Operation::Open { flags: word(0)? },
        // READ and WRITE: handle, offset, size, flags of the request, owner of locks, flags of the file
        15 => Operation::Read { handle: long(0)?, offset: long(8)?, bytes: word(16)? },
        16 => {
            let data = arguments.get(40..)?.get(..word(16)? as usize)?;
            Operation::Write { handle: long(0)?, offset: long(8)?, data, write_flags: word(20)?, flags: word(32)? }
        }
        17 => Operation::Statistics,
        18 => Operation::Release { handle: long(0)? },
        20 => Operation::Sync { handle: long(0)? },
        25 => Operation::Flush { handle: long(0)?, owner: long(16)? },
        _ => Operation::Seek { handle: long(0)?, offset: long(8)?, whence: word(16)? },
    })
}

fn set_attributes(arguments: &[u8]) -> Option<SetAttributes> {
    let word = |at| u32_at(arguments, at);
    let valid = word(0)?;
    let given = |bit: u32| valid & 1 << bit != 0;
    let time = |bit, now, seconds, nanoseconds| {
        Some(match (given(bit), given(now)) {
            (false, _) => Time::Keep,
            (true, true) => Time::Now,
            (true, false) => Time::To { seconds: u64_at(arguments, seconds)?.cast_signed(), nanoseconds: word(nanoseconds)? },
        })
    };
    let (handle, size) = (u64_at(arguments, 8)?, u64_at(arguments, 16)?);
    Some(SetAttributes {
        mode: given(0).then_some(word(68)? & 0o7777),
        uid: given(1).then_some(word(76)?),
        gid: given(2).then_some(word(80)?),
        size: given(3).then_some(size),
        atime: time(4, 7, 32, 56)?,
        mtime: time(5, 8, 40, 60)?,
        handle: given(6).then_some(handle),
    })
}

fn of_locks(opcode: u32, arguments: &[u8]) -> Option<Operation<'_>> {
    let (word, long) = (|at| u32_at(arguments, at), |at| u64_at(arguments, at));
    let lock = Lock {
        handle: long(0)?,
        owner: long(8)?,
        start: long(16)?,
        last: long(24)?,
        kind: word(32)?,
        pid: word(36)?,
        flags: word(40)?,
    };
    Some(if opcode == 31 { Operation::GetLock(lock) } else { Operation::SetLock { lock, wait: opcode == 33 } })
}

fn of_the_rest(opcode: u32, arguments: &[u8]) -> Option<Operation<'_>> {
    let word = |at| u32_at(arguments, at);
    let long = |at| u64_at(arguments, at);
    Some(match opcode {
        2 => Operation::Forget { count: long(0)? },
        26 => {
            // Since version 7.36 more flags follow (FUSE_INIT_EXT).
            let (flags, more) = (word(12)?, word(16).unwrap_or(0));
            let more = if flags & 1 << 30 != 0 { u64::from(more) << 32 } else { 0 };
            Operation::Init { major: word(0)?, minor: word(4)?, readahead: word(8)?, flags: u64::from(flags) | more }
        }
        27 => Operation::OpenDirectory,
        28 => Operation::ReadDirectory { handle: long(0)?, offset: long(8)?, bytes: word(16)? },
        29 => Operation::ReleaseDirectory { handle: long(0)? },
        30 => Operation::SyncDirectory,
        34 => Operation::Access { mask: word(0)? },
        36 => Operation::Interrupt { of: Unique(long(0)?) },
        38 => Operation::Destroy,
        42 => Operation::ForgetMany { pairs: arguments.get(8..)?.get(..(word(0)? as usize).checked_mul(16)?)? },
        43 => Operation::Allocate,
        opcode => Operation::Other { opcode },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request with these arguments, of uid 7, gid 8, thread 9.
    fn request(opcode: u32, node: u64, arguments: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [(HEADER + arguments.len()) as u32, opcode] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(5u64.to_ne_bytes());
        bytes.extend(node.to_ne_bytes());
        for word in [7u32, 8, 9, 0] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(arguments);
        bytes
    }

    fn words(values: &[u32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_ne_bytes()).collect()
    }

    #[test]
    fn a_write_is_read_whole_and_nothing_of_one_cut_short() {
        // handle 3, offset 8192, 4 bytes, flags of the request, owner, flags of the file
        let arguments = [words(&[3, 0, 8192, 0, 4, 1, 0, 0, 0x400, 0]), b"data".to_vec()].concat();
        let bytes = request(16, 2, &arguments);
        let (header, operation) = decode(&bytes).unwrap();
        assert_eq!(header, Header { unique: Unique(5), node: 2, uid: 7, gid: 8, pid: 9 });
        let write = Operation::Write { handle: 3, offset: 8192, data: b"data", flags: 0x400, write_flags: 1 };
        assert_eq!(operation, write);
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), None, "{length}");
        }
    }

    #[test]
    fn names_end_at_their_nul_and_one_without_is_no_request() {
        let decoded =
            |opcode, arguments: &[u8]| decode(&request(opcode, 1, arguments)).map(|(_, operation)| format!("{operation:?}"));
        assert_eq!(decode(&request(1, 1, b"file\0")).unwrap().1, Operation::Lookup { name: b"file" });
        assert_eq!(decoded(1, b"file"), None);
        let rename = [words(&[9, 0]), b"old\0new\0".to_vec()].concat();
        let expected = Operation::Rename { name: b"old", to: 9, to_name: b"new" };
        assert_eq!(decode(&request(12, 1, &rename)).unwrap().1, expected);
        assert_eq!(decoded(6, b"name\0"), None, "a link without its text");
    }

    #[test]
    fn a_change_of_attributes_has_what_its_bits_say() {
        let mut arguments = vec![0; 88];
        arguments[..4].copy_from_slice(&(1u32 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 8).to_ne_bytes());
        arguments[16..24].copy_from_slice(&4096u64.to_ne_bytes());
        arguments[32..40].copy_from_slice(&(-5i64).to_ne_bytes());
        arguments[68..72].copy_from_slice(&0o100_644u32.to_ne_bytes());
        let expected = SetAttributes {
            mode: Some(0o644),
            size: Some(4096),
            atime: Time::To { seconds: -5, nanoseconds: 0 },
            mtime: Time::Now,
            ..SetAttributes::default()
        };
        assert_eq!(decode(&request(4, 1, &arguments)).unwrap().1, Operation::SetAttributes(expected));
    }

    #[test]
    fn many_nodes_are_forgotten_in_one_request() {
        let pairs = [7u64, 1, 8, 2].iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>();
        let bytes = request(42, 0, &[words(&[2, 0]), pairs].concat());
        let Some((_, Operation::ForgetMany { pairs })) = decode(&bytes) else { panic!("no BATCH_FORGET") };
        assert_eq!(forgets(pairs).collect::<Vec<_>>(), [(7, 1), (8, 2)]);
        assert_eq!(decode(&request(42, 0, &words(&[2, 0]))), None, "more than there are");
    }
}
