//! The filer: serves volumes over NFS version 3, MOUNT and portmap, all on one TCP port.
//!
//! Bytes flow through three layers. [`session`] turns what was received into call records, [`dispatch`] turns one record
//! into its reply; both know no socket. [`exports`] says what is served and to whom. [`server`] drives them: a thread per connection, a few workers for calls that wait
//! for the medium. [`admin`] answers questions over a local socket, [`metrics`] those of a collector. Nothing a peer sends makes the filer panic or grow
//! past the bounds of [`limits`]; a panic all the same costs its connection, not the process.
#![deny(unsafe_code)]

pub mod admin;
pub mod config;
pub mod connections;
mod latency;
pub mod limits;
mod listener;
pub mod metrics;
pub mod nfs;
pub mod server;
pub mod setup;
mod sharded;
#[expect(unsafe_code, reason = "socket options and signals that the standard library has no call for")]
pub mod sys;
pub mod tls;

pub use listener::{Listener, ListenerRole};
pub use nfs::export::Export;
pub use nfs::filer::{Config, Filer};
pub use nfs::{dispatch, exports, policy};
