//! LUNs as block devices of this host by the kernel's initiator: open-iscsi logs in, dm-multipath stands above several paths.
//!
//! [`why_not`] says what this host lacks for it. [`log_in`] makes a session over one portal, [`KernelDevice::bring_up`] the block device of a LUN
//! over the sessions that there are, [`release`] ends a session. The programs and daemons of open-iscsi and multipath-tools do the work; no
//! daemon is started here, for that is the host's service manager's.
//!
//! **What belongs to others.** open-iscsi has one database of nodes for the whole host, and no other can be named. So a record is made only where
//! there is none for that target and portal, no boot logs in to it, and it is marked; only marked records are deleted. Sessions are known
//! by their numbers, and only those that a caller names are ended. A session made here shows no LUN by itself: the kernel is told which
//! one to look for, so that others of the target do not become disks of this host.
//!
//! **Durability.** A disk of the kernel is flushed when it is removed; until then what holds for any disk holds.

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
