//! NFS version 3 with MOUNT and portmap: what the calls of a connection mean.

pub mod access;
pub(crate) mod batch;
pub(crate) mod channels;
pub(crate) mod clients;
pub(crate) mod convert;
pub mod dispatch;
pub(crate) mod export;
pub mod exports;
pub(crate) mod faults;
pub(crate) mod filer;
mod handlers;
pub mod policy;
pub(crate) mod reply_cache;
pub mod stats;
