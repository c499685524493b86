//! Login (RFC 7143 6): the parameters that both sides negotiate. The exchange itself is in [`crate::target`] and
//! [`crate::initiator`].

mod keys;
mod name;
mod parameters;
mod status;

/// A key of Millrace in text requests (RFC 7143 6.2.1 allows vendors' keys). Its value is the ISID of another session of the same
/// initiator with the same target, or [`END_FORMER`]. The target ends that session and its tasks. The answer is `Yes` if it has
/// ended or does not exist, and `No` if it has not ended yet.
pub const END_SESSION_KEY: &str = "X-internal.millrace.EndSession";

/// Value of [`END_SESSION_KEY`] for all sessions that the requesting session [succeeds](crate::pdu::Isid::succeeds).
pub const END_FORMER: &str = "Former";

pub use name::{Name, NameError};
pub use parameters::{DigestChoice, Offer, Parameters, SessionType};
pub use status::{LoginStatus, Stage};

pub(crate) use keys::{Answer, Negotiation, is_operational, segment_bytes};
