//! iSCSI (RFC 7143) and SCSI (SAM-5, SPC-4, SBC-3) without I/O: takes bytes, and returns bytes and events.
//!
//! [`pdu`] and [`text`] are codecs. [`login`] and [`chap`] have the negotiation of both sides. [`target`] is one connection of a
//! target and [`initiator`] one of an initiator, at ErrorRecoveryLevel 0 with one connection per session. [`scsi`] is the command
//! set: CDBs, sense data, and the state of a logical unit. This crate has no socket, file, clock or thread. [`limits`] bound what a
//! peer may send, and no input of a peer causes a panic.
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
