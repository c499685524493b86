//! Login (RFC 7143 6): what both sides negotiate. The exchange itself is in [`crate::target`] and [`crate::initiator`].

mod keys;
mod name;
mod parameters;
mod status;

/// A key of our own in text requests (RFC 7143 6.2.1 lets vendors have such): its value is the ISID of another session of the same
/// initiator with the same target, which is to be ended with its tasks, or [`END_FORMER`]. `Yes`: it has ended, or there is none;
/// `No`: not yet.
pub const END_SESSION_KEY: &str = "X-internal.millrace.EndSession";

/// Value of [`END_SESSION_KEY`] for all sessions of which the asking one [is the successor](crate::pdu::Isid::succeeds).
pub const END_FORMER: &str = "Former";

pub use name::{Name, NameError};
pub use parameters::{DigestChoice, Offer, Parameters, SessionType};
pub use status::{LoginStatus, Stage};

pub(crate) use keys::{Answer, Negotiation, is_operational, segment_bytes};
