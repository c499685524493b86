//! TLS for RPC (RFC 9289): trust, the handshake, and protected records of TLS 1.3, as bytes in and bytes out.
//!
//! rustls checks certificates and agrees on keys; then it hands the keys over, and [`Sealer`] and [`Opener`] carry the
//! data: each the property of one thread at a time, neither allocating for a record. They share the next keys only. No
//! socket, no file and no clock here: the caller passes what was read, what the time is, and a [`Wire`].
//!
//! Never: TLS before 1.3, early data, resumed sessions, a peer's certificate that does not lead to a trusted one.
#![forbid(unsafe_code)]

mod error;
mod handshake;
mod incoming;
mod keys;
pub mod limits;
mod open;
mod pem;
mod seal;
mod setup;
mod validity;

pub use error::{RecordFault, SetupError, TlsFault};
pub use handshake::{Session, Wire};
pub use incoming::{Incoming, Taken};
pub use open::{Opened, Opener};
pub use pem::Pem;
pub use seal::{Sealed, Sealer};
pub use setup::{ClientTls, Clock, Identity, PeerName, ServerTls};
pub use validity::{Lifetime, Validity};

/// Name of RPC in the protocol negotiation of TLS (RFC 9289 8.2).
pub const ALPN: &[u8] = b"sunrpc";
