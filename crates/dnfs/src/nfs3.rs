//! NFS version 3 (RFC 1813): the only part of this crate that sees its structures and procedures.
//!
//! [`client`] and its siblings are the calls of one export, and [`protocol`] makes them a [`crate::FileProtocol`]. The RPC engine
//! learns from [`procedures`] what it has to know of a call; [`read_reply`] recognises the usual reply of a READ.

pub(crate) mod client;
mod commit;
mod directory;
pub(crate) mod export;
mod gone;
mod io;
mod io_codec;
pub(crate) mod procedures;
mod protocol;
pub(crate) mod read_reply;
mod single_call;
pub(crate) mod types;

#[cfg(test)]
pub(crate) const fn io_codec() -> &'static crate::io_codec::IoCodec {
    &io_codec::IO_CODEC
}
