//! The FUSE protocol (include/uapi/linux/fuse.h of Linux, version 7): requests and replies as bytes in the host's order.
//!
//! A request has a header of 40 bytes (length, opcode, unique, node, uid, gid, pid, …), then the arguments of its operation. A
//! reply has a header of 16 bytes (length, error, unique), then the result. Nodes are numbers that this side assigns.

pub(crate) mod init;
pub(crate) mod reply;
pub(crate) mod request;

/// The node of the root.
pub(crate) const ROOT: u64 = 1;

/// The number of a request, which its reply repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Unique(pub(crate) u64);

/// The lock is one of flock(2) (FUSE_LK_FLOCK).
pub(crate) const LOCK_FLOCK: u32 = 1;
/// The WRITE has pages that a program changed through a mapping (FUSE_WRITE_CACHE).
pub(crate) const WRITE_CACHE: u32 = 1;
/// The OPEN is for execve(2): FMODE_EXEC of Linux, for which open(2) has no name.
pub(crate) const OPEN_EXEC: u32 = 0x20;
