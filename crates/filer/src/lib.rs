//! The filer: serves volumes over NFS version 3 with MOUNT and portmap on one TCP port, and their LUNs over iSCSI on others.
//!
//! [`connections`] handles connections for all protocols: accepting, TLS, buffers, workers, stopping. [`nfs`] and [`iscsi`]
//! are its services. [`server`] starts them, [`admin`] administers a running filer over a local socket, and [`metrics`]
//! serves counters to a collector. No peer can make the filer panic or exceed [`limits`]. If a connection panics
//! nevertheless, only that connection ends.
#![deny(unsafe_code)]

pub mod admin;
pub mod config;
pub mod connections;
mod episode;
pub mod iscsi;
mod latency;
pub mod limits;
mod listener;
mod luns;
pub mod metrics;
pub mod nfs;
pub mod operations;
mod paced;
pub mod server;
pub mod setup;
mod sharded;
#[expect(
    unsafe_code,
    reason = "signals to be awaited and the allocator, for which neither the standard library nor rustix has a call"
)]
pub mod sys;
pub mod tls;

pub use listener::{Listener, ListenerRole, address_or_port};
pub use nfs::export::Export;
pub use nfs::filer::{Config, Filer};
pub use nfs::{dispatch, exports, policy};
