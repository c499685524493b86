//! A LUN as a block device of this host: a FUSE file of the LUN's size, and a loop device with direct I/O on it. Also what is
//! done with a [`BlockDevice`] that either initiator made, this one or the kernel's ([`crate::kernel`]).
//!
//! [`Server::mount`] mounts a file system with one file, [`FILE`]. [`Server::run`] is then the one thread that owns the
//! [`Device`](crate::Device). It reads the kernel's requests from /dev/fuse, which wakes it as its sockets do, submits them, and
//! answers them when their commands complete. A successful reply guarantees what the completion of the command guarantees (see
//! the crate's page): with a write cache, only fsync makes data durable.
//!
//! While no path is up, requests wait as commands do. When the process that serves them ends, the kernel answers all requests
//! with an error, also those in progress. The loop device then returns EIO, and must be removed.

mod block_device;
pub(crate) mod btrfs;
mod channel;
mod error;
mod file_system;
mod held;
mod loop_device;
mod mounts;
pub(crate) mod partitions;
mod pending;
mod program;
mod protocol;
mod server;
pub(crate) mod users;

pub use block_device::BlockDevice;
pub use btrfs::{Member, update_in_place};
pub use error::AttachError;
pub use file_system::{Content, FileSystem, is_mount, mount, unmount, users};
pub use held::keep_in_memory;
pub use loop_device::LoopDevice;
pub use mounts::{Mount, mounts};
pub use server::{Activity, Server, Stop};

/// The name of the file that is the LUN.
pub const FILE: &str = "lun";

/// Bytes of one request of the kernel, which splits longer ones. Most targets accept that in one command.
const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Asynchronous requests that the kernel may have in progress: four times as many as a loop device has.
const BACKGROUND_MAX: u16 = 512;
/// Requests that are read from the kernel before the first of them is answered: more than the asynchronous ones, and one of each
/// thread that waits for its own. They have buffers of up to [`REQUEST_BYTES_MAX`].
const REQUESTS_MAX: usize = 1024;
/// Commands that one request may become. A loop device discards up to 4 GiB at once, which are 256 commands of 16 MiB.
const PARTS_MAX: u64 = 4096;

const _: () = assert!(BACKGROUND_MAX as usize <= REQUESTS_MAX);
