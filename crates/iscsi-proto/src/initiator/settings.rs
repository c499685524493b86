//! The settings of a login.

use crate::chap::{Algorithm, Credential};
use crate::login::{Name, Offer};
use crate::pdu::Isid;
use crate::target::Challenge;

/// The settings of a login.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The initiator's name.
    pub name: Name,
    /// The initiator's part of the session identifier.
    pub isid: Isid,
    /// The target. `None` for a discovery session.
    pub target: Option<Name>,
    /// The parameters that the initiator offers.
    pub offer: Offer,
    /// The credential with which the initiator authenticates itself.
    pub credential: Option<Credential>,
    /// The credential of the target, for mutual CHAP.
    pub target_credential: Option<Credential>,
    /// The CHAP algorithms to offer, the preferred one first.
    pub algorithms: Vec<Algorithm>,
    /// Random bytes for mutual CHAP, which no other login uses.
    pub challenge: Challenge,
}
