//! TLS for RPC (RFC 9289): certificates, the handshake, and protected records of TLS 1.3, as bytes.
//!
//! rustls checks certificates and agrees on keys. Then [`Sealer`] and [`Opener`] encrypt and decrypt the data with these
//! keys. Each is used by one thread at a time and allocates nothing for a record; they share only the next keys. The crate
//! uses no socket, file or clock: the caller passes the content of files, a clock, and a [`Wire`].
//!
//! It never uses TLS before 1.3, early data or resumed sessions, and never accepts a certificate that no trusted
//! certificate has signed, directly or through others.
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
