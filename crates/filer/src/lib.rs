//! The filer: serves volumes over NFS version 3, MOUNT and portmap, all on one TCP port.
//!
//! Bytes flow through three layers. [`session`] turns what was received into call records, [`dispatch`] turns one record
//! into its reply; both know no socket. [`exports`] says what is served and to whom. [`server`] drives them: a thread per connection, a few workers for calls that wait
//! for the medium. [`admin`] answers questions over a local socket, [`metrics`] those of a collector. Nothing a peer sends makes the filer panic or grow
//! past the bounds of [`limits`]; a panic all the same costs its connection, not the process.
#![deny(unsafe_code)]

pub mod access;
pub mod admin;
mod admission;
mod batch;
mod buffers;
mod channels;
mod clients;
pub mod config;
mod connection;
mod convert;
pub mod dispatch;
mod export;
pub mod exports;
mod faults;
mod filer;
mod handlers;
mod held;
mod latency;
pub mod limits;
mod manage;
pub mod metrics;
pub mod policy;
mod progress;
mod queue;
mod replies;
mod reply_cache;
pub mod server;
pub mod session;
pub mod setup;
mod spread;
pub mod stats;
#[expect(unsafe_code, reason = "socket options and signals that the standard library has no call for")]
pub mod sys;
pub mod tls;
mod transport;
mod workers;

pub use export::Export;
pub use filer::{Config, Filer};
