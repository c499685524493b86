//! iSCSI (RFC 7143) and SCSI (SAM-5, SPC-4, SBC-3) without I/O: bytes in, bytes and events out.
//!
//! [`pdu`] and [`text`] are codecs; [`login`] and [`chap`] are what both sides negotiate; [`target`] is one connection of a target,
//! [`initiator`] one of an initiator, at ErrorRecoveryLevel 0 with one connection a session. [`scsi`] is the command set: CDBs, sense
//! data, and what a logical unit remembers. Nothing here has a socket, a file, a clock or a thread; what a peer sends is bounded by
//! [`limits`] and never panics.
#![forbid(unsafe_code)]

pub mod chap;
mod fault;
pub mod initiator;
pub mod limits;
pub mod login;
pub mod pdu;
pub mod scsi;
pub mod serial;
pub mod target;
pub mod text;
