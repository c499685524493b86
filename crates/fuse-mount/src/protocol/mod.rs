//! The FUSE protocol (include/uapi/linux/fuse.h of Linux, version 7): requests and replies as bytes in the host's order.
//!
//! A request has a header of 40 bytes (length, opcode, unique, node, uid, gid, pid, …), then the arguments of its operation. A
//! reply has one of 16 (length, error, unique), then the result. Nodes are numbers that this side gives out.

pub(crate) mod init;
pub(crate) mod reply;
pub(crate) mod request;

/// The node of the root.
pub(crate) const ROOT: u64 = 1;

/// A request, as its answer names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Unique(pub(crate) u64);

/// SETLK is about flock(2) (FUSE_LK_FLOCK).
pub(crate) const LOCK_FLOCK: u32 = 1;
/// A WRITE of pages that a program changed through a mapping (FUSE_WRITE_CACHE).
pub(crate) const WRITE_CACHE: u32 = 1;
/// OPEN is for execve(2): FMODE_EXEC of Linux, which open(2) has no name for.
pub(crate) const OPEN_EXEC: u32 = 0x20;
