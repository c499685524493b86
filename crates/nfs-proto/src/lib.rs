//! XDR (RFC 4506), ONC RPC (RFC 5531), portmap v2 (RFC 1833), NLM v4 as far as it refuses locks, MOUNT v3 and NFS v3 (RFC 1813): codecs and session state.
//!
//! Layer 0: bytes in, values out and back. No sockets, files, clocks or threads, and nothing here panics on what a peer
//! sent: malformed bytes become a [`xdr::DecodeError`] that names the field and its offset. Payloads are borrowed from
//! the received record; encoding appends to a buffer the caller keeps, so a small call allocates nothing.
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
