//! The filer: serves volumes over NFS version 3, MOUNT and portmap, all on one TCP port.
//!
//! [`connections`] is what every protocol needs of a connection and knows none: accepting, TLS, buffers, workers, stopping.
//! [`nfs`] is a service on it. [`server`] puts the two together; [`admin`] administers a running filer over a local socket,
//! [`metrics`] answers a collector. Nothing a peer sends makes the filer panic or grow past the bounds of [`limits`]; a panic
//! all the same costs its connection, not the process.
#![deny(unsafe_code)]

pub mod admin;
pub mod config;
pub mod connections;
pub mod iscsi;
mod latency;
pub mod limits;
mod listener;
mod luns;
pub mod metrics;
pub mod nfs;
pub mod server;
pub mod setup;
mod sharded;
#[expect(
    unsafe_code,
    reason = "signals to be awaited and the allocator, for which neither the standard library nor rustix has a call"
)]
pub mod sys;
pub mod tls;

pub use listener::{Listener, ListenerRole};
pub use nfs::export::Export;
pub use nfs::filer::{Config, Filer};
pub use nfs::{dispatch, exports, policy};
