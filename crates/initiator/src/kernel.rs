//! LUNs as block devices of this host by the kernel's initiator: open-iscsi logs in, dm-multipath joins several paths.
//!
//! [`why_not`] returns what this host lacks for it. [`log_in`] makes a session over one portal, [`KernelDevice::bring_up`] makes
//! the block device of a LUN over existing sessions, and [`release`] ends a session. The programs and daemons of open-iscsi and
//! multipath-tools do the work. Millrace starts no daemon: that is the task of the host's service manager.
//!
//! **What belongs to others.** open-iscsi has one database of nodes for the complete host, and no other one can be named. So
//! Millrace makes a record only if there is no record for that target and portal. No boot logs in to it, and it is marked;
//! Millrace deletes only marked records. Sessions are identified by their numbers, and only those that a caller names are ended.
//! A session that Millrace made shows no LUN by itself: Millrace names to the kernel the LUN to search for, so that other LUNs of
//! the target do not become disks of this host.
//!
//! **Durability.** The kernel flushes a disk when it is removed. Until then the disk gives the guarantees of any disk.

mod daemons;
mod device;
mod error;
mod lack;
mod multipath;
mod node;
mod program;
mod record;
mod sessions;
mod settings;
mod target;
mod waiting;

pub use device::{KernelDevice, LunOrder, settle};
pub use error::KernelError;
pub use lack::{Lack, why_not};
pub use sessions::{Disk, Session, is_logged_in, sessions_of};
pub use settings::{Portal, Settings};
pub use target::{check_unused, fail_without_paths, log_in, other_devices, release, take_away};
pub use waiting::{Nobody, Waiting};
