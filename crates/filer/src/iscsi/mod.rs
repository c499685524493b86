//! iSCSI: targets for the LUNs of volumes, a service on the connections of the filer.
//!
//! One target is one volume: its LUNs are lost, quiesced and copied together, and an initiator that is logged in sees a new one
//! without another login. [`iscsi`] is what all connections share, [`session`] one connection; protocol and command set are those
//! of `iscsi-proto`.

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
mod session;
mod sessions;
pub mod settings;
mod targets;
mod worker;

pub(crate) use faults::name as command_name;
pub(crate) use iscsi::Iscsi;
pub(crate) use service::IscsiService;
pub use settings::{Group, Portal, Settings, User};
pub(crate) use targets::Target;
