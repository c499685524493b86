//! NFS version 3 with MOUNT, portmap and the program CHANNEL, as a service on connections.
//!
//! [`service`] takes records from a connection, chooses the thread that executes a call, and sends replies. [`dispatch`]
//! turns one call into its reply with the table of programs ([`handlers`]), each non-idempotent call once ([`exactly_once`]). [`exports`] defines what is served, [`policy`]
//! which clients may use it, [`crate::operations::access`] what a user may do with a file. A new procedure of NFS is a line in [`handlers`] and
//! a function there. A new program is a file there and a line in its table of programs.

mod batch;
mod call;
pub(crate) mod channels;
pub(crate) mod clients;
mod convert;
pub mod dispatch;
pub(crate) mod exactly_once;
pub(crate) mod export;
pub mod exports;
pub(crate) mod faults;
pub(crate) mod filer;
pub(crate) mod handlers;
pub mod policy;
pub mod portmap_datagrams;
pub(crate) mod service;
pub mod stats;
pub(crate) mod views;

pub use service::frame;
