//! The settings of a login.

use crate::chap::{Algorithm, Credential};
use crate::login::{Name, Offer};
use crate::pdu::Isid;
use crate::target::Challenge;

/// Who logs in to what, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The initiator's name.
    pub name: Name,
    /// Its number of the session.
    pub isid: Isid,
    /// The target; none for a discovery session.
    pub target: Option<Name>,
    /// What is offered.
    pub offer: Offer,
    /// What this side proves itself by.
    pub credential: Option<Credential>,
    /// The credential of the target, for mutual CHAP.
    pub target_credential: Option<Credential>,
    /// The CHAP algorithms to offer, the preferred one first.
    pub algorithms: Vec<Algorithm>,
    /// For mutual CHAP: random bytes that no other login uses.
    pub challenge: Challenge,
}
