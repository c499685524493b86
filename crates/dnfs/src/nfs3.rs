//! NFS version 3 (RFC 1813): the only part of this crate that sees its structures and procedures.
//!
//! [`client`] and its siblings are the calls of one export. The RPC engine learns from [`procedures`] what it has to know of a call, and
//! receives the data of a READ by [`read_reply`].

pub(crate) mod async_calls;
pub(crate) mod client;
mod commit;
mod directory;
pub(crate) mod export;
mod gone;
pub(crate) mod io;
mod names;
pub(crate) mod pipeline;
pub(crate) mod procedures;
pub(crate) mod read;
pub(crate) mod read_reply;
mod single_call;
pub(crate) mod types;
