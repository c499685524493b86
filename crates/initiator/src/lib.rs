//! iSCSI initiator: one LUN over one or several portals.
//!
//! One thread owns a [`Device`]. [`Device::submit`] queues a command. [`Device::turn`] sends what the targets' windows accept,
//! receives, and maintains the paths. [`Device::completed`] returns a command that ended. [`Blocking`] is the same for programs
//! that do one thing at a time. [`discover()`] asks a portal for its targets.
//!
//! **Paths.** Each portal has its own session (RFC 7143, ErrorRecoveryLevel 0, one connection). A command goes to the path with
//! the best ALUA state and, among these, the fewest commands in progress. The initiator closes a path that breaks, or that
//! answers neither commands nor a NOP-Out. It resends the path's commands over another one, and retries the path until it
//! answers. While there is no path, commands wait for [`Options::replacement_timeout`], then fail.
//!
//! **Order.** Commands in progress together have no order. To write a block twice in order, submit the second write when the
//! first has completed.
//!
//! **Durability.** A write to a LUN without a write cache is durable when it completes. With a write cache it is durable after a
//! [`Command::Flush`] that was submitted later, or if it had FUA set. Until then the initiator keeps its data, up to
//! [`Options::retained_bytes_max`], and writes it again if the target reports that it lost power (sense 29h/01h). If it cannot,
//! every command fails from then on: the LUN does not contain what was written.
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
