//! NFS version 3 with MOUNT, portmap and the program CHANNEL, as a service on connections.
//!
//! [`service`] takes records from a connection, decides which thread carries a call out and sends replies. [`dispatch`] turns
//! one call into its reply by the table of programs ([`handlers`]); [`exports`] says what is served, [`policy`] to whom,
//! [`access`] what a user may do with a file. A procedure of NFS is a line in [`handlers`] and a function there; another
//! program is a file there and a line in its table of programs.

pub mod access;
mod batch;
mod call;
pub(crate) mod channels;
pub(crate) mod clients;
mod convert;
pub mod dispatch;
pub(crate) mod export;
pub mod exports;
pub(crate) mod faults;
pub(crate) mod filer;
mod handlers;
pub mod policy;
pub mod portmap_datagrams;
pub(crate) mod reply_cache;
mod reply_order;
pub(crate) mod service;
pub mod stats;
pub(crate) mod views;

pub use service::frame;
