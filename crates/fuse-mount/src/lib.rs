//! Mounts an NFS export as a FUSE file system of this host, for programs that the preload library cannot reach.
//!
//! It is one more process of the mount that `dnfs` keeps for this host. It shares sizes, attributes, write verifiers, unstable
//! data, locks and files that are removed while open with the programs under `millrace exec`. The kernel caches neither data
//! nor attributes nor names. Each request is a call of [`dnfs::mount::Mount`], made as the user of the caller.
//!
//! This crate implements the FUSE protocol itself. On a hard mount a process that waits for its server must be killable, which
//! needs a reply to FUSE_INTERRUPT; the common Rust library, fuser, answers that with ENOSYS.
//!
//! - `protocol`: requests and replies as bytes; `device`: /dev/fuse.
//! - `server`: threads that take requests; `pending`: the requests in progress, and signals of their callers.
//! - `operations`: requests as calls of the mount, on `nodes`, `handles`, `users`, `locks`, `wal_indexes` and `recent`.
//! - [`mod@mounting`]: mounting and unmounting, as root and by fusermount3.
#![forbid(unsafe_code)]

mod caller;
mod device;
mod error;
mod handles;
mod inode_numbers;
mod limits;
mod locks;
mod mount_table;
pub mod mounting;
mod nodes;
mod open_file;
mod operations;
mod pending;
mod protocol;
mod recent;
mod server;
mod users;
mod wal_indexes;

pub use error::MountError;
pub use mount_table::resolved;
pub use server::Server;
