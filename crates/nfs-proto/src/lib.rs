//! Codecs for XDR (RFC 4506), ONC RPC (RFC 5531), portmap v2 (RFC 1833), MOUNT v3 and NFS v3 (RFC 1813), and the part of
//! NLM v4 that refuses locks.
//!
//! This crate converts bytes to values and values to bytes. It has no sockets, files, clocks or threads. Bytes from a peer
//! never make it panic: malformed bytes give an [`xdr::DecodeError`] that names the field and its offset. Decoded payloads
//! are borrowed from the received record. Encoding appends to a buffer that the caller keeps, so a small call allocates nothing.
#![forbid(unsafe_code)]

pub mod channel1;
pub mod limits;
pub mod mount3;
pub mod nfs3;
pub mod nlm4;
pub mod portmap2;
pub mod record;
pub mod rpc;
pub mod xdr;
