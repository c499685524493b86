//! iSCSI: the LUNs of each volume as a target. A service on the connections of the filer.
//!
//! Each volume is one target: its LUNs are lost, quiesced and copied together. An initiator that is logged in sees a new LUN
//! without another login. [`iscsi`] holds the state of all connections, [`service`] that of one connection. Protocol and command
//! set are in `iscsi-proto`.

mod attached;
mod command;
pub(crate) mod faults;
#[expect(clippy::module_inception, reason = "the protocol's name")]
mod iscsi;
mod kinds;
mod memory;
mod place;
mod refused_logins;
mod service;
mod sessions;
pub mod settings;
mod targets;
mod worker;

pub(crate) use faults::name as command_name;
pub(crate) use iscsi::Iscsi;
pub(crate) use service::IscsiService;
pub use settings::{Group, Portal, Settings, User};
pub(crate) use targets::Target;
