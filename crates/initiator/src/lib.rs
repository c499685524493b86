//! iSCSI initiator: one LUN over one or several portals.
//!
//! A [`Device`] is owned by one thread. [`Device::submit`] queues a command, [`Device::turn`] sends what the targets' windows take,
//! receives what came and keeps the paths, [`Device::completed`] hands over what ended. [`Blocking`] is the same for programs that do
//! one thing at a time, [`discover()`] asks a portal for its targets.
//!
//! **Paths.** Each portal is a session of its own (RFC 7143, ErrorRecoveryLevel 0, one connection). A command goes to the path with
//! the best ALUA state and, among these, the fewest commands under way. A path that breaks, or that answers neither commands nor a
//! NOP-Out, is closed; its commands are resent over another one, and it is tried again until it answers. While there is no path,
//! commands wait for [`Options::replacement_timeout`], then fail.
//!
//! **Order.** Commands under way together have no order: whoever wants two writes of a block in order submits the second when the
//! first has completed.
//!
//! **Durability.** A write to a LUN without a write cache is durable when it completes. With a write cache it is durable after a
//! [`Command::Flush`] that was submitted later, or when it asked for FUA. Until then its data are kept here, up to
//! [`Options::retained_bytes_max`], and written again where the target reports that it lost power (sense 29h/01h). If they cannot be, every
//! command fails from then on: what is on the LUN is not what was written.
#![forbid(unsafe_code)]

pub mod attach;
mod attempt;
mod blocking;
mod cdb;
mod command;
mod connection;
mod device;
mod discover;
mod error;
mod identity;
pub mod kernel;
mod naming;
mod options;
mod path;
mod path_events;
mod path_report;
mod probe;
mod retention;
mod sense;
mod socket;
mod turn;
mod units;
mod url;
mod work;

pub use blocking::Blocking;
pub use command::{Command, Completion, Failure};
pub use device::Device;
pub use discover::{Discovered, discover};
pub use error::{Error, Redirect};
pub use identity::{Geometry, Identity};
pub use naming::default_name;
pub use options::Options;
pub use path_report::{AccessState, PathReport, PathState};
pub use sense::SenseCode;
pub use turn::Turn;
pub use units::Units;
pub use url::{IscsiUrl, UrlError};
